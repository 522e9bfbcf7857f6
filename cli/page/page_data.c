/* page_data.c - writes the data of a page. The JSON is ASCII without '<': so no name of a model ends the element that
 * holds it, and no control character of Unicode turns the text of the file around. */
#include "cli/page/page.h"

#include "cli/common.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* "[64,2,1,1]" */
static int index_of_dims(PageWriter *w, const int64_t dims[RP_MAX_DIMS]) {
    char text[4 * 24];
    snprintf(text, sizeof text, "[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", dims[0], dims[1], dims[2],
             dims[3]);
    return cli_page_string(w, text);
}

static void put_string(PageWriter *w, const json_t *string) {
    char *text = json_dumps(string, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    w->failed  = w->failed || text == NULL;
    for (const char *p = text; p != NULL && *p != '\0'; p++) {
        if (*p == '<')
            fputs("\\u003c", w->out);
        else
            fputc(*p, w->out);
    }
    free(text);
}

static void put_text(PageWriter *w, const char *key, const char *text) {
    json_t *string = cli_page_new_string(text);
    w->failed      = w->failed || string == NULL;
    fprintf(w->out, "\"%s\":", key);
    put_string(w, string);
    json_decref(string);
}

static void put_node(PageWriter *w, const DiffNode *n) {
    fprintf(w->out, "[%d,%d,%d,%d,%d,", n->id, cli_page_string(w, n->op), cli_page_string(w, n->name), n->layer,
            cli_page_string(w, n->dtype));
    fprintf(w->out, "%d,%d,%d,%d,%" PRId64 ",", index_of_dims(w, n->ne), index_of_dims(w, n->nb),
            cli_page_string(w, n->params), n->kernel + 2 * n->output, n->bytes);
    fprintf(w->out, "%d,%d,%d,%d,%.3f,[", cli_page_string(w, n->parts), cli_page_string(w, n->roles),
            cli_page_string(w, n->note), cli_page_string(w, n->colour), n->us);
    for (int s = 0; s < n->n_src; s++) fprintf(w->out, "%s%d", s > 0 ? "," : "", n->src[s]);
    fputs("]]", w->out);
}

static void put_graph(PageWriter *w, const DiffGraph *g, const PageData *first) {
    fputc('{', w->out);
    put_text(w, "label", g->label);
    fputc(',', w->out);
    put_text(w, "title", g->title);
    fputs(",\"nodes\":[\n", w->out);
    for (int i = 0; i < g->n; i++) {
        if (i > 0) fputs(",\n", w->out);
        put_node(w, &g->nodes[i]);
    }
    fputs("],\"plan\":", w->out);
    if (first != NULL && first->why != NULL)
        cli_page_plan(w, first->why, g, first->plan);
    else
        fputs("null", w->out);
    fputs("}\n", w->out);
}

static void put_diff(const DiffGraph *a, const DiffGraph *b, FILE *out) {
    fputs("{\"partner\":[", out);
    for (int k = 0; k < b->n; k++) fprintf(out, "%s%d", k > 0 ? "," : "", b->nodes[k].partner);
    fputs("],\"changes\":[", out);
    for (int k = 0; k < b->n; k++) fprintf(out, "%s%u", k > 0 ? "," : "", cli_diff_changes(a, b, k));
    fputs("]}", out);
}

static void put_data(PageWriter *w, const PageData *d) {
    const json_t *string;
    size_t        i;
    fputc('{', w->out);
    put_text(w, "program", RP_VERSION);
    fputc(',', w->out);
    put_text(w, "times", d->times);
    fputs(",\"graphs\":[", w->out);
    put_graph(w, d->graphs[0], d);
    if (d->graphs[1] != NULL) {
        fputc(',', w->out);
        put_graph(w, d->graphs[1], NULL);
    }
    fputs("],\"diff\":", w->out);
    if (d->graphs[1] != NULL)
        put_diff(d->graphs[0], d->graphs[1], w->out);
    else
        fputs("null", w->out);
    fputs(",\"strings\":[\n", w->out);
    json_array_foreach(w->list, i, string) {
        if (i > 0) fputs(",\n", w->out);
        put_string(w, string);
    }
    fputs("]}", w->out);
}

RpStatus cli_page_write(const PageData *data, FILE *out) {
    PageWriter w = {.out = out, .index = json_object(), .list = json_array(), .base_names = data->base_names};
    w.failed     = w.index == NULL || w.list == NULL;
    fwrite(page_head, 1, page_head_bytes, out);
    if (!w.failed) put_data(&w, data);
    fwrite(page_tail, 1, page_tail_bytes, out);
    json_decref(w.index);
    json_decref(w.list);
    return w.failed ? rp_fail(RP_E_NOMEM, "out of memory for a page") : RP_OK;
}
