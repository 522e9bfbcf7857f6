/* y[m,t,h,b] = sum_k w[k,m,h/g,b/g'] * x[k,t,h,b]
 *
 * Three forms: block-quantised rows by integer dot products (dot.h), float rows, and a transposed float
 * matrix, whose rows are added up. Workers take consecutive rows m, or tokens in the transposed form; the sum
 * of each element has one order, whatever the number of workers or of tokens in the call (I8). */
#include "fallback/float.h"
#include "fallback/row_dot.h"

enum { FLOAT_PIECE = 256 };

/* ---- which tokens want which rows ---- */

static int64_t last_position(const OpArgs *args, int64_t t) {
    return ((const int32_t *)args->src[2].data)[t];
}

static MulMatBound bound_of(const OpArgs *args) {
    return rp_has_src(args, 2) ? args->params->mul_mat.bound : RP_BOUND_NONE;
}

static bool wants_row(const OpArgs *args, int64_t t, int64_t m) {
    return bound_of(args) != RP_BOUND_ROWS || m <= last_position(args, t);
}

/* Terms of the sum for token t. */
static int64_t inner_length(const OpArgs *args, int64_t t) {
    const int64_t n = args->src[0].ne[0];
    if (bound_of(args) != RP_BOUND_INNER) return n;
    const int64_t end = last_position(args, t) + 1;
    return end < 0 ? 0 : (end < n ? end : n);
}

static float *result_at(const OpArgs *args, int64_t m, int64_t t, int64_t h, int64_t b) {
    const TensorView *y = &args->dst;
    return (float *)(void *)((char *)y->data + (size_t)t * y->nb[1] + (size_t)h * y->nb[2] +
                             (size_t)b * y->nb[3]) +
           m;
}

static const char *weight_row(const OpArgs *args, int64_t m, int64_t h, int64_t b) {
    const TensorView *w = &args->src[0], *x = &args->src[1];
    return (const char *)w->data + (size_t)m * w->nb[1] + (size_t)(h / (x->ne[2] / w->ne[2])) * w->nb[2] +
           (size_t)(b / (x->ne[3] / w->ne[3])) * w->nb[3];
}

static const char *column(const OpArgs *args, int64_t t, int64_t h, int64_t b) {
    const TensorView *x = &args->src[1];
    return (const char *)x->data + (size_t)t * x->nb[1] + (size_t)h * x->nb[2] + (size_t)b * x->nb[3];
}

/* ---- a transposed float matrix: y += x[k] * w[k,:] ---- */

RP_BODY void add_scaled_body(const float *w, float x, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(x, w[i], y[i]);
}
RP_VARIANTS(add_scaled, (const float *w, float x, int64_t n, float *y), (w, x, n, y))

static void transposed_token(const OpArgs *args, int64_t t, int64_t h, int64_t b) {
    const TensorView *w     = &args->src[0];
    const int64_t     n_row = w->ne[1], n_in = inner_length(args, t);
    const float      *x     = (const float *)(const void *)column(args, t, h, b);
    const char       *first = weight_row(args, 0, h, b);
    float            *y     = result_at(args, 0, t, h, b);
    memset(y, 0, (size_t)n_row * sizeof *y);
    for (int64_t k = 0; k < n_in; k++)
        for (int64_t m = 0; m < n_row; m += FLOAT_PIECE) {
            const int64_t len = n_row - m < FLOAT_PIECE ? n_row - m : FLOAT_PIECE;
            float         wide[FLOAT_PIECE];
            rp_widen_row(w->dtype, first + (size_t)k * w->nb[0] + (size_t)m * w->nb[1], len, wide);
            add_scaled(wide, x[k], len, y + m);
        }
    for (int64_t m = 0; m < n_row && bound_of(args) == RP_BOUND_ROWS; m++)
        if (!wants_row(args, t, m)) y[m] = 0.0f;
}

/* ---- */

/* With a bound the columns are not all taken with a row. */
static bool arranges(const OpArgs *args) {
    return rp_arranges(&args->src[0], &args->src[1]) && bound_of(args) != RP_BOUND_ROWS;
}

/* RP_BOUND_ROWS: a row goes only to the tokens that want it; the first rows are wanted by all. */
static bool drop_columns(const OpArgs *args, RowJob *job, int64_t t0, int64_t m) {
    bool any = false;
    for (int c = 0; c < job->n_cols; c++) {
        if (wants_row(args, t0 + c, m))
            any = true;
        else
            job->y[c] = NULL;
    }
    return any;
}

static void rows_of_head(const OpArgs *args, const KernelCtx *ctx, int64_t h, int64_t b) {
    const TensorView *w = &args->src[0], *x = &args->src[1];
    const bool    bound = bound_of(args) == RP_BOUND_ROWS; /* deal rows out: the wanted ones are in front */
    const int64_t n     = w->ne[1];
    const int64_t first = bound ? ctx->ith : n * ctx->ith / ctx->nth;
    const int64_t end   = bound ? n : n * (ctx->ith + 1) / ctx->nth;
    for (int64_t t0 = 0; t0 < x->ne[1]; t0 += RP_JOB_COLS) {
        RowJob job;
        rp_job_start(&job, w, x);
        for (int64_t t = t0; t < x->ne[1] && t < t0 + RP_JOB_COLS; t++)
            rp_job_add(&job, column(args, t, h, b),
                       arranges(args) ? rp_arranged_column(w, ctx, t + x->ne[1] * (h + x->ne[2] * b)) : NULL,
                       result_at(args, 0, t, h, b), inner_length(args, t));
        job.whole = bound_of(args) != RP_BOUND_INNER;
        if (!bound) rp_rows_dot(&job, weight_row(args, first, h, b), w->nb[1], first, end - first);
        for (int64_t m = first; m < end && bound && drop_columns(args, &job, t0, m); m += ctx->nth)
            rp_row_dot(&job, weight_row(args, m, h, b), m);
    }
}

CpuNeeds rp_needs_mul_mat(const OpArgs *args) {
    return arranges(args) ? rp_needs_arranged(&args->src[0], &args->src[1]) : (CpuNeeds){.phases = 1};
}

RpStatus rp_cpu_mul_mat(const OpArgs *args, KernelCtx *ctx) {
    const TensorView *w = &args->src[0], *x = &args->src[1];
    RP_TRY(rp_check_mul_mat(args));
    if (arranges(args) && ctx->phase == 0) {
        rp_arrange_columns(w, x, ctx);
        return RP_OK;
    }
    const bool transposed = w->nb[0] != (size_t)rp_dtype_info(w->dtype)->block_bytes;
    for (int64_t b = 0; b < x->ne[3]; b++)
        for (int64_t h = 0; h < x->ne[2]; h++) {
            if (!transposed) {
                rows_of_head(args, ctx, h, b);
                continue;
            }
            for (int64_t t = 0; t < x->ne[1]; t++)
                if ((t + x->ne[1] * (h + x->ne[2] * b)) % ctx->nth == ctx->ith)
                    transposed_token(args, t, h, b);
        }
    return RP_OK;
}
