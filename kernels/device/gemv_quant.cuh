/* gemv_quant.cuh - GEMV with quantised weights (gemv.cuh has the geometry): an integer GEMV for q8_act columns, and one
 * that dequantises the weights for f32 columns. */
#ifndef KERNELS_DEVICE_GEMV_QUANT_CUH
#define KERNELS_DEVICE_GEMV_QUANT_CUH

#include "kernels/device/gemv.cuh"

/* Integer dot product of a sum block, exact: 16 products of at most 128 * 127. */
__device__ static inline int rp_dot16(const int *q, const uint4 &x) {
    return __dp4a(q[0], (int)x.x, __dp4a(q[1], (int)x.y, __dp4a(q[2], (int)x.z, __dp4a(q[3], (int)x.w, 0))));
}

/* Adds fragment f of both rows times the staged columns; the staged slice begins with fragment f0. For each sum block
 * the integer dot product is exact, then
 *
 *     acc += (wscale * xscale) * dot        one fused multiply-add; the two dots are added first with ONE_SCALE
 *     acc += wmin * xsum                    q8_0 and mxfp4 have no minimum
 *
 * where xsum is the sum of the dequantised activations of the sum block (quantize.cuh). */
template <RpDtype T, int C>
__device__ static inline void
rp_gemv_frag(const GemvWork &work, const typename Blocks<T>::Raw (&raw)[RP_GEMV_ROWS], const char *staged,
             int len, int f, int f0, float (&acc)[RP_GEMV_ROWS][C]) {
    const int at = Blocks<T>::first_sum_block(f - f0), next = at + Blocks<T>::SUM_STRIDE;
    Fragment  w[RP_GEMV_ROWS];
#pragma unroll
    for (int r = 0; r < RP_GEMV_ROWS; r++) w[r] = Blocks<T>::dequantize(raw[r], f);
#pragma unroll
    for (int c = 0; c < C; c++) {
        if (c >= work.columns) break;
        const char  *x     = staged + c * rp_staged_bytes(len);
        const float *scale = (const float *)(x + len), *sum = scale + len / 32;
        const uint4  a = rp_get16(x + 16 * at), b = rp_get16(x + 16 * next);
        const float  scale_a = scale[at / 2], scale_b = Blocks<T>::ONE_SCALE ? scale_a : scale[next / 2];
        const float  sum_a = sum[at], sum_b = sum[next];
#pragma unroll
        for (int r = 0; r < RP_GEMV_ROWS; r++) {
            const int dot_a = rp_dot16(w[r].q[0], a), dot_b = rp_dot16(w[r].q[1], b);
            if (Blocks<T>::ONE_SCALE) {
                acc[r][c] = fmaf(w[r].scale[0] * scale_a, (float)(dot_a + dot_b), acc[r][c]);
            } else {
                acc[r][c] = fmaf(w[r].scale[0] * scale_a, (float)dot_a, acc[r][c]);
                acc[r][c] = fmaf(w[r].scale[1] * scale_b, (float)dot_b, acc[r][c]);
            }
            if (!Blocks<T>::HAS_MIN) continue;
            acc[r][c] = fmaf(w[r].min[0], sum_a, acc[r][c]);
            acc[r][c] = fmaf(w[r].min[1], sum_b, acc[r][c]);
        }
    }
}

/* The two quantised rows of a warp; first_frag is where each begins, in fragments of its tensor. */
template <RpDtype T> struct QuantRows {
    Planes          planes[RP_GEMV_ROWS];
    int64_t         first_frag[RP_GEMV_ROWS];
    __device__ void prefetch_and_wait(const GemvWork &work, int64_t n_frags) const {
        const int64_t bytes = QuantType<T>::FIRST_PLANE;
        rp_gemv_prefetch_and_wait(work, planes[0].data + first_frag[0] * bytes,
                                  planes[1].data + first_frag[1] * bytes, n_frags * bytes);
    }
    __device__ typename Blocks<T>::Raw load(int r, int64_t f) const {
        return Blocks<T>::load(planes[r], first_frag[r] + f);
    }
};

/* The Weights concept: at(m) are the rows for results m and m + 1. Rows past the last repeat the last one, so that
 * loads stay in bounds; Put drops their results. Here: rows m and m + 1 of one matrix, whose row 0 is row `first`
 * of the tensor (of an expert's or a head's matrix). */
template <RpDtype T> struct OneMatrix {
    Planes     planes;
    int64_t    first, rows, n_frags;
    __device__ QuantRows<T> at(int64_t m) const {
        const int64_t last = rows - 1;
        return {
            {planes,                                    planes                                           },
            {(first + (m < last ? m : last)) * n_frags, (first + (m + 1 < last ? m + 1 : last)) * n_frags}
        };
    }
};

/* Row m of each of two matrices, for gate and up. */
template <RpDtype T> struct TwoMatrices {
    Planes     planes[RP_GEMV_ROWS];
    int64_t    first, rows, n_frags;
    __device__ QuantRows<T> at(int64_t m) const {
        const int64_t first_frag = (first + (m < rows ? m : rows - 1)) * n_frags;
        return {
            {planes[0],  planes[1] },
            {first_frag, first_frag}
        };
    }
};

