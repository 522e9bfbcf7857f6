#include "model/engine/runners.h"

#include <string.h>

/* 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, ... and `last`. */
static int32_t next_size(int32_t n, int32_t last) {
    int32_t next = n + 1;
    if (n >= 4) next = n % 3 == 0 ? n / 3 * 4 : n / 2 * 3;
    if (n >= SHORT_STEP) next = 2 * n;
    return next < last ? next : last;
}

RpStatus rp_engine_plan_runners(const RpModel *m, const RpModelGraphOptions *shape, RunnerShapes shapes,
                                const char *passes, Runner *runners, int *n) {
    RpModelGraphOptions g    = *shape;
    const int32_t       most = g.n_out > 0 ? g.n_out : g.n_seq > SHORT_STEP ? g.n_seq : SHORT_STEP;
    for (g.n_tok = shapes.first < shapes.last ? shapes.first : shapes.last;;
         g.n_tok = next_size(g.n_tok, shapes.last)) {
        Runner *r  = &runners[(*n)++];
        g.n_out    = g.n_tok < most ? g.n_tok : most;
        r->columns = shapes.columns;
        RP_TRY(rp_runner_plan(r, m, &g, passes));
        if (g.n_tok == shapes.last) return RP_OK;
    }
}

void rp_engine_put_blocks(const Runner *r, int32_t row, const int32_t *blocks, const int32_t *windows,
                          int32_t first_window, int32_t n_blocks) {
    const size_t width = (size_t)((r->o.n_ctx + r->o.block - 1) / r->o.block), at = (size_t)row * width;
    if (r->table != NULL) memcpy(r->table + at, blocks, (size_t)n_blocks * sizeof *blocks);
    if (r->window_table != NULL)
        memcpy(r->window_table + at + first_window, windows + first_window,
               (size_t)(n_blocks - first_window) * sizeof *windows);
}

int rp_engine_find_runner(const Runner *runners, RunnerSet set, int32_t n_tok) {
    int i = set.first;
    while (i < set.end - 1 && runners[i].o.n_tok < n_tok) i++;
    return i;
}

RpStatus rp_engine_open_runners(const RpModel *m, const RpExecutorOptions *options, Runner *runners, int n) {
    RpExecutorOptions o = *options;
    for (int i = n - 1; i >= 0; i--) {
        o.share   = i < n - 1 ? runners[n - 1].executor : options->share;
        o.backend = i < n - 1 ? NULL : options->backend; /* those that share have that of the owner */
        RP_TRY(rp_runner_open(&runners[i], m, &o));
    }
    return RP_OK;
}
