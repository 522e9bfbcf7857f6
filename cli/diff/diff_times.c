/* diff_times.c - compares the times of two graphs by op and by node, if both are dumps of `reprise profile
 * --json`. */
#include "cli/diff/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPS = 64, MAX_PRINTED = 10 };

typedef struct OpTimes {
    const char *op;
    int         n[2];
    double      us[2];
} OpTimes;

typedef struct NodeTimes {
    int    i, k; /* indices in a and b; -1: not there */
    double us[2];
} NodeTimes;

static double change(const double us[2]) { return fabs(us[1] - us[0]); }

static int by_op_change(const void *a, const void *b) {
    const double x = change(((const OpTimes *)a)->us), y = change(((const OpTimes *)b)->us);
    return (x < y) - (x > y);
}

static int by_node_change(const void *a, const void *b) {
    const NodeTimes *p = a, *q = b;
    const double     x = change(p->us), y = change(q->us);
    return x != y ? (x < y) - (x > y) : (p->k > q->k) - (p->k < q->k);
}

static int add_ops(const DiffGraph *g, int side, OpTimes ops[MAX_OPS], int n) {
    for (int i = 0; i < g->n; i++) {
        int k = 0;
        if (!g->nodes[i].kernel) continue;
        while (k < n && strcmp(ops[k].op, g->nodes[i].op) != 0) k++;
        if (k == MAX_OPS) continue;
        if (k == n) ops[n++] = (OpTimes){.op = g->nodes[i].op};
        ops[k].n[side]++;
        ops[k].us[side] += g->nodes[i].us;
    }
    return n;
}

/* All nodes of both graphs, pairs once, the largest change first. */
static int list_nodes(const DiffGraph *a, const DiffGraph *b, NodeTimes *out) {
    int n = 0;
    for (int k = 0; k < b->n; k++) {
        const int i = b->nodes[k].partner;
        out[n++]    = (NodeTimes){
               i, k, {i >= 0 ? a->nodes[i].us : 0.0, b->nodes[k].us}
        };
    }
    for (int i = 0; i < a->n; i++)
        if (a->nodes[i].partner < 0)
            out[n++] = (NodeTimes){
                i, -1, {a->nodes[i].us, 0.0}
            };
    qsort(out, (size_t)n, sizeof *out, by_node_change);
    return n;
}

static void put_nodes(const DiffGraph *a, const DiffGraph *b, const NodeTimes *nodes, int n, FILE *out) {
    fprintf(out, "%-40s %10s %10s %10s\n", "node", "a us", "b us", "change");
    for (int j = 0; j < n && j < MAX_PRINTED && change(nodes[j].us) > 0.0; j++) {
        char             label[256];
        const NodeTimes *t = &nodes[j];
        cli_diff_label(t->k >= 0 ? b : a, t->k >= 0 ? t->k : t->i, label, sizeof label);
        fprintf(out, "%-40s %10.2f %10.2f %+10.2f%s\n", label, t->us[0], t->us[1], t->us[1] - t->us[0],
                t->k < 0   ? "  removed"
                : t->i < 0 ? "  added"
                           : "");
    }
}

void cli_diff_print_times(const DiffGraph *a, const DiffGraph *b, FILE *out) {
    OpTimes ops[MAX_OPS];
    if (a->us <= 0.0 || b->us <= 0.0) return;
    const int n = add_ops(b, 1, ops, add_ops(a, 0, ops, 0));
    qsort(ops, (size_t)n, sizeof *ops, by_op_change);
    fprintf(out, "\ntime of the steps %.1f -> %.1f us (%+.1f %%)\n", a->us, b->us,
            100.0 * (b->us / a->us - 1.0));
    fprintf(out, "%-12s %8s %8s %10s %10s %10s\n", "op", "a steps", "b steps", "a us", "b us", "change");
    for (int i = 0; i < n; i++)
        fprintf(out, "%-12s %8d %8d %10.1f %10.1f %+10.1f\n", ops[i].op, ops[i].n[0], ops[i].n[1],
                ops[i].us[0], ops[i].us[1], ops[i].us[1] - ops[i].us[0]);
    NodeTimes *nodes = malloc(((size_t)a->n + (size_t)b->n) * sizeof *nodes);
    if (nodes == NULL) return;
    put_nodes(a, b, nodes, list_nodes(a, b, nodes), out);
    free(nodes);
}
