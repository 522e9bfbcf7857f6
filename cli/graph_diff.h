/* graph_diff.h - `reprise graph --diff`. */
#ifndef CLI_GRAPH_DIFF_H
#define CLI_GRAPH_DIFF_H

#include "cli/graph_source.h"

/* Compares what the two texts name and prints it to `output`, NULL: stdout. */
RP_NODISCARD RpStatus cli_graph_diff(const char *const texts[2], const GraphSource *defaults, bool json,
                                     const char *output, bool *same);

#endif
