/* The thread pool: a start signal, a barrier, and waiting by spin and park. Both signals are counters: a
 * waiter remembers the old value and waits for any change, so a signal cannot be missed.
 *
 *     signal    counter += 1;  if n_parked > 0: futex wake
 *     wait      spin for spin_us microseconds, or briefly;  n_parked += 1;  futex wait while the counter is the same
 *     barrier   arrived += 1;  the last sets arrived = 0 and signals phase;  the others wait for phase */
#include "executor/pool.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#if defined(__x86_64__) || defined(__i386__)
#define CPU_RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define CPU_RELAX() __asm__ volatile("yield")
#else
#define CPU_RELAX() ((void)0)
#endif

enum {
    CACHE_LINE           = 64,
    SPINS_BETWEEN_CLOCKS = 64,
    LOST_US              = 500,   /* a wait of at least this time counts as lost */
    QUEUED_PART          = 5,     /* workers that waited for cores 1/5 of the time share them with others */
    AGAIN_US             = 20000, /* if the system does not tell that time: two lost waits within 20 ms */
    BRIEF_WAITS          = 2000   /* number of brief waits after either */
};

/* One run:
 *
 *     caller (worker 0)                        workers 1 .. n-1
 *     rp_pool_run: signal start  ----------->  wait for start
 *     task: ... rp_pool_barrier ...   <----->  task: ... rp_pool_barrier ...
 *     final rp_pool_barrier           <----->  final rp_pool_barrier, then wait for the next start */
typedef struct Worker {
    ThreadPool *pool;
    pthread_t   thread;
    int         ith;
    atomic_int  tid; /* 0: it has not begun */
} Worker;

struct ThreadPool {
    int       n_threads;
    pid_t     process; /* the one that has the workers: a fork copies memory, but no threads */
    long      spin_us;
    Worker   *workers; /* workers[i - 1] is worker i; the caller, worker 0, has no entry */
    PoolTask *task;
    void     *arg; /* task, arg and quit are written before `start` changes and read after it */
    bool      quit;

    /* Fields that different threads write lie in different cache lines, which avoids false sharing. */
    _Alignas(CACHE_LINE) atomic_uint start;   /* number of runs started */
    _Alignas(CACHE_LINE) atomic_uint phase;   /* number of barriers completed */
    _Alignas(CACHE_LINE) atomic_int arrived;  /* workers at the current barrier */
    RpStatus outcome;                         /* result of the latest barrier */
    _Alignas(CACHE_LINE) atomic_int failed;   /* the first failure of the run, or RP_OK */
    _Alignas(CACHE_LINE) atomic_int n_parked; /* workers asleep or about to be */
    _Alignas(CACHE_LINE) atomic_int brief;    /* waits that hardly spin are left, about */
    atomic_int   caller;    /* thread id of worker 0; a worker may read it when the next run has begun */
    atomic_llong lost_us;   /* when a wait was lost the last time */
    atomic_llong queued_us; /* queued_us() then */

    pthread_mutex_t lock;
    char            error[1024]; /* its text, of the worker that set `failed`; guarded by lock */
};

static long long now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

#ifdef __linux__
/* The kernel compares the word with `old` before it puts the thread to sleep, so a change just before is
 * not missed. */
static void park(atomic_uint *word, unsigned old) {
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
}

static void unpark_all(atomic_uint *word) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static int thread_id(void) { return (int)syscall(SYS_gettid); }
#else
/* Without futexes a parked worker polls, and yields the CPU between looks. */
static void park(atomic_uint *word, unsigned old) {
    if (atomic_load(word) == old) sched_yield();
}

static void unpark_all(atomic_uint *word) { (void)word; }

static int thread_id(void) { return 0; } /* its time in the queue is not known */
#endif

/* A worker that spins while another program wants its core uses up its time slice, and then loses the core for
 * milliseconds while the other workers wait; a worker that sleeps is woken at once. So after lost waits workers hardly
 * spin. */
