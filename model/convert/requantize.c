/* Converts a model to another type of weights: metadata is copied, tensors are quantised by
 * rows (rows.h). */
#include "reprise/convert.h"

#include "base/argument.h"
#include "base/limits.h"
#include "base/sized.h"
#include "base/types/custom.h"

#include "model/convert/importance.h"
#include "model/convert/quant_mix.h"
#include "model/convert/rows.h"
#include "model/gguf/gguf_checksum.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_write.h"

#include <stdio.h>
#include <string.h>

typedef struct Requantize {
    RpGgufFile     *in;
    GgufWriter     *out;
    const QuantMix *mix; /* NULL: all matrices have the registered type `custom` */
    RpDtype         custom;
    QuantMixModel   model;
    int32_t         n_nextn, head_dim; /* n_nextn: of the layers, those that predict further tokens */
    Importance     *importance;        /* or NULL */
    RowWriter       rows;
} Requantize;

/* Matrices of the same part before this one, in the order of rp_quant_mix_type. */
static int32_t before(const Requantize *r, const RpGgufTensor *t) {
    const RpMixPart part    = rp_mix_part(t->name);
    const int32_t   layer   = rp_mix_layer(t->name);
    const bool      counted = part == RP_MIX_VALUE || part == RP_MIX_DOWN || part == RP_MIX_UP || part == RP_MIX_GATE;
    int32_t         n       = 0;
    for (int64_t i = 0; counted && i < rp_gguf_n_tensors(r->in); i++) {
        const RpGgufTensor *o = rp_gguf_tensor(r->in, i);
        if (rp_mix_part(o->name) != part || rp_mix_is_float(o->name, o->view.ne)) continue;
        const size_t  common = o->name.len < t->name.len ? o->name.len : t->name.len;
        const int     order  = memcmp(o->name.ptr, t->name.ptr, common);
        const int32_t other  = rp_mix_layer(o->name);
        n += other != layer ? other < layer : order < 0 || (order == 0 && o->name.len < t->name.len);
    }
    return n;
}

/* No text reaches layers that predict further tokens, and rp_imatrix leaves out the matrices of heads of latent
 * attention. */
static bool is_beyond_texts(const Requantize *r, const RpGgufTensor *t) {
    return rp_gguf_ends_with(t->name, ".attn_k_b.weight") || rp_gguf_ends_with(t->name, ".attn_v_b.weight") ||
           rp_gguf_ends_with(t->name, ".attn_kv_b.weight") ||
           (r->n_nextn > 0 && rp_mix_layer(t->name) >= r->model.n_layer - r->n_nextn);
}

/* I32 tensors are no weights and stay as they are. */
static RpDtype type_of(const Requantize *r, const RpGgufTensor *t) {
    if (t->view.dtype == RP_I32) return RP_I32;
    if (r->mix == NULL) return rp_pure_type(r->custom, t->name, t->view.ne);
    if (rp_mix_is_kept(t->name) && rp_dtype_is_float(t->view.dtype) && rp_dtype_is_quant(rp_quant_mix_base(r->mix)))
        return t->view.dtype;
    const RpDtype type = rp_quant_mix_type(r->mix, &r->model, t->name, t->view.ne, before(r, t));
    if (!rp_mix_needs_importance(r->mix, type, t->name) || r->importance == NULL || !is_beyond_texts(r, t)) return type;
    return rp_importance_has(r->importance, t->name) ? type : rp_mix_for_rows(RP_Q4_K, t->view.ne[0]);
}

static RpStatus check_importance(const Requantize *r, const RpGgufTensor *t) {
    const RpDtype type = type_of(r, t);
    const int     n    = (int)(t->name.len < 96 ? t->name.len : 96);
    if (!rp_mix_needs_importance(r->mix, type, t->name)) return RP_OK;
    if (r->importance == NULL)
        return rp_fail(RP_E_ARG, "%s: tensor %.*s becomes %s, which needs an importance matrix: none is given",
                       rp_gguf_path(r->in), n, t->name.ptr, rp_dtype_name(type));
    if (rp_importance_has(r->importance, t->name)) return RP_OK;
    return rp_fail(RP_E_ARG, "%s has no sums for %.*s of %s, which becomes %s: this type needs an importance matrix",
                   rp_gguf_path(rp_importance_file(r->importance)), n, t->name.ptr, rp_gguf_path(r->in),
                   rp_dtype_name(type));
}

