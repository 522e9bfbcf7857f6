/* Opening a trainer: options -> graphs and plans -> free memory -> executors -> weights. */
#include "train/trainer.h"

#include "base/argument.h"
#include "base/sized.h"
#include "model/gguf/gguf_file.h"
#include "reprise/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_BATCH = 16, MAX_TOKENS = 1 << 24 };

/* ---- options ---- */

static RpStatus not_negative(const char *name, double value) {
    if (value >= 0.0) return RP_OK;
    return rp_fail(RP_E_ARG, "training: %s = %g: must be 0 or more", name, value);
}

static RpStatus not_infinite(const char *name, double value) {
    if (value < (double)INFINITY) return RP_OK;
    return rp_fail(RP_E_ARG, "training: %s is infinite", name);
}

static RpStatus check_numbers(const RpTrainOptions *o) {
    RP_TRY(not_negative("batch", o->batch));
    RP_TRY(not_negative("seq", o->seq));
    RP_TRY(not_negative("accumulate", o->accumulate));
    RP_TRY(not_negative("n_steps", o->n_steps));
    RP_TRY(not_negative("warmup", o->warmup));
    const float              finite[] = {o->lr, o->lr_end, o->beta1, o->beta2, o->eps, o->weight_decay, o->aux_loss};
    static const char *const names[]  = {"lr", "lr_end", "beta1", "beta2", "eps", "weight_decay", "aux_loss"};
    for (int i = 0; i < 7; i++) {
        RP_TRY(not_negative(names[i], (double)finite[i]));
        RP_TRY(not_infinite(names[i], (double)finite[i]));
    }
    RP_TRY(not_negative("max_norm", (double)o->max_norm));
    RP_TRY(not_negative("lora_rank", o->lora_rank));
    RP_TRY(not_negative("lora_alpha", (double)o->lora_alpha));
    RP_TRY(not_infinite("lora_alpha", (double)o->lora_alpha));
    if (o->adapter != NULL && o->lora_rank == 0)
        return rp_fail(RP_E_ARG, "training: adapter = %s, but lora_rank = 0", o->adapter);
    if (o->beta1 >= 1.0f || o->beta2 >= 1.0f)
        return rp_fail(RP_E_ARG, "training: beta1 = %g, beta2 = %g: must be less than 1", (double)o->beta1,
                       (double)o->beta2);
    if ((unsigned)o->schedule > RP_TRAIN_COSINE)
        return rp_fail(RP_E_ARG, "training: there is no schedule %d", (int)o->schedule);
    if (o->schedule == RP_TRAIN_COSINE && o->n_steps <= o->warmup)
        return rp_fail(RP_E_ARG, "training: n_steps = %d, warmup = %d: a cosine needs more steps than the warm-up",
                       o->n_steps, o->warmup);
    return RP_OK;
}

static RpStatus check_compute(const RpTrainOptions *o) {
    if (o->compute != RP_F32 && o->compute != RP_BF16)
        return rp_fail(RP_E_UNSUPPORTED, "training: compute = %s: only f32 and bf16 are supported",
                       rp_dtype_name(o->compute));
    if (o->compute == RP_BF16 && o->lora_rank > 0)
        return rp_fail(RP_E_UNSUPPORTED,
                       "training: compute = bf16 with lora_rank = %d: the weights stay as they are stored",
                       o->lora_rank);
    return RP_OK;
}

