/* The gradient of y[r,:] = x[r,:] * rstd[r] * w, rstd[r] = 1 / sqrt(mean(x[r,:]^2) + eps):
 *
 *     phase 0   dx[r,:] = rstd w dy[r,:] - x[r,:] rstd^3 / n sum_i dy[r,i] w[i] x[r,i]
 *     phase 1   dw[i]   = sum_r dy[r,i] x[r,i] rstd[r]
 *
 * The workers divide the rows in phase 0 and the columns in phase 1. Sums are in double, that of dw in the order of the
 * rows, so the number of workers changes no bit (I8). Phase 1 exists if dw is given; rstd takes the factors of the rows
 * from one phase to the other. */
#include "fallback/fused/fused.h"
#include "fallback/rows.h"
#include "fallback/squares.h"

#include "ops/rules.h"

#include <math.h>

enum { LANES = 16, CHUNK = 256 };

CpuNeeds rp_needs_rms_norm_backward(const RpOpArgs *args) {
    return (CpuNeeds){.phases = rp_is_present(&args->rms_norm_backward.dw) ? 2 : 1};
}

/* sum_i dy[i] w[i] x[i], by 16 lanes. */
RP_BODY void triple_body(const float *dy, const float *w, const float *x, int64_t n, double *out) {
    double  acc[LANES] = {0.0};
    int64_t i          = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            acc[l] += (double)dy[i + l] * (double)x[i + l] * (w != NULL ? (double)w[i + l] : 1.0);
    for (int l = 0; i + l < n; l++)
        acc[l] += (double)dy[i + l] * (double)x[i + l] * (w != NULL ? (double)w[i + l] : 1.0);
    for (int m = LANES / 2; m > 0; m /= 2)
        for (int l = 0; l < m; l++) acc[l] += acc[l + m];
    *out = acc[0];
}
RP_VARIANTS(triple, (const float *dy, const float *w, const float *x, int64_t n, double *out), (dy, w, x, n, out))

/* dx = of_dy * w * dy - of_x * x */
RP_BODY void difference_body(const float *dy, const float *w, const float *x, float of_dy, float of_x, int64_t n,
                             float *dx) {
    if (w != NULL)
        for (int64_t i = 0; i < n; i++) dx[i] = fmaf(-of_x, x[i], of_dy * w[i] * dy[i]);
    else
        for (int64_t i = 0; i < n; i++) dx[i] = fmaf(-of_x, x[i], of_dy * dy[i]);
}
RP_VARIANTS(difference,
            (const float *dy, const float *w, const float *x, float of_dy, float of_x, int64_t n, float *dx),
            (dy, w, x, of_dy, of_x, n, dx))

RP_BODY void add_products_body(const float *dy, const float *x, double rstd, int64_t n, double *acc) {
    for (int64_t i = 0; i < n; i++) acc[i] += (double)dy[i] * (double)x[i] * rstd;
}
RP_VARIANTS(add_products, (const float *dy, const float *x, double rstd, int64_t n, double *acc), (dy, x, rstd, n, acc))

static void gradient_of_row(const RpOpArgs *args, int64_t r) {
    const RpTensorView *w = &args->rms_norm_backward.w, *rstd = &args->rms_norm_backward.rstd;
    const float  *x = rp_view_row(&args->rms_norm_backward.x, r), *dy = rp_view_row(&args->rms_norm_backward.dy, r);
    const float  *weight = rp_is_present(w) ? w->data : NULL;
    const int64_t n      = args->dst.ne[0];
    const double  root   = 1.0 / sqrt(rp_square_sum(x, n) / (double)n + (double)args->params->rms_norm_backward.eps);
    double        sum;
    triple(dy, weight, x, n, &sum);
    difference(dy, weight, x, (float)root, (float)(root * root * root / (double)n * sum), n,
               rp_view_row(&args->dst, r));
    if (rp_is_present(rstd)) ((float *)rstd->data)[r] = (float)root;
}

/* Columns [from, from + n). */
static void gradient_of_weights(const RpOpArgs *args, int64_t from, int64_t n) {
    const float *rstd       = args->rms_norm_backward.rstd.data;
    double       acc[CHUNK] = {0.0};
    for (int64_t r = 0; r < rp_view_rows(&args->dst); r++)
        add_products((const float *)rp_view_row(&args->rms_norm_backward.dy, r) + from,
                     (const float *)rp_view_row(&args->rms_norm_backward.x, r) + from, (double)rstd[r], n, acc);
    for (int64_t i = 0; i < n; i++) ((float *)args->rms_norm_backward.dw.data)[from + i] = (float)acc[i];
}

RpStatus rp_cpu_rms_norm_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    const int64_t n = args->dst.ne[0], groups = (n + LANES - 1) / LANES;
    RP_TRY(RP_CHECK(rms_norm_backward, args));
    for (int64_t r = rp_first_row(&args->dst, ctx); r < rp_end_row(&args->dst, ctx) && ctx->phase == 0; r++)
        gradient_of_row(args, r);
    if (ctx->phase == 0) return RP_OK;
    const int64_t last = groups * (ctx->ith + 1) / ctx->nth * LANES, end = last < n ? last : n;
    for (int64_t i = groups * ctx->ith / ctx->nth * LANES; i < end; i += CHUNK)
        gradient_of_weights(args, i, end - i < CHUNK ? end - i : CHUNK);
    return RP_OK;
}
