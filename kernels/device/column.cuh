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

static inline ColumnSource rp_column_source(const RpTensorView &x, const RpTensorView &norm, const RpColumnParams &p) {
    return {(const char *)x.data,
            (const float *)norm.data,
            x.ne[0],
            p.eps,
            x.dtype == RP_Q8_ACT,
            p.norm != 0,
            p.round != 0 || x.dtype == RP_Q8_ACT};
}

/* How the row tiles of a product are divided among blocks. Every block repeats the prologue, so there are no more
 * blocks than the device holds at a time, and each takes tiles that follow each other:
 *
 *     block b computes tiles  b * turns + min(b, rest)  and following,  turns + 1 of them if b < rest, else turns
 *
 * Worked example, 10 tiles for 4 blocks: turns = 2, rest = 2; tiles 0-2, 3-5, 6-7, 8-9. Where an epilogue needs the
 * results of `unit` tiles that follow each other, these are counted as one. */
struct ColumnGrid {
    int split, blocks, turns, rest;
    int early; /* of GemvWork */
    int unit = 1;
};

/* Divides `tiles` row tiles among `blocks` blocks. */
static inline ColumnGrid rp_grid_of(int64_t tiles, int64_t blocks, int split) {
    return {split, (int)blocks, (int)(tiles / blocks), (int)(tiles % blocks), -1};
}

/* Row tiles of the multiprocessor that gets the most of them. */
static inline int64_t rp_most_tiles(int64_t tiles, int64_t blocks, int n_sm) {
    const int64_t turns = tiles / blocks, rest = tiles % blocks, each = (blocks + n_sm - 1) / n_sm;
    return each * turns + ((rest + n_sm - 1) / n_sm < each ? (rest + n_sm - 1) / n_sm : each);
}

/* A grid for `tiles` row tiles and at most `most` blocks. Blocks with the same number of tiles are preferred where no
 * multiprocessor gets more tiles by it: all of them end at the same time, and fewer repeat the prologue. */
static inline ColumnGrid rp_divide_tiles(int64_t tiles, int64_t most, int split, const RpKernelCtx *ctx) {
    const int     n_sm = rp_tuning_of(ctx).n_sm;
    const int64_t full = tiles < most ? tiles : most, turns = (tiles + full - 1) / full,
                  even   = (tiles + turns - 1) / turns;
    const int64_t blocks = rp_most_tiles(tiles, even, n_sm) <= rp_most_tiles(tiles, full, n_sm) ? even : full;
    return rp_grid_of(tiles, blocks, split);
}

/* Grid of a fused product with `results` rows, warp_results per warp. `resident` blocks fit a multiprocessor at a
 * time. `times` is how often the grid repeats, once per chosen expert. */
static inline ColumnGrid rp_column_grid(int64_t results, int warp_results, int split, int resident, int64_t times,
                                        bool early, const RpKernelCtx *ctx) {
    const int64_t tiles = rp_blocks(results, (int64_t)warp_results * RP_GEMV_WARPS / split),
                  slots = rp_tuning_blocks(ctx, resident) / times;
    ColumnGrid grid     = rp_divide_tiles(tiles, slots > 1 ? slots : 1, split, ctx);
    grid.early          = rp_gemv_early(early, grid.blocks, split, ctx);
    return grid;
}

/* The same grid in units of `unit` tiles, so that no block needs the results of another. Multiprocessors get more
 * uneven shares by it. Returns `grid` itself where one would get more than a sixth more tiles than the largest share
 * before. */
static inline ColumnGrid rp_whole_units(const ColumnGrid &grid, int unit, int resident, const RpKernelCtx *ctx) {
    const int     n_sm  = rp_tuning_of(ctx).n_sm;
    const int64_t tiles = (int64_t)grid.blocks * grid.turns + grid.rest, units = (tiles + unit - 1) / unit;
    ColumnGrid    whole = rp_divide_tiles(units, rp_tuning_blocks(ctx, resident), grid.split, ctx);
    whole.early = grid.early, whole.unit = unit;
    const int64_t before = rp_most_tiles(tiles, grid.blocks, n_sm);
    return 6 * unit * rp_most_tiles(units, whole.blocks, n_sm) <= 7 * before ? whole : grid;
}

/* A launch of several products of a column: warps of a block, and blocks that a multiprocessor holds at a time. With
 * q8_act columns it has one block of 16 warps, so that it computes the column once. */
