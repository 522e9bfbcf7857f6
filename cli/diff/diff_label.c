/* diff_label.c - names a node in a report. A node without a name is described by its first source, and so on until
 * there is a name: "view of copy blk.0.k_store". */
#include "cli/diff/diff.h"

#include <stdio.h>

void cli_diff_label(const DiffGraph *g, int i, char *buf, size_t size) {
    size_t at = 0;
    if (i < 0) {
        snprintf(buf, size, "none");
        return;
    }
    for (; at < size && g->nodes[i].name[0] == '\0' && g->nodes[i].n_src > 0 && g->nodes[i].src[0] >= 0;
         i = g->nodes[i].src[0])
        at += (size_t)snprintf(buf + at, size - at, "%s of ", g->nodes[i].op);
    const DiffNode *n = &g->nodes[i];
    if (at >= size) return;
    snprintf(buf + at, size - at, "%s%s%s", n->leaf ? "" : n->op, n->leaf || n->name[0] == '\0' ? "" : " ", n->name);
}
