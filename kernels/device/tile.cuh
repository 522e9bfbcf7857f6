/* tile.cuh - products of quantised weights with many q8_act columns in tiles on tensor cores. RpCudaTuning.prefill_tile
 * chooses between two kinds of tiles, whose bits differ:
 *
 *     kind                                        large        mid        small       rows x columns
 *     int8   tile_int8.cuh, kernels/tile_int8.cu  128 x 64     32 x 64    32 x 16
 *     f16    tile_f16.cuh, kernels/tile_f16.cu    128 x 128    64 x 64    32 x 32
 *
 * Within a kind the size of the tile changes no bits. mul_mat_id uses tiles for the columns of each expert. */
#ifndef KERNELS_DEVICE_TILE_CUH
#define KERNELS_DEVICE_TILE_CUH

#include "base/kernels.h"
#include "base/tuning.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum TileSize { RP_TILE_LARGE, RP_TILE_MID, RP_TILE_SMALL } TileSize;

enum {
    RP_INT8_LARGE_ROWS    = 128,
    RP_INT8_ROWS          = 32, /* of the others */
    RP_INT8_COLUMNS       = 64,
    RP_INT8_SMALL_COLUMNS = 16,
    RP_F16_LARGE          = 128, /* rows and columns */
    RP_F16_MID            = 64,
    RP_F16_SMALL          = 32,
    RP_F16_ALIGN          = 256 /* elements: f16 columns are stored with zeros up to a multiple of this */
};

/* Columns of a tile. */
static inline int rp_tile_columns(RpPrefillTile kind, TileSize size) {
    if (kind == RP_PREFILL_INT8) return size == RP_TILE_SMALL ? RP_INT8_SMALL_COLUMNS : RP_INT8_COLUMNS;
    if (size == RP_TILE_LARGE) return RP_F16_LARGE;
    return size == RP_TILE_MID ? RP_F16_MID : RP_F16_SMALL;
}

/* Tiles of `each` x `each` results of one multiprocessor, in units of 32 x 32 results. */
static inline int64_t rp_tile_turns(int64_t each, int64_t rows, int64_t columns, int64_t used, int n_sm) {
    const int64_t full = (columns + each - 1) / each, tiles = (rows + each - 1) / each * (full > used ? full : used);
    return (tiles + n_sm - 1) / n_sm * (each / RP_F16_SMALL) * (each / RP_F16_SMALL);
}

/* For `columns` columns that are spread over `matrices` matrices of `rows` rows. int8: large tiles where they are as
 * many as multiprocessors. f16: a result of a large tile takes about 4/5 of the instructions of one of a middle tile,
 * whose weights serve half as many columns. */
static inline TileSize rp_tile_size(RpPrefillTile kind, int64_t rows, int64_t columns, int64_t matrices, int n_sm) {
    const int64_t used = matrices < columns ? matrices : columns; /* matrices with a column */
    if (kind == RP_PREFILL_INT8) {
        if (columns <= used * RP_INT8_SMALL_COLUMNS) return RP_TILE_SMALL;
        const int64_t most  = (columns + RP_INT8_COLUMNS - 1) / RP_INT8_COLUMNS;
        const int64_t large = (rows + RP_INT8_LARGE_ROWS - 1) / RP_INT8_LARGE_ROWS * (most > used ? most : used);
        return large < n_sm ? RP_TILE_MID : RP_TILE_LARGE;
    }
    if (columns <= (used == 1 ? 2 : used) * (int64_t)RP_F16_SMALL / 2) return RP_TILE_SMALL;
    if (columns <= used * RP_F16_MID) return RP_TILE_MID;
    const int64_t large = rp_tile_turns(RP_F16_LARGE, rows, columns, used, n_sm),
                  mid   = rp_tile_turns(RP_F16_MID, rows, columns, used, n_sm);
    return 4 * large <= 5 * mid ? RP_TILE_LARGE : RP_TILE_MID;
}

/* Columns order[first] to order[first + columns - 1] times matrix `expert`. An expert past the last gives zeros. */
typedef struct TileEntry {
    int32_t expert, first, columns, unused;
} TileEntry;

/* The columns as f16, in device memory: row r is data[r * stride], a multiple of RP_F16_ALIGN elements, and is to be
 * multiplied by inverse[r]. `shared`: number of neighbouring columns of the result that have one row. */
typedef struct TileColumns {
    void   *data;
    float  *inverse;
    int64_t stride;
    int     shared;
} TileColumns;

/* y[:,c] = w[:,:,expert of c] * x[:,c]. Column c is row (c % y.ne[1], c / y.ne[1]) of y; the same of x, or (0, c /
 * y.ne[1]) where x.ne[1] is 1. Without lists (NULL) all columns are in order and belong to matrix 0. */
typedef struct TileProduct {
    RpTensorView     w, x, y;
    const int32_t   *n_tiles; /* in device memory, like the lists */
    const TileEntry *tiles;
    const int32_t   *order;
    TileColumns      columns; /* set by rp_cuda_tiles_f16 */
} TileProduct;

/* Scratch memory for the columns of x, in floats. */
static inline int64_t rp_tile_floats(RpPrefillTile kind, const RpTensorView *x) {
    const int64_t stride = (x->ne[0] + RP_F16_ALIGN - 1) / RP_F16_ALIGN * RP_F16_ALIGN, n = x->ne[1] * x->ne[2];
    return kind == RP_PREFILL_F16 ? (n + 3) / 4 * 4 + n * (stride / 2) : 0;
}

/* Launches the product for at most `most` tiles of columns. `memory`: device memory of rp_tile_floats floats, aligned
 * to 16 bytes; NULL if the launches are only inspected. */
RP_NODISCARD RpStatus rp_cuda_tiles_int8(const char *op, const TileProduct *p, TileSize size, int64_t most,
                                         RpKernelCtx *ctx);
RP_NODISCARD RpStatus rp_cuda_tiles_f16(const char *op, const TileProduct *p, TileSize size, int64_t most,
                                        float *memory, RpKernelCtx *ctx);

/* Launches the kind of tile that RpCudaTuning.prefill_tile names. */
RP_NODISCARD static inline RpStatus rp_cuda_tiles(const char *op, const TileProduct *p, TileSize size, int64_t most,
                                                  float *memory, RpKernelCtx *ctx) {
    if (rp_tuning_of(ctx).prefill_tile == RP_PREFILL_INT8) return rp_cuda_tiles_int8(op, p, size, most, ctx);
    return rp_cuda_tiles_f16(op, p, size, most, memory, ctx);
}

#ifdef __cplusplus
}
#endif
#endif
