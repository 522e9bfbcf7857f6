/* graph_diff.c - the steps of `reprise graph --diff`: open both graphs, match their nodes, print. */
#include "cli/diff/graph_diff.h"

#include "cli/common.h"
#include "cli/diff/diff.h"
#include "cli/page/page.h"

/* Prints to a file, which is written as a whole or not at all. */
static RpStatus print(const DiffGraph g[2], const DiffOutput *output) {
    RpNewFile *file;
    FILE      *out;
    if (output->html != NULL) return cli_page_diff(&g[0], &g[1], output->html);
    RP_TRY(cli_open_output(output->path, &file, &out));
    const RpStatus st = output->json ? cli_diff_print_json(&g[0], &g[1], out) : cli_diff_print(&g[0], &g[1], out);
    return cli_close_output(file, st);
}

RpStatus cli_graph_diff(const char *const texts[2], const GraphSource *defaults, const DiffOutput *output, bool *same) {
    DiffGraph g[2] = {0};
    RpStatus  st   = RP_OK;
    for (int i = 0; i < 2 && st == RP_OK; i++) st = cli_diff_open(texts[i], defaults, &g[i]);
    if (st == RP_OK) st = cli_diff_match(&g[0], &g[1]);
    if (st == RP_OK) {
        const DiffCounts c = cli_diff_count(&g[0], &g[1]);
        *same              = c.added + c.removed + c.changed == 0;
        st                 = print(g, output);
    }
    for (int i = 0; i < 2; i++) cli_diff_free(&g[i]);
    return st;
}
