/* y = norm(x) * silu(z), or x * sigmoid(z), row by row, with the arithmetic of the separate ops: the same bits. */
#include "fallback/rows.h"
#include "fallback/simd/float.h"
#include "fallback/squares.h"

#include <math.h>

/* scale: of the norm. w: its weight, read if `weighted`. Both flags are constants, because compilers vectorise no loop
 * that tests them. */
RP_BODY void open_row(const float *x, const float *z, const float *w, float scale, int64_t n, float *y, bool weighted,
                      bool silu) {
    for (int64_t i = 0; i < n; i++) {
        const float normed = weighted ? x[i] * scale * w[i] : x[i] * scale;
        y[i]               = (silu ? z[i] : 1.0f) / (1.0f + rp_expf(-z[i])) * normed;
    }
}

RP_BODY void open_body(const float *x, const float *z, const float *w, float scale, int64_t n, float *y, bool silu) {
    if (w != NULL && silu)
        open_row(x, z, w, scale, n, y, true, true);
    else if (w != NULL)
        open_row(x, z, w, scale, n, y, true, false);
    else if (silu)
        open_row(x, z, w, scale, n, y, false, true);
    else
        open_row(x, z, w, scale, n, y, false, false);
}
RP_VARIANTS(open, (const float *x, const float *z, const float *w, float scale, int64_t n, float *y, bool silu),
            (x, z, w, scale, n, y, silu))

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
        open(in, gate, w, scale, n, rp_view_row(y, r), p->silu != 0);
    }
    return RP_OK;
}
