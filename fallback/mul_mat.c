/* y[m,t,h,b] = sum_k w[k,m,h/g,b/g'] * x[k,t,h,b]
 *
 *     w                              kernel                                   workers divide
 *     block-quantised, x q8_act      GEMV, or GEMM for several t (dot.h)      rows m, or tiles (tiles.h)
 *     float rows                     float_rows.h                             rows m
 *     transposed (k strided)         y += x[k] * w[k,:], k in order           tokens t
 *
 * Each element of y is one sum in a fixed order, whatever the number of workers or of tokens in the call (I8). */
#include "fallback/fused/fused.h"
#include "fallback/products/float_rows.h"
#include "fallback/products/tiles.h"
#include "fallback/simd/float.h"

enum { FLOAT_SLICE = 256 }; /* elements of a transposed row that are converted at a time */

/* ---- bounds (RpMulMatBound): rows and terms that a token needs ---- */

static int64_t last_position(const RpOpArgs *args, int64_t t) { return ((const int32_t *)args->mul_mat.pos.data)[t]; }

static RpMulMatBound bound_of(const RpOpArgs *args) {
    return rp_is_present(&args->mul_mat.pos) ? args->params->mul_mat.bound : RP_BOUND_NONE;
}

static bool needs_row(const RpOpArgs *args, int64_t t, int64_t m) {
    return bound_of(args) != RP_BOUND_ROWS || m <= last_position(args, t);
}

/* Number of terms k of the sum for token t. */
static int64_t inner_length(const RpOpArgs *args, int64_t t) {
    const int64_t n = args->mul_mat.w.ne[0];
    if (bound_of(args) != RP_BOUND_INNER) return n;
    const int64_t end = last_position(args, t) + 1;
    return end < 0 ? 0 : (end < n ? end : n);
}

static float *result_at(const RpOpArgs *args, int64_t m, int64_t t, int64_t h, int64_t b) {
    const RpTensorView *y = &args->dst;
    return (float *)(void *)((char *)y->data + (size_t)t * y->nb[1] + (size_t)h * y->nb[2] + (size_t)b * y->nb[3]) + m;
}

static const char *weight_row(const RpOpArgs *args, int64_t m, int64_t h, int64_t b) {
    const RpTensorView *w = &args->mul_mat.w, *x = &args->mul_mat.x;
    return (const char *)w->data + (size_t)m * w->nb[1] + (size_t)(h / (x->ne[2] / w->ne[2])) * w->nb[2] +
           (size_t)(b / (x->ne[3] / w->ne[3])) * w->nb[3];
}

static const char *column(const RpOpArgs *args, int64_t t, int64_t h, int64_t b) {
    const RpTensorView *x = &args->mul_mat.x;
    return (const char *)x->data + (size_t)t * x->nb[1] + (size_t)h * x->nb[2] + (size_t)b * x->nb[3];
}

/* ---- a transposed float matrix: y += x[k] * w[k,:] ---- */

RP_BODY void add_scaled_body(const float *w, float x, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(x, w[i], y[i]);
}
RP_VARIANTS(add_scaled, (const float *w, float x, int64_t n, float *y), (w, x, n, y))

/* One column of y. Rows beyond a bound are written as 0. */
static void transposed_token(const RpOpArgs *args, int64_t t, int64_t h, int64_t b) {
    const RpTensorView *w     = &args->mul_mat.w;
    const int64_t       n_row = w->ne[1], n_in = inner_length(args, t);
    const float        *x     = (const float *)(const void *)column(args, t, h, b);
    const char         *first = weight_row(args, 0, h, b);
    float              *y     = result_at(args, 0, t, h, b);
    memset(y, 0, (size_t)n_row * sizeof *y);
    for (int64_t k = 0; k < n_in; k++)
        for (int64_t m = 0; m < n_row; m += FLOAT_SLICE) {
            const int64_t len = n_row - m < FLOAT_SLICE ? n_row - m : FLOAT_SLICE;
            float         f32[FLOAT_SLICE];
            rp_dequantize_row(w->dtype, first + (size_t)k * w->nb[0] + (size_t)m * w->nb[1], len, f32);
            add_scaled(f32, x[k], len, y + m);
        }
    for (int64_t m = 0; m < n_row && bound_of(args) == RP_BOUND_ROWS; m++)
        if (!needs_row(args, t, m)) y[m] = 0.0f;
}

/* ---- block-quantised rows ---- */

/* Whether to run a GEMV per column: there is only one, or each token needs another number of rows. */
static bool column_by_column(const RpOpArgs *args) {
    return rp_view_rows(&args->mul_mat.x) == 1 || bound_of(args) == RP_BOUND_ROWS;
}

/* GEMV for token t; this worker takes a range of the rows that the token needs. */
static void times_column(const RpOpArgs *args, const RpKernelCtx *ctx, int64_t t, int64_t h, int64_t b) {
    const RpTensorView *w    = &args->mul_mat.w;
    int64_t             rows = w->ne[1];
    if (bound_of(args) == RP_BOUND_ROWS && last_position(args, t) + 1 < rows) rows = last_position(args, t) + 1;
    const int64_t first = rp_whole_rows(w, rows * ctx->ith / ctx->nth);
    const int64_t end   = ctx->ith + 1 == ctx->nth ? rows : rp_whole_rows(w, rows * (ctx->ith + 1) / ctx->nth);
    if (first < end)
        rp_gemv(w, weight_row(args, first, h, b), end - first, column(args, t, h, b), result_at(args, first, t, h, b));
}

