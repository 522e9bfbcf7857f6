/* y[:,t] = scale * w[:,ids[t]], dequantised to f32: the embedding lookup; without ids all rows. Workers take every nth
 * row. The id -1, the position of padding, gives zeros. Another id outside the table is an error, as ids are input
 * (I11). */
#include "fallback/quants/quants.h"
#include "ops/rules.h"

#include <string.h>

RpStatus rp_cpu_get_rows(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *w = &args->get_rows.w, *ids = &args->get_rows.ids, *y = &args->dst;
    const float         scale = args->params != NULL ? args->params->get_rows.scale : 0.0f;
    RP_TRY(RP_CHECK(get_rows, args));
    const bool given = rp_is_present(&args->get_rows.ids);
    for (int64_t t = ctx->ith; t < y->ne[1]; t += ctx->nth) {
        const int64_t id  = given ? ((const int32_t *)ids->data)[t] : t;
        float        *row = rp_view_row(y, t);
        if (id == -1) {
            memset(row, 0, (size_t)w->ne[0] * sizeof(float));
            continue;
        }
        if (id < 0 || id >= w->ne[1])
            return rp_fail(RP_E_ARG, "get_rows: id %lld at %lld, the table has %lld rows", (long long)id, (long long)t,
                           (long long)w->ne[1]);
        rp_dequantize_row(w->dtype, (const char *)w->data + (size_t)id * w->nb[1], w->ne[0], row);
        for (int64_t i = 0; i < w->ne[0] && scale != 0.0f; i++)
            row[i] = row[i] * scale + 0.0f; /* the bits of op scale with bias 0, which turns -0 into +0 */
    }
    return RP_OK;
}
