/* graph_diff.h - `reprise graph --diff`. */
#ifndef CLI_DIFF_GRAPH_DIFF_H
#define CLI_DIFF_GRAPH_DIFF_H

#include "cli/diff/graph_source.h"

typedef struct DiffOutput {
    bool        json;
    const char *path; /* of text or JSON; NULL: stdout */
    const char *html; /* instead of text or JSON, a page is written to this file, unless it is NULL */
} DiffOutput;

/* Opens the graphs that texts[0] and texts[1] name (see cli_diff_open) and writes their differences. *same: there are
 * none. */
RP_NODISCARD RpStatus cli_graph_diff(const char *const texts[2], const GraphSource *defaults, const DiffOutput *output,
                                     bool *same);

#endif
