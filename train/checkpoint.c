/* Files of a trainer.
 *
 *     model       metadata of the model's file        its tensors, the trained ones as f32
 *     checkpoint  the same, train.step, options       the same, then train.m.<name> of each trained one,
 *                                                     then train.v.<name>
 *
 * The files of an adapter have the format of model/adapter.c; its checkpoint has the same further tensors and
 * keys. A checkpoint is opened as a model or an adapter, which ignore tensors and keys "train.*". */
#include "train/trainer.h"

#include "base/argument.h"
#include "base/temporary.h"
#include "model/gguf/gguf_file.h"
#include "reprise/convert.h"
#include "reprise/quants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Prefixes of the tensors of a parameter: its weights, AdamW's mean of gradients and of their squares. */
static const char weights[] = "", first_moment[] = "train.m.", second_moment[] = "train.v.";

/* ---- reading ---- */

static RpStatus set_state(RpTrainer *t, const TensorNode *state, const void *data, int64_t n) {
    return rp_executor_set(t->graphs[GRAPH_STEP].exec, state, data, (size_t)n * sizeof(float));
}

const RpGgufFile *rp_trainer_origin(const RpTrainer *t) {
    return t->adapter == NULL ? t->model->file : t->origin;
}

/* The tensor <prefix><name> of parameter p in the file with which the trainer begins. */
static RpStatus find(const RpTrainer *t, const TrainParam *p, const char *prefix, const RpGgufTensor **out) {
    char              name[192];
    const RpGgufFile *f    = rp_trainer_origin(t);
    const int64_t    *want = p->tensor->view.ne, *ne;
    snprintf(name, sizeof name, "%s%s", prefix, p->name);
    *out = rp_gguf_find_tensor(f, name);
    if (*out == NULL) return rp_fail(RP_E_FORMAT, "%s: tensor %s is missing", rp_gguf_path(f), name);
    ne = (*out)->view.ne;
    if ((*out)->known && memcmp(ne, want, RP_MAX_DIMS * sizeof *ne) == 0) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: tensor %s is %s [%lld,%lld,%lld]: numbers [%lld,%lld,%lld] are wanted",
                   rp_gguf_path(f), name, rp_gguf_type_name((*out)->gguf_type), (long long)ne[0],
                   (long long)ne[1], (long long)ne[2], (long long)want[0], (long long)want[1],
                   (long long)want[2]);
}

static RpStatus restore_weight(RpTrainer *t, const TrainParam *p) {
    const RpGgufTensor *from = p->tensor;
    if (t->adapter != NULL) RP_TRY(find(t, p, weights, &from));
    const RpTensorView *v = &from->view;
    for (int64_t i = 0; i < rp_view_rows(v); i++)
        rp_dequantize_row(v->dtype, rp_view_row(v, i), v->ne[0], t->buffer + i * v->ne[0]);
    const int64_t bad = rp_trainer_not_finite(t->buffer, p->n);
    if (bad < p->n)
        return rp_fail(RP_E_ARG, "%s: tensor %s has %g at element %lld", rp_gguf_path(rp_trainer_origin(t)),
                       p->name, (double)t->buffer[bad], (long long)bad);
    return set_state(t, p->weight, t->buffer, p->n);
}

static RpStatus restore_moment(RpTrainer *t, const TrainParam *p, const char *prefix,
                               const TensorNode *state) {
    const RpGgufTensor *from;
    RP_TRY(find(t, p, prefix, &from));
    if (from->view.dtype != RP_F32)
        return rp_fail(RP_E_FORMAT, "%s: tensor %s%s is not f32", rp_gguf_path(rp_trainer_origin(t)), prefix,
                       p->name);
    return set_state(t, state, from->view.data, p->n);
}

static RpStatus begin_adapter(RpTrainer *t) {
    for (int i = 0; i < t->n_params; i++) {
        rp_trainer_begin_matrix(t, i, t->buffer);
        RP_TRY(set_state(t, t->params[i].weight, t->buffer, t->params[i].n));
    }
    return RP_OK;
}

RpStatus rp_trainer_restore(RpTrainer *t) {
    const RpGgufFile *f    = rp_trainer_origin(t);
    uint32_t          step = 0;
    if (f == NULL) return begin_adapter(t);
    RP_TRY(rp_gguf_get_u32(f, "train.step", &step));
    t->step = (int64_t)step;
    RP_TRY(rp_trainer_compare_options(t));
    for (int i = 0; i < t->n_params; i++) {
        const TrainParam *p = &t->params[i];
        RP_TRY(restore_weight(t, p));
        if (step == 0) continue;
        RP_TRY(restore_moment(t, p, first_moment, p->m));
        RP_TRY(restore_moment(t, p, second_moment, p->v));
    }
    return RP_OK;
}

/* ---- writing ---- */

static const TrainParam *param_of(const RpTrainer *t, const RpGgufTensor *tensor) {
    int i = 0;
    while (i < t->n_params && t->params[i].tensor != tensor) i++;
    return i < t->n_params ? &t->params[i] : NULL;
}

static void put_moment(GgufWriter *w, const TrainParam *p, const char *prefix) {
    char      name[192];
    const int n = snprintf(name, sizeof name, "%s%s", prefix, p->name);
    rp_gguf_put_tensor(w, name, (size_t)n, RP_F32, p->tensor->view.ne);
}

