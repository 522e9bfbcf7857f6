/* gemv.cuh - GEMV: a matrix of weights times one to four columns, y[m,c] = sum_k w[k,m] * x[k,c]. mul_mat, mul_mat_id
 * and all fused products of one token are built from it; each brings three parts:
 *
 *     Weights   which rows the warp multiplies:        matrix() and matrices() of a form (gemv_forms.cuh)
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
 *           A block may have 16 warps (Columns::WARPS), which share one prologue. They take two row tiles at a time.
 *
 * staging   q8_act columns are copied to shared memory once per block, slice by slice along k; every warp reads
 *           them from there. Weights go from DRAM to registers, each byte once. A lane has the loads of a few
 *           fragments of both rows in flight at a time; the other resident warps hide the rest of the latency.
 * order     fragments of a lane ascending; lanes by a butterfly (rp_warp_sum); then warps 0 .. split-1. `split`
 *           follows from the shape of the weights only, and columns never mix, so a column has the same sum
 *           alone and beside others (I8). */
#ifndef KERNELS_DEVICE_GEMV_CUH
#define KERNELS_DEVICE_GEMV_CUH

#include "base/tuning.h"
#include "kernels/device/weights.cuh"

enum {
    RP_GEMV_WARPS   = 8, /* of a row tile */
    RP_GEMV_THREADS = RP_GEMV_WARPS * RP_WARP,
    RP_GEMV_ROWS    = 2,
    RP_GEMV_COLUMNS = 4,
    RP_GEMV_BUSY    = 2048,     /* warps that occupy a large device; split no further beyond them */
    RP_GEMV_STAGED  = 4 * 8192, /* elements staged at a time, all columns: 45056 bytes of q8_act */
    RP_CACHE_LINE   = 128,
    RP_FLOAT_FRAG   = 8 /* a fragment of f32, f16 or bf16 weights */
};

/* One block's part of a launch. A row tile is what a block computes at a time; a block computes n_tiles of them, one
 * after the other, fewer where the rows end. The first row of its tile number i (rp_gemv_block_row):
 *
 *     (first_tile + i) * (RP_GEMV_WARPS / (split * n_experts)) * parts * warp_results */
struct GemvWork {
    int  rows, n; /* results per column; terms of each sum */
    int  columns, split;
    int  warp_results = RP_GEMV_ROWS; /* 2: two rows of one matrix; 1: one row of each of two */
    int  n_experts    = 1;            /* experts side by side: the same rows of different matrices */
    int  parts        = 1;            /* parts of a warp, each with rows of its own (rp_gemv_parts) */
    bool inactive     = false;        /* this warp takes part in barriers only */
    int  early        = -1;           /* bytes of a row that are prefetched before griddepcontrol.wait; -1: the
                                            kernel has waited already */
    int  first_tile   = 0;
    int  n_tiles      = 1;
};

/* Exponent of a power of two. split and n_experts are powers of two, so that divisions are shifts. */
__device__ static inline int rp_log2(int power) { return 31 - __clz(power); }

/* Warps per row pair: doubled while row pairs * split do not occupy the device and every lane of the doubled split
 * still has a fragment. Worked example, 576 rows of 576 elements (18 fragments): 18 < 64, so split stays 1. With
 * 2048 rows of 2048 elements (64 fragments): 1024 < 2048 and 64 >= 64, so split 2; then 2048 warps are enough. */
static inline int rp_gemv_split(int64_t rows, int64_t n_frags) {
    int split = 1;
    while (split < RP_GEMV_WARPS && (rows + 1) / 2 * split < RP_GEMV_BUSY && n_frags >= 2 * split * RP_WARP) split *= 2;
    return split;
}

/* Parts of a warp that multiply rows of their own, where a row has so few fragments that half or three quarters of the
 * lanes would have none. A lane then has one fragment at most, so the sums of lanes that are left out are zeros, and
 * the bits of a sum do not change. Worked example, 12 fragments: lanes 0 to 15 have rows 0 and 1, lanes 16 to 31 rows 2
 * and 3. */
static inline int rp_gemv_parts(int64_t n_frags) { return n_frags <= RP_WARP / 4 ? 4 : n_frags <= RP_WARP / 2 ? 2 : 1; }

