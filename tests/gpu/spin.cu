/* The CUDA kernel of the op of test_hang.c: y[i] = x[i], once a flag in pinned host memory is set. Until then it spins.
 * The simulated device, whose kernels run in the thread of the host, never runs it before (sim_hang). */
#include "kernels/device/launch.cuh"

static volatile int32_t *flag;
static void             *mapped; /* its device address */

__global__ void spin_kernel(float *y, const float *x, const volatile int32_t *go, int64_t n) {
    rp_begin();
    while (*go == 0) {
    }
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

/* The flag, set at first; NULL if there is no memory. It is never freed, since a kernel may read it. */
extern "C" volatile int32_t *spin_flag(void) {
    void *p = nullptr;
    if (flag == nullptr && cudaHostAlloc(&p, sizeof *flag, cudaHostAllocMapped) == cudaSuccess &&
        cudaHostGetDevicePointer(&mapped, p, 0) == cudaSuccess) {
        flag  = (volatile int32_t *)p;
        *flag = 1;
    }
    return flag;
}

extern "C" RpStatus spin_cuda(const RpOpArgs *args, RpKernelCtx *ctx) {
    const int64_t     n     = rp_view_elems(&args->dst);
    const LaunchShape shape = {dim3(rp_blocks(n, 64)), dim3(64), 0};
    return RP_LAUNCH("spin", ctx, shape, spin_kernel, (float *)args->dst.data, (const float *)args->src[0].data,
                     (const volatile int32_t *)mapped, n);
}
