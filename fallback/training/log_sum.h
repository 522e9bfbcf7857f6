/* log_sum.h - sum_i exp(x[i] - top) of a row, top its largest element, which keeps exp from overflowing:
 *
 *     log(sum_i exp(x[i])) = top + log(sum_i exp(x[i] - top))
 *
 * 32 lanes take the elements in turn; the sums are in double. The order is the same in all variants (I8). A row with a
 * NaN or +inf, or of nothing but -inf, has the sum NaN. */
#ifndef FALLBACK_TRAINING_LOG_SUM_H
#define FALLBACK_TRAINING_LOG_SUM_H

#include "fallback/simd/float.h"

enum { RP_LOG_SUM_LANES = 32 }; /* gcc vectorises the maximum of 32, not that of 16 */

/* The largest element that is not a NaN; -inf if there is none. */
RP_BODY void largest_body(const float *x, int64_t n, float *out) {
    float   lane[RP_LOG_SUM_LANES];
    int64_t i = 0;
    for (int l = 0; l < RP_LOG_SUM_LANES; l++) lane[l] = -INFINITY;
    for (; i + RP_LOG_SUM_LANES <= n; i += RP_LOG_SUM_LANES)
        for (int l = 0; l < RP_LOG_SUM_LANES; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (; i < n; i++) lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    *out = -INFINITY;
    for (int l = 0; l < RP_LOG_SUM_LANES; l++) *out = lane[l] > *out ? lane[l] : *out;
}
RP_VARIANTS(largest, (const float *x, int64_t n, float *out), (x, n, out))

RP_BODY void exponentials_body(const float *x, int64_t n, float top, double *out) {
    double  lane[RP_LOG_SUM_LANES] = {0.0};
    int64_t i                      = 0;
    for (; i + RP_LOG_SUM_LANES <= n; i += RP_LOG_SUM_LANES) {
        float e[RP_LOG_SUM_LANES];
        for (int l = 0; l < RP_LOG_SUM_LANES; l++) e[l] = rp_expf(x[i + l] - top);
        for (int l = 0; l < RP_LOG_SUM_LANES; l++) lane[l] += (double)e[l];
    }
    for (int l = 0; i + l < n; l++) lane[l] += (double)rp_expf(x[i + l] - top);
    for (int m = RP_LOG_SUM_LANES / 2; m > 0; m /= 2)
        for (int l = 0; l < m; l++) lane[l] += lane[l + m];
    *out = lane[0];
}
RP_VARIANTS(exponentials, (const float *x, int64_t n, float top, double *out), (x, n, top, out))

typedef struct LogSum {
    float  top;
    double sum; /* of exp(x - top) */
} LogSum;

static inline LogSum rp_log_sum(const float *x, int64_t n) {
    LogSum s;
    largest(x, n, &s.top);
    exponentials(x, n, s.top, &s.sum);
    return s;
}

/* RP_E_ARG unless every target is -1 or an element of a row of n. */
static inline RpStatus rp_check_targets(const char *op, const RpTensorView *targets, int64_t n) {
    const int32_t *t = targets->data;
    for (int64_t r = 0; r < targets->ne[0]; r++)
        if (t[r] < -1 || t[r] >= n)
            return rp_fail(RP_E_ARG, "%s: target %d of row %lld: must be from 0 to %lld, or -1 for none", op, t[r],
                           (long long)r, (long long)n - 1);
    return RP_OK;
}

#endif
