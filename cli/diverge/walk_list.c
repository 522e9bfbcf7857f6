/* walk_list.c - the computed nodes of a graph and their keys. */
#include "cli/diverge/walk_list.h"

#include <stdlib.h>
#include <string.h>

/* A built node, in the graph or fused into others. */
typedef struct Built {
    const char *name, *op;
    int         number;
} Built;

static int by_name_op_number(const void *x, const void *y) {
    const Built *a = x, *b = y;
    const int    name = strcmp(a->name, b->name), op = strcmp(a->op, b->op);
    return name != 0 ? name : op != 0 ? op : (a->number > b->number) - (a->number < b->number);
}

/* All built nodes, sorted by name, op and number, each once. NULL: out of memory. */
static Built *all_built(const ComputeGraph *g, size_t *n) {
    size_t room = 0, all = 0, kept = 0;
    for (int i = 0; i < rp_graph_n_nodes(g); i++) room += (size_t)rp_node_n_origins(rp_graph_node(g, i)) + 1;
    Built *list = malloc((room + 1) * sizeof *list);
    if (list == NULL) return NULL;
    for (int i = 0; i < rp_graph_n_nodes(g); i++)
        for (int k = 0; k < rp_node_n_origins(rp_graph_node(g, i)); k++) {
            const TensorNode *o = rp_node_origin(rp_graph_node(g, i), k);
            list[all++]         = (Built){rp_node_name(o), rp_node_built_op(o), rp_node_built(o)};
        }
    for (int i = 0; i < rp_graph_n_nodes(g); i++) { /* a node in the graph may be an origin of another one only */
        const TensorNode *o = rp_graph_node(g, i);
        if (rp_node_built(o) >= 0) list[all++] = (Built){rp_node_name(o), rp_node_built_op(o), rp_node_built(o)};
    }
    qsort(list, all, sizeof *list, by_name_op_number);
    for (size_t i = 0; i < all; i++)
        if (kept == 0 || list[kept - 1].number != list[i].number) list[kept++] = list[i];
    *n = kept;
    return list;
}

/* How many of the list have the name and op, and a smaller number. */
static int rank_of(const Built *list, size_t n, const TensorNode *node) {
    const Built  own  = {rp_node_name(node), rp_node_built_op(node), rp_node_built(node)};
    const Built *at   = bsearch(&own, list, n, sizeof *list, by_name_op_number);
    int          rank = 0;
    while (at != NULL && at > list && strcmp(at[-1].name, own.name) == 0 && strcmp(at[-1].op, own.op) == 0)
        at--, rank++;
    return rank;
}

static bool is_last(const Built *list, size_t n, const TensorNode *node) {
    for (size_t i = 0; i < n; i++)
        if (list[i].number > rp_node_built(node) && strcmp(list[i].name, rp_node_name(node)) == 0) return false;
    return rp_node_built(node) >= 0;
}

/* How many nodes before it in the graph were made by a pass and have its name and op. */
static int rank_of_made(const ComputeGraph *g, const TensorNode *node) {
    int rank = 0;
    for (int i = 0; i < rp_node_number(node); i++) {
        const TensorNode *o = rp_graph_node(g, i);
        rank += rp_node_built(o) < 0 && strcmp(rp_node_name(o), rp_node_name(node)) == 0 &&
                strcmp(rp_node_built_op(o), rp_node_built_op(node)) == 0;
    }
    return rank;
}

static RpStatus add(const ComputeGraph *g, const Built *built, size_t n_built, const TensorNode *node, int step,
                    WalkList *list) {
    const bool made = rp_node_built(node) < 0;
    const int  rank = made ? rank_of_made(g, node) : rank_of(built, n_built, node);
    WalkNode  *w    = &list->items[list->n];
    *w              = (WalkNode){.node = node, .step = step, .last = is_last(built, n_built, node)};
    const int len = asprintf(&w->key, "%s|%s%s|%d", rp_node_name(node), made ? "+" : "", rp_node_built_op(node), rank);
    if (len < 0) return rp_fail(RP_E_NOMEM, "out of memory for the nodes of a graph");
    list->n++;
    return RP_OK;
}

static int by_step(const void *x, const void *y) {
    const WalkNode *a = x, *b = y;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    return rp_node_number(a->node) < rp_node_number(b->node) ? -1 : 1;
}

RpStatus cli_walk_list(const ComputeGraph *g, const ExecPlan *plan, WalkList *out) {
    size_t n_built = 0;
    Built *built   = all_built(g, &n_built);
    *out           = (WalkList){.items = calloc((size_t)rp_graph_n_nodes(g) + 1, sizeof *out->items)};
    RpStatus st =
        built != NULL && out->items != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for the nodes of a graph");
    for (int i = 0; i < rp_graph_n_nodes(g) && st == RP_OK; i++) {
        const TensorNode *node = rp_graph_node(g, i);
        RpNodePlace       p;
        st = rp_plan_place(plan, node, &p);
        if (st != RP_OK || p.step < 0) continue;
        const bool kernel = rp_plan_step_node(plan, p.step) == node;
        if (kernel || strcmp(rp_node_op_name(node), rp_node_built_op(node)) != 0)
            st = add(g, built, n_built, node, p.step, out);
    }
    free(built);
    if (st == RP_OK) qsort(out->items, (size_t)out->n, sizeof *out->items, by_step);
    return st;
}

void cli_walk_list_free(WalkList *list) {
    for (int i = 0; i < list->n; i++) free(list->items[i].key);
    free(list->items);
    *list = (WalkList){0};
}

int cli_walk_find(const WalkList *list, const char *key) {
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->items[i].key, key) == 0) return i;
    return -1;
}