template <class Form> struct BlockShape {
    enum {
        WARPS    = (Form::STAGED ? 2 : 1) * RP_GEMV_WARPS,
        THREADS  = WARPS * RP_WARP,
        RESIDENT = Form::STAGED ? 1 : Form::min_blocks(1)
    };
};

/* The row tiles of one of several products of a column in one launch. */
struct TileShare {
    int64_t tiles, bytes, turns; /* bytes: of a tile; turns: tiles of a block */
    int     split;
};

static inline TileShare rp_tile_share(const RpTensorView &w) {
    const int     split = rp_gemv_split(w.ne[1], w.ne[0] / rp_gemv_frag_elems(w.dtype));
    const int64_t rows  = RP_GEMV_ROWS * RP_GEMV_WARPS / split;
    return {rp_blocks(w.ne[1], rows), rows * (int64_t)rp_row_bytes(w.dtype, w.ne[0]), 1, split};
}

static inline int64_t rp_share_blocks(const TileShare &t) {
    return t.tiles > 0 ? (t.tiles + t.turns - 1) / t.turns : 0;
}

static inline ColumnGrid rp_share_grid(const TileShare &t) {
    const int64_t blocks = rp_share_blocks(t);
    return blocks > 0 ? rp_grid_of(t.tiles, blocks, t.split) : ColumnGrid();
}

/* Divides the tiles of n products among blocks of about the same number of bytes, at most `slots`. The tiles of a block
 * grow by one where that makes the smallest blocks, until there are few enough. */
static inline void rp_share_tiles(TileShare *t, int n, int64_t slots) {
    for (;;) {
        int64_t blocks = 0;
        int     next   = -1;
        for (int i = 0; i < n; i++) {
            blocks += rp_share_blocks(t[i]);
            const bool best = next < 0 || (t[i].turns + 1) * t[i].bytes < (t[next].turns + 1) * t[next].bytes;
            if (t[i].turns < t[i].tiles && best) next = i;
        }
        if (blocks <= slots || next < 0) break;
        t[next].turns++;
    }
}

/* Row pairs that all blocks compute at a time; a block computes `at_a_time` tiles side by side. */
static inline int64_t rp_share_pairs(const TileShare *t, int n, int64_t at_a_time) {
    int64_t pairs = 0;
    for (int i = 0; i < n; i++)
        if (t[i].tiles > 0)
            pairs += rp_share_blocks(t[i]) * (t[i].turns < at_a_time ? t[i].turns : at_a_time) *
                     (RP_GEMV_WARPS / t[i].split);
    return pairs;
}

__device__ static inline int rp_first_tile(const ColumnGrid &grid, int block) {
    return grid.unit * (block * grid.turns + (block < grid.rest ? block : grid.rest));
}

/* The block that computes a tile, in a grid with units of one tile: the inverse of rp_first_tile. */
__device__ static inline int rp_block_of_tile(const ColumnGrid &grid, int tile) {
    const int longer = grid.rest * (grid.turns + 1); /* tiles of the blocks with turns + 1 of them */
    return tile < longer ? tile / (grid.turns + 1) : grid.rest + (tile - longer) / grid.turns;
}

/* The number of blocks that compute rows of [from, to). Each of them arrives at a counter of these rows. */
__device__ static inline unsigned rp_blocks_of_rows(const ColumnGrid &grid, int tile_rows, int64_t from, int64_t to) {
    const int shift = rp_log2(tile_rows);
    return (unsigned)(rp_block_of_tile(grid, (int)((to - 1) >> shift)) - rp_block_of_tile(grid, (int)(from >> shift)) +
                      1);
}

/* The work of block number `block` of the grid, a part of the rows of w. */
__device__ static inline GemvWork rp_column_work(const ColumnGrid &grid, const RpTensorView &w, int block) {
    GemvWork work   = {(int)w.ne[1], (int)w.ne[0], 1, grid.split};
    work.early      = grid.early;
    work.first_tile = rp_first_tile(grid, block);
    work.n_tiles    = grid.unit * (grid.turns + (block < grid.rest ? 1 : 0));
    return work;
}

/* The rows of the block, [first, end). */
struct BlockRows {
    int first, end;
};

__device__ static inline BlockRows rp_block_rows(const GemvWork &work) {
    const int end = rp_gemv_block_row(work, work.n_tiles);
    return {rp_gemv_block_row(work, 0), end < work.rows ? end : work.rows};
}

