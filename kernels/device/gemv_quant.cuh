/* gemv_quant.cuh - GEMV with quantised weights (gemv.cuh has the geometry): an integer GEMV for q8_act columns, and one
 * that dequantises the weights for f32 columns. */
#ifndef KERNELS_DEVICE_GEMV_QUANT_CUH
#define KERNELS_DEVICE_GEMV_QUANT_CUH

#include "kernels/device/gemv.cuh"

/* c plus four products of 8-bit integers; those of q are signed or unsigned, those of x signed. */
template <bool SIGNED> __device__ static inline int rp_dp4a(int q, unsigned x, int c) {
    if (SIGNED) return __dp4a(q, (int)x, c);
#ifdef RP_CUDASIM
    for (int i = 0; i < 4; i++) c += (q >> (8 * i) & 255) * (int8_t)(x >> (8 * i));
    return c;
#else
    int sum;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(q), "r"(x), "r"(c));
    return sum;
#endif
}

/* c plus the integer dot product of a sum block, exact: 16 products of at most 255 * 127. */
template <bool SIGNED> __device__ static inline int rp_dot16(const int (&q)[4], const uint4 &x, int c) {
    for (int i = 3; i >= 0; i--) c = rp_dp4a<SIGNED>(q[i], rp_word(x, i), c);
    return c;
}

/* The integer dot product of run k of a fragment, whose two sum blocks of the column are a and b. */
template <RpDtype T>
__device__ static inline int rp_dot_run(const FragmentOf<T> &w, int k, const uint4 &a, const uint4 &b) {
    typedef Blocks<T> B;
    const int         dot = rp_dot16<B::SIGNED>(w.q[2 * k], a, 0);
    if (B::MINUS) {
        const int minus = rp_dot16<false>(w.minus[2 * k + 1], b, rp_dot16<false>(w.minus[2 * k], a, 0));
        return rp_dot16<false>(w.q[2 * k + 1], b, dot) - minus;
    }
    if (!B::SUB_SCALES) return rp_dot16<B::SIGNED>(w.q[2 * k + 1], b, (int)B::FIRST * dot);
    return w.sub[2 * k] * dot + w.sub[2 * k + 1] * rp_dot16<B::SIGNED>(w.q[2 * k + 1], b, 0);
}

/* sum plus run k times its two sum blocks of a column, with a multiply-add for each. */
template <RpDtype T>
__device__ static inline float rp_add_wide(const FragmentOf<T> &w, int k, const uint4 &a, const uint4 &b, float scale,
                                           float sum) {
    const float s = w.scale[k] * scale;
    for (int i = 0; i < 2; i++) {
        const int dot = rp_dot16<Blocks<T>::SIGNED>(w.q[2 * k + i], i == 0 ? a : b, 0);
        sum           = fmaf(s * (float)w.sub[2 * k + i], (float)dot, sum);
    }
    return sum;
}

/* The sum of a run: of two sum blocks. Where fragments have two runs, a slice has an even number of runs, and so both
 * are aligned to 8 bytes. */
template <int RUNS> __device__ static inline float rp_run_sum(const float *sum) {
#ifndef RP_CUDASIM
    if (RUNS == 2) {
        const float2 both = *(const float2 *)sum;
        return both.x + both.y;
    }
#endif
    return sum[0] + sum[1];
}

/* Adds run K of both rows times one staged column to acc; the fragment begins with sum block `at` of the column. The
 * integer dot product is exact, then
 *
 *     acc += (wscale * xscale) * dot        one fused multiply-add; with WIDE_SCALES one for each sum block
 *     acc += wmin * xsum                    with HAS_MIN; with SUB_MINS for each sum block
 *
 * where xsum is the sum of the dequantised activations of the run, sum block by sum block (quantize.cuh). */
