/* Converts a float GGUF file to another type of weights: metadata is copied, tensors are quantised one row at
 * a time, so that memory does not grow with the model. */
#include "reprise/convert.h"

#include "model/gguf_write.h"
#include "model/quant_mix.h"
#include "reprise/quants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Requantize {
    GgufFile        *in;
    GgufWriter      *out;
    const QuantMix  *mix;
    int32_t          n_layer;
    bool             tied;
    ConvertProgress *progress;
    void            *user;
    size_t           done;
} Requantize;

/* I32 tensors are no weights and stay as they are. */
static RpDtype type_of(const Requantize *r, const GgufTensor *t) {
    if (t->view.dtype == RP_I32) return RP_I32;
    return rp_quant_mix_type(r->mix, t->name, t->view.ne, r->n_layer, r->tied);
}

/* Quantised sources are refused: quantising twice would lose accuracy unseen. */
static RpStatus check_tensor(const Requantize *r, const GgufTensor *t) {
    const bool is_float = t->known && !rp_dtype_is_quant(t->view.dtype);
    if (is_float) return RP_OK;
    const char *type = rp_gguf_type_name(t->gguf_type);
    return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s is %s: only files of f32, f16 and bf16 are converted",
                   rp_gguf_path(r->in), (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr,
                   type != NULL ? type : "of an unknown type");
}

static bool is_key(const GgufValue *v, const char *key) {
    return v->key.len == strlen(key) && memcmp(v->key.ptr, key, v->key.len) == 0;
}

/* Metadata and tensor table of the new file. Keys that the conversion changes are replaced. */
static RpStatus describe(Requantize *r) {
    GgufString arch    = {"", 0};
    uint32_t   n_layer = 0;
    char       key[128];
    RP_TRY(rp_gguf_get_string(r->in, "general.architecture", &arch));
    snprintf(key, sizeof key, "%.*s.block_count", (int)(arch.len < 64 ? arch.len : 64), arch.ptr);
    RP_TRY(rp_gguf_get_u32(r->in, key, &n_layer));
    r->n_layer = n_layer > INT32_MAX ? 0 : (int32_t)n_layer;
    r->tied    = rp_gguf_find_tensor(r->in, "output.weight") == NULL;
    for (int64_t i = 0; i < rp_gguf_n_values(r->in); i++) {
        const GgufValue *v = rp_gguf_value(r->in, i);
        if (!is_key(v, "general.file_type") && !is_key(v, "general.quantization_version") &&
            !is_key(v, "general.alignment"))
            rp_gguf_put_value(r->out, v);
    }
    rp_gguf_put_u32(r->out, "general.file_type", rp_quant_mix_file_type(r->mix));
    rp_gguf_put_u32(r->out, "general.quantization_version", 2);
    for (int64_t i = 0; i < rp_gguf_n_tensors(r->in); i++) {
        const GgufTensor *t = rp_gguf_tensor(r->in, i);
        RP_TRY(check_tensor(r, t));
        rp_gguf_put_tensor(r->out, t->name.ptr, t->name.len, type_of(r, t), t->view.ne);
    }
    return rp_gguf_writer_begin(r->out);
}

/* One tensor. floats: room for a row in f32; quantized: for a row in any type, none of which exceeds f32. */
static RpStatus convert_rows(Requantize *r, const GgufTensor *t, float *floats, char *quantized) {
    const RpDtype from = t->view.dtype, to = type_of(r, t);
    const int64_t n = t->view.ne[0];
    for (int64_t i = 0; i < rp_view_rows(&t->view); i++) {
        const void *row   = rp_view_row(&t->view, i);
        const void *bytes = row;
        if (from != to) {
            rp_dequantize_row(from, row, n, floats);
            if (rp_quantize_row(to, floats, n, quantized) != RP_OK)
                return rp_fail(RP_E_ARG, "%s: tensor %.*s, row %lld: %s", rp_gguf_path(r->in),
                               (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr, (long long)i,
                               rp_last_error());
            bytes = quantized;
        }
        RP_TRY(rp_gguf_writer_data(r->out, bytes, rp_row_bytes(to, n)));
        r->done += rp_row_bytes(to, n);
        if (r->progress != NULL && !r->progress(r->done, rp_gguf_writer_total(r->out), r->user))
            return rp_fail(RP_E_CANCELLED, "%s: conversion was stopped", rp_gguf_path(r->in));
    }
    return RP_OK;
}

static RpStatus convert(Requantize *r) {
    RP_TRY(describe(r));
    int64_t longest = 0;
    for (int64_t i = 0; i < rp_gguf_n_tensors(r->in); i++) {
        const int64_t n = rp_gguf_tensor(r->in, i)->view.ne[0];
        longest         = n > longest ? n : longest;
    }
    float   *floats    = malloc((size_t)longest * sizeof *floats + 1);
    char    *quantized = malloc((size_t)longest * sizeof *floats + 1);
    RpStatus st =
        floats != NULL && quantized != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a row");
    for (int64_t i = 0; i < rp_gguf_n_tensors(r->in) && st == RP_OK; i++)
        st = convert_rows(r, rp_gguf_tensor(r->in, i), floats, quantized);
    free(floats);
    free(quantized);
    return st;
}

RpStatus rp_requantize(const char *in, const char *out, const char *type, ConvertProgress *progress,
                       void *user) {
    Requantize r = {.progress = progress, .user = user};
    RP_TRY(rp_quant_mix_find(type, &r.mix));
    RP_TRY(rp_gguf_open(in, &r.in));
    RpStatus st = rp_gguf_writer_open(out, &r.out);
    if (st == RP_OK) st = rp_gguf_writer_close(r.out, convert(&r));
    rp_gguf_close(r.in);
    return st;
}
