/* Products of quantised weights with many q8_act columns in int8 tiles (tile.cuh).
 * geometry  grid (column tiles, row tiles), so that blocks which share weights run at the same time
 * traffic   the weights once for each column tile, the columns once for each row tile, from L2
 * numerics  exact integer products of 32 elements, f32 sums (tile_int8.cuh) */
#include "kernels/device/tile_int8.cuh"

namespace {

/* Block (i, r): rows r * S::ROWS on of column tile i. */
template <RpDtype T, class S>
__global__ void __launch_bounds__(S::THREADS, rp_tile_resident<T, S>()) tile_int8_kernel(TileProduct p) {
    rp_begin();
    RP_SHARED(int64_t, x_at, [S::COLUMNS]);
    RP_SHARED(int64_t, y_at, [S::COLUMNS]);
    const int64_t all = p.y.ne[1] * p.y.ne[2], first = (int64_t)blockIdx.x * S::COLUMNS;
    TileEntry     tile = {0, (int32_t)first, (int32_t)(all - first < S::COLUMNS ? all - first : S::COLUMNS), 0};
    if (p.tiles != nullptr) {
        if ((int)blockIdx.x >= *p.n_tiles) return; /* the whole block */
        tile = p.tiles[blockIdx.x];
    }
    const int c = (int)threadIdx.x;
    if (c < S::COLUMNS) { /* past the last column: the last one, of which nothing is stored */
        const int     i      = tile.first + (c < tile.columns ? c : tile.columns - 1);
        const int64_t column = p.order != nullptr ? p.order[i] : i, j = column % p.y.ne[1], t = column / p.y.ne[1];
        x_at[c] = rp_row_at(p.x, p.x.ne[1] > 1 ? j : 0, t, 0) - (char *)p.x.data;
        y_at[c] = rp_row_at(p.y, j, t, 0) - (char *)p.y.data;
    }
    __syncthreads();
    const TileWork work = {rp_planes<T>(p.w),
                           tile.expert * p.w.ne[1],
                           (int)blockIdx.y * S::ROWS,
                           (int)p.w.ne[1],
                           (int)p.w.ne[0],
                           (const char *)p.x.data,
                           (char *)p.y.data,
                           x_at,
                           y_at,
                           tile.columns};
    if (tile.expert < p.w.ne[2])
        rp_tile_product<T, S>(work);
    else
        rp_tile_zeros<S>(work);
}

template <RpDtype T, class S>
RpStatus launch_tiles(const char *op, const TileProduct &p, int64_t most, RpKernelCtx *ctx) {
    const LaunchShape shape = {dim3((unsigned)most, rp_blocks(p.w.ne[1], S::ROWS)), dim3(S::THREADS), 0};
    if (shape.grid.y > 65535 || most > INT32_MAX)
        return rp_fail(RP_E_UNSUPPORTED, "%s: %lld rows of w, %lld tiles of columns: must be at most %d, %d", op,
                       (long long)p.w.ne[1], (long long)most, 65535 * S::ROWS, INT32_MAX);
    return RP_LAUNCH_AS(op, ctx, shape, "tile_int8_kernel", (tile_int8_kernel<T, S>), p);
}

template <RpDtype T>
RpStatus tiles_of_size(const char *op, const TileProduct &p, TileSize size, int64_t most, RpKernelCtx *ctx) {
    if (size == RP_TILE_SMALL) return launch_tiles<T, SmallTile>(op, p, most, ctx);
    if (size == RP_TILE_MID) return launch_tiles<T, MidTile>(op, p, most, ctx);
    return launch_tiles<T, LargeTile>(op, p, most, ctx);
}

} // namespace

extern "C" RpStatus rp_cuda_tiles_int8(const char *op, const TileProduct *p, TileSize size, int64_t most,
                                       RpKernelCtx *ctx) {
    return RP_FOR_QUANT(p->w.dtype, tiles_of_size, op, *p, size, most, ctx);
}
