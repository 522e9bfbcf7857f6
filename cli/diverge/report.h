/* report.h - what a walk has found: as text, JSON, a plot and a drawing of the graph. */
#ifndef CLI_DIVERGE_REPORT_H
#define CLI_DIVERGE_REPORT_H

#include "cli/diverge/walk.h"

RP_NODISCARD RpStatus cli_diverge_text(const Divergence *w, FILE *out);
void                  cli_diverge_json(const Divergence *w, FILE *out);

/* The relative difference at the end of each layer, on a scale of powers of ten. RP_E_NOMEM. */
RP_NODISCARD RpStatus cli_diverge_svg(const Divergence *w, FILE *out);

/* A's graph of the step for Graphviz; nodes that differ are the redder the larger the difference. Errors of
 * rp_graph_dump. */
RP_NODISCARD RpStatus cli_diverge_dot(const Divergence *w, FILE *out);

#endif
