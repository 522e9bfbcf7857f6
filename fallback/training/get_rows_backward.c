/* dw[:,r] = scale * sum of dy[:,t] over the t with ids[t] = r: the gradient of a table of embeddings. Columns are
 * divided among the workers, and each adds in the order of t, so the number of workers changes no bit (I8). Ids outside
 * of the table are ignored. */
#include "fallback/rows.h"
#include "fallback/simd/float.h"

#include "ops/rules.h"

#include <string.h>

enum { LANES = 16 };

RP_BODY void add_scaled_body(const float *x, float w, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(w, x[i], y[i]);
}
RP_VARIANTS(add_scaled, (const float *x, float w, float *y, int64_t n), (x, w, y, n))

RpStatus rp_cpu_get_rows_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpGetRowsBackwardParams *p  = &args->params->get_rows_backward;
    const RpTensorView            *dy = &args->get_rows_backward.dy, *dw = &args->dst;
    const int32_t                 *ids = args->get_rows_backward.ids.data;
    RP_TRY(RP_CHECK(get_rows_backward, args));
    const int64_t n = dw->ne[0], groups = (n + LANES - 1) / LANES, from = groups * ctx->ith / ctx->nth * LANES;
    const int64_t last = groups * (ctx->ith + 1) / ctx->nth * LANES, count = (last < n ? last : n) - from;
    const float   scale = p->scale != 0.0f ? p->scale : 1.0f;
    if (count <= 0) return RP_OK;
    for (int64_t r = 0; r < p->rows; r++) memset((float *)rp_view_row(dw, r) + from, 0, (size_t)count * sizeof(float));
    for (int64_t t = 0; t < args->get_rows_backward.ids.ne[0]; t++)
        if (ids[t] >= 0 && ids[t] < p->rows)
            add_scaled((const float *)rp_view_row(dy, t) + from, scale, (float *)rp_view_row(dw, ids[t]) + from, count);
    return RP_OK;
}
