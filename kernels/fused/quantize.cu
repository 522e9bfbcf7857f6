/* y = x quantised to q8_act: scale = max|x| / 127 over 32 elements, q = round(x / scale) to nearest even
 * (quantize.cuh has the layout).
 * geometry  eight elements a thread, blocks of 256, grid (rows, blocks of a row)
 * traffic   x once, y once: 5.375 bytes per element
 * numerics  a block with a NaN or an infinity gets a NaN scale */
#include "kernels/device/quantize.cuh"

namespace {

enum { THREADS = 256, ELEMS = 8 };

/* aligned: rows of x begin at multiples of 16 bytes. */
__global__ void __launch_bounds__(THREADS) quantize_kernel(RpTensorView x, RpTensorView y, bool aligned) {
    rp_begin();
    const int    n = (int)x.ne[0], i = (int)(blockIdx.y * THREADS + threadIdx.x);
    const bool   keep = ELEMS * i < n; /* whole blocks of 32 elements, so of four lanes */
    const float *row  = (const float *)rp_row(x, blockIdx.x) + (keep ? ELEMS * i : 0);
    float        v[ELEMS];
    if (aligned) {
        const float4 low = rp_get_float4(row), high = rp_get_float4(row + 4);
        v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
        v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
    } else {
        for (int k = 0; k < ELEMS; k++) v[k] = row[k];
    }
    rp_quantize8<true>(v, rp_row(y, blockIdx.x), n, i, keep);
}

} // namespace

extern "C" RpStatus rp_cuda_quantize(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(quantize, args));
    const RpTensorView &x    = args->quantize.x;
    const int64_t       rows = rp_view_rows(&x), blocks = rp_blocks(x.ne[0], THREADS * ELEMS);
    if (rows > INT32_MAX || blocks > 65535)
        return rp_fail(RP_E_UNSUPPORTED, "quantize: %lld rows of %lld elements: must be at most %d of %d",
                       (long long)rows, (long long)x.ne[0], INT32_MAX, 65535 * THREADS * ELEMS);
    const bool        aligned = ((uintptr_t)x.data | x.nb[1] | x.nb[2] | x.nb[3]) % 16 == 0;
    const LaunchShape shape   = {dim3((unsigned)rows, (unsigned)blocks), dim3(THREADS), 0};
    return RP_LAUNCH("quantize", ctx, shape, quantize_kernel, x, args->dst, aligned);
}