template <RpDtype T, int K>
__device__ static inline void rp_gemv_run(const FragmentOf<T> (&w)[RP_GEMV_ROWS], const char *x, int len, int at,
                                          float *const (&acc)[RP_GEMV_ROWS]) {
    const int    run = K * RP_RUN_STRIDE;
    const char  *q = x + 16 * (at + run), *rest = x + len;
    const uint4  a = rp_get16(q), b = rp_get16(q + 16);
    const float  scale = *((const float *)(rest + 2 * at) + run / 2);
    const float *sums  = (const float *)(rest + len / 8 + 4 * at) + run;
    const float  sum   = Blocks<T>::HAS_MIN ? rp_run_sum<Blocks<T>::RUNS>(sums) : 0.0f;
#pragma unroll
    for (int r = 0; r < RP_GEMV_ROWS; r++) {
        if (Blocks<T>::WIDE_SCALES)
            *acc[r] = rp_add_wide<T>(w[r], K, a, b, scale, *acc[r]);
        else
            *acc[r] = fmaf(w[r].scale[K] * scale, (float)rp_dot_run<T>(w[r], K, a, b), *acc[r]);
        if (Blocks<T>::SUB_MINS)
            *acc[r] = fmaf(w[r].sub_min[2 * K + 1], sums[1], fmaf(w[r].sub_min[2 * K], sums[0], *acc[r]));
        else if (Blocks<T>::HAS_MIN)
            *acc[r] = fmaf(w[r].min[K], sum, *acc[r]);
    }
}

/* Adds a fragment of both rows times the staged columns, its runs in their order. */
template <RpDtype T, int C>
__device__ static inline void rp_gemv_frag(const GemvWork &work, const typename Blocks<T>::Raw (&raw)[RP_GEMV_ROWS],
                                           const typename Blocks<T>::Lane &lane, const char *staged, int len, int at,
                                           float (&acc)[RP_GEMV_ROWS][C]) {
    const FragmentOf<T> w[RP_GEMV_ROWS] = {Blocks<T>::dequantize(raw[0], lane), Blocks<T>::dequantize(raw[1], lane)};
#pragma unroll
    for (int c = 0; c < C; c++) {
        if (c >= work.columns) break;
        float *const sums[RP_GEMV_ROWS] = {&acc[0][c], &acc[1][c]};
        const char  *x                  = staged + c * rp_staged_bytes(len);
        rp_gemv_run<T, 0>(w, x, len, at, sums);
        if (Blocks<T>::RUNS == 2) rp_gemv_run<T, Blocks<T>::RUNS - 1>(w, x, len, at, sums);
    }
}

/* The two quantised rows of a warp; first_frag is where each begins, in fragments of its tensor. */
template <RpDtype T> struct QuantRows {
    Planes          planes[RP_GEMV_ROWS];
    int64_t         first_frag[RP_GEMV_ROWS];
    __device__ void prefetch_and_wait(const GemvWork &work, int n_frags) const {
        for (int k = 0; k < Blocks<T>::QUANT_PLANES; k++)
            rp_gemv_prefetch(work, quants(0, k), quants(1, k), n_frags * 16, Blocks<T>::QUANT_PLANES);
        rp_gemv_wait(work);
    }
    __device__ const uint8_t *quants(int r, int plane) const {
        return planes[r].data +
               16 * (plane * (planes[r].blocks * (QuantType<T>::ELEMS / QuantType<T>::FRAG)) + first_frag[r]);
    }
    __device__ typename Blocks<T>::Row row(int r) const { return Blocks<T>::row(planes[r], first_frag[r]); }
};

/* The Weights concept: at(m) are the rows for results m and m + 1. Rows past the last repeat the last one, so that
 * loads stay in bounds; Put drops their results. Here: rows m and m + 1 of one matrix, whose row 0 is row `first`
 * of the tensor (of an expert's or a head's matrix). */
template <RpDtype T> struct OneMatrix {
    Planes     planes;
    int64_t    first;
    int        rows, n_frags;
    __device__ QuantRows<T> at(int m) const {
        const int last = rows - 1;
        return two(m < last ? m : last, m + 1 < last ? m + 1 : last);
    }
    /* Any two rows. */
    __device__ QuantRows<T> two(int a, int b) const {
        return {
            {planes,                planes               },
            {(first + a) * n_frags, (first + b) * n_frags}
        };
    }
};

