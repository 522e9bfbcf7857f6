/* why.c - one node of a graph as text and as JSON. */
#include "cli/provenance/why.h"

#include "cli/terminal/message.h"

#include <inttypes.h>
#include <string.h>

enum { SHOWN_BYTES = 200 }; /* of a name or path in text */

static void put_visible(const char *text, FILE *out) { cli_print_escaped(out, text, strlen(text), SHOWN_BYTES); }

static void put_text(const char *text, FILE *out) { rp_put_json_string(text, strlen(text), out); }

static size_t bytes_of(const RpTensorView *v) { return rp_row_bytes(v->dtype, v->ne[0]) * (size_t)rp_view_rows(v); }

static RpNodePlace place_of(const Why *w, const TensorNode *n) {
    RpNodePlace p = {.space = "none", .base = n, .step = -1};
    if (rp_plan_place(w->plan, n, &p) != RP_OK) p.space = "none"; /* a node of another graph */
    return p;
}

/* The weight that source s of n is or views; NULL if it is none. */
static const TensorNode *weight_of(const Why *w, const TensorNode *n, int s) {
    const TensorNode *source = rp_node_source(n, s);
    const RpNodePlace p      = source != NULL ? place_of(w, source) : (RpNodePlace){.space = ""};
    return strcmp(p.space, "weight") == 0 ? p.base : NULL;
}

static uint64_t hash_of(const RpTensorView *v) { return rp_xxh64(v->data, rp_view_extent_bytes(v)); }

/* ---- JSON ---- */

static void json_reference(const TensorNode *n, FILE *out) {
    fprintf(out, "{\"node\":%d,\"op\":\"%s\",\"name\":", rp_node_number(n), rp_node_op_name(n));
    put_text(rp_node_name(n), out);
}

static void json_weight(const Why *w, const TensorNode *weight, const char *source, FILE *out) {
    const RpTensorView v      = rp_node_view(weight);
    size_t             offset = 0;
    const char        *path   = rp_model_find_bytes(w->model, v.data, &offset);
    json_reference(weight, out);
    fprintf(out, ",\"source\":\"%s\",\"dtype\":\"%s\",\"ne\":[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", source,
            rp_dtype_name(v.dtype), v.ne[0], v.ne[1], v.ne[2], v.ne[3]);
    fputs(",\"file\":", out);
    if (path != NULL) {
        put_text(path, out);
        fprintf(out, ",\"offset\":%zu", offset);
    } else {
        fputs("null,\"offset\":null", out);
    }
    fprintf(out, ",\"bytes\":%zu", rp_view_extent_bytes(&v));
    if (w->hash) fprintf(out, ",\"xxh64\":\"%016" PRIx64 "\"", hash_of(&v));
    fputc('}', out);
}

/* The weights that n is or reads. */
static void json_weights(const Why *w, const TensorNode *n, FILE *out) {
    const char *comma = "";
    if (strcmp(rp_node_op_name(n), "weight") == 0) {
        json_weight(w, n, "", out);
        return;
    }
    for (int s = 0; s < RP_MAX_SRC; s++) {
        const TensorNode *weight = weight_of(w, n, s);
        if (weight == NULL) continue;
        fputs(comma, out);
        json_weight(w, weight, rp_node_source_name(n, s), out);
        comma = ",";
    }
}

static void json_sources(const TensorNode *n, FILE *out) {
    const char *comma = "";
    for (int s = 0; s < RP_MAX_SRC; s++) {
        if (rp_node_source(n, s) == NULL) continue;
        fputs(comma, out);
        json_reference(rp_node_source(n, s), out);
        fprintf(out, ",\"source\":\"%s\"}", rp_node_source_name(n, s));
        comma = ",";
    }
}

static void json_readers(const Why *w, const TensorNode *n, FILE *out) {
    const char *comma = "";
    for (int i = 0; i < rp_graph_n_nodes(w->graph); i++)
        for (int s = 0; s < RP_MAX_SRC; s++) {
            const TensorNode *reader = rp_graph_node(w->graph, i);
            if (rp_node_source(reader, s) != n) continue;
            fputs(comma, out);
            json_reference(reader, out);
            fprintf(out, ",\"source\":\"%s\"}", rp_node_source_name(reader, s));
            comma = ",";
        }
}