/* Integer GEMV: quantised weights, q8_act columns. Per row tile and slice of the columns:
 *
 *     load the first fragments to registers      weights only, so this may precede the PDL wait
 *     first slice of all: prefetch_and_wait, columns.open()
 *     barrier; stage the slice; barrier          the barrier before it: all warps have read the slice before
 *     until the slice ends:                      multiply the LOADS fragments in registers, load the next LOADS
 *
 * `held` is the first fragment of the slice in shared memory, -1 for none. Columns that fit into one slice are staged
 * once for all row tiles. All warps pass the same barriers: `inactive` warps have no fragments. */
template <RpDtype T, class Weights, class Columns, class Put>
__device__ static inline void rp_gemv_quant(const GemvWork &work, const Weights &weights, Columns columns,
                                            const Put &put) {
    typedef typename Blocks<T>::Raw Raw;
    constexpr int                   C = Columns::COLUMNS;
    RP_SHARED_DYNAMIC(char, staged);
    enum { LOADS = C > 1 && T == RP_Q8_0 ? 1 : Blocks<T>::LOADS }; /* limited by registers */
    const int n_frags = (int)(work.n / RP_FRAG), slice = RP_GEMV_STAGED / columns.n_staged() / RP_FRAG;
    const int step = work.split * RP_WARP, first = rp_gemv_lane_frag(work);
    int       held = -1;
    for (int64_t tile = 0; tile < work.n_tiles; tile++) {
        if (tile > 0 && rp_gemv_block_row(work, tile) >= work.rows) break; /* the whole block */
        const QuantRows<T> rows                 = weights.at(rp_gemv_warp_row(work, tile));
        float              acc[RP_GEMV_ROWS][C] = {};
        Raw                raw[LOADS][RP_GEMV_ROWS];
        const auto         load = [&](int f) {
#pragma unroll
            for (int k = 0; k < LOADS; k++)
#pragma unroll
                for (int r = 0; r < RP_GEMV_ROWS; r++)
                    raw[k][r] = rows.load(r, f + k * step < n_frags ? f + k * step : n_frags - 1);
        };
        for (int f0 = 0; f0 < n_frags; f0 += slice) {
            const int end = n_frags - f0 < slice ? n_frags : f0 + slice, len = (end - f0) * RP_FRAG;
            int       f = work.inactive ? end : f0 + first;
            if (!work.inactive) load(f);
            if (held < 0) {
                /* Several columns leave no registers for a prefetch: 0 bytes then. */
                rows.prefetch_and_wait(work, C == 1 ? n_frags : 0);
                columns.open();
            }
            if (held != f0) {
                if (held >= 0) __syncthreads(); /* all warps have read the slice before */
                columns.stage((int64_t)f0 * RP_FRAG, len, staged);
                __syncthreads();
                held = f0;
            }
            const char *mine = staged + columns.warp_column() * rp_staged_bytes(len);
#pragma unroll 1
            while (f < end) {
#pragma unroll
                for (int k = 0; k < LOADS; k++)
                    if (f + k * step < end)
                        rp_gemv_frag<T, C>(work, raw[k], mine, len, f + k * step, f0, acc);
                f += LOADS * step;
                if (f < end) load(f);
            }
        }
        rp_gemv_finish<C>(work, tile, acc, put);
    }
}

/* Weights are dequantised element by element and multiplied with f32 activations. This is the path without the
 * quantize pass, for comparisons with exact arithmetic; columns are not staged. */
template <RpDtype T, class Weights, class Columns, class Put>
__device__ static inline void rp_gemv_dequant(const GemvWork &work, const Weights &weights, Columns columns,
                                              const Put &put) {
    const int64_t n_frags = work.n / RP_FRAG;
    weights.at(rp_gemv_warp_row(work, 0)).prefetch_and_wait(work, n_frags);
    columns.open();
    for (int64_t tile = 0; tile < work.n_tiles; tile++) {
        if (tile > 0 && rp_gemv_block_row(work, tile) >= work.rows) break;
        const QuantRows<T> rows                 = weights.at(rp_gemv_warp_row(work, tile));
        float              acc[RP_GEMV_ROWS][1] = {};
        for (int64_t f = work.inactive ? n_frags : rp_gemv_lane_frag(work); f < n_frags;
             f += work.split * RP_WARP) {
            const int64_t at = Blocks<T>::first_sum_block(f);
#pragma unroll
            for (int r = 0; r < RP_GEMV_ROWS; r++) {
                const Fragment w = Blocks<T>::dequantize(rows.load(r, f), (int)f);
                for (int k = 0; k < 2; k++)
                    for (int i = 0; i < RP_SUM_BLOCK; i++)
                        acc[r][0] =
                            fmaf(rp_element(w, k, i),
                                 columns.at((at + k * Blocks<T>::SUM_STRIDE) * RP_SUM_BLOCK + i), acc[r][0]);
            }
        }
        rp_gemv_finish<1>(work, tile, acc, put);
    }
}

#endif
