/* A step of AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101). The order of operations is that of torch.optim.AdamW
 * (_single_tensor_adamw); each arrow rounds to f32:
 *
 *     decay     <- 1 - lr * weight_decay                 root      <- sqrt(1 - beta2^step)
 *     step_size <- lr / (1 - beta1^step)                 the powers and differences in double, rounded once
 *
 *     p <- p * decay
 *     m <- fma(1 - beta1, g - m, m)                      with beta1 < 0.5: fma(-beta1, g - m, g), as torch.lerp
 *     v <- fma((1 - beta2) * g, g, beta2 * v)
 *     p <- p - step_size * m / (sqrt(v) / root + eps)    each operation rounded
 *
 * Ranges of elements are divided among the workers. A norm that is NaN or infinite skips the step. */
#include "fallback/rows.h"
#include "fallback/simd/simd.h"

#include "ops/rules.h"

#include <math.h>

typedef struct Step {
    float decay, blend, beta2, rest2, root, step_size, eps;
    bool  from_grad; /* m = grad + blend * (grad - m), else m + blend * (grad - m) */
} Step;

RP_BODY void update_body(const Step *s, const float *g, float *p, float *m, float *v, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float moment   = fmaf(s->blend, g[i] - m[i], s->from_grad ? g[i] : m[i]);
        const float variance = fmaf(s->rest2 * g[i], g[i], s->beta2 * v[i]);
        p[i]                 = p[i] * s->decay - s->step_size * moment / (sqrtf(variance) / s->root + s->eps);
        m[i]                 = moment;
        v[i]                 = variance;
    }
}
RP_VARIANTS(update,
            (const Step *s, const float *restrict g, float *restrict p, float *restrict m, float *restrict v,
             int64_t     n),
            (s, g, p, m, v, n))

static Step step_of(const RpAdamwParams *p, float lr, int32_t step) {
    const float rest1 = 1.0f - p->beta1, of_step1 = (float)(1.0 - pow((double)p->beta1, (double)step)),
                of_step2 = (float)(1.0 - pow((double)p->beta2, (double)step));
    return (Step){.decay     = fmaf(-lr, p->weight_decay, 1.0f),
                  .from_grad = rest1 >= 0.5f,
                  .blend     = rest1 < 0.5f ? rest1 : rest1 - 1.0f,
                  .beta2     = p->beta2,
                  .rest2     = 1.0f - p->beta2,
                  .root      = sqrtf(of_step2),
                  .step_size = lr / of_step1,
                  .eps       = p->eps};
}

RpStatus rp_cpu_adamw(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpAdamwParams *p = &args->params->adamw;
    RP_TRY(RP_CHECK(adamw, args));
    const bool    data_lr = rp_is_present(&args->adamw.lr), data_step = rp_is_present(&args->adamw.step);
    const float   lr   = data_lr ? *(const float *)args->adamw.lr.data : p->lr;
    const int32_t step = data_step ? *(const int32_t *)args->adamw.step.data : p->step;
    if (step < 1) return rp_fail(RP_E_ARG, "adamw: step %d: must be at least 1", step);
    if (rp_is_present(&args->adamw.norm) && !isfinite(*(const float *)args->adamw.norm.data)) return RP_OK;
    const Step    s = step_of(p, lr, step);
    const int64_t n = rp_view_elems(&args->dst), groups = (n + 15) / 16; /* of a cache line */
    const int64_t from = groups * ctx->ith / ctx->nth * 16, last = groups * (ctx->ith + 1) / ctx->nth * 16;
    update(&s, (const float *)args->adamw.grad.data + from, (float *)args->dst.data + from,
           (float *)args->adamw.m.data + from, (float *)args->adamw.v.data + from, (last < n ? last : n) - from);
    return RP_OK;
}
