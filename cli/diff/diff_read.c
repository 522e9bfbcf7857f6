/* diff_read.c - reads a JSON dump of a graph into an array of nodes, checking every field (I11). */
#include "cli/diff/diff.h"
#include "cli/diff/diff_members.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_LAYER = 4096, /* as in a model file */
    MAX_IDS   = 1 << 24
};
static const double MAX_US = 1e15; /* so that sums stay finite */

static const char BAD_ID[] = "is negative, used twice, or larger than that of the last node";

typedef struct Reader {
    const char *where;
    int         i; /* index of the node being read */
    DiffGraph  *g;
    int        *index_of;       /* [n_ids] the node with this id; -1: none so far */
    int         n_ids, largest; /* index of the node with the largest id */
} Reader;

static RpStatus bad(const Reader *r, const char *key, const char *what) {
    return rp_fail(RP_E_FORMAT, "%s: node %d of the dump: \"%s\" %s", r->where, r->i, key, what);
}

static RpStatus out_of_memory(const Reader *r) { return rp_fail(RP_E_NOMEM, "%s: out of memory", r->where); }

/* Gives the one copy of a text, which lives as long as the graph. Most names and types occur in many nodes. */
static RpStatus keep(const Reader *r, const char *text, const char **out) {
    json_t *strings = r->g->strings;
    if (json_object_get(strings, text) == NULL && json_object_set_new(strings, text, json_null()) != 0)
        return out_of_memory(r);
    *out = json_object_iter_key(json_object_iter_at(strings, text));
    return RP_OK;
}

static RpStatus read_text(const Reader *r, const json_t *node, const char *key, const char **out) {
    const char *text = json_string_value(json_object_get(node, key));
    return text != NULL ? keep(r, text, out) : bad(r, key, "is not a string");
}

/* A text that a dump may lack. */
static RpStatus read_optional(const Reader *r, const json_t *node, const char *key, const char **out) {
    return json_object_get(node, key) != NULL ? read_text(r, node, key, out) : RP_OK;
}

/* Names of sources, which a dump may lack: "x,w,". */
static RpStatus read_roles(const Reader *r, const json_t *node, const char **out) {
    const json_t *list = json_object_get(node, "source_names"), *item;
    char          text[512];
    size_t        at = 0, i;
    text[0]          = '\0';
    json_array_foreach(list, i, item) {
        const char *name = json_string_value(item);
        if (name == NULL || i >= DIFF_MAX_SRC) return bad(r, "source_names", "is not a list of names");
        if (at < sizeof text) at += (size_t)snprintf(text + at, sizeof text - at, "%s,", name);
    }
    return keep(r, text, out);
}

/* Keeps the parameters as a text of JSON. Dumps of older versions have none. */
static RpStatus read_params(const Reader *r, const json_t *node, const char **out) {
    const json_t *params = json_object_get(node, "params");
    if (params == NULL) return RP_OK;
    char *text = json_dumps(params, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text == NULL) return out_of_memory(r);
    const RpStatus st = keep(r, text, out);
    free(text);
    return st;
}

static RpStatus read_int(const Reader *r, const json_t *node, const char *key, int *out) {
    const json_t    *v = json_object_get(node, key);
    const json_int_t n = json_integer_value(v);
    *out               = (int)n;
    return json_is_integer(v) && n >= -1 && n < MAX_IDS ? RP_OK : bad(r, key, "is not the number of a node or layer");
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

/* These three ops are leaves: nothing computes them. */
static bool is_leaf(const char *op) {
    return strcmp(op, "weight") == 0 || strcmp(op, "input") == 0 || strcmp(op, "state") == 0;
}

static RpStatus read_node(const Reader *r, const json_t *node, DiffNode *n) {
    if (!json_is_object(node)) return rp_fail(RP_E_FORMAT, "%s: node %d of the dump is not an object", r->where, r->i);
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
    RP_TRY(read_params(r, node, &n->params));
    RP_TRY(read_optional(r, node, "parts", &n->parts));
    RP_TRY(read_optional(r, node, "note", &n->note));
    RP_TRY(read_optional(r, node, "colour", &n->colour));
    RP_TRY(read_roles(r, node, &n->roles));
    n->bytes = json_integer_value(json_object_get(node, "bytes"));
    n->us    = json_number_value(json_object_get(node, "us"));
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
            return bad(r, "sources", "has one that does not come before the node (is this a dump of one layer?)");
        n->src[s] = r->index_of[id];
    }
    return RP_OK;
}

