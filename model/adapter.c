/* Adapters of an open model: files of llama.cpp's convert_lora_to_gguf.py and of rp_trainer_export.
 *
 *     general.type "adapter"     adapter.type "lora"     general.architecture: that of the model
 *     adapter.lora.alpha         f32, 0 or absent: the factor is not divided by the rank
 *     <weight>.lora_a [n,rank], <weight>.lora_b [rank,m] for each adapted weight [n,m]
 *
 * Keys and tensors "train.*" of a checkpoint are left out. */
#include "model/adapter.h"

#include "base/argument.h"
#include "model/gguf/gguf_checksum.h"
#include "model/gguf/gguf_file.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char suffix_a[] = ".lora_a", suffix_b[] = ".lora_b";

enum { SUFFIX = sizeof suffix_a - 1 };

static bool is(RpGgufString s, const char *text) { return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0; }

static int shown(RpGgufString s) { return (int)(s.len < 96 ? s.len : 96); }

/* A matrix of a layer that no product reads. */
static bool is_convolution(const RpModel *m, const RpGgufTensor *t) {
    for (int i = 0; i < m->config.n_layer; i++)
        if (m->layers[i].conv == t || m->layers[i].ssm_norm == t) return true;
    return false;
}

bool rp_model_adapts(const RpModel *m, const RpGgufTensor *t) {
    const int64_t *ne = t->view.ne;
    if (t == m->token_embd || ne[1] < 2 || ne[2] > 1 || ne[3] > 1 || is_convolution(m, t)) return false;
    if (!rp_model_reads(m, t)) return false;
    return t == m->output ||
           (t->name.len > 4 && memcmp(t->name.ptr, "blk.", 4) == 0 && rp_gguf_ends_with(t->name, ".weight"));
}

/* ---- checks ---- */

static RpStatus expect(const RpGgufFile *f, const char *key, const char *wanted) {
    RpGgufString s = {"", 0};
    if (rp_gguf_find(f, key) != NULL) RP_TRY(rp_gguf_get_string(f, key, &s));
    if (is(s, wanted)) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: %s is '%.*s': must be '%s'", rp_gguf_path(f), key, shown(s), s.ptr, wanted);
}

/* An adapter that begins in the middle of a text would have to be switched on there. */
RpStatus rp_adapter_check(const RpModel *m, const RpGgufFile *f) {
    static const char invocation[] = "adapter.alora.invocation_tokens";
    RP_TRY(rp_gguf_need_order(m->file, "an adapter"));
    RP_TRY(expect(f, "general.type", "adapter"));
    RP_TRY(expect(f, "adapter.type", "lora"));
    RP_TRY(expect(f, "general.architecture", m->info.arch));
    if (rp_gguf_find(f, invocation) == NULL) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s: %s: activated adapters are not supported", rp_gguf_path(f), invocation);
}

static RpStatus check_type(const RpGgufFile *f, const RpGgufTensor *t) {
    const bool is_weight = t->known && t->view.dtype != RP_I32;
    if (is_weight && t->view.ne[2] == 1 && t->view.ne[3] == 1) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s is %s%s: must be a matrix of a float or weight type",
                   rp_gguf_path(f), shown(t->name), t->name.ptr, rp_gguf_type_name(t->gguf_type),
                   is_weight ? " of more than two dimensions" : "");
}

static RpStatus check_shapes(const RpGgufFile *f, const AdapterPair *p) {
    const int64_t *w = p->weight->view.ne, *a = p->a->view.ne, *b = p->b->view.ne;
    RP_TRY(check_type(f, p->a));
    RP_TRY(check_type(f, p->b));
    if (a[0] == w[0] && b[1] == w[1] && a[1] == b[0]) return RP_OK;
    return rp_fail(RP_E_SHAPE,
                   "%s: %.*s [%lld,%lld] and lora_b [%lld,%lld]: must be [%lld,rank] and [rank,%lld] for "
                   "%.*s [%lld,%lld] of the model",
                   rp_gguf_path(f), shown(p->a->name), p->a->name.ptr, (long long)a[0], (long long)a[1],
                   (long long)b[0], (long long)b[1], (long long)w[0], (long long)w[1], shown(p->weight->name),
                   p->weight->name.ptr, (long long)w[0], (long long)w[1]);
}

/* ---- pairs ---- */

/* The tensor called `stem` + suffix. */
static const RpGgufTensor *find(const RpGgufFile *f, RpGgufString stem, const char *suffix) {
    char name[192];
    if (stem.len > sizeof name - 16) return NULL;
    snprintf(name, sizeof name, "%.*s%s", (int)stem.len, stem.ptr, suffix);
    return rp_gguf_find_tensor(f, name);
}

static RpStatus find_weight(const RpModel *m, const RpGgufFile *f, const RpGgufTensor *a, const RpGgufTensor **out) {
    const RpGgufString stem = {a->name.ptr, a->name.len - SUFFIX};
    *out                    = find(m->file, stem, "");
    if (*out == NULL)
        return rp_fail(RP_E_FORMAT, "%s: tensor %.*s: %s has no tensor %.*s", rp_gguf_path(f), shown(a->name),
                       a->name.ptr, rp_gguf_path(m->file), shown(stem), stem.ptr);
    if (rp_model_adapts(m, *out)) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED,
                   "%s: tensor %.*s: only matrices of layers and the output matrix can be adapted, no "
                   "embedding, norm, convolution, matrices of experts or tensor that joins several matrices",
                   rp_gguf_path(f), shown(a->name), a->name.ptr);
}

