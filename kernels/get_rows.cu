/* y[:,t] = scale * w[:,ids[t]] in f32: the embedding of each token; without ids all rows. The id -1 gives
 * zeros. Another id outside of w gives NaN, because a kernel cannot return an error.
 * geometry  one block of 256 threads per token; a thread takes fragments (quantised) or elements
 * traffic   one row of w and one of y per token
 * numerics  dequantised with one fused multiply-add, then one multiplication by the scale */
#include "kernels/device/weights.cuh"

namespace {

enum { THREADS = 256, LOADS = 8 }; /* LOADS: float elements that a thread has in flight */

__device__ int64_t id_of(const RpTensorView &ids, int64_t t) {
    return ids.data != nullptr ? ((const int32_t *)ids.data)[t] : t;
}

__device__ float without_row(int64_t id) { return id == -1 ? 0.0f : NAN; }

/* fmaf(v, scale, 0), as op scale computes it, so that fusing the two changes no bit. A scale of 0 means none. */
__device__ float scaled(float v, float scale) { return scale != 0.0f ? fmaf(v, scale, 0.0f) : v; }

template <RpDtype T>
__global__ void __launch_bounds__(THREADS) quant_kernel(RpTensorView w, RpTensorView ids, RpTensorView y, float scale) {
    rp_begin();
    const int64_t id      = id_of(ids, blockIdx.x);
    const bool    valid   = id >= 0 && id < w.ne[1];
    const int64_t n_frags = w.ne[0] / QuantType<T>::FRAG;
    float        *out     = (float *)rp_row(y, blockIdx.x);
    for (int64_t f = threadIdx.x; f < n_frags; f += THREADS) {
        const typename Blocks<T>::Lane lane((int)f);
        FragmentOf<T>                  v = {};
        if (valid)
            v = Blocks<T>::dequantize(Blocks<T>::load(Blocks<T>::row(rp_planes<T>(w), id * n_frags), (unsigned)f),
                                      lane);
        for (int k = 0; k < QuantType<T>::FRAG / RP_SUM_BLOCK; k++)
            for (int i = 0; i < RP_SUM_BLOCK; i++)
                out[rp_sum_block<T>(f, k) * RP_SUM_BLOCK + i] =
                    valid ? scaled(rp_element<T>(v, k, i), scale) : without_row(id);
    }
}

template <RpDtype T>
__global__ void __launch_bounds__(THREADS) float_kernel(RpTensorView w, RpTensorView ids, RpTensorView y, float scale) {
    rp_begin();
    const int64_t id    = id_of(ids, blockIdx.x);
    const bool    valid = id >= 0 && id < w.ne[1];
    const char   *row   = (const char *)w.data + (valid ? (size_t)id * w.nb[1] : 0);
    float        *out   = (float *)rp_row(y, blockIdx.x);
    const int     n     = (int)w.ne[0];
    typedef std::conditional_t<T == RP_F32, float, uint16_t> Element;
    for (int i0 = (int)threadIdx.x; i0 < n; i0 += LOADS * THREADS) {
        Element v[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; k++) { /* without conditions or conversions, so that all are in flight */
            const int i = i0 + k * THREADS;
            v[k]        = ((const Element *)row)[i < n ? i : n - 1];
        }
#pragma unroll
        for (int k = 0; k < LOADS; k++)
            if (i0 + k * THREADS < n)
                out[i0 + k * THREADS] = valid ? scaled(rp_float_at(T, (const char *)&v[k], 0), scale) : without_row(id);
    }
}

float scale_of(const RpOpArgs *args) { return args->params != nullptr ? args->params->get_rows.scale : 0.0f; }

template <RpDtype T> RpStatus quant_rows(const RpOpArgs *args, RpKernelCtx *ctx) {
    const LaunchShape shape = {dim3((unsigned)args->dst.ne[1]), dim3(THREADS), 0};
    return RP_LAUNCH("get_rows", ctx, shape, quant_kernel<T>, args->get_rows.w, args->get_rows.ids, args->dst,
                     scale_of(args));
}

template <RpDtype T> RpStatus float_rows(const RpOpArgs *args, RpKernelCtx *ctx) {
    const LaunchShape shape = {dim3((unsigned)args->dst.ne[1]), dim3(THREADS), 0};
    return RP_LAUNCH("get_rows", ctx, shape, float_kernel<T>, args->get_rows.w, args->get_rows.ids, args->dst,
                     scale_of(args));
}

} // namespace

extern "C" RpStatus rp_cuda_get_rows(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(get_rows, args));
    const RpDtype type = args->get_rows.w.dtype;
    if (type == RP_F32) return float_rows<RP_F32>(args, ctx);
    if (type == RP_F16) return float_rows<RP_F16>(args, ctx);
    if (type == RP_BF16) return float_rows<RP_BF16>(args, ctx);
    return RP_FOR_QUANT(type, quant_rows, args, ctx);
}
