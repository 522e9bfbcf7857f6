/* diff_json.c - prints the differences of two graphs as one JSON object. Nodes and sources appear by the ids
 * of their dumps. Each element is printed as it is made: all of them would take more memory than both dumps. */
#include "cli/diff/diff.h"

#include "reprise/text.h"

#include <string.h>

/* A list that is being printed. */
typedef struct List {
    FILE *out;
    int   n;      /* elements so far */
    bool  failed; /* memory was missing for an element */
} List;

/* Takes the element over. NULL, which Jansson gives without memory, marks the list as failed. */
static void put_element(List *l, json_t *element) {
    if (l->n++ > 0) fputc(',', l->out);
    l->failed = l->failed || element == NULL;
    json_dumpf(element, l->out, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    json_decref(element);
}

static void put_graph(const char *key, const DiffGraph *g, FILE *out) {
    fprintf(out, "\"%s\":{\"label\":", key);
    rp_put_json_string(g->label, strlen(g->label), out);
    fputs(",\"title\":", out);
    rp_put_json_string(g->title, strlen(g->title), out);
    fprintf(out, ",\"kernels\":%d,\"nodes\":%d},", g->n_kernels, g->n);
}

static json_t *node_object(const DiffNode *n) {
    return json_pack("{s:i, s:s, s:s, s:i, s:s, s:[I,I,I,I]}", "id", n->id, "op", n->op, "name", n->name, "layer",
                     n->layer, "dtype", n->dtype, "ne", (json_int_t)n->ne[0], (json_int_t)n->ne[1],
                     (json_int_t)n->ne[2], (json_int_t)n->ne[3]);
}

/* The nodes without a partner: added ones of b, removed ones of a. */
static void put_one_sided(const DiffGraph *g, List *l) {
    for (int i = 0; i < g->n; i++)
        if (g->nodes[i].partner < 0) put_element(l, node_object(&g->nodes[i]));
}

/* The sources by the ids of their own dump; null for an optional source that is absent. */
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
    if (changes & DIFF_PARAMS)
        json_object_set_new(o, "params",
                            json_pack("[o,o]", json_loads(x->params, JSON_DECODE_ANY, NULL),
                                      json_loads(y->params, JSON_DECODE_ANY, NULL)));
    if (changes & DIFF_OUTPUT) json_object_set_new(o, "output", json_pack("[b,b]", x->output, y->output));
    if (changes & DIFF_LAYER) json_object_set_new(o, "layer", json_pack("[i,i]", x->layer, y->layer));
    return o;
}

static void put_changed(const DiffGraph *a, const DiffGraph *b, List *l) {
    for (int k = 0; k < b->n; k++) {
        const unsigned  changes = cli_diff_changes(a, b, k);
        const DiffNode *y       = &b->nodes[k];
        if (changes == 0) continue;
        const DiffNode *x = &a->nodes[y->partner];
        put_element(l, json_pack("{s:i, s:i, s:s, s:s, s:i, s:o}", "a", x->id, "b", y->id, "op", y->op, "name", y->name,
                                 "layer", y->layer, "changes", changes_object(a, b, x, y, changes)));
    }
}

/* Null unless both dumps have times. Then the sums of both, and the pair of times of each kernel in both graphs. */
static void put_times(const DiffGraph *a, const DiffGraph *b, List *l) {
    if (a->us <= 0.0 || b->us <= 0.0) {
        fputs("null", l->out);
        return;
    }
    fputs("{\"us\":", l->out);
    l->n = 0;
    put_element(l, json_pack("[f,f]", a->us, b->us));
    fputs(",\"nodes\":[", l->out);
    l->n = 0;
    for (int k = 0; k < b->n; k++) {
        const DiffNode *y = &b->nodes[k];
        if (y->partner < 0 || !y->kernel) continue;
        const DiffNode *x = &a->nodes[y->partner];
        put_element(l, json_pack("{s:i, s:i, s:[f,f]}", "a", x->id, "b", y->id, "us", x->us, y->us));
    }
    fputs("]}", l->out);
}

RpStatus cli_diff_print_json(const DiffGraph *a, const DiffGraph *b, FILE *out) {
    const DiffCounts c = cli_diff_count(a, b);
    List             l = {.out = out};
    fputc('{', out);
    put_graph("a", a, out);
    put_graph("b", b, out);
    fprintf(out, "\"same\":%s,\"added\":[", c.added + c.removed + c.changed == 0 ? "true" : "false");
    put_one_sided(b, &l);
    fputs("],\"removed\":[", out);
    l.n = 0;
    put_one_sided(a, &l);
    fputs("],\"changed\":[", out);
    l.n = 0;
    put_changed(a, b, &l);
    fputs("],\"times\":", out);
    put_times(a, b, &l);
    fputs("}\n", out);
    return l.failed ? rp_fail(RP_E_NOMEM, "the differences cannot be written as JSON: out of memory") : RP_OK;
}