/* Tensor i of the file: a pair for each lora_a; a lora_b without its lora_a is an error. */
static RpStatus add_tensor(RpModel *m, const RpGgufFile *f, const RpGgufTensor *t, float scale, float alpha) {
    const RpGgufString stem = {t->name.ptr, t->name.len > SUFFIX ? t->name.len - SUFFIX : 0};
    const bool         is_a = rp_gguf_ends_with(t->name, suffix_a);
    if (rp_gguf_is_training(t->name)) return RP_OK;
    if (!is_a && !rp_gguf_ends_with(t->name, suffix_b))
        return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s is no .lora_a or .lora_b", rp_gguf_path(f), shown(t->name),
                       t->name.ptr);
    if (find(f, stem, is_a ? suffix_b : suffix_a) == NULL)
        return rp_fail(RP_E_FORMAT, "%s: tensor %.*s has no %s", rp_gguf_path(f), shown(t->name), t->name.ptr,
                       is_a ? suffix_b : suffix_a);
    if (!is_a) return RP_OK;
    AdapterPair p = {.a = t, .b = find(f, stem, suffix_b), .adapter = m->n_adapters};
    RP_TRY(find_weight(m, f, t, &p.weight));
    RP_TRY(check_shapes(f, &p));
    p.scale                = alpha != 0.0f ? scale * alpha / (float)p.b->view.ne[0] : scale;
    m->pairs[m->n_pairs++] = p;
    return RP_OK;
}

static RpStatus add_file(RpModel *m, const RpGgufFile *f, float scale) {
    const int64_t n     = rp_gguf_n_tensors(f);
    float         alpha = 0.0f;
    RP_TRY(rp_adapter_check(m, f));
    RP_TRY(rp_gguf_check_tensors(f, false));
    RP_TRY(rp_adapter_compare_base(m, f, NULL));
    RP_TRY(rp_gguf_get_f32(f, "adapter.lora.alpha", &alpha));
    if (!isfinite(alpha)) return rp_fail(RP_E_FORMAT, "%s: adapter.lora.alpha is %g", rp_gguf_path(f), (double)alpha);
    AdapterPair *grown = realloc(m->pairs, ((size_t)m->n_pairs + (size_t)n + 1) * sizeof *grown);
    if (grown == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for an adapter", rp_gguf_path(f));
    m->pairs         = grown;
    const int before = m->n_pairs;
    for (int64_t i = 0; i < n; i++) {
        const RpStatus st = add_tensor(m, f, rp_gguf_tensor(f, i), scale, alpha);
        if (st == RP_OK) continue;
        m->n_pairs = before;
        return st;
    }
    if (m->n_pairs > before) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: there are no tensors in this adapter", rp_gguf_path(f));
}

/* Every token reads the pairs. */
static void count(RpModel *m, int first) {
    for (int i = first; i < m->n_pairs; i++) {
        const AdapterPair *p = &m->pairs[i];
        const int64_t      n = rp_view_elems(&p->a->view) + rp_view_elems(&p->b->view);
        m->info.n_params += n;
        m->info.n_params_active += n;
        m->info.weight_bytes += p->a->bytes + p->b->bytes;
        m->info.decode_weight_bytes += p->a->bytes + p->b->bytes;
    }
}

static void warn(RpModel *m, const RpGgufFile *f) {
    const RpGgufTensor *t   = rp_adapter_other_vector(m, f);
    m->info.adapter_warning = t != NULL ? m->warning : NULL;
    if (t == NULL) return;
    snprintf(m->warning, sizeof m->warning, "%.200s was trained on another model: its base has other values of %.*s",
             rp_gguf_path(f), shown(t->name), t->name.ptr);
}

RpStatus rp_model_add_adapter(RpModel *m, const char *path, float scale) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(path, "path");

    RpGgufFile *file;
    const int   before = m->n_pairs;
    if (!isfinite(scale)) return rp_fail(RP_E_ARG, "%s: a scale of %g", path, (double)scale);
    RpGgufFile **grown = realloc(m->adapters, ((size_t)m->n_adapters + 1) * sizeof(RpGgufFile *));
    if (grown == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for an adapter", path);
    m->adapters = grown;
    RP_TRY(rp_gguf_open(path, &file));
    const RpStatus st = add_file(m, file, scale);
    if (st != RP_OK) {
        rp_gguf_close(file);
        return st;
    }
    m->adapters[m->n_adapters++] = file;
    count(m, before);
    warn(m, file);
    return RP_OK;
}

void rp_model_free_adapters(RpModel *m) {
    for (int i = 0; i < m->n_adapters; i++) rp_gguf_close(m->adapters[i]);
    free(m->adapters);
    free(m->pairs);
}