RpStatus rp_trainer_options(const RpModel *m, const RpTrainOptions *options, RpTrainOptions *out) {
    const int32_t  n_train = rp_model_info(m)->n_ctx_train;
    RpTrainOptions o       = *options;
    RP_TRY(check_numbers(&o));
    RP_TRY(check_compute(&o));
    if (o.batch == 0) o.batch = DEFAULT_BATCH;
    if (o.seq == 0) o.seq = n_train;
    if (o.accumulate == 0) o.accumulate = 1;
    if (o.lr == 0.0f) o.lr = 1e-3f;
    if (o.beta1 == 0.0f) o.beta1 = 0.9f;
    if (o.beta2 == 0.0f) o.beta2 = 0.999f;
    if (o.eps == 0.0f) o.eps = 1e-8f;
    if (o.max_norm == 0.0f) o.max_norm = 1.0f;
    if (o.lora_rank == 0 || o.lora_alpha == 0.0f) o.lora_alpha = (float)o.lora_rank;
    RP_TRY(rp_gguf_need_order(m->file, "training"));
    if (m->n_pairs > 0)
        return rp_fail(RP_E_UNSUPPORTED, "training: %s has an adapter: merge it before (rp_merge_adapters)",
                       rp_gguf_path(m->file));
    if (m->config.bidirectional)
        return rp_fail(RP_E_UNSUPPORTED, "training: %s attends to later positions: it can only be run",
                       rp_gguf_path(m->file));
    if (m->config.arch->assistant)
        return rp_fail(RP_E_UNSUPPORTED, "training: %s guesses tokens of another model: it can only be run",
                       rp_gguf_path(m->file));
    if (m->config.attn_cap != 0.0f || m->config.logit_cap != 0.0f)
        return rp_fail(RP_E_UNSUPPORTED, "training: %s has soft caps of scores or logits: it can only be run",
                       rp_gguf_path(m->file));
    if (m->config.n_layer_kv < m->config.n_layer)
        return rp_fail(
            RP_E_UNSUPPORTED,
            "training: layers from %d on of %s read the keys and values of layers before: it can only be run",
            m->config.n_layer_kv, rp_gguf_path(m->file));
    if (m->config.arch->dense_beside && m->config.experts.n > 0)
        return rp_fail(RP_E_UNSUPPORTED, "training: %s has experts beside dense layers: it can only be run",
                       rp_gguf_path(m->file));
    if (m->n_parts > 0)
        return rp_fail(RP_E_UNSUPPORTED, "training: %s joins several matrices in one tensor (%.*s): it can only be run",
                       rp_gguf_path(m->file), (int)m->parts[0].tensor.name.len, m->parts[0].name);
    const RpGgufTensor *scaled = rp_model_scaled(m);
    if (scaled != NULL)
        return rp_fail(RP_E_UNSUPPORTED, "training: %s has a scale of the tensor %.*s: it can only be run",
                       rp_gguf_path(m->file), (int)(scaled->name.len < 96 ? scaled->name.len : 96), scaled->name.ptr);
    if (rp_model_info(m)->n_layer_recurrent > 0)
        return rp_fail(RP_E_UNSUPPORTED, "training: %s has recurrent layers, which have no gradients",
                       rp_gguf_path(m->file));
    if (o.lora_rank > rp_model_info(m)->n_embd)
        return rp_fail(RP_E_ARG, "training: lora_rank = %d: must be at most %d, the model's width", o.lora_rank,
                       rp_model_info(m)->n_embd);
    if (o.seq > n_train)
        return rp_fail(RP_E_ARG, "training: seq = %d: the model is made for at most %d positions", o.seq, n_train);
    if ((int64_t)o.batch * o.seq > MAX_TOKENS)
        return rp_fail(RP_E_ARG, "training: batch = %d, seq = %d: must be at most %d tokens together", o.batch, o.seq,
                       MAX_TOKENS);
    *out = o;
    return RP_OK;
}

/* ---- plans ---- */

/* Also what a trainer that failed to open has. The owner of the states goes last. */
void rp_trainer_free(RpTrainer *t) {
    if (t == NULL) return;
    for (int i = N_GRAPHS - 1; i >= 0; i--) rp_trainer_close_graph(&t->graphs[i]);
    rp_trainer_free_adapter(t->adapter);
    rp_gguf_close(t->origin);
    rp_train_unlock(t->lock);
    free(t->base_sums);
    free(t->params);
    free(t->routed);
    free(t->loads);
    free(t->buffer);
    free(t);
}

static bool needs(const RpTrainer *t, TrainGraphKind kind) {
    return (kind != GRAPH_FIRST || t->o.accumulate > 1) && (kind != GRAPH_MORE || t->o.accumulate > 2);
}

static RpStatus plan_graphs(RpTrainer *t) {
    const RpModelInfo *info = rp_model_info(t->model);
    int64_t            most = 0;
    for (int kind = 0; kind < N_GRAPHS; kind++)
        if (needs(t, (TrainGraphKind)kind)) RP_TRY(rp_trainer_plan_graph(t, (TrainGraphKind)kind));
    for (int i = 0; i < t->n_params; i++) most = t->params[i].n > most ? t->params[i].n : most;
    t->buffer = malloc((size_t)most * sizeof *t->buffer);
    if (t->n_routed > 0) t->loads = calloc((size_t)info->n_layer * (size_t)info->n_expert, sizeof *t->loads);
    if (t->buffer == NULL || (t->n_routed > 0 && t->loads == NULL))
        return rp_fail(RP_E_NOMEM, "out of memory for a trainer");
    return RP_OK;
}

static RpStatus plan_trainer(const RpModel *m, const RpTrainOptions *o, RpTrainer **out) {
    RpTrainer *t = calloc(1, sizeof *t);
    if (t == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a trainer");
    t->model          = m;
    const RpStatus st = rp_trainer_options(m, o, &t->o);
    RpStatus       at = st == RP_OK ? rp_trainer_plan_adapter(t) : st;
    if (at == RP_OK) at = plan_graphs(t);
    if (at != RP_OK) {
        rp_trainer_free(t);
        return at;
    }
    *out = t;
    return RP_OK;
}

/* The graphs share one arena; one that needs a larger one than GRAPH_STEP gets its own. */
static RpTrainMemory memory_of(const RpTrainer *t) {
    const RpPlanMemory step  = rp_plan_memory(t->graphs[GRAPH_STEP].plan);
    size_t             arena = step.arena, params = 0;
    for (int kind = GRAPH_FIRST; kind < N_GRAPHS; kind++) {
        if (t->graphs[kind].plan == NULL) continue;
        const size_t other = rp_plan_memory(t->graphs[kind].plan).arena;
        if (other > step.arena) arena += other;
    }
    for (int i = 0; i < t->n_params; i++) params += (size_t)t->params[i].n * sizeof(float);
    RpTrainMemory out = {.weights = params, .optimizer = 2 * params};
    out.gradients     = t->o.accumulate > 1 ? 2 * params : params;
    out.total         = step.state + step.weights + arena;
    const size_t rest = out.weights + out.optimizer + out.gradients;
    out.activations   = out.total > rest ? out.total - rest : 0;
    return out;
}

RpStatus rp_trainer_memory_sized(const RpModel *m, const RpTrainOptions *options, size_t options_bytes,
                                 RpTrainMemory *out, size_t out_bytes) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(out, "out");

    RpTrainer     *t;
    RpTrainOptions o;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpTrainOptions"));
    RP_TRY(plan_trainer(m, &o, &t));
    const RpTrainMemory memory = memory_of(t);
    rp_sized_out(out, out_bytes, &memory, sizeof memory);
    rp_trainer_free(t);
    return RP_OK;
}

