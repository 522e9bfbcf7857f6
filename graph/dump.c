/* A graph as text, one line per node, or as JSON, one object per node. dump_dot.c writes DOT. Ids in a
 * dump are indices of nodes, so with one_layer some sources are not in the dump. */
#include "graph/dump.h"

#include "base/argument.h"

#include "base/sized.h"
#include "graph/columns.h"
#include "reprise/text.h"

#include <stdlib.h>
#include <string.h>

static bool is_selected(const TensorNode *n, const RpDumpOptions *o) { return !o->one_layer || n->layer == o->layer; }

/* The cells of one node; the sources are printed after them. */
typedef struct NodeRow {
    char id[16], layer[16], shape[96], bytes[24];
} NodeRow;

enum { NODE_COLUMNS = 6 };

static void format_node(const TensorNode *n, NodeRow *r, const char *cells[NODE_COLUMNS]) {
    snprintf(r->id, sizeof r->id, "%d", n->id);
    snprintf(r->layer, sizeof r->layer, n->layer >= 0 ? "%d" : "-", n->layer);
    snprintf(r->bytes, sizeof r->bytes, "%zu", rp_node_bytes(n));
    const char *row[NODE_COLUMNS] = {
        r->id, r->layer, rp_node_op_name(n), n->name, rp_format_shape(&n->view, r->shape, sizeof r->shape), r->bytes};
    memcpy(cells, row, sizeof row);
}

/* "  w=3 ids=0": the nodes that are sources, by the names of the sources; then remarks. */
static void dump_after_cells(const TensorNode *n, const char *note, FILE *out) {
    char        ops[128];
    const char *gap = "  ";
    for (int s = 0; s < RP_MAX_SRC; s++) {
        const char *name = rp_node_source_name(n, s);
        if (n->src[s] == NULL) continue;
        fprintf(out, "%s%s%s%d", gap, name, name[0] != '\0' ? "=" : "", n->src[s]->id);
        gap = " ";
    }
    if (n->is_output) fprintf(out, "  (output)");
    if (rp_node_fused_ops(n, ops, sizeof ops)[0] != '\0') fprintf(out, "  (%s)", ops);
    fprintf(out, "%s%s\n", note[0] != '\0' ? "  | " : "", note);
}

static void dump_text(const ComputeGraph *g, const RpDumpOptions *o, FILE *out) {
    const char *cells[NODE_COLUMNS] = {"node", "layer", "op", "name", "result", "bytes"};
    Columns     columns             = {.right = "rrlllr"};
    NodeRow     row;
    columns_measure(&columns, cells);
    for (int i = 0; i < g->n_nodes; i++) {
        const char *measured[NODE_COLUMNS];
        if (!is_selected(g->nodes[i], o)) continue;
        format_node(g->nodes[i], &row, measured);
        columns_measure(&columns, measured);
    }
    if (o->title != NULL) rp_put_visible(o->title, out), fputc('\n', out);
    columns_print(&columns, cells, out);
    fprintf(out, "  sources\n");
    for (int i = 0; i < g->n_nodes; i++) {
        if (!is_selected(g->nodes[i], o)) continue;
        format_node(g->nodes[i], &row, cells);
        columns_print(&columns, cells, out);
        dump_after_cells(g->nodes[i], o->notes != NULL ? o->notes[i].text : "", out);
    }
    fprintf(out, "%d nodes, %d of them run a kernel\n", g->n_nodes, rp_graph_n_steps(g));
}