/* Put: stores sum + bias (bias may be NULL) for an epilogue that needs the sums of several blocks. It reads them by
 * __ldcg. */
struct BiasedSums {
    float          *sums;
    const float    *bias;
    int             rows;
    __device__ void operator()(int m, int, const float (&v)[RP_GEMV_ROWS]) const {
        for (int r = 0; r < RP_GEMV_ROWS; r++)
            if (m + r < rows) sums[m + r] = v[r] + (bias != nullptr ? bias[m + r] : 0.0f);
    }
};

/* Dynamic shared memory for the staged column; a f32 column is read from L2 and not staged. */
static inline unsigned rp_column_shared(const ColumnSource &c) {
    return c.quantize ? (unsigned)rp_gemv_shared<1>(c.n) : 0;
}

/* The Columns concept of gemv.cuh, with one column, for a block of BLOCK_WARPS. `scale` is the factor of the norm,
 * set by open(). */
template <int BLOCK_WARPS> struct ColumnOfBlock {
    enum { COLUMNS = 1, WARPS = BLOCK_WARPS, THREADS = BLOCK_WARPS * RP_WARP };
    ColumnSource c;
    float        scale;

    __device__ explicit ColumnOfBlock(const ColumnSource &source) : c(source), scale(1.0f) {}

    __device__ int n_staged() const { return 1; }
    __device__ int warp_column() const { return 0; }

    __device__ void open() {
        RP_SHARED(float, sums, [RP_WARP]);
        if (c.norm) scale = rp_rms_scale<false, THREADS>((const float *)c.x, c.n, c.eps, sums);
    }

    __device__ float normed(float v, int64_t i) const {
        return c.norm ? v * scale * (c.weight != nullptr ? c.weight[i] : 1.0f) : v;
    }

    /* Eight elements per thread; four neighbouring lanes quantise one block of 32 together. Whole warps enter
     * each iteration, because rp_quantize8 shuffles: lanes past the end load element 0 and store nothing. */
    __device__ void stage(int64_t from, int len, char *to) const {
        if (c.quantized) return rp_stage_q8_act<THREADS>(c.x, c.n, from, len, to);
        const int    eights = len / 8, lane = (int)threadIdx.x % RP_WARP;
        const bool   whole = aligned();
        const float *x = (const float *)c.x + from, *weight = c.weight != nullptr ? c.weight + from : nullptr;
#pragma unroll 1
        for (int i = (int)threadIdx.x; i - lane < eights; i += THREADS) { /* whole warps */
            const bool keep = i < eights;
            const int  at   = keep ? 8 * i : 0;
            float      v[8];
            load(x + at, whole, v);
            if (c.norm) {
#pragma unroll
                for (int k = 0; k < 8; k++) v[k] *= scale;
                if (weight != nullptr) {
                    float w[8];
                    load(weight + at, whole, w);
#pragma unroll
                    for (int k = 0; k < 8; k++) v[k] *= w[k];
                }
            }
            rp_quantize8(v, to, len, i, keep);
        }
    }

    /* x[0] to x[7]. The rows of q8_act are whole blocks, so no bound is needed. */
    __device__ static void load(const float *x, bool aligned, float (&v)[8]) {
#pragma unroll
        for (int k = 0; k < 8; k += 4) {
            const float4 f = aligned ? rp_get_float4(x + k) : make_float4(x[k], x[k + 1], x[k + 2], x[k + 3]);
            v[k] = f.x, v[k + 1] = f.y, v[k + 2] = f.z, v[k + 3] = f.w;
        }
    }

    __device__ bool aligned() const { return ((uintptr_t)c.x | (uintptr_t)c.weight) % 16 == 0; }

    __device__ float at(int64_t i) const { return normed(((const float *)c.x)[i], i); }

    template <bool ALIGNED> __device__ void load8(int, int64_t i, int64_t left, float (&v)[RP_FLOAT_FRAG]) const {
        rp_load8<ALIGNED>((const float *)c.x + i, left, v);
        if (!c.norm) return;
        float w[RP_FLOAT_FRAG];
        for (int k = 0; k < RP_FLOAT_FRAG; k++) w[k] = 1.0f;
        if (c.weight != nullptr) rp_load8<ALIGNED>(c.weight + i, left, w);
        for (int k = 0; k < RP_FLOAT_FRAG; k++) v[k] = v[k] * scale * w[k];
    }
};

typedef ColumnOfBlock<RP_GEMV_WARPS> FusedColumn;

#endif
