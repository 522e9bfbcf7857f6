/* The tensors of a directory. A matrix in f32, f16 or bf16 is a view of its mapped file. Made in private memory are:
 *
 *     vectors              f32, for norms of Gemma 1 + weight
 *     experts of a layer   one tensor [ne0, ne1, n] of n matrices
 *     FP8 (e4m3)           bf16 (fp8.h)
 *     parts of tensors     by the forms of hf.h, among them MXFP4, whose scales are a tensor of their own
 *     rope_freqs.weight    the divisors of RoPE frequencies
 *     odd places           a matrix whose data are not aligned to its elements */
#include "model/hf/hf.h"

#include "model/gguf/gguf_file.h"
#include "model/hf/fp8.h"
#include "reprise/quants.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 64, GGUF_I8 = 24 /* stands for the types that GGUF lacks */ };

typedef struct Entry {
    HfTarget          to;
    const SafeTensor *tensor;
    int64_t           ne[RP_MAX_DIMS]; /* of what the tensor is in GGUF */
    const HfFactor   *factor;          /* of its rows, or NULL */
    int64_t           from; /* its first element in the tensor, if its elements stand there in their order; or -1 */
} Entry;

/* Tensors of one name: entries[first..first + n), n > 1 for experts and pieces. */
typedef struct Group {
    size_t first, n;
    size_t made; /* its offset in the private memory; SIZE_MAX: it is mapped */
} Group;

typedef struct Weights {
    HfModel  *m;
    Entry    *entries; /* sorted by name, then by number */
    size_t    n_entries;
    Group    *groups;
    size_t    n_groups;
    Fp8Blocks blocks;
    bool      tied, fp8; /* fp8: quantization_config says so */
    size_t    made_bytes;
} Weights;

static int by_name(const void *a, const void *b) {
    const Entry *x = a, *y = b;
    const int    order = strcmp(x->to.name, y->to.name);
    return order != 0 ? order : (x->to.number > y->to.number) - (x->to.number < y->to.number);
}

/* ---- entries and groups ---- */

static RpStatus bad(const Weights *w, const Entry *e, const char *what) {
    return rp_fail(RP_E_FORMAT, "%s: tensor %.*s (%s): %s", w->m->dir.path,
                   (int)(e->tensor->name.len < 96 ? e->tensor->name.len : 96), e->tensor->name.ptr, e->to.name, what);
}

/* Refuses names that mean something else inside of the library. */
static RpStatus check_unknown(const Weights *w, const SafeTensor *t) {
    const RpGgufString s = t->name;
    if (memchr(s.ptr, '#', s.len) == NULL && (s.len < 6 || memcmp(s.ptr, "train.", 6) != 0)) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s: names that begin with train. or contain # are not supported",
                   w->m->dir.path, (int)(s.len < 96 ? s.len : 96), s.ptr);
}

/* Whether the elements of the cut are contiguous. */
static bool is_solid(const HfCut *c) {
    int64_t n = 1;
    for (int i = 0; i < 4; n *= c->ne[i++])
        if (c->ne[i] != 1 && c->step[i] != n) return false;
    return true;
}

/* Such scales stand beside weights in FP8. Activations are not computed in FP8 here, so they need no scale. */
static bool is_scale_of_activations(RpGgufString s) {
    return rp_gguf_ends_with(s, ".activation_scale") || rp_gguf_ends_with(s, "_activation_scale");
}

static RpStatus add_entry(Weights *w, const SafeTensor *t, const HfTarget *to) {
    Entry *e = &w->entries[w->n_entries];
    HfCut  cut;
    *e = (Entry){.to = *to, .tensor = t};
    if (to->role == HF_IGNORED || (w->tied && strcmp(to->name, "output.weight") == 0)) return RP_OK;
    if (w->fp8 && is_scale_of_activations(t->name)) return RP_OK;
    if (to->role != HF_UNKNOWN && t->n_dims > RP_MAX_DIMS) return bad(w, e, "has more than 4 dimensions");
    if (to->role == HF_UNKNOWN) RP_TRY(check_unknown(w, t));
    if (to->role == HF_UNKNOWN) /* stands in the list, so that it is refused as unused */
        snprintf(e->to.name, sizeof e->to.name, "%.*s", (int)(t->name.len < 120 ? t->name.len : 120), t->name.ptr);
    if (w->m->no_qk_norm && (strstr(to->name, "_q_norm.") != NULL || strstr(to->name, "_k_norm.") != NULL))
        return bad(w, e, "a norm of q or k, and use_qk_norm of config.json is not true");
    if (!rp_hf_cut(&w->m->sizes, to->form, t, &cut)) return bad(w, e, "its shape is not that of config.json");
    memcpy(e->ne, cut.shape, sizeof e->ne);
    e->from = is_solid(&cut) ? cut.from : -1;
    if (to->role == HF_TENSOR) e->factor = rp_hf_factor(w->m, to->name);
    w->n_entries++;
    return RP_OK;
}

