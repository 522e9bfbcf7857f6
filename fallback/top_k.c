/* The indices of the k largest of x[:,t] + bias[:], largest first; among equals the lower index first.
 *
 * NaN is below everything, -inf included, so the order is total and every id is one of the row. As k is small,
 * insertion into k sorted ids needs no other memory. With groups (n_group > 1) only n_group_used of them take part:
 * those with the largest sum of their two best values (DeepSeek-V3, arXiv:2412.19437, 2.1.2). */
#include "fallback/rows.h"

#include <math.h>

/* a ranks before b; b != b is true for NaN only. */
static bool before(float a, float b) { return a > b || (a == a && b != b); }

/* The value that ranks element i. */
static float value(const RpOpArgs *args, const float *x, int64_t i) {
    return rp_is_present(&args->top_k.bias) ? x[i] + ((const float *)args->top_k.bias.data)[i] : x[i];
}

/* Sum of the two best values of a group; the best alone in a group of one element. inf - inf counts as -inf: with NaN
 * the groups would have no order, and possibly none would take part. */
static float group_score(const RpOpArgs *args, const float *x, int64_t group, int64_t size) {
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
    const float sum = size > 1 ? best + second : best;
    return sum == sum ? sum : -INFINITY;
}

/* Fewer than n_group_used groups rank before this one; among equals the lower group ranks first. */
static bool group_takes_part(const RpOpArgs *args, const float *x, int64_t group, int64_t size) {
    const RpTopKParams *p     = &args->params->top_k;
    const float         mine  = group_score(args, x, group, size);
    int32_t             ahead = 0;
    for (int64_t g = 0; g < p->n_group; g++) {
        const float other = group_score(args, x, g, size);
        if (other > mine || (g < group && !(mine > other))) ahead++;
    }
    return ahead < p->n_group_used;
}

/* Inserts i into the n <= k ids, sorted by rank, and returns their new number. A later index goes behind its equals;
 * the last of k ids drops out. */
static int32_t insert(const RpOpArgs *args, const float *x, int32_t *ids, int32_t n, int32_t k, int64_t i) {
    int32_t     at = n;
    const float v  = value(args, x, i);
    while (at > 0 && before(v, value(args, x, ids[at - 1]))) at--;
    if (at >= k) return n;
    for (int32_t j = n < k ? n : k - 1; j > at; j--) ids[j] = ids[j - 1];
    ids[at] = (int32_t)i;
    return n < k ? n + 1 : k;
}

static void top_k_row(const RpOpArgs *args, const float *x, int32_t *ids) {
    const RpTopKParams *p = &args->params->top_k;
    const int64_t       n = args->top_k.x.ne[0], size = p->n_group > 1 ? n / p->n_group : n;
    int32_t             found = 0;
    for (int64_t g = 0; g * size < n; g++) {
        if (p->n_group > 1 && !group_takes_part(args, x, g, size)) continue;
        for (int64_t i = g * size; i < (g + 1) * size; i++) found = insert(args, x, ids, found, p->k, i);
    }
}

RpStatus rp_cpu_top_k(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *x = &args->top_k.x, *y = &args->dst;
    RP_TRY(RP_CHECK(top_k, args));
    for (int64_t t = ctx->ith; t < x->ne[1]; t += ctx->nth) top_k_row(args, rp_view_row(x, t), rp_view_row(y, t));
    return RP_OK;
}
