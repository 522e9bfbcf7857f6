/* experts.h - prints how often each expert of a layer was chosen. */
#ifndef CLI_EXPERTS_H
#define CLI_EXPERTS_H

#include "reprise/session.h"

#include <stdio.h>

/* One line per layer: a bar for each expert, scaled to the most chosen one, and the three most chosen
 * experts with their share of all choices. */
void cli_experts_print(const RpSession *s, FILE *out);

/* Prints ,"experts":[[counts of layer 0], ...] with null for layers without experts. */
void cli_experts_json(const RpSession *s, FILE *out);

#endif
