/* column.cuh - the prologue of a fused product of one token (RpColumnParams): c = quantize(rms_norm(x)), either
 * step optional. Every block computes the whole column itself while it stages it to shared memory. This saves
 * the kernels of both steps; x is small and is read from L2 by all blocks but the first. Norm and quantisation
 * use the functions and the order of rms_norm.cu and quantize.cu, so a fused op has the bits of the separate
 * ops. */
#ifndef KERNELS_DEVICE_COLUMN_CUH
#define KERNELS_DEVICE_COLUMN_CUH

#include "kernels/device/gemv_forms.cuh"
#include "kernels/device/quantize.cuh"
#include "kernels/device/rms_norm.cuh"

static_assert((int)RP_GEMV_THREADS == (int)RP_NORM_THREADS, "one block computes the norm");

/* With a norm and more blocks than this, each block computes several row tiles, so that fewer blocks repeat the
 * prologue. */
enum { RP_COLUMN_BLOCKS = 1024 };

/* x is f32 [n], or q8_act where it was quantised before. */
struct ColumnSource {
    const char  *x;
    const float *weight; /* of the norm, or NULL */
    int64_t      n;
    float        eps;
    bool         quantized; /* x is q8_act already */
    bool         norm;      /* the prologue has a norm */
    bool         quantize;  /* the product takes q8_act: x is, or the prologue quantises it */
};

static inline ColumnSource rp_column_source(const RpTensorView &x, const RpTensorView &norm,
                                            const RpColumnParams &p) {
    return {(const char *)x.data,
            (const float *)norm.data,
            x.ne[0],
            p.eps,
            x.dtype == RP_Q8_ACT,
            p.norm != 0,
            p.round != 0 || x.dtype == RP_Q8_ACT};
}

/* Row tiles per block, from the shape of the launch only (I5). */
static inline int64_t rp_column_tiles(const ColumnSource &c, int64_t blocks) {
    return c.norm && blocks > RP_COLUMN_BLOCKS ? blocks / RP_COLUMN_BLOCKS : 1;
}

/* Grid of a fused product with `results` rows, warp_results per warp: `blocks` blocks with n_tiles row tiles
 * each. `times` is how often the grid repeats, once per chosen expert. */
struct ColumnGrid {
    int     split;
    int64_t n_tiles, blocks;
};

static inline ColumnGrid rp_column_grid(const ColumnSource &c, int64_t results, int warp_results, int split,
                                        int64_t times) {
    const int64_t all     = rp_blocks(results, (int64_t)warp_results * RP_GEMV_WARPS / split),
                  n_tiles = rp_column_tiles(c, all * times);
    return {split, n_tiles, (all + n_tiles - 1) / n_tiles};
}

/* The work of this block, a part of the rows of w. */
__device__ static inline GemvWork rp_column_work(const ColumnGrid &grid, const RpTensorView &w, bool early) {
    GemvWork work    = {w.ne[1], w.ne[0], 1, grid.split};
    work.block       = blockIdx.x;
    work.early       = early;
    work.n_tiles     = grid.n_tiles;
    work.tile_stride = gridDim.x;
    return work;
}

/* Put: stores sum + bias (bias may be NULL) for an epilogue that needs the sums of several blocks. It reads them by
 * __ldcg. */
struct BiasedSums {
    float          *sums;
    const float    *bias;
    int64_t         rows;
    __device__ void operator()(int64_t m, int, const float (&v)[RP_GEMV_ROWS]) const {
        for (int r = 0; r < RP_GEMV_ROWS; r++)
            if (m + r < rows) sums[m + r] = v[r] + (bias != nullptr ? bias[m + r] : 0.0f);
    }
};

/* Dynamic shared memory for the staged column; a f32 column is read from L2 and not staged. */
static inline unsigned rp_column_shared(const ColumnSource &c) {
    return c.quantize ? (unsigned)rp_gemv_shared<1>(c.n) : 0;
}

/* The Columns concept of gemv.cuh, with one column. `scale` is the factor of the norm, set by open(). */
struct FusedColumn {
    enum { COLUMNS = 1 };
    ColumnSource c;
    float        scale;

    __device__ explicit FusedColumn(const ColumnSource &source) : c(source), scale(1.0f) {}

    __device__ int n_staged() const { return 1; }
    __device__ int warp_column() const { return 0; }

    __device__ void open() {
        RP_SHARED(float, sums, [RP_WARP]);
        if (c.norm) scale = rp_rms_scale<false>((const float *)c.x, c.n, c.eps, sums);
    }

    __device__ float normed(float v, int64_t i) const {
        return c.norm ? v * scale * (c.weight != nullptr ? c.weight[i] : 1.0f) : v;
    }

    /* Four elements per thread; eight neighbouring lanes quantise one block of 32 together. Whole warps enter
     * each iteration, because rp_quantize4 shuffles: lanes past the end load element 0 and store nothing. */
    __device__ void stage(int64_t from, int len, char *to) const {
        if (c.quantized) return rp_stage_q8_act(c.x, c.n, from, len, to);
        const int fours = len / 4, lane = (int)threadIdx.x % RP_WARP;
#pragma unroll 1
        for (int i = (int)threadIdx.x; i - lane < fours; i += RP_GEMV_THREADS) { /* whole warps */
            const bool    keep = i < fours;
            const int64_t at   = from + 4 * (int64_t)(keep ? i : 0);
            float4        v    = rp_load4<false>((const float *)c.x, at, c.n);
            if (c.norm) {
                v.x *= scale, v.y *= scale, v.z *= scale, v.w *= scale;
                if (c.weight != nullptr) {
                    const float4 w = rp_load4<false>(c.weight, at, c.n);
                    v.x *= w.x, v.y *= w.y, v.z *= w.z, v.w *= w.w;
                }
            }
            rp_quantize4(v, to, len, i, keep);
        }
    }

    __device__ bool aligned() const { return ((uintptr_t)c.x | (uintptr_t)c.weight) % 16 == 0; }

    __device__ float at(int64_t i) const { return normed(((const float *)c.x)[i], i); }

    template <bool ALIGNED>
    __device__ void load8(int, int64_t i, int64_t left, float (&v)[RP_FLOAT_FRAG]) const {
        rp_load8<ALIGNED>((const float *)c.x + i, left, v);
        if (!c.norm) return;
        float w[RP_FLOAT_FRAG];
        for (int k = 0; k < RP_FLOAT_FRAG; k++) w[k] = 1.0f;
        if (c.weight != nullptr) rp_load8<ALIGNED>(c.weight + i, left, w);
        for (int k = 0; k < RP_FLOAT_FRAG; k++) v[k] = v[k] * scale * w[k];
    }
};

#endif
