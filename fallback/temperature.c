/* y[t] = 1 + scale * ln(1 + floor(pos[t] / length)); 1 for a negative position, that of a padding token. */
#include "fallback/rows.h"

#include <math.h>

RpStatus rp_cpu_temperature(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(temperature, args));
    const RpTemperatureParams *p   = &args->params->temperature;
    const int32_t             *pos = args->temperature.pos.data;
    float                     *y   = args->dst.data;
    for (int64_t t = ctx->ith; t < rp_view_elems(&args->temperature.pos); t += ctx->nth)
        y[t] = (float)(1.0 + (double)p->scale * log(1.0 + (double)(pos[t] > 0 ? pos[t] / p->length : 0)));
    return RP_OK;
}
