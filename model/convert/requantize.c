/* Converts a float GGUF file to another type of weights: metadata is copied, tensors are quantised in batches
 * of rows, so that memory does not grow with the model. */
#include "reprise/convert.h"

#include "base/argument.h"

#include "model/gguf/gguf_write.h"
#include "model/convert/quant_mix.h"
#include "reprise/quants.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Requantize {
    RpGgufFile        *in;
    GgufWriter      *out;
    const QuantMix  *mix;
    int32_t          n_layer;
    bool             tied;
    RpConvertProgress *progress;
    void            *user;
    size_t           done;
} Requantize;

/* I32 tensors are no weights and stay as they are. */
static RpDtype type_of(const Requantize *r, const RpGgufTensor *t) {
    if (t->view.dtype == RP_I32) return RP_I32;
    return rp_quant_mix_type(r->mix, t->name, t->view.ne, r->n_layer, r->tied);
}

/* Quantised sources are refused: quantising twice would lose accuracy unseen. */
static RpStatus check_tensor(const Requantize *r, const RpGgufTensor *t) {
    const bool is_float = t->known && !rp_dtype_is_quant(t->view.dtype);
    if (is_float) return RP_OK;
    const char *type = rp_gguf_type_name(t->gguf_type);
    return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s is %s: only files of f32, f16 and bf16 are converted",
                   rp_gguf_path(r->in), (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr,
                   type != NULL ? type : "of an unknown type");
}

/* Nothing of the optimiser is copied from a checkpoint (reprise/train.h). */
static bool is_of_optimizer(RpGgufString name) { return name.len >= 6 && memcmp(name.ptr, "train.", 6) == 0; }

static bool has_experts(const RpGgufFile *f) {
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufString name = rp_gguf_tensor(f, i)->name;
        if (memmem(name.ptr, name.len, "_exps.", strlen("_exps.")) != NULL) return true;
    }
    return false;
}

static bool is_key(const RpGgufValue *v, const char *key) {
    return v->key.len == strlen(key) && memcmp(v->key.ptr, key, v->key.len) == 0;
}

/* Metadata and tensor table of the new file. Keys that the conversion changes are replaced. */
static RpStatus describe(Requantize *r) {
    RpGgufString arch    = {"", 0};
    uint32_t   n_layer = 0;
    char       key[128];
    RP_TRY(rp_gguf_get_string(r->in, "general.architecture", &arch));
    snprintf(key, sizeof key, "%.*s.block_count", (int)(arch.len < 64 ? arch.len : 64), arch.ptr);
    RP_TRY(rp_gguf_get_u32(r->in, key, &n_layer));
    r->n_layer = n_layer > INT32_MAX ? 0 : (int32_t)n_layer;
    if (!has_experts(r->in)) r->mix = rp_quant_mix_dense(r->mix);
    r->tied    = rp_gguf_find_tensor(r->in, "output.weight") == NULL;
    for (int64_t i = 0; i < rp_gguf_n_values(r->in); i++) {
        const RpGgufValue *v = rp_gguf_value(r->in, i);
        if (!is_key(v, "general.file_type") && !is_key(v, "general.quantization_version") &&
            !is_key(v, "general.alignment") && !is_of_optimizer(v->key))
            rp_gguf_put_value(r->out, v);
    }
    rp_gguf_put_u32(r->out, "general.file_type", rp_quant_mix_file_type(r->mix));
    rp_gguf_put_u32(r->out, "general.quantization_version", 2);
    for (int64_t i = 0; i < rp_gguf_n_tensors(r->in); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(r->in, i);
        if (is_of_optimizer(t->name)) continue;
        RP_TRY(check_tensor(r, t));
        rp_gguf_put_tensor(r->out, t->name.ptr, t->name.len, type_of(r, t), t->view.ne);
    }
    return rp_gguf_writer_begin(r->out);
}

/* ---- rows, by all cores ----
 *
 * A batch of rows is converted to memory and then written in order, so that the file does not depend on the number of
 * threads:
 *
 *     batch    row 0 .. k-1  thread 0 | row k .. 2k-1  thread 1 | ...        k = ceil(rows / threads) */

enum { BATCH_BYTES = 4 << 20, MAX_THREADS = 64 };

typedef struct Slice {
    const Requantize *r;
    const RpGgufTensor *tensor;
    int64_t           first, end; /* rows */
    float            *floats;     /* a row in f32 */
    char             *out;
    RpStatus          status;
    char              text[256]; /* of the failure; rp_last_error belongs to a thread */
} Slice;

static void *convert_slice(void *arg) {
    Slice        *s    = arg;
    const RpDtype from = s->tensor->view.dtype, to = type_of(s->r, s->tensor);
    const int64_t n   = s->tensor->view.ne[0];
    char         *out = s->out;
    for (int64_t i = s->first; i < s->end && s->status == RP_OK; i++, out += rp_row_bytes(to, n)) {
        rp_dequantize_row(from, rp_view_row(&s->tensor->view, i), n, s->floats);
        if (rp_quantize_row(to, s->floats, n, out) == RP_OK) continue;
        s->status = RP_E_ARG;
        snprintf(s->text, sizeof s->text, "row %lld: %.200s", (long long)i, rp_last_error());
    }
    return NULL;
}