/* Row m of each of two matrices, for gate and up. */
template <RpDtype T> struct TwoMatrices {
    Planes     planes[RP_GEMV_ROWS];
    int64_t    first;
    int        rows, n_frags;
    __device__ QuantRows<T> at(int m) const {
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
    constexpr int                   C = Columns::COLUMNS, WARPS = Columns::WARPS;
    RP_SHARED_DYNAMIC(char, staged);
    enum { LOADS = Blocks<T>::LOADS };
    constexpr int            FRAG = QuantType<T>::FRAG, SUM_BLOCKS = FRAG / RP_SUM_BLOCK; /* of a fragment */
    const int                n_frags = work.n / FRAG, slice = RP_GEMV_STAGED / columns.n_staged() / FRAG;
    const int                step = work.split * RP_WARP, first = rp_gemv_lane_frag(work);
    const int                first_at = Blocks<T>::first_sum_block(first);
    typename Blocks<T>::Lane lane(first);
    int                      held = -1;
    lane.keep();
    for (int tile = 0; tile < work.n_tiles; tile += WARPS / RP_GEMV_WARPS) {
        if (tile > 0 && rp_gemv_block_row(work, tile) >= work.rows) break; /* the whole block */
        const bool                    idle                 = work.inactive || !rp_gemv_has_rows<WARPS>(work, tile);
        const QuantRows<T>            rows                 = weights.at(rp_gemv_warp_row(work, tile));
        float                         acc[RP_GEMV_ROWS][C] = {};
        Raw                           raw[LOADS][RP_GEMV_ROWS];
        const typename Blocks<T>::Row row[RP_GEMV_ROWS] = {rows.row(0), rows.row(1)};
        const auto                    load              = [&](int f) {
#pragma unroll
            for (int k = 0; k < LOADS; k++) {
                const int at = f + k * step, last = n_frags - 1;
#pragma unroll
                for (int r = 0; r < RP_GEMV_ROWS; r++)
                    raw[k][r] = Blocks<T>::load(row[r], (unsigned)(at < last ? at : last));
            }
        };
        for (int f0 = 0; f0 < n_frags; f0 += slice) {
            const int end = n_frags - f0 < slice ? n_frags : f0 + slice, len = (end - f0) * FRAG;
            int       f = idle ? end : f0 + first, at = first_at; /* f and its place in the slice */
            if (!idle) load(f);
            if (held < 0) {
                /* Several columns leave no registers for a prefetch: 0 bytes then. */
                rows.prefetch_and_wait(work, C == 1 && rp_gemv_has_rows<WARPS>(work, tile) ? n_frags : 0);
                columns.open();
            }
            if (held != f0) {
                if (held >= 0) __syncthreads(); /* all warps have read the slice before */
                columns.stage((int64_t)f0 * FRAG, len, staged);
                __syncthreads();
                held = f0;
            }
            const char *mine = staged + columns.warp_column() * rp_staged_bytes(len);
#pragma unroll 1
            while (f < end) {
#pragma unroll
                for (int k = 0; k < LOADS; k++)
                    if (f + k * step < end)
                        rp_gemv_frag<T, C>(work, raw[k], lane, mine, len, at + k * step * SUM_BLOCKS, acc);
                f += LOADS * step, at += LOADS * step * SUM_BLOCKS;
                if (f < end) load(f);
            }
        }
        rp_gemv_finish<C, WARPS>(work, tile, acc, put);
    }
}

/* ---- f32 columns ----
 *
 * The path without the quantize pass, for comparisons with exact arithmetic. It need not be fast: the type of the
 * weights is an argument of the kernel, not of its template, as a kernel for each type took a third of nvcc's time. */

/* Whether blocks of a quantised type have 32 elements, and so one fragment; else they have 256 and four. */
__device__ static inline bool rp_has_small_blocks(RpDtype type) {
    switch (type) {
#define X(ID, ...)                                                                                                     \
    case RP_##ID:                                                                                                      \
        return (int)RP_##ID##_ELEMS == (int)RP_RUN;
        RP_QUANTS(X)
#undef X
    default:
        return false;
    }
}

template <RpDtype T>
__device__ static inline void rp_dequantize(const Planes &planes, int64_t first, unsigned f, float *v) {
    const FragmentOf<T> w =
        Blocks<T>::dequantize(Blocks<T>::load(Blocks<T>::row(planes, first), f), typename Blocks<T>::Lane((int)f));
    for (int k = 0; k < QuantType<T>::FRAG / RP_SUM_BLOCK; k++)
        for (int i = 0; i < RP_SUM_BLOCK; i++) v[k * RP_SUM_BLOCK + i] = rp_element<T>(w, k, i);
}

/* The elements of fragment f of the row whose first fragment is `first`, in the order of its sum blocks. */
__device__ static RP_NOINLINE void rp_dequantize_fragment(RpDtype type, Planes planes, int64_t first, unsigned f,
                                                          float *v) {
    switch (type) {
#define X(ID, ...)                                                                                                     \
    case RP_##ID:                                                                                                      \
        return rp_dequantize<RP_##ID>(planes, first, f, v);
        RP_QUANTS(X)
#undef X
    default:
        return;
    }
}

/* As QuantRows, OneMatrix and TwoMatrices. */
struct DequantRows {
    RpDtype type;
    Planes  planes[RP_GEMV_ROWS];
    int64_t first_frag[RP_GEMV_ROWS];
};

struct DequantMatrix {
    RpDtype type;
    Planes  planes;
    int64_t first;
    int     rows, n_frags;

    __device__ DequantRows at(int m) const {
        const int last = rows - 1;
        return two(m < last ? m : last, m + 1 < last ? m + 1 : last);
    }
    __device__ DequantRows two(int a, int b) const {
        return {
            type, {planes,                planes               },
             {(first + a) * n_frags, (first + b) * n_frags}
        };
    }
};

struct TwoDequantMatrices {
    RpDtype type;
    Planes  planes[RP_GEMV_ROWS];
    int64_t first;
    int     rows, n_frags;

    __device__ DequantRows at(int m) const {
        const int64_t first_frag = (first + (m < rows ? m : rows - 1)) * n_frags;
        return {
            type, {planes[0],  planes[1] },
             {first_frag, first_frag}
        };
    }
};

__device__ static inline Planes rp_planes_of(const RpTensorView &w) {
    return {(const uint8_t *)w.data, w.ne[0] * w.ne[1] * w.ne[2] * w.ne[3] / (rp_has_small_blocks(w.dtype) ? 32 : 256)};
}

/* Fragments of a row of n elements. */
__device__ static inline int rp_fragments(RpDtype type, int n) {
    return n / (rp_has_small_blocks(type) ? RP_RUN : 2 * RP_RUN);
}

/* Weights are dequantised element by element and multiplied with f32 activations; columns are not staged. */
template <class Weights, class Columns, class Put>
__device__ static inline void rp_gemv_dequant(const GemvWork &work, const Weights &weights, Columns columns,
                                              const Put &put) {
    rp_gemv_wait(work);
    columns.open();
    for (int tile = 0; tile < work.n_tiles; tile++) {
        if (tile > 0 && rp_gemv_block_row(work, tile) >= work.rows) break;
        const DequantRows rows    = weights.at(rp_gemv_warp_row(work, tile));
        const bool        small   = rp_has_small_blocks(rows.type);
        const int         n_frags = rp_fragments(rows.type, work.n), frag = small ? RP_RUN : 2 * RP_RUN;
        float             acc[RP_GEMV_ROWS][1] = {};
        for (int f = work.inactive ? n_frags : rp_gemv_lane_frag(work); f < n_frags; f += work.split * RP_WARP)
            for (int r = 0; r < RP_GEMV_ROWS; r++) {
                float   v[2 * RP_RUN];
                float   sum   = acc[r][0];
                int64_t place = small ? SmallBlocks::first_sum_block(f) : SuperBlocks::first_sum_block(f);
                rp_dequantize_fragment(rows.type, rows.planes[r], rows.first_frag[r], (unsigned)f, v);
                for (int i = 0; i < frag; i++) {
                    if (i == RP_RUN) place += RP_RUN_STRIDE - RP_RUN / RP_SUM_BLOCK;
                    sum = fmaf(v[i], columns.at(place * RP_SUM_BLOCK + i), sum);
                }
                acc[r][0] = sum;
            }
        rp_gemv_finish<1, RP_GEMV_WARPS>(work, tile, acc, put);
    }
}

#endif
