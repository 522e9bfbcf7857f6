/* y = min(1, max_norm / (norm + 1e-6)) * x, as torch.nn.utils.clip_grad_norm_. A NaN norm makes all of y NaN; an
 * infinite one makes it 0, and NaN where x is infinite. Elements are divided among the workers. */
#include "fallback/rows.h"
#include "fallback/simd/simd.h"

#include "ops/rules.h"

RP_BODY void scaled_body(const float *x, float scale, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = scale * x[i];
}
RP_VARIANTS(scaled, (const float *x, float scale, int64_t n, float *y), (x, scale, n, y))

static void clip_range(const RpOpArgs *args, const float *x, float *y, int64_t row, int64_t from, int64_t n) {
    const float norm = *(const float *)args->grad_clip.norm.data;
    const float clip = args->params->grad_clip.max_norm / (norm + 1e-6f);
    (void)row, (void)from;
    if (x != y || !(clip >= 1.0f)) scaled(x, clip > 1.0f ? 1.0f : clip, n, y);
}

RpStatus rp_cpu_grad_clip(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(grad_clip, args));
    rp_for_ranges(args, ctx, clip_range);
    return RP_OK;
}
