/* The blocked loops of GEMM (tiles.h). Up to DIRECT_GROUPS column groups, a k-slice of a panel is packed into L1 and
 * multiplied by all groups at once, and the tiles' accumulators stay in memory over the slices:
 *
 *     for panel: for k-slice: pack the slice; for group: tile += slice x group
 *
 * More columns use L2 blocking: as many whole panels as fit in PANELS_BYTES are packed, and each group, while it is
 * in cache, is multiplied by all of them:
 *
 *     for block of panels: pack them; for group: for panel in block: tile = panel x group
 *
 * One column is a GEMV and needs no packing, nor do 2 or 3 columns where the instruction set has a RowsTile. Repacked
 * weights (repack.h) need none for up to repacked_cols columns, where the instruction set has a kernel for them. */
#include "fallback/products/tiles.h"

#include "fallback/simd/prefetch.h"

#include <string.h>

enum {
    PANELS_BYTES   = 384 * 1024, /* of packed panels in one L2 block: leaves room in an L2 of 1 MiB or more */
    DIRECT_GROUPS  = 4,          /* most column groups that are multiplied slice by slice */
    SLICE_SUBS     = 16,         /* sub-blocks of a k-slice: whole blocks of every type, 10 KiB of panel */
    REPACKED_AHEAD = 8192,       /* bytes from what a kernel of repacked rows reads to what it prefetches */
    PANEL_COST     = 4           /* assumed cost of packing a panel, in columns multiplied by it */
};

