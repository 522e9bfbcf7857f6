/* diff_match.c - pairs the nodes of two graphs and compares each pair.
 *
 * Ids of nodes change when a pass adds or removes one, so nodes are paired by what they are. First the ops of each
 * layer are aligned in order, which keeps repeated ops apart. Then leaves, and ops that moved to another place, are
 * paired by name. Weights are leaves: their order says nothing. */
#include "cli/diff/align.h"
#include "cli/diff/diff.h"

#include <stdlib.h>
#include <string.h>

/* The ops of one layer of each graph, in order. */
typedef struct Layers {
    const DiffGraph *a, *b;
    int             *of_a, *of_b; /* indices into a->nodes and b->nodes */
    int              n_a, n_b;
} Layers;

static bool same_text(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* Score of a pair of ops:
 *
 *   equal ops       equal names        ALIGN_SAME
 *                   both nameless      ALIGN_SAME for equal shapes, else ALIGN_SAME / 4
 *                   one nameless       1
 *                   different names    0
 *   different ops   equal names        ALIGN_SAME / 2
 *                   otherwise          0 */
static int score(const void *user, int i, int k) {
    const Layers   *l = user;
    const DiffNode *x = &l->a->nodes[l->of_a[i]], *y = &l->b->nodes[l->of_b[k]];
    const bool      op = same_text(x->op, y->op), bare = x->name[0] == '\0' && y->name[0] == '\0';
    if (!same_text(x->name, y->name)) return op && (x->name[0] == '\0') != (y->name[0] == '\0') ? 1 : 0;
    if (!op) return bare ? 0 : ALIGN_SAME / 2;
    return bare && memcmp(x->ne, y->ne, sizeof x->ne) != 0 ? ALIGN_SAME / 4 : ALIGN_SAME;
}

static void pair(DiffGraph *a, DiffGraph *b, int i, int k) {
    a->nodes[i].partner = k;
    b->nodes[k].partner = i;
}

/* Lists the ops of a layer, without leaves. Returns their number. */
static int ops_of(const DiffGraph *g, int layer, int *out) {
    int        n, n_ops = 0;
    const int *nodes = cli_diff_layer(g, layer, &n);
    for (int i = 0; i < n; i++)
        if (!g->nodes[nodes[i]].leaf) out[n_ops++] = nodes[i];
    return n_ops;
}

/* Aligns the ops of one layer in order. */
static RpStatus match_layer(DiffGraph *a, DiffGraph *b, int layer, Layers *l, int *partner) {
    l->n_a = ops_of(a, layer, l->of_a);
    l->n_b = ops_of(b, layer, l->of_b);
    RP_TRY(cli_align(l->n_a, l->n_b, score, l, partner));
    for (int i = 0; i < l->n_a; i++)
        if (partner[i] >= 0) pair(a, b, l->of_a[i], l->of_b[partner[i]]);
    return RP_OK;
}

/* ---- by name, in any order ---- */

typedef struct Named {
    const DiffNode *node;
    int             i;
} Named;

/* Order of the unmatched nodes: name, leaves before ops, op, position. Two that differ in position only are a pair. */
static int by_name(const void *a, const void *b) {
    const Named *x = a, *y = b;
    const int    name = strcmp(x->node->name, y->node->name);
    if (name != 0) return name;
    if (x->node->leaf != y->node->leaf) return x->node->leaf ? -1 : 1;
    const int op = x->node->leaf ? 0 : strcmp(x->node->op, y->node->op);
    return op != 0 ? op : (x->i > y->i) - (x->i < y->i);
}

/* Lists the leaves and named ops without a partner, sorted by name, op and position. */
static int list_unmatched(const DiffGraph *g, Named *out) {
    int n = 0;
    for (int i = 0; i < g->n; i++)
        if (g->nodes[i].partner < 0 && (g->nodes[i].leaf || g->nodes[i].name[0] != '\0'))
            out[n++] = (Named){&g->nodes[i], i};
    qsort(out, (size_t)n, sizeof *out, by_name);
    return n;
}

/* Pairs leaves, and ops that moved to another place: merges both sorted lists; equal name and op match in
 * order. */
static RpStatus match_named(DiffGraph *a, DiffGraph *b) {
    Named *x = malloc(((size_t)a->n + 1) * sizeof *x), *y = malloc(((size_t)b->n + 1) * sizeof *y);
    if (x != NULL && y != NULL) {
        const int n_x = list_unmatched(a, x), n_y = list_unmatched(b, y);
        for (int i = 0, k = 0; i < n_x && k < n_y;) {
            const Named p = {x[i].node, 0}, q = {y[k].node, 0};
            const int   order = by_name(&p, &q);
            if (order == 0) pair(a, b, x[i].i, y[k].i);
            i += order <= 0;
            k += order >= 0;
        }
    }
    const bool ok = x != NULL && y != NULL;
    free(x);
    free(y);
    return ok ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for comparing graphs");
}

RpStatus cli_diff_match(DiffGraph *a, DiffGraph *b) {
    const int last = a->last_layer < b->last_layer ? a->last_layer : b->last_layer;
    Layers l = {.a = a, .b = b, .of_a = malloc((size_t)a->n * sizeof(int)), .of_b = malloc((size_t)b->n * sizeof(int))};
    int   *partner = malloc((size_t)a->n * sizeof(int));
    RpStatus st    = l.of_a != NULL && l.of_b != NULL && partner != NULL
                         ? RP_OK
                         : rp_fail(RP_E_NOMEM, "out of memory for comparing graphs");
    for (int layer = -1; layer <= last && st == RP_OK; layer++) st = match_layer(a, b, layer, &l, partner);
    if (st == RP_OK) st = match_named(a, b);
    free(l.of_a);
    free(l.of_b);
    free(partner);
    return st;
}

/* ---- changes ---- */

/* Whether the sources of y are the partners of the sources of x. Ids are not compared: each dump has its own. */
static bool same_sources(const DiffGraph *a, const DiffNode *x, const DiffNode *y) {
    if (x->n_src != y->n_src) return false;
    for (int s = 0; s < x->n_src; s++) {
        if ((x->src[s] < 0) != (y->src[s] < 0)) return false;
        if (x->src[s] >= 0 && a->nodes[x->src[s]].partner != y->src[s]) return false;
    }
    return true;
}

/* Dumps of older versions have no params; they match any. Members may come in any order. */
static bool same_params(const DiffNode *x, const DiffNode *y) {
    if (x->params == NULL || y->params == NULL || same_text(x->params, y->params)) return true;
    json_t    *p = json_loads(x->params, JSON_DECODE_ANY, NULL), *q = json_loads(y->params, JSON_DECODE_ANY, NULL);
    const bool same = json_equal(p, q);
    json_decref(p);
    json_decref(q);
    return same;
}

unsigned cli_diff_changes(const DiffGraph *a, const DiffGraph *b, int k) {
    const DiffNode *y = &b->nodes[k];
    if (y->partner < 0) return 0;
    const DiffNode *x     = &a->nodes[y->partner];
    const bool      op    = same_text(x->op, y->op);
    const bool      dtype = same_text(x->dtype, y->dtype), shape = memcmp(x->ne, y->ne, sizeof x->ne) == 0;
    const bool      strides = memcmp(x->nb, y->nb, sizeof x->nb) == 0;
    return (op ? 0u : DIFF_OP) | (dtype ? 0u : DIFF_DTYPE) | (shape ? 0u : DIFF_SHAPE) |
           (dtype && shape && !strides ? DIFF_STRIDES : 0u) | (same_sources(a, x, y) ? 0u : DIFF_SOURCES) |
           (op && !same_params(x, y) ? DIFF_PARAMS : 0u) | (x->output == y->output ? 0u : DIFF_OUTPUT) |
           (x->layer == y->layer ? 0u : DIFF_LAYER);
}

DiffCounts cli_diff_count(const DiffGraph *a, const DiffGraph *b) {
    DiffCounts c = {0};
    for (int i = 0; i < a->n; i++) c.removed += a->nodes[i].partner < 0;
    for (int k = 0; k < b->n; k++) {
        c.added += b->nodes[k].partner < 0;
        c.changed += cli_diff_changes(a, b, k) != 0;
    }
    return c;
}
