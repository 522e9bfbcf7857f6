/* graph_diff.h - `reprise graph --diff`. */
#ifndef CLI_DIFF_GRAPH_DIFF_H
#define CLI_DIFF_GRAPH_DIFF_H

#include "cli/diff/graph_source.h"

/* Opens the graphs that texts[0] and texts[1] name (see cli_diff_open) and prints their differences to the
 * file `output`, NULL: stdout. *same: there are none. */
RP_NODISCARD RpStatus cli_graph_diff(const char *const texts[2], const GraphSource *defaults, bool json,
                                     const char *output, bool *same);

#endif