#define X(ID, name, sub, ...)                                                                                          \
    static_assert(SLICE_SUBS * (sub) % RP_##ID##_ELEMS == 0, #name ": a k-slice is whole blocks");
RP_QUANTS(X)
#undef X

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

static int64_t column_groups(const TileWork *work) { return ceil_div(work->n_cols, RP_GROUP_COLS); }

static bool is_gemv(const TileWork *work) { return work->n_cols == 1; }

/* Few enough columns for the loop over k-slices. */
static bool direct(const TileWork *work) { return column_groups(work) <= DIRECT_GROUPS; }

bool rp_tiles_need_panels(int64_t n_cols) { return ceil_div(n_cols, RP_GROUP_COLS) > DIRECT_GROUPS; }

/* A work item of phase 1 is a panel times all columns, or times one group. */
static int64_t items_of_panel(const TileWork *work) { return direct(work) ? 1 : column_groups(work); }

static int64_t item_cost(const TileWork *work) { return direct(work) ? PANEL_COST + work->n_cols : RP_GROUP_COLS; }

int64_t rp_tile_cost(const TileWork *work, int phase) {
    if (work->n_cols == 0) return 0; /* an expert that no token chose */
    if (phase == 0) return is_gemv(work) ? 0 : column_groups(work);
    return ceil_div(work->n_rows, RP_PANEL_ROWS) * items_of_panel(work) * item_cost(work);
}

static char *group_at(const TileWork *work, int64_t g) {
    return work->groups + (size_t)(g * RP_GROUP_COLS) * rp_packed_column_bytes(work->dtype, work->n);
}

static int group_cols(const TileWork *work, int64_t g) {
    return (int)least(RP_GROUP_COLS, work->n_cols - g * RP_GROUP_COLS);
}

/* ---- phase 0: column groups ---- */

/* Packs column c of a group of n_cols columns (dot.h); x is its q8_act row. */
RP_BODY void pack_subs(const QuantForm *form, int sub_elems, const char *x, int c, int n_cols, int64_t n, char *to) {
    const DotColumn from = rp_dot_column(x, n);
    for (int64_t i = 0; i < n; i += sub_elems, to += rp_group_sub_bytes(form, n_cols)) {
        float  *scale = (float *)(void *)(to + n_cols * sub_elems);
        int32_t total = 0;
        memcpy(to + c * sub_elems, from.q + i, (size_t)sub_elems);
        scale[c] = from.scale[i / 32];
        if (form->has_min) {
            scale[n_cols + c] = rp_sub_sum(form, &from, i);
            continue;
        }
        for (int k = 0; k < sub_elems; k++) total += from.q[i + k];
        total *= -form->offset;
        memcpy(scale + n_cols + c, &total, sizeof total);
    }
}

RP_BODY void pack_column_body(const QuantForm *form, const char *x, int c, int n_cols, int64_t n, char *to) {
    if (form->sub_elems == 32)
        pack_subs(form, 32, x, c, n_cols, n, to);
    else
        pack_subs(form, 16, x, c, n_cols, n, to);
}
RP_VARIANTS(pack_column, (const QuantForm *form, const char *x, int c, int n_cols, int64_t n, char *to),
            (form, x, c, n_cols, n, to))

static void pack_groups(const TileWork *work, int64_t from, int64_t end) {
    for (int64_t g = from; g < end; g++)
        for (int c = 0; c < group_cols(work, g); c++)
            pack_column(rp_quant_form(work->dtype), work->x[g * RP_GROUP_COLS + c], c, group_cols(work, g), work->n,
                        group_at(work, g));
}

/* ---- phase 1: tiles ---- */

static int panel_rows(const TileWork *work, int64_t p) {
    return (int)least(RP_PANEL_ROWS, work->n_rows - p * RP_PANEL_ROWS);
}

static const char *panel_start(const TileWork *work, int64_t p) {
    return work->rows + (size_t)(p * RP_PANEL_ROWS) * work->stride;
}

/* Bytes from the start of 16 repacked rows to their element i, the first of a block. */
static size_t repacked_at(const TileWork *work, int64_t i) {
    return (size_t)(i / rp_dtype_info(work->dtype)->block_elems) * rp_repacked_bytes(work->dtype);
}

/* y[c][r] = the sum of the four accumulators, in the order of dot.h. */
RP_BODY void store_accs_body(const TileAccs *accs, int n_rows, int n_cols, float *const *y) {
    for (int c = 0; c < n_cols; c++) {
        float all[RP_PANEL_ROWS];
        for (int r = 0; r < RP_PANEL_ROWS; r++)
            all[r] = (accs->acc[0][c][r] + accs->acc[2][c][r]) + (accs->acc[1][c][r] + accs->acc[3][c][r]);
        memcpy(y[c], all, (size_t)n_rows * sizeof **y);
    }
}
RP_VARIANTS(store_accs, (const TileAccs *accs, int n_rows, int n_cols, float *const *y), (accs, n_rows, n_cols, y))

/* Stores the tile of panel p and group g. */
static void store_tile(const TileWork *work, int64_t p, int64_t g, const TileAccs *accs) {
    float *y[RP_GROUP_COLS];
    for (int c = 0; c < group_cols(work, g); c++) y[c] = work->y[g * RP_GROUP_COLS + c] + p * RP_PANEL_ROWS;
    store_accs(accs, panel_rows(work, p), group_cols(work, g), y);
}

/* Packs elements [i, i + n) of the rows of panel p. */
static void pack_panel(const TileWork *work, const DotKernels *kernels, int64_t p, int64_t i, int64_t n,
                       const PrefetchStream *ahead, char *panel) {
    if (!work->repacked) {
        kernels->pack(work->dtype, panel_start(work, p) + rp_row_bytes(work->dtype, i), work->stride,
                      panel_rows(work, p), n, ahead, panel);
        return;
    }
    kernels->unpack(work->dtype, panel_start(work, p) + repacked_at(work, i), n, ahead, panel);
}

/* Panel p times all groups, k-slice by k-slice. The bytes of a later panel are prefetched at the rate at which this
 * one is read, spread over packing and the first group's tile in proportion to their cost: a burst of prefetches
 * would fill the core's line fill buffers and stall its loads. */
static void direct_panel(const TileWork *work, const DotKernels *kernels, int64_t p) {
    const QuantForm *form   = rp_quant_form(work->dtype);
    const int64_t    groups = column_groups(work), n_subs = rp_n_subs(form, work->n);
    const size_t     row   = work->repacked ? work->stride : rp_row_bytes(work->dtype, work->n);
    const size_t     bytes = RP_PANEL_ROWS * row / (size_t)n_subs;
    const char      *ahead = panel_start(work, p) + rp_prefetch_distance(RP_PANEL_ROWS * row);
    const size_t cost = (size_t)least(work->n_cols, RP_GROUP_COLS), by_pack = bytes * PANEL_COST / (PANEL_COST + cost);
    TileAccs     accs[DIRECT_GROUPS];
    _Alignas(64) char panel[SLICE_SUBS * RP_PANEL_ROWS * (32 + 2 * sizeof(float))];
    for (int64_t g = 0; g < groups; g++) accs[g].empty = true;
    for (int64_t u = 0; u < n_subs; u += SLICE_SUBS) {
        const int64_t        n       = least(SLICE_SUBS, n_subs - u);
        const PrefetchStream in_pack = {ahead, by_pack}, in_tile = {ahead + (size_t)n * by_pack, bytes - by_pack},
                             none = {ahead, 0};
        pack_panel(work, kernels, p, u * form->sub_elems, n * form->sub_elems, &in_pack, panel);
        for (int64_t g = 0; g < groups; g++)
            kernels->tile(form, panel, group_at(work, g) + (size_t)u * rp_group_sub_bytes(form, group_cols(work, g)),
                          group_cols(work, g), n, g == 0 ? &in_tile : &none, &accs[g]);
        ahead += (size_t)n * bytes;
    }
    for (int64_t g = 0; g < groups; g++) store_tile(work, p, g, &accs[g]);
}

/* Whether panel p is multiplied straight from the file. The kernel has no rows to repeat. */
static bool needs_no_panel(const TileWork *work, const DotKernels *kernels, int64_t p) {
#define X(ID, ...) [RP_##ID]              = RP_ROWS_MOST(ID),
    static const int most[RP_DTYPE_COUNT] = {RP_DIRECT_QUANTS(X)};
#undef X
    return kernels->rows != NULL && !work->repacked && work->n_cols <= most[work->dtype] &&
           panel_rows(work, p) == RP_PANEL_ROWS;
}

/* Panel p times 2 or 3 columns, unpacked in registers. */
static void rows_panel(const TileWork *work, const DotKernels *kernels, int64_t p) {
    const int64_t        n_subs = rp_n_subs(rp_quant_form(work->dtype), work->n);
    const size_t         bytes  = RP_PANEL_ROWS * rp_row_bytes(work->dtype, work->n);
    const PrefetchStream ahead  = {panel_start(work, p) + rp_prefetch_distance(bytes), bytes / (size_t)n_subs};
    TileAccs             accs;
    accs.empty = true;
    kernels->rows(work->dtype, panel_start(work, p), work->stride, group_at(work, 0), (int)work->n_cols, n_subs, &ahead,
                  &accs);
    store_tile(work, p, 0, &accs);
}

/* Most columns that repacked rows are multiplied by without a panel. */
static int repacked_cols(const TileWork *work, const DotKernels *kernels) {
    return work->dtype == RP_Q6_K ? kernels->q6_k_cols : kernels->repacked_cols;
}

/* A panel of repacked rows times all groups, without packing: slice by slice, so that all columns but the first few
 * find the weights in L1. The rows are one stream, whose best distance does not depend on their length. */
static void repacked_panel(const TileWork *work, const DotKernels *kernels, int64_t p) {
    const QuantForm *form   = rp_quant_form(work->dtype);
    const int64_t    groups = column_groups(work), n_subs = rp_n_subs(form, work->n);
    const int64_t    step  = work->n_cols > RP_FEW_COLS ? SLICE_SUBS : n_subs;
    const size_t     bytes = RP_PANEL_ROWS * work->stride;
    PrefetchStream   ahead = {panel_start(work, p) + REPACKED_AHEAD, bytes / (size_t)n_subs};
    TileAccs         accs[DIRECT_GROUPS];
    for (int64_t g = 0; g < groups; g++) accs[g].empty = true;
    for (int64_t u = 0; u < n_subs; u += step) {
        const char *blocks = panel_start(work, p) + repacked_at(work, u * form->sub_elems);
        for (int64_t g = 0; g < groups; g++)
            kernels->repacked(
                work->dtype, blocks, group_at(work, g) + (size_t)u * rp_group_sub_bytes(form, group_cols(work, g)),
                group_cols(work, g), least(step, n_subs - u), g == 0 ? &ahead : &(PrefetchStream){0}, &accs[g]);
        ahead.at += (size_t)step * ahead.sub_bytes;
    }
    for (int64_t g = 0; g < groups; g++) store_tile(work, p, g, &accs[g]);
}

/* One column and repacked rows: the column becomes a group of one, which each worker packs for itself. Without a kernel
 * for repacked rows a panel is unpacked slice by slice. */
static void repacked_column(const TileWork *work, const DotKernels *kernels, int64_t p0, int64_t p1) {
    const QuantForm  *form = rp_quant_form(work->dtype);
    _Alignas(64) char column[RP_REPACKED_MAX_N * 3 / 2];
    TileWork          alone = *work;
    alone.groups            = column;
    pack_column(form, work->x[0], 0, 1, work->n, column);
    for (int64_t p = p0; p < p1; p++)
        if (kernels->repacked != NULL)
            repacked_panel(&alone, kernels, p);
        else
            direct_panel(&alone, kernels, p);
}

static void one_column(const TileWork *work, const DotKernels *kernels, int64_t p0, int64_t p1) {
    const DotColumn x    = rp_dot_column(work->x[0], work->n);
    const int64_t   from = p0 * RP_PANEL_ROWS, end = least(p1 * RP_PANEL_ROWS, work->n_rows);
    if (work->repacked)
        repacked_column(work, kernels, p0, p1);
    else
        kernels->gemv(work->dtype, panel_start(work, p0), work->stride, end - from, work->n, &x, work->y[0] + from);
}

void rp_gemv(const RpTensorView *w, const char *rows, int64_t n_rows, const char *x, float *y) {
    const DotKernels kernels = rp_dot_kernels();
    const TileWork   work    = {.dtype    = w->dtype,
                                .n        = w->ne[0],
                                .n_rows   = n_rows,
                                .n_cols   = 1,
                                .rows     = rows,
                                .stride   = w->nb[1],
                                .repacked = rp_is_repacked(w),
                                .x        = &x,
                                .y        = &y};
    if (n_rows > 0) one_column(&work, &kernels, 0, ceil_div(n_rows, RP_PANEL_ROWS));
}

/* Work items [from, end): item i is panel i / groups times group i % groups. At the ends of the range a panel may
 * be packed for only some of its groups, and then by two workers. */
static void whole_panels(const TileWork *work, const DotKernels *kernels, int64_t from, int64_t end) {
    const QuantForm *form   = rp_quant_form(work->dtype);
    const int64_t    groups = column_groups(work), n_subs = rp_n_subs(form, work->n);
    const int64_t    step = panels_at_a_time(work->dtype, work->n, work->n_rows), last = ceil_div(end, groups);
    const size_t     bytes = rp_panel_bytes(form, work->n);
    for (int64_t p0 = from / groups; p0 < last; p0 += step) {
        const int64_t p1 = least(p0 + step, last);
        for (int64_t p = p0; p < p1; p++)
            pack_panel(work, kernels, p, 0, work->n,
                       &(PrefetchStream){panel_start(work, p + 1), RP_PANEL_ROWS * work->stride / (size_t)n_subs},
                       work->local + (size_t)(p - p0) * bytes);
        for (int64_t g = 0; g < groups; g++)
            for (int64_t p = p0; p < p1; p++) {
                TileAccs accs;
                if (p * groups + g < from || p * groups + g >= end) continue;
                accs.empty = true;
                kernels->tile(form, work->local + (size_t)(p - p0) * bytes, group_at(work, g), group_cols(work, g),
                              n_subs, &(PrefetchStream){0}, &accs);
                store_tile(work, p, g, &accs);
            }
    }
}

void rp_tile_run(const TileWork *work, const RpKernelCtx *ctx, int64_t before, int64_t all) {
    const DotKernels kernels = rp_dot_kernels();
    const int64_t    first = all * ctx->ith / ctx->nth - before, from = first < 0 ? 0 : first;
    const int64_t    end = least(all * (ctx->ith + 1) / ctx->nth - before, rp_tile_cost(work, ctx->phase));
    if (from >= end) return;
    if (ctx->phase == 0) {
        pack_groups(work, from, end);
        return;
    }
    /* A work item belongs to the worker whose range has its first cost unit. */
    const int64_t i0 = ceil_div(from, item_cost(work)), i1 = ceil_div(end, item_cost(work));
    if (i0 >= i1) return;
    if (is_gemv(work))
        one_column(work, &kernels, i0, i1);
    else if (work->repacked && work->n_cols <= repacked_cols(work, &kernels))
        for (int64_t p = i0; p < i1; p++) repacked_panel(work, &kernels, p);
    else if (direct(work))
        for (int64_t p = i0; p < i1; p++)
            (needs_no_panel(work, &kernels, p) ? rows_panel : direct_panel)(work, &kernels, p);
    else
        whole_panels(work, &kernels, i0, i1);
}
