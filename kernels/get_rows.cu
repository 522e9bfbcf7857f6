/* y[:,t] = scale * w[:,ids[t]], widened to f32; NaN where the id is no row: the device has nobody to tell.
 * geometry  one block of 128 threads a token, a thread a unit of 32 elements (quantised) or one
 * traffic   one row of the table a token */
#include "kernels/quants.cuh"

enum { THREADS = 128 };

__device__ static const char *row_of(const TensorView &w, const TensorView &ids, int64_t t) {
    const int32_t id = ((const int32_t *)ids.data)[t];
    return id >= 0 && id < w.ne[1] ? (const char *)w.data + (size_t)id * w.nb[1] : nullptr;
}

/* As op scale has it; 0: as it is. */
__device__ static float scaled(float v, float scale) { return scale != 0.0f ? fmaf(v, scale, 0.0f) : v; }

template <RpDtype T>
__global__ void __launch_bounds__(THREADS)
    quant_kernel(TensorView w, TensorView ids, TensorView y, float scale) {
    rp_begin();
    const int32_t id    = ((const int32_t *)ids.data)[blockIdx.x];
    const bool    real  = id >= 0 && id < w.ne[1];
    const int64_t units = w.ne[0] / RP_UNIT;
    float        *out   = (float *)rp_row(y, blockIdx.x);
    for (int64_t u = threadIdx.x; u < units; u += THREADS) {
        const int64_t group = Blocks<T>::first_group(u);
        Unit          v     = {};
        if (real) v = Blocks<T>::unpack(Blocks<T>::load(rp_planes<T>(w), id * units + u), (int)u);
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < RP_GROUP; i++)
                out[(group + k * Blocks<T>::STEP) * RP_GROUP + i] =
                    real ? scaled(rp_element(v, k, i), scale) : NAN;
    }
}

template <RpDtype T>
__global__ void __launch_bounds__(THREADS)
    float_kernel(TensorView w, TensorView ids, TensorView y, float scale) {
    rp_begin();
    const char *row = row_of(w, ids, blockIdx.x);
    float      *out = (float *)rp_row(y, blockIdx.x);
    for (int64_t i = threadIdx.x; i < w.ne[0]; i += THREADS)
        out[i] = row != nullptr ? scaled(rp_float_at(T, row, i), scale) : NAN;
}

static float scale_of(const OpArgs *args) {
    return args->params != nullptr ? args->params->get_rows.scale : 0.0f;
}

template <RpDtype T> static RpStatus quant_rows(const OpArgs *args, KernelCtx *ctx) {
    const LaunchShape shape = {dim3((unsigned)args->src[1].ne[0]), dim3(THREADS), 0};
    return RP_LAUNCH("get_rows", ctx, shape, quant_kernel<T>, args->src[0], args->src[1], args->dst,
                     scale_of(args));
}

template <RpDtype T> static RpStatus float_rows(const OpArgs *args, KernelCtx *ctx) {
    const LaunchShape shape = {dim3((unsigned)args->src[1].ne[0]), dim3(THREADS), 0};
    return RP_LAUNCH("get_rows", ctx, shape, float_kernel<T>, args->src[0], args->src[1], args->dst,
                     scale_of(args));
}

extern "C" RpStatus rp_cuda_get_rows(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_get_rows(args));
    const RpDtype type = args->src[0].dtype;
    if (type == RP_F32) return float_rows<RP_F32>(args, ctx);
    if (type == RP_F16) return float_rows<RP_F16>(args, ctx);
    if (type == RP_BF16) return float_rows<RP_BF16>(args, ctx);
    return RP_FOR_QUANT(type, quant_rows, args, ctx);
}
