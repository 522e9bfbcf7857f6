/* Rotary position embedding (Su et al. 2021, arXiv:2104.09864): pair i of x[:,h,t] is rotated by
 * theta = theta_i(pos[t]), elements from n_dims on are copied.
 *
 *     y[a] = x[a] cos(theta) - x[b] sin(theta)     RP_ROPE_NORM  (a, b) = (2i, 2i + 1)
 *     y[b] = x[a] sin(theta) + x[b] cos(theta)     RP_ROPE_NEOX  (a, b) = (i, i + n_dims/2)
 *
 * theta_i = pos * base^(-2i/n_dims) / factor_i, or pos * factor_i if base is 0, is the extrapolated angle; linear
 * scaling uses freq_scale * theta_i, and YaRN mixes the two (base/yarn.h). Angles, cosines and sines are computed in
 * double and rounded to float once, by the same operations in all variants (I8). A pair is read before it is written,
 * so y may be x (I6). */
#include "fallback/rows.h"
#include "fallback/simd/simd.h"

#include "base/yarn.h"

#include <string.h>

enum { MAX_PAIRS = RP_ROPE_MAX_DIMS / 2 };

/* The cosines and sines of one position. Each thread keeps those that it computed last, because all layers of a step
 * rotate by the same angles. */
typedef struct Angles {
    bool         known;
    RpRopeParams params;
    int32_t      pos;
    float        factors[MAX_PAIRS]; /* 1 without factors */
    float        cosines[MAX_PAIRS], sines[MAX_PAIRS];
} Angles;

/* Whether a holds the angles of this position, with these parameters and factors. */
static bool is_known(const Angles *a, const RpRopeParams *p, const float *factors, int32_t pos) {
    if (!a->known || a->pos != pos || memcmp(&a->params, p, sizeof *p) != 0) return false;
    for (int i = 0; i < p->n_dims / 2; i++)
        if (a->factors[i] != (factors != NULL ? factors[i] : 1.0f)) return false;
    return true;
}

/* ---- cosines and sines of many angles, vectorised ----
 *
 * theta = quarters * pi/2 + r with an integer `quarters` and |r| <= pi/4. Polynomials give sin(r) and cos(r); adding
 * quarter turns swaps them and changes signs:
 *
 *     quarters mod 4     0        1         2         3
 *     sin(theta)         sin(r)   cos(r)    -sin(r)   -cos(r)     negative if bit 1 of quarters
 *     cos(theta)         cos(r)   -sin(r)   -cos(r)   sin(r)      negative if bit 1 of quarters + 1 */

/* Up to this angle r has an error of at most 1e-7. Larger ones go through the C library. */
static const double largest_angle = 1e9;

/* Taylor polynomials up to r^15 / 15! and r^16 / 16!. For |r| <= pi/4 the terms left out are below 1e-16. */
RP_BODY double sine_of_rest(double r, double rr) {
    double s = -1.0 / 1307674368000.0;
    s        = fma(s, rr, 1.0 / 6227020800.0);
    s        = fma(s, rr, -1.0 / 39916800.0);
    s        = fma(s, rr, 1.0 / 362880.0);
    s        = fma(s, rr, -1.0 / 5040.0);
    s        = fma(s, rr, 1.0 / 120.0);
    s        = fma(s, rr, -1.0 / 6.0);
    return fma(s * rr, r, r);
}
RP_BODY double cosine_of_rest(double rr) {
    double c = 1.0 / 20922789888000.0;
    c        = fma(c, rr, -1.0 / 87178291200.0);
    c        = fma(c, rr, 1.0 / 479001600.0);
    c        = fma(c, rr, -1.0 / 3628800.0);
    c        = fma(c, rr, 1.0 / 40320.0);
    c        = fma(c, rr, -1.0 / 720.0);
    c        = fma(c, rr, 1.0 / 24.0);
    c        = fma(c, rr, -0.5);
    return fma(c, rr, 1.0);
}

/* Adding to_integer = 1.5 * 2^52 rounds to an integer, which then stands in the low bits of the double. pi/2 is split
 * in two, so that r keeps its precision when quarters * pi/2 is subtracted (Cody-Waite reduction). */
