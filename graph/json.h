/* json.h - JSON strings for the dumps. */
#ifndef GRAPH_JSON_H
#define GRAPH_JSON_H

#include <stdio.h>

/* Writes `text` as a JSON string, with quotes and escapes. Valid UTF-8 stays as it is. */
void rp_json_string(FILE *out, const char *text);

#endif
