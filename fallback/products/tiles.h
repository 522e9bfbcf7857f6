/* tiles.h - GEMM of block-quantised weights and many q8_act columns, cut into tiles: shared by mul_mat and
 * mul_mat_id.
 *
 *     phase 0   workers pack the columns into column groups (dot.h) in memory of all workers
 *     phase 1   workers pack panels of 16 rows, each in its local memory, and multiply them by the groups
 *
 * The bits of y do not depend on how the work is cut (I8): each element is one sum in the order of dot.h. */
#ifndef FALLBACK_PRODUCTS_TILES_H
#define FALLBACK_PRODUCTS_TILES_H

#include "fallback/products/repack.h"

/* One matrix and the columns that it is multiplied by: y[c][m] = row m . x[c], m < n_rows, c < n_cols. */
typedef struct TileWork {
    RpDtype            dtype;
    int64_t            n, n_rows, n_cols;
    const char        *rows;
    size_t             stride;   /* bytes from row to row */
    bool               repacked; /* `rows` are repacked (repack.h), n_rows is a multiple of 16 */
    const char *const *x;        /* q8_act rows of n elements */
    float *const      *y;
    char              *groups; /* n_cols * rp_packed_column_bytes: the column groups that phase 0 makes */
    char              *local;  /* rp_panels_bytes of this worker, if rp_tiles_need_panels(n_cols) */
} TileWork;

/* Whether w times x is a product for this engine. Callable before the operands are checked. */
static inline bool rp_is_quantized_product(const RpTensorView *w, const RpTensorView *x) {
    return x->dtype == RP_Q8_ACT && rp_quant_form(w->dtype) != NULL;
}

/* GEMV: y[m] = row m . x, for n_rows rows of w at `rows` and a q8_act row x of w->ne[0] elements. `rows` of repacked w
 * begin with a row group of 16. */
void rp_gemv(const RpTensorView *w, const char *rows, int64_t n_rows, const char *x, float *y);

/* Whether a product with n_cols columns needs rp_panels_bytes of local memory for each worker. */
bool   rp_tiles_need_panels(int64_t n_cols);
size_t rp_packed_column_bytes(RpDtype dtype, int64_t n);
size_t rp_panels_bytes(RpDtype dtype, int64_t n, int64_t n_rows);

/* The work of one phase in cost units: in phase 0 column groups to pack, in phase 1 columns multiplied by a panel. */
int64_t rp_tile_cost(const TileWork *work, int phase);

/* Does the calling worker's share of this product in ctx->phase. The phase has `all` cost units in total, maybe of
 * several products (experts, heads), and those of this product start at `before`. Each worker takes a contiguous
 * range of the total, so that large and small products balance. */
void rp_tile_run(const TileWork *work, const RpKernelCtx *ctx, int64_t before, int64_t all);

#endif
