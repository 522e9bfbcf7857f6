/* columns.h - text in columns that are as wide as their widest cell. The rows are formatted twice: first to measure
 * them, then to print them.
 *
 *   Columns c = {.right = "rrl"};                      // r: to the right, l: to the left
 *   const char *cells[] = {"step", "bytes", "name"};
 *   columns_measure(&c, cells);  ...  columns_print(&c, cells, out); */
#ifndef GRAPH_COLUMNS_H
#define GRAPH_COLUMNS_H

#include "base/text/visible.h"

enum { MAX_COLUMNS = 12 };

typedef struct Columns {
    const char *right; /* one letter for each column */
    int         width[MAX_COLUMNS];
} Columns;

static inline void columns_measure(Columns *c, const char *const *cells) {
    for (int i = 0; c->right[i] != '\0'; i++) {
        const int width = rp_visible_width(cells[i]);
        if (width > c->width[i]) c->width[i] = width;
    }
}

/* Two spaces between columns; no newline, and no spaces after the last cell. */
static inline void columns_print(const Columns *c, const char *const *cells, FILE *out) {
    for (int i = 0; c->right[i] != '\0'; i++) {
        const int pad = c->width[i] - rp_visible_width(cells[i]);
        if (c->right[i] == 'r') fprintf(out, "%*s", pad, "");
        rp_put_visible(cells[i], out);
        if (c->right[i + 1] != '\0') fprintf(out, "%*s", (c->right[i] == 'r' ? 0 : pad) + 2, "");
    }
}

#endif
