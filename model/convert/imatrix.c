/* An importance matrix. For each weight matrix of a layer, and for the output matrix, it has the sums of the squares of
 * the activations that each column is multiplied with, over all tokens of a text. The file has the format of
 * llama.cpp's llama-imatrix:
 *
 *     values     general.type "imatrix", imatrix.datasets, imatrix.chunk_count, imatrix.chunk_size
 *     tensors    NAME.in_sum2 f32 [columns, matrices] and NAME.counts f32 [1, matrices] for each weight NAME, in the
 *                order of the names; the tokens that a matrix got: with experts each matrix has some of them only
 *
 * The graph is the one of a step of a session, with the sources of the products as outputs. */
#include "reprise/convert.h"

#include "base/argument.h"
#include "base/sized.h"
#include "model/arch.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_write.h"
#include "model/runner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHUNK = 512, STEP = 64 }; /* tokens of a context, and of a run: all sources of a run are in memory */

/* The sums of one weight. */
typedef struct Sums {
    RpGgufString name;
    ArchProduct  of;
    int64_t      n, n_mat; /* columns, matrices */
    double      *squares, *counts;
} Sums;

typedef struct Collector {
    const RpModel   *m;
    RpImatrixOptions o;
    ArchProducts     products;
    Runner           runner;
    Sums            *sums;
    int              n_sums;
    float           *x; /* the largest source */
    int32_t         *ids;
    size_t           done, total; /* tokens */
} Collector;

/* The part of a joined tensor is named "blk.0.attn_qkv.weight:q"; all its parts have the same source. */
static RpGgufString whole_name(RpGgufString name) {
    const char *colon = memchr(name.ptr, ':', name.len);
    return colon != NULL ? (RpGgufString){name.ptr, (size_t)(colon - name.ptr)} : name;
}

static int by_name(const void *a, const void *b) {
    const RpGgufString x = ((const Sums *)a)->name, y = ((const Sums *)b)->name;
    const int          order = memcmp(x.ptr, y.ptr, x.len < y.len ? x.len : y.len);
    return order != 0 ? order : (x.len > y.len) - (x.len < y.len);
}

static RpStatus add_sums(Collector *c, const ArchProduct *p) {
    const RpTensorView v = rp_node_view(p->x);
    Sums               s = {.name = whole_name(p->w->name), .of = *p, .n = p->w->view.ne[0], .n_mat = p->w->view.ne[2]};
    for (int i = 0; i < c->n_sums; i++)
        if (c->sums[i].name.len == s.name.len && memcmp(c->sums[i].name.ptr, s.name.ptr, s.name.len) == 0) return RP_OK;
    if (v.dtype != RP_F32 || !rp_view_is_contiguous(&v) || v.ne[0] != s.n || (p->ids == NULL && v.ne[1] != STEP))
        return rp_fail(RP_E_UNSUPPORTED, "%s: the activations that %.*s is multiplied with cannot be read",
                       rp_gguf_path(c->m->file), (int)s.name.len, s.name.ptr);
    s.squares            = calloc((size_t)(s.n * s.n_mat), sizeof *s.squares);
    s.counts             = calloc((size_t)s.n_mat, sizeof *s.counts);
    c->sums[c->n_sums++] = s;
    return s.squares != NULL && s.counts != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for importances");
}

/* An output matrix that is not the embedding. */
static bool has_output(const RpModel *m) { return m->output != m->token_embd; }

