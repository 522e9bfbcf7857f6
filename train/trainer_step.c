/* Steps and evaluation. A step is one run for each micro-batch. Between the runs the host only writes inputs and
 * reads the loss, which it adds in double, in the order of the tokens. */
#include "train/trainer.h"

#include "base/argument.h"
#include "base/sized.h"

#include <math.h>
#include <string.h>

/* ---- tokens ---- */

/* [n_seq][seq + 1] tokens: how many of them are targets. */
static RpStatus check_tokens(const RpTrainer *t, const int32_t *tokens, size_t n_seq, int64_t *n_targets) {
    const int32_t n_vocab = rp_model_info(t->model)->n_vocab;
    const size_t  row     = (size_t)t->o.seq + 1;
    *n_targets            = 0;
    for (size_t i = 0; i < n_seq * row; i++) {
        if (tokens[i] < -1 || tokens[i] >= n_vocab)
            return rp_fail(RP_E_ARG, "training: token %d at %zu of sequence %zu is outside of the vocabulary of %d",
                           tokens[i], i % row, i / row, n_vocab);
        *n_targets += i % row > 0 && tokens[i] >= 0;
    }
    if (*n_targets == 0) return rp_fail(RP_E_ARG, "training: no token to learn: %zu sequences of padding", n_seq);
    return RP_OK;
}

/* 0 for padding, else tokens / tokens that are not padding. */
static void put_real(const RpTrainer *t, const TrainGraph *g, const int32_t *tokens, size_t n_seq) {
    const size_t seq = (size_t)t->o.seq, n = (size_t)t->o.batch * seq;
    size_t       n_real = 0;
    for (size_t i = 0; i < n_seq * seq; i++) n_real += tokens[i + i / seq] >= 0;
    for (size_t i = 0; i < n; i++)
        g->real[i] = i < n_seq * seq && tokens[i + i / seq] >= 0 ? (float)n / (float)n_real : 0.0f;
}

/* The inputs for n_seq sequences; the rest of the batch is padding. Executors share their memory, so all inputs
 * are written each time. */
static void put_tokens(const RpTrainer *t, const TrainGraph *g, const int32_t *tokens, size_t n_seq) {
    const size_t seq = (size_t)t->o.seq, row = seq + 1;
    for (size_t s = 0; s < (size_t)t->o.batch; s++)
        for (size_t i = 0; i < seq; i++) {
            const int32_t token     = s < n_seq ? tokens[s * row + i] : 0;
            g->tokens[s * seq + i]  = token < 0 ? 0 : token;
            g->targets[s * seq + i] = s < n_seq ? tokens[s * row + i + 1] : -1;
            if (g->pos != NULL) g->pos[s * seq + i] = (int32_t)i; /* NULL: no layer rotates */
        }
    if (g->real != NULL) put_real(t, g, tokens, n_seq);
}

static double sum_of(const float *x, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i];
    return sum;
}

static size_t n_tokens(const RpTrainer *t) { return (size_t)t->o.batch * (size_t)t->o.seq; }

/* ---- a step ---- */

/* The learning rate of step 1, 2, ... */
static double rate_of(const RpTrainOptions *o, int64_t step) {
    if (step < o->warmup) return (double)o->lr * (double)step / (double)o->warmup;
    if (o->schedule == RP_TRAIN_CONSTANT) return (double)o->lr;
    const double way  = step >= o->n_steps ? 1.0 : (double)(step - o->warmup) / (double)(o->n_steps - o->warmup);
    const double left = 0.5 * (1.0 + cos(acos(-1.0) * way));
    return (double)o->lr_end + left * ((double)o->lr - (double)o->lr_end);
}

/* Adds what a micro-batch says of the experts. */
static void add_routers(RpTrainer *t, const TrainGraph *g, double *aux) {
    const RpModelInfo *info  = rp_model_info(t->model);
    const float        share = 1.0f / (float)t->o.accumulate;
    for (int l = 0; l < info->n_layer; l++) {
        float *load = t->loads + (size_t)l * (size_t)info->n_expert;
        if (!t->routed[l]) continue;
        for (int e = 0; e < info->n_expert; e++) load[e] += share * g->loads[l][e];
        *aux += (double)g->aux[l][0] / t->n_routed / t->o.accumulate;
    }
}

