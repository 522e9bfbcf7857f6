/* Runs an op on the host. Large ops are divided among the threads of one pool (REPRISE_THREADS), which is made at the first
 * call and lasts as long as the process. A call that finds the pool busy, or that is small, uses its own thread: the bits
 * are the same (I8). */
#include "nn/call.h"

#include "executor/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Starting the workers takes as long as some ten thousand elements. */
enum { ELEMENTS_FOR_THREADS = 32768 };

static pthread_mutex_t in_use = PTHREAD_MUTEX_INITIALIZER;
static ThreadPool     *pool; /* guarded by in_use; NULL until the first large call */

typedef struct Work {
    RpOpKernel     *kernel;
    const RpOpArgs *args;
    ThreadPool     *pool; /* NULL: the caller alone */
    int             phases;
} Work;

static RpStatus work(void *arg, int ith, int nth) {
    const Work *w  = arg;
    RpStatus    st = RP_OK;
    for (int phase = 0; phase < w->phases && st == RP_OK; phase++) {
        RpKernelCtx ctx = {.ith = ith, .nth = nth, .phase = phase};
        st              = w->kernel(w->args, &ctx);
        if (w->pool != NULL) st = rp_pool_barrier(w->pool, st);
    }
    return st;
}

static RpStatus number_of_threads(int *out) {
    const char *text = rp_option(RP_OPT_THREADS);
    char       *end;
    errno        = 0;
    const long n = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || n < 0 || n > RP_POOL_MAX)
        return rp_fail(RP_E_ARG, "%s='%s': a number from 0 to %d is wanted", rp_option_name(RP_OPT_THREADS),
                       text, RP_POOL_MAX);
    *out = n > 0 ? (int)n : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return RP_OK;
}

static RpStatus run_in_pool(Work *w) {
    if (pool == NULL) {
        int n = 0;
        RP_TRY(number_of_threads(&n));
        RP_TRY(rp_pool_new(n, 0, &pool));
    }
    w->pool = pool;
    return rp_pool_run(pool, work, w);
}

RpStatus rp_nn_run_cpu(TensorOp op, const RpOpArgs *args) {
    Work w = {.kernel = rp_cpu_kernels[op], .args = args, .phases = rp_cpu_needs(op, args).phases};
    if (rp_view_elems(&args->src[0]) < ELEMENTS_FOR_THREADS || pthread_mutex_trylock(&in_use) != 0)
        return work(&w, 0, 1);
    const RpStatus st = run_in_pool(&w);
    (void)pthread_mutex_unlock(&in_use);
    return st;
}
