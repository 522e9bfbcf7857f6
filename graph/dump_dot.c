/* A graph as DOT: one cluster per layer, ops coloured by kind, distinct shapes for weights, inputs and
 * states. Views are not drawn: an edge goes from the source of the view to its reader. Folding draws equal
 * layers once. Two layers are equal if their nodes agree pairwise in op, shape, dtype, parameters and
 * sources. */
#include "graph/dump.h"

#include "base/text/visible.h"
#include "ops/rules.h"

#include <stdlib.h>
#include <string.h>

/* Nodes grouped by layer, with a counting sort:
 *
 *     nodes of layer l          member[first[l]] .. member[first[l+1] - 1], as node ids
 *     index of node i           index[i], so member[first[l] + index[i]] == i
 *     layer drawn for layer l   like[l] <= l; like[l] == l: the layer itself is drawn */
typedef struct Drawing {
    const ComputeGraph  *g;
    const RpDumpOptions *o;
    FILE                *out;
    int                  n_layers;
    int                 *first, *like;   /* by layer */
    int                 *member, *index; /* as above */
} Drawing;

const char *rp_node_colour(const TensorNode *n) {
    const OpRules *rules = rp_op_rules(n->op);
    return rules != NULL && rules->colour != NULL ? rules->colour : "#eeeeee";
}

static const TensorNode *through_views(const TensorNode *n) {
    while (node_is_view(n)) n = n->from.unary.x;
    return n;
}

/* ---- folding ---- */

/* Compares sources a and b of corresponding nodes that are not both inside their own layers. Sources in
 * other layers need only agree in index or dtype: where layer 5 reads the result of layer 4, layer 6 reads
 * that of layer 5. */
static bool same_source(const Drawing *d, const TensorNode *a, const TensorNode *b) {
    if ((a == NULL) != (b == NULL)) return false;
    if (a == NULL) return true;
    if (a->layer == b->layer) return a == b;       /* outside of all layers, or in one layer that both read */
    if (a->layer < 0 || b->layer < 0) return true; /* the first layer reads the embedding, the others a layer */
    return d->index[a->id] == d->index[b->id] || a->view.dtype == b->view.dtype;
}

static bool same_node(const Drawing *d, const TensorNode *a, const TensorNode *b, int la, int lb) {
    if (a->kind != b->kind || a->op != b->op || a->view.dtype != b->view.dtype) return false;
    if (memcmp(a->view.ne, b->view.ne, sizeof a->view.ne) != 0) return false;
    if (a->kind == NODE_OP && memcmp(&a->params, &b->params, sizeof a->params) != 0) return false;
    for (int s = 0; s < RP_MAX_SRC; s++) {
        const TensorNode *x = a->src[s], *y = b->src[s];
        const bool        inner = x != NULL && y != NULL && x->layer == la && y->layer == lb;
        if (inner ? d->index[x->id] != d->index[y->id] : !same_source(d, x, y)) return false;
    }
    return true;
}

static bool same_layer(const Drawing *d, int a, int b) {
    const int n = d->first[a + 1] - d->first[a];
    if (n != d->first[b + 1] - d->first[b]) return false;
    for (int i = 0; i < n; i++)
        if (!same_node(d, d->g->nodes[d->member[d->first[a] + i]], d->g->nodes[d->member[d->first[b] + i]], a, b))
            return false;
    return true;
}

static void group_layers(Drawing *d) {
    for (int i = 0; i < d->g->n_nodes; i++)
        if (d->g->nodes[i]->layer >= 0) d->first[d->g->nodes[i]->layer + 1]++;
    for (int l = 0; l < d->n_layers; l++) d->first[l + 1] += d->first[l];
    int *fill = d->like; /* not used yet */
    for (int l = 0; l < d->n_layers; l++) fill[l] = d->first[l];
    for (int i = 0; i < d->g->n_nodes; i++) {
        const int l = d->g->nodes[i]->layer;
        if (l < 0) continue;
        d->index[i]          = fill[l] - d->first[l];
        d->member[fill[l]++] = i;
    }
    for (int l = 0; l < d->n_layers; l++) {
        d->like[l] = l;
        for (int k = 0; k < l && d->o->fold && d->like[l] == l; k++)
            if (d->like[k] == k && same_layer(d, k, l)) d->like[l] = k;
    }
}

/* The node that is drawn for n: the corresponding node of the drawn layer, or n itself. */
static const TensorNode *drawn(const Drawing *d, const TensorNode *n) {
    if (n->layer < 0 || d->like[n->layer] == n->layer) return n;
    return d->g->nodes[d->member[d->first[d->like[n->layer]] + d->index[n->id]]];
}

