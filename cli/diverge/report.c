/* report.c - the text and JSON of a comparison. */
#include "cli/diverge/report.h"

#include "cli/terminal/message.h"
#include "cli/terminal/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SHOWN_BYTES = 160 };

/* The coordinates of element i, the innermost first: "[3,0]". */
static const char *index_text(const TensorNode *n, size_t i, char *buf, size_t size) {
    const RpTensorView v    = rp_node_view(n);
    int                dims = RP_MAX_DIMS, len = 0;
    while (dims > 1 && v.ne[dims - 1] == 1) dims--;
    for (int k = 0; k < dims; k++) {
        len +=
            snprintf(buf + len, size - (size_t)len, "%s%" PRIu64, k > 0 ? "," : "[", (uint64_t)i % (uint64_t)v.ne[k]);
        i /= (size_t)v.ne[k];
    }
    snprintf(buf + len, size - (size_t)len, "]");
    return buf;
}

static const char *step_text(const Divergence *w, char *buf, size_t size) {
    if (w->step == 0)
        snprintf(buf, size, "the prompt of %d token%s", w->n_prompt, w->n_prompt == 1 ? "" : "s");
    else
        snprintf(buf, size, "decode step %d, token %d", w->step, w->tokens.ids[w->tokens.n - 1]);
    return buf;
}

static void put_name(const char *name, FILE *out) { cli_print_escaped(out, name, strlen(name), SHOWN_BYTES); }

static void put_first(const Divergence *w, FILE *out) {
    const TensorNode     *n = w->list.items[w->first].node;
    const NodeDifference *d = &w->d[w->first];
    char                  at[96], step[64];
    fprintf(out, "first difference: %s#%d ", cli_style(out, STYLE_ERROR), rp_node_number(n));
    put_name(rp_node_name(n), out);
    fprintf(out, "%s (%s", cli_style(out, STYLE_PLAIN), rp_node_op_name(n));
    if (strcmp(rp_node_op_name(n), rp_node_built_op(n)) != 0) fprintf(out, ", built as %s", rp_node_built_op(n));
    fprintf(out, ")");
    if (rp_node_layer(n) >= 0) fprintf(out, ", layer %d", rp_node_layer(n));
    fprintf(out, ", in %s\n", step_text(w, step, sizeof step));
    fprintf(out, "  element %s: A %.9g, B %.9g\n", index_text(n, d->first, at, sizeof at), d->a, d->b);
    fprintf(out, "  %zu of %zu elements differ: at most %.3g, relative %.3g", d->n_differ, d->n, d->max_abs,
            d->max_relative);
    if (d->max_ulps > 0) fprintf(out, ", %" PRIu64 " ULPs", d->max_ulps);
    fputc('\n', out);
}

static RpStatus put_layers(const Divergence *w, FILE *out) {
    Table    *t       = cli_table_new(">layer|ends with|>rms of A|>rms of A - B|>relative|>ULPs");
    const int n_layer = rp_model_info(w->a->model)->n_layer;
    for (int l = 0; l < n_layer; l++) {
        const int i = cli_walk_end_of_layer(w, l);
        if (i < 0) continue;
        const NodeDifference *d = &w->d[i];
        cli_table_add(t, "%d", l);
        cli_table_add(t, "%s", rp_node_name(w->list.items[i].node));
        cli_table_add(t, "%.4g", d->rms_a);
        cli_table_add(t, "%.3g", d->rms_difference);
        cli_table_add(t, "%.3g", cli_relative(d));
        cli_table_add(t, "%" PRIu64, d->max_ulps);
        if (d->n_differ > 0) cli_table_style(t, STYLE_ERROR);
    }
    return cli_table_print(t, out, 0);
}

static void put_counts(const Divergence *w, FILE *out) {
    fprintf(out, "%ld nodes compared, %ld have the same bits", w->n_compared, w->n_equal);
    if (w->n_only_a > 0) fprintf(out, "; %ld only in A", w->n_only_a);
    if (w->n_only_b > 0) fprintf(out, "; %ld only in B", w->n_only_b);
    if (w->n_other_shape > 0) fprintf(out, "; %ld of another shape", w->n_other_shape);
    fputc('\n', out);
}