typedef struct Workers {
    Slice  slices[MAX_THREADS];
    int    n;
    float *floats; /* a row of the longest tensor for each */
    char  *batch;
    size_t batch_bytes;
} Workers;

/* Rows [first, end) of a tensor to w->batch. The first failing row is reported. */
static RpStatus convert_batch(const Requantize *r, Workers *w, const RpGgufTensor *t, int64_t first,
                              int64_t end, int64_t longest) {
    pthread_t     threads[MAX_THREADS];
    bool          started[MAX_THREADS] = {false};
    const int64_t each                 = (end - first + w->n - 1) / w->n;
    const size_t  row                  = rp_row_bytes(type_of(r, t), t->view.ne[0]);
    for (int i = w->n - 1; i >= 0; i--) { /* the calling thread takes the first slice */
        Slice        *s    = &w->slices[i];
        const int64_t from = first + i * each < end ? first + i * each : end;
        *s        = (Slice){.r = r, .tensor = t, .first = from, .end = from + each < end ? from + each : end};
        s->floats = w->floats + i * longest;
        s->out    = w->batch + (size_t)(from - first) * row;
        if (s->first == s->end) continue;
        started[i] = i > 0 && pthread_create(&threads[i], NULL, convert_slice, s) == 0;
        if (!started[i]) convert_slice(s);
    }
    for (int i = 0; i < w->n; i++)
        if (started[i]) pthread_join(threads[i], NULL);
    for (int i = 0; i < w->n; i++)
        if (w->slices[i].status != RP_OK)
            return rp_fail(w->slices[i].status, "%s: tensor %.*s, %s", rp_gguf_path(r->in),
                           (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr, w->slices[i].text);
    return RP_OK;
}

static RpStatus convert_tensor(Requantize *r, Workers *w, const RpGgufTensor *t, int64_t longest) {
    const RpDtype to    = type_of(r, t);
    const int64_t rows  = rp_view_rows(&t->view);
    const size_t  bytes = rp_row_bytes(to, t->view.ne[0]);
    const int64_t batch = (int64_t)(w->batch_bytes / bytes);
    for (int64_t i = 0; i < rows; i += batch) {
        const int64_t end = i + batch < rows ? i + batch : rows;
        const void   *out = rp_view_row(&t->view, i); /* rows of a tensor in a file are contiguous */
        if (t->view.dtype != to) {
            RP_TRY(convert_batch(r, w, t, i, end, longest));
            out = w->batch;
        }
        RP_TRY(rp_gguf_writer_data(r->out, out, (size_t)(end - i) * bytes));
        r->done += (size_t)(end - i) * bytes;
        if (r->progress != NULL && !r->progress(r->done, rp_gguf_writer_total(r->out), r->user))
            return rp_fail(RP_E_CANCELLED, "%s: conversion was stopped", rp_gguf_path(r->in));
    }
    return RP_OK;
}

static RpStatus convert(Requantize *r) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    RP_TRY(describe(r));
    int64_t longest = 1;
    for (int64_t i = 0; i < rp_gguf_n_tensors(r->in); i++) {
        const int64_t n = rp_gguf_tensor(r->in, i)->view.ne[0];
        longest         = n > longest ? n : longest;
    }
    Workers *w = calloc(1, sizeof *w);
    if (w == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a conversion");
    w->n = cores < 1 ? 1 : (cores < MAX_THREADS ? (int)cores : MAX_THREADS);
    w->batch_bytes =
        (size_t)longest * sizeof(float) > BATCH_BYTES ? (size_t)longest * sizeof(float) : BATCH_BYTES;
    w->floats   = malloc((size_t)w->n * (size_t)longest * sizeof *w->floats);
    w->batch    = malloc(w->batch_bytes);
    RpStatus st = w->floats != NULL && w->batch != NULL
                      ? RP_OK
                      : rp_fail(RP_E_NOMEM, "out of memory for a batch of rows");
    for (int64_t i = 0; i < rp_gguf_n_tensors(r->in) && st == RP_OK; i++)
        if (!is_of_optimizer(rp_gguf_tensor(r->in, i)->name))
            st = convert_tensor(r, w, rp_gguf_tensor(r->in, i), longest);
    free(w->floats);
    free(w->batch);
    free(w);
    return st;
}

RpStatus rp_requantize(const char *in, const char *out, const char *type, RpConvertProgress *progress,
                       void *user) {
    RP_NOT_NULL(in, "in");
    RP_NOT_NULL(out, "out");
    RP_NOT_NULL(type, "type");

    Requantize r = {.progress = progress, .user = user};
    RP_TRY(rp_quant_mix_find(type, &r.mix));
    RP_TRY(rp_gguf_open(in, &r.in));
    RpStatus st = rp_gguf_writer_open(out, &r.out);
    if (st == RP_OK) st = rp_gguf_writer_close(r.out, convert(&r));
    rp_gguf_close(r.in);
    return st;
}
