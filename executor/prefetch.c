/* The software prefetch is chosen by timing products of one column with slices of the model's weights. Every
 * slice is used once, so it comes from memory, unless the whole file is in a cache. The shortest time of a
 * candidate over all rounds counts, because other programs can only add time. The default, which is the
 * first candidate, stays unless another one is faster by MARGIN: a smaller gain would be noise. */
#include "executor/prefetch.h"

#include "base/clock.h"
#include "base/sized.h"
#include "executor/touch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N_CANDIDATES = 4, MIN_ROUNDS = 4, MAX_ROUNDS = 8, SLICE_BYTES = 1 << 19, ALIGN = 64 };

#define MARGIN 1.1

static const RpCpuPrefetch candidates[N_CANDIDATES] = {
    {RP_PREFETCH_L2,   4096},
    {RP_PREFETCH_L1,   4096},
    {RP_PREFETCH_L2,   8192},
    {RP_PREFETCH_NONE, 0   }
};

/* The result of the measurement, one per process. */
static struct {
    pthread_mutex_t lock;
    bool            done;
    int             rounds, workers;
    size_t          bytes;                 /* of a slice */
    double          seconds[N_CANDIDATES]; /* the shortest time of a round */
} measured = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Each candidate gets other slices in each round, one per worker:
 *
 *     slice of round r, candidate c, worker w = (r * N_CANDIDATES + c) * workers + w
 *     slice i = rows [(i % slices_of_weight) * rows, ... + rows) of weight i / slices_of_weight */
typedef struct Trial {
    const RpTensorView *weights; /* all of one type and shape */
    int64_t             n_weights, rows, slices_of_weight;
    int64_t             first; /* the slice of worker 0; worker w takes first + w */
    int                 workers;
    char               *column;
    float              *results; /* `rows` per worker */
    int                 failed;
} Trial;

static RpTensorView slice(const Trial *t, int64_t i) {
    RpTensorView v = t->weights[i / t->slices_of_weight % t->n_weights];
    v.data         = (char *)v.data + (size_t)(i % t->slices_of_weight * t->rows) * v.nb[1];
    v.ne[1]        = t->rows;
    v.ne[2] = v.ne[3] = 1;
    return v;
}

static void touch(const Trial *t, int64_t i) {
    const RpTensorView v = slice(t, i);
    rp_touch(v.data, (size_t)v.ne[1] * v.nb[1]);
}

/* The timed task: each worker multiplies its slice with the column, as if it were alone. */
static RpStatus multiply(void *arg, int ith, int nth) {
    Trial *t = arg;
    (void)nth;
    if (ith >= t->workers) return RP_OK;
    const RpOpParams   params            = {.mul_mat = {.bound = RP_BOUND_NONE}};
    const RpTensorView w                 = slice(t, t->first + ith);
    const int64_t      ne_x[RP_MAX_DIMS] = {w.ne[0], 1, 1, 1}, ne_y[RP_MAX_DIMS] = {t->rows, 1, 1, 1};
    const RpTensorView x    = rp_view_contiguous(RP_Q8_ACT, ne_x, t->column);
    const RpTensorView y    = rp_view_contiguous(RP_F32, ne_y, t->results + ith * t->rows);
    const RpOpArgs     args = {
            .dst    = y,
            .src    = {w, x},
            .params = &params,
    };
    return rp_cpu_kernel(RP_OP_MUL_MAT)(&args, &(RpKernelCtx){.ith = 0, .nth = 1});
}

static bool seen(const RpTensorView *views, int64_t n, const RpTensorView *v) {
    for (int64_t i = 0; i < n; i++)
        if (views[i].data == v->data) return true;
    return false;
}

/* The block-quantised weights of the plan whose matrices are contiguous, each once. `out` has room for
 * every source of every step. */
static int64_t quantised_weights(const RpExecutor *e, RpTensorView *out) {
    int64_t n = 0;
    for (int i = 0; i < e->plan->n_steps; i++)
        for (int k = 0; k < RP_MAX_SRC; k++) {
            const RpTensorView *v = &e->args[i].src[k];
            if (e->plan->steps[i].src[k].space != SPACE_WEIGHT || v->ne[0] <= 0 || v->dtype == RP_Q8_ACT) continue;
            if (rp_dtype_info(v->dtype)->block_elems == 1 || v->nb[2] != (size_t)v->ne[1] * v->nb[1]) continue;
            if (!seen(out, n, v)) out[n++] = *v;
        }
    return n;
}

static bool alike(const RpTensorView *a, const RpTensorView *b) {
    return a->dtype == b->dtype && memcmp(a->ne, b->ne, sizeof a->ne) == 0;
}

/* Keeps only the views of one dtype and shape: the combination with the most bytes. Equal slices make
 * times comparable. */
static int64_t keep_commonest(RpTensorView *views, int64_t n) {
    if (n == 0) return 0;
    int64_t best = 0, kept = 0;
    double  most = 0.0;
    for (int64_t i = 0; i < n; i++) {
        double bytes = 0.0;
        for (int64_t j = i; j < n; j++)
            if (alike(&views[i], &views[j])) bytes += (double)views[j].nb[2] * (double)views[j].ne[2];
        if (bytes > most) most = bytes, best = i;
    }
    const RpTensorView like = views[best];
    for (int64_t i = 0; i < n; i++)
        if (alike(&views[i], &like)) views[kept++] = views[i];
    return kept;
}