static bool visible(const Drawing *d, const TensorNode *n) {
    return !node_is_view(n) && drawn(d, n) == n && (!d->o->one_layer || n->layer == d->o->layer);
}

/* ---- writing ---- */

static void escaped(FILE *out, const char *text) {
    const char *end = text + strlen(text);
    char        piece[RP_VISIBLE_MAX];
    for (int n; (n = rp_visible_utf8(&text, end, piece)) > 0;)
        for (int i = 0; i < n; i++) {
            if (piece[i] == '"' || piece[i] == '\\') fputc('\\', out);
            fputc(piece[i], out);
        }
}

static void write_bytes(FILE *out, size_t bytes) {
    if (bytes >= 10u << 20)
        fprintf(out, "%.1f MB", (double)bytes / 1e6);
    else if (bytes >= 10u << 10)
        fprintf(out, "%.1f kB", (double)bytes / 1e3);
    else
        fprintf(out, "%zu B", bytes);
}

/* The name of a node, without the prefix "blk.N." if it is drawn for several layers. */
static void write_name(const Drawing *d, const TensorNode *n) {
    const char *name   = n->name;
    int         layers = 0;
    for (int l = 0; l < d->n_layers && n->layer >= 0; l++) layers += d->like[l] == n->layer;
    char prefix[32];
    if (layers > 1) {
        const int len = snprintf(prefix, sizeof prefix, "blk.%d.", n->layer);
        if (strncmp(name, prefix, (size_t)len) == 0) name += len;
    }
    escaped(d->out, name);
}

static void write_node(const Drawing *d, const TensorNode *n, const char *indent) {
    static const char *const leaf[] = {
        [NODE_WEIGHT] = "shape=note, fillcolor=\"#ffffff\"",
        [NODE_INPUT]  = "shape=invhouse, fillcolor=\"#ffffbf\"",
        [NODE_STATE]  = "shape=cylinder, fillcolor=\"#a6dba0\"",
    };
    char shape[96], ops[128];
    fprintf(d->out, "%sn%d [label=\"", indent, n->id);
    if (n->kind == NODE_OP) fprintf(d->out, "%s", rp_node_op_name(n));
    if (n->kind == NODE_OP && n->name[0] != '\0') fprintf(d->out, "  ");
    write_name(d, n);
    fprintf(d->out, "\\n%s  ", rp_format_shape(&n->view, shape, sizeof shape));
    write_bytes(d->out, rp_node_bytes(n));
    if (rp_node_fused_ops(n, ops, sizeof ops)[0] != '\0') fprintf(d->out, "\\n%s", ops);
    const RpDumpNote *note = d->o->notes != NULL ? &d->o->notes[n->id] : NULL;
    char              heat[16];
    if (note != NULL && note->text[0] != '\0') {
        fprintf(d->out, "\\n");
        escaped(d->out, note->text);
    }
    if (note != NULL && note->heat >= 0.0)
        snprintf(heat, sizeof heat, "#ff%02x%02x", (unsigned)(255.0 - 175.0 * note->heat),
                 (unsigned)(255.0 - 215.0 * note->heat));
    else
        snprintf(heat, sizeof heat, "%s", rp_node_colour(n));
    if (n->kind == NODE_OP)
        fprintf(d->out, "\", fillcolor=\"%s\"%s];\n", heat, n->is_output ? ", penwidth=2.5" : "");
    else
        fprintf(d->out, "\", %s];\n", leaf[n->kind]);
}

/* The label of a cluster: "layers 0-4, 6-10  (x10)". */
static void write_layers(const Drawing *d, int kind) {
    int count = 0, from = -1;
    fprintf(d->out, "layer");
    for (int l = 0; l <= d->n_layers; l++) {
        const bool in = l < d->n_layers && d->like[l] == kind;
        if (in && from < 0) from = l;
        if (in || from < 0) continue;
        if (l - 1 > from)
            fprintf(d->out, "%s %d-%d", count > 0 ? "," : "s", from, l - 1);
        else
            fprintf(d->out, "%s %d", count > 0 ? "," : "", from);
        count += l - from;
        from = -1;
    }
    if (count > 1) fprintf(d->out, "  (x%d)", count);
}

/* "x, residual": the names of the sources of n that are drawn as `from`, views included. */
static void write_source_names(const Drawing *d, const TensorNode *n, const TensorNode *from) {
    const char *separator = "";
    for (int s = 0; s < RP_MAX_SRC; s++) {
        if (n->src[s] == NULL || drawn(d, through_views(n->src[s])) != from) continue;
        fprintf(d->out, "%s%s", separator, rp_node_source_name(n, s));
        separator = ", ";
    }
}

