/* experts.h - how evenly the experts of each layer were chosen. */
#ifndef CLI_EXPERTS_H
#define CLI_EXPERTS_H

#include "reprise/session.h"

#include <stdio.h>

/* A line a layer: a bar for each expert, as high as its share of the most chosen one's, and the three most
 * chosen. */
void cli_experts_print(const Session *s, FILE *out);

/* ,"experts":[[counts of layer 0], ...], null for a layer without experts. */
void cli_experts_json(const Session *s, FILE *out);

#endif