/* Elements of a fragment: what a lane multiplies at a time. */
static inline int rp_gemv_frag_elems(RpDtype type) {
    if (!rp_dtype_is_quant(type)) return RP_FLOAT_FRAG;
    return rp_frag_elems((int)rp_dtype_info(type)->block_elems);
}

static inline LaunchShape rp_gemv_shape(int64_t rows, int split, int64_t y, int64_t z, int64_t shared) {
    return {dim3(rp_blocks(rows, RP_GEMV_ROWS * RP_GEMV_WARPS / split), (unsigned)y, (unsigned)z),
            dim3(RP_GEMV_THREADS), (unsigned)shared};
}

/* Bytes of one staged q8_act column slice, rounded up to 16:  q[len] int8, scale[len/32] f32, sum[len/16] f32. */
__host__ __device__ static inline int64_t rp_staged_bytes(int64_t len) {
    return (len / RP_Q8_ACT_ELEMS * RP_Q8_ACT_BYTES + 15) / 16 * 16;
}

/* Dynamic shared memory for C columns of n elements: whole columns, or slices of RP_GEMV_STAGED / C elements. */
template <int C> static inline int64_t rp_gemv_shared(int64_t n) {
    return C * rp_staged_bytes(n < RP_GEMV_STAGED / C ? (int)n : RP_GEMV_STAGED / C);
}

/* The first row of the block's row tile, and of the warp within it. */
__device__ static inline int rp_gemv_block_row(const GemvWork &work, int tile) {
    return (work.first_tile + tile) *
           ((RP_GEMV_WARPS >> rp_log2(work.split * work.n_experts)) * work.parts * work.warp_results);
}

/* Whether this warp has rows of row tile `tile` or, in a block of 16 warps, of the one after. */
template <int WARPS> __device__ static inline bool rp_gemv_has_rows(const GemvWork &work, int tile) {
    return WARPS == (int)RP_GEMV_WARPS || tile + (int)threadIdx.x / RP_GEMV_THREADS < work.n_tiles;
}

/* Lanes that share the two rows of a warp or of a part. */
__device__ static inline int rp_gemv_lanes(const GemvWork &work) { return RP_WARP >> rp_log2(work.parts); }

__device__ static inline int rp_gemv_warp_row(const GemvWork &work, int tile) {
    const int warp = (int)(threadIdx.x / RP_WARP), lane = (int)(threadIdx.x % RP_WARP);
    const int pair = (warp >> rp_log2(work.split * work.n_experts)) * work.parts + lane / rp_gemv_lanes(work);
    return rp_gemv_block_row(work, tile) + pair * work.warp_results;
}

/* Bytes of a row that each of `blocks` blocks may prefetch, so that all of them fill no more of L2 than the device's
 * share (RpCudaTuning). More would evict what the running kernel still needs. */
static inline int rp_gemv_early(bool early, int64_t blocks, int split, const RpKernelCtx *ctx) {
    const int64_t rows = blocks * (RP_GEMV_WARPS / split) * RP_GEMV_ROWS;
    return early ? (int)(rp_tuning_of(ctx).early_bytes / rows) : -1;
}

/* First statement of a GEMV kernel. `early` is that of GemvWork. Unless it is -1, weights and their addresses are no
 * results of earlier kernels (RpKernelCtx.constant), so the PDL wait is left to rp_gemv_wait. */
__device__ static inline void rp_gemv_open(int early) {
    rp_pdl_launch_dependents();
    if (early < 0) rp_pdl_wait();
}

/* Prefetches one of `planes` planes of the warp's two rows of the first tile into L2 while earlier kernels end: `bytes`
 * of each row, or as many as the device allows. Does nothing if the kernel has waited already. */
__device__ static inline void rp_gemv_prefetch(const GemvWork &work, const uint8_t *a, const uint8_t *b, int64_t bytes,
                                               int planes) {
    const int lanes = RP_WARP * work.split, lane = (int)threadIdx.x & (lanes - 1), most = work.early / planes,
              end = bytes < most ? (int)bytes : most;
    for (int at = lane * RP_CACHE_LINE; at < end; at += lanes * RP_CACHE_LINE) {
        rp_prefetch(a + at);
        rp_prefetch(b + at);
    }
}

/* Waits for earlier kernels (PDL), unless the kernel has done so. */
__device__ static inline void rp_gemv_wait(const GemvWork &work) {
    if (work.early >= 0) rp_pdl_wait();
}

