/* json.h - strings as JSON wants them. */
#ifndef GRAPH_JSON_H
#define GRAPH_JSON_H

#include <stdio.h>

/* Quoted and escaped. */
void rp_json_string(FILE *out, const char *text);

#endif
