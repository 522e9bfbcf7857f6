/* keys.cuh - candidates of sampling as 64-bit keys, and what a block does with 64-bit integers: maximum, inclusive
 * scan, sort. All of these use shuffles and barriers: a 64-bit atomic in shared memory is a loop of compare-and-swap.
 *
 *     key(logit, id) = sortable bits of the logit << 32 | ~id
 *
 * Keys descend in the order of candidates: higher logit first, lower id among equals. No two are equal, none is 0. */
#ifndef KERNELS_DEVICE_KEYS_CUH
#define KERNELS_DEVICE_KEYS_CUH

#include "kernels/device/device.cuh"

typedef unsigned long long RpKey; /* a key, or a sum of integers */

/* The sortable bits have the order of the floats: negative ones inverted, others with the sign bit set. */
__device__ static inline RpKey rp_key_of(float logit, int32_t id) {
    const unsigned bits = __float_as_uint(logit);
    const unsigned high = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (RpKey)high << 32 | (0xffffffffu - (unsigned)id);
}

__device__ static inline int32_t rp_key_id(RpKey key) { return (int32_t)(0xffffffffu - (unsigned)key); }

__device__ static inline float rp_key_logit(RpKey key) {
    const unsigned high = (unsigned)(key >> 32);
    return __uint_as_float(high & 0x80000000u ? high & 0x7fffffffu : ~high);
}

__device__ static inline RpKey rp_warp_max_key(RpKey v) {
    for (int lanes = RP_WARP / 2; lanes > 0; lanes /= 2) {
        const RpKey other = __shfl_xor_sync(RP_ALL_LANES, v, lanes);
        v                 = other > v ? other : v;
    }
    return v;
}

/* Over a block of whole warps, for every thread. `shared` holds 32 keys; the first barrier lets a caller pass the same
 * memory twice in a row. */
__device__ static inline RpKey rp_block_max_key(RpKey v, RpKey *shared) {
    const int lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP;
    v = rp_warp_max_key(v);
    __syncthreads();
    if (lane == 0) shared[warp] = v;
    __syncthreads();
    return rp_warp_max_key(lane < (int)blockDim.x / RP_WARP ? shared[lane] : 0);
}

__device__ static inline RpKey rp_warp_scan_key(RpKey v) {
    for (int lanes = 1; lanes < RP_WARP; lanes *= 2) {
        const RpKey before = __shfl_up_sync(RP_ALL_LANES, v, lanes);
        if ((int)threadIdx.x % RP_WARP >= lanes) v += before;
    }
    return v;
}

/* The sum of this thread's value and those of all threads before it. `shared` as for rp_block_max_key. Every warp adds
 * the totals of all warps itself, which saves a barrier. */
__device__ static inline RpKey rp_block_scan_key(RpKey v, RpKey *shared) {
    const int lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP;
    v = rp_warp_scan_key(v);
    __syncthreads();
    if (lane == RP_WARP - 1) shared[warp] = v;
    __syncthreads();
    const RpKey totals = rp_warp_scan_key(lane < (int)blockDim.x / RP_WARP ? shared[lane] : 0);
    const RpKey before = __shfl_sync(RP_ALL_LANES, totals, warp > 0 ? warp - 1 : 0);
    return warp > 0 ? before + v : v;
}

/* The first position from `from` to `to` that is `behind(position)`: not so before it, so from it on. */
template <class Behind> __device__ static inline int32_t rp_first(int32_t from, int32_t to, Behind behind) {
    while (from < to) {
        const int32_t middle = (from + to) / 2;
        if (behind(middle))
            to = middle;
        else
            from = middle + 1;
    }
    return from;
}

/* The larger or the smaller of two keys. */
__device__ static inline RpKey rp_one_of(RpKey mine, RpKey other, bool larger) {
    return (other > mine) == larger ? other : mine;
}

/* The first of the two elements of this thread among those of the block: thread t of warp w has 64 w + t % 32 and the
 * one RP_WARP further on. */
__device__ static inline int rp_pair_place() { return 2 * (int)(threadIdx.x & ~31u) + (int)threadIdx.x % RP_WARP; }

/* Bitonic sort of 2 * blockDim.x keys, the largest first; blockDim.x is a power of two, at least 32. A thread
 * brings the elements at = rp_pair_place() and at + 32, in any order, and finds all of them in `shared` [2 *
 * blockDim.x]. Pairs less than 32 apart lie in one register of two lanes, pairs 32 apart in one thread, others in two
 * warps:
 *
 *     run 2: pairs 1 apart; run 4: 2, 1; ... run 64: 32, 16, ..., 1; run 128: 64 in shared memory, 32, ...
 *
 * The larger key of a pair goes to the lower position, in every second run to the higher one. */
__device__ static inline void rp_block_sort_keys(RpKey a, RpKey b, RpKey *shared) {
    const int n = 2 * (int)blockDim.x, at = rp_pair_place();
    for (int run = 2; run <= n; run *= 2) {
        const bool falls = (at & run) == 0, b_differs = run == RP_WARP; /* the run of b falls where that of a rises */
        for (int bit = run / 2; bit > RP_WARP; bit /= 2) {
            shared[at] = a, shared[at + RP_WARP] = b;
            __syncthreads();
            const RpKey c = shared[at ^ bit], d = shared[(at ^ bit) + RP_WARP];
            __syncthreads();
            const bool larger = ((at & bit) == 0) == falls;
            a = rp_one_of(a, c, larger), b = rp_one_of(b, d, larger);
        }
        if (run > RP_WARP) {
            const RpKey c = rp_one_of(a, b, falls);
            b             = rp_one_of(b, a, !falls);
            a             = c;
        }
        for (int bit = run / 2 < RP_WARP ? run / 2 : RP_WARP / 2; bit > 0; bit /= 2) {
            const RpKey c = __shfl_xor_sync(RP_ALL_LANES, a, bit), d = __shfl_xor_sync(RP_ALL_LANES, b, bit);
            const bool  larger = ((at & bit) == 0) == falls;
            a = rp_one_of(a, c, larger), b = rp_one_of(b, d, larger != b_differs);
        }
    }
    shared[at] = a, shared[at + RP_WARP] = b;
    __syncthreads();
}

#endif
