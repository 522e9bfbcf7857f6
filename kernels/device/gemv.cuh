/* gemv.cuh - GEMV: a matrix of weights times one to four columns, y[m,c] = sum_k w[k,m] * x[k,c]. mul_mat, mul_mat_id
 * and all fused products of one token are built from it; each brings three parts:
 *
 *     Weights   which rows the warp multiplies:        OneMatrix, TwoMatrices, FloatMatrix, TwoFloatMatrices
 *     Columns   the activations, with any prologue:    GemvColumns, FusedColumn (column.cuh), ExpertColumns
 *     Put       the epilogue: bias, residual, store:   GemvRows, LinearPut, GateUpPut, ...
 *
 * geometry  A block is 8 warps. A warp multiplies two rows by up to four columns, so that each load of one serves
 *           all of the other. Matrices with few rows would leave the device idle: then `split` warps share a row
 *           pair along k (split-K within the block), and the block computes 8 / split row pairs:
 *
 *               split 4:   warp 0 1 2 3 -> rows 0, 1 of the tile     warp 4 5 6 7 -> rows 2, 3
 *               warp s of the four, lane l:  fragments 32 s + l, 32 s + l + 128, 32 s + l + 256, ... of the row
 *
 * staging   q8_act columns are copied to shared memory once per block, slice by slice along k; every warp reads
 *           them from there. Weights go from DRAM to registers, each byte once. A lane has the loads of a few
 *           fragments of both rows in flight at a time; the other resident warps hide the rest of the latency.
 * order     fragments of a lane ascending; lanes by a butterfly (rp_warp_sum); then warps 0 .. split-1. `split`
 *           follows from the shape of the weights only, and columns never mix, so a column has the same sum
 *           alone and beside others (I8). */
#ifndef KERNELS_DEVICE_GEMV_CUH
#define KERNELS_DEVICE_GEMV_CUH

#include "kernels/device/quants.cuh"

enum {
    RP_GEMV_WARPS        = 8,
    RP_GEMV_THREADS      = RP_GEMV_WARPS * RP_WARP,
    RP_GEMV_ROWS         = 2,
    RP_GEMV_COLUMNS      = 4,
    RP_GEMV_BUSY         = 4096,     /* warps that occupy a large device; split no further beyond them */
    RP_GEMV_STAGED       = 4 * 8192, /* elements staged at a time, all columns: 45056 bytes of q8_act */
    RP_GEMV_EARLY_BLOCKS = 512,      /* those of a grid that may be resident during PDL overlap */
    RP_CACHE_LINE        = 128,
    RP_FLOAT_FRAG        = 8 /* a fragment of f32, f16 or bf16 weights */
};

/* One block's part of a launch. A row tile is what a block computes at a time; block b computes tiles b,
 * b + tile_stride, ..., n_tiles of them or until the rows end. The first row of tile number i (rp_gemv_block_row):
 *
 *     (block + i * tile_stride) * (RP_GEMV_WARPS / (split * n_experts)) * warp_results */
struct GemvWork {
    int64_t rows, n; /* results per column; terms of each sum */
    int     columns, split;
    int     warp_results = RP_GEMV_ROWS; /* 2: two rows of one matrix; 1: one row of each of two */
    int     n_experts    = 1;            /* experts side by side: the same rows of different matrices */
    bool    inactive     = false;        /* this warp takes part in barriers only */
    bool    early        = false;        /* weights are loaded before griddepcontrol.wait, columns after */
    int64_t block        = 0;
    int64_t n_tiles      = 1;
    int64_t tile_stride  = 0;
};

/* Warps per row pair: doubled while row pairs * split do not occupy the device and every lane of the doubled split
 * still has a fragment. Worked example, 576 rows of 576 elements (18 fragments): 18 < 64, so split stays 1. With
 * 2048 rows of 2048 elements (64 fragments): 1024 < 4096 and 64 >= 64, so split 2; then 64 < 128 ends it. */
static inline int rp_gemv_split(int64_t rows, int64_t n_frags) {
    int split = 1;
    while (split < RP_GEMV_WARPS && (rows + 1) / 2 * split < RP_GEMV_BUSY && n_frags >= 2 * split * RP_WARP)
        split *= 2;
    return split;
}

/* Elements of a fragment: what a lane multiplies at a time. */
static inline int rp_gemv_frag_elems(RpDtype type) {
    return rp_dtype_is_quant(type) ? (int)RP_FRAG : (int)RP_FLOAT_FRAG;
}

static inline LaunchShape rp_gemv_shape(int64_t rows, int split, int64_t y, int64_t z, int64_t shared) {
    return {dim3(rp_blocks(rows, RP_GEMV_ROWS * RP_GEMV_WARPS / split), (unsigned)y, (unsigned)z),
            dim3(RP_GEMV_THREADS), (unsigned)shared};
}