/* Candidates take turns within a round, so that a slow phase of the machine affects all of them. */
static RpStatus time_candidates(Trial *t, ThreadPool *pool, int rounds) {
    for (int c = 0; c < N_CANDIDATES; c++) measured.seconds[c] = 1e9;
    for (int r = 0; r < rounds; r++)
        for (int c = 0; c < N_CANDIDATES; c++) {
            t->first = (int64_t)(r * N_CANDIDATES + c) * t->workers; /* see the formula above */
            for (int w = 0; w < t->workers; w++) touch(t, t->first + w);
            RP_TRY(rp_cpu_prefetch_set(candidates[c]));
            const double start = rp_seconds();
            RP_TRY(rp_pool_run(pool, multiply, t));
            const double seconds = rp_seconds() - start;
            if (seconds < measured.seconds[c]) measured.seconds[c] = seconds;
        }
    return RP_OK;
}

/* To replace the default a candidate must be faster by MARGIN; to replace another candidate, faster at
 * all. */
static RpCpuPrefetch fastest(void) {
    int best = 0;
    for (int c = 1; c < N_CANDIDATES; c++)
        if (measured.seconds[c] * (best == 0 ? MARGIN : 1.0) < measured.seconds[best]) best = c;
    return candidates[best];
}

/* Divides the weights into slices of about SLICE_BYTES, and chooses the number of workers and rounds so that
 *
 *     rounds * N_CANDIDATES * workers <= slices,    MIN_ROUNDS <= rounds <= MAX_ROUNDS,    workers <= threads
 *
 * Returns false if there are too few slices for one worker. */
static bool plan_trial(const RpTensorView *views, int64_t n, int threads, Trial *t, int *rounds) {
    const int64_t row = (int64_t)views[0].nb[1], rows = views[0].ne[1] * views[0].ne[2];
    *t      = (Trial){.weights = views, .n_weights = n, .workers = threads};
    t->rows = rows * row < SLICE_BYTES ? rows : SLICE_BYTES / row;
    if (t->rows < 1) return false;
    t->slices_of_weight  = rows / t->rows;
    const int64_t slices = n * t->slices_of_weight, enough = slices / (N_CANDIDATES * MIN_ROUNDS);
    if (enough < 1) return false;
    if (enough < t->workers) t->workers = (int)enough;
    const int64_t all = slices / (N_CANDIDATES * t->workers);
    *rounds           = all < MAX_ROUNDS ? (int)all : MAX_ROUNDS;
    return true;
}

/* *out stays unchanged if there are too few weights; a later executor with more weights is then measured.
 * The column is zero, as the time of a product does not depend on its values. */
static RpStatus measure(const RpTensorView *views, int64_t n, ThreadPool *pool, RpCpuPrefetch *out) {
    Trial t;
    int   rounds;
    if (n == 0 || !plan_trial(views, n, rp_pool_size(pool), &t, &rounds)) return RP_OK;
    const size_t column = (rp_row_bytes(RP_Q8_ACT, views[0].ne[0]) + ALIGN - 1) / ALIGN * ALIGN;
    t.column            = aligned_alloc(ALIGN, column);
    t.results           = calloc((size_t)(t.workers * t.rows), sizeof *t.results);
    RpStatus st =
        t.column != NULL && t.results != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for measuring prefetch");
    if (st == RP_OK) {
        memset(t.column, 0, column);
        st = time_candidates(&t, pool, rounds);
    }
    if (st == RP_OK) {
        *out             = fastest();
        measured.done    = true;
        measured.rounds  = rounds;
        measured.workers = t.workers;
        measured.bytes   = (size_t)t.rows * views[0].nb[1];
    }
    free(t.column);
    free(t.results);
    return st;
}

static RpStatus measure_once(const RpExecutor *e, ThreadPool *pool) {
    if (measured.done) return RP_OK;
    RpCpuPrefetch p     = RP_PREFETCH_DEFAULT;
    RpTensorView *views = malloc((size_t)e->plan->n_steps * RP_MAX_SRC * sizeof *views + 1);
    if (views == NULL) return rp_fail(RP_E_NOMEM, "out of memory for measuring prefetch");
    const int64_t n  = quantised_weights(e, views);
    RpStatus      st = measure(views, keep_commonest(views, n), pool, &p);
    if (st == RP_OK) st = rp_cpu_prefetch_set(p);
    free(views);
    return st;
}

RpStatus rp_prefetch_choose(const RpExecutor *e, ThreadPool *pool) {
    RpCpuPrefetch p;
    bool          by_measurement;
    RP_TRY(rp_cpu_prefetch_option(&p, &by_measurement));
    if (!by_measurement) return rp_cpu_prefetch_set(p);
    pthread_mutex_lock(&measured.lock);
    const RpStatus st = measure_once(e, pool);
    pthread_mutex_unlock(&measured.lock);
    return st;
}

int rp_cpu_prefetch_trials_sized(RpCpuPrefetchTrial *out, size_t trial_bytes, int max) {
    if (out == NULL || max < 0) return 0;
    pthread_mutex_lock(&measured.lock);
    const int n = measured.done ? (max < N_CANDIDATES ? max : N_CANDIDATES) : 0;
    for (int c = 0; c < n; c++) {
        const double             total = (double)measured.bytes * measured.workers;
        const RpCpuPrefetchTrial t = {candidates[c], total / measured.seconds[c], measured.workers, measured.rounds};
        rp_sized_out((char *)out + (size_t)c * trial_bytes, trial_bytes, &t, sizeof t);
    }
    pthread_mutex_unlock(&measured.lock);
    return n;
}
