/* graph_source.c - opens a model file or preset and builds its graph. */
#include "cli/diff/graph_source.h"

#include "cli/common.h"

#include <string.h>
#include <unistd.h>

static bool is_preset(const char *name) {
    for (int i = 0; rp_synth_preset_name(i) != NULL; i++)
        if (strcmp(rp_synth_preset_name(i), name) == 0) return true;
    return false;
}

RpStatus cli_graph_source_open(const GraphSource *s, RpModel **out) {
    if (access(s->model, F_OK) != 0 && is_preset(s->model)) return rp_model_open_preset(s->model, s->type, out);
    if (s->type != NULL)
        return rp_fail(RP_E_ARG, "%s: type=%s is for presets of `reprise synth` only", s->model, s->type);
    return rp_model_open(s->model, NULL, out);
}

void cli_graph_title(const RpModel *m, int32_t tokens, int32_t ctx, char *title, size_t size) {
    const RpModelInfo *info = rp_model_info(m);
    snprintf(title, size, "%s: %s, %d layers, %d token%s per step, context %d",
             info->name[0] != '\0' ? info->name : "model", info->arch, info->n_layer, tokens, tokens > 1 ? "s" : "",
             ctx);
}

RpStatus cli_graph_source_build(const GraphSource *s, const RpModel *m, char *title, size_t title_size,
                                ComputeGraph **out) {
    const RpModelInfo  *info = rp_model_info(m);
    RpModelGraphOptions o    = {.n_tok = s->tokens, .n_ctx = s->ctx > 0 ? s->ctx : cli_default_ctx(m)};
    ComputeGraph       *g    = NULL;
    o.embeddings             = info->bidirectional;
    RP_TRY(cli_kv_type(s->kv, &o.kv_type));
    cli_graph_title(m, o.n_tok, o.n_ctx, title, title_size);
    RP_TRY(rp_model_graph(m, &o, &g));
    const RpStatus st = s->raw ? RP_OK : rp_graph_optimize_to(g, s->passes, s->after);
    if (st == RP_OK)
        *out = g;
    else
        rp_graph_free(g);
    return st;
}
