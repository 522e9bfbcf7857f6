/* Writes a model with its adapters added into its weights (model/adapter.h), a row at a time:
 *
 *     row i of w  ->  f32  ->  + sum over pairs and r of scale * b[r,i] * (row r of a)  ->  the new type
 *
 * Tensors without a pair are copied as they are. */
#include "reprise/convert.h"

#include "base/argument.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_write.h"
#include "model/model.h"
#include "reprise/quants.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

typedef struct Merge {
    const RpModel     *m;
    GgufWriter        *out;
    const char        *type; /* or NULL: that of each tensor */
    RpDtype            dtype;
    RpConvertProgress *progress;
    void              *user;
    size_t             done;
    float             *row, *b; /* of the longest w and b */
    char              *quants;  /* a row of any type */
    float            **a;       /* [n_pairs], those of the present tensor in f32; else NULL */
} Merge;

static bool is_adapted(const Merge *g, const RpGgufTensor *t) {
    for (int i = 0; i < g->m->n_pairs; i++)
        if (g->m->pairs[i].weight == t) return true;
    return false;
}

static RpDtype type_of(const Merge *g, const RpGgufTensor *t) {
    return g->type != NULL && is_adapted(g, t) ? g->dtype : t->view.dtype;
}

static RpStatus check_tensor(const Merge *g, const RpGgufTensor *t) {
    const RpDtype to = type_of(g, t);
    const int     n  = (int)(t->name.len < 96 ? t->name.len : 96);
    if (!t->known)
        return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s is of a type that cannot be copied",
                       rp_gguf_path(g->m->file), n, t->name.ptr);
    if (t->view.ne[0] % rp_dtype_info(to)->block_elems == 0) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: tensor %.*s: rows of %lld are not whole blocks of %s",
                   rp_gguf_path(g->m->file), n, t->name.ptr, (long long)t->view.ne[0], rp_dtype_name(to));
}

static RpStatus describe(const Merge *g) {
    const RpGgufFile *f = g->m->file;
    rp_gguf_put_values(g->out, f, true);
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(f, i);
        if (rp_gguf_is_training(t->name)) continue;
        RP_TRY(check_tensor(g, t));
        rp_gguf_put_tensor(g->out, t->name.ptr, t->name.len, type_of(g, t), t->view.ne);
    }
    return rp_gguf_writer_begin(g->out);
}

/* Dequantises the a of the tensor's pairs. */
static RpStatus load_pairs(Merge *g, const RpGgufTensor *t) {
    for (int i = 0; i < g->m->n_pairs; i++) {
        const RpTensorView *a = &g->m->pairs[i].a->view;
        if (g->m->pairs[i].weight != t) continue;
        g->a[i] = malloc((size_t)rp_view_elems(a) * sizeof(float));
        if (g->a[i] == NULL) return rp_fail(RP_E_NOMEM, "out of memory for an adapter");
        for (int64_t r = 0; r < a->ne[1]; r++)
            rp_dequantize_row(a->dtype, rp_view_row(a, r), a->ne[0], g->a[i] + r * a->ne[0]);
    }
    return RP_OK;
}

static void drop_pairs(Merge *g) {
    for (int i = 0; i < g->m->n_pairs; i++) free(g->a[i]), g->a[i] = NULL;
}

static void add_pair(Merge *g, const AdapterPair *p, const float *a, int64_t row) {
    const RpTensorView *b = &p->b->view;
    const int64_t       n = p->a->view.ne[0];
    rp_dequantize_row(b->dtype, rp_view_row(b, row), b->ne[0], g->b);
    for (int64_t r = 0; r < b->ne[0]; r++)
        for (int64_t k = 0; k < n; k++) g->row[k] += p->scale * g->b[r] * a[r * n + k];
}

static RpStatus merge_rows(Merge *g, const RpGgufTensor *t) {
    const RpTensorView *w  = &t->view;
    const RpDtype       to = type_of(g, t);
    RP_TRY(load_pairs(g, t));
    for (int64_t i = 0; i < rp_view_rows(w); i++) {
        rp_dequantize_row(w->dtype, rp_view_row(w, i), w->ne[0], g->row);
        for (int k = 0; k < g->m->n_pairs; k++)
            if (g->a[k] != NULL) add_pair(g, &g->m->pairs[k], g->a[k], i);
        if (rp_quantize_row(to, g->row, w->ne[0], g->quants) != RP_OK)
            return rp_fail(RP_E_ARG, "%s: tensor %.*s, row %lld: %.200s", rp_gguf_path(g->m->file),
                           (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr, (long long)i, rp_last_error());
        RP_TRY(rp_gguf_writer_data(g->out, g->quants, rp_row_bytes(to, w->ne[0])));
    }
    return RP_OK;
}

static RpStatus merge(Merge *g) {
    const RpGgufFile *f = g->m->file;
    RP_TRY(describe(g));
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(f, i);
        if (rp_gguf_is_training(t->name)) continue;
        if (is_adapted(g, t)) {
            const RpStatus st = merge_rows(g, t);
            drop_pairs(g);
            RP_TRY(st);
        } else
            RP_TRY(rp_gguf_writer_data(g->out, t->view.data, t->bytes));
        g->done += rp_row_bytes(type_of(g, t), t->view.ne[0]) * (size_t)rp_view_rows(&t->view);
        if (g->progress != NULL && !g->progress(g->done, rp_gguf_writer_total(g->out), g->user))
            return rp_fail(RP_E_CANCELLED, "%s: merging was stopped", rp_gguf_path(f));
    }
    return RP_OK;
}

static RpStatus find_type(Merge *g) {
    if (g->type == NULL) return RP_OK;
    for (int d = 0; d < RP_DTYPE_COUNT; d++)
        if (strcasecmp(rp_dtype_name((RpDtype)d), g->type) == 0 && d != RP_I32 && d != RP_Q8_ACT) {
            g->dtype = (RpDtype)d;
            return RP_OK;
        }
    return rp_fail(RP_E_ARG, "there is no type of weights '%s'", g->type);
}

static RpStatus allocate(Merge *g) {
    int64_t longest = 1, rank = 1;
    for (int i = 0; i < g->m->n_pairs; i++) {
        const int64_t n = g->m->pairs[i].a->view.ne[0], r = g->m->pairs[i].b->view.ne[0];
        longest = n > longest ? n : longest;
        rank    = r > rank ? r : rank;
    }
    g->row    = malloc((size_t)longest * sizeof(float));
    g->quants = malloc((size_t)longest * sizeof(float)); /* no type takes more */
    g->b      = malloc((size_t)rank * sizeof(float));
    g->a      = calloc((size_t)g->m->n_pairs, sizeof(float *));
    if (g->row != NULL && g->quants != NULL && g->b != NULL && g->a != NULL) return RP_OK;
    return rp_fail(RP_E_NOMEM, "out of memory for a row of weights");
}

RpStatus rp_merge_adapters(const RpModel *m, const char *path, const char *type, RpConvertProgress *progress,
                           void *user) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(path, "path");

    Merge g = {.m = m, .type = type, .progress = progress, .user = user};
    if (m->n_pairs == 0) return rp_fail(RP_E_ARG, "%s has no adapter", rp_gguf_path(m->file));
    RP_TRY(find_type(&g));
    RpStatus st = allocate(&g);
    if (st == RP_OK) st = rp_gguf_writer_open(path, &g.out);
    if (st == RP_OK) st = rp_gguf_writer_close(g.out, merge(&g));
    free(g.row);
    free(g.quants);
    free(g.b);
    free(g.a);
    return st;
}
