/* find_node.c - nodes of a graph by name, name and op, or number. */
#include "cli/provenance/find_node.h"

#include "cli/options/parse.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_NAMES = 6, LIST_BYTES = 512 };

static void add(FoundNodes *f, const TensorNode *n) {
    if (f->n < FOUND_NODES) f->nodes[f->n] = n;
    f->n++;
}

/* The first `len` bytes of the text are the name of the node, and `op`, unless it is NULL, that of its op. */
static bool is_called(const TensorNode *n, const char *text, size_t len, const char *op) {
    const char *name = rp_node_name(n);
    return strlen(name) == len && memcmp(name, text, len) == 0 && (op == NULL || strcmp(rp_node_op_name(n), op) == 0);
}

static void find_called(const ComputeGraph *g, const char *text, size_t len, const char *op, FoundNodes *out) {
    for (int i = 0; i < rp_graph_n_nodes(g); i++)
        if (is_called(rp_graph_node(g, i), text, len, op)) add(out, rp_graph_node(g, i));
}

static void find_doing_work_of(const ComputeGraph *g, const char *name, FoundNodes *out) {
    for (int i = 0; i < rp_graph_n_nodes(g); i++) {
        const TensorNode *n    = rp_graph_node(g, i);
        bool              does = false;
        for (int k = 0; k < rp_node_n_origins(n); k++)
            does = does || strcmp(rp_node_name(rp_node_origin(n, k)), name) == 0;
        if (does) add(out, n);
    }
    out->replaced = out->n > 0;
}

/* "#12" */
static RpStatus find_number(const ComputeGraph *g, const char *text, FoundNodes *out) {
    char      *end;
    const long i = strtol(text + 1, &end, 10);
    if (text[1] < '0' || text[1] > '9' || *end != '\0' || i >= rp_graph_n_nodes(g))
        return rp_fail(RP_E_ARG, "there is no node %s: the graph has #0 to #%d", text, rp_graph_n_nodes(g) - 1);
    add(out, rp_graph_node(g, (int)i));
    return RP_OK;
}

/* Appends "'name', " unless the list has it or is full. */
static void list_name(const char *name, char list[LIST_BYTES], int *n) {
    char         quoted[160];
    const size_t len = strlen(list), more = (size_t)snprintf(quoted, sizeof quoted, "'%s'", name);
    if (*n == SHOWN_NAMES || name[0] == '\0' || strstr(list, quoted) != NULL || len + more + 3 > LIST_BYTES) return;
    snprintf(list + len, LIST_BYTES - len, "%s%s", len > 0 ? ", " : "", quoted);
    ++*n;
}

/* The names of all nodes and of the built nodes that they stand for: *n of them. The caller frees the array. */
static const char **all_names(const ComputeGraph *g, size_t *n) {
    size_t room = 0;
    for (int i = 0; i < rp_graph_n_nodes(g); i++) room += 1 + (size_t)rp_node_n_origins(rp_graph_node(g, i));
    const char **names = calloc(room + 1, sizeof *names);
    *n                 = 0;
    for (int i = 0; names != NULL && i < rp_graph_n_nodes(g); i++) {
        const TensorNode *node = rp_graph_node(g, i);
        names[(*n)++]          = rp_node_name(node);
        for (int k = 0; k < rp_node_n_origins(node); k++) names[(*n)++] = rp_node_name(rp_node_origin(node, k));
    }
    return names;
}

/* Names that contain the text, else the one that is nearest to it. */
static RpStatus fail_unknown(const ComputeGraph *g, const char *text) {
    char         list[LIST_BYTES] = "";
    int          listed           = 0;
    size_t       n;
    const char **names = all_names(g, &n);
    if (names == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the names of a graph");
    for (size_t i = 0; i < n; i++)
        if (strstr(names[i], text) != NULL) list_name(names[i], list, &listed);
    const char *nearest = listed == 0 ? cli_nearest(text, names, n) : NULL;
    if (nearest != NULL) list_name(nearest, list, &listed);
    free(names);
    if (listed == 0) return rp_fail(RP_E_ARG, "there is no node '%s' (`reprise graph` lists them)", text);
    return rp_fail(RP_E_ARG, "there is no node '%s'; near names: %s", text, list);
}

RpStatus cli_find_nodes(const ComputeGraph *g, const char *text, FoundNodes *out) {
    *out = (FoundNodes){.n = 0};
    if (text[0] == '#') return find_number(g, text, out);
    find_called(g, text, strlen(text), NULL, out);
    const char *colon = strrchr(text, ':');
    if (out->n == 0 && colon != NULL) find_called(g, text, (size_t)(colon - text), colon + 1, out);
    if (out->n == 0 && text[0] != '\0') find_doing_work_of(g, text, out);
    return out->n > 0 ? RP_OK : fail_unknown(g, text);
}

RpStatus cli_find_node(const ComputeGraph *g, const char *text, const TensorNode **out) {
    FoundNodes f;
    char       list[LIST_BYTES] = "";
    size_t     len              = 0;
    RP_TRY(cli_find_nodes(g, text, &f));
    *out = f.nodes[0];
    if (f.n == 1 && !f.replaced) return RP_OK;
    for (int i = 0; i < f.n && i < SHOWN_NAMES; i++)
        len += (size_t)snprintf(list + len, sizeof list - len, "%s#%d %.40s (%s)", i > 0 ? ", " : "",
                                rp_node_number(f.nodes[i]), rp_node_name(f.nodes[i]), rp_node_op_name(f.nodes[i]));
    if (f.n > SHOWN_NAMES) snprintf(list + len, sizeof list - len, ", ...");
    if (f.replaced)
        return rp_fail(RP_E_ARG, "'%s' was fused: its work is done by %s; --passes=-all keeps it", text, list);
    return rp_fail(RP_E_ARG, "%d nodes are named '%s': %s; name one as '#N' or 'NAME:OP'", f.n, text, list);
}
