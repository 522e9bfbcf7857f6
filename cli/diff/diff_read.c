/* diff_read.c - reads a JSON dump of a graph into an array of nodes, checking every field (I11). */
#include "cli/common.h"
#include "cli/diff/diff.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LAYER = 4096 };         /* as in a model file */
static const double MAX_US = 1e15; /* so that sums stay finite */

typedef struct Reader {
    const char *where;
    int         i; /* index of the node being read */
    DiffGraph  *g;
    int        *index_of; /* index_of[id]: the node with this id; -1: none so far */
    json_int_t  n_ids;    /* 1 + the id of the last node, which is the largest */
} Reader;

static RpStatus bad(const Reader *r, const char *key, const char *what) {
    return rp_fail(RP_E_FORMAT, "%s: node %d of the dump: \"%s\" %s", r->where, r->i, key, what);
}

static RpStatus read_text(const Reader *r, const json_t *node, const char *key, const char **out) {
    *out = json_string_value(json_object_get(node, key));
    return *out != NULL ? RP_OK : bad(r, key, "is not a string");
}

static RpStatus read_int(const Reader *r, const json_t *node, const char *key, int *out) {
    const json_t    *v = json_object_get(node, key);
    const json_int_t n = json_integer_value(v);
    *out               = (int)n;
    return json_is_integer(v) && n >= -1 && n < 1 << 24 ? RP_OK
                                                        : bad(r, key, "is not the number of a node or layer");
}

static RpStatus read_dims(const Reader *r, const json_t *node, const char *key, int64_t out[RP_MAX_DIMS]) {
    const json_t *list = json_object_get(node, key);
    if (json_array_size(list) != RP_MAX_DIMS) return bad(r, key, "is not a list of 4 integers");
    for (size_t d = 0; d < RP_MAX_DIMS; d++) {
        if (!json_is_integer(json_array_get(list, d))) return bad(r, key, "is not a list of 4 integers");
        out[d] = json_integer_value(json_array_get(list, d));
    }
    return RP_OK;
}

static bool is_leaf(const char *op) {
    return strcmp(op, "weight") == 0 || strcmp(op, "input") == 0 || strcmp(op, "state") == 0;
}

static RpStatus read_node(const Reader *r, const json_t *node, DiffNode *n) {
    if (!json_is_object(node))
        return rp_fail(RP_E_FORMAT, "%s: node %d of the dump is not an object", r->where, r->i);
    RP_TRY(read_int(r, node, "id", &n->id));
    RP_TRY(read_int(r, node, "layer", &n->layer));
    if (n->layer > MAX_LAYER) return bad(r, "layer", "is too large");
    RP_TRY(read_text(r, node, "op", &n->op));
    RP_TRY(read_text(r, node, "name", &n->name));
    RP_TRY(read_text(r, node, "dtype", &n->dtype));
    RP_TRY(read_dims(r, node, "ne", n->ne));
    RP_TRY(read_dims(r, node, "nb", n->nb));
    n->kernel = json_is_true(json_object_get(node, "kernel"));
    n->output = json_is_true(json_object_get(node, "output"));
    n->params = json_object_get(node, "params");
    n->us     = json_number_value(json_object_get(node, "us"));
    if (!(n->us >= 0.0 && n->us <= MAX_US)) return bad(r, "us", "is not a time in microseconds");
    n->leaf    = is_leaf(n->op);
    n->partner = -1;
    return RP_OK;
}

/* Sources come before their readers (I1), so that they are in index_of already. */
static RpStatus read_sources(const Reader *r, const json_t *node, DiffNode *n) {
    const json_t *list = json_object_get(node, "sources");
    if (!json_is_array(list) || json_array_size(list) > DIFF_MAX_SRC)
        return bad(r, "sources", "is not a list, or longer than that of any op");
    n->n_src = (int)json_array_size(list);
    for (int s = 0; s < n->n_src; s++) {
        const json_t    *v  = json_array_get(list, (size_t)s);
        const json_int_t id = json_integer_value(v);
        n->src[s]           = -1;
        if (json_is_null(v)) continue;
        if (!json_is_integer(v) || id < 0 || id >= r->n_ids || r->index_of[id] < 0)
            return bad(r, "sources",
                       "has one that does not come before the node (is this a dump of one layer?)");
        n->src[s] = r->index_of[id];
    }
    return RP_OK;
}