static void json_origins(const TensorNode *n, FILE *out) {
    for (int i = 0; i < rp_node_n_origins(n); i++) {
        const TensorNode *o = rp_node_origin(n, i);
        fprintf(out, "%s{\"built\":%d,\"op\":\"%s\",\"name\":", i > 0 ? "," : "", rp_node_built(o),
                rp_node_built_op(o));
        put_text(rp_node_name(o), out);
        fprintf(out, ",\"layer\":%d,\"node\":%d}", rp_node_layer(o), rp_node_number(o));
    }
}

static void json_place(const RpNodePlace *p, FILE *out) {
    fprintf(out, "{\"space\":\"%s\",\"base\":", p->space);
    put_text(rp_node_name(p->base), out);
    fprintf(out, ",\"offset\":%zu,\"bytes\":%zu,\"step\":%d,\"first_step\":%d,\"last_step\":%d,\"in_place\":%s}",
            p->offset, p->bytes, p->step, p->first_step, p->last_step, p->in_place ? "true" : "false");
}

void cli_why_json(const Why *w, const TensorNode *n, FILE *out) {
    const RpTensorView v = rp_node_view(n);
    const RpNodePlace  p = place_of(w, n);
    json_reference(n, out);
    fprintf(out, ",\"layer\":%d,\"built\":%d,\"built_op\":\"%s\",\"output\":%s,\"dtype\":\"%s\"", rp_node_layer(n),
            rp_node_built(n), rp_node_built_op(n), rp_node_is_output(n) ? "true" : "false", rp_dtype_name(v.dtype));
    fprintf(out, ",\"ne\":[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "],\"nb\":[%zu,%zu,%zu,%zu],\"bytes\":%zu",
            v.ne[0], v.ne[1], v.ne[2], v.ne[3], v.nb[0], v.nb[1], v.nb[2], v.nb[3], bytes_of(&v));
    fputs(",\"place\":", out);
    json_place(&p, out);
    fputs(",\"origins\":[", out);
    json_origins(n, out);
    fputs("],\"passes\":[", out);
    for (int i = 0; rp_node_pass(n, i) != NULL; i++) fprintf(out, "%s\"%s\"", i > 0 ? "," : "", rp_node_pass(n, i));
    fputs("],\"weights\":[", out);
    json_weights(w, n, out);
    fputs("],\"reads\":[", out);
    json_sources(n, out);
    fputs("],\"readers\":[", out);
    json_readers(w, n, out);
    fputs("]}", out);
}

/* ---- text ---- */

/* "#12 blk.0.q (rope)" */
static void text_reference(const TensorNode *n, FILE *out) {
    fprintf(out, "#%d ", rp_node_number(n));
    put_visible(rp_node_name(n), out);
    fprintf(out, "%s(%s)", rp_node_name(n)[0] != '\0' ? " " : "", rp_node_op_name(n));
}

static void label(const char *text, FILE *out) { fprintf(out, "  %-12s", text); }

/* The label of a list: in front of its first line only. */
static void text_label(const char *text, bool *first, FILE *out) {
    label(*first ? text : "", out);
    *first = false;
}

/* "f32 [64,4]", without outer dimensions of 1 */
static void text_shape(const RpTensorView *v, FILE *out) {
    int n = RP_MAX_DIMS;
    while (n > 1 && v->ne[n - 1] == 1) n--;
    fprintf(out, "%s [%" PRId64, rp_dtype_name(v->dtype), v->ne[0]);
    for (int i = 1; i < n; i++) fprintf(out, ",%" PRId64, v->ne[i]);
    fputc(']', out);
}

static void text_weight(const Why *w, const TensorNode *weight, const char *source, FILE *out) {
    const RpTensorView v      = rp_node_view(weight);
    size_t             offset = 0;
    const char        *path   = rp_model_find_bytes(w->model, v.data, &offset);
    if (source[0] != '\0') fprintf(out, "%s = ", source);
    put_visible(rp_node_name(weight), out);
    fputc(' ', out);
    text_shape(&v, out);
    fprintf(out, ", %zu bytes", rp_view_extent_bytes(&v));
    if (path != NULL) {
        fputs(" at ", out);
        put_visible(path, out);
        fprintf(out, " + %zu", offset);
    } else {
        fputs(", made when the model was opened", out);
    }
    if (w->hash) fprintf(out, ", xxh64 %016" PRIx64, hash_of(&v));
    fputc('\n', out);
}