/* Refuses what does not fit, before anything of it is allocated. */
static RpStatus check_memory(const RpTrainer *t) {
    const RpTrainMemory m = memory_of(t);
    RpDeviceMemory      d;
    RP_TRY(rp_device_memory(t->o.device, t->o.require_cuda, &d));
    /* On the CPU 0 means that the free memory is not known. */
    if ((d.free_bytes == 0 && !d.is_own) || m.total <= d.free_bytes) return RP_OK;
    return rp_fail(RP_E_NOMEM,
                   "training %d sequences of %d tokens takes %.1f GB: %.1f GB for the weights in f32, %.1f GB for the "
                   "optimiser, %.1f GB for gradients, %.1f GB for activations; %.1f GB are free on %s",
                   t->o.batch, t->o.seq, (double)m.total / 1e9, (double)m.weights / 1e9, (double)m.optimizer / 1e9,
                   (double)m.gradients / 1e9, (double)m.activations / 1e9, (double)d.free_bytes / 1e9, d.id);
}

/* ---- executors ---- */

/* Latent attention reads a mask: 0 for position i <= t, else -infinity. */
static RpStatus fill_mask(RpTrainer *t) {
    const TensorNode *mask = rp_graph_find(t->graphs[GRAPH_STEP].graph, "causal_mask");
    const size_t      seq = (size_t)t->o.seq, bytes = seq * seq * sizeof(float);
    if (mask == NULL) return RP_OK;
    float *x = malloc(bytes);
    if (x == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a mask");
    for (size_t i = 0; i < seq * seq; i++) x[i] = i % seq <= i / seq ? 0.0f : -INFINITY;
    const RpStatus st = rp_executor_set(t->graphs[GRAPH_STEP].exec, mask, x, bytes);
    free(x);
    return st;
}

static RpStatus open_trainer(RpTrainer *t) {
    if (t->o.checkpoint != NULL) RP_TRY(rp_train_lock(t->o.checkpoint, &t->lock));
    if (t->o.checkpoint != NULL) RP_TRY(rp_trainer_check_kept(t->o.checkpoint));
    RP_TRY(check_memory(t));
    for (int kind = 0; kind < N_GRAPHS; kind++)
        if (needs(t, (TrainGraphKind)kind)) RP_TRY(rp_trainer_open_graph(t, (TrainGraphKind)kind));
    RP_TRY(fill_mask(t));
    if (t->o.adapter != NULL) RP_TRY(rp_gguf_open(t->o.adapter, &t->origin));
    if (t->origin != NULL) RP_TRY(rp_adapter_check(t->model, t->origin));
    RP_TRY(rp_trainer_restore(t));
    t->o.device = t->o.adapter = t->o.checkpoint = NULL; /* borrowed for the call */
    return RP_OK;
}

RpStatus rp_trainer_open_sized(const RpModel *m, const RpTrainOptions *options, size_t options_bytes, RpTrainer **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(m, "m");

    RpTrainer     *t;
    RpTrainOptions o;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpTrainOptions"));
    RP_TRY(plan_trainer(m, &o, &t));
    const RpStatus st = open_trainer(t);
    if (st != RP_OK) {
        rp_trainer_free(t);
        return st;
    }
    *out = t;
    return RP_OK;
}

/* ---- reading ---- */

int64_t rp_trainer_n_steps(const RpTrainer *t) { return t != NULL ? t->step : 0; }

const ExecPlan *rp_trainer_plan(const RpTrainer *t) { return t != NULL ? t->graphs[GRAPH_STEP].plan : NULL; }

void rp_trainer_info_sized(const RpTrainer *t, RpExecutorInfo *out, size_t out_bytes) {
    const RpExecutorInfo info = rp_executor_info(t != NULL ? t->graphs[GRAPH_STEP].exec : NULL);
    rp_sized_out(out, out_bytes, t != NULL ? &info : NULL, sizeof info);
}

const float *rp_trainer_expert_load(const RpTrainer *t, int layer) {
    if (t == NULL || layer < 0 || layer >= rp_model_info(t->model)->n_layer || !t->routed[layer]) return NULL;
    return t->loads + (size_t)layer * (size_t)rp_model_info(t->model)->n_expert;
}
