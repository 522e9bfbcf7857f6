/* The measurement behind "auto" (repack_trial.h). One thread multiplies slices of a weight from the file and from a
 * repacked copy of the slice, in turns. As in prefetch.c, times are processor time of one thread, and only ratios
 * within a round count, so that other programs do not change the choice. The copy was just written, and a file may be
 * in a cache: both are evicted before each product, so both come from memory, as the weights of a model do. */
#include "executor/repack_trial.h"

#include "base/clock.h"
#include "base/kernels.h"
#include "base/repack.h"
#include "executor/huge_pages.h"
#include "executor/median.h"
#include "executor/touch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARM_UP     = 9, /* rounds that do not count (prefetch.c) */
    ROUNDS      = RP_REPACK_MAX_ROUNDS,
    SLICE_BYTES = 1 << 18,
    MANY        = 4, /* columns of the second product */
    ALIGN       = 64
};

/* The results, one for each type in a process. */
static struct {
    pthread_mutex_t lock;
    struct {
        bool     done, gains;
        RpCpuIsa isa;
    } of[RP_DTYPE_COUNT];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct Trial {
    RpTensorView slice, copy; /* the same rows, in the file and repacked */
    char        *columns, *shared, *local;
    float       *results;
} Trial;

/* Multiplies w with n_cols columns. *seconds is the processor time. */
static RpStatus multiply(const Trial *t, const RpTensorView *w, int64_t n_cols, double *seconds) {
    const RpOpParams   params            = {.mul_mat = {.bound = RP_BOUND_NONE}};
    const int64_t      ne_x[RP_MAX_DIMS] = {w->ne[0], n_cols, 1, 1}, ne_y[RP_MAX_DIMS] = {w->ne[1], n_cols, 1, 1};
    const RpTensorView x    = rp_view_contiguous(RP_Q8_ACT, ne_x, t->columns);
    const RpTensorView y    = rp_view_contiguous(RP_F32, ne_y, t->results);
    const RpOpArgs     args = {
            .dst    = y,
            .src    = {*w, x},
            .params = &params,
    };
    RpKernelCtx ctx    = {.nth = 1, .shared = t->shared, .local = t->local};
    const int   phases = rp_cpu_needs(RP_OP_MUL_MAT, &args).phases;
    rp_evict(w->data, (size_t)w->ne[1] * w->nb[1]);
    const double start = rp_thread_seconds();
    RpStatus     st    = RP_OK;
    for (; ctx.phase < phases && st == RP_OK; ctx.phase++) st = rp_cpu_kernel(RP_OP_MUL_MAT)(&args, &ctx);
    *seconds = rp_thread_seconds() - start;
    return st;
}

/* One round, with the rows from `first` on. Odd rounds begin with the copy. */
static RpStatus time_round(Trial *t, const RpTensorView *w, int64_t first, int round, double *seconds) {
    t->slice.data = (char *)w->data + (size_t)first * w->nb[1];
    rp_touch(t->slice.data, (size_t)t->slice.ne[1] * w->nb[1]);
    rp_repack(&t->slice, &t->copy, 0, t->slice.ne[1] / RP_REPACKED_ROWS);
    for (int k = 0; k < RP_REPACK_TIMES; k++) {
        const int which = k ^ (round & 1);
        RP_TRY(
            multiply(t, which % 2 == 0 ? &t->slice : &t->copy, which < RP_REPACK_FILE_4 ? 1 : MANY, &seconds[which]));
    }
    return RP_OK;
}

static void *zeros(size_t bytes) {
    void *p = aligned_alloc(ALIGN, (bytes + 2 * ALIGN - 1) / ALIGN * ALIGN);
    return p == NULL ? NULL : memset(p, 0, bytes);
}

static RpStatus open_trial(const RpTensorView *w, int64_t rows, Trial *t) {
    const int64_t ne_x[RP_MAX_DIMS] = {w->ne[0], MANY, 1, 1};
    *t                              = (Trial){.slice = *w};
    t->slice.ne[1]                  = rows;
    t->slice.ne[2] = t->slice.ne[3] = 1;
    t->copy                         = rp_repacked_view(&t->slice, NULL);
    t->columns                      = zeros(MANY * rp_row_bytes(RP_Q8_ACT, w->ne[0]));
    t->results                      = zeros((size_t)rows * MANY * sizeof *t->results);
    t->copy.data                    = rp_huge_alloc((size_t)rows * t->copy.nb[1] + RP_HUGE_PAGE); /* as a real copy */
    const RpOpParams params         = {.mul_mat = {.bound = RP_BOUND_NONE}};
    const RpOpArgs   args           = {
                    .src    = {t->slice, rp_view_contiguous(RP_Q8_ACT, ne_x, t->columns)},
                    .params = &params,
    };
    const CpuNeeds needs = rp_cpu_needs(RP_OP_MUL_MAT, &args);
    t->shared            = zeros(needs.shared);
    t->local             = zeros(needs.local);
    if (t->columns != NULL && t->results != NULL && t->copy.data != NULL && t->shared != NULL && t->local != NULL)
        return RP_OK;
    return rp_fail(RP_E_NOMEM, "out of memory for measuring repacked weights");
}

static void close_trial(Trial *t) {
    free(t->columns);
    free(t->results);
    free(t->copy.data);
    free(t->shared);
    free(t->local);
}

static double gain(const double *seconds, int rounds, int file, int copy) {
    double ratio[RP_REPACK_MAX_ROUNDS];
    for (int r = 0; r < rounds; r++)
        ratio[r] = seconds[r * RP_REPACK_TIMES + file] / seconds[r * RP_REPACK_TIMES + copy];
    return rp_median(ratio, rounds);
}

bool rp_repack_gains(const double *seconds, int rounds) {
    const double one  = gain(seconds, rounds, RP_REPACK_FILE_1, RP_REPACK_COPY_1);
    const double many = gain(seconds, rounds, RP_REPACK_FILE_4, RP_REPACK_COPY_4);
    return one >= 0.6 && one * many >= 1.05;
}

/* Slices of rows of all matrices of w, one after the other; with few rows they repeat. */
static RpStatus measure(const RpTensorView *w, bool *gains) {
    const int64_t all  = rp_view_rows(w) / RP_REPACKED_ROWS * RP_REPACKED_ROWS;
    int64_t       rows = SLICE_BYTES / (int64_t)w->nb[1] / RP_REPACKED_ROWS * RP_REPACKED_ROWS;
    double        seconds[ROUNDS * RP_REPACK_TIMES], warm_up[RP_REPACK_TIMES];
    Trial         t;
    if (rows == 0) rows = RP_REPACKED_ROWS;
    if (rows > all) rows = all;
    *gains = false;
    if (w->nb[2] != (size_t)w->ne[1] * w->nb[1]) return RP_OK;
    RpStatus st = open_trial(w, rows, &t);
    for (int r = -WARM_UP; r < ROUNDS && st == RP_OK; r++)
        st = time_round(&t, w, (r + WARM_UP) % (all / rows) * rows, r + WARM_UP,
                        r < 0 ? warm_up : seconds + r * RP_REPACK_TIMES);
    if (st == RP_OK) *gains = rp_repack_gains(seconds, ROUNDS);
    close_trial(&t);
    return st;
}

RpStatus rp_repack_try(const RpTensorView *w, bool *gains) {
    RpStatus st = RP_OK;
    pthread_mutex_lock(&known.lock);
    if (!known.of[w->dtype].done || known.of[w->dtype].isa != rp_cpu_isa()) {
        st                      = measure(w, &known.of[w->dtype].gains);
        known.of[w->dtype].done = st == RP_OK;
        known.of[w->dtype].isa  = rp_cpu_isa();
    }
    *gains = known.of[w->dtype].gains;
    pthread_mutex_unlock(&known.lock);
    return st;
}
