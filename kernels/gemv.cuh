/* gemv.cuh - one row of weights times one column, by one warp; mul_mat and mul_mat_id.
 *
 * Lanes take the groups of sixteen in turn: lane l the groups l, l + 32, ...; then a tree over the warp. One
 * order, whatever the launch (I8). */
#ifndef KERNELS_GEMV_CUH
#define KERNELS_GEMV_CUH

#include "kernels/quants.cuh"

/* Quantised row times q8_act column of n elements: integer dot products (dp4a) of sixteen. */
template <RpDtype T> struct QuantRow {
    __device__ static float dot(const char *row, const char *x, int64_t n, int64_t, int lane) {
        const float *scale = (const float *)(x + n), *sum = scale + n / 32;
        float        acc = 0.0f;
        for (int64_t g = lane; g < n / RP_GROUP; g += RP_WARP) {
            const int      per_block = Blocks<T>::ELEMS / RP_GROUP;
            const uint8_t *block     = (const uint8_t *)row + g / per_block * Blocks<T>::BYTES;
            const Group    w         = Blocks<T>::group(block, (int)(g % per_block));
            const int     *v         = (const int *)(x + g * RP_GROUP); /* rows are multiples of 44 bytes */
            int            dot       = __dp4a(w.q[0], v[0], __dp4a(w.q[1], v[1], 0));
            dot                      = __dp4a(w.q[2], v[2], __dp4a(w.q[3], v[3], dot));
            acc                      = fmaf(w.scale * scale[g / 2], (float)dot, acc);
            acc                      = fmaf(w.min, sum[g], acc);
        }
        return acc;
    }
};

/* The same with an unrounded column: groups widened. */
template <RpDtype T> struct WideRow {
    __device__ static float dot(const char *row, const char *x, int64_t n, int64_t, int lane) {
        float acc = 0.0f;
        for (int64_t g = lane; g < n / RP_GROUP; g += RP_WARP) {
            const int      per_block = Blocks<T>::ELEMS / RP_GROUP;
            const uint8_t *block     = (const uint8_t *)row + g / per_block * Blocks<T>::BYTES;
            const Group    w         = Blocks<T>::group(block, (int)(g % per_block));
            const float   *v         = (const float *)x + g * RP_GROUP;
            for (int i = 0; i < RP_GROUP; i++)
                acc = fmaf(fmaf(w.scale, (float)(int8_t)(w.q[i / 4] >> (8 * (i % 4))), w.min), v[i], acc);
        }
        return acc;
    }
};

/* Float weights; `length` terms of the sum. */
template <RpDtype T> struct FloatRow {
    __device__ static float dot(const char *row, const char *x, int64_t, int64_t length, int lane) {
        float acc = 0.0f;
        for (int64_t i = lane; i < length; i += RP_WARP)
            acc = fmaf(rp_float_at(T, row, i), ((const float *)x)[i], acc);
        return acc;
    }
};

#endif