/* Metadata and tensor table of an adapter, as llama.cpp reads it (model/adapter.c). */
static void describe_adapter(const RpTrainer *t, GgufWriter *w) {
    rp_gguf_put_string(w, "general.type", "adapter");
    rp_gguf_put_string(w, "general.architecture", rp_model_info(t->model)->arch);
    rp_gguf_put_string(w, "adapter.type", "lora");
    rp_gguf_put_f32(w, "adapter.lora.alpha", t->o.lora_alpha);
    for (int i = 0; i < t->n_params; i++)
        rp_gguf_put_tensor(w, t->params[i].name, strlen(t->params[i].name), RP_F32,
                           t->params[i].tensor->view.ne);
}

/* Metadata and tensor table of the whole model. */
static RpStatus describe_model(const RpTrainer *t, GgufWriter *w) {
    const RpGgufFile *f = t->model->file;
    rp_gguf_put_values(w, f, false);
    rp_gguf_put_u32(w, "general.file_type", 0); /* f32 */
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *tensor = rp_gguf_tensor(f, i);
        const RpDtype       type   = param_of(t, tensor) != NULL ? RP_F32 : tensor->view.dtype;
        if (rp_gguf_is_training(tensor->name)) continue;
        if (!tensor->known)
            return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s is of a type that cannot be copied",
                           rp_gguf_path(f), (int)(tensor->name.len < 96 ? tensor->name.len : 96),
                           tensor->name.ptr);
        rp_gguf_put_tensor(w, tensor->name.ptr, tensor->name.len, type, tensor->view.ne);
    }
    return RP_OK;
}

static RpStatus describe(const RpTrainer *t, GgufWriter *w, bool with_state) {
    if (t->adapter != NULL)
        describe_adapter(t, w);
    else
        RP_TRY(describe_model(t, w));
    if (with_state) {
        rp_gguf_put_u32(w, "train.step", (uint32_t)t->step);
        rp_trainer_put_options(&t->o, w);
    }
    for (int i = 0; i < t->n_params && with_state; i++) put_moment(w, &t->params[i], first_moment);
    for (int i = 0; i < t->n_params && with_state; i++) put_moment(w, &t->params[i], second_moment);
    return rp_gguf_writer_begin(w);
}

static RpStatus write_state(RpTrainer *t, GgufWriter *w, const TensorNode *state, int64_t n) {
    const size_t bytes = (size_t)n * sizeof(float);
    RP_TRY(rp_executor_get(t->graphs[GRAPH_STEP].exec, state, t->buffer, bytes));
    return rp_gguf_writer_data(w, t->buffer, bytes);
}

/* The tensors of the model, the trained ones as they are now; or the matrices of the adapter. */
static RpStatus write_weights(RpTrainer *t, GgufWriter *w) {
    const RpGgufFile *f = t->model->file;
    for (int i = 0; i < t->n_params && t->adapter != NULL; i++)
        RP_TRY(write_state(t, w, t->params[i].weight, t->params[i].n));
    for (int64_t i = 0; i < rp_gguf_n_tensors(f) && t->adapter == NULL; i++) {
        const RpGgufTensor *tensor = rp_gguf_tensor(f, i);
        const TrainParam   *p      = param_of(t, tensor);
        if (rp_gguf_is_training(tensor->name)) continue;
        RP_TRY(p != NULL ? write_state(t, w, p->weight, p->n)
                         : rp_gguf_writer_data(w, tensor->view.data, tensor->bytes));
    }
    return RP_OK;
}

static RpStatus write_tensors(RpTrainer *t, GgufWriter *w, bool with_state) {
    RP_TRY(describe(t, w, with_state));
    RP_TRY(write_weights(t, w));
    for (int i = 0; i < t->n_params && with_state; i++)
        RP_TRY(write_state(t, w, t->params[i].m, t->params[i].n));
    for (int i = 0; i < t->n_params && with_state; i++)
        RP_TRY(write_state(t, w, t->params[i].v, t->params[i].n));
    return RP_OK;
}

static RpStatus write_file(RpTrainer *t, const char *path, bool with_state) {
    GgufWriter *w;
    RP_TRY(rp_gguf_writer_open(path, &w));
    return rp_gguf_writer_close(w, write_tensors(t, w, with_state));
}

/* No file with which the training began may be replaced, but a checkpoint by a checkpoint. */
static RpStatus check_output(const RpTrainer *t, const char *path, bool is_checkpoint) {
    const RpGgufFile *origin  = rp_trainer_origin(t);
    const bool        resumed = origin != NULL && rp_gguf_find(origin, "train.step") != NULL;
    if (origin != NULL && !(is_checkpoint && resumed)) RP_TRY(rp_gguf_refuse_output(origin, path));
    return origin != t->model->file ? rp_gguf_refuse_output(t->model->file, path) : RP_OK;
}

RpStatus rp_trainer_save(RpTrainer *t, const char *path) {
    RP_NOT_NULL(t, "t");
    RP_NOT_NULL(path, "path");
    RP_TRY(check_output(t, path, true));
    return write_file(t, path, true);
}

RpStatus rp_trainer_export(RpTrainer *t, const char *path, const char *type) {
    RP_NOT_NULL(t, "t");
    RP_NOT_NULL(path, "path");

    RP_TRY(check_output(t, path, false));
    if (type == NULL || strcasecmp(type, "F32") == 0) return write_file(t, path, false);
    if (t->adapter != NULL) return rp_fail(RP_E_ARG, "%s: type %s: adapters are written in F32", path, type);
    Scratch  f32;
    RpStatus st = rp_scratch_open(path, "f32", &f32);
    if (st == RP_OK) st = write_file(t, f32.path, false);
    if (st == RP_OK) st = rp_requantize(f32.path, path, type, NULL, NULL);
    rp_scratch_close(&f32);
    return st;
}
