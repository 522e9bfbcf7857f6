/* The limit of runs that do not end (RpExecutorOptions.watchdog_s), and the memory of such runs.
 *
 *     stream   inputs -> mark 0 -> step 0 -> mark 1 -> step 1 -> mark 2 -> ... -> outputs
 *                          |                   |
 *     host     n_done      0                   1           pinned memory, which the waiting host reads
 *
 * The limit holds for the time without a new mark, not for the whole run. If n_done stays i for so long, step i does
 * not end. In a loop the marks are in its body, and each token is waited for anew.
 *
 * A kernel cannot be stopped, and cudaFree and cudaStreamSynchronize would wait for it. So the device counts as failed,
 * and while its stream has not ended nothing of any executor on that GPU is freed (rp_executor_free). */
#include "executor/cuda/cuda.h"

#include "base/clock.h"
#include "base/option_number.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum {
    SPINS  = 200,  /* queries before the host sleeps between them */
    NAP_NS = 20000 /* 20 us */
};

/* The largest part of the limit that counts between two checks: a host that was stopped has not seen a hang. */
static const double MOST = 0.1;

/* ---- marks ---- */

RpStatus rp_cuda_watchdog_open(CudaDevice *d, double given_s) {
    CudaWatchdog *w = &d->watchdog;
    w->limit_s      = given_s;
    if (given_s == 0.0) RP_TRY(rp_option_double(RP_OPT_WATCHDOG, RP_WATCHDOG_MAX_S, &w->limit_s));
    if (w->limit_s == 0.0) return RP_OK;
    RP_TRY(rp_cuda_check(d, cudaHostAlloc((void **)&w->n_done, sizeof *w->n_done, cudaHostAllocMapped), "watchdog"));
    return rp_cuda_check(d, cudaHostGetDevicePointer((void **)&w->mapped, w->n_done, 0), "watchdog");
}

void rp_cuda_watchdog_close(CudaDevice *d) {
    if (d->watchdog.n_done != NULL) (void)cudaFreeHost(d->watchdog.n_done);
}

void rp_cuda_watch_from(const CudaDevice *d, int32_t n_done) {
    if (rp_cuda_watches(d)) __atomic_store_n(d->watchdog.n_done, n_done, __ATOMIC_RELEASE);
}

RpStatus rp_cuda_mark_step(const CudaExecutor *c, int32_t n_done, bool overlap) {
    RpKernelCtx ctx = rp_cuda_ctx(c, NULL, NULL);
    if (!rp_cuda_watches(c->device)) return RP_OK;
    ctx.launch  = NULL; /* it runs as shipped */
    ctx.overlap = overlap;
    return rp_cuda_named(c->device, rp_cuda_mark(c->device->watchdog.mapped, n_done, &ctx));
}

/* ---- waiting ---- */

static int32_t latest(const CudaDevice *d) { return __atomic_load_n(d->watchdog.n_done, __ATOMIC_ACQUIRE); }

/* Devices with a run that was given up. None of them is freed while its stream has not ended. */
static CudaDevice     *hung;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static RpStatus give_up(CudaDevice *d) {
    d->failed = d->hung = true;
    pthread_mutex_lock(&lock);
    d->next_hung = hung;
    hung         = d;
    pthread_mutex_unlock(&lock);
    return rp_cuda_select(d);
}

CudaWatch rp_cuda_watch(const CudaDevice *d) {
    CudaWatch w = {0};
    if (rp_cuda_watches(d)) w = (CudaWatch){.last = rp_seconds(), .n_done = latest(d)};
    return w;
}

bool rp_cuda_is_over(const CudaDevice *d, CudaWatch *w) {
    if (!rp_cuda_watches(d)) return false;
    const double  now = rp_seconds(), passed = now - w->last, most = MOST * d->watchdog.limit_s;
    const int32_t n_done = latest(d);
    w->idle              = n_done == w->n_done ? w->idle + (passed < most ? passed : most) : 0.0;
    w->last              = now;
    w->n_done            = n_done;
    return w->idle >= d->watchdog.limit_s;
}

/* Asks the stream until it has ended or the limit is over. */
static cudaError_t poll(const CudaDevice *d, bool *over) {
    static const struct timespec nap = {.tv_nsec = NAP_NS};
    CudaWatch                    w   = rp_cuda_watch(d);
    for (int i = 0;; i++) {
        const cudaError_t now = cudaStreamQuery(d->stream);
        if (now != cudaErrorNotReady) return now;
        *over = rp_cuda_is_over(d, &w);
        if (*over) return now;
        if (i >= SPINS) nanosleep(&nap, NULL);
    }
}

