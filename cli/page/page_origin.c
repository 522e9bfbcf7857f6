/* page_origin.c - the plan of a page: where values lie, and where nodes and weights come from. */
#include "cli/page/page.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static int64_t number(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static void put_step(const PageWriter *w, const Why *why, const json_t *step) {
    const TensorNode *n     = rp_graph_node(why->graph, (int)number(step, "node"));
    const char       *space = json_string_value(json_object_get(step, "space"));
    RpNodePlace       place = {0};
    if (rp_plan_place(why->plan, n, &place) != RP_OK)
        place = (RpNodePlace){.step = -1}; /* a node of the plan has one */
    fprintf(w->out, "[%d,%d,%" PRId64 ",%" PRId64 ",%" PRId64 ",%d,%d,%d]", rp_node_number(n),
            space != NULL && strcmp(space, "state") == 0, number(step, "offset"), number(step, "bytes"),
            number(step, "moved_bytes"), place.first_step, place.last_step, place.in_place);
}

static void put_origins(PageWriter *w, const TensorNode *n) {
    char   passes[512];
    size_t at = 0;
    passes[0] = '\0';
    for (int i = 0; rp_node_pass(n, i) != NULL && at < sizeof passes; i++)
        at += (size_t)snprintf(passes + at, sizeof passes - at, "%s%s", i > 0 ? ", " : "", rp_node_pass(n, i));
    fprintf(w->out, "[%d,%d,%d", rp_node_number(n), cli_page_string(w, rp_node_built_op(n)),
            cli_page_string(w, passes));
    for (int i = 0; i < rp_node_n_origins(n); i++) {
        const TensorNode *o = rp_node_origin(n, i);
        fprintf(w->out, ",%d,%d", cli_page_string(w, rp_node_built_op(o)), cli_page_string(w, rp_node_name(o)));
    }
    fputc(']', w->out);
}

static void put_weight(PageWriter *w, const Why *why, const TensorNode *n) {
    const RpTensorView v      = rp_node_view(n);
    const size_t       bytes  = rp_view_extent_bytes(&v);
    size_t             offset = 0;
    const char        *path   = rp_model_find_bytes(why->model, v.data, &offset);
    int                hash   = -1;
    if (path != NULL && access(path, F_OK) != 0) path = NULL; /* of a preset, whose weights are not made */
    if (path != NULL && w->base_names && strrchr(path, '/') != NULL) path = strrchr(path, '/') + 1;
    if (why->hash) {
        char text[20];
        snprintf(text, sizeof text, "%016" PRIx64, rp_xxh64(v.data, bytes));
        hash = cli_page_string(w, text);
    }
    fprintf(w->out, "[%d,%d,%zu,%zu,%d]", rp_node_number(n), path != NULL ? cli_page_string(w, path) : -1, offset,
            bytes, hash);
}

static void put_sources_of_nodes(PageWriter *w, const Why *why, const DiffGraph *g) {
    const char *comma = "";
    fputs("],\"origins\":[", w->out);
    for (int i = 0; i < g->n; i++) {
        if (g->nodes[i].leaf) continue;
        fputs(comma, w->out);
        put_origins(w, rp_graph_node(why->graph, i));
        comma = ",";
    }
    fputs("],\"files\":[", w->out);
    comma = "";
    for (int i = 0; i < g->n; i++) {
        if (strcmp(g->nodes[i].op, "weight") != 0) continue;
        fputs(comma, w->out);
        put_weight(w, why, rp_graph_node(why->graph, i));
        comma = ",";
    }
    fputs("]", w->out);
}

void cli_page_plan(PageWriter *w, const Why *why, const DiffGraph *g, const json_t *plan) {
    const json_t *step;
    size_t        i;
    fprintf(w->out, "{\"arena\":%" PRId64 ",\"unshared\":%" PRId64 ",\"state\":%" PRId64 ",",
            number(plan, "arena_bytes"), number(plan, "arena_bytes_without_reuse"), number(plan, "state_bytes"));
    fprintf(w->out, "\"weights\":%" PRId64 ",\"traffic\":%" PRId64 ",\"steps\":[", number(plan, "weight_bytes"),
            number(plan, "traffic_bytes"));
    json_array_foreach(json_object_get(plan, "steps"), i, step) {
        if (i > 0) fputc(',', w->out);
        put_step(w, why, step);
    }
    put_sources_of_nodes(w, why, g);
    fputc('}', w->out);
}