/* Makes room for one more node, and for its id. */
static RpStatus grow(Reader *r, int id) {
    DiffGraph *g = r->g;
    if (g->n == g->room) {
        const int room  = g->room == 0 ? 256 : 2 * g->room;
        DiffNode *nodes = realloc(g->nodes, (size_t)room * sizeof *nodes);
        if (nodes == NULL) return out_of_memory(r);
        g->nodes = nodes;
        g->room  = room;
    }
    if (id >= r->n_ids) {
        const int n        = id < 256 ? 512 : id < MAX_IDS / 2 ? 2 * id : MAX_IDS;
        int      *index_of = realloc(r->index_of, (size_t)n * sizeof *index_of);
        if (index_of == NULL) return out_of_memory(r);
        memset(index_of + r->n_ids, -1, (size_t)(n - r->n_ids) * sizeof *index_of);
        r->index_of = index_of;
        r->n_ids    = n;
    }
    return RP_OK;
}

/* Called for each element of "nodes" (DiffMembers). Ids need not be consecutive. */
static RpStatus add_node(void *reader, json_t *node) {
    Reader    *r = reader;
    DiffGraph *g = r->g;
    DiffNode   n = {0};
    r->i         = g->n;
    if (g->n == MAX_IDS) return rp_fail(RP_E_FORMAT, "%s: the dump has more than %d nodes", r->where, MAX_IDS);
    RP_TRY(read_node(r, node, &n));
    if (n.id < 0) return bad(r, "id", BAD_ID);
    RP_TRY(grow(r, n.id));
    if (r->index_of[n.id] >= 0) return bad(r, "id", BAD_ID);
    RP_TRY(read_sources(r, node, &n));
    g->nodes[g->n]    = n;
    r->index_of[n.id] = g->n;
    if (n.id > g->nodes[r->largest].id) r->largest = g->n;
    g->n++;
    g->n_kernels += n.kernel;
    g->us += n.us;
    if (n.layer > g->last_layer) g->last_layer = n.layer;
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

/* A long title is cut before the first character that does not fit as a whole. */
static RpStatus copy_title(void *reader, const char *title) {
    DiffGraph *out = ((Reader *)reader)->g;
    size_t     n   = strlen(title);
    if (out->title[0] != '\0') return RP_OK;
    if (n >= sizeof out->title)
        for (n = sizeof out->title - 1; n > 0 && ((unsigned char)title[n] & 0xc0) == 0x80;) n--;
    memcpy(out->title, title, n);
    out->title[n] = '\0';
    return RP_OK;
}

static RpStatus read_all(const char *text, size_t n, Reader *r) {
    DiffGraph *g = r->g;
    g->strings   = json_object();
    if (g->strings == NULL) return out_of_memory(r);
    RP_TRY(
        cli_diff_members(text, n, &(DiffMembers){.where = r->where, .node = add_node, .title = copy_title, .user = r}));
    if (g->n == 0) return rp_fail(RP_E_FORMAT, "%s: the dump has 0 nodes", r->where);
    r->i = r->largest;
    return r->i == g->n - 1 ? sort_by_layer(r, g) : bad(r, "id", BAD_ID);
}

RpStatus cli_diff_read(const char *text, size_t n, const char *where, DiffGraph *out) {
    Reader r          = {.where = where, .g = out};
    out->last_layer   = -1;
    const RpStatus st = read_all(text, n, &r);
    free(r.index_of);
    return st;
}

void cli_diff_free(DiffGraph *g) {
    free(g->nodes);
    free(g->sorted);
    free(g->starts);
    json_decref(g->strings);
}