/* Bytes of one staged q8_act column slice, rounded up to 16:  q[len] int8, scale[len/32] f32, sum[len/16] f32. */
__host__ __device__ static inline int64_t rp_staged_bytes(int64_t len) {
    return (len / 32 * 44 + 15) / 16 * 16;
}

/* Dynamic shared memory for C columns of n elements: whole columns, or slices of RP_GEMV_STAGED / C elements. */
template <int C> static inline int64_t rp_gemv_shared(int64_t n) {
    return C * rp_staged_bytes(n < RP_GEMV_STAGED / C ? (int)n : RP_GEMV_STAGED / C);
}

/* The first row of the block's row tile, and of the warp within it. */
__device__ static inline int64_t rp_gemv_block_row(const GemvWork &work, int64_t tile) {
    return (work.block + tile * work.tile_stride) * (RP_GEMV_WARPS / (work.split * work.n_experts)) *
           work.warp_results;
}

__device__ static inline int64_t rp_gemv_warp_row(const GemvWork &work, int64_t tile) {
    return rp_gemv_block_row(work, tile) +
           (int64_t)((int)threadIdx.x / RP_WARP / (work.split * work.n_experts)) * work.warp_results;
}

/* First statement of a GEMV kernel. With `early`, weights and their addresses are no results of earlier kernels
 * (RpKernelCtx.constant), so the PDL wait is left to rp_gemv_prefetch_and_wait. */
__device__ static inline void rp_gemv_open(bool early) {
    rp_pdl_launch_dependents();
    if (!early) rp_pdl_wait();
}

/* Prefetches the warp's two rows into L2, `bytes` of each, while earlier kernels end; then waits for them (PDL).
 * Does nothing if the kernel has waited already. */
__device__ static inline void rp_gemv_prefetch_and_wait(const GemvWork &work, const uint8_t *a,
                                                        const uint8_t *b, int64_t bytes) {
    if (!work.early) return;
    if (work.block < RP_GEMV_EARLY_BLOCKS) {
        const int lanes = RP_WARP * work.split, lane = (int)threadIdx.x % lanes;
        for (int64_t at = (int64_t)lane * RP_CACHE_LINE; at < bytes; at += (int64_t)lanes * RP_CACHE_LINE) {
            rp_prefetch(a + at);
            rp_prefetch(b + at);
        }
    }
    rp_pdl_wait();
}

/* Resident blocks per multiprocessor for __launch_bounds__: as many as leave each thread enough registers. */
constexpr int rp_gemv_blocks(RpDtype t, int columns) {
    const bool simple = t == RP_Q4_0 || t == RP_Q4_1 || t == RP_Q5_0 || t == RP_Q5_1;
    return columns > 1 || t == RP_Q8_0 || t == RP_MXFP4 ? 2 : simple ? 4 : 3;
}

/* The first fragment of the lane; the next is 32 * split further on. */
__device__ static inline int rp_gemv_lane_frag(const GemvWork &work) {
    return (int)threadIdx.x / RP_WARP % work.split * RP_WARP + (int)threadIdx.x % RP_WARP;
}

/* The Put concept: one thread calls put(m, c, v) with the two sums of column c that a warp has: rows m and m + 1, or
 * row m of two matrices. m may be past the last row. This Put stores them. */
struct GemvRows {
    char           *y;
    size_t          y_stride;
    int64_t         rows;
    int             columns;
    __device__ void operator()(int64_t m, int c, const float (&v)[RP_GEMV_ROWS]) const {
        for (int r = 0; r < RP_GEMV_ROWS; r++)
            if (m + r < rows && c < columns) ((float *)(y + (size_t)c * y_stride))[m + r] = v[r];
    }
};

/* Reduces the accumulators of a row tile over lanes, then over the `split` warps of a row pair in their order, and
 * calls put. Every thread of the block calls it. With split > 1 the warps' partial sums pass through shared memory:
 *
 *     partials[warp][c][r], one buffer for even tiles and one for odd ones
 *
 * Two buffers save a barrier: while slow warps still read tile i, fast ones may write tile i + 1. A warp can reach
 * tile i + 2 only past the barrier of tile i + 1, when all have read tile i. */
