/* diff_json.c - prints the differences of two graphs as one JSON object. Nodes and sources appear by the ids
 * of their dumps. */
#include "cli/diff/diff.h"

static json_t *graph_object(const DiffGraph *g) {
    return json_pack("{s:s, s:s, s:i, s:i}", "label", g->label, "title", g->title, "kernels", g->n_kernels,
                     "nodes", g->n);
}

static json_t *node_object(const DiffNode *n) {
    return json_pack("{s:i, s:s, s:s, s:i, s:s, s:[I,I,I,I]}", "id", n->id, "op", n->op, "name", n->name,
                     "layer", n->layer, "dtype", n->dtype, "ne", (json_int_t)n->ne[0], (json_int_t)n->ne[1],
                     (json_int_t)n->ne[2], (json_int_t)n->ne[3]);
}

static json_t *one_sided(const DiffGraph *g) {
    json_t *list = json_array();
    for (int i = 0; i < g->n; i++)
        if (g->nodes[i].partner < 0) json_array_append_new(list, node_object(&g->nodes[i]));
    return list;
}

static json_t *ids(const DiffGraph *g, const DiffNode *n) {
    json_t *list = json_array();
    for (int s = 0; s < n->n_src; s++)
        json_array_append_new(list, n->src[s] >= 0 ? json_integer(g->nodes[n->src[s]].id) : json_null());
    return list;
}

static json_t *dims(const int64_t v[RP_MAX_DIMS]) {
    return json_pack("[I,I,I,I]", (json_int_t)v[0], (json_int_t)v[1], (json_int_t)v[2], (json_int_t)v[3]);
}

/* One member per changed field: [value in a, value in b]. */
static json_t *changes_object(const DiffGraph *a, const DiffGraph *b, const DiffNode *x, const DiffNode *y,
                              unsigned changes) {
    json_t *o = json_object();
    if (changes & DIFF_OP) json_object_set_new(o, "op", json_pack("[s,s]", x->op, y->op));
    if (changes & DIFF_DTYPE) json_object_set_new(o, "dtype", json_pack("[s,s]", x->dtype, y->dtype));
    if (changes & DIFF_SHAPE) json_object_set_new(o, "ne", json_pack("[o,o]", dims(x->ne), dims(y->ne)));
    if (changes & DIFF_STRIDES) json_object_set_new(o, "nb", json_pack("[o,o]", dims(x->nb), dims(y->nb)));
    if (changes & DIFF_SOURCES) json_object_set_new(o, "sources", json_pack("[o,o]", ids(a, x), ids(b, y)));
    if (changes & DIFF_PARAMS) json_object_set_new(o, "params", json_pack("[O,O]", x->params, y->params));
    if (changes & DIFF_OUTPUT) json_object_set_new(o, "output", json_pack("[b,b]", x->output, y->output));
    if (changes & DIFF_LAYER) json_object_set_new(o, "layer", json_pack("[i,i]", x->layer, y->layer));
    return o;
}

static json_t *changed(const DiffGraph *a, const DiffGraph *b) {
    json_t *list = json_array();
    for (int k = 0; k < b->n; k++) {
        const unsigned  changes = cli_diff_changes(a, b, k);
        const DiffNode *y       = &b->nodes[k];
        if (changes == 0) continue;
        const DiffNode *x = &a->nodes[y->partner];
        json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:s, s:i, s:o}", "a", x->id, "b", y->id, "op",
                                              y->op, "name", y->name, "layer", y->layer, "changes",
                                              changes_object(a, b, x, y, changes)));
    }
    return list;
}

static json_t *times(const DiffGraph *a, const DiffGraph *b) {
    if (a->us <= 0.0 || b->us <= 0.0) return json_null();
    json_t *list = json_array();
    for (int k = 0; k < b->n; k++) {
        const DiffNode *y = &b->nodes[k];
        if (y->partner < 0 || !y->kernel) continue;
        const DiffNode *x = &a->nodes[y->partner];
        json_array_append_new(list,
                              json_pack("{s:i, s:i, s:[f,f]}", "a", x->id, "b", y->id, "us", x->us, y->us));
    }
    return json_pack("{s:[f,f], s:o}", "us", a->us, b->us, "nodes", list);
}

RpStatus cli_diff_print_json(const DiffGraph *a, const DiffGraph *b, FILE *out) {
    const DiffCounts c = cli_diff_count(a, b);
    json_t *o = json_pack("{s:o, s:o, s:b, s:o, s:o, s:o, s:o}", "a", graph_object(a), "b", graph_object(b),
                          "same", c.added + c.removed + c.changed == 0, "added", one_sided(b), "removed",
                          one_sided(a), "changed", changed(a, b), "times", times(a, b));
    if (o == NULL)
        return rp_fail(RP_E_NOMEM, "the differences cannot be written as JSON: out of memory, or a name "
                                   "is not UTF-8");
    json_dumpf(o, out, JSON_COMPACT | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(o);
    return RP_OK;
}
