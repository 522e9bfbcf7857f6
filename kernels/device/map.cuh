/* map.cuh - element-wise kernels: y = f(x), and y = f(a, b) with b broadcast. All f32.
 *     contiguous views of one shape: thread i has elements 4i to 4i + 3
 *     any views: thread i has element i % ne[0] of row i / ne[0]
 * geometry  blocks of 256 threads
 * traffic   each source and the result once: 4*(sources + 1)*elements bytes
 * x and y may be the same memory (I6): a thread reads its elements before it writes them. */
#ifndef KERNELS_DEVICE_MAP_CUH
#define KERNELS_DEVICE_MAP_CUH

#include "kernels/device/device.cuh"

enum { RP_MAP_THREADS = 256, RP_MAP_ELEMS = 4 };

__device__ static inline void rp_map_put(void *y, float v0, float v1, float v2, float v3) {
    rp_put16(y, make_uint4(__float_as_uint(v0), __float_as_uint(v1), __float_as_uint(v2), __float_as_uint(v3)));
}

/* flat: the number of elements, if four of them are a thread's. */
template <class F>
__global__ void __launch_bounds__(RP_MAP_THREADS) rp_map_kernel(RpTensorView x, RpTensorView y, int64_t flat, F f) {
    rp_begin();
    const int64_t i = (int64_t)blockIdx.x * RP_MAP_THREADS + threadIdx.x, n = y.ne[0];
    if (flat > 0) {
        if (RP_MAP_ELEMS * i >= flat) return;
        const float4 v = rp_get_float4((const float *)x.data + RP_MAP_ELEMS * i);
        rp_map_put((float *)y.data + RP_MAP_ELEMS * i, f(v.x), f(v.y), f(v.z), f(v.w));
        return;
    }
    if (i >= n * y.ne[1] * y.ne[2] * y.ne[3]) return;
    ((float *)rp_row(y, i / n))[i % n] = f(((const float *)rp_row(x, i / n))[i % n]);
}

template <class F>
__global__ void __launch_bounds__(RP_MAP_THREADS)
    rp_map2_kernel(RpTensorView a, RpTensorView b, RpTensorView y, int64_t flat, F f) {
    rp_begin();
    const int64_t i = (int64_t)blockIdx.x * RP_MAP_THREADS + threadIdx.x, n = y.ne[0];
    if (flat > 0) {
        if (RP_MAP_ELEMS * i >= flat) return;
        const float4 v = rp_get_float4((const float *)a.data + RP_MAP_ELEMS * i),
                     w = rp_get_float4((const float *)b.data + RP_MAP_ELEMS * i);
        rp_map_put((float *)y.data + RP_MAP_ELEMS * i, f(v.x, w.x), f(v.y, w.y), f(v.z, w.z), f(v.w, w.w));
        return;
    }
    if (i >= n * y.ne[1] * y.ne[2] * y.ne[3]) return;
    const float other                  = rp_repeated_row(a, b, i / n)[i % n % b.ne[0]];
    ((float *)rp_row(y, i / n))[i % n] = f(((const float *)rp_row(a, i / n))[i % n], other);
}

/* The number of elements of n views of one shape, if all are contiguous, whole fours and aligned; else 0. */
static inline int64_t rp_map_flat(const RpTensorView *const *v, int n) {
    const int64_t elems = rp_view_elems(v[0]);
    for (int i = 0; i < n; i++)
        if (rp_view_elems(v[i]) != elems || !rp_view_is_contiguous(v[i]) || (uintptr_t)v[i]->data % 16 != 0) return 0;
    return elems % RP_MAP_ELEMS == 0 ? elems : 0;
}

static inline LaunchShape rp_map_shape(const RpTensorView &y, int64_t flat) {
    const int64_t threads = flat > 0 ? flat / RP_MAP_ELEMS : rp_view_elems(&y);
    return {dim3(rp_blocks(threads, RP_MAP_THREADS)), dim3(RP_MAP_THREADS), 0};
}

template <class F> static RpStatus rp_map(const char *op, const RpOpArgs *args, RpKernelCtx *ctx, F f) {
    const RpTensorView *const views[] = {&args->unary.x, &args->dst};
    const int64_t             flat    = rp_map_flat(views, 2);
    return RP_LAUNCH(op, ctx, rp_map_shape(args->dst, flat), rp_map_kernel<F>, args->unary.x, args->dst, flat, f);
}

/* A source of as many elements as the result has its shape: it is broadcast by whole multiples. */
template <class F> static RpStatus rp_map2(const char *op, const RpOpArgs *args, RpKernelCtx *ctx, F f) {
    const RpTensorView *const views[] = {&args->binary.a, &args->binary.b, &args->dst};
    const int64_t             flat    = rp_map_flat(views, 3);
    return RP_LAUNCH(op, ctx, rp_map_shape(args->dst, flat), rp_map2_kernel<F>, args->binary.a, args->binary.b,
                     args->dst, flat, f);
}

#endif