/* Draws at most one edge between two drawn nodes; its tooltip names the sources.  An edge from a folded layer to the
 * one after it leads back to the same cluster, and is dashed. For a store the arrow points at the destination.
 * seen[id]: already a source of this node. */
static void write_edges(const Drawing *d, bool *seen) {
    const int n_nodes = d->g->n_nodes;
    for (int i = 0; i < n_nodes; i++) {
        const TensorNode *n = d->g->nodes[i];
        if (node_is_view(n)) continue;
        const TensorNode *to = drawn(d, n);
        if (!visible(d, to)) continue;
        for (int s = 0; s < RP_MAX_SRC; s++) {
            if (n->src[s] == NULL) continue;
            const TensorNode *from = drawn(d, through_views(n->src[s]));
            if (!visible(d, from) || seen[from->id]) continue;
            /* edges inside a layer are drawn for the drawn layer only */
            if (from->layer == to->layer && n->layer == through_views(n->src[s])->layer && n != to) continue;
            bool again = false; /* an equal layer before this one has drawn the same edge */
            for (int k = 0; k < i && n != to && !again; k++) {
                const TensorNode *m = d->g->nodes[k];
                for (int t = 0; t < RP_MAX_SRC && !again && drawn(d, m) == to; t++)
                    again = m->src[t] != NULL && drawn(d, through_views(m->src[t])) == from;
            }
            if (again) continue;
            seen[from->id]    = true;
            const char *style = from->id >= to->id  ? ", style=dashed, constraint=false, label=\"next layer\""
                                : node_writes(n, s) ? ", dir=back, color=\"#238b45\""
                                                    : "";
            fprintf(d->out, "  n%d -> n%d [edgetooltip=\"", from->id, to->id);
            write_source_names(d, n, from);
            fprintf(d->out, "\"%s];\n", style);
        }
        for (int s = 0; s < RP_MAX_SRC; s++)
            if (n->src[s] != NULL) seen[drawn(d, through_views(n->src[s]))->id] = false;
    }
}

static void write_dot(const Drawing *d, bool *seen) {
    fprintf(d->out, "digraph reprise {\n  rankdir=TB;\n  nodesep=0.25;\n  ranksep=0.3;\n");
    fprintf(d->out, "  node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=11, height=0.3, "
                    "margin=\"0.1,0.04\"];\n  edge [color=\"#555555\", arrowsize=0.7, fontname=\"Helvetica\", "
                    "fontsize=10];\n");
    if (d->o->title != NULL) {
        fprintf(d->out, "  label=\"");
        escaped(d->out, d->o->title);
        fprintf(d->out, "\"; labelloc=t; fontname=\"Helvetica\"; fontsize=14;\n");
    }
    for (int i = 0; i < d->g->n_nodes; i++)
        if (d->g->nodes[i]->layer < 0 && visible(d, d->g->nodes[i])) write_node(d, d->g->nodes[i], "  ");
    for (int l = 0; l < d->n_layers; l++) {
        if (d->like[l] != l || (d->o->one_layer && l != d->o->layer)) continue;
        fprintf(d->out, "  subgraph cluster_%d {\n    label=\"", l);
        write_layers(d, l);
        fprintf(d->out,
                "\"; labeljust=l; style=rounded; color=\"#888888\"; fontname=\"Helvetica-Bold\"; fontsize=13;\n");
        for (int i = d->first[l]; i < d->first[l + 1]; i++)
            if (visible(d, d->g->nodes[d->member[i]])) write_node(d, d->g->nodes[d->member[i]], "    ");
        fprintf(d->out, "  }\n");
    }
    write_edges(d, seen);
    fprintf(d->out, "}\n");
}

RpStatus rp_graph_dump_dot(const ComputeGraph *g, const RpDumpOptions *options, FILE *out) {
    Drawing d = {.g = g, .o = options, .out = out};
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->layer >= d.n_layers) d.n_layers = g->nodes[i]->layer + 1;
    const size_t n = (size_t)g->n_nodes + 1, l = (size_t)d.n_layers + 2;
    int         *ints = calloc(2 * n + 2 * l, sizeof *ints);
    bool        *seen = calloc(n, sizeof *seen);
    if (ints == NULL || seen == NULL) {
        free(ints);
        free(seen);
        return rp_fail(RP_E_NOMEM, "out of memory while drawing %d nodes", g->n_nodes);
    }
    d.first  = ints;
    d.like   = ints + l;
    d.member = ints + 2 * l;
    d.index  = ints + 2 * l + n;
    group_layers(&d);
    write_dot(&d, seen);
    free(ints);
    free(seen);
    return RP_OK;
}
