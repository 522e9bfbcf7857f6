/* y[:,t] = w[:,ids[t]], widened to f32; NaN where the id is no row: the device has nobody to tell.
 * geometry  one block of 128 threads a token, a thread sixteen elements (quantised) or one
 * traffic   one row of the table a token */
#include "kernels/quants.cuh"

enum { THREADS = 128 };

__device__ static const char *row_of(const TensorView &w, const TensorView &ids, int64_t t) {
    const int32_t id = ((const int32_t *)ids.data)[t];
    return id >= 0 && id < w.ne[1] ? (const char *)w.data + (size_t)id * w.nb[1] : nullptr;
}

template <RpDtype T>
__global__ void __launch_bounds__(THREADS) quant_kernel(TensorView w, TensorView ids, TensorView y) {
    const int      per_block = Blocks<T>::ELEMS / RP_GROUP;
    const uint8_t *row       = (const uint8_t *)row_of(w, ids, blockIdx.x);
    float         *out       = (float *)rp_row(y, blockIdx.x);
    for (int64_t g = threadIdx.x; g < w.ne[0] / RP_GROUP; g += THREADS) {
        Group v = {{0}, NAN, 0.0f};
        if (row != nullptr)
            v = Blocks<T>::group(row + g / per_block * Blocks<T>::BYTES, (int)(g % per_block));
        for (int i = 0; i < RP_GROUP; i++)
            out[g * RP_GROUP + i] = fmaf(v.scale, (float)(int8_t)(v.q[i / 4] >> (8 * (i % 4))), v.min);
    }
}

template <RpDtype T>
__global__ void __launch_bounds__(THREADS) float_kernel(TensorView w, TensorView ids, TensorView y) {
    const char *row = row_of(w, ids, blockIdx.x);
    float      *out = (float *)rp_row(y, blockIdx.x);
    for (int64_t i = threadIdx.x; i < w.ne[0]; i += THREADS)
        out[i] = row != nullptr ? rp_float_at(T, row, i) : NAN;
}

template <RpDtype T> static RpStatus quant_rows(const OpArgs *args, KernelCtx *ctx) {
    const LaunchShape shape = {dim3((unsigned)args->src[1].ne[0]), dim3(THREADS), 0};
    return RP_LAUNCH("get_rows", ctx, shape, quant_kernel<T>, args->src[0], args->src[1], args->dst);
}

template <RpDtype T> static RpStatus float_rows(const OpArgs *args, KernelCtx *ctx) {
    const LaunchShape shape = {dim3((unsigned)args->src[1].ne[0]), dim3(THREADS), 0};
    return RP_LAUNCH("get_rows", ctx, shape, float_kernel<T>, args->src[0], args->src[1], args->dst);
}

extern "C" RpStatus rp_cuda_get_rows(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_get_rows(args));
    const RpDtype type = args->src[0].dtype;
    if (type == RP_F32) return float_rows<RP_F32>(args, ctx);
    if (type == RP_F16) return float_rows<RP_F16>(args, ctx);
    if (type == RP_BF16) return float_rows<RP_BF16>(args, ctx);
    return RP_FOR_QUANT(type, quant_rows, args, ctx);
}
