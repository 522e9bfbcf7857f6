/* The software prefetch is chosen by timing products of one column with slices of the model's weights. Every
 * slice is used once, so it comes from memory, unless the whole file is in a cache.
 *
 * The choice should not depend on other programs. So one thread multiplies: several threads that run at once share the
 * bandwidth of memory, which hides the difference, but beside other programs they may run one after the other. Times
 * are processor time, which does not run while other programs have the core. Candidates take turns within a round, and
 * only ratios of times of one round are compared (rp_prefetch_fastest). The first half of the rounds does not count: on
 * Zen 4 prefetches into L2 have no effect during the first milliseconds. */
#include "executor/prefetch.h"

#include "base/clock.h"
#include "base/sized.h"
#include "executor/median.h"
#include "executor/touch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N_CANDIDATES = 4, MIN_ROUNDS = 4, MAX_ROUNDS = RP_PREFETCH_MAX_ROUNDS, SLICE_BYTES = 1 << 19, ALIGN = 64 };

#define MARGIN 1.1 /* a smaller gain would be noise */

/* In the order of preference; the first is RP_PREFETCH_DEFAULT. */
static const RpCpuPrefetch candidates[N_CANDIDATES] = {
    {RP_PREFETCH_L2,   4096},
    {RP_PREFETCH_L2,   8192},
    {RP_PREFETCH_L1,   4096},
    {RP_PREFETCH_NONE, 0   }
};

/* The result of the measurement, one per process. */
static struct {
    pthread_mutex_t lock;
    bool            done;
    int             rounds;
    size_t          bytes;                              /* of a slice */
    double          seconds[MAX_ROUNDS * N_CANDIDATES]; /* [round][candidate] */
} measured = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Each candidate gets another slice in each round. Rounds -rounds to -1 are the warm-up:
 *
 *     slice of round r, candidate c = (r + rounds) * N_CANDIDATES + c
 *     slice i = rows [(i % slices_of_weight) * rows, ... + rows) of weight i / slices_of_weight */
typedef struct Trial {
    const RpTensorView *weights; /* all of one type and shape */
    int64_t             n_weights, rows, slices_of_weight;
    char               *column;
    float              *results; /* `rows` */
} Trial;

static RpTensorView slice(const Trial *t, int64_t i) {
    RpTensorView v = t->weights[i / t->slices_of_weight % t->n_weights];
    v.data         = (char *)v.data + (size_t)(i % t->slices_of_weight * t->rows) * v.nb[1];
    v.ne[1]        = t->rows;
    v.ne[2] = v.ne[3] = 1;
    return v;
}