/* The name of the first tensor of weights that are not finite; NULL: all are. */
static RpStatus find_weight(RpTrainer *t, const char **name) {
    for (int i = 0; i < t->n_params; i++) {
        RP_TRY(rp_executor_get(t->graphs[GRAPH_STEP].exec, t->params[i].weight, t->buffer,
                               (size_t)t->params[i].n * sizeof(float)));
        if (rp_trainer_not_finite(t->buffer, t->params[i].n) == t->params[i].n) continue;
        *name = t->params[i].name;
        return RP_OK;
    }
    return RP_OK;
}

/* Finds the tensor that is not finite. The weights are as before the step, so GRAPH_FIRST computes the same gradients
 * again, as states that the host can read. */
static RpStatus find_not_finite(RpTrainer *t, const int32_t *tokens, float factor, bool *is_weight, const char **name) {
    TrainGraph *g = &t->graphs[GRAPH_FIRST];
    RP_TRY(find_weight(t, name));
    *is_weight = *name != NULL;
    if (*is_weight) return RP_OK;
    RP_TRY(rp_trainer_plan_graph(t, GRAPH_FIRST));
    RP_TRY(rp_trainer_open_graph(t, GRAPH_FIRST));
    for (int k = 0; k < t->o.accumulate; k++) {
        put_tokens(t, g, tokens + (size_t)k * (n_tokens(t) + (size_t)t->o.batch), (size_t)t->o.batch);
        *g->factor = factor;
        RP_TRY(rp_executor_run(g->exec));
        for (int i = 0; i < t->n_params; i++) {
            char state[160];
            snprintf(state, sizeof state, "grad.%s", t->params[i].name);
            const TensorNode *sum = rp_graph_find(g->graph, state);
            RP_TRY(rp_executor_get(g->exec, sum, t->buffer, (size_t)t->params[i].n * sizeof(float)));
            if (rp_trainer_not_finite(t->buffer, t->params[i].n) == t->params[i].n) continue;
            *name = t->params[i].name;
            return RP_OK;
        }
    }
    return RP_OK;
}

static RpStatus not_finite(RpTrainer *t, const int32_t *tokens, float factor, double loss, double norm) {
    const long long   step      = (long long)t->step + 1;
    const char       *name      = NULL;
    bool              is_weight = false;
    static const char kept[]    = "the weights are those before the step";
    char              cause[64];
    if (isfinite(loss))
        snprintf(cause, sizeof cause, "the norm of the gradients is %s", isnan(norm) ? "NaN" : "infinite");
    else
        snprintf(cause, sizeof cause, "the loss is %s", isnan(loss) ? "NaN" : "infinite");
    if (find_not_finite(t, tokens, factor, &is_weight, &name) != RP_OK)
        return rp_fail(RP_E_ARG, "training: step %lld: %s; %s; looking for the tensor failed: %.200s", step, cause,
                       kept, rp_last_error());
    if (is_weight) /* the error of that step was not heeded */
        return rp_fail(RP_E_ARG,
                       "training: step %lld: %s: the weight '%s' is not finite since an earlier step: resume from a "
                       "checkpoint",
                       step, cause, name);
    if (name == NULL) /* every gradient is finite, a sum of them is not */
        return rp_fail(RP_E_ARG, "training: step %lld: %s; %s", step, cause, kept);
    return rp_fail(RP_E_ARG, "training: step %lld: %s: the gradient of '%s' is not finite; %s", step, cause, name,
                   kept);
}

