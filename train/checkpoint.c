/* Files of a trainer.
 *
 *     model       metadata of the model's file        its tensors, the trained ones as f32
 *     checkpoint  the same, train.step, options       the same, then train.m.<name> of each trained one,
 *                                                     then train.v.<name>
 *
 * A checkpoint is opened as a model, which ignores tensors and keys "train.*" (model/weights.c). */
#include "train/trainer.h"

#include "base/argument.h"
#include "reprise/convert.h"
#include "reprise/quants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- reading ---- */

static RpStatus set_state(RpTrainer *t, const TensorNode *state, const void *data, int64_t n) {
    return rp_executor_set(t->graphs[GRAPH_STEP].exec, state, data, (size_t)n * sizeof(float));
}

static RpStatus restore_weight(RpTrainer *t, const TrainParam *p) {
    const RpTensorView *v = &p->tensor->view;
    for (int64_t i = 0; i < rp_view_rows(v); i++)
        rp_dequantize_row(v->dtype, rp_view_row(v, i), v->ne[0], t->buffer + i * v->ne[0]);
    const int64_t bad = rp_trainer_not_finite(t->buffer, p->n);
    if (bad < p->n)
        return rp_fail(RP_E_ARG, "%s: tensor %s has %g at element %lld", rp_gguf_path(t->model->file),
                       p->name, (double)t->buffer[bad], (long long)bad);
    return set_state(t, p->weight, t->buffer, p->n);
}

static RpStatus restore_moment(RpTrainer *t, const TrainParam *p, const char *which,
                               const TensorNode *state) {
    char name[192];
    snprintf(name, sizeof name, "train.%s.%s", which, p->name);
    const RpGgufTensor *from = rp_gguf_find_tensor(t->model->file, name);
    if (from == NULL || !from->known || from->view.dtype != RP_F32 ||
        memcmp(from->view.ne, p->tensor->view.ne, sizeof from->view.ne) != 0)
        return rp_fail(RP_E_FORMAT,
                       "%s: tensor %s of the checkpoint is missing or not f32 of the shape of %s",
                       rp_gguf_path(t->model->file), name, p->name);
    return set_state(t, state, from->view.data, p->n);
}

RpStatus rp_trainer_restore(RpTrainer *t) {
    uint32_t step = 0;
    RP_TRY(rp_gguf_get_u32(t->model->file, "train.step", &step));
    t->step = (int64_t)step;
    RP_TRY(rp_trainer_compare_options(t));
    for (int i = 0; i < t->n_params; i++) {
        const TrainParam *p = &t->params[i];
        RP_TRY(restore_weight(t, p));
        if (step == 0) continue;
        RP_TRY(restore_moment(t, p, "m", p->m));
        RP_TRY(restore_moment(t, p, "v", p->v));
    }
    return RP_OK;
}

/* ---- writing ---- */

static bool begins_with(RpGgufString s, const char *text) {
    return s.len >= strlen(text) && memcmp(s.ptr, text, strlen(text)) == 0;
}

static bool is_key(RpGgufString s, const char *key) { return s.len == strlen(key) && begins_with(s, key); }

static const TrainParam *param_of(const RpTrainer *t, const RpGgufTensor *tensor) {
    int i = 0;
    while (i < t->n_params && t->params[i].tensor != tensor) i++;
    return i < t->n_params ? &t->params[i] : NULL;
}

static void put_moment(GgufWriter *w, const TrainParam *p, const char *which) {
    char      name[192];
    const int n = snprintf(name, sizeof name, "train.%s.%s", which, p->name);
    rp_gguf_put_tensor(w, name, (size_t)n, RP_F32, p->tensor->view.ne);
}

/* Metadata and tensor table. */
static RpStatus describe(const RpTrainer *t, GgufWriter *w, bool with_state) {
    const RpGgufFile *f = t->model->file;
    for (int64_t i = 0; i < rp_gguf_n_values(f); i++) {
        const RpGgufValue *v = rp_gguf_value(f, i);
        if (!is_key(v->key, "general.file_type") && !is_key(v->key, "general.quantization_version") &&
            !is_key(v->key, "general.alignment") && !begins_with(v->key, "train."))
            rp_gguf_put_value(w, v);
    }
    rp_gguf_put_u32(w, "general.file_type", 0); /* f32 */
    if (with_state) {
        rp_gguf_put_u32(w, "train.step", (uint32_t)t->step);
        rp_trainer_put_options(&t->o, w);
    }
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *tensor = rp_gguf_tensor(f, i);
        const RpDtype       type   = param_of(t, tensor) != NULL ? RP_F32 : tensor->view.dtype;
        if (begins_with(tensor->name, "train.")) continue;
        if (!tensor->known)
            return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s is of a type that cannot be copied",
                           rp_gguf_path(f), (int)(tensor->name.len < 96 ? tensor->name.len : 96),
                           tensor->name.ptr);
        rp_gguf_put_tensor(w, tensor->name.ptr, tensor->name.len, type, tensor->view.ne);
    }
    for (int i = 0; i < t->n_params && with_state; i++) put_moment(w, &t->params[i], "m");
    for (int i = 0; i < t->n_params && with_state; i++) put_moment(w, &t->params[i], "v");
    return rp_gguf_writer_begin(w);
}

static RpStatus write_state(RpTrainer *t, GgufWriter *w, const TensorNode *state, int64_t n) {
    const size_t bytes = (size_t)n * sizeof(float);
    RP_TRY(rp_executor_get(t->graphs[GRAPH_STEP].exec, state, t->buffer, bytes));
    return rp_gguf_writer_data(w, t->buffer, bytes);
}

static RpStatus write_tensors(RpTrainer *t, GgufWriter *w, bool with_state) {
    const RpGgufFile *f = t->model->file;
    RP_TRY(describe(t, w, with_state));
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *tensor = rp_gguf_tensor(f, i);
        const TrainParam   *p      = param_of(t, tensor);
        if (begins_with(tensor->name, "train.")) continue;
        RP_TRY(p != NULL ? write_state(t, w, p->weight, p->n)
                         : rp_gguf_writer_data(w, tensor->view.data, tensor->bytes));
    }
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

RpStatus rp_trainer_save(RpTrainer *t, const char *path) {
    RP_NOT_NULL(t, "t");
    RP_NOT_NULL(path, "path");
    return write_file(t, path, true);
}

RpStatus rp_trainer_export(RpTrainer *t, const char *path, const char *type) {
    RP_NOT_NULL(t, "t");
    RP_NOT_NULL(path, "path");

    if (type == NULL || strcasecmp(type, "F32") == 0) return write_file(t, path, false);
    const size_t room = strlen(path) + 32;
    char        *f32  = malloc(room);
    if (f32 == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a path");
    snprintf(f32, room, "%s.f32-%ld", path, (long)getpid());
    RpStatus st = access(f32, F_OK) != 0 ? write_file(t, f32, false)
                                         : rp_fail(RP_E_IO, "%s exists: it would be a temporary file", f32);
    if (st == RP_OK) {
        st = rp_requantize(f32, path, type, NULL, NULL);
        remove(f32);
    }
    free(f32);
    return st;
}