static RpStatus check_tensor(const Requantize *r, const RpGgufTensor *t) {
    if (t->known) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s is %s, which cannot be converted", rp_gguf_path(r->in),
                   (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr, rp_gguf_type_name(t->gguf_type));
}

/* The head size of a directory, which divides the rows of q and k. */
static RpStatus read_head_dim(Requantize *r, RpGgufString arch) {
    uint32_t d = 0;
    char     key[128];
    if (!r->in->parts.norm_rope) return RP_OK;
    snprintf(key, sizeof key, "%.*s.attention.key_length", (int)(arch.len < 64 ? arch.len : 64), arch.ptr);
    RP_TRY(rp_gguf_get_u32(r->in, key, &d));
    for (int64_t i = 0; i < rp_gguf_n_tensors(r->in); i++) {
        const RpGgufTensor *t    = rp_gguf_tensor(r->in, i);
        const int64_t       rows = t->view.ne[1] == 1 ? t->view.ne[0] : t->view.ne[1];
        if (memmem(t->name.ptr, t->name.len, ".attn_q.", 8) == NULL &&
            memmem(t->name.ptr, t->name.len, ".attn_k.", 8) == NULL)
            continue;
        if (d == 0 || d % 2 != 0 || rows % d != 0)
            return rp_fail(RP_E_SHAPE, "%s: tensor %.*s: %lld rows are not whole heads of %u", rp_gguf_path(r->in),
                           (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr, (long long)rows, d);
    }
    r->head_dim = (int32_t)d;
    return RP_OK;
}

/* A number of the model, that of its first layer if it is an array; 0 if it is absent. */
static int32_t number_of(const Requantize *r, RpGgufString arch, const char *name) {
    char key[128];
    snprintf(key, sizeof key, "%.*s.%s", (int)(arch.len < 64 ? arch.len : 64), arch.ptr, name);
    const RpGgufValue *value = rp_gguf_find(r->in, key);
    if (value == NULL || value->n == 0) return 0;
    const double n = rp_gguf_number_at(value, 0);
    return n >= 0.0 && n <= INT32_MAX ? (int32_t)n : 0;
}

/* Reads the properties of the model that the mixes and the order of rows depend on. */
static RpStatus read_model(Requantize *r) {
    QuantMixModel *m       = &r->model;
    RpGgufString   arch    = {"", 0};
    uint32_t       n_layer = 0;
    char           key[128];
    RP_TRY(rp_gguf_get_string(r->in, "general.architecture", &arch));
    snprintf(key, sizeof key, "%.*s.block_count", (int)(arch.len < 64 ? arch.len : 64), arch.ptr);
    RP_TRY(rp_gguf_get_u32(r->in, key, &n_layer));
    m->n_layer       = n_layer > INT32_MAX ? 0 : (int32_t)n_layer;
    m->n_head        = number_of(r, arch, "attention.head_count");
    m->n_head_kv     = number_of(r, arch, "attention.head_count_kv");
    m->n_expert      = number_of(r, arch, "expert_count");
    r->n_nextn       = number_of(r, arch, "nextn_predict_layers");
    const bool llama = arch.len == 5 && (memcmp(arch.ptr, "llama", 5) == 0 || memcmp(arch.ptr, "qwen2", 5) == 0);
    m->is_70b        = llama && m->n_layer == 80 && (m->n_head != m->n_head_kv || arch.ptr[0] == 'q');
    m->tied          = rp_gguf_find_tensor(r->in, "output.weight") == NULL;
    for (int64_t i = 0; i < rp_gguf_n_tensors(r->in); i++) {
        const RpGgufString name = rp_gguf_tensor(r->in, i)->name;
        m->n_value += rp_mix_part(name) == RP_MIX_VALUE;
        if (memmem(name.ptr, name.len, "_exps.", 6) != NULL && m->n_expert == 0) m->n_expert = 1;
    }
    return read_head_dim(r, arch);
}

/* Metadata and tensor table of the new file. Keys that the conversion changes are replaced. */
static RpStatus describe(Requantize *r) {
    RP_TRY(read_model(r));
    rp_gguf_put_values(r->out, r->in, false);
    if (r->mix != NULL) rp_gguf_put_u32(r->out, "general.file_type", rp_quant_mix_file_type(r->mix));
    rp_gguf_put_u32(r->out, "general.quantization_version", 2);
    for (int64_t i = 0; i < rp_gguf_n_tensors(r->in); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(r->in, i);
        if (rp_gguf_is_training(t->name)) continue;
        RP_TRY(check_tensor(r, t));
        RP_TRY(check_importance(r, t));
        rp_gguf_put_tensor(r->out, t->name.ptr, t->name.len, type_of(r, t), t->view.ne);
    }
    return rp_gguf_writer_begin(r->out);
}

/* GGUF keeps the rows of a head of q and k as pairs (2i, 2i + 1) where RoPE rotates these, Hugging Face as halves
 * (i, i + d/2). The view walks the rows of halves in the order of pairs: row 2i + k of a head is row i + k * d/2. */
static RpGgufTensor in_order_of_gguf(const Requantize *r, const RpGgufTensor *t) {
    static const char *const names[] = {".attn_q.weight", ".attn_k.weight", ".attn_q.bias", ".attn_k.bias"};
    RpGgufTensor             out     = *t;
    const int64_t            d       = r->head_dim;
    for (size_t i = 0; r->in->parts.norm_rope && i < sizeof names / sizeof names[0]; i++) {
        if (!rp_gguf_ends_with(t->name, names[i])) continue;
        const bool    bias    = t->view.ne[1] == 1;
        const int64_t columns = bias ? 1 : t->view.ne[0], rows = bias ? t->view.ne[0] : t->view.ne[1];
        const size_t  row = rp_row_bytes(t->view.dtype, columns);
        out.view = rp_view_contiguous(t->view.dtype, (int64_t[RP_MAX_DIMS]){columns, 2, d / 2, rows / d}, t->view.data);
        out.view.nb[1] = row * (size_t)(d / 2);
        out.view.nb[2] = row;
    }
    return out;
}

static RpStatus convert(Requantize *r) {
    RP_TRY(describe(r));
    RpStatus st = rp_row_writer_begin(&r->rows);
    for (int64_t i = 0; i < rp_gguf_n_tensors(r->in) && st == RP_OK; i++) {
        const RpGgufTensor *t       = rp_gguf_tensor(r->in, i);
        const RpGgufTensor  ordered = in_order_of_gguf(r, t);
        if (rp_gguf_is_training(t->name)) continue;
        if (r->importance != NULL) st = rp_importance_of(r->importance, t, &r->rows.importance, &r->rows.n_matrices);
        if (st == RP_OK) st = rp_row_writer_tensor(&r->rows, &ordered, type_of(r, t), NULL, NULL);
    }
    rp_row_writer_end(&r->rows);
    return st;
}

static RpStatus find_mix(Requantize *r, const char *name) {
    return rp_dtype_find_custom(name, &r->custom) ? RP_OK : rp_quant_mix_find(name, &r->mix);
}

static RpStatus open_importance(Requantize *r, const char *path, const char *out) {
    if (path == NULL) return RP_OK;
    RP_TRY(rp_importance_open(path, &r->importance));
    return rp_importance_refuse_output(r->importance, out);
}

RpStatus rp_requantize(const char *in, const char *out, const char *type, RpConvertProgress *progress, void *user) {
    RP_NOT_NULL(in, "in");
    RP_NOT_NULL(out, "out");
    RP_NOT_NULL(type, "type");
    return rp_requantize_with(in, out, type, &(RpRequantizeOptions){.progress = progress, .user = user});
}

RpStatus rp_requantize_with_sized(const char *in, const char *out, const char *type, const RpRequantizeOptions *options,
                                  size_t options_bytes) {
    RP_NOT_NULL(in, "in");
    RP_NOT_NULL(out, "out");
    RP_NOT_NULL(type, "type");

    Requantize          r = {0};
    RpRequantizeOptions o;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpRequantizeOptions"));
    RP_TRY(find_mix(&r, type));
    r.model.pure           = o.pure;
    r.model.has_importance = o.imatrix != NULL;
    RP_TRY(rp_gguf_open(in, &r.in));
    RpStatus st = rp_gguf_refuse_kinds(r.in);
    if (st == RP_OK) st = rp_gguf_refuse_output(r.in, out);
    if (st == RP_OK) st = open_importance(&r, o.imatrix, out);
    if (st == RP_OK) st = rp_gguf_check_tensors(r.in, false);
    if (st == RP_OK) st = rp_gguf_writer_open(out, &r.out);
    r.rows = (RowWriter){.in = r.in, .out = r.out, .progress = o.progress, .user = o.user, .action = "conversion"};
    if (st == RP_OK) st = rp_gguf_writer_close(r.out, convert(&r));
    rp_importance_free(r.importance);
    rp_gguf_close(r.in);
    return st;
}
