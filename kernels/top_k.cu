/* The indices of the k largest of x[:,t] + bias[:], largest first; of equals the lower index, NaN below
 * everything; as fallback/top_k.c.
 * geometry  one warp a token; the values in shared memory, 4*n bytes
 * traffic   k rounds of an argmax over the warp: k*n/32 reads of shared memory a lane */
#include "kernels/device.cuh"

/* What a block may have of shared memory without asking, at five bytes a value. */
enum { MAX_VALUES = 48 * 1024 / 5 };

/* Sorted keys: NaN is 0, then the order of floats; -0 counts as 0. */
__device__ static unsigned key_of(float v) {
    if (v != v) return 0;
    const unsigned bits = __float_as_uint(v == 0.0f ? 0.0f : v);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The lane-wise best of (key, lower index). */
__device__ static void best_of_warp(unsigned *key, int *index) {
    for (int lanes = RP_WARP / 2; lanes > 0; lanes /= 2) {
        const unsigned other = __shfl_xor_sync(RP_ALL_LANES, *key, lanes);
        const int      at    = __shfl_xor_sync(RP_ALL_LANES, *index, lanes);
        if (other > *key || (other == *key && at < *index)) *key = other, *index = at;
    }
}

__device__ static float group_score(const float *v, int size) {
    float best = -INFINITY, second = -INFINITY;
    for (int i = 0; i < size; i++) {
        if (v[i] > best)
            second = best, best = v[i];
        else if (v[i] > second)
            second = v[i];
    }
    return size > 1 ? best + second : best;
}

/* Marks what stands outside of the best groups with a state that is never chosen. */
__device__ static void drop_groups(const float *values, unsigned char *taken, int n, const TopKParams &p) {
    const int size = n / p.n_group, lane = (int)threadIdx.x;
    for (int g = lane; g < p.n_group; g += RP_WARP) {
        const float mine  = group_score(values + g * size, size);
        int         ahead = 0;
        for (int o = 0; o < p.n_group; o++) {
            const float other = group_score(values + o * size, size);
            if (other > mine || (o < g && !(mine > other))) ahead++;
        }
        for (int i = 0; i < size; i++) taken[g * size + i] = ahead >= p.n_group_used;
    }
}

__global__ void __launch_bounds__(RP_WARP)
    top_k_kernel(TensorView x, TensorView bias, TensorView y, TopKParams p) {
    RP_SHARED_DYNAMIC(float, values);
    const int      n = (int)x.ne[0], lane = (int)threadIdx.x;
    unsigned char *taken = (unsigned char *)(values + n);
    const float   *in    = (const float *)rp_row(x, blockIdx.x);
    int32_t       *ids   = (int32_t *)rp_row(y, blockIdx.x);
    for (int i = lane; i < n; i += RP_WARP) {
        values[i] = in[i] + (bias.data != nullptr ? ((const float *)bias.data)[i] : 0.0f);
        taken[i]  = 0;
    }
    __syncwarp();
    if (p.n_group > 1) {
        drop_groups(values, taken, n, p);
        __syncwarp();
    }
    for (int j = 0; j < p.k; j++) {
        unsigned key   = 0;
        int      index = n;
        for (int i = lane; i < n; i += RP_WARP) {
            const unsigned k = key_of(values[i]);
            if (taken[i] == 0 && (index == n || k > key)) key = k, index = i;
        }
        best_of_warp(&key, &index);
        __syncwarp(); /* a shuffle orders no memory: all have read what lane 0 writes */
        if (lane == 0) {
            ids[j]       = index;
            taken[index] = 1;
        }
        __syncwarp();
    }
}

extern "C" RpStatus rp_cuda_top_k(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_top_k(args));
    const TensorView *x = &args->src[0];
    if (x->ne[0] > MAX_VALUES)
        return rp_fail(RP_E_UNSUPPORTED,
                       "top_k: rows of %lld are more than the %d that fit the shared memory",
                       (long long)x->ne[0], MAX_VALUES);
    const LaunchShape shape = {dim3((unsigned)x->ne[1]), dim3(RP_WARP), (unsigned)x->ne[0] * 5};
    return RP_LAUNCH("top_k", ctx, shape, top_k_kernel, *x, args->src[1], args->dst, args->params->top_k);
}
