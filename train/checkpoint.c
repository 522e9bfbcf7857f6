/* Files of a trainer.
 *
 *     model       metadata of the model's file        its tensors, the trained ones as f32
 *     checkpoint  the same, train.step, options,      the same, then train.m.<name> of each trained one,
 *                 checksums (gguf_checksum.h)         then train.v.<name>
 *
 * The files of an adapter have the format of model/adapter.c, its base (adapter_base.c) and checksums; its checkpoint
 * has the same further tensors and keys. A checkpoint is opened as a model or an adapter, which ignore tensors and keys
 * "train.*". */
#include "train/trainer.h"

#include "base/argument.h"
#include "base/files/temporary.h"
#include "model/gguf/gguf_checksum.h"
#include "model/gguf/gguf_file.h"
#include "reprise/convert.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static const TrainParam *param_of(const RpTrainer *t, const RpGgufTensor *tensor) {
    int i = 0;
    while (i < t->n_params && t->params[i].tensor != tensor) i++;
    return i < t->n_params ? &t->params[i] : NULL;
}

static void put_moment(GgufWriter *w, const TrainParam *p, TrainState state) {
    char      name[192];
    const int n = snprintf(name, sizeof name, "%s%s", rp_trainer_prefix(state), p->name);
    rp_gguf_put_tensor(w, name, (size_t)n, RP_F32, p->tensor->view.ne);
}

/* Metadata and tensor table of an adapter, as llama.cpp reads it (model/adapter.c). */
static RpStatus describe_adapter(RpTrainer *t, GgufWriter *w) {
    RP_TRY(rp_trainer_sum_base(t));
    rp_gguf_put_string(w, "general.type", "adapter");
    rp_gguf_put_string(w, "general.architecture", rp_model_info(t->model)->arch);
    rp_gguf_put_string(w, "adapter.type", "lora");
    rp_gguf_put_f32(w, "adapter.lora.alpha", t->o.lora_alpha);
    rp_adapter_put_base(w, t->model, t->base_sums);
    for (int i = 0; i < t->n_params; i++)
        rp_gguf_put_tensor(w, t->params[i].name, strlen(t->params[i].name), RP_F32, t->params[i].tensor->view.ne);
    return RP_OK;
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
            return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s is of a type that cannot be copied", rp_gguf_path(f),
                           (int)(tensor->name.len < 96 ? tensor->name.len : 96), tensor->name.ptr);
        rp_gguf_put_tensor(w, tensor->name.ptr, tensor->name.len, type, tensor->view.ne);
    }
    return RP_OK;
}

/* Files with state, and adapters, get checksums; the model alone is a plain file. */
static RpStatus describe(RpTrainer *t, GgufWriter *w, bool with_state) {
    if (t->adapter != NULL || with_state) rp_gguf_put_checksums(w);
    RP_TRY(t->adapter != NULL ? describe_adapter(t, w) : describe_model(t, w));
    if (with_state) {
        rp_gguf_put_u32(w, "train.step", (uint32_t)t->step); /* rp_trainer_step allows no more than INT32_MAX */
        rp_trainer_put_options(&t->o, w);
    }
    for (int i = 0; i < t->n_params && with_state; i++) put_moment(w, &t->params[i], STATE_MEAN);
    for (int i = 0; i < t->n_params && with_state; i++) put_moment(w, &t->params[i], STATE_SQUARES);
    return rp_gguf_writer_begin(w);
}

/* Values that could not be read again are not written. */
static RpStatus write_state(RpTrainer *t, GgufWriter *w, const TrainParam *p, TrainState state) {
    const TensorNode *node  = state == STATE_WEIGHT ? p->weight : state == STATE_MEAN ? p->m : p->v;
    const size_t      bytes = (size_t)p->n * sizeof(float);
    RP_TRY(rp_executor_get(t->graphs[GRAPH_STEP].exec, node, t->buffer, bytes));
    RP_TRY(rp_trainer_check_state("the file is not written", p, state, t->buffer, RP_E_STATE));
    return rp_gguf_writer_data(w, t->buffer, bytes);
}

/* The tensors of the model, the trained ones as they are now; or the matrices of the adapter. */
static RpStatus write_weights(RpTrainer *t, GgufWriter *w) {
    const RpGgufFile *f = t->model->file;
    for (int i = 0; i < t->n_params && t->adapter != NULL; i++) RP_TRY(write_state(t, w, &t->params[i], STATE_WEIGHT));
    for (int64_t i = 0; i < rp_gguf_n_tensors(f) && t->adapter == NULL; i++) {
        const RpGgufTensor *tensor = rp_gguf_tensor(f, i);
        const TrainParam   *p      = param_of(t, tensor);
        if (rp_gguf_is_training(tensor->name)) continue;
        RP_TRY(p != NULL ? write_state(t, w, p, STATE_WEIGHT)
                         : rp_gguf_writer_data(w, tensor->view.data, tensor->bytes));
    }
    return RP_OK;
}

