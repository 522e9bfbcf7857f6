/* top_k.cuh - the indices of the k largest of a row in shared memory. By one warp: k rounds of an argmax, each marking
 * its result as taken. k is the number of experts per token, so no sort is needed. By a block, if the row has no more
 * elements than the block has threads: each thread counts the elements before its own, without a chain of rounds. */
#ifndef KERNELS_DEVICE_TOP_K_CUH
#define KERNELS_DEVICE_TOP_K_CUH

#include "kernels/device/device.cuh"

/* An unsigned key with the order of the floats: negative numbers have all bits inverted, others the sign bit set.
 * NaN is 0, below everything; -0 counts as 0. */
__device__ static inline unsigned rp_sorted_key(float v) {
    if (v != v) return 0;
    const unsigned bits = __float_as_uint(v == 0.0f ? 0.0f : v);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The largest key over the warp, for every lane; among equal keys the lower index. */
__device__ static inline void rp_best_of_warp(unsigned *key, int *index) {
    for (int lanes = RP_WARP / 2; lanes > 0; lanes /= 2) {
        const unsigned other = __shfl_xor_sync(RP_ALL_LANES, *key, lanes);
        const int      at    = __shfl_xor_sync(RP_ALL_LANES, *index, lanes);
        if (other > *key || (other == *key && at < *index)) *key = other, *index = at;
    }
}

/* Score of an expert group, as DeepSeek defines it: the sum of its two largest values. inf - inf counts as -inf: with
 * NaN the groups would have no order, and possibly none would take part. */
__device__ static inline float rp_group_score(const float *v, int size) {
    float best = -INFINITY, second = -INFINITY;
    for (int i = 0; i < size; i++) {
        if (v[i] > best)
            second = best, best = v[i];
        else if (v[i] > second)
            second = v[i];
    }
    const float sum = size > 1 ? best + second : best;
    return sum == sum ? sum : -INFINITY;
}

/* Keeps the n_group_used expert groups with the best scores and marks the elements of all others as taken. `ahead`
 * is the rank of group g: groups with a better score, and groups of a lower index whose score is not worse. */
__device__ static inline void rp_drop_groups(const float *values, unsigned char *taken, int n, const RpTopKParams &p) {
    const int size = n / p.n_group, lane = (int)threadIdx.x % RP_WARP;
    for (int g = lane; g < p.n_group; g += RP_WARP) {
        const float mine  = rp_group_score(values + g * size, size);
        int         ahead = 0;
        for (int o = 0; o < p.n_group; o++) {
            const float other = rp_group_score(values + o * size, size);
            if (other > mine || (o < g && !(mine > other))) ahead++;
        }
        for (int i = 0; i < size; i++) taken[g * size + i] = ahead >= p.n_group_used;
    }
}

/* Called by a whole warp, whose lanes have written values[n] and zeros to taken[n]. ids[0..k): largest first, among
 * equals the lower index, NaN below everything. */
__device__ static inline void rp_top_k(const float *values, unsigned char *taken, int n, const RpTopKParams &p,
                                       int32_t *ids) {
    const int lane = (int)threadIdx.x % RP_WARP;
    __syncwarp();
    if (p.n_group > 1) {
        rp_drop_groups(values, taken, n, p);
        __syncwarp();
    }
    for (int j = 0; j < p.k; j++) {
        unsigned key   = 0;
        int      index = n;
        for (int i = lane; i < n; i += RP_WARP) {
            const unsigned k = rp_sorted_key(values[i]);
            if (taken[i] == 0 && (index == n || k > key)) key = k, index = i;
        }
        rp_best_of_warp(&key, &index);
        __syncwarp(); /* a shuffle orders no memory: all have read what lane 0 writes */
        if (lane == 0) {
            ids[j]       = index;
            taken[index] = 1;
        }
        __syncwarp();
    }
}

/* The same by a block of at least n threads, of which thread i has written values[i] and 0 to taken[i]; keys[n] is
 * scratch. The rank of an element is the number of larger ones, and of equal ones before it. Worked example:
 *
 *     values  3 7 7 1     ranks  2 0 1 3     k = 2: ids 1 2
 *
 * A key is one more than rp_sorted_key, and 0 for elements of a group that is left out. */
__device__ static inline void rp_top_k_by_rank(const float *values, unsigned char *taken, unsigned *keys, int n,
                                               const RpTopKParams &p, int32_t *ids) {
    const int i = (int)threadIdx.x;
    if (p.n_group > 1) {
        __syncthreads();
        if (i < RP_WARP) rp_drop_groups(values, taken, n, p);
        __syncthreads();
    }
    if (i < n) keys[i] = taken[i] != 0 ? 0 : rp_sorted_key(values[i]) + 1;
    __syncthreads(); /* all keys */
    const unsigned mine = i < n ? keys[i] : 0;
    int            rank = 0;
#pragma unroll 4
    for (int j = 0; j < n; j++) rank += keys[j] + (j < i ? 1 : 0) > mine;
    if (i < n && rank < p.k) ids[rank] = i;
    __syncthreads();
}

#endif
