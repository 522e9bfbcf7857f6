/* A runner: graph -> passes -> plan -> executor, for one fixed number of tokens. Planning allocates no tensor
 * memory, so that a session's size is known before it is opened. */
#include "model/runner.h"

#include "reprise/device.h"
#include "reprise/options.h"

#include <stdio.h>
#include <stdlib.h>

/* A GPU multiplies twice the columns in less than twice the time. */
enum { DEFAULT_CTX = 4096, DEFAULT_CHUNK = 256, GPU_CHUNK = 512, SHORT_CHUNK = 16, MAX_CHUNK = 4096 };

int32_t rp_runner_next_chunk(int32_t n) {
    if (n == GPU_CHUNK) return DEFAULT_CHUNK; /* so a GPU has the lengths of a CPU and one more */
    if (n / 4 >= SHORT_CHUNK) return n / 4;
    return n > 8 ? 8 : n > 4 ? 4 : n > 2 ? 2 : 1;
}

bool rp_runner_is_filled(int32_t n, size_t left) {
    return n <= SHORT_CHUNK ? left > (size_t)n / 2 : left >= (size_t)n * 7 / 8;
}

static int32_t default_chunk(const char *device, bool require_cuda) {
    RpDeviceMemory d;
    return rp_device_memory(device, require_cuda, &d) == RP_OK && d.is_own ? GPU_CHUNK : DEFAULT_CHUNK;
}

RpStatus rp_runner_check_lengths(const RpModel *m, const char *device, bool require_cuda, int32_t *n_ctx,
                                 int32_t *prefill_chunk) {
    const int32_t n_train = rp_model_info(m)->n_ctx_train;
    if (*prefill_chunk == 0) *prefill_chunk = default_chunk(device, require_cuda);
    if (*n_ctx == 0) *n_ctx = n_train < DEFAULT_CTX ? n_train : DEFAULT_CTX;
    if (*n_ctx < 1 || *n_ctx > n_train)
        return rp_fail(RP_E_ARG, "a context of %d tokens: must be from 1 to %d, for which the model was trained",
                       *n_ctx, n_train);
    if (*prefill_chunk < 1 || *prefill_chunk > MAX_CHUNK)
        return rp_fail(RP_E_ARG, "prefill chunks of %d tokens: must be from 1 to %d", *prefill_chunk, MAX_CHUNK);
    if (*prefill_chunk > *n_ctx) *prefill_chunk = *n_ctx;
    return RP_OK;
}

const char *rp_runner_repack(const char *given, const char *otherwise) {
    if (given != NULL) return given;
    const char *option = rp_option(RP_OPT_REPACK);
    return option[0] != '\0' ? option : otherwise;
}

void rp_runner_close(Runner *r) {
    rp_executor_free(r->executor);
    rp_plan_free(r->plan);
    rp_graph_free(r->graph);
    free(r->experts);
    *r = (Runner){0};
}

RpStatus rp_runner_plan(Runner *r, const RpModel *m, const RpModelGraphOptions *o, const char *passes) {
    r->o = *o;
    if (r->o.n_out == 0) r->o.n_out = 1;
    RP_TRY(rp_model_graph(m, o, &r->graph));
    RP_TRY(rp_graph_optimize(r->graph, passes));
    return rp_plan_new(r->graph, &r->plan);
}

/* Host addresses of the outputs "blk.<layer>.experts". A layer without experts keeps NULL. */
static RpStatus find_experts(Runner *r, const RpModelInfo *info) {
    r->experts = calloc((size_t)info->n_layer, sizeof *r->experts);
    if (r->experts == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a session");
    for (int i = 0; i < info->n_layer; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.experts", i);
        const TensorNode *node = rp_graph_find(r->graph, name);
        if (node != NULL) r->experts[i] = rp_executor_data(r->executor, node);
    }
    return RP_OK;
}

/* NULL for a name that the graph does not have; a graph that samples has no inputs. */
static void *data_of(const Runner *r, const char *name) {
    const TensorNode *node = rp_graph_find(r->graph, name);
    return node != NULL ? rp_executor_data(r->executor, node) : NULL;
}

RpStatus rp_runner_open(Runner *r, const RpModel *m, const RpExecutorOptions *options) {
    RpExecutorOptions o = *options;
    o.columns           = r->columns;
    o.step = r->step = r->o.draws ? rp_graph_find(r->graph, "step") : NULL;
    r->extra         = r->o.draws ? rp_graph_find(r->graph, "sample_extra") : NULL;
    RP_TRY(rp_executor_open(r->plan, &o, &r->executor));
    if (r->o.expert_ids && rp_model_info(m)->n_expert > 0) RP_TRY(find_experts(r, rp_model_info(m)));
    r->tokens       = data_of(r, "tokens");
    r->pos          = data_of(r, "pos");
    r->out_rows     = data_of(r, "out_rows");
    r->reach        = data_of(r, "reach");
    r->slots        = data_of(r, "slots");
    r->starts       = data_of(r, "starts");
    r->kv_rows      = data_of(r, "kv_rows");
    r->seq          = data_of(r, "seq");
    r->table        = data_of(r, "table");
    r->window_rows  = data_of(r, "window_rows");
    r->window_table = data_of(r, "window_table");
    r->logits       = data_of(r, "logits");
    r->hidden       = data_of(r, "hidden");
    if (r->o.mtp || r->o.target != NULL) r->next_hidden = data_of(r, "next_hidden");
    return RP_OK;
}

RpPlanMemory rp_runner_memory(const Runner *r, int n) {
    RpPlanMemory most = {0};
    for (int i = 0; i < n; i++) {
        const RpPlanMemory p = rp_plan_memory(r[i].plan);
        if (p.arena > most.arena) most.arena = p.arena;
        if (p.state > most.state) most.state = p.state;
    }
    return most;
}