RP_BODY void cos_sin_body(const double *theta, int n, double magnitude, float *cosines, float *sines) {
    const double to_integer = 0x1.8p52, half_pi = 0x1.921fb54442d18p0, half_pi_rest = 0x1.1a62633145c07p-54;
    for (int i = 0; i < n; i++) {
        const double moved = fma(theta[i], 2.0 / 3.14159265358979323846, to_integer), quarters = moved - to_integer;
        const double r = fma(-quarters, half_pi_rest, fma(-quarters, half_pi, theta[i])), rr = r * r;
        const double s = sine_of_rest(r, rr), c = cosine_of_rest(rr);
        int64_t      bits;
        memcpy(&bits, &moved, sizeof bits);
        const double sine = bits & 1 ? c : s, cosine = bits & 1 ? s : c;
        sines[i]   = (float)((bits & 2 ? -sine : sine) * magnitude);
        cosines[i] = (float)(((bits + 1) & 2 ? -cosine : cosine) * magnitude);
    }
}
RP_VARIANTS(cos_sin, (const double *theta, int n, double magnitude, float *cosines, float *sines),
            (theta, n, magnitude, cosines, sines))

/* The angles of a position, computed unless this thread holds them. Valid until its next call. */
static const Angles *angles_at(const RpRopeParams *p, const float *factors, int32_t pos) {
    static _Thread_local Angles a;
    if (is_known(&a, p, factors, pos)) return &a;
    const YarnRamp ramp      = rp_yarn_ramp(p);
    const double   step      = pow((double)p->freq_base, -2.0 / p->n_dims);
    double         frequency = 1.0, theta[MAX_PAIRS];
    bool           small     = true;
    for (int i = 0; i < p->n_dims / 2; i++, frequency *= step) {
        a.factors[i]   = factors != NULL ? factors[i] : 1.0f;
        const double f = (double)a.factors[i];
        theta[i]       = rp_yarn_angle(p, &ramp, i, p->freq_base != 0.0f ? pos * frequency / f : pos * f);
        small          = small && fabs(theta[i]) <= largest_angle;
    }
    if (small) cos_sin(theta, p->n_dims / 2, ramp.magnitude, a.cosines, a.sines);
    for (int i = 0; i < p->n_dims / 2 && !small; i++) {
        a.cosines[i] = (float)(cos(theta[i]) * ramp.magnitude);
        a.sines[i]   = (float)(sin(theta[i]) * ramp.magnitude);
    }
    a.params = *p;
    a.pos    = pos;
    a.known  = true;
    return &a;
}

/* ---- rotations ---- */

enum { LANES = 16 };

/* LANES pairs at a time by way of a and b: y may be x, so all loads come before the stores. */
RP_BODY void rotate_body(const RpRopeParams *p, const float *x, float *y, const Angles *by) {
    const int  pairs = p->n_dims / 2;
    const bool norm  = p->mode == RP_ROPE_NORM;
    int        i     = 0;
    for (; i + LANES <= pairs; i += LANES) {
        const float *cosines = by->cosines + i, *sines = by->sines + i;
        float        a[LANES], b[LANES];
        for (int k = 0; k < LANES; k++) a[k] = norm ? x[2 * (i + k)] : x[i + k];
        for (int k = 0; k < LANES; k++) b[k] = norm ? x[2 * (i + k) + 1] : x[i + k + pairs];
        for (int k = 0; k < LANES; k++) {
            y[norm ? 2 * (i + k) : i + k]             = a[k] * cosines[k] - b[k] * sines[k];
            y[norm ? 2 * (i + k) + 1 : i + k + pairs] = a[k] * sines[k] + b[k] * cosines[k];
        }
    }
    for (; i < pairs; i++) {
        const int   first = norm ? 2 * i : i, second = norm ? 2 * i + 1 : i + pairs;
        const float a = x[first], b = x[second];
        y[first]  = a * by->cosines[i] - b * by->sines[i];
        y[second] = a * by->sines[i] + b * by->cosines[i];
    }
}
RP_VARIANTS(rotate, (const RpRopeParams *p, const float *x, float *y, const Angles *by), (p, x, y, by))

RpStatus rp_cpu_rope(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *x = &args->rope.x, *pos = &args->rope.pos, *factors = &args->rope.factors, *y = &args->dst;
    const RpRopeParams *p = &args->params->rope;
    RP_TRY(RP_CHECK(rope, args));
    const float  *f     = rp_is_present(&args->rope.factors) ? factors->data : NULL;
    const Angles *by    = NULL;
    int64_t       token = -1;
    for (int64_t r = rp_first_row(y, ctx); r < rp_end_row(y, ctx); r++) {
        const int64_t t = r / y->ne[1];
        if (t != token) {
            const int32_t at = ((const int32_t *)pos->data)[t];
            by               = angles_at(p, f, at < 0 ? 0 : at);
            token            = t;
        }
        const float *from = rp_view_row(x, r);
        float       *to   = rp_view_row(y, r);
        rotate(p, from, to, by);
        for (int64_t i = p->n_dims; i < x->ne[0]; i++) to[i] = from[i];
    }
    return RP_OK;
}
