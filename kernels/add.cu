/* y[i0,i1,i2,i3] = a[i0,i1,i2,i3] + b[i0 % ne0,i1 % ne1,i2 % ne2,i3 % ne3], where b is [ne0,ne1,ne2,ne3].
 * geometry  one thread per element, blocks of 256 (map.cuh)
 * traffic   a, b and y once: 4*(2*elements + elements of b) bytes
 * numerics  one f32 addition */
#include "kernels/device/map.cuh"

namespace {

struct Add {
    __device__ float operator()(float a, float b) const { return a + b; }
};

} // namespace

extern "C" RpStatus rp_cuda_add(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(add, args));
    return rp_map2("add", args, ctx, Add());
}