template <int C, class Put>
__device__ static inline void rp_gemv_finish(const GemvWork &work, int64_t                   tile,
                                             const float (&acc)[RP_GEMV_ROWS][C], const Put &put) {
    enum { RESULTS = RP_GEMV_WARPS * RP_GEMV_ROWS * C };
    RP_SHARED(float, buffers, [2 * RESULTS]);
    const int     lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP;
    const int64_t m        = rp_gemv_warp_row(work, tile);
    float        *partials = buffers + tile % 2 * RESULTS;
    for (int c = 0; c < C; c++) {
        float sum[RP_GEMV_ROWS];
        for (int r = 0; r < RP_GEMV_ROWS; r++) sum[r] = rp_warp_sum(acc[r][c]);
        if (lane != 0) continue;
        if (work.split == 1)
            put(m, c, sum);
        else
            for (int r = 0; r < RP_GEMV_ROWS; r++) partials[(warp * C + c) * RP_GEMV_ROWS + r] = sum[r];
    }
    if (work.split == 1) return;
    __syncthreads();
    if (warp % work.split != 0 || lane >= C)
        return; /* the first warp of each row pair adds: one lane per column */
    float sum[RP_GEMV_ROWS] = {};
    for (int s = 0; s < work.split; s++)
        for (int r = 0; r < RP_GEMV_ROWS; r++) sum[r] += partials[((warp + s) * C + lane) * RP_GEMV_ROWS + r];
    put(m, lane, sum);
}

/* ---- quantised weights, q8_act columns ---- */

/* Copies elements [from, from + len) of a q8_act row of n to shared memory, in the layout of rp_staged_bytes. 16
 * bytes at a time where the source is aligned. Scales and sums are copied as the words they are. */
__device__ static inline void rp_stage_q8_act(const char *x, int64_t n, int64_t from, int len, char *to) {
    const int *q = (const int *)(x + from), *scale = (const int *)(x + n) + from / 32,
              *sum = (const int *)(x + n) + n / 32 + from / 16;
    const int n_q = len / 4, n_scale = len / 32, tid = (int)threadIdx.x;
    if ((uintptr_t)q % 16 == 0 && n_q % 4 == 0)
        for (int i = tid; i < n_q / 4; i += RP_GEMV_THREADS) rp_put16(to + 16 * i, rp_get16(q + 4 * i));
    else
        for (int i = tid; i < n_q; i += RP_GEMV_THREADS) ((int *)to)[i] = q[i];
    for (int i = tid; i < n_scale; i += RP_GEMV_THREADS) ((int *)to)[n_q + i] = scale[i];
    for (int i = tid; i < 2 * n_scale; i += RP_GEMV_THREADS) ((int *)to)[n_q + n_scale + i] = sum[i];
}

/* Loads x[0..8), zeros from `left` on; ALIGNED: x is a multiple of 16 bytes. Activations are written by earlier
 * kernels, possibly while this one runs already (PDL): no __ldg, whose data must not change during a kernel. */
template <bool ALIGNED>
__device__ static inline void rp_load8(const float *x, int64_t left, float (&v)[RP_FLOAT_FRAG]) {
    if (ALIGNED && left >= RP_FLOAT_FRAG) {
        for (int h = 0; h < 2; h++) {
            const uint4 w = rp_get16(x + 4 * h);
            for (int i = 0; i < 4; i++) v[4 * h + i] = __uint_as_float(rp_word(w, i));
        }
        return;
    }
    for (int i = 0; i < RP_FLOAT_FRAG; i++) v[i] = i < left ? x[i] : 0.0f;
}

/* The Columns concept, here for C columns in memory, `stride` bytes apart:
 *
 *     open()             once, by every thread of the block, after the PDL wait: computes a prologue's factors
 *     stage(from,len,to) by every thread, between barriers: writes elements [from, from + len) of n_staged() columns
 *                        as q8_act to shared memory, rp_staged_bytes(len) apart
 *     warp_column()      the first of the staged columns that this warp multiplies; it takes C of them
 *     at, load8, aligned f32 columns, read from global memory without staging */
