/* The gradient of route, from the weights of a token's k chosen experts back to their probabilities. With v[j] =
 * probs[ids[j]], backwards through the steps of RpRouteParams, each of which turns values v into u:
 *
 *     scale       g[j] = scale * dy[j]
 *     normalize   u = v / s, s = sum_i v[i]:   g[j] = (g[j] - sum_i g[i] u[i]) / s, or g[j] / 2^-14 if s is below 2^-14
 *     soft_max    u = softmax(v):              g[j] = u[j] * (g[j] - sum_i g[i] u[i])
 *     dprobs[ids[j]] += g[j], in the order of j; bad ids count for none
 *
 * Sums are in double, in the order of j. Tokens are divided among the workers. */
#include "fallback/experts.h"
#include "fallback/rows.h"
#include "fallback/simd/float.h"

#include "ops/rules.h"

static double dot_of(const double *g, const double *u, int64_t k) {
    double sum = 0.0;
    for (int64_t j = 0; j < k; j++) sum += g[j] * u[j];
    return sum;
}

static double sum_of(const double *v, int64_t k) {
    double sum = 0.0;
    for (int64_t j = 0; j < k; j++) sum += v[j];
    return sum;
}

static void soft_max(double *v, int64_t k) {
    double top = -(double)INFINITY;
    for (int64_t j = 0; j < k; j++)
        if (v[j] > top || v[j] != v[j]) top = v[j];
    for (int64_t j = 0; j < k; j++) v[j] = (double)rp_expf((float)(v[j] - top));
    const double sum = sum_of(v, k);
    for (int64_t j = 0; j < k; j++) v[j] /= sum;
}

/* g becomes the gradient with respect to u, where v = max(sum u, 2^-14) divides u. */
static void through_normalize(double *g, const double *v, int64_t k) {
    const double s = sum_of(v, k), mean = s < 0x1p-14 ? 0.0 : dot_of(g, v, k) / s;
    for (int64_t j = 0; j < k; j++) g[j] = (g[j] - mean) / (s < 0x1p-14 ? 0x1p-14 : s);
}

static void gradient(const RpOpArgs *args, int64_t t) {
    const RpRouteParams *p     = &args->params->route_backward;
    const RpTensorView  *probs = &args->route_backward.probs, *ids = &args->route_backward.ids;
    const int64_t        k = ids->ne[0], n = probs->ne[0];
    const float         *x = rp_view_row(probs, t), *dy = rp_view_row(&args->route_backward.dy, t);
    float               *dx = rp_view_row(&args->dst, t);
    double               v[RP_ROUTE_BACKWARD_MAX], g[RP_ROUTE_BACKWARD_MAX];
    for (int64_t j = 0; j < k; j++) {
        const int32_t id = rp_expert(ids, j, t, n);
        v[j]             = id >= 0 ? (double)x[id] : 0.0;
        g[j]             = (double)p->scale * (double)dy[j];
    }
    if (p->soft_max) soft_max(v, k);
    if (p->normalize) through_normalize(g, v, k);
    const double mean = p->soft_max ? dot_of(g, v, k) : 0.0;
    for (int64_t j = 0; j < k && p->soft_max; j++) g[j] = v[j] * (g[j] - mean);
    memset(dx, 0, (size_t)n * sizeof *dx);
    for (int64_t j = 0; j < k; j++) {
        const int32_t id = rp_expert(ids, j, t, n);
        if (id >= 0) dx[id] += (float)g[j];
    }
}

RpStatus rp_cpu_route_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(route_backward, args));
    for (int64_t t = rp_first_row(&args->dst, ctx); t < rp_end_row(&args->dst, ctx); t++) gradient(args, t);
    return RP_OK;
}