static bool is_brief(ThreadPool *p) {
    if (atomic_load_explicit(&p->brief, memory_order_relaxed) <= 0) return false;
    atomic_fetch_sub_explicit(&p->brief, 1, memory_order_relaxed);
    return true;
}

/* Spins for spin_us, then parks. The clock is read once in 64 looks, since reading it takes longer than a
 * look. The time is counted from the first reading, so that short waits never read it. Returns how long it
 * was parked, in microseconds. */
static long long wait_for_change(ThreadPool *p, atomic_uint *word, unsigned old) {
    const bool brief = is_brief(p);
    for (long long end = -1, now = 0; p->spin_us > 0 && now != end;) {
        for (int i = 0; i < SPINS_BETWEEN_CLOCKS; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != old) return 0;
            CPU_RELAX();
        }
        if (brief) break;
        now = now_us();
        if (end < 0) end = now + p->spin_us;
        if (now > end) now = end;
    }
    const long long start = now_us();
    atomic_fetch_add(&p->n_parked, 1);
    while (atomic_load(word) == old) park(word, old);
    atomic_fetch_sub(&p->n_parked, 1);
    return now_us() - start;
}

/* How long a thread has waited for a core while it could run, in ns: the second number of its file schedstat in Linux
 * (Documentation/scheduler/sched-stats.rst). -1 if the system does not tell. Nothing is allocated (I3). */
static long long queued_ns(int tid) {
    char path[64], text[96], *rest;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return -1;
    text[n] = '\0';
    (void)strtoll(text, &rest, 10);
    return *rest == ' ' ? strtoll(rest, NULL, 10) : -1;
}

/* The sum over all workers, in us. */
static long long queued_us(const ThreadPool *p) {
    long long ns = queued_ns(atomic_load_explicit(&p->caller, memory_order_relaxed));
    for (int i = 0; i < p->n_threads - 1 && ns >= 0; i++) {
        const int       tid   = atomic_load_explicit(&p->workers[i].tid, memory_order_relaxed);
        const long long other = tid != 0 ? queued_ns(tid) : 0;
        ns                    = other >= 0 ? ns + other : -1;
    }
    return ns >= 0 ? ns / 1000 : -1;
}

/* Waits are long for other reasons as well: a host of virtual machines takes a core away, or a worker that slept is
 * woken late. Brief waits would only add wake-ups then. */
static void note_lost(ThreadPool *p) {
    const long long now = now_us(), before = atomic_exchange_explicit(&p->lost_us, now, memory_order_relaxed);
    const long long queued = queued_us(p);
    const long long more   = queued - atomic_exchange_explicit(&p->queued_us, queued, memory_order_relaxed);
    const long long time   = now - before;
    if (queued >= 0 ? more >= LOST_US && more * QUEUED_PART >= time : time < AGAIN_US)
        atomic_store_explicit(&p->brief, BRIEF_WAITS, memory_order_relaxed);
}

bool rp_pool_is_brief(const ThreadPool *p) { return atomic_load_explicit(&p->brief, memory_order_relaxed) > 0; }

/* Changes a counter and wakes the sleepers. No wake-up is lost, because all four accesses are sequentially
 * consistent:
 *
 *     waiter    W1: n_parked += 1    W2: read word, sleep if unchanged
 *     changer   C1: word += 1        C2: read n_parked, wake if > 0
 *
 * If W2 reads the old value, then W2 is before C1 in the total order; so W1 is before C2, and C2 sees the
 * waiter. */
static void change(ThreadPool *p, atomic_uint *word) {
    atomic_fetch_add(word, 1);
    if (atomic_load(&p->n_parked) > 0) unpark_all(word);
}

/* Keeps the first failure of a run and its text, which is thread-local in the worker that failed. */
static void record_failure(ThreadPool *p, RpStatus status) {
    pthread_mutex_lock(&p->lock);
    if (atomic_load(&p->failed) == RP_OK) {
        atomic_store(&p->failed, (int)status);
        snprintf(p->error, sizeof p->error, "%s", rp_last_error());
    }
    pthread_mutex_unlock(&p->lock);
}

