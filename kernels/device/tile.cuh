/* tile.cuh - products of quantised weights with many q8_act columns in tiles on tensor cores (tile_quant.cuh). The
 * kernels are in kernels/mul_mat.cu; mul_mat_id uses them for the columns of each expert. */
#ifndef KERNELS_DEVICE_TILE_CUH
#define KERNELS_DEVICE_TILE_CUH

#include "base/kernels.h"
#include "base/tuning.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Products of at least so many columns are computed in tiles, fewer by a GEMV. */
enum { RP_TILE_MIN_COLUMNS = 5 };

/* The tiles that a product can be cut into: 128 rows x 64 columns, 32 x 64 for few rows, 32 x 16 for few columns. The
 * choice changes no bits. */
typedef enum TileKind { RP_TILE_LARGE, RP_TILE_MID, RP_TILE_SMALL } TileKind;

enum { RP_TILE_SMALL_COLUMNS = 16, RP_TILE_COLUMNS = 64, RP_TILE_LARGE_ROWS = 128, RP_TILE_ROWS = 32 };

static inline int rp_tile_columns(TileKind kind) {
    return kind == RP_TILE_SMALL ? RP_TILE_SMALL_COLUMNS : RP_TILE_COLUMNS;
}

/* For `columns` columns that are spread over `matrices` matrices of so many rows. */
static inline TileKind rp_tile_kind(int64_t rows, int64_t columns, int64_t matrices, int n_sm) {
    const int64_t used = matrices < columns ? matrices : columns; /* matrices with a column */
    if (columns <= used * RP_TILE_SMALL_COLUMNS) return RP_TILE_SMALL;
    const int64_t most  = (columns + RP_TILE_COLUMNS - 1) / RP_TILE_COLUMNS;
    const int64_t large = (rows + RP_TILE_LARGE_ROWS - 1) / RP_TILE_LARGE_ROWS * (most > used ? most : used);
    return large < n_sm ? RP_TILE_MID : RP_TILE_LARGE;
}

/* Columns order[first] to order[first + columns - 1] times matrix `expert`. An expert past the last gives zeros. */
typedef struct TileEntry {
    int32_t expert, first, columns, unused;
} TileEntry;

/* y[:,c] = w[:,:,expert of c] * x[:,c]. Column c is row (c % y.ne[1], c / y.ne[1]) of y; the same of x, or (0, c / y.ne[1])
 * where x.ne[1] is 1. Without lists (NULL) all columns are in order and belong to matrix 0. */
typedef struct TileProduct {
    RpTensorView     w, x, y;
    const int32_t   *n_tiles; /* in device memory, like the lists */
    const TileEntry *tiles;
    const int32_t   *order;
} TileProduct;

/* Launches it for at most `most` tiles of columns. */
RP_NODISCARD RpStatus rp_cuda_tiles(const char *op, const TileProduct *p, TileKind kind, int64_t most,
                                    RpKernelCtx *ctx);

#ifdef __cplusplus
}
#endif
#endif