static RpStatus list_entries(Weights *w) {
    size_t   n = 1;
    HfTarget to;
    for (size_t i = 0; i < w->m->shards.n_tensors; i++, n++)
        for (int nth = 1; rp_hf_name(w->m, w->m->shards.tensors[i]->name, nth, &to), to.role < HF_IGNORED; nth++) n++;
    w->entries = calloc(n, sizeof *w->entries);
    if (w->entries == NULL)
        return rp_fail(RP_E_NOMEM, "%s: out of memory for %zu tensors", w->m->dir.path, w->m->shards.n_tensors);
    for (size_t i = 0; i < w->m->shards.n_tensors; i++) {
        const SafeTensor *t = w->m->shards.tensors[i];
        rp_hf_name(w->m, t->name, 0, &to);
        for (int nth = 1; nth == 1 || to.role < HF_IGNORED; rp_hf_name(w->m, t->name, nth++, &to))
            RP_TRY(add_entry(w, t, &to));
    }
    if (w->n_entries > 0) qsort(w->entries, w->n_entries, sizeof *w->entries, by_name);
    return RP_OK;
}

/* A file of a model with optional norms of q and k has those that config.json promises. */
static RpStatus check_qk_norms(const Weights *w) {
    static const char *const which[] = {"q", "k"};
    for (int64_t i = 0; w->m->qk_norm && i < 2 * (int64_t)w->m->n_layer; i++) {
        const int layer = (int)(i / 2);
        Entry     key   = {.to.number = -1};
        snprintf(key.to.name, sizeof key.to.name, "blk.%d.attn_%s_norm.weight", layer, which[i % 2]);
        if (bsearch(&key, w->entries, w->n_entries, sizeof key, by_name) == NULL)
            return rp_fail(RP_E_FORMAT,
                           "%s: tensor model.layers.%d.self_attn.%s_norm.weight (%s) is missing, and use_qk_norm of "
                           "config.json is true",
                           w->m->dir.path, layer, which[i % 2], key.to.name);
    }
    return RP_OK;
}

static bool same_shape(const SafeTensor *a, const SafeTensor *b) {
    return a->type == b->type && memcmp(a->ne, b->ne, sizeof a->ne) == 0;
}

/* The experts of a layer: numbers 0 to n - 1, of one shape. Pieces: the same, of rows of one length. All else has one
 * entry. */
static RpStatus check_group(const Weights *w, const Group *g) {
    const Entry *first = &w->entries[g->first];
    for (size_t i = 0; i < g->n; i++) {
        const Entry *e = first + i;
        if (first->to.role != HF_EXPERT && first->to.role != HF_PIECE && i > 0)
            return bad(w, e, "two tensors have this name");
        if (first->to.role != HF_EXPERT && first->to.role != HF_PIECE) continue;
        if (e->to.role != first->to.role || e->to.number != (int32_t)i)
            return bad(w, e, "an expert before it is missing, or occurs twice");
        if (e->to.role == HF_PIECE ? e->tensor->type != first->tensor->type || e->ne[0] != first->ne[0]
                                   : !same_shape(e->tensor, first->tensor))
            return bad(w, e, "experts of one layer differ in type or shape");
        if (e->ne[2] != 1 || e->ne[3] != 1) return bad(w, e, "an expert is no matrix");
    }
    return RP_OK;
}

static bool is_vector(const Entry *e) { return e->ne[1] == 1 && e->ne[2] == 1 && e->ne[3] == 1; }

static bool ends_in(const Entry *e, const char *text) {
    const size_t n = strlen(e->to.name), len = strlen(text);
    return n >= len && strcmp(e->to.name + n - len, text) == 0;
}

/* Norms that families multiply by 1 + weight; the one of a delta net is none of them. */
static bool is_norm(const Entry *e) {
    return strstr(e->to.name, "norm.weight") != NULL && !ends_in(e, ".ssm_norm.weight");
}

