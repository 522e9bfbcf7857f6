/* dw[:,r] = scale * sum of dy[:,t] over the t with ids[t] = r, in the order of t
 * geometry  dw is cleared by one thread per element. Then one block of 256 threads per token: the first token of an id
 *           adds the rows of all tokens with that id; the blocks of the others end
 * traffic   dw once, dy once; each block reads all ids, which stay in L1: 4*t^2 bytes
 * numerics  fma in f32, in the order of t: no atomics, so the order is fixed (I8) */
#include "kernels/device/device.cuh"

#include "ops/rules.h"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS) clear_kernel(float *y, int64_t n) {
    rp_begin();
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = 0.0f;
}

__global__ void __launch_bounds__(THREADS) get_rows_backward_kernel(const float *dy, const int32_t *ids, float *dw,
                                                                    int64_t n, int tokens, int rows, float scale) {
    rp_begin();
    const int32_t id = ids[blockIdx.x];
    if (id < 0 || id >= rows) return;
    for (int t = 0; t < (int)blockIdx.x; t++)
        if (ids[t] == id) return;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        float sum = 0.0f;
        for (int t = (int)blockIdx.x; t < tokens; t++)
            if (ids[t] == id) sum = fmaf(scale, dy[(size_t)t * (size_t)n + i], sum);
        dw[(size_t)id * (size_t)n + i] = sum;
    }
}

} // namespace

extern "C" RpStatus rp_cuda_get_rows_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(get_rows_backward, args));
    const RpGetRowsBackwardParams *p = &args->params->get_rows_backward;
    const int64_t                  n = rp_view_elems(&args->dst), tokens = args->get_rows_backward.ids.ne[0];
    const LaunchShape              all = {dim3(rp_blocks(n, THREADS)), dim3(THREADS), 0},
                      shape            = {dim3((unsigned)tokens), dim3(THREADS), 0};
    float *dw                          = (float *)args->dst.data;
    RP_TRY(RP_LAUNCH("get_rows_backward", ctx, all, clear_kernel, dw, n));
    return RP_LAUNCH("get_rows_backward", ctx, shape, get_rows_backward_kernel,
                     (const float *)args->get_rows_backward.dy.data, (const int32_t *)args->get_rows_backward.ids.data,
                     dw, args->dst.ne[0], (int)tokens, p->rows, p->scale != 0.0f ? p->scale : 1.0f);
}
