#include "fallback/tiles.h"

#include "fallback/simd.h"

#include <string.h>

enum {
    PANELS_BYTES =
        384 * 1024, /* of panels that all columns are taken with before the next: some of the second cache */
    FEW_COLS = 2    /* are multiplied one by one, straight from the blocks */
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

static bool few(const TileJob *job) { return job->n_cols <= FEW_COLS; }

static int64_t column_groups(const TileJob *job) {
    return few(job) ? 0 : ceil_div(job->n_cols, RP_GROUP_COLS);
}

int64_t rp_tile_work(const TileJob *job, int phase) {
    const int64_t groups = column_groups(job);
    return phase == 0 ? groups : ceil_div(job->n_rows, RP_PANEL_ROWS) * (few(job) ? job->n_cols : groups);
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

/* ---- tiles: tile t is panel t / groups times group t % groups ---- */

static int panel_rows(const TileJob *job, int64_t p) {
    return (int)least(RP_PANEL_ROWS, job->n_rows - p * RP_PANEL_ROWS);
}

static void one_by_one(const TileJob *job, GemvFunction *gemv, int64_t from, int64_t end) {
    for (int64_t c = 0; c < job->n_cols; c++) {
        const int64_t   m    = (from + job->n_cols - 1 - c) / job->n_cols * RP_PANEL_ROWS;
        const int64_t   last = least((end + job->n_cols - 1 - c) / job->n_cols * RP_PANEL_ROWS, job->n_rows);
        const DotColumn x    = rp_dot_column(job->x[c], job->n);
        if (m < last)
            gemv(job->dtype, job->rows + (size_t)m * job->stride, job->stride, last - m, job->n, &x,
                 job->y[c] + m);
    }
}

static void one_tile(const TileJob *job, TileFunction *tile, const char *panel, int64_t p, int64_t g) {
    const QuantForm *form = rp_quant_form(job->dtype);
    float           *y[RP_GROUP_COLS];
    for (int c = 0; c < group_cols(job, g); c++) y[c] = job->y[g * RP_GROUP_COLS + c] + p * RP_PANEL_ROWS;
    tile(form, panel, panel_rows(job, p), group_at(job, g), group_cols(job, g), rp_units(form, job->n), y);
}

static void run_tiles(const TileJob *job, int64_t from, int64_t end) {
    const DotKernels kernels = rp_dot_kernels();
    const int64_t    groups  = column_groups(job);
    const int64_t    step    = panels_at_a_time(job->dtype, job->n, job->n_rows);
    const size_t     bytes   = rp_panel_bytes(rp_quant_form(job->dtype), job->n);
    if (few(job)) {
        one_by_one(job, kernels.gemv, from, end);
        return;
    }
    const int64_t last_panel = ceil_div(end, groups);
    for (int64_t p0 = from / groups; p0 < last_panel; p0 += step) {
        const int64_t p1 = least(p0 + step, last_panel);
        for (int64_t p = p0; p < p1; p++)
            kernels.pack(job->dtype, job->rows + (size_t)(p * RP_PANEL_ROWS) * job->stride, job->stride,
                         panel_rows(job, p), job->n, job->own + (size_t)(p - p0) * bytes);
        for (int64_t g = 0; g < groups; g++)
            for (int64_t p = p0; p < p1; p++)
                if (p * groups + g >= from && p * groups + g < end)
                    one_tile(job, kernels.tile, job->own + (size_t)(p - p0) * bytes, p, g);
    }
}

void rp_tile_share(const TileJob *job, const KernelCtx *ctx, int64_t before, int64_t all) {
    const int64_t first = all * ctx->ith / ctx->nth - before, from = first < 0 ? 0 : first;
    const int64_t end = least(all * (ctx->ith + 1) / ctx->nth - before, rp_tile_work(job, ctx->phase));
    if (from >= end) return;
    if (ctx->phase == 0)
        pack_groups(job, from, end);
    else
        run_tiles(job, from, end);
}
