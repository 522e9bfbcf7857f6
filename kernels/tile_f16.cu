/* Products of quantised weights with many q8_act columns in f16 tiles (tile.cuh).
 * geometry  prepare: a block of 256 threads for each column, which it rounds to f16. tiles: grid (column tiles, row
 *           tiles), so that blocks which share weights run at the same time
 * traffic   the weights once for each column tile, f16 columns once for each row tile, from L2
 * numerics  factors rounded to f16, f32 sums (tile_f16.cuh) */
#include "kernels/device/tile_f16.cuh"

namespace {

enum { THREADS = 256 };

struct PrepareArgs {
    RpTensorView x;
    TileColumns  to;
    bool         paired; /* runs in the order of K types */
};

/* Clears the padding, which would hold stack contents, as launch.cuh does for views. */
static inline void rp_clear_padding(PrepareArgs &p) {
    rp_clear_padding(p.x);
    memset((char *)&p.to.shared + sizeof p.to.shared, 0,
           sizeof p.to - offsetof(TileColumns, shared) - sizeof p.to.shared);
    memset((char *)&p.paired + sizeof p.paired, 0, sizeof p - offsetof(PrepareArgs, paired) - sizeof p.paired);
}

/* The run of a row that is stored as run i: with pairs, runs j and j + 4 of each block of 8 are 2j and 2j + 1. */
__device__ int run_at(int i, bool paired) { return paired ? i / 8 * 8 + i % 8 / 2 + i % 2 * 4 : i; }

/* The factor of a column, from its largest scale. */
__device__ TileFactor column_factor(const float *scales, int n, float *scratch) {
    float most = 0.0f;
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        most = scales[i] > most || scales[i] != scales[i] ? scales[i] : most;
    return TileFactor(128.0f * rp_block_max(most, scratch));
}

/* Block r rounds row r of the columns to f16, eight elements a thread; zeros past its end. */
__global__ void __launch_bounds__(THREADS) prepare_kernel(PrepareArgs p) {
    rp_begin();
    RP_SHARED(float, scratch, [RP_WARP]);
    const int        n = (int)p.x.ne[0], r = (int)blockIdx.x;
    const char      *row    = rp_row(p.x, r);
    const float     *scales = (const float *)(row + n);
    const TileFactor f      = column_factor(scales, n / RP_RUN, scratch);
    if (threadIdx.x == 0) p.to.inverse[r] = f.inverse;
    for (int i = (int)threadIdx.x; i < (int)p.to.stride / 8; i += THREADS) {
        const int run  = run_at(i / 4, p.paired);
        unsigned  w[4] = {0, 0, 0, 0};
        if (run < n / RP_RUN) {
            const unsigned *q = (const unsigned *)(row + run * RP_RUN + i % 4 * 8);
            const float     s = scales[run] * f.factor;
            for (int k = 0; k < 4; k++) {
                const unsigned pair = q[k / 2] >> (k % 2 * 16);
                w[k] = rp_tile_pair(s * (float)(int8_t)(pair & 255), s * (float)(int8_t)(pair >> 8 & 255));
            }
        }
        rp_put16((__half *)p.to.data + (size_t)r * (size_t)p.to.stride + 8 * i, make_uint4(w[0], w[1], w[2], w[3]));
    }
}

/* Block (i, r): rows r * S::ROWS on of column tile i. The lists are written by the kernel before, so they are waited
 * for. */
template <RpDtype T, class S> __global__ void __launch_bounds__(S::THREADS, 2) tile_f16_kernel(TileProduct p) {
    rp_pdl_launch_dependents();
    const int64_t all = p.y.ne[1] * p.y.ne[2], first = (int64_t)blockIdx.x * S::COLUMNS;
    TileEntry     tile = {0, (int32_t)first, (int32_t)(all - first < S::COLUMNS ? all - first : S::COLUMNS), 0};
    if (p.tiles != nullptr) {
        rp_pdl_wait();
        if ((int)blockIdx.x >= *p.n_tiles) return; /* the whole block */
        tile = p.tiles[blockIdx.x];
    }
    const TileWork work = {rp_planes<T>(p.w),
                           tile.expert * p.w.ne[1],
                           (int)blockIdx.y * S::ROWS,
                           (int)p.w.ne[1],
                           (int)p.w.ne[0],
                           p.order,
                           tile.first,
                           tile.columns};
    if (tile.expert < p.w.ne[2])
        rp_tile_product<T, S>(work, p.columns, p.y);
    else
        rp_tile_zeros<S>(work, p.y);
}

template <RpDtype T, class S>
RpStatus launch_tiles(const char *op, const TileProduct &p, int64_t most, RpKernelCtx *ctx) {
    const LaunchShape shape = {dim3((unsigned)most, rp_blocks(p.w.ne[1], S::ROWS)), dim3(S::THREADS), 0};
    if (shape.grid.y > 65535 || most > INT32_MAX)
        return rp_fail(RP_E_UNSUPPORTED, "%s: %lld rows of w, %lld tiles of columns: must be at most %d, %d", op,
                       (long long)p.w.ne[1], (long long)most, 65535 * S::ROWS, INT32_MAX);
    return RP_LAUNCH_AS(op, ctx, shape, "tile_f16_kernel", (tile_f16_kernel<T, S>), p);
}

template <RpDtype T>
RpStatus tiles_of_size(const char *op, const TileProduct &p, TileSize size, int64_t most, RpKernelCtx *ctx) {
    if (size == RP_TILE_SMALL) return launch_tiles<T, SmallTile>(op, p, most, ctx);
    if (size == RP_TILE_MID) return launch_tiles<T, MidTile>(op, p, most, ctx);
    return launch_tiles<T, LargeTile>(op, p, most, ctx);
}

} // namespace

extern "C" RpStatus rp_cuda_tiles_f16(const char *op, const TileProduct *p, TileSize size, int64_t most, float *memory,
                                      RpKernelCtx *ctx) {
    const RpTensorView &x       = p->x;
    const int64_t       n       = x.ne[1] * x.ne[2];
    TileProduct         product = *p;
    product.columns             = {memory != nullptr ? memory + (n + 3) / 4 * 4 : nullptr, memory,
                       (x.ne[0] + RP_F16_ALIGN - 1) / RP_F16_ALIGN * RP_F16_ALIGN, (int)(p->y.ne[1] * p->y.ne[2] / n)};
    const PrepareArgs prepare   = {x, product.columns, rp_dtype_info(p->w.dtype)->block_elems > RP_RUN};
    const LaunchShape shape     = {dim3((unsigned)n), dim3(THREADS), 0, true};
    RP_TRY(RP_LAUNCH(op, ctx, shape, prepare_kernel, prepare));
    return RP_FOR_QUANT(p->w.dtype, tiles_of_size, op, product, size, most, ctx);
}