/* Local memory of a worker: x pointers [tokens], y pointers [tokens], then panels. */
static size_t list_bytes(const RpOpArgs *args) {
    return rp_align_bytes((size_t)args->mul_mat.x.ne[1] * sizeof(void *));
}

static TileWork work_of_head(const RpOpArgs *args, const RpKernelCtx *ctx, int64_t h, int64_t b) {
    const RpTensorView *w = &args->mul_mat.w, *x = &args->mul_mat.x;
    const char        **from = (const char **)ctx->local;
    float             **to   = (float **)(void *)((char *)ctx->local + list_bytes(args));
    for (int64_t t = 0; t < x->ne[1]; t++) {
        from[t] = column(args, t, h, b);
        to[t]   = result_at(args, 0, t, h, b);
    }
    return (TileWork){.dtype    = w->dtype,
                      .n        = w->ne[0],
                      .n_rows   = w->ne[1],
                      .n_cols   = x->ne[1],
                      .rows     = weight_row(args, 0, h, b),
                      .stride   = w->nb[1],
                      .repacked = rp_is_repacked(w),
                      .x        = from,
                      .y        = to,
                      .groups   = (char *)ctx->shared +
                                (size_t)((h + x->ne[2] * b) * x->ne[1]) * rp_packed_column_bytes(w->dtype, w->ne[0]),
                      .local = (char *)ctx->local + 2 * list_bytes(args)};
}

/* All heads together are one phase, in which this head's cost is `each` and begins at head * each. */
static void quantized_head(const RpOpArgs *args, const RpKernelCtx *ctx, int64_t h, int64_t b) {
    const RpTensorView *x = &args->mul_mat.x;
    if (column_by_column(args)) {
        for (int64_t t = 0; t < x->ne[1]; t++) times_column(args, ctx, t, h, b);
        return;
    }
    const TileWork work = work_of_head(args, ctx, h, b);
    const int64_t  head = h + x->ne[2] * b, heads = x->ne[2] * x->ne[3];
    const int64_t  each = rp_tile_cost(&work, ctx->phase);
    rp_tile_run(&work, ctx, head * each, heads * each);
}

/* ---- float rows ---- */

/* RP_BOUND_ROWS: drops the columns whose tokens do not need row m; false if none is left. Rows come in ascending
 * order, so a dropped column stays dropped. */
static bool drop_columns(const RpOpArgs *args, FloatWork *work, int64_t t0, int64_t m) {
    bool any = false;
    for (int c = 0; c < work->n_cols; c++) {
        if (needs_row(args, t0 + c, m))
            any = true;
        else
            work->y[c] = NULL;
    }
    return any;
}

static void float_head(const RpOpArgs *args, const RpKernelCtx *ctx, int64_t h, int64_t b) {
    const RpTensorView *w = &args->mul_mat.w, *x = &args->mul_mat.x;
    const bool          bound = bound_of(args) == RP_BOUND_ROWS; /* every nth row: the needed rows are the first ones */
    const int64_t       n     = w->ne[1];
    const int64_t       first = bound ? ctx->ith : n * ctx->ith / ctx->nth;
    const int64_t       end   = bound ? n : n * (ctx->ith + 1) / ctx->nth;
    for (int64_t t0 = 0; t0 < x->ne[1]; t0 += RP_FLOAT_WORK_COLS) {
        FloatWork work;
        rp_float_work_start(&work, w, bound_of(args) != RP_BOUND_INNER);
        for (int64_t t = t0; t < x->ne[1] && t < t0 + RP_FLOAT_WORK_COLS; t++)
            rp_float_work_add(&work, column(args, t, h, b), result_at(args, 0, t, h, b), inner_length(args, t));
        if (!bound) rp_float_rows(&work, weight_row(args, first, h, b), w->nb[1], first, end - first);
        for (int64_t m = first; m < end && bound && drop_columns(args, &work, t0, m); m += ctx->nth)
            rp_float_rows(&work, weight_row(args, m, h, b), 0, m, 1);
    }
}

/* ---- op ---- */

CpuNeeds rp_needs_mul_mat(const RpOpArgs *args) {
    const RpTensorView *w = &args->mul_mat.w, *x = &args->mul_mat.x;
    if (!rp_is_quantized_product(w, x) || column_by_column(args)) return (CpuNeeds){.phases = 1};
    return (CpuNeeds){.phases = 2,
                      .shared = (size_t)rp_view_rows(x) * rp_packed_column_bytes(w->dtype, w->ne[0]),
                      .local  = 2 * list_bytes(args) +
                               (rp_tiles_need_panels(x->ne[1]) ? rp_panels_bytes(w->dtype, w->ne[0], w->ne[1]) : 0)};
}

RpStatus rp_cpu_mul_mat(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *w = &args->mul_mat.w, *x = &args->mul_mat.x;
    RP_TRY(RP_CHECK(mul_mat, args));
    const bool transposed = rp_dtype_is_float(w->dtype) && w->nb[0] != (size_t)rp_dtype_info(w->dtype)->block_bytes;
    for (int64_t b = 0; b < x->ne[3]; b++)
        for (int64_t h = 0; h < x->ne[2]; h++) {
            if (x->dtype == RP_Q8_ACT)
                quantized_head(args, ctx, h, b);
            else if (!transposed)
                float_head(args, ctx, h, b);
            for (int64_t t = 0; t < x->ne[1] && transposed; t++)
                if ((t + x->ne[1] * (h + x->ne[2] * b)) % ctx->nth == ctx->ith) transposed_token(args, t, h, b);
        }
    return RP_OK;
}