/* Resident blocks per multiprocessor for __launch_bounds__: as many as leave each thread enough registers. */
constexpr int rp_gemv_blocks(RpDtype t, int columns) {
    const bool few = t == RP_Q4_0 || t == RP_Q4_1 || t == RP_Q8_0;
    return columns > 1 && !few ? 1 : 2;
}

/* The first fragment of the lane; the next is 32 * split further on. */
__device__ static inline int rp_gemv_lane_frag(const GemvWork &work) {
    return (int)threadIdx.x & (work.split * rp_gemv_lanes(work) - 1);
}

/* The Put concept: one thread calls put(m, c, v) with the two sums of column c that a warp has: rows m and m + 1, or
 * row m of two matrices. m may be past the last row. This Put stores them. */
struct GemvRows {
    char           *y;
    size_t          y_stride;
    int             rows, columns;
    __device__ void operator()(int m, int c, const float (&v)[RP_GEMV_ROWS]) const {
        for (int r = 0; r < RP_GEMV_ROWS; r++)
            if (m + r < rows && c < columns) ((float *)(y + (size_t)c * y_stride))[m + r] = v[r];
    }
};

struct TwoSums {
    __device__ static float2 fold(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
};

/* Two sums at once, over n_lanes lanes and for the first of them, with the same order of additions. After the first
 * step the lower half of the lanes has the terms of v[0] and the upper half those of v[1]. */
__device__ static inline void rp_warp_sums(float (&v)[2], int n_lanes) {
    float2 both = make_float2(v[0], v[1]);
    if (n_lanes == RP_WARP && RP_FUSED(TwoSums, both)) {
        v[0] = both.x, v[1] = both.y;
        return;
    }
    const int  half  = n_lanes / 2;
    const bool upper = ((int)threadIdx.x & half) != 0;
    float      sum   = upper ? v[1] : v[0];
    sum += __shfl_xor_sync(RP_ALL_LANES, upper ? v[0] : v[1], half);
    for (int lanes = half / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(RP_ALL_LANES, sum, lanes);
    v[0] = sum;
    v[1] = __shfl_xor_sync(RP_ALL_LANES, sum, half);
}

/* Reduces the accumulators of a row tile over lanes, then over the `split` warps of a row pair in their order, and
 * calls put. Every thread of the block calls it. With split > 1 the warps' partial sums pass through shared memory:
 *
 *     partials[warp][c][r], one buffer for even tiles and one for odd ones
 *
 * Two buffers save a barrier: while slow warps still read tile i, fast ones may write tile i + 1. A warp can reach
 * tile i + 2 only past the barrier of tile i + 1, when all have read tile i. */
template <int C, int WARPS, class Put>
__device__ static inline void rp_gemv_reduce(const GemvWork &work, int tile, const float (&acc)[RP_GEMV_ROWS][C],
                                             const Put &put) {
    enum { RESULTS = WARPS * RP_GEMV_ROWS * C };
    RP_SHARED(float, buffers, [2 * RESULTS]);
    const bool mine = rp_gemv_has_rows<WARPS>(work, tile);
    const int  lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP;
    const int  m        = rp_gemv_warp_row(work, tile);
    float     *partials = buffers + tile / (WARPS / RP_GEMV_WARPS) % 2 * RESULTS;
    for (int c = 0; c < C; c++) {
        float sum[RP_GEMV_ROWS] = {acc[0][c], acc[1][c]};
        rp_warp_sums(sum, rp_gemv_lanes(work));
        if ((lane & (rp_gemv_lanes(work) - 1)) != 0) continue;
        if (work.split == 1) {
            if (mine) put(m, c, sum);
        } else
            for (int r = 0; r < RP_GEMV_ROWS; r++) partials[(warp * C + c) * RP_GEMV_ROWS + r] = sum[r];
    }
    if (work.split == 1) return;
    __syncthreads();
    if ((warp & (work.split - 1)) != 0 || lane >= C || !mine)
        return; /* the first warp of each row pair adds: one lane per column */
    float sum[RP_GEMV_ROWS] = {};
    for (int s = 0; s < work.split; s++)
        for (int r = 0; r < RP_GEMV_ROWS; r++) sum[r] += partials[((warp + s) * C + lane) * RP_GEMV_ROWS + r];
    put(m, lane, sum);
}

/* Every thread of the block calls it at the end of a row tile. It does nothing unless there is an overload for the
 * Put. */
template <class Put> __device__ static inline void rp_gemv_end_tile(const Put &, const GemvWork &, int) {}

template <int C, int WARPS, class Put>
__device__ static inline void rp_gemv_finish(const GemvWork &work, int tile, const float (&acc)[RP_GEMV_ROWS][C],
                                             const Put &put) {
    rp_gemv_reduce<C, WARPS>(work, tile, acc, put);
    rp_gemv_end_tile(put, work, tile);
}

/* Copies `bytes` bytes, 16 at a time, by all threads of the block. */
template <int THREADS = RP_GEMV_THREADS> __device__ static inline void rp_copy16(const char *x, int bytes, char *to) {
    for (int i = 16 * (int)threadIdx.x; i < bytes; i += 16 * THREADS) rp_put16(to + i, rp_get16(x + i));
}

/* Copies elements [from, from + len) of a q8_act row of n to shared memory, in the layout of rp_staged_bytes. A whole
 * row has that layout already. Scales and sums are copied as the words they are, and zeros follow up to the next 16
 * bytes: a compiler may widen a load of the last ones. */
template <int THREADS = RP_GEMV_THREADS>
__device__ static inline void rp_stage_q8_act(const char *x, int64_t n, int64_t from, int len, char *to) {
    const int *q = (const int *)(x + from), *scale = (const int *)(x + n) + from / 32,
              *sum = (const int *)(x + n) + n / 32 + from / 16;
    const int  n_q = len / 4, n_scale = len / 32, tid = (int)threadIdx.x, n_words = (int)rp_staged_bytes(len) / 4;
    const bool aligned = (uintptr_t)q % 16 == 0;
    if (aligned && len == n && len % 128 == 0) return rp_copy16<THREADS>(x, (int)rp_staged_bytes(len), to);
    if (aligned && n_q % 4 == 0)
        rp_copy16<THREADS>((const char *)q, len, to);
    else
        for (int i = tid; i < n_q; i += THREADS) ((int *)to)[i] = q[i];
    for (int i = tid; i < n_scale; i += THREADS) ((int *)to)[n_q + i] = scale[i];
    for (int i = tid; n_q + n_scale + i < n_words; i += THREADS)
        ((int *)to)[n_q + n_scale + i] = i < 2 * n_scale ? sum[i] : 0;
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
 *     COLUMNS            that a warp multiplies
 *     WARPS              of the block: RP_GEMV_WARPS, or twice as many
 *     open()             once, by every thread of the block, after the PDL wait: computes a prologue's factors
 *     stage(from,len,to) by every thread, between barriers: writes elements [from, from + len) of n_staged() columns
 *                        as q8_act to shared memory, rp_staged_bytes(len) apart
 *     warp_column()      the first of the staged columns that this warp multiplies
 *     at, load8, aligned f32 columns, read from global memory without staging */
template <int C> struct GemvColumns {
    enum { COLUMNS = C, WARPS = RP_GEMV_WARPS };
    const char     *x;
    size_t          stride;
    int64_t         n;
    int             columns;
    __device__ int  n_staged() const { return C; }
    __device__ int  warp_column() const { return 0; }
    __device__ void open() {}
    __device__ void stage(int64_t from, int len, char *to) const {
        const int64_t bytes = rp_staged_bytes(len);
        if (len == n && (int64_t)stride == bytes && len % 128 == 0 && (uintptr_t)x % 16 == 0)
            return rp_copy16(x, (int)(columns * bytes), to); /* columns without gaps */
        for (int c = 0; c < C && c < columns; c++)
            rp_stage_q8_act(x + (size_t)c * stride, n, from, len, to + c * rp_staged_bytes(len));
    }
    __device__ bool                         aligned() const { return ((uintptr_t)x | (C > 1 ? stride : 0)) % 16 == 0; }
    __device__ float                        at(int64_t i) const { return ((const float *)x)[i]; }
    template <bool ALIGNED> __device__ void load8(int c, int64_t i, int64_t left, float (&v)[RP_FLOAT_FRAG]) const {
        rp_load8<ALIGNED>((const float *)(x + (size_t)(c < columns ? c : 0) * stride) + i, left, v);
    }
};

#endif