static RpStatus write_tensors(RpTrainer *t, GgufWriter *w, bool with_state) {
    RP_TRY(describe(t, w, with_state));
    RP_TRY(write_weights(t, w));
    for (int i = 0; i < t->n_params && with_state; i++) RP_TRY(write_state(t, w, &t->params[i], STATE_MEAN));
    for (int i = 0; i < t->n_params && with_state; i++) RP_TRY(write_state(t, w, &t->params[i], STATE_SQUARES));
    return RP_OK;
}

/* Whether the file that is to be replaced can be resumed, as far as its checksums tell. One that cannot must not
 * replace the checkpoint before it. */
static RpStatus is_whole(const char *path, bool *whole) {
    RpGgufFile *f;
    struct stat old;
    *whole = false;
    if (stat(path, &old) != 0) return errno == ENOENT ? RP_OK : rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(old.st_mode)) return RP_OK; /* rp_gguf_writer_open refuses it */
    RpStatus st = rp_gguf_open(path, &f);
    if (st == RP_OK) {
        st = rp_gguf_check_tensors(f, false);
        if (st == RP_OK) st = rp_gguf_check_tensors(f, true);
        *whole = st == RP_OK && rp_gguf_find(f, "train.step") != NULL;
        rp_gguf_close(f);
    }
    return st == RP_E_FORMAT || st == RP_E_UNSUPPORTED ? RP_OK : st;
}

/* The name of the checkpoint before, which the caller frees: without a file, that of the file to be written. */
static RpStatus kept_path(const char *path, char **kept) {
    *kept        = NULL;
    char *target = realpath(path, NULL);
    if (target == NULL && errno != ENOENT) return rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
    const char  *file = target != NULL ? target : path;
    const size_t size = strlen(file) + sizeof TRAIN_KEPT;
    *kept             = malloc(size);
    if (*kept != NULL) snprintf(*kept, size, "%s%s", file, TRAIN_KEPT);
    free(target);
    return *kept != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "%s: out of memory for a path", path);
}

RpStatus rp_trainer_check_kept(const char *path) {
    char       *kept;
    struct stat st;
    RP_TRY(kept_path(path, &kept));
    RpStatus status = RP_OK;
    if (stat(kept, &st) == 0 && !S_ISREG(st.st_mode))
        status =
            rp_fail(RP_E_ARG, "%s: is not a regular file, which the checkpoint before %s would replace", kept, path);
    free(kept);
    return status;
}

static RpStatus write_file(RpTrainer *t, const char *path, bool with_state) {
    GgufWriter *w;
    bool        keep = false;
    if (with_state) RP_TRY(is_whole(path, &keep));
    RP_TRY(rp_gguf_writer_open(path, &w));
    RpStatus st = keep ? rp_gguf_writer_keep(w, TRAIN_KEPT) : RP_OK;
    if (st == RP_OK) st = write_tensors(t, w, with_state);
    return rp_gguf_writer_close(w, st);
}

/* The states that write_state refuses do not name the file. */
static RpStatus with_path(const char *path, RpStatus st) {
    return st == RP_E_STATE ? rp_fail(st, "%s: %s", path, rp_last_error()) : st;
}

/* No file with which the training began may be replaced, but a checkpoint by a checkpoint. */
static RpStatus check_output(const RpTrainer *t, const char *path, bool is_checkpoint) {
    const RpGgufFile *origin  = rp_trainer_origin(t);
    const bool        resumed = origin != NULL && rp_gguf_find(origin, "train.step") != NULL;
    if (origin != NULL && !(is_checkpoint && resumed)) RP_TRY(rp_gguf_refuse_output(origin, path));
    return origin != t->model->file ? rp_gguf_refuse_output(t->model->file, path) : RP_OK;
}

/* The checkpoint at `path` and the one that is kept before it. */
static RpStatus check_outputs(const RpTrainer *t, const char *path) {
    char *kept;
    RP_TRY(check_output(t, path, true));
    RP_TRY(kept_path(path, &kept));
    const RpStatus st = check_output(t, kept, true);
    free(kept);
    return st;
}

RpStatus rp_trainer_save(RpTrainer *t, const char *path) {
    RP_NOT_NULL(t, "t");
    RP_NOT_NULL(path, "path");
    TrainLock *lock = NULL;
    bool       locked;
    RP_TRY(check_outputs(t, path));
    RP_TRY(rp_train_lock_is_of(t->lock, path, &locked));
    if (!locked) RP_TRY(rp_train_lock(path, &lock));
    const RpStatus st = with_path(path, write_file(t, path, true));
    rp_train_unlock(lock);
    return st;
}

RpStatus rp_trainer_export(RpTrainer *t, const char *path, const char *type) {
    RP_NOT_NULL(t, "t");
    RP_NOT_NULL(path, "path");

    RP_TRY(check_output(t, path, false));
    if (type == NULL || strcasecmp(type, "F32") == 0) return with_path(path, write_file(t, path, false));
    if (t->adapter != NULL) return rp_fail(RP_E_ARG, "%s: type %s: adapters are written in F32", path, type);
    Scratch  f32;
    RpStatus st = rp_scratch_open(path, "f32", &f32);
    if (st == RP_OK) st = with_path(path, write_file(t, f32.path, false));
    if (st == RP_OK) st = rp_requantize(f32.path, path, type, NULL, NULL);
    rp_scratch_close(&f32);
    return st;
}
