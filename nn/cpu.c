/* Runs an op on the host. Large ops are divided among the threads of one pool (REPRISE_THREADS), which is made at the
 * first call and lasts as long as the process. A call that finds the pool busy, or that is small, uses its own thread:
 * the bits are the same (I8). */
#include "nn/call.h"

#include "base/option_number.h"
#include "executor/pool.h"

#include "reprise/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* Starting the workers takes as long as some ten thousand elements. */
enum { ELEMENTS_FOR_THREADS = 32768 };

/* So long workers wait for the next call before they sleep. Waking them took a tenth of a product of 512 x 512 x 512,
 * and the scheduler often put them on the core of the caller. */
enum { SPIN_US = 200 };

static pthread_mutex_t in_use = PTHREAD_MUTEX_INITIALIZER;
static ThreadPool     *pool; /* guarded by in_use; NULL until the first large call */

typedef struct Work {
    RpOpKernel     *kernel;
    const RpOpArgs *args;
    ThreadPool     *pool; /* NULL: the caller alone */
    CpuNeeds        needs;
    NnMemory        memory; /* shared | local of worker 0 | local of worker 1 | ..., each aligned */
    int             workers;
} Work;

/* A PoolTask: worker ith runs every phase of the kernel. The barrier after each phase lets a phase read what all
 * workers wrote in the one before. Workers without memory (ith >= w->workers) take part in the barriers only. */
static RpStatus work(void *arg, int ith, int nth) {
    const Work *w  = arg;
    RpStatus    st = RP_OK;
    (void)nth;
    char *local = w->memory.data != NULL
                      ? w->memory.data + rp_nn_align(w->needs.shared) + (size_t)ith * rp_nn_align(w->needs.local)
                      : NULL;
    for (int phase = 0; phase < w->needs.phases && st == RP_OK; phase++) {
        RpKernelCtx ctx = {.ith = ith, .nth = w->workers, .phase = phase, .shared = w->memory.data, .local = local};
        if (ith < w->workers) st = w->kernel(w->args, &ctx);
        if (w->pool != NULL) st = rp_pool_barrier(w->pool, st);
    }
    return st;
}

/* REPRISE_THREADS, else one thread for each CPU that is online. */
static RpStatus number_of_threads(int *out) {
    long n = 0;
    RP_TRY(rp_option_number(RP_OPT_THREADS, RP_POOL_MAX, &n));
    *out = (int)(n > 0 ? n : sysconf(_SC_NPROCESSORS_ONLN));
    return RP_OK;
}

/* Number of workers that the memory is large enough for: each needs `local` bytes beside the shared ones. 0: the memory
 * is too small even for one. */
static int workers_of(const Work *w) {
    const size_t shared = rp_nn_align(w->needs.shared), local = rp_nn_align(w->needs.local);
    if (w->memory.bytes < shared) return 0;
    const size_t most = local > 0 ? (w->memory.bytes - shared) / local : RP_POOL_MAX;
    return most < RP_POOL_MAX ? (int)most : RP_POOL_MAX;
}

/* The caller holds in_use. The pool is never freed, since another thread may make a call at any time. */
static RpStatus run_in_pool(Work *w) {
    if (pool == NULL) {
        int n = 0;
        RP_TRY(number_of_threads(&n));
        RP_TRY(rp_pool_new(n, SPIN_US, &pool));
    }
    w->pool = pool;
    if (w->workers > rp_pool_size(pool)) w->workers = rp_pool_size(pool);
    return rp_pool_run(pool, work, w);
}

/* Elements of the largest operand. */
static int64_t size_of(const RpOpArgs *args) {
    int64_t largest = rp_view_elems(&args->dst);
    for (int i = 0; i < RP_MAX_SRC; i++) {
        const int64_t n = rp_view_elems(&args->src[i]);
        if (n > largest) largest = n;
    }
    return largest;
}

/* REPRISE_ISA, until it was found to be right. */
static RpStatus check_isa(void) {
    static atomic_bool right;
    if (atomic_load_explicit(&right, memory_order_relaxed)) return RP_OK;
    RP_TRY(rp_cpu_isa_check());
    atomic_store_explicit(&right, true, memory_order_relaxed);
    return RP_OK;
}

RpStatus rp_nn_run_cpu(TensorOp op, const RpOpArgs *args, NnMemory memory) {
    RP_TRY(check_isa());
    Work w    = {.kernel = rp_cpu_kernel(op), .args = args, .needs = rp_cpu_needs(op, args), .memory = memory};
    w.workers = workers_of(&w);
    if (w.workers == 0 || (uintptr_t)memory.data % RP_NN_ALIGN != 0)
        return rp_fail(RP_E_ARG, "a workspace of %zu bytes: must be at least %zu, aligned to %d", memory.bytes,
                       rp_nn_align(w.needs.shared) + rp_nn_align(w.needs.local), (int)RP_NN_ALIGN);
    /* A thread that finds the pool in use does not wait: it computes alone. */
    if (size_of(args) < ELEMENTS_FOR_THREADS || pthread_mutex_trylock(&in_use) != 0) {
        w.workers = 1;
        return work(&w, 0, 1);
    }
    const RpStatus st = run_in_pool(&w);
    (void)pthread_mutex_unlock(&in_use);
    return st;
}

/* Memory for all threads of the pool. A call in less memory is correct too, with fewer workers. */
RpStatus rp_nn_memory_cpu(TensorOp op, const RpOpArgs *args, size_t *bytes) {
    const CpuNeeds needs = rp_cpu_needs(op, args);
    int            n     = 1;
    if (needs.local > 0) RP_TRY(number_of_threads(&n));
    *bytes = rp_nn_align(needs.shared) + (size_t)n * rp_nn_align(needs.local);
    return RP_OK;
}
