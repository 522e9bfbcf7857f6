/* Pairs of x[:,h,t] turned by theta_i(pos[t]): pairs (2i, 2i+1) or (i, i + n_dims/2), the rest copied.
 *
 * theta_i = pos * base^(-2i/n_dims) / factor_i is the extrapolated angle; linear scaling uses freq_scale *
 * theta_i, and YaRN mixes the two. */
#include "fallback/rows.h"

#include "reprise/yarn.h"

#include <string.h>

enum { MAX_PAIRS = RP_ROPE_MAX_DIMS / 2 };

/* Of one token, as a worker last wanted them: all layers of a step turn by the same. */
typedef struct Angles {
    bool       known;
    RopeParams params;
    int32_t    pos;
    float      factors[MAX_PAIRS]; /* 1 without factors */
    float      cosines[MAX_PAIRS], sines[MAX_PAIRS];
} Angles;

static bool is_known(const Angles *a, const RopeParams *p, const float *factors, int32_t pos) {
    if (!a->known || a->pos != pos || memcmp(&a->params, p, sizeof *p) != 0) return false;
    for (int i = 0; i < p->n_dims / 2; i++)
        if (a->factors[i] != (factors != NULL ? factors[i] : 1.0f)) return false;
    return true;
}

static const Angles *angles_at(const RopeParams *p, const float *factors, int32_t pos) {
    static _Thread_local Angles a;
    if (is_known(&a, p, factors, pos)) return &a;
    const YarnRamp ramp      = rp_yarn_ramp(p);
    const double   step      = pow((double)p->freq_base, -2.0 / p->n_dims);
    double         frequency = 1.0;
    for (int i = 0; i < p->n_dims / 2; i++, frequency *= step) {
        a.factors[i]              = factors != NULL ? factors[i] : 1.0f;
        const double extrapolated = pos * frequency / (double)a.factors[i];
        const double theta        = rp_yarn_angle(p, &ramp, i, extrapolated);
        a.cosines[i]              = (float)(cos(theta) * ramp.magnitude);
        a.sines[i]                = (float)(sin(theta) * ramp.magnitude);
    }
    a.params = *p;
    a.pos    = pos;
    a.known  = true;
    return &a;
}

static void turn(const RopeParams *p, const float *x, float *y, int64_t n, const Angles *by) {
    const int pairs = p->n_dims / 2, next = p->mode == RP_ROPE_NORM ? 1 : pairs,
              step = p->mode == RP_ROPE_NORM ? 2 : 1;
    for (int i = 0; i < pairs; i++) {
        const float a = x[i * step], b = x[i * step + next];
        y[i * step]        = a * by->cosines[i] - b * by->sines[i];
        y[i * step + next] = a * by->sines[i] + b * by->cosines[i];
    }
    for (int64_t i = p->n_dims; i < n; i++) y[i] = x[i];
}

RpStatus rp_cpu_rope(const OpArgs *args, KernelCtx *ctx) {
    const TensorView *x = &args->src[0], *pos = &args->src[1], *factors = &args->src[2], *y = &args->dst;
    const RopeParams *p = &args->params->rope;
    RP_TRY(rp_check_rope(args));
    const float  *f     = rp_has_src(args, 2) ? factors->data : NULL;
    const Angles *by    = NULL;
    int64_t       token = -1;
    for (int64_t r = rp_first_row(y, ctx); r < rp_end_row(y, ctx); r++) {
        const int64_t t = r / y->ne[1];
        if (t != token) {
            const int32_t at = ((const int32_t *)pos->data)[t];
            by               = angles_at(p, f, at < 0 ? 0 : at);
            token            = t;
        }
        turn(p, rp_view_row(x, r), rp_view_row(y, r), x->ne[0], by);
    }
    return RP_OK;
}