static RpStatus read_nodes(Reader *r, const json_t *list) {
    const size_t n = json_array_size(list);
    DiffGraph   *g = r->g;
    if (n == 0 || n > 1 << 24) return rp_fail(RP_E_FORMAT, "%s: the dump has %zu nodes", r->where, n);
    g->nodes              = calloc(n, sizeof *g->nodes);
    const json_int_t last = json_integer_value(json_object_get(json_array_get(list, n - 1), "id"));
    r->n_ids              = last >= 0 && last < 1 << 24 ? last + 1 : 1;
    r->index_of           = malloc((size_t)r->n_ids * sizeof *r->index_of);
    if (g->nodes == NULL || r->index_of == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", r->where);
    memset(r->index_of, -1, (size_t)r->n_ids * sizeof *r->index_of);
    for (r->i = 0; r->i < (int)n; r->i++) {
        const json_t *node = json_array_get(list, (size_t)r->i);
        DiffNode     *out  = &g->nodes[r->i];
        RP_TRY(read_node(r, node, out));
        if (out->id < 0 || out->id >= r->n_ids || r->index_of[out->id] >= 0)
            return bad(r, "id", "is negative, used twice, or larger than that of the last node");
        RP_TRY(read_sources(r, node, out));
        r->index_of[out->id] = r->i;
        g->n++;
        g->n_kernels += out->kernel;
        g->us += out->us;
        if (out->layer > g->last_layer) g->last_layer = out->layer;
    }
    return RP_OK;
}

/* Counting sort of the nodes by layer. */
static RpStatus sort_by_layer(const Reader *r, DiffGraph *g) {
    const size_t n_layers = (size_t)g->last_layer + 2; /* with -1 */
    g->sorted             = malloc((size_t)g->n * sizeof *g->sorted);
    g->starts             = calloc(n_layers + 1, sizeof *g->starts);
    if (g->sorted == NULL || g->starts == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", r->where);
    for (int i = 0; i < g->n; i++) g->starts[g->nodes[i].layer + 1]++;
    for (size_t l = 1; l <= n_layers; l++) g->starts[l] += g->starts[l - 1]; /* now where each layer ends */
    for (int i = g->n - 1; i >= 0; i--) g->sorted[--g->starts[g->nodes[i].layer + 1]] = i;
    return RP_OK;
}

const int *cli_diff_layer(const DiffGraph *g, int layer, int *n) {
    const bool there = layer >= -1 && layer <= g->last_layer;
    *n               = there ? g->starts[layer + 2] - g->starts[layer + 1] : 0;
    return there ? g->sorted + g->starts[layer + 1] : NULL;
}

/* A dump may come from anywhere: control characters in its strings are made visible before anything is printed. */
static RpStatus make_visible(const char *where, json_t *value) {
    const char *key, *text = json_string_value(value);
    json_t     *item;
    size_t      i;
    if (text != NULL) {
        char      *shown = cli_visible(text, json_string_length(value));
        const bool ok    = shown != NULL && json_string_set(value, shown) == 0;
        free(shown);
        return ok ? RP_OK : rp_fail(RP_E_FORMAT, "%s: a string is no UTF-8, or out of memory", where);
    }
    json_array_foreach(value, i, item) RP_TRY(make_visible(where, item));
    json_object_foreach(value, key, item) {
        for (const char *p = key; *p != '\0'; p++)
            if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
                return rp_fail(RP_E_FORMAT, "%s: not a dump of `reprise graph --json`: the key \"%s\"", where,
                               key);
        RP_TRY(make_visible(where, item));
    }
    return RP_OK;
}

/* A long title is cut before the first character that does not fit as a whole. */
static void copy_title(const char *title, DiffGraph *out) {
    size_t n = strlen(title);
    if (n >= sizeof out->title)
        for (n = sizeof out->title - 1; n > 0 && ((unsigned char)title[n] & 0xc0) == 0x80;) n--;
    memcpy(out->title, title, n);
    out->title[n] = '\0';
}

RpStatus cli_diff_read(const char *text, size_t n, const char *where, DiffGraph *out) {
    json_error_t error;
    Reader       r  = {.where = where, .g = out};
    out->last_layer = -1;
    out->json       = json_loadb(text, n, 0, &error);
    if (out->json == NULL)
        return rp_fail(RP_E_FORMAT, "%s: line %d, column %d: %s", where, error.line, error.column,
                       error.text);
    RP_TRY(make_visible(where, out->json));
    const json_t *graph = json_object_get(out->json, "graph"); /* `reprise profile --json` */
    if (graph == NULL) graph = out->json;
    const json_t *list = json_object_get(graph, "nodes");
    if (!json_is_array(list))
        return rp_fail(RP_E_FORMAT, "%s: not a dump of `reprise graph --json`: \"nodes\" is missing", where);
    const char *title = json_string_value(json_object_get(graph, "title"));
    if (out->title[0] == '\0' && title != NULL) copy_title(title, out);
    RpStatus st = read_nodes(&r, list);
    free(r.index_of);
    if (st == RP_OK) st = sort_by_layer(&r, out);
    return st;
}

void cli_diff_free(DiffGraph *g) {
    free(g->nodes);
    free(g->sorted);
    free(g->starts);
    json_decref(g->json);
}
