/* gemv_float.cuh - GEMV with f32, f16 or bf16 weights and f32 columns (gemv.cuh has the geometry). */
#ifndef KERNELS_DEVICE_GEMV_FLOAT_CUH
#define KERNELS_DEVICE_GEMV_FLOAT_CUH

#include "kernels/device/gemv.cuh"

/* The two float rows of a warp. */
struct FloatRows {
    const char *row[RP_GEMV_ROWS];
};

/* Weights: rows m and m + 1 of one matrix, `stride` bytes apart. */
struct FloatMatrix {
    const char          *w;
    size_t               stride;
    int                  rows;
    __device__ FloatRows at(int m) const {
        const int last = rows - 1;
        return two(m < last ? m : last, m + 1 < last ? m + 1 : last);
    }
    /* Any two rows. */
    __device__ FloatRows two(int a, int b) const {
        return {
            {w + (size_t)a * stride, w + (size_t)b * stride}
        };
    }
    __device__ bool aligned() const { return ((uintptr_t)w | stride) % 16 == 0; }
};

/* Weights: row m of each of two matrices. */
struct TwoFloatMatrices {
    const char          *w[RP_GEMV_ROWS];
    size_t               stride[RP_GEMV_ROWS];
    int                  rows;
    __device__ FloatRows at(int m) const {
        const size_t row = (size_t)(m < rows ? m : rows - 1);
        return {
            {w[0] + row * stride[0], w[1] + row * stride[1]}
        };
    }
    __device__ bool aligned() const { return ((uintptr_t)w[0] | (uintptr_t)w[1] | stride[0] | stride[1]) % 16 == 0; }
};

/* Eight float weights as raw bits, converted when used; zeros past n. ALIGNED: p is a multiple of 16 bytes. */
template <RpDtype T, bool ALIGNED> struct Weights8 {
    uint4           bits[T == RP_F32 ? 2 : 1];
    __device__ void load(const char *p, int64_t n) {
        if (ALIGNED && n >= RP_FLOAT_FRAG) {
            for (int i = 0; i < (T == RP_F32 ? 2 : 1); i++) bits[i] = rp_ldg16(p + 16 * i);
            return;
        }
        unsigned w[8] = {};
        for (int i = 0; i < RP_FLOAT_FRAG; i++) {
            if (i >= n) break;
            if (T == RP_F32)
                w[i] = ((const unsigned *)p)[i];
            else
                w[i / 2] |= (unsigned)((const uint16_t *)p)[i] << (16 * (i % 2));
        }
        bits[0] = make_uint4(w[0], w[1], w[2], w[3]);
        if (T == RP_F32) bits[sizeof bits / 16 - 1] = make_uint4(w[4], w[5], w[6], w[7]);
    }
    __device__ float at(int i) const {
        if (T == RP_F32) return __uint_as_float(rp_word(bits[i / 4 % (sizeof bits / 16)], i % 4));
        const unsigned w = rp_word(bits[0], i / 2 % 4);
        if (T == RP_BF16) return __uint_as_float(i % 2 != 0 ? w & 0xffff0000u : w << 16); /* the upper half of an f32 */
        return rp_half_bits((uint16_t)(w >> (16 * (i % 2))));
    }
};

/* Accumulates `length` terms: a lane takes eight consecutive elements, then those 32 * split * 8 further on. Elements
 * past the end are zeros, which change no sum: a sum begins with +0 and never becomes -0. ALIGNED: there are none past
 * the end. */
template <RpDtype T, int C, bool ALIGNED, class Columns>
__device__ static inline void rp_float_rows(const GemvWork &work, const FloatRows &rows, const Columns &columns,
                                            int length, float (&acc)[RP_GEMV_ROWS][C]) {
    const int step = work.split * RP_WARP * RP_FLOAT_FRAG;
#pragma unroll 2
    for (int i = rp_gemv_lane_frag(work) * RP_FLOAT_FRAG; i < length; i += step) {
        const int64_t        left = ALIGNED ? RP_FLOAT_FRAG : length - i;
        Weights8<T, ALIGNED> a[RP_GEMV_ROWS];
        float                x[C][RP_FLOAT_FRAG];
#pragma unroll
        for (int r = 0; r < RP_GEMV_ROWS; r++) a[r].load(rows.row[r] + (size_t)i * (T == RP_F32 ? 4 : 2), left);
#pragma unroll
        for (int c = 0; c < C; c++) columns.template load8<ALIGNED>(c, i, left, x[c]);
#pragma unroll
        for (int k = 0; k < RP_FLOAT_FRAG; k++)
#pragma unroll
            for (int r = 0; r < RP_GEMV_ROWS; r++)
#pragma unroll
                for (int c = 0; c < C; c++) acc[r][c] = fmaf(a[r].at(k), x[c][k], acc[r][c]);
    }
}

/* Float GEMV: products and sums in f32. One unaligned row or column, or a number of terms that is no multiple of eight,
 * sends the whole block to scalar loads; the sums stay the same. */
template <RpDtype T, class Weights, class Columns, class Put>
__device__ static inline void rp_gemv_float(const GemvWork &work, const Weights &weights, Columns columns,
                                            const Put &put) {
    constexpr int   C       = Columns::COLUMNS;
    const bool      aligned = weights.aligned() && columns.aligned() && work.n % RP_FLOAT_FRAG == 0;
    const int       length  = work.inactive ? 0 : work.n;
    const FloatRows first   = weights.at(rp_gemv_warp_row(work, 0));
    rp_gemv_prefetch(work, (const uint8_t *)first.row[0], (const uint8_t *)first.row[1],
                     (int64_t)length * (T == RP_F32 ? 4 : 2), 1);
    rp_gemv_wait(work);
    columns.open();
    for (int tile = 0; tile < work.n_tiles; tile++) {
        if (tile > 0 && rp_gemv_block_row(work, tile) >= work.rows) break;
        const FloatRows rows                 = weights.at(rp_gemv_warp_row(work, tile));
        float           acc[RP_GEMV_ROWS][C] = {};
        if (aligned)
            rp_float_rows<T, C, true>(work, rows, columns, length, acc);
        else
            rp_float_rows<T, C, false>(work, rows, columns, length, acc);
        rp_gemv_finish<C, RP_GEMV_WARPS>(work, tile, acc, put);
    }
}

#endif
