/* Writes a model with its adapters added into its weights (model/adapter.h), a row at a time:
 *
 *     row i of w  ->  f32  ->  + sum over pairs and r of scale * b[r,i] * (row r of a)  ->  the new type
 *
 * Tensors without a pair are copied as they are. */
#include "reprise/convert.h"

#include "base/argument.h"
#include "base/types/custom.h"
#include "model/convert/rows.h"
#include "model/gguf/gguf_file.h"
#include "model/model.h"
#include "reprise/quants.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

typedef struct Merge {
    const RpModel *m;
    const char    *type; /* or NULL: that of each tensor */
    RpDtype        dtype;
    RowWriter      rows;
    float        **a; /* [n_pairs], those of the present tensor in f32; else NULL */
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
        return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s is of a type that cannot be copied", rp_gguf_path(g->m->file),
                       n, t->name.ptr);
    if (is_adapted(g, t) && rp_model_scale_of(g->m, t) != 1.0f)
        return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s has a scale: adapters cannot be merged into it",
                       rp_gguf_path(g->m->file), n, t->name.ptr);
    if (t->view.ne[0] % rp_dtype_info(to)->block_elems == 0) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: tensor %.*s: rows of %lld are not whole blocks of %s", rp_gguf_path(g->m->file), n,
                   t->name.ptr, (long long)t->view.ne[0], rp_dtype_name(to));
}

static RpStatus describe(const Merge *g) {
    const RpGgufFile *f = g->m->file;
    RP_TRY(rp_gguf_need_order(f, "merging"));
    rp_gguf_put_values(g->rows.out, f, true);
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(f, i);
        if (rp_gguf_is_training(t->name)) continue;
        RP_TRY(check_tensor(g, t));
        rp_gguf_put_tensor(g->rows.out, t->name.ptr, t->name.len, type_of(g, t), t->view.ne);
    }
    return rp_gguf_writer_begin(g->rows.out);
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

/* Row i of w with those of b a added; `scratch`: a row of b. */
static void add_pairs(const void *user, int64_t i, float *row, float *scratch) {
    const Merge *g = user;
    for (int k = 0; k < g->m->n_pairs; k++) {
        const AdapterPair  *p = &g->m->pairs[k];
        const RpTensorView *b = &p->b->view;
        const int64_t       n = p->a->view.ne[0];
        if (g->a[k] == NULL) continue;
        rp_dequantize_row(b->dtype, rp_view_row(b, i), b->ne[0], scratch);
        for (int64_t r = 0; r < b->ne[0]; r++)
            for (int64_t e = 0; e < n; e++) row[e] += p->scale * scratch[r] * g->a[k][r * n + e];
    }
}

static RpStatus merge(Merge *g) {
    const RpGgufFile *f = g->m->file;
    RP_TRY(describe(g));
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(f, i);
        if (rp_gguf_is_training(t->name)) continue;
        RpStatus st = load_pairs(g, t);
        if (st == RP_OK) st = rp_row_writer_tensor(&g->rows, t, type_of(g, t), is_adapted(g, t) ? add_pairs : NULL, g);
        drop_pairs(g);
        RP_TRY(st);
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
    if (rp_dtype_find_custom(g->type, &g->dtype)) return RP_OK;
    return rp_fail(RP_E_ARG, "there is no type of weights '%s'", g->type);
}

static RpStatus allocate(Merge *g) {
    for (int i = 0; i < g->m->n_pairs; i++) {
        const int64_t rank = g->m->pairs[i].b->view.ne[0];
        g->rows.scratch    = rank > g->rows.scratch ? rank : g->rows.scratch;
    }
    g->a = calloc((size_t)g->m->n_pairs, sizeof(float *));
    if (g->a == NULL) return rp_fail(RP_E_NOMEM, "out of memory for an adapter");
    return rp_row_writer_begin(&g->rows);
}

RpStatus rp_merge_adapters(const RpModel *m, const char *path, const char *type, RpConvertProgress *progress,
                           void *user) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(path, "path");

    Merge g = {.m = m, .type = type};
    g.rows  = (RowWriter){.in = m->file, .progress = progress, .user = user, .action = "merging"};
    if (m->n_pairs == 0) return rp_fail(RP_E_ARG, "%s has no adapter", rp_gguf_path(m->file));
    RP_TRY(find_type(&g));
    RP_TRY(rp_gguf_refuse_output(m->file, path));
    for (int i = 0; i < m->n_adapters; i++) RP_TRY(rp_gguf_refuse_output(m->adapters[i], path));
    RpStatus st = allocate(&g);
    if (st == RP_OK) st = rp_gguf_writer_open(path, &g.rows.out);
    if (st == RP_OK) st = rp_gguf_writer_close(g.rows.out, merge(&g));
    rp_row_writer_end(&g.rows);
    free(g.a);
    return st;
}
