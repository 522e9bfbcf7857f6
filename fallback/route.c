/* Weights of the selected experts of each token: w[j] = probs[ids[j,t],t], then the steps that RpRouteParams switches
 * on:
 *
 *     soft_max    w[j] = exp(w[j]) / sum_i exp(w[i])     softmax over the selected only (gpt-oss)
 *     normalize   w[j] = w[j] / max(sum_i w[i], 2^-14)   no division by 0 or by a tiny sum
 *     scale       w[j] = w[j] * scale
 *
 * A bad id has the weight 0 before these steps. Sums run in the order of j. */
#include "fallback/experts.h"
#include "fallback/simd/float.h"

static void soft_max(float *y, int64_t k) {
    float top = -INFINITY, sum = 0.0f;
    for (int64_t j = 0; j < k; j++)
        if (y[j] > top || y[j] != y[j]) top = y[j];
    for (int64_t j = 0; j < k; j++) sum += y[j] = rp_expf(y[j] - top);
    for (int64_t j = 0; j < k; j++) y[j] /= sum;
}

static void normalize(float *y, int64_t k) {
    float sum = 0.0f;
    for (int64_t j = 0; j < k; j++) sum += y[j];
    if (sum < 0x1p-14f) sum = 0x1p-14f;
    for (int64_t j = 0; j < k; j++) y[j] /= sum;
}

RpStatus rp_cpu_route(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView  *probs = &args->route.probs, *ids = &args->route.ids, *y = &args->dst;
    const RpRouteParams *p = &args->params->route;
    RP_TRY(RP_CHECK(route, args));
    for (int64_t t = ctx->ith; t < probs->ne[1]; t += ctx->nth) {
        const float *x   = (const float *)((const char *)probs->data + (size_t)t * probs->nb[1]);
        float       *row = (float *)((char *)y->data + (size_t)t * y->nb[1]);
        for (int64_t j = 0; j < y->ne[0]; j++) {
            const int32_t id = rp_expert(ids, j, t, probs->ne[0]);
            row[j]           = id >= 0 ? x[id] : 0.0f;
        }
        if (p->soft_max) soft_max(row, y->ne[0]);
        if (p->normalize) normalize(row, y->ne[0]);
        for (int64_t j = 0; j < y->ne[0]; j++) row[j] *= p->scale;
    }
    return RP_OK;
}