/* The norm is infinite also for large finite weights, so it says only when to look. */
static RpStatus check_update(RpTrainer *t, const RpTrainResult *r) {
    const float *norm = t->graphs[GRAPH_STEP].weights;
    const char  *name = NULL;
    if (norm == NULL || isfinite(*norm)) return RP_OK;
    RP_TRY(find_weight(t, &name));
    if (name == NULL) return RP_OK;
    return rp_fail(RP_E_ARG,
                   "training: step %lld: the update with the rate %g makes the weight '%s' not finite; the weights "
                   "are lost: resume from a checkpoint",
                   (long long)r->step, r->lr, name);
}

static RpStatus run_step(RpTrainer *t, const int32_t *tokens, int64_t n_targets, RpTrainResult *r) {
    const RpModelInfo *info   = rp_model_info(t->model);
    const float        factor = (float)(1.0 / (double)n_targets);
    const size_t       each   = n_tokens(t) + (size_t)t->o.batch; /* tokens of a micro-batch */
    double             sum    = 0.0;
    *r = (RpTrainResult){.step = t->step + 1, .lr = rate_of(&t->o, t->step + 1), .n_targets = n_targets};
    if (t->loads != NULL) memset(t->loads, 0, (size_t)info->n_layer * (size_t)info->n_expert * sizeof *t->loads);
    for (int k = 0; k < t->o.accumulate; k++) {
        const bool        last = k == t->o.accumulate - 1;
        const TrainGraph *g    = &t->graphs[last ? GRAPH_STEP : k == 0 ? GRAPH_FIRST : GRAPH_MORE];
        put_tokens(t, g, tokens + (size_t)k * each, (size_t)t->o.batch);
        *g->factor = factor;
        if (last) {
            *g->rate = (float)r->lr;
            *g->step = (int32_t)r->step;
        }
        RP_TRY(rp_executor_run(g->exec));
        sum += sum_of(g->losses, n_tokens(t));
        if (t->n_routed > 0) add_routers(t, g, &r->aux_loss);
        if (last) r->grad_norm = (double)*g->norm;
        if (!isfinite(sum)) break; /* before the last micro-batch could change the weights */
    }
    r->loss = sum / (double)n_targets;
    if (isfinite(r->loss) && isfinite(r->grad_norm)) return check_update(t, r);
    return not_finite(t, tokens, factor, r->loss, r->grad_norm);
}

RpStatus rp_trainer_step_sized(RpTrainer *t, const int32_t *tokens, RpTrainResult *result, size_t result_bytes) {
    RP_NOT_NULL(t, "t");
    RP_NOT_NULL(tokens, "tokens");

    RpTrainResult r = {0};
    int64_t       n_targets;
    rp_sized_out(result, result_bytes, NULL, sizeof r);
    if (t->step >= INT32_MAX) return rp_fail(RP_E_ARG, "training: %lld steps are made", (long long)t->step);
    RP_TRY(check_tokens(t, tokens, (size_t)t->o.batch * (size_t)t->o.accumulate, &n_targets));
    RP_TRY(run_step(t, tokens, n_targets, &r));
    t->step = r.step;
    rp_sized_out(result, result_bytes, &r, sizeof r);
    return RP_OK;
}

RpStatus rp_trainer_evaluate(RpTrainer *t, const int32_t *tokens, size_t n_seq, double *loss) {
    RP_NOT_NULL(t, "t");
    RP_NOT_NULL(tokens, "tokens");
    RP_NOT_NULL(loss, "loss");

    const TrainGraph *g     = &t->graphs[GRAPH_EVALUATE];
    const size_t      batch = (size_t)t->o.batch;
    int64_t           n_targets;
    double            sum = 0.0;
    RP_TRY(check_tokens(t, tokens, n_seq, &n_targets));
    for (size_t s = 0; s < n_seq; s += batch) {
        put_tokens(t, g, tokens + s * ((size_t)t->o.seq + 1), n_seq - s < batch ? n_seq - s : batch);
        RP_TRY(rp_executor_run(g->exec));
        sum += sum_of(g->losses, n_tokens(t));
    }
    *loss = sum / (double)n_targets;
    return RP_OK;
}
