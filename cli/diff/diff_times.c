/* diff_times.c - compares the times of two graphs by op and by node, if both are dumps of `reprise profile
 * --json`. */
#include "cli/diff/diff.h"
#include "cli/terminal/table.h"

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

/* Slower and faster by the same time count alike. */
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

/* Adds the kernels of one graph to the sums of their ops. side 0: a, 1: b. Returns the number of ops so far. */
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

/* The nodes with the largest changes, at most MAX_PRINTED. */
static RpStatus put_nodes(const DiffGraph *a, const DiffGraph *b, const NodeTimes *nodes, int n, FILE *out) {
    Table *table = cli_table_new("node|>a us|>b us|>change|");
    for (int j = 0; j < n && j < MAX_PRINTED && change(nodes[j].us) > 0.0; j++) {
        char             label[256];
        const NodeTimes *t = &nodes[j];
        cli_diff_label(t->k >= 0 ? b : a, t->k >= 0 ? t->k : t->i, label, sizeof label);
        cli_table_add(table, "%s", label);
        cli_table_add(table, "%.2f", t->us[0]);
        cli_table_add(table, "%.2f", t->us[1]);
        cli_table_add(table, "%+.2f", t->us[1] - t->us[0]);
        cli_table_add(table, "%s", t->k < 0 ? "removed" : t->i < 0 ? "added" : "");
    }
    return cli_table_print(table, out, 0);
}

static RpStatus put_ops(const OpTimes *ops, int n, FILE *out) {
    Table *t = cli_table_new("op|>a steps|>b steps|>a us|>b us|>change");
    for (int i = 0; i < n; i++) {
        cli_table_add(t, "%s", ops[i].op);
        for (int side = 0; side < 2; side++) cli_table_add(t, "%d", ops[i].n[side]);
        for (int side = 0; side < 2; side++) cli_table_add(t, "%.1f", ops[i].us[side]);
        cli_table_add(t, "%+.1f", ops[i].us[1] - ops[i].us[0]);
    }
    return cli_table_print(t, out, 0);
}

RpStatus cli_diff_print_times(const DiffGraph *a, const DiffGraph *b, FILE *out) {
    OpTimes ops[MAX_OPS];
    if (a->us <= 0.0 || b->us <= 0.0) return RP_OK;
    const int n = add_ops(b, 1, ops, add_ops(a, 0, ops, 0));
    qsort(ops, (size_t)n, sizeof *ops, by_op_change);
    fprintf(out, "\ntime of the steps %.1f -> %.1f us (%+.1f %%)\n", a->us, b->us, 100.0 * (b->us / a->us - 1.0));
    RP_TRY(put_ops(ops, n, out));
    NodeTimes *nodes = malloc(((size_t)a->n + (size_t)b->n) * sizeof *nodes);
    if (nodes == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a report");
    const RpStatus st = put_nodes(a, b, nodes, list_nodes(a, b, nodes), out);
    free(nodes);
    return st;
}
