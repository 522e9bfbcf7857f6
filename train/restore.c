/* The states of a trainer, from the file with which it begins: the model's, a checkpoint, an adapter; and what a
 * checkpoint may hold. A value that would make the first update not finite is refused here, since a step looks at the
 * new weights only where its options could make them infinite (train_graph.c). */
#include "train/trainer.h"

#include "model/gguf/gguf_checksum.h"
#include "model/gguf/gguf_file.h"
#include "reprise/quants.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double most_update = 1e29; /* less than half an ulp of the largest float */

static RpStatus set_state(RpTrainer *t, const TensorNode *state, const void *data, int64_t n) {
    return rp_executor_set(t->graphs[GRAPH_STEP].exec, state, data, (size_t)n * sizeof(float));
}

/* The tensor <prefix><name> of parameter p in the file with which the trainer begins. */
static RpStatus find(const RpTrainer *t, const TrainParam *p, TrainState state, const RpGgufTensor **out) {
    char              name[192];
    const RpGgufFile *f    = rp_trainer_origin(t);
    const int64_t    *want = p->tensor->view.ne, *ne;
    snprintf(name, sizeof name, "%s%s", rp_trainer_prefix(state), p->name);
    *out = rp_gguf_find_tensor(f, name);
    if (*out == NULL) return rp_fail(RP_E_FORMAT, "%s: tensor %s is missing", rp_gguf_path(f), name);
    ne = (*out)->view.ne;
    if ((*out)->known && memcmp(ne, want, RP_MAX_DIMS * sizeof *ne) == 0) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: tensor %s is %s [%lld,%lld,%lld]: must be numbers [%lld,%lld,%lld]",
                   rp_gguf_path(f), name, rp_gguf_type_name((*out)->gguf_type), (long long)ne[0], (long long)ne[1],
                   (long long)ne[2], (long long)want[0], (long long)want[1], (long long)want[2]);
}

static RpStatus restore_weight(RpTrainer *t, const TrainParam *p) {
    const RpGgufTensor *from = p->tensor;
    if (t->adapter != NULL) RP_TRY(find(t, p, STATE_WEIGHT, &from));
    const RpTensorView *v = &from->view;
    for (int64_t i = 0; i < rp_view_rows(v); i++)
        rp_dequantize_row(v->dtype, rp_view_row(v, i), v->ne[0], t->buffer + i * v->ne[0]);
    RP_TRY(rp_trainer_check_state(rp_gguf_path(rp_trainer_origin(t)), p, STATE_WEIGHT, t->buffer, RP_E_ARG));
    return set_state(t, p->weight, t->buffer, p->n);
}

/* Both moments come from the same gradients, which bounds |m| / sqrt(v), and the bound falls with each step without
 * gradients. Values that could not come from a training might overflow in any later step. */
static RpStatus check_update(const RpTrainer *t, const TrainParam *p, const float *m, const float *v) {
    const RpTrainOptions *o    = &t->o;
    const double          rate = (double)fmaxf(o->lr, o->lr_end) / (1.0 - (double)o->beta1);
    if (t->graphs[GRAPH_STEP].weights != NULL) return RP_OK; /* each step looks at its weights */
    for (int64_t i = 0; i < p->n; i++) {
        if (rate * fabs((double)m[i]) <= most_update * (sqrt((double)v[i]) + (double)o->eps)) continue;
        return rp_fail(RP_E_FORMAT,
                       "%s: at element %lld tensor %s%s has %g, but %s%s has %g: an update by them could be infinite",
                       rp_gguf_path(rp_trainer_origin(t)), (long long)i, rp_trainer_prefix(STATE_MEAN), p->name,
                       (double)m[i], rp_trainer_prefix(STATE_SQUARES), p->name, (double)v[i]);
    }
    return RP_OK;
}

static RpStatus find_moment(const RpTrainer *t, const TrainParam *p, TrainState state, const float **out) {
    const RpGgufTensor *from;
    const char         *path = rp_gguf_path(rp_trainer_origin(t));
    RP_TRY(find(t, p, state, &from));
    *out = from->view.data;
    if (from->view.dtype == RP_F32) return rp_trainer_check_state(path, p, state, *out, RP_E_FORMAT);
    return rp_fail(RP_E_FORMAT, "%s: tensor %s%s is not f32", path, rp_trainer_prefix(state), p->name);
}

static RpStatus restore_moments(RpTrainer *t, const TrainParam *p) {
    const float *m, *v;
    RP_TRY(find_moment(t, p, STATE_MEAN, &m));
    RP_TRY(find_moment(t, p, STATE_SQUARES, &v));
    RP_TRY(check_update(t, p, m, v));
    RP_TRY(set_state(t, p->m, m, p->n));
    return set_state(t, p->v, v, p->n);
}

static RpStatus begin_adapter(RpTrainer *t) {
    for (int i = 0; i < t->n_params; i++) {
        rp_trainer_begin_matrix(t, i, t->buffer);
        RP_TRY(set_state(t, t->params[i].weight, t->buffer, t->params[i].n));
    }
    return RP_OK;
}

/* An adapter that only begins a training may come from another quantisation of the model; a resume needs the same. */
static RpStatus check_adapter(RpTrainer *t) {
    if (t->adapter == NULL) return RP_OK;
    RP_TRY(rp_gguf_check_tensors(t->origin, false));
    if (t->step > 0) RP_TRY(rp_trainer_sum_base(t));
    return rp_adapter_compare_base(t->model, t->origin, t->step > 0 ? t->base_sums : NULL);
}

/* A step counts in an i32 (rp_trainer_step). */
static RpStatus read_step(RpTrainer *t, const RpGgufFile *f) {
    uint32_t step = 0;
    RP_TRY(rp_gguf_get_u32(f, "train.step", &step));
    if (step > INT32_MAX)
        return rp_fail(RP_E_FORMAT, "%s: train.step is %u: a training has at most %d steps", rp_gguf_path(f), step,
                       INT32_MAX);
    t->step = (int64_t)step;
    return RP_OK;
}

RpStatus rp_trainer_restore(RpTrainer *t) {
    const RpGgufFile *f = rp_trainer_origin(t);
    if (f == NULL) return begin_adapter(t);
    RP_TRY(read_step(t, f));
    RP_TRY(rp_gguf_check_tensors(f, true));
    RP_TRY(check_adapter(t));
    RP_TRY(rp_trainer_compare_options(t));
    for (int i = 0; i < t->n_params; i++) {
        RP_TRY(restore_weight(t, &t->params[i]));
        if (t->step > 0) RP_TRY(restore_moments(t, &t->params[i]));
    }
    return RP_OK;
}