/* RP_OK if the device has ended all work. *over: it has not ended within the limit. */
static RpStatus wait_for_end(CudaDevice *d, const char *what, bool *over) {
    *over = false;
    if (d->hung) return rp_cuda_select(d);
    const cudaError_t e = rp_cuda_watches(d) ? poll(d, over) : cudaStreamSynchronize(d->stream);
    return *over ? RP_E_CUDA : rp_cuda_check(d, e, what);
}

RpStatus rp_cuda_wait(CudaDevice *d, const char *what) {
    bool           over;
    const RpStatus st = wait_for_end(d, what, &over);
    if (!over) return st;
    snprintf(d->failure, sizeof d->failure, "%s: no end after %g s: %s", d->id, d->watchdog.limit_s, what);
    return give_up(d);
}

/* The number of the token in the reply that a loop computes: those before it are in their slots. */
static int32_t token_in_work(const CudaLoop *l) {
    uint32_t n = l->next;
    while (n - l->next < (uint32_t)l->in_launch && (uint32_t)(l->ring->slots[n % RP_LOOP_SLOTS] >> 32) == n) n++;
    return (int32_t)(n - l->first) + 1;
}

/* "node 'blk.3.attn' (attention, step 56 of 112)" */
static void step_text(const CudaExecutor *c, int i, char *out, size_t bytes) {
    const TensorNode *node = c->base.plan->steps[i].node;
    snprintf(out, bytes, "node '%.100s' (%s, step %d of %d)", rp_node_name(node), rp_node_op_name(node), i,
             c->base.plan->n_steps);
}

RpStatus rp_cuda_no_end(CudaExecutor *c) {
    CudaDevice *d = c->device;
    const int   n = c->base.plan->n_steps, n_done = latest(d);
    char        in[32] = "", what[192], last[192] = "no node did";
    if (c->loop.running) snprintf(in, sizeof in, " in token %d", token_in_work(&c->loop));
    if (n_done < 0)
        snprintf(what, sizeof what, "the copies of the inputs");
    else if (n_done < n)
        step_text(c, n_done, what, sizeof what);
    else
        snprintf(what, sizeof what, c->loop.running ? "the end of the token" : "the copies of the outputs");
    if (n_done > 0) step_text(c, n_done <= n ? n_done - 1 : n - 1, last, sizeof last);
    snprintf(d->failure, sizeof d->failure, "%s: no end after %g s%s: %s did not finish; %s%s", d->id,
             d->watchdog.limit_s, in, what, n_done > 0 ? "the last that did is " : "", last);
    return give_up(d);
}

RpStatus rp_cuda_wait_steps(CudaExecutor *c, const char *what) {
    bool           over;
    const RpStatus st = wait_for_end(c->device, what, &over);
    return over ? rp_cuda_no_end(c) : st;
}

RpStatus rp_cuda_wait_after(CudaExecutor *c, RpStatus st, const char *what) {
    char text[512];
    if (st != RP_OK) snprintf(text, sizeof text, "%s", rp_last_error());
    const RpStatus waited = rp_cuda_wait_steps(c, what);
    return st == RP_OK || c->device->hung ? waited : rp_fail(st, "%s", text);
}

/* ---- afterwards ---- */

bool rp_cuda_hangs(int index, char *why, size_t why_bytes) {
    bool hangs = false;
    pthread_mutex_lock(&lock);
    for (CudaDevice **at = &hung; *at != NULL;) {
        CudaDevice *d = *at;
        if (d->index == index && cudaStreamQuery(d->stream) != cudaErrorNotReady) {
            *at = d->next_hung;
            continue;
        }
        if (d->index == index && why != NULL) snprintf(why, why_bytes, "%s", d->failure);
        hangs |= d->index == index;
        at = &d->next_hung;
    }
    pthread_mutex_unlock(&lock);
    return hangs;
}

bool rp_cuda_executor_hangs(const RpExecutor *e) {
    const CudaDevice *d = ((const CudaExecutor *)e)->device;
    return d != NULL && rp_cuda_hangs(d->index, NULL, 0);
}