/* The graph with its outputs, its executor, and zeroed sums. */
static RpStatus begin(Collector *c) {
    /* logits cost time: only of as many tokens as the sums need */
    const RpModelGraphOptions graph = {
        .n_tok = STEP, .n_ctx = (c->o.chunk + STEP - 1) / STEP * STEP, .n_out = has_output(c->m) ? STEP : 1};
    const RpExecutorOptions options = {.n_threads = c->o.n_threads, .device = c->o.device};
    size_t                  x_bytes = 0, ids_bytes = 0;
    c->products.room = (int)rp_gguf_n_tensors(c->m->file) + c->m->n_parts;
    c->products.list = calloc((size_t)c->products.room + 1, sizeof *c->products.list);
    if (c->products.list == NULL) return rp_fail(RP_E_NOMEM, "out of memory for importances");
    c->runner.o = graph;
    RP_TRY(rp_arch_graph(c->m, &graph, &c->products, &c->runner.graph));
    RP_TRY(rp_graph_optimize(c->runner.graph, NULL));
    RP_TRY(rp_plan_new(c->runner.graph, &c->runner.plan));
    RP_TRY(rp_runner_open(&c->runner, c->m, &options));
    c->sums = calloc((size_t)c->products.n + 1, sizeof *c->sums);
    if (c->sums == NULL) return rp_fail(RP_E_NOMEM, "out of memory for importances");
    for (int i = 0; i < c->products.n; i++) {
        const ArchProduct *p = &c->products.list[i];
        RP_TRY(add_sums(c, p));
        const RpTensorView v     = rp_node_view(p->x);
        const size_t       bytes = rp_view_extent_bytes(&v);
        x_bytes                  = bytes > x_bytes ? bytes : x_bytes;
        if (p->ids == NULL) continue;
        const RpTensorView ids = rp_node_view(p->ids);
        ids_bytes              = rp_view_extent_bytes(&ids) > ids_bytes ? rp_view_extent_bytes(&ids) : ids_bytes;
    }
    c->x   = malloc(x_bytes + 1);
    c->ids = malloc(ids_bytes + 1);
    return c->x != NULL && c->ids != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for importances");
}

static void end(Collector *c) {
    for (int i = 0; i < c->n_sums; i++) free(c->sums[i].squares), free(c->sums[i].counts);
    free(c->sums);
    free(c->products.list);
    free(c->x);
    free(c->ids);
    rp_runner_close(&c->runner);
}

static void add_column(Sums *s, int64_t matrix, const float *x) {
    double *to = s->squares + matrix * s->n;
    for (int64_t i = 0; i < s->n; i++) to[i] += (double)x[i] * (double)x[i];
    s->counts[matrix] += 1.0;
}

/* x [n, t], or [n, 1 or n_used, t] with ids [n_used, t]: the first n_tok tokens. */
static RpStatus add_source(Collector *c, Sums *s, int32_t n_tok) {
    const RpTensorView x = rp_node_view(s->of.x);
    RP_TRY(rp_executor_get(c->runner.executor, s->of.x, c->x, rp_view_extent_bytes(&x)));
    if (s->of.ids == NULL) {
        for (int64_t t = 0; t < n_tok; t++) add_column(s, 0, c->x + t * s->n);
        return RP_OK;
    }
    const RpTensorView ids    = rp_node_view(s->of.ids);
    const int64_t      n_used = ids.ne[0], row = (int64_t)(ids.nb[1] / sizeof(int32_t));
    RP_TRY(rp_executor_get(c->runner.executor, s->of.ids, c->ids, rp_view_extent_bytes(&ids)));
    for (int64_t t = 0; t < n_tok; t++)
        for (int64_t k = 0; k < n_used; k++) {
            const int32_t id = c->ids[t * row + k];
            if (id >= 0 && id < s->n_mat) add_column(s, id, c->x + (t * x.ne[1] + k % x.ne[1]) * s->n);
        }
    return RP_OK;
}

/* Tokens [first, first + n) of a chunk; the last run of a chunk may have fewer than STEP. */
static RpStatus run_step(Collector *c, const int32_t *ids, int32_t first, int32_t n) {
    Runner *r = &c->runner;
    for (int32_t i = 0; i < STEP; i++) {
        r->tokens[i] = ids[i < n ? i : 0];
        r->pos[i]    = i < n ? first + i : -1;
        if (r->slots != NULL) r->slots[1 + i] = i == n - 1 ? 0 : -1;
    }
    if (r->slots != NULL) r->slots[0] = first == 0 ? -1 : 0;
    for (int32_t i = 0; i < r->o.n_out; i++) r->out_rows[i] = r->o.n_out == 1 ? n - 1 : i;
    RP_TRY(rp_executor_run(r->executor));
    for (int i = 0; i < c->n_sums; i++) RP_TRY(add_source(c, &c->sums[i], n));
    c->done += (size_t)n;
    if (c->o.progress == NULL || c->o.progress(c->done, c->total, c->o.user)) return RP_OK;
    return rp_fail(RP_E_CANCELLED, "%s: the importance matrix was stopped", rp_gguf_path(c->m->file));
}