template <int C> struct GemvColumns {
    const char     *x;
    size_t          stride;
    int64_t         n;
    int             columns;
    __device__ int  n_staged() const { return C; }
    __device__ int  warp_column() const { return 0; }
    __device__ void open() {}
    __device__ void stage(int64_t from, int len, char *to) const {
        for (int c = 0; c < C && c < columns; c++)
            rp_stage_q8_act(x + (size_t)c * stride, n, from, len, to + c * rp_staged_bytes(len));
    }
    __device__ bool  aligned() const { return ((uintptr_t)x | (C > 1 ? stride : 0)) % 16 == 0; }
    __device__ float at(int64_t i) const { return ((const float *)x)[i]; }
    template <bool ALIGNED>
    __device__ void load8(int c, int64_t i, int64_t left, float (&v)[RP_FLOAT_FRAG]) const {
        rp_load8<ALIGNED>((const float *)(x + (size_t)(c < columns ? c : 0) * stride) + i, left, v);
    }
};

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
            if (T == RP_Q8_0 || T == RP_MXFP4) continue;
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
        const int64_t bytes = Blocks<T>::FIRST_PLANE;
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
template <RpDtype T, int C, class Weights, class Columns, class Put>
__device__ static inline void rp_gemv_quant(const GemvWork &work, const Weights &weights, Columns columns,
                                            const Put &put) {
    typedef typename Blocks<T>::Raw Raw;
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

/* ---- quantised weights, f32 columns ---- */

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

/* ---- float weights ---- */

/* The two float rows of a warp. */
struct FloatRows {
    const char *row[RP_GEMV_ROWS];
};

/* Weights: rows m and m + 1 of one matrix, `stride` bytes apart. */
struct FloatMatrix {
    const char          *w;
    size_t               stride;
    int64_t              rows;
    __device__ FloatRows at(int64_t m) const {
        const int64_t last = rows - 1;
        return {
            {w + (size_t)(m < last ? m : last) * stride, w + (size_t)(m + 1 < last ? m + 1 : last) * stride}
        };
    }
    __device__ bool aligned() const { return ((uintptr_t)w | stride) % 16 == 0; }
};

/* Weights: row m of each of two matrices. */
struct TwoFloatMatrices {
    const char          *w[RP_GEMV_ROWS];
    size_t               stride[RP_GEMV_ROWS];
    int64_t              rows;
    __device__ FloatRows at(int64_t m) const {
        const size_t row = (size_t)(m < rows ? m : rows - 1);
        return {
            {w[0] + row * stride[0], w[1] + row * stride[1]}
        };
    }
    __device__ bool aligned() const {
        return ((uintptr_t)w[0] | (uintptr_t)w[1] | stride[0] | stride[1]) % 16 == 0;
    }
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
        const uint16_t h = (uint16_t)(rp_word(bits[0], i / 2 % 4) >> (16 * (i % 2)));
        return T == RP_F16 ? rp_half_bits(h) : rp_bf16_bits(h);
    }
};

/* Accumulates `length` terms: a lane takes eight consecutive elements, then those 32 * split * 8 further on. */
template <RpDtype T, int C, bool ALIGNED, class Columns>
__device__ static inline void rp_float_rows(const GemvWork &work, const FloatRows &rows,
                                            const Columns &columns, int64_t length,
                                            float (&acc)[RP_GEMV_ROWS][C]) {
    const int64_t step = (int64_t)work.split * RP_WARP * RP_FLOAT_FRAG;
#pragma unroll 2
    for (int64_t i = (int64_t)rp_gemv_lane_frag(work) * RP_FLOAT_FRAG; i < length; i += step) {
        Weights8<T, ALIGNED> a[RP_GEMV_ROWS];
        float                x[C][RP_FLOAT_FRAG];
#pragma unroll
        for (int r = 0; r < RP_GEMV_ROWS; r++)
            a[r].load(rows.row[r] + (size_t)i * (T == RP_F32 ? 4 : 2), length - i);
#pragma unroll
        for (int c = 0; c < C; c++) columns.template load8<ALIGNED>(c, i, length - i, x[c]);
#pragma unroll
        for (int k = 0; k < RP_FLOAT_FRAG; k++) {
            if (i + k >= length) break;
#pragma unroll
            for (int r = 0; r < RP_GEMV_ROWS; r++)
#pragma unroll
                for (int c = 0; c < C; c++) acc[r][c] = fmaf(a[r].at(k), x[c][k], acc[r][c]);
        }
    }
}

/* Float GEMV: f32, f16 or bf16 weights, f32 columns, products in f32. `length` may be less than work.n, where
 * positions bound the sum. One unaligned row or column sends the whole block to scalar loads; the sums stay the
 * same. */
template <RpDtype T, int C, class Weights, class Columns, class Put>
__device__ static inline void rp_gemv_float(const GemvWork &work, const Weights &weights, Columns columns,
                                            int64_t length, const Put &put) {
    const bool      aligned = weights.aligned() && columns.aligned();
    const FloatRows first   = weights.at(rp_gemv_warp_row(work, 0));
    rp_gemv_prefetch_and_wait(work, (const uint8_t *)first.row[0], (const uint8_t *)first.row[1],
                              length * (T == RP_F32 ? 4 : 2));
    columns.open();
    for (int64_t tile = 0; tile < work.n_tiles; tile++) {
        if (tile > 0 && rp_gemv_block_row(work, tile) >= work.rows) break;
        const FloatRows rows                 = weights.at(rp_gemv_warp_row(work, tile));
        float           acc[RP_GEMV_ROWS][C] = {};
        if (aligned)
            rp_float_rows<T, C, true>(work, rows, columns, length, acc);
        else
            rp_float_rows<T, C, false>(work, rows, columns, length, acc);
        rp_gemv_finish<C>(work, tile, acc, put);
    }
}

#endif