RpStatus cli_diverge_text(const Divergence *w, FILE *out) {
    char step[64];
    fprintf(out, "A  ");
    put_name(w->name_a, out);
    fprintf(out, "\nB  ");
    put_name(w->name_b, out);
    fprintf(out, "\n\n");
    if (w->first >= 0)
        put_first(w, out);
    else if (w->tolerance > 0.0f)
        fprintf(out, "no difference above %g in %d step%s\n", (double)w->tolerance, w->step + 1,
                w->step > 0 ? "s" : "");
    else
        fprintf(out, "the same bits in %d step%s\n", w->step + 1, w->step > 0 ? "s" : "");
    put_counts(w, out);
    if (w->n_equal == w->n_compared) return RP_OK;
    fprintf(out, "\nthe residual stream in %s:\n", step_text(w, step, sizeof step));
    RP_TRY(put_layers(w, out));
    if (!w->logits.known) return RP_OK;
    fprintf(out, "\nlogits: KL divergence %.3g nats, largest difference %.3g, top token ", w->logits.kl,
            w->logits.max_abs);
    if (w->logits.top_a == w->logits.top_b)
        fprintf(out, "%d in both\n", w->logits.top_a);
    else
        fprintf(out, "%d in A, %d in B\n", w->logits.top_a, w->logits.top_b);
    return RP_OK;
}

/* ---- JSON ---- */

static void json_text(const char *text, FILE *out) { rp_put_json_string(text, strlen(text), out); }

/* ,"name":x; null for what is no number of JSON */
static void json_number(const char *name, double x, FILE *out) {
    fprintf(out, ",\"%s\":", name);
    if (isfinite(x))
        fprintf(out, "%.9g", x);
    else
        fputs("null", out);
}

static void json_difference(const NodeDifference *d, FILE *out) {
    fprintf(out, ",\"elements\":%zu,\"differ\":%zu", d->n, d->n_differ);
    json_number("max_abs", d->max_abs, out);
    json_number("max_relative", d->max_relative, out);
    json_number("scaled", d->scaled, out);
    json_number("rms_a", d->rms_a, out);
    json_number("rms_difference", d->rms_difference, out);
    json_number("relative", cli_relative(d), out);
    fprintf(out, ",\"max_ulps\":%" PRIu64, d->max_ulps);
}

static void json_node(const Divergence *w, int i, FILE *out) {
    const TensorNode *n = w->list.items[i].node;
    fprintf(out, "{\"node\":%d,\"op\":\"%s\",\"built_op\":\"%s\",\"layer\":%d,\"name\":", rp_node_number(n),
            rp_node_op_name(n), rp_node_built_op(n), rp_node_layer(n));
    json_text(rp_node_name(n), out);
    json_difference(&w->d[i], out);
}

void cli_diverge_json(const Divergence *w, FILE *out) {
    char        index[96];
    const char *comma = "";
    fputs("{\"a\":", out);
    json_text(w->name_a, out);
    fputs(",\"b\":", out);
    json_text(w->name_b, out);
    fprintf(out, ",\"agree\":%s,\"step\":%d,\"tokens\":[", w->first < 0 ? "true" : "false", w->step);
    for (size_t i = 0; i < w->tokens.n; i++) fprintf(out, "%s%d", i > 0 ? "," : "", w->tokens.ids[i]);
    fprintf(out, "],\"compared\":%ld,\"equal\":%ld,\"only_a\":%ld,\"only_b\":%ld,\"other_shape\":%ld,\"first\":",
            w->n_compared, w->n_equal, w->n_only_a, w->n_only_b, w->n_other_shape);
    if (w->first >= 0) {
        const NodeDifference *d = &w->d[w->first];
        json_node(w, w->first, out);
        fprintf(out, ",\"element\":%zu,\"index\":%s", d->first,
                index_text(w->list.items[w->first].node, d->first, index, sizeof index));
        json_number("value_a", d->a, out);
        json_number("value_b", d->b, out);
        fputc('}', out);
    } else {
        fputs("null", out);
    }
    fputs(",\"layers\":[", out);
    for (int l = 0; l < rp_model_info(w->a->model)->n_layer; l++) {
        const int i = cli_walk_end_of_layer(w, l);
        if (i < 0) continue;
        fputs(comma, out);
        json_node(w, i, out);
        fputc('}', out);
        comma = ",";
    }
    fputs("],\"logits\":", out);
    if (w->logits.known) {
        fprintf(out, "{\"top_a\":%d,\"top_b\":%d", w->logits.top_a, w->logits.top_b);
        json_number("kl", w->logits.kl, out);
        json_number("max_abs", w->logits.max_abs, out);
        fputc('}', out);
    } else {
        fputs("null", out);
    }
    fputs("}\n", out);
}
