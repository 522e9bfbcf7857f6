/* y = post_norm(scale * sum_j weights[j] (w[:,:,ids[j]] x[:,j] + bias[:,ids[j]])) + (open * shared x[:,k] + residual):
 * the down projection of the selected experts and their weighted sum, with that of a shared expert if there is one.
 * With scales, weights[j] * scales[ids[j]] replaces weights[j].
 *
 * Each worker computes its rows of all k experts and then sums them in the order of j. So the bits do not depend on the
 * number of workers (I8), and no barrier is needed. With a post-norm there are two phases: the first leaves the sums in
 * shared memory, and in the second each worker norms the whole row for itself and keeps its part.
 *
 *     local: rows f32 [k][n], n the rows of this worker; behind them first the k weights with their scales, then the
 *            rows of a shared expert. In phase 1 the normalised row f32 [m] */
#include "fallback/experts.h"
#include "fallback/fused/fused.h"
#include "fallback/products/repack.h"

#include <string.h>

/* The number of workers is not known here: room for all m rows of k experts. */
CpuNeeds rp_needs_experts_down(const RpOpArgs *args) {
    const int64_t m = args->experts_down.w.ne[1], k = args->experts_down.x.ne[1];
    const bool    post = args->params->experts_down.post_norm != 0;
    return (CpuNeeds){
        .phases = post ? 2 : 1, .shared = post ? rp_align_floats(m) : 0, .local = rp_align_floats((m + 1) * k)};
}

/* y[0..n) = rows [first, first + n) of expert j times its column, with the bias; zeros for a bad id. */
static RpStatus product(const RpOpArgs *args, int64_t j, int64_t first, int64_t n, float *y) {
    const RpTensorView *ids = &args->experts_down.ids;
    RpTensorView        w = args->experts_down.w, x = args->experts_down.x;
    const int32_t       expert = rp_expert(ids, j, 0, w.ne[2]);
    if (expert < 0) {
        memset(y, 0, (size_t)n * sizeof *y);
        return RP_OK;
    }
    w.data  = (char *)w.data + (size_t)expert * w.nb[2];
    x.data  = rp_view_row(&x, j);
    x.ne[1] = 1;
    RP_TRY(rp_mul_mat_rows(&w, first, n, &x, y));
    rp_add_range(y, &args->experts_down.bias, expert * w.ne[1] + first, n);
    return RP_OK;
}

/* y[0..n) += open * rows [first, first + n) of the shared expert + residual; rows: memory for n floats. */
static RpStatus add_shared(const RpOpArgs *args, int64_t first, int64_t n, float *rows, float *y) {
    const RpTensorView *open = &args->experts_down.open;
    RpTensorView        x    = args->experts_down.x;
    x.data                   = rp_view_row(&x, x.ne[1] - 1);
    x.ne[1]                  = 1;
    RP_TRY(rp_mul_mat_rows(&args->experts_down.shared, first, n, &x, rows));
    for (int64_t i = 0; i < n && rp_is_present(open); i++) rows[i] *= *(const float *)open->data;
    rp_add_range(rows, &args->experts_down.residual, first, n);
    for (int64_t i = 0; i < n; i++) y[i] += rows[i];
    return RP_OK;
}

/* weights[j] * scales[ids[j]] of the k experts, in `to`, or the weights as they are. The product of a bad id is 0, and
 * so is its scale. */
static float *weights_of(const RpOpArgs *args, int64_t k, float *to) {
    const RpTensorView *scales  = &args->experts_down.scales;
    float              *weights = args->experts_down.weights.data;
    if (!rp_is_present(scales)) return weights;
    for (int64_t j = 0; j < k; j++) {
        const int32_t expert = rp_expert(&args->experts_down.ids, j, 0, args->experts_down.w.ne[2]);
        to[j]                = weights[j] * (expert >= 0 ? ((const float *)scales->data)[expert] : 0.0f);
    }
    return to;
}

/* Rows [first, first + n) to y, up to the scale; `rows`: memory for n floats of each expert, and k more. */
static RpStatus weighted_sum(const RpOpArgs *args, int64_t k, int64_t first, int64_t n, float *rows, float *y) {
    for (int64_t j = 0; j < k; j++) RP_TRY(product(args, j, first, n, rows + j * n));
    const RpOpArgs combine = {
        .dst = rp_floats(y, n, 1), .src = {rp_floats(rows, n, k), rp_floats(weights_of(args, k, rows + k * n), k, 1)}
    };
    RP_TRY(rp_run_alone(rp_cpu_combine, &combine));
    rp_scale_range(y, args->params->experts_down.scale, n);
    return RP_OK;
}

RpStatus rp_cpu_experts_down(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(experts_down, args));
    const RpExpertsDownParams *p      = &args->params->experts_down;
    const bool                 shares = rp_is_present(&args->experts_down.shared);
    const RpTensorView        *w      = &args->experts_down.w; /* a shared expert is repacked if the others are */
    const int64_t              m = args->dst.ne[0], k = args->experts_down.x.ne[1] - (shares ? 1 : 0);
    const int64_t              first = rp_whole_rows(w, m * ctx->ith / ctx->nth);
    const int64_t              n     = rp_whole_rows(w, m * (ctx->ith + 1) / ctx->nth) - first;
    float                     *rows = (float *)ctx->local, *y = (float *)args->dst.data + first;
    if (n == 0) return RP_OK;
    if (p->post_norm != 0 && ctx->phase == 0)
        return weighted_sum(args, k, first, n, rows, (float *)ctx->shared + first);
    if (p->post_norm != 0) {
        RP_TRY(rp_norm_row(ctx->shared, m, &args->experts_down.post_norm, p->post_eps, rows));
        memcpy(y, rows + first, (size_t)n * sizeof *y);
    } else
        RP_TRY(weighted_sum(args, k, first, n, rows, y));
    if (shares) return add_shared(args, first, n, rows + k * n, y);
    rp_add_range(y, &args->experts_down.residual, first, n);
    return RP_OK;
}