static void dump_json_node(const TensorNode *n, const RpDumpOptions *o, FILE *out) {
    char ops[128];
    fprintf(out, "{\"id\":%d,\"op\":\"%s\",\"name\":", n->id, rp_node_op_name(n));
    rp_put_json_string(n->name, strlen(n->name), out);
    fprintf(out, ",\"layer\":%d,\"dtype\":\"%s\",\"ne\":[%lld,%lld,%lld,%lld],\"nb\":[%zu,%zu,%zu,%zu],\"bytes\":%zu",
            n->layer, rp_dtype_name(n->view.dtype), (long long)n->view.ne[0], (long long)n->view.ne[1],
            (long long)n->view.ne[2], (long long)n->view.ne[3], n->view.nb[0], n->view.nb[1], n->view.nb[2],
            n->view.nb[3], rp_node_bytes(n));
    if (node_is_kernel(n)) fprintf(out, ",\"colour\":\"%s\"", rp_node_colour(n));
    fprintf(out, ",\"kernel\":%s,\"output\":%s,\"sources\":[", node_is_kernel(n) ? "true" : "false",
            n->is_output ? "true" : "false");
    int n_src = RP_MAX_SRC;
    while (n_src > 0 && n->src[n_src - 1] == NULL) n_src--;
    for (int s = 0; s < n_src; s++) {
        if (s > 0) fputc(',', out);
        if (n->src[s] != NULL)
            fprintf(out, "%d", n->src[s]->id);
        else
            fputs("null", out); /* an absent optional source; later ones keep their position */
    }
    fputs("],\"source_names\":[", out);
    for (int s = 0; s < n_src; s++) fprintf(out, "%s\"%s\"", s > 0 ? "," : "", rp_node_source_name(n, s));
    fputs("],\"params\":", out);
    rp_node_dump_params(n, out);
    if (rp_node_fused_ops(n, ops, sizeof ops)[0] != '\0') fprintf(out, ",\"parts\":\"%s\"", ops);
    if (o->notes != NULL && o->notes[n->id].us > 0.0) fprintf(out, ",\"us\":%.3f", o->notes[n->id].us);
    if (o->notes != NULL && o->notes[n->id].text[0] != '\0') {
        fputs(",\"note\":", out);
        rp_put_json_string(o->notes[n->id].text, strlen(o->notes[n->id].text), out);
    }
    fputs("}", out);
}

static void dump_json(const ComputeGraph *g, const RpDumpOptions *o, FILE *out) {
    const char *comma = "";
    const char *title = o->title != NULL ? o->title : "";
    fprintf(out, "{\"title\":");
    rp_put_json_string(title, strlen(title), out);
    fprintf(out, ",\"n_nodes\":%d,\"n_steps\":%d,\"nodes\":[", g->n_nodes, rp_graph_n_steps(g));
    for (int i = 0; i < g->n_nodes; i++) {
        if (!is_selected(g->nodes[i], o)) continue;
        fprintf(out, "%s\n", comma);
        dump_json_node(g->nodes[i], o, out);
        comma = ",";
    }
    fprintf(out, "\n]}\n");
}

static RpStatus dump(const ComputeGraph *g, const RpDumpOptions *options, FILE *out) {
    if (g->status != RP_OK) return rp_fail(g->status, "%s", g->error);
    if (options->one_layer) {
        int found = 0, last = -1;
        for (int i = 0; i < g->n_nodes; i++) {
            found += g->nodes[i]->layer == options->layer;
            if (g->nodes[i]->layer > last) last = g->nodes[i]->layer;
        }
        if (found == 0)
            return rp_fail(RP_E_ARG, "layer %d of a graph, must be one of its layers, of which the last is %d",
                           options->layer, last);
    }
    switch (options->format) {
    case RP_DUMP_TEXT:
        dump_text(g, options, out);
        break;
    case RP_DUMP_JSON:
        dump_json(g, options, out);
        break;
    case RP_DUMP_DOT:
        RP_TRY(rp_graph_dump_dot(g, options, out));
        break;
    default:
        return rp_fail(RP_E_ARG, "dump format %d, must be from 0, RP_DUMP_TEXT, to 2, RP_DUMP_JSON",
                       (int)options->format);
    }
    return ferror(out) ? rp_fail(RP_E_IO, "the graph could not be written") : RP_OK;
}

RpStatus rp_graph_dump_sized(const ComputeGraph *g, const RpDumpOptions *options, size_t options_bytes,
                             size_t note_bytes, FILE *out) {
    RP_NOT_NULL(g, "g");
    RP_NOT_NULL(out, "out");

    RpDumpOptions o;
    void         *notes = NULL;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpDumpOptions"));
    if (o.notes != NULL)
        RP_TRY(rp_sized_array_in(&notes, sizeof *o.notes, o.notes, note_bytes, (size_t)g->n_nodes, "RpDumpNote"));
    o.notes           = notes;
    const RpStatus st = dump(g, &o, out);
    free(notes);
    return st;
}