static void text_weights(const Why *w, const TensorNode *n, FILE *out) {
    bool first = true;
    if (strcmp(rp_node_op_name(n), "weight") == 0) {
        text_label("weight", &first, out);
        text_weight(w, n, "", out);
    }
    for (int s = 0; s < RP_MAX_SRC; s++) {
        const TensorNode *weight = weight_of(w, n, s);
        if (weight == NULL) continue;
        text_label("weights", &first, out);
        text_weight(w, weight, rp_node_source_name(n, s), out);
    }
}

static void text_place(const Why *w, const RpNodePlace *p, FILE *out) {
    label("memory", out);
    if (strcmp(p->space, "arena") == 0)
        fprintf(out, "arena + %zu", p->offset);
    else {
        fprintf(out, "%s ", p->space);
        put_visible(rp_node_name(p->base), out);
        fprintf(out, " + %zu", p->offset);
    }
    fprintf(out, ", %zu bytes", p->bytes);
    if (p->step >= 0) fprintf(out, "; step %d of %d", p->step, rp_plan_memory(w->plan).n_steps);
    if (strcmp(p->space, "arena") == 0) {
        const int n_steps = rp_plan_memory(w->plan).n_steps;
        fprintf(out, "; its buffer is in use from ");
        fprintf(out, p->first_step < 0 ? "the start" : "step %d", p->first_step);
        fprintf(out, p->last_step >= n_steps ? " to the end" : " to step %d", p->last_step);
    }
    fprintf(out, "%s\n", p->in_place ? "; in place of its source" : "");
}

static void text_origins(const TensorNode *n, FILE *out) {
    bool first = true;
    if (strcmp(rp_node_op_name(n), rp_node_built_op(n)) != 0) {
        label(rp_node_built(n) >= 0 ? "built as" : "made as", out);
        fprintf(out, "%s\n", rp_node_built_op(n));
    }
    for (int i = 0; i < rp_node_n_origins(n); i++) {
        const TensorNode *o = rp_node_origin(n, i);
        text_label("model code", &first, out);
        fprintf(out, "%s%s", rp_node_built_op(o), rp_node_name(o)[0] != '\0' ? " " : "");
        put_visible(rp_node_name(o), out);
        fputc('\n', out);
    }
    if (first) fputs("  model code  none: a pass added it\n", out);
    label("passes", out);
    for (int i = 0; rp_node_pass(n, i) != NULL; i++) fprintf(out, "%s%s", i > 0 ? ", " : "", rp_node_pass(n, i));
    fprintf(out, "%s\n", rp_node_pass(n, 0) == NULL ? "none changed it" : "");
}

void cli_why_text(const Why *w, const TensorNode *n, FILE *out) {
    const RpTensorView v     = rp_node_view(n);
    const RpNodePlace  p     = place_of(w, n);
    bool               first = true;
    text_reference(n, out);
    if (rp_node_layer(n) >= 0) fprintf(out, ", layer %d", rp_node_layer(n));
    fputs(rp_node_is_output(n) ? ", output\n" : "\n", out);
    label("result", out);
    text_shape(&v, out);
    fprintf(out, ", strides %zu, %zu, %zu, %zu; %zu bytes\n", v.nb[0], v.nb[1], v.nb[2], v.nb[3], bytes_of(&v));
    text_place(w, &p, out);
    text_origins(n, out);
    text_weights(w, n, out);
    for (int s = 0; s < RP_MAX_SRC; s++) {
        if (rp_node_source(n, s) == NULL) continue;
        text_label("reads", &first, out);
        fprintf(out, "%s = ", rp_node_source_name(n, s));
        text_reference(rp_node_source(n, s), out);
        fputc('\n', out);
    }
    first = true;
    for (int i = 0; i < rp_graph_n_nodes(w->graph); i++)
        for (int s = 0; s < RP_MAX_SRC; s++) {
            const TensorNode *reader = rp_graph_node(w->graph, i);
            if (rp_node_source(reader, s) != n) continue;
            text_label("read by", &first, out);
            text_reference(reader, out);
            fprintf(out, " as %s\n", rp_node_source_name(reader, s));
        }
}