static RpStatus collect(Collector *c, const int32_t *ids) {
    for (size_t chunk = 0; chunk < c->total; chunk += (size_t)c->o.chunk)
        for (int32_t i = 0; i < c->o.chunk; i += STEP) {
            const int32_t n = c->o.chunk - i < STEP ? c->o.chunk - i : STEP;
            RP_TRY(run_step(c, ids + chunk + i, i, n));
        }
    for (int i = 0; i < c->n_sums; i++)
        for (int64_t k = 0; k < c->sums[i].n * c->sums[i].n_mat; k++)
            if (!isfinite((float)c->sums[i].squares[k]))
                return rp_fail(RP_E_ARG, "%s: the activations of %.*s are not finite", rp_gguf_path(c->m->file),
                               (int)c->sums[i].name.len, c->sums[i].name.ptr);
    return RP_OK;
}

static RpStatus put_floats(GgufWriter *w, const double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)x[i];
        RP_TRY(rp_gguf_writer_data(w, &v, sizeof v));
    }
    return RP_OK;
}

static void put_tensor(GgufWriter *w, const Sums *s, const char *what, int64_t ne0) {
    char      name[160];
    const int n =
        snprintf(name, sizeof name, "%.*s.%s", (int)(s->name.len < 128 ? s->name.len : 128), s->name.ptr, what);
    rp_gguf_put_tensor(w, name, (size_t)n, RP_F32, (int64_t[RP_MAX_DIMS]){ne0, s->n_mat, 1, 1});
}

static RpStatus write_file(Collector *c, GgufWriter *w) {
    const char *dataset = c->o.dataset != NULL ? c->o.dataset : "";
    qsort(c->sums, (size_t)c->n_sums, sizeof *c->sums, by_name);
    rp_gguf_put_string(w, "general.type", "imatrix");
    rp_gguf_put_array(w, "imatrix.datasets", RP_GGUF_STRING, 1);
    rp_gguf_put_text(w, dataset, strlen(dataset));
    rp_gguf_put_u32(w, "imatrix.chunk_count", (uint32_t)(c->total / (size_t)c->o.chunk));
    rp_gguf_put_u32(w, "imatrix.chunk_size", (uint32_t)c->o.chunk);
    for (int i = 0; i < c->n_sums; i++) {
        put_tensor(w, &c->sums[i], "in_sum2", c->sums[i].n);
        put_tensor(w, &c->sums[i], "counts", 1);
    }
    RP_TRY(rp_gguf_writer_begin(w));
    for (int i = 0; i < c->n_sums; i++) {
        RP_TRY(put_floats(w, c->sums[i].squares, c->sums[i].n * c->sums[i].n_mat));
        RP_TRY(put_floats(w, c->sums[i].counts, c->sums[i].n_mat));
    }
    return RP_OK;
}

static RpStatus check(const Collector *c, const int32_t *ids, size_t n) {
    const RpModelInfo *info = rp_model_info(c->m);
    if (c->o.chunk < 1 || c->o.chunk > info->n_ctx_train)
        return rp_fail(RP_E_ARG, "chunks of %d tokens: must be from 1 to %d, the context of the model", c->o.chunk,
                       info->n_ctx_train);
    if (n < (size_t)c->o.chunk)
        return rp_fail(RP_E_ARG, "%zu tokens do not fill one chunk of %d: give more text or smaller chunks", n,
                       c->o.chunk);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= info->n_vocab)
            return rp_fail(RP_E_ARG, "token %d at %zu, the model has %d", ids[i], i, info->n_vocab);
    return RP_OK;
}

RpStatus rp_imatrix_sized(const RpModel *m, const int32_t *ids, size_t n, const RpImatrixOptions *options,
                          size_t options_bytes, const char *path) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(ids, "ids");
    RP_NOT_NULL(path, "path");

    Collector   c = {.m = m};
    GgufWriter *w = NULL;
    RP_TRY(rp_sized_in(&c.o, sizeof c.o, options, options_bytes, "RpImatrixOptions"));
    if (c.o.chunk == 0) c.o.chunk = CHUNK;
    RP_TRY(check(&c, ids, n));
    c.total = n / (size_t)c.o.chunk * (size_t)c.o.chunk;
    RP_TRY(rp_gguf_refuse_output(m->file, path));
    RP_TRY(rp_gguf_writer_open(path, &w));
    RpStatus st = begin(&c);
    if (st == RP_OK) st = collect(&c, ids);
    if (st == RP_OK) st = write_file(&c, w);
    end(&c);
    return rp_gguf_writer_close(w, st);
}