/* `phase` cannot change between the read and the arrival of this worker, because the barrier opens only
 * after it.
 *
 * `outcome` is a snapshot of `failed` by the last to arrive. A fast worker may fail in the next phase and
 * set `failed` before a slow one has returned from this barrier; the slow one must still return the
 * outcome of this phase. It is written again only when all workers have arrived at the next barrier. */
RpStatus rp_pool_barrier(ThreadPool *p, RpStatus status) {
    if (status != RP_OK) record_failure(p, status);
    const unsigned phase = atomic_load_explicit(&p->phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) == p->n_threads - 1) {
        atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
        p->outcome = (RpStatus)atomic_load_explicit(&p->failed, memory_order_relaxed);
        if (p->n_threads > 1) change(p, &p->phase);
    } else {
        if (wait_for_change(p, &p->phase, phase) >= LOST_US) note_lost(p);
    }
    return p->outcome;
}

static void *worker_main(void *arg) {
    Worker     *w    = arg;
    ThreadPool *p    = w->pool;
    unsigned    seen = 0; /* runs started so far: one more cannot start before this worker ends the last */
    atomic_store_explicit(&w->tid, thread_id(), memory_order_relaxed);
    for (;;) {
        (void)wait_for_change(p, &p->start, seen); /* the caller may leave the pool idle */
        seen++;
        if (p->quit) return NULL;
        rp_pool_barrier(p, p->task(p->arg, w->ith, p->n_threads));
    }
}

RpStatus rp_pool_run(ThreadPool *p, PoolTask *task, void *arg) {
    if (p->n_threads > 1 && p->process != getpid()) /* it would wait for them for ever */
        return rp_fail(RP_E_STATE,
                       "this process was forked after the executor was opened, and has none of its %d "
                       "threads: open an executor here",
                       p->n_threads);
    p->task = task;
    p->arg  = arg;
    atomic_store_explicit(&p->caller, thread_id(), memory_order_relaxed);
    atomic_store(&p->failed, RP_OK);
    if (p->n_threads > 1) change(p, &p->start);
    /* The barriers inside the task return a failure to all workers at the same step, so all of them get
     * here. */
    const RpStatus st = rp_pool_barrier(p, task(arg, 0, p->n_threads));
    return st == RP_OK ? RP_OK : rp_fail(st, "%s", p->error);
}

void rp_pool_free(ThreadPool *p) {
    if (p == NULL) return;
    p->quit = true;
    if (p->process == getpid()) {
        if (p->n_threads > 1) change(p, &p->start);
        for (int i = 0; i < p->n_threads - 1; i++) pthread_join(p->workers[i].thread, NULL);
    }
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    free(p);
}

RpStatus rp_pool_new(int n_threads, long spin_us, ThreadPool **out) {
    *out = NULL;
    if (n_threads < 1 || n_threads > RP_POOL_MAX)
        return rp_fail(RP_E_ARG, "%d threads: must be from 1 to %d", n_threads, RP_POOL_MAX);
    ThreadPool *p = aligned_alloc(CACHE_LINE, sizeof *p);
    if (p == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a thread pool");
    *p         = (ThreadPool){.n_threads = 1, .process = getpid(), .spin_us = spin_us};
    p->workers = calloc((size_t)n_threads, sizeof *p->workers);
    pthread_mutex_init(&p->lock, NULL);
    if (p->workers == NULL) {
        rp_pool_free(p);
        return rp_fail(RP_E_NOMEM, "out of memory for a thread pool");
    }
    p->n_threads = n_threads;
    for (int i = 1; i < n_threads; i++) {
        p->workers[i - 1] = (Worker){.pool = p, .ith = i};
        if (pthread_create(&p->workers[i - 1].thread, NULL, worker_main, &p->workers[i - 1]) != 0) {
            p->n_threads = i; /* rp_pool_free ends those that run */
            rp_pool_free(p);
            return rp_fail(RP_E_NOMEM, "only %d of %d threads could be started", i, n_threads);
        }
    }
    *out = p;
    return RP_OK;
}

int rp_pool_size(const ThreadPool *p) { return p->n_threads; }
