/* fit.h - what quantisers share: levels from floats, packing of nibbles, scales from the range of the values, and
 * searches for the scale with the smallest squared error. w[i] is the importance of element i, the factor of its
 * squared error. */
#ifndef FALLBACK_QUANTS_FIT_H
#define FALLBACK_QUANTS_FIT_H

#include "fallback/simd/float.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of largest magnitude, with its sign. */
static inline float rp_largest(const float *x, int n) {
    float top = 0.0f;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(top)) top = x[i];
    return top;
}

static inline void rp_min_max(const float *x, int n, float *low, float *high) {
    *low = *high = x[0];
    for (int i = 1; i < n; i++) {
        *low  = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
}

static inline float rp_inverse(float d) { return d != 0.0f ? 1.0f / d : 0.0f; }

/* v as an integer in 0..top. Truncates: callers add 0.5 to round. Clamped as a float, because an infinity or a NaN,
 * from a scale so small that its inverse is infinite, is no integer. */
static inline uint8_t rp_level(float v, int top) {
    const float most = (float)top;
    return (uint8_t)(v > 0.0f ? (v < most ? v : most) : 0.0f);
}

/* q[0..n) to low nibbles, q[n..2n) to high nibbles. */
static inline void rp_put_nibbles(const uint8_t *q, int n, uint8_t *qs) {
    for (int i = 0; i < n; i++) qs[i] = (uint8_t)((q[i] & 15) | (q[i + n] & 15) << 4);
}

/* v as an integer in low..high. Clamped as a float, as in rp_level(); NaN becomes low. */
static inline int rp_nearest(float v, int low, int high) {
    const float least = (float)low, most = (float)high;
    return (int)lrintf(v > least ? (v < most ? v : most) : least);
}

/* The bounds of a fit by rp_fit_affine. */
typedef struct AffineForm {
    int  n, top;  /* elements; q in 0..top */
    bool any_min; /* min may be negative */
} AffineForm;

/* Fits x[i] ~ scale * q[i] - min. Tries several scales for the rounding; for each set of q, least squares gives scale d
 * and offset m. With sums of w, wq, ...:
 *
 *     minimise sum w (d q + m - x)^2:   det = sum w sum wq^2 - (sum wq)^2
 *                                       d = (sum w sum wqx - sum wq sum wx) / det
 *                                       m = (sum wq^2 sum wx - sum wq sum wqx) / det
 *
 * The set with the smallest error stays. */
static inline void rp_fit_affine(const float *x, const float *w, AffineForm form, float *scale, float *min) {
    enum { TRIES = 21 };
    const int n = form.n, top = form.top;
    float     low, high, best = INFINITY;
    rp_min_max(x, n, &low, &high);
    if (low > 0.0f && !form.any_min) low = 0.0f;
    *scale = 0.0f;
    *min   = -low;
    if (high <= low) return;
    for (int t = 0; t < TRIES; t++) {
        const float id = ((float)top + 0.1f * (float)(t - TRIES / 2)) / (high - low);
        float       q[32], sw = 0, sq = 0, sqq = 0, sx = 0, sqx = 0;
        for (int i = 0; i < n; i++) {
            q[i]           = (float)rp_nearest((x[i] - low) * id, 0, top);
            const float wq = w[i] * q[i];
            sw += w[i], sq += wq, sqq += wq * q[i], sx += w[i] * x[i], sqx += wq * x[i];
        }
        const float det = sw * sqq - sq * sq;
        float       d   = det > 0.0f ? (sw * sqx - sq * sx) / det : 0.0f;
        float       m   = det > 0.0f ? (sqq * sx - sq * sqx) / det : 1.0f;
        if (m > 0.0f && !form.any_min) m = 0.0f, d = sqq > 0.0f ? sqx / sqq : 0.0f; /* such a minimum is not stored */
        float error = 0.0f;
        for (int i = 0; i < n; i++) error += w[i] * (d * q[i] + m - x[i]) * (d * q[i] + m - x[i]);
        if (error >= best || d <= 0.0f) continue;
        best   = error;
        *scale = d;
        *min   = -m;
    }
}

/* Fits x[i] ~ scale * q[i] with q in -half..half-1 to the same weighted error. For given q, scale =
 * sum wqx / sum wq^2 lowers the squared error by (sum wqx)^2 / sum wq^2, so the largest such term is the best. */
static inline float rp_fit_symmetric(const float *x, const float *w, int n, int half) {
    enum { TRIES = 21 };
    const float top  = rp_largest(x, n);
    float       best = -1.0f, scale = 0.0f;
    if (top == 0.0f) return 0.0f;
    for (int t = 0; t < TRIES; t++) {
        const float id  = -((float)half + 0.1f * (float)(t - TRIES / 2)) / top;
        float       sqq = 0.0f, sqx = 0.0f;
        for (int i = 0; i < n; i++) {
            const float q = (float)rp_nearest(x[i] * id, -half, half - 1);
            sqq += w[i] * q * q, sqx += w[i] * q * x[i];
        }
        if (sqq <= 0.0f || sqx * sqx / sqq <= best) continue;
        best  = sqx * sqx / sqq;
        scale = sqx / sqq;
    }
    return scale;
}

/* 32 elements, q - half in -half..half-1. Without importance d = largest / -half: the value of largest magnitude
 * becomes exactly -half. Returns d as f16. */
static inline uint16_t rp_round_symmetric(const float *x, const float *w, int half, uint8_t *q) {
    const float fit = w != NULL ? rp_f16_to_f32(rp_f32_to_f16(rp_fit_symmetric(x, w, 32, half))) : 0.0f;
    const float d = w != NULL ? fit : rp_largest(x, 32) / (float)-half, id = rp_inverse(d);
    for (int i = 0; i < 32; i++) q[i] = rp_level(x[i] * id + (float)half + 0.5f, 2 * half - 1);
    return rp_f32_to_f16(d);
}

/* 32 elements, q in 0..top. Without importance the smallest value becomes 0, the largest becomes top. Gives d and m as
 * f16. */
static inline void rp_round_affine(const float *x, const float *w, int top, uint8_t *q, uint16_t *d16, uint16_t *m16) {
    float low, high;
    rp_min_max(x, 32, &low, &high);
    float d = (high - low) / (float)top;
    if (w != NULL) {
        rp_fit_affine(x, w, (AffineForm){.n = 32, .top = top, .any_min = true}, &d, &low);
        d   = rp_f16_to_f32(rp_f32_to_f16(d));
        low = rp_f16_to_f32(rp_f32_to_f16(-low));
    }
    const float id = rp_inverse(d);
    for (int i = 0; i < 32; i++) q[i] = rp_level((x[i] - low) * id + 0.5f, top);
    *d16 = rp_f32_to_f16(d);
    *m16 = rp_f32_to_f16(low);
}

/* d is the largest magnitude, as ternary types are for weights that have three values. q[i] is 0, 1 or 2. Returns d. */
static inline float rp_fit_ternary(const float *x, int n, int *q) {
    const float d = fabsf(rp_largest(x, n)), id = rp_inverse(d);
    for (int i = 0; i < n; i++) {
        const float v = roundf(x[i] * id);
        q[i]          = v > 0.5f ? 2 : v < -0.5f ? 0 : 1;
    }
    return d;
}

#endif
