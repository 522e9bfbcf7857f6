/* y = norm(x) * silu(z), or x * sigmoid(z), row by row, with the arithmetic of the separate ops: the same bits. */
#include "fallback/rows.h"
#include "fallback/simd/float.h"
#include "fallback/squares.h"

#include <math.h>

/* y[i] = f(z[i]) * (x[i] * scale). scale: of the norm. */
RP_BODY void open_silu_body(const float *x, const float *z, float scale, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = z[i] / (1.0f + rp_expf(-z[i])) * (x[i] * scale);
}
RP_VARIANTS(open_silu, (const float *x, const float *z, float scale, int64_t n, float *y), (x, z, scale, n, y))

RP_BODY void open_sigmoid_body(const float *x, const float *z, float scale, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = 1.0f / (1.0f + rp_expf(-z[i])) * (x[i] * scale);
}
RP_VARIANTS(open_sigmoid, (const float *x, const float *z, float scale, int64_t n, float *y), (x, z, scale, n, y))

/* The same with the weight of the norm, x[i] * scale * w[i]: compilers vectorise no loop that tests w. */
RP_BODY void open_silu_norm_body(const float *x, const float *z, const float *w, float scale, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = z[i] / (1.0f + rp_expf(-z[i])) * (x[i] * scale * w[i]);
}
RP_VARIANTS(open_silu_norm, (const float *x, const float *z, const float *w, float scale, int64_t n, float *y),
            (x, z, w, scale, n, y))

RP_BODY void open_sigmoid_norm_body(const float *x, const float *z, const float *w, float scale, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = 1.0f / (1.0f + rp_expf(-z[i])) * (x[i] * scale * w[i]);
}
RP_VARIANTS(open_sigmoid_norm, (const float *x, const float *z, const float *w, float scale, int64_t n, float *y),
            (x, z, w, scale, n, y))

RpStatus rp_cpu_gated(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView  *x = &args->gated.x, *z = &args->gated.z, *y = &args->dst;
    const RpGatedParams *p = &args->params->gated;
    RP_TRY(RP_CHECK(gated, args));
    const bool    same = memcmp(x->ne, z->ne, sizeof x->ne) == 0;
    const int64_t n    = x->ne[0];
    const float  *w    = rp_is_present(&args->gated.w) ? args->gated.w.data : NULL;
    for (int64_t r = rp_first_row(y, ctx); r < rp_end_row(y, ctx); r++) {
        const float *in = rp_view_row(x, r), *gate = same ? rp_view_row(z, r) : (const float *)z->data + r * n;
        const float  scale = p->norm ? (float)(1.0 / sqrt(rp_square_sum(in, n) / (double)n + (double)p->eps)) : 1.0f;
        float       *out   = rp_view_row(y, r);
        if (w != NULL)
            (p->silu ? open_silu_norm : open_sigmoid_norm)(in, gate, w, scale, n, out);
        else
            (p->silu ? open_silu : open_sigmoid)(in, gate, scale, n, out);
    }
    return RP_OK;
}
