#include "executor/pool.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__) || defined(__i386__)
#define CPU_RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define CPU_RELAX() __asm__ volatile("yield")
#else
#define CPU_RELAX() ((void)0)
#endif

enum { CACHE_LINE = 64, SPINS_BETWEEN_CLOCKS = 64 };

typedef struct Member {
    ThreadPool *pool;
    pthread_t   thread;
    int         ith;
} Member;

struct ThreadPool {
    int       n_threads;
    long      spin_us;
    Member   *members; /* n_threads - 1 of them: the caller is not listed */
    PoolTask *task;
    void     *arg;
    bool      quit;

    /* Each is bumped once by the last to arrive; waiting is for a change. */
    _Alignas(CACHE_LINE) atomic_uint start;   /* a run begins */
    _Alignas(CACHE_LINE) atomic_uint phase;   /* a barrier opens */
    _Alignas(CACHE_LINE) atomic_int arrived;  /* at the barrier */
    RpStatus outcome;                         /* of the latest phase */
    _Alignas(CACHE_LINE) atomic_int failed;   /* the first failure of the run */
    _Alignas(CACHE_LINE) atomic_int n_parked; /* members asleep */

    pthread_mutex_t lock;
    char            error[1024]; /* of the member that set `failed`; guarded by lock */
};

static long long now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

#ifdef __linux__
static void park(atomic_uint *word, unsigned old) {
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL,
                  0); /* returns at once if it changed */
}

static void unpark_all(atomic_uint *word) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
#else
static void park(atomic_uint *word, unsigned old) {
    if (atomic_load(word) == old) sched_yield();
}

static void unpark_all(atomic_uint *word) { (void)word; }
#endif

static void wait_for_change(ThreadPool *p, atomic_uint *word, unsigned old) {
    for (long long end = -1, now = 0; p->spin_us > 0 && now != end;) {
        for (int i = 0; i < SPINS_BETWEEN_CLOCKS; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != old) return;
            CPU_RELAX();
        }
        now = now_us();
        if (end < 0) end = now + p->spin_us;
        if (now > end) now = end;
    }
    atomic_fetch_add(&p->n_parked, 1);
    while (atomic_load(word) == old) park(word, old);
    atomic_fetch_sub(&p->n_parked, 1);
}

/* The change and the look at n_parked are sequentially consistent, as are their counterparts in the waiter:
 * either the waiter sees the new value or this sees the waiter. */
static void change(ThreadPool *p, atomic_uint *word) {
    atomic_fetch_add(word, 1);
    if (atomic_load(&p->n_parked) > 0) unpark_all(word);
}

static void record_failure(ThreadPool *p, RpStatus status) {
    pthread_mutex_lock(&p->lock);
    if (atomic_load(&p->failed) == RP_OK) {
        atomic_store(&p->failed, (int)status);
        snprintf(p->error, sizeof p->error, "%s", rp_last_error());
    }
    pthread_mutex_unlock(&p->lock);
}

/* The last to arrive takes the status of the phase down for all: a fast member may fail in the next phase
 * before a slow one has read the outcome of this one. */
RpStatus rp_pool_barrier(ThreadPool *p, RpStatus status) {
    if (status != RP_OK) record_failure(p, status);
    const unsigned phase = atomic_load_explicit(&p->phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) == p->n_threads - 1) {
        atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
        p->outcome = (RpStatus)atomic_load_explicit(&p->failed, memory_order_relaxed);
        if (p->n_threads > 1) change(p, &p->phase);
    } else {
        wait_for_change(p, &p->phase, phase);
    }
    return p->outcome;
}

static void *member_main(void *arg) {
    const Member *m    = arg;
    ThreadPool   *p    = m->pool;
    unsigned      seen = 0;
    for (;;) {
        wait_for_change(p, &p->start, seen);
        seen++;
        if (p->quit) return NULL;
        rp_pool_barrier(p, p->task(p->arg, m->ith, p->n_threads));
    }
}

RpStatus rp_pool_run(ThreadPool *p, PoolTask *task, void *arg) {
    p->task = task;
    p->arg  = arg;
    atomic_store(&p->failed, RP_OK);
    if (p->n_threads > 1) change(p, &p->start);
    /* A member's failure ends every member's walk at the same step, so all meet here once more. */
    const RpStatus st = rp_pool_barrier(p, task(arg, 0, p->n_threads));
    return st == RP_OK ? RP_OK : rp_fail(st, "%s", p->error);
}

void rp_pool_free(ThreadPool *p) {
    if (p == NULL) return;
    p->quit = true;
    if (p->n_threads > 1) change(p, &p->start);
    for (int i = 0; i < p->n_threads - 1; i++) pthread_join(p->members[i].thread, NULL);
    pthread_mutex_destroy(&p->lock);
    free(p->members);
    free(p);
}

RpStatus rp_pool_new(int n_threads, long spin_us, ThreadPool **out) {
    *out = NULL;
    if (n_threads < 1 || n_threads > RP_POOL_MAX)
        return rp_fail(RP_E_ARG, "%d threads: between 1 and %d can be used", n_threads, RP_POOL_MAX);
    ThreadPool *p = aligned_alloc(CACHE_LINE, sizeof *p);
    if (p == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a thread pool");
    *p         = (ThreadPool){.n_threads = 1, .spin_us = spin_us};
    p->members = calloc((size_t)n_threads, sizeof *p->members);
    pthread_mutex_init(&p->lock, NULL);
    bool ok      = p->members != NULL;
    p->n_threads = n_threads;
    for (int i = 1; ok && i < n_threads; i++) {
        p->members[i - 1] = (Member){.pool = p, .ith = i};
        if (pthread_create(&p->members[i - 1].thread, NULL, member_main, &p->members[i - 1]) != 0) {
            p->n_threads = i; /* those that run are ended */
            ok           = false;
        }
    }
    if (!ok) {
        const int started = p->n_threads;
        rp_pool_free(p);
        return rp_fail(RP_E_NOMEM, "only %d of %d threads could be started", started, n_threads);
    }
    *out = p;
    return RP_OK;
}

int rp_pool_size(const ThreadPool *p) { return p->n_threads; }