/* Multiplies slice i with the column. *seconds is the processor time. */
static RpStatus multiply(const Trial *t, int64_t i, double *seconds) {
    const RpOpParams   params            = {.mul_mat = {.bound = RP_BOUND_NONE}};
    const RpTensorView w                 = slice(t, i);
    const int64_t      ne_x[RP_MAX_DIMS] = {w.ne[0], 1, 1, 1}, ne_y[RP_MAX_DIMS] = {t->rows, 1, 1, 1};
    const RpTensorView x    = rp_view_contiguous(RP_Q8_ACT, ne_x, t->column);
    const RpTensorView y    = rp_view_contiguous(RP_F32, ne_y, t->results);
    const RpOpArgs     args = {
            .dst    = y,
            .src    = {w, x},
            .params = &params,
    };
    rp_touch(w.data, (size_t)w.ne[1] * w.nb[1]);
    const double   start = rp_thread_seconds();
    const RpStatus st    = rp_cpu_kernel(RP_OP_MUL_MAT)(&args, &(RpKernelCtx){.ith = 0, .nth = 1});
    *seconds             = rp_thread_seconds() - start;
    return st;
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

/* Candidates take turns within a round, so that a slow phase of the machine affects all of them, and each round
 * begins with the next candidate. */
static RpStatus time_candidates(const Trial *t, int rounds) {
    for (int r = -rounds; r < rounds; r++)
        for (int k = 0; k < N_CANDIDATES; k++) {
            const int c = (r + rounds + k) % N_CANDIDATES;
            double    seconds;
            RP_TRY(rp_cpu_prefetch_set(candidates[c]));
            RP_TRY(multiply(t, (r + rounds) * N_CANDIDATES + c, &seconds));
            if (r >= 0) measured.seconds[r * N_CANDIDATES + c] = seconds;
        }
    return RP_OK;
}

/* The median over the rounds of (time of candidate 0) / (time of candidate c). */
static double relative_speed(const double *seconds, int rounds, int n, int c) {
    double ratio[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++) ratio[r] = seconds[r * n] / seconds[r * n + c];
    return rp_median(ratio, rounds);
}

int rp_prefetch_fastest(const double *seconds, int rounds, int n) {
    double best = 1.0;
    for (int c = 1; c < n; c++) {
        const double speed = relative_speed(seconds, rounds, n, c);
        if (speed > best) best = speed;
    }
    int c = 0;
    while (relative_speed(seconds, rounds, n, c) * MARGIN < best) c++;
    return c;
}

/* Divides the weights into slices of about SLICE_BYTES, and chooses the number of rounds so that
 *
 *     2 * rounds * N_CANDIDATES <= slices,    MIN_ROUNDS <= rounds <= MAX_ROUNDS
 *
 * Returns false if there are too few slices. */
static bool plan_trial(const RpTensorView *views, int64_t n, Trial *t, int *rounds) {
    const int64_t row = (int64_t)views[0].nb[1], rows = views[0].ne[1] * views[0].ne[2];
    *t      = (Trial){.weights = views, .n_weights = n};
    t->rows = rows * row < SLICE_BYTES ? rows : SLICE_BYTES / row;
    if (t->rows < 1) return false;
    t->slices_of_weight = rows / t->rows;
    const int64_t all   = n * t->slices_of_weight / (2 * N_CANDIDATES);
    *rounds             = all < MAX_ROUNDS ? (int)all : MAX_ROUNDS;
    return *rounds >= MIN_ROUNDS;
}

/* *out stays unchanged if there are too few weights; a later executor with more weights is then measured.
 * The column is zero, as the time of a product does not depend on its values. */
static RpStatus measure(const RpTensorView *views, int64_t n, RpCpuPrefetch *out) {
    Trial t;
    int   rounds;
    if (n == 0 || !plan_trial(views, n, &t, &rounds)) return RP_OK;
    const size_t column = (rp_row_bytes(RP_Q8_ACT, views[0].ne[0]) + ALIGN - 1) / ALIGN * ALIGN;
    t.column            = aligned_alloc(ALIGN, column);
    t.results           = calloc((size_t)t.rows, sizeof *t.results);
    RpStatus st =
        t.column != NULL && t.results != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for measuring prefetch");
    if (st == RP_OK) {
        memset(t.column, 0, column);
        st = time_candidates(&t, rounds);
    }
    if (st == RP_OK) {
        *out            = candidates[rp_prefetch_fastest(measured.seconds, rounds, N_CANDIDATES)];
        measured.done   = true;
        measured.rounds = rounds;
        measured.bytes  = (size_t)t.rows * views[0].nb[1];
    }
    free(t.column);
    free(t.results);
    return st;
}

static RpStatus measure_once(const RpExecutor *e) {
    if (measured.done) return RP_OK;
    RpCpuPrefetch p     = RP_PREFETCH_DEFAULT;
    RpTensorView *views = malloc((size_t)e->plan->n_steps * RP_MAX_SRC * sizeof *views + 1);
    if (views == NULL) return rp_fail(RP_E_NOMEM, "out of memory for measuring prefetch");
    const int64_t n  = quantised_weights(e, views);
    RpStatus      st = measure(views, keep_commonest(views, n), &p);
    if (st == RP_OK) st = rp_cpu_prefetch_set(p);
    free(views);
    return st;
}

RpStatus rp_prefetch_choose(const RpExecutor *e) {
    RpCpuPrefetch p;
    bool          by_measurement;
    RP_TRY(rp_cpu_prefetch_option(&p, &by_measurement));
    if (!by_measurement) return rp_cpu_prefetch_set(p);
    pthread_mutex_lock(&measured.lock);
    const RpStatus st = measure_once(e);
    pthread_mutex_unlock(&measured.lock);
    return st;
}

/* The median speed of the default, times the relative speed by which candidate c was judged. */
static double bytes_per_s(int c) {
    double seconds[MAX_ROUNDS];
    for (int r = 0; r < measured.rounds; r++) seconds[r] = measured.seconds[r * N_CANDIDATES];
    return (double)measured.bytes / rp_median(seconds, measured.rounds) *
           relative_speed(measured.seconds, measured.rounds, N_CANDIDATES, c);
}

int rp_cpu_prefetch_trials_sized(RpCpuPrefetchTrial *out, size_t trial_bytes, int max) {
    if (out == NULL || max < 0) return 0;
    pthread_mutex_lock(&measured.lock);
    const int n = measured.done ? (max < N_CANDIDATES ? max : N_CANDIDATES) : 0;
    for (int c = 0; c < n; c++) {
        const RpCpuPrefetchTrial t = {candidates[c], bytes_per_s(c), 1, measured.rounds};
        rp_sized_out((char *)out + (size_t)c * trial_bytes, trial_bytes, &t, sizeof t);
    }
    pthread_mutex_unlock(&measured.lock);
    return n;
}
