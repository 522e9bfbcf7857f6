/* tiles.h - matrices of block-quantised weights times many q8_act columns, cut into tiles: what mul_mat and mul_mat_id
 * have in common. */
#ifndef FALLBACK_TILES_H
#define FALLBACK_TILES_H

#include "fallback/dot.h"

/* One matrix and the columns that it is multiplied with. */
typedef struct TileJob {
    RpDtype            dtype;
    int64_t            n, n_rows, n_cols;
    const char        *rows;
    size_t             stride; /* bytes from row to row */
    const char *const *x;      /* q8_act rows of n elements */
    float *const      *y;      /* of each column n_rows elements */
    char              *groups; /* n_cols times rp_packed_column_bytes: what phase 0 makes of x */
    char              *local;   /* rp_panels_bytes of this worker's, where they are needed */
} TileJob;

/* Whether the operands, which nobody may have checked yet, are of the types that tiles are for. */
static inline bool rp_in_tiles(const TensorView *w, const TensorView *x) {
    return x->dtype == RP_Q8_ACT && rp_quant_form(w->dtype) != NULL;
}

/* Whether so many columns take rp_panels_bytes of each worker's memory; fewer take none. */
bool   rp_tiles_need_panels(int64_t n_cols);
size_t rp_packed_column_bytes(RpDtype dtype, int64_t n);
size_t rp_panels_bytes(RpDtype dtype, int64_t n, int64_t n_rows);

/* How much of the job can be shared by workers: in phase 0 groups of columns to pack, in phase 1 the cost of products. */
int64_t rp_tile_work(const TileJob *job, int phase);

/* What the worker does of this job, before which there is `before` of `all` work of the phase in other jobs. */
void rp_tile_share(const TileJob *job, const KernelCtx *ctx, int64_t before, int64_t all);

#endif
