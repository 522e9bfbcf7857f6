/* A graph as text, one line per node, or as JSON, one object per node. dump_dot.c writes DOT. Ids in a
 * dump are indices of nodes, so with one_layer some sources are not in the dump. */
#include "graph/dump.h"

#include "base/sized.h"
#include "graph/json.h"

#include <stdlib.h>
#include <string.h>

static bool is_selected(const TensorNode *n, const RpDumpOptions *o) {
    return !o->one_layer || n->layer == o->layer;
}

/* Columns of the text dump as wide as their widest cell. */
typedef struct Widths {
    int op, name, result;
} Widths;

static int wider(int width, const char *cell) {
    const int n = (int)strlen(cell);
    return n > width ? n : width;
}

static Widths widths_of(const ComputeGraph *g, const RpDumpOptions *o) {
    char   shape[96];
    Widths w = {2, 4, 6}; /* of the headings */
    for (int i = 0; i < g->n_nodes; i++) {
        const TensorNode *n = g->nodes[i];
        if (!is_selected(n, o)) continue;
        w = (Widths){wider(w.op, rp_node_op_name(n)), wider(w.name, n->name),
                     wider(w.result, rp_format_shape(&n->view, shape, sizeof shape))};
    }
    return w;
}

/* " w=3 ids=0": the nodes that are sources, by the names of the sources. */
static void dump_sources(const TensorNode *n, FILE *out) {
    for (int s = 0; s < RP_MAX_SRC; s++) {
        const char *name = rp_node_source_name(n, s);
        if (n->src[s] != NULL) fprintf(out, " %s%s%d", name, name[0] != '\0' ? "=" : "", n->src[s]->id);
    }
}

static void dump_text(const ComputeGraph *g, const RpDumpOptions *o, FILE *out) {
    const Widths w = widths_of(g, o);
    if (o->title != NULL) fprintf(out, "%s\n", o->title);
    fprintf(out, "%5s %5s  %-*s  %-*s  %-*s %12s  %s\n", "node", "layer", w.op, "op", w.name, "name",
            w.result, "result", "bytes", "sources");
    for (int i = 0; i < g->n_nodes; i++) {
        const TensorNode *n = g->nodes[i];
        char              shape[96], ops[128], layer[16] = "-";
        if (!is_selected(n, o)) continue;
        if (n->layer >= 0) snprintf(layer, sizeof layer, "%d", n->layer);
        fprintf(out, "%5d %5s  %-*s  %-*s  %-*s %12zu ", i, layer, w.op, rp_node_op_name(n), w.name, n->name,
                w.result, rp_format_shape(&n->view, shape, sizeof shape), rp_node_bytes(n));
        dump_sources(n, out);
        if (n->is_output) fprintf(out, "  (output)");
        if (rp_node_fused_ops(n, ops, sizeof ops)[0] != '\0') fprintf(out, "  (%s)", ops);
        fprintf(out, "%s%s\n", o->notes != NULL && o->notes[i].text[0] != '\0' ? "  | " : "",
                o->notes != NULL ? o->notes[i].text : "");
    }
    fprintf(out, "%d nodes, %d of them run a kernel\n", g->n_nodes, rp_graph_n_steps(g));
}

static void dump_json_node(const TensorNode *n, const RpDumpOptions *o, FILE *out) {
    char ops[128];
    fprintf(out, "{\"id\":%d,\"op\":\"%s\",\"name\":", n->id, rp_node_op_name(n));
    rp_json_string(out, n->name);
    fprintf(
        out,
        ",\"layer\":%d,\"dtype\":\"%s\",\"ne\":[%lld,%lld,%lld,%lld],\"nb\":[%zu,%zu,%zu,%zu],\"bytes\":%zu",
        n->layer, rp_dtype_name(n->view.dtype), (long long)n->view.ne[0], (long long)n->view.ne[1],
        (long long)n->view.ne[2], (long long)n->view.ne[3], n->view.nb[0], n->view.nb[1], n->view.nb[2],
        n->view.nb[3], rp_node_bytes(n));
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
        rp_json_string(out, o->notes[n->id].text);
    }
    fputs("}", out);
}

static void dump_json(const ComputeGraph *g, const RpDumpOptions *o, FILE *out) {
    const char *comma = "";
    fprintf(out, "{\"title\":");
    rp_json_string(out, o->title != NULL ? o->title : "");
    fprintf(out, ",\"n_nodes\":%d,\"n_steps\":%d,\"nodes\":[", g->n_nodes, rp_graph_n_steps(g));
    for (int i = 0; i < g->n_nodes; i++) {
        if (!is_selected(g->nodes[i], o)) continue;
        fprintf(out, "%s\n", comma);
        dump_json_node(g->nodes[i], o, out);
        comma = ",";
    }
    fprintf(out, "\n]}\n");
}

size_t rp_node_bytes(const TensorNode *n) {
    return rp_row_bytes(n->view.dtype, n->view.ne[0]) * (size_t)rp_view_rows(&n->view);
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
            return rp_fail(RP_E_ARG, "the graph has no layer %d; the last is %d", options->layer, last);
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
        return rp_fail(RP_E_ARG, "unknown dump format %d", (int)options->format);
    }
    return ferror(out) ? rp_fail(RP_E_IO, "the graph could not be written") : RP_OK;
}

RpStatus rp_graph_dump_sized(const ComputeGraph *g, const RpDumpOptions *options, size_t options_bytes,
                             size_t note_bytes, FILE *out) {
    RpDumpOptions o;
    void         *notes = NULL;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpDumpOptions"));
    if (o.notes != NULL)
        RP_TRY(rp_sized_array_in(&notes, sizeof *o.notes, o.notes, note_bytes, (size_t)g->n_nodes,
                                 "RpDumpNote"));
    o.notes           = notes;
    const RpStatus st = dump(g, &o, out);
    free(notes);
    return st;
}