static bool is_decay(const Entry *e) {
    return e->to.form == FORM_DECAY || e->to.form == FORM_TILED_DECAY || e->to.form == FORM_COLUMN_DECAY;
}

static bool is_mxfp4(const Entry *e) { return e->to.form >= FORM_MXFP4 && e->to.form <= FORM_MXFP4_ODD; }

/* Tensors that are f32 in GGUF whatever they are in the file. */
static bool must_be_f32(const Entry *e) {
    static const char *const names[] = {".bias",  ".ssm_conv1d.weight", ".shortconv.conv.weight", ".ssm_a",
                                        ".ssm_d", ".ssm_norm.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (ends_in(e, names[i])) return true;
    return e->to.role == HF_TENSOR && is_vector(e);
}

static int source_dtype(const Entry *e) {
    return e->tensor->type == SAFE_F8_E4M3 ? RP_BF16 : rp_safe_type_dtype(e->tensor->type);
}

/* The type that the library sees; -1: it does not compute with the tensor. */
static int dtype_of(const Entry *e) {
    if (e->to.role == HF_UNKNOWN) return rp_safe_type_dtype(e->tensor->type);
    if (is_mxfp4(e)) return e->tensor->type == SAFE_U8 ? RP_MXFP4 : -1;
    const int dtype = source_dtype(e);
    if (e->factor != NULL && dtype == RP_BF16) return RP_F16; /* products are rounded: f16 has 3 bits more */
    return dtype >= 0 && must_be_f32(e) ? RP_F32 : dtype;
}

/* The scales of weight `e`, or with `scale` the weight of scales `e`; NULL: there are none. */
static const Entry *partner(const Weights *w, const Entry *e, bool scale) {
    Entry     key = {.to.number = e->to.number};
    const int n   = (int)strlen(e->to.name) - (scale ? (int)strlen("#scale") : 0);
    snprintf(key.to.name, sizeof key.to.name, "%.*s%s", n < HF_NAME_BYTES - 8 ? n : HF_NAME_BYTES - 8, e->to.name,
             scale ? "" : "#scale");
    return bsearch(&key, w->entries, w->n_entries, sizeof key, by_name);
}

/* A byte for each block. */
static bool fits_mxfp4(const SafeTensor *scales, const SafeTensor *blocks) {
    return scales->type == SAFE_U8 && scales->ne[0] == blocks->ne[1] && scales->ne[1] == blocks->ne[2] &&
           scales->ne[2] == blocks->ne[3] && scales->ne[3] == 1;
}

/* Scales belong to one weight in FP8 or MXFP4, which has no others. */
static RpStatus check_scales(const Weights *w, const Group *g) {
    for (size_t i = 0; i < g->n; i++) {
        const Entry *e = &w->entries[g->first + i], *weight = partner(w, e, true);
        if (i > 0 && e[-1].to.number == e->to.number) return bad(w, e, "its weight has two tensors of scales");
        if (weight == NULL) return bad(w, e, "scales of a weight that is missing");
        if (is_mxfp4(weight)) {
            if (fits_mxfp4(e->tensor, weight->tensor)) continue;
            return bad(w, e, "its scales are not a byte for each block");
        }
        if (weight->tensor->type != SAFE_F8_E4M3) return bad(w, e, "scales of a weight that is not F8_E4M3");
    }
    return RP_OK;
}

/* Refuses types and shapes that the library does not compute with. */
static RpStatus check_type(const Weights *w, const Group *g) {
    const Entry      *e = &w->entries[g->first];
    const SafeTensor *t = e->tensor;
    if (e->to.role == HF_UNKNOWN) return RP_OK;
    if (dtype_of(e) < 0)
        return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s is %s, which is not supported", w->m->dir.path,
                       (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr, rp_safe_type_name(t->type));
    if (t->type == SAFE_F8_E4M3 && must_be_f32(e)) return bad(w, e, "a vector in F8_E4M3");
    if (is_mxfp4(e) && partner(w, e, false) == NULL) return bad(w, e, "its scales are missing");
    if (is_norm(e) && !is_vector(e)) return bad(w, e, "a norm that is no vector");
    for (size_t i = 0; i < g->n && w->fp8 && t->type == SAFE_F8_E4M3; i++)
        if (partner(w, e + i, false) == NULL)
            return bad(w, e + i, "its scales are missing, and quantization_config says fp8");
    return RP_OK;
}

/* Whether the tensor cannot be a view of its file. */
static bool must_be_made(const Weights *w, const Group *g) {
    const Entry      *e = &w->entries[g->first];
    const SafeTensor *t = e->tensor;
    if (e->to.role == HF_UNKNOWN) return false;
    const int dtype = dtype_of(e);
    if (dtype != rp_safe_type_dtype(t->type) || e->to.role == HF_EXPERT || e->to.role == HF_PIECE) return true;
    if ((w->m->family->norm_plus_1 && is_norm(e)) || e->factor != NULL || is_decay(e) || e->from < 0) return true;
    return (uintptr_t)t->data % rp_row_bytes((RpDtype)dtype, 1) != 0;
}

/* The shape of the tensor of GGUF. */
static void group_shape(const Weights *w, const Group *g, int64_t ne[RP_MAX_DIMS]) {
    const Entry *e = &w->entries[g->first];
    memcpy(ne, e->ne, sizeof e->ne);
    if (e->to.role == HF_EXPERT) ne[2] = (int64_t)g->n;
    for (size_t i = 1; i < g->n && e->to.role == HF_PIECE; i++) ne[1] += e[i].ne[1];
}

static size_t bytes_of(RpDtype dtype, const int64_t ne[RP_MAX_DIMS]) {
    return rp_row_bytes(dtype, ne[0]) * (size_t)(ne[1] * ne[2] * ne[3]);
}

static size_t group_bytes(const Weights *w, const Group *g) {
    int64_t ne[RP_MAX_DIMS];
    group_shape(w, g, ne);
    return bytes_of((RpDtype)dtype_of(&w->entries[g->first]), ne);
}

static RpStatus list_groups(Weights *w) {
    w->groups = calloc(w->n_entries + 1, sizeof *w->groups);
    if (w->groups == NULL)
        return rp_fail(RP_E_NOMEM, "%s: out of memory for %zu tensors", w->m->dir.path, w->n_entries);
    for (size_t i = 0, n; i < w->n_entries; i += n) {
        const Entry *e = &w->entries[i];
        for (n = 1; i + n < w->n_entries && strcmp(e->to.name, e[n].to.name) == 0;) n++;
        Group *g = &w->groups[w->n_groups];
        *g       = (Group){.first = i, .n = n, .made = SIZE_MAX};
        if (e->to.role == HF_SCALE) {
            RP_TRY(check_scales(w, g));
            continue;
        }
        RP_TRY(check_group(w, g));
        RP_TRY(check_type(w, g));
        if (must_be_made(w, g)) {
            g->made = w->made_bytes;
            w->made_bytes += (group_bytes(w, g) + ALIGN - 1) / ALIGN * ALIGN;
        }
        w->n_groups++;
    }
    return RP_OK;
}

/* ---- making ---- */

/* The elements of a tensor in the type of its entry: in the file, or in *room, which the caller frees. */
static RpStatus elements(const Weights *w, const Entry *e, void **room, const void **out) {
    const SafeTensor *t = e->tensor;
    const size_t      n = (size_t)(t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
    *room               = NULL;
    *out                = t->data;
    if (t->type != SAFE_F8_E4M3 && (e->factor != NULL || dtype_of(e) == source_dtype(e))) return RP_OK;
    *out = *room = malloc(n * sizeof(float) + 1);
    if (*room == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for %zu elements", w->m->dir.path, n);
    if (t->type != SAFE_F8_E4M3) {
        rp_safe_to_f32(t, *room);
        return RP_OK;
    }
    if (t->ne[2] != 1 || t->ne[3] != 1) return bad(w, e, "FP8 of other shapes than a matrix");
    const Entry *scales = partner(w, e, false);
    return rp_fp8_to_bf16(w->m->dir.path, t, scales != NULL ? scales->tensor : NULL, w->blocks, *room);
}

static RpStatus make_entry(const Weights *w, const Entry *e, char *out) {
    const RpDtype dtype = (RpDtype)dtype_of(e);
    RpTensorView  to    = rp_view_contiguous(dtype, e->ne, out);
    HfCut         cut;
    void         *room;
    const void   *in;
    if (!rp_hf_cut(&w->m->sizes, e->to.form, e->tensor, &cut)) return RP_E_FORMAT; /* add_entry has checked it */
    if (is_mxfp4(e)) {
        const unsigned char *scales = partner(w, e, false)->tensor->data;
        rp_hf_copy_mxfp4(&cut, e->tensor->data, scales, (unsigned char *)out);
        return RP_OK;
    }
    RpStatus st = elements(w, e, &room, &in);
    if (st == RP_OK && e->factor != NULL)
        st = rp_hf_multiply(w->m, e->factor, e->to.name, (RpDtype)source_dtype(e), in, &to);
    else if (st == RP_OK)
        rp_hf_copy_cut(&cut, in, rp_row_bytes(dtype, 1), out);
    free(room);
    RP_TRY(st);
    if (dtype != RP_F32) return RP_OK;
    float     *x     = (float *)(void *)out;
    const bool plus1 = w->m->family->norm_plus_1 && is_norm(e);
    for (int64_t k = 0; k < e->ne[0] * e->ne[1] && (plus1 || is_decay(e)); k++)
        x[k] = plus1 ? x[k] + 1.0f : -expf(x[k]);
    return RP_OK;
}

static RpStatus make(const Weights *w, const Group *g, char *out) {
    for (size_t i = 0; i < g->n; i++) {
        const Entry *e = &w->entries[g->first + i];
        RP_TRY(make_entry(w, e, out));
        out += bytes_of((RpDtype)dtype_of(e), e->ne);
    }
    return RP_OK;
}

static void place(const Weights *w, const Group *g, RpGgufFile *f, RpGgufTensor *out) {
    const Entry      *e     = &w->entries[g->first];
    const SafeTensor *t     = e->tensor;
    const int         dtype = dtype_of(e);
    int64_t           ne[RP_MAX_DIMS];
    group_shape(w, g, ne);
    out->known     = e->to.role != HF_UNKNOWN;
    out->gguf_type = dtype >= 0 ? (uint32_t)rp_dtype_info((RpDtype)dtype)->gguf_type : GGUF_I8;
    out->bytes     = out->known ? group_bytes(w, g) : t->bytes;
    memcpy(out->view.ne, ne, sizeof ne);
    if (!out->known) return;
    const void *data = g->made != SIZE_MAX ? f->parts.made + g->made : NULL;
    if (g->made == SIZE_MAX) data = (const char *)t->data + rp_row_bytes((RpDtype)dtype, e->from);
    out->view = rp_view_contiguous((RpDtype)dtype, ne, NULL);
    memcpy(&out->view.data, &data, sizeof data); /* read only, as gguf.h says */
}

/* The names of all tensors in one block, which the file owns. */
static RpStatus set_names(const Weights *w, RpGgufFile *f) {
    size_t bytes = 32;
    for (size_t i = 0; i < w->n_groups; i++) bytes += strlen(w->entries[w->groups[i].first].to.name);
    char *p = f->parts.names = malloc(bytes);
    if (p == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for names", f->path);
    for (size_t i = 0; i < w->n_groups; i++) {
        const char *name   = w->entries[w->groups[i].first].to.name;
        f->tensors[i].name = (RpGgufString){p, strlen(name)};
        p                  = memcpy(p, name, strlen(name));
        p += strlen(name);
    }
    return RP_OK;
}

/* The vectors of config.json stand behind the tensors of the files. */
static void set_vectors(const Weights *w, RpGgufFile *f, size_t at) {
    for (int i = 0; i < w->m->n_vectors; i++) {
        const HfVector *v = &w->m->vectors[i];
        RpGgufTensor   *t = &f->tensors[w->n_groups + (size_t)i];
        const size_t    n = (size_t)v->n * sizeof *v->x;
        memcpy(f->parts.made + at, v->x, n);
        *t = (RpGgufTensor){
            .name = {v->name, strlen(v->name)},
              .known = true, .bytes = n
        };
        t->view = rp_view_contiguous(RP_F32, (int64_t[RP_MAX_DIMS]){v->n, 1, 1, 1}, f->parts.made + at);
        at += (n + ALIGN - 1) / ALIGN * ALIGN;
    }
}

static RpStatus set_tensors(Weights *w, RpGgufFile *f) {
    size_t bytes = w->made_bytes;
    for (int i = 0; i < w->m->n_vectors; i++)
        bytes += ((size_t)w->m->vectors[i].n * sizeof(float) + ALIGN - 1) / ALIGN * ALIGN;
    free(f->tensors); /* of the metadata, which have none */
    free(f->tensor_index);
    f->tensor_index = NULL;
    f->n_tensors    = (int64_t)w->n_groups + w->m->n_vectors;
    f->tensors      = calloc((size_t)f->n_tensors + 1, sizeof *f->tensors);
    if (f->tensors == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for %zu tensors", f->path, w->n_groups);
    RP_TRY(set_names(w, f));
    if (bytes > 0) {
        void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made == MAP_FAILED)
            return rp_fail(RP_E_NOMEM, "%s: out of memory for %zu bytes of tensors", f->path, bytes);
        f->parts.made       = made;
        f->parts.made_bytes = bytes;
    }
    for (size_t i = 0; i < w->n_groups; i++) {
        if (w->groups[i].made != SIZE_MAX) RP_TRY(make(w, &w->groups[i], f->parts.made + w->groups[i].made));
        place(w, &w->groups[i], f, &f->tensors[i]);
    }
    set_vectors(w, f, w->made_bytes);
    if (bytes > 0 && mprotect(f->parts.made, bytes, PROT_READ) != 0)
        return rp_fail(RP_E_IO, "%s: %s", f->path, strerror(errno));
    return rp_gguf_index_tensors(f);
}

/* ---- all of it ---- */

/* The tensor of the files that becomes the one of that name in GGUF; NULL: there is none. */
static const SafeTensor *source_of(const Weights *w, const char *name) {
    HfTarget to;
    for (size_t i = 0; i < w->m->shards.n_tensors; i++) {
        rp_hf_name(w->m, w->m->shards.tensors[i]->name, 0, &to);
        if (to.role == HF_TENSOR && strcmp(to.name, name) == 0) return w->m->shards.tensors[i];
    }
    return NULL;
}

static bool same_data(const SafeTensor *a, const SafeTensor *b) {
    return same_shape(a, b) && a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

/* The output matrix is the embedding: as config.json says, or as the family does where it does not. As in
 * transformers, it is another matrix if the files have one with other values. */
static RpStatus read_tied(Weights *w) {
    const Json       *j    = &w->m->config;
    const SafeTensor *head = source_of(w, "output.weight"), *embd = source_of(w, "token_embd.weight");
    const char     *key = rp_json_get(j, w->m->text, "tie_embedding") != NULL ? "tie_embedding" : "tie_word_embeddings";
    const JsonNode *v = rp_json_get(j, w->m->text, key), *from = v != NULL ? w->m->text : j->nodes;
    v = rp_json_get(j, from, key);
    RP_TRY(rp_hf_flag(w->m, from, key, w->m->family->tied || head == NULL, &w->tied));
    w->tied = w->tied || w->m->headless;
    if (w->m->headless) return RP_OK;
    if (v != NULL && v->type == JSON_FALSE && head == NULL)
        return rp_fail(RP_E_FORMAT, "%s: tensor lm_head.weight is missing, and %s is false", w->m->dir.path, key);
    if (w->tied && head != NULL && embd != NULL) w->tied = same_data(head, embd);
    return RP_OK;
}

static RpStatus read_blocks(Weights *w) {
    const Json     *j    = &w->m->config;
    const JsonNode *q    = rp_json_get(j, j->nodes, "quantization_config");
    const JsonNode *size = rp_json_get(j, q, "weight_block_size");
    w->fp8               = rp_json_is(j, rp_json_get(j, q, "quant_method"), "fp8");
    if (size == NULL || size->type == JSON_NULL) return RP_OK;
    const JsonNode *rows = rp_json_first(j, size), *columns = rows != NULL ? rp_json_next(j, size, rows) : NULL;
    uint64_t        r = 0, c = 0;
    if (size->n != 2 || !rp_json_u63(j, rows, &r) || !rp_json_u63(j, columns, &c) || r < 1 || c < 1 || r > 65536 ||
        c > 65536)
        return rp_fail(RP_E_FORMAT, "%s: weight_block_size is not two numbers from 1 to 65536", j->path);
    w->blocks = (Fp8Blocks){(uint32_t)r, (uint32_t)c};
    return RP_OK;
}

static RpStatus read_weights(Weights *w, RpGgufFile *f) {
    RP_TRY(rp_hf_open_shards(w->m));
    RP_TRY(read_tied(w));
    RP_TRY(read_blocks(w));
    RP_TRY(list_entries(w));
    RP_TRY(check_qk_norms(w));
    RP_TRY(list_groups(w));
    return set_tensors(w, f);
}

RpStatus rp_hf_tensors(HfModel *m, RpGgufFile *f) {
    Weights        w  = {.m = m};
    const RpStatus st = read_weights(&w, f);
    free(w.entries);
    free(w.groups);
    return st;
}
