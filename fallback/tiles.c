#include "fallback/tiles.h"

#include "fallback/prefetch.h"

#include <string.h>

enum {
    PANELS_BYTES =
        384 * 1024,     /* of panels that all columns are multiplied with before the next: a part of L2 */
    DIRECT_GROUPS = 4,  /* up to so many need no panel of whole rows */
    STRETCH_UNITS = 16, /* of rows that are unpacked at a time for those; whole blocks of every type */
    PANEL_COST    = 4   /* of unpacking 16 rows, in products with one column */
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t panels_at_a_time(RpDtype dtype, int64_t n, int64_t n_rows) {
    const size_t  bytes = rp_panel_bytes(rp_quant_form(dtype), n);
    const int64_t fit   = bytes < PANELS_BYTES ? (int64_t)(PANELS_BYTES / bytes) : 1;
    return least(fit, ceil_div(n_rows, RP_PANEL_ROWS));
}

size_t rp_packed_column_bytes(RpDtype dtype, int64_t n) { return rp_group_bytes(rp_quant_form(dtype), n, 1); }

size_t rp_panels_bytes(RpDtype dtype, int64_t n, int64_t n_rows) {
    return (size_t)panels_at_a_time(dtype, n, n_rows) * rp_panel_bytes(rp_quant_form(dtype), n);
}

static int64_t column_groups(const TileJob *job) { return ceil_div(job->n_cols, RP_GROUP_COLS); }

/* One column is multiplied straight from the blocks. */
static bool single(const TileJob *job) { return job->n_cols == 1; }

/* So few columns that each stretch of rows is multiplied as soon as it is unpacked. */
static bool direct(const TileJob *job) { return column_groups(job) <= DIRECT_GROUPS; }

bool rp_tiles_need_panels(int64_t n_cols) { return ceil_div(n_cols, RP_GROUP_COLS) > DIRECT_GROUPS; }

/* What a worker does at a time in phase 1: 16 rows times all columns, or times one group. */
static int64_t items_of_panel(const TileJob *job) { return direct(job) ? 1 : column_groups(job); }

static int64_t item_cost(const TileJob *job) {
    return direct(job) ? PANEL_COST + job->n_cols : RP_GROUP_COLS;
}

int64_t rp_tile_work(const TileJob *job, int phase) {
    if (job->n_cols == 0) return 0; /* an expert that no token chose */
    if (phase == 0) return single(job) ? 0 : column_groups(job);
    return ceil_div(job->n_rows, RP_PANEL_ROWS) * items_of_panel(job) * item_cost(job);
}

static char *group_at(const TileJob *job, int64_t g) {
    return job->groups + (size_t)(g * RP_GROUP_COLS) * rp_packed_column_bytes(job->dtype, job->n);
}

static int group_cols(const TileJob *job, int64_t g) {
    return (int)least(RP_GROUP_COLS, job->n_cols - g * RP_GROUP_COLS);
}

/* ---- columns ---- */

/* Column c of a group of n_cols. */
RP_BODY void pack_units(const QuantForm *form, int unit, const char *x, int c, int n_cols, int64_t n,
                        char *to) {
    const DotColumn from = rp_dot_column(x, n);
    for (int64_t i = 0; i < n; i += unit, to += rp_group_unit_bytes(form, n_cols)) {
        float  *scale = (float *)(void *)(to + n_cols * unit);
        int32_t total = 0;
        memcpy(to + c * unit, from.q + i, (size_t)unit);
        scale[c] = from.scale[i / 32];
        if (form->has_min) {
            scale[n_cols + c] = from.sum[i / RP_GROUP] + from.sum[i / RP_GROUP + 1];
            continue;
        }
        for (int k = 0; k < unit; k++) total += from.q[i + k];
        total *= -form->offset;
        memcpy(scale + n_cols + c, &total, sizeof total);
    }
}

RP_BODY void pack_column_body(const QuantForm *form, const char *x, int c, int n_cols, int64_t n, char *to) {
    if (form->unit == 32)
        pack_units(form, 32, x, c, n_cols, n, to);
    else
        pack_units(form, 16, x, c, n_cols, n, to);
}
RP_VARIANTS(pack_column, (const QuantForm *form, const char *x, int c, int n_cols, int64_t n, char *to),
            (form, x, c, n_cols, n, to))

static void pack_groups(const TileJob *job, int64_t from, int64_t end) {
    for (int64_t g = from; g < end; g++)
        for (int c = 0; c < group_cols(job, g); c++)
            pack_column(rp_quant_form(job->dtype), job->x[g * RP_GROUP_COLS + c], c, group_cols(job, g),
                        job->n, group_at(job, g));
}

/* ---- products ---- */

static int panel_rows(const TileJob *job, int64_t p) {
    return (int)least(RP_PANEL_ROWS, job->n_rows - p * RP_PANEL_ROWS);
}

static const char *panel_start(const TileJob *job, int64_t p) {
    return job->rows + (size_t)(p * RP_PANEL_ROWS) * job->stride;
}

RP_BODY void store_sums_body(const TileSums *sums, int n_rows, int n_cols, float *const *y) {
    for (int c = 0; c < n_cols; c++) {
        float all[RP_PANEL_ROWS];
        for (int r = 0; r < RP_PANEL_ROWS; r++)
            all[r] =
                (sums->part[0][c][r] + sums->part[2][c][r]) + (sums->part[1][c][r] + sums->part[3][c][r]);
        memcpy(y[c], all, (size_t)n_rows * sizeof **y);
    }
}
RP_VARIANTS(store_sums, (const TileSums *sums, int n_rows, int n_cols, float *const *y),
            (sums, n_rows, n_cols, y))

/* Panel p times group g. */
static void store_tile(const TileJob *job, int64_t p, int64_t g, const TileSums *sums) {
    float *y[RP_GROUP_COLS];
    for (int c = 0; c < group_cols(job, g); c++) y[c] = job->y[g * RP_GROUP_COLS + c] + p * RP_PANEL_ROWS;
    store_sums(sums, panel_rows(job, p), group_cols(job, g), y);
}

static void one_column(const TileJob *job, int64_t p0, int64_t p1) {
    const DotColumn x    = rp_dot_column(job->x[0], job->n);
    const int64_t   from = p0 * RP_PANEL_ROWS, end = least(p1 * RP_PANEL_ROWS, job->n_rows);
    rp_dot_kernels().gemv(job->dtype, panel_start(job, p0), job->stride, end - from, job->n, &x,
                          job->y[0] + from);
}

/* 16 rows times up to DIRECT_GROUPS groups, in one pass over the rows. Prefetches of later rows are spread over
 * unpacking and products by their cost: in a burst they would fill the core's miss buffers. */
static void direct_panel(const TileJob *job, const DotKernels *kernels, int64_t p) {
    const QuantForm *form   = rp_quant_form(job->dtype);
    const int64_t    groups = column_groups(job), units = rp_units(form, job->n);
    const size_t     row = rp_row_bytes(job->dtype, job->n), bytes = RP_PANEL_ROWS * row / (size_t)units;
    const char      *ahead = panel_start(job, p) + rp_rows_ahead(RP_PANEL_ROWS * row);
    const size_t     cost  = (size_t)least(job->n_cols, RP_GROUP_COLS),
                 by_pack   = bytes * PANEL_COST / (PANEL_COST + cost);
    TileSums          sums[DIRECT_GROUPS];
    _Alignas(64) char panel[STRETCH_UNITS * RP_PANEL_ROWS * (32 + 2 * sizeof(float))];
    for (int64_t g = 0; g < groups; g++) sums[g].empty = true;
    for (int64_t u = 0; u < units; u += STRETCH_UNITS) {
        const int64_t n       = least(STRETCH_UNITS, units - u);
        const Ahead   in_pack = {ahead, by_pack}, in_tile = {ahead + (size_t)n * by_pack, bytes - by_pack},
                    none = {ahead, 0};
        kernels->pack(job->dtype, panel_start(job, p) + rp_row_bytes(job->dtype, u * form->unit), job->stride,
                      panel_rows(job, p), n * form->unit, &in_pack, panel);
        for (int64_t g = 0; g < groups; g++)
            kernels->tile(form, panel,
                          group_at(job, g) + (size_t)u * rp_group_unit_bytes(form, group_cols(job, g)),
                          group_cols(job, g), n, g == 0 ? &in_tile : &none, &sums[g]);
        ahead += (size_t)n * bytes;
    }
    for (int64_t g = 0; g < groups; g++) store_tile(job, p, g, &sums[g]);
}

/* Items [from, end): item i is panel i / groups times group i % groups. */
static void whole_panels(const TileJob *job, const DotKernels *kernels, int64_t from, int64_t end) {
    const QuantForm *form   = rp_quant_form(job->dtype);
    const int64_t    groups = column_groups(job), units = rp_units(form, job->n);
    const int64_t    step = panels_at_a_time(job->dtype, job->n, job->n_rows), last = ceil_div(end, groups);
    const size_t     bytes = rp_panel_bytes(form, job->n);
    for (int64_t p0 = from / groups; p0 < last; p0 += step) {
        const int64_t p1 = least(p0 + step, last);
        for (int64_t p = p0; p < p1; p++)
            kernels->pack(job->dtype, panel_start(job, p), job->stride, panel_rows(job, p), job->n,
                          &(Ahead){panel_start(job, p + 1), RP_PANEL_ROWS * job->stride / (size_t)units},
                          job->own + (size_t)(p - p0) * bytes);
        for (int64_t g = 0; g < groups; g++)
            for (int64_t p = p0; p < p1; p++) {
                TileSums sums;
                if (p * groups + g < from || p * groups + g >= end) continue;
                sums.empty = true;
                kernels->tile(form, job->own + (size_t)(p - p0) * bytes, group_at(job, g), group_cols(job, g),
                              units, &(Ahead){0}, &sums);
                store_tile(job, p, g, &sums);
            }
    }
}

void rp_tile_share(const TileJob *job, const KernelCtx *ctx, int64_t before, int64_t all) {
    const DotKernels kernels = rp_dot_kernels();
    const int64_t    first = all * ctx->ith / ctx->nth - before, from = first < 0 ? 0 : first;
    const int64_t    end = least(all * (ctx->ith + 1) / ctx->nth - before, rp_tile_work(job, ctx->phase));
    if (from >= end) return;
    if (ctx->phase == 0) {
        pack_groups(job, from, end);
        return;
    }
    const int64_t i0 = ceil_div(from, item_cost(job)), i1 = ceil_div(end, item_cost(job));
    if (i0 >= i1) return;
    if (single(job))
        one_column(job, i0, i1);
    else if (direct(job))
        for (int64_t p = i0; p < i1; p++) direct_panel(job, &kernels, p);
    else
        whole_panels(job, &kernels, i0, i1);
}
