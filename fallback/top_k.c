/* The indices of the k largest of x[:,t] + bias[:], largest first; of equals the lower index. NaN counts as
 * less than everything, so that an id is always one of the row's. */
#include "fallback/rows.h"

#include <math.h>

static bool before(float a, float b) { return a > b || (a == a && b != b); }

static float value(const OpArgs *args, const float *x, int64_t i) {
    return rp_has_src(args, 1) ? x[i] + ((const float *)args->src[1].data)[i] : x[i];
}

/* The sum of the two best of a group, as DeepSeek-V3 ranks its groups (arXiv:2412.19437, 2.1.2). */
static float group_score(const OpArgs *args, const float *x, int64_t group, int64_t size) {
    float best = -INFINITY, second = -INFINITY;
    for (int64_t i = group * size; i < (group + 1) * size; i++) {
        const float v = value(args, x, i);
        if (v > best) {
            second = best;
            best   = v;
        } else if (v > second) {
            second = v;
        }
    }
    return size > 1 ? best + second : best;
}

static bool group_takes_part(const OpArgs *args, const float *x, int64_t group, int64_t size) {
    const TopKParams *p     = &args->params->top_k;
    const float       mine  = group_score(args, x, group, size);
    int32_t           ahead = 0;
    for (int64_t g = 0; g < p->n_group; g++) {
        const float other = group_score(args, x, g, size);
        if (other > mine || (g < group && !(mine > other))) ahead++;
    }
    return ahead < p->n_group_used;
}

/* Inserts into the sorted ids; a later index goes behind its equals. */
static int32_t insert(const OpArgs *args, const float *x, int32_t *ids, int32_t n, int32_t k, int64_t i) {
    int32_t     at = n;
    const float v  = value(args, x, i);
    while (at > 0 && before(v, value(args, x, ids[at - 1]))) at--;
    if (at >= k) return n;
    for (int32_t j = n < k ? n : k - 1; j > at; j--) ids[j] = ids[j - 1];
    ids[at] = (int32_t)i;
    return n < k ? n + 1 : k;
}

static void top_k_row(const OpArgs *args, const float *x, int32_t *ids) {
    const TopKParams *p = &args->params->top_k;
    const int64_t     n = args->src[0].ne[0], size = p->n_group > 1 ? n / p->n_group : n;
    int32_t           found = 0;
    for (int64_t g = 0; g * size < n; g++) {
        if (p->n_group > 1 && !group_takes_part(args, x, g, size)) continue;
        for (int64_t i = g * size; i < (g + 1) * size; i++) found = insert(args, x, ids, found, p->k, i);
    }
}

RpStatus rp_cpu_top_k(const OpArgs *args, KernelCtx *ctx) {
    const TensorView *x = &args->src[0], *y = &args->dst;
    RP_TRY(rp_check_top_k(args));
    for (int64_t t = ctx->ith; t < x->ne[1]; t += ctx->nth)
        top_k_row(args, rp_view_row(x, t), rp_view_row(y, t));
    return RP_OK;
}
