/* Compiles programs on several threads (compile.h). Each job, on one thread:
 *
 *     key -> entry of the cache?  yes: done
 *                                 no:  compile -> write the entry
 *
 * A cache that fails is noted in the job and costs time only (I10). */
#include "executor/cuda/compile.h"

#include "base/clock.h"
#include "executor/cuda/code_cache.h"
#include "executor/cuda/cuda.h"
#include "reprise/options.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 16 };

RpStatus rp_compiler_open(RpNvrtc **out) {
    const char *path;
    *out = NULL;
    RP_TRY(rp_cuda_wanted_library(RP_OPT_NVRTC, &path));
    if (path == NULL) return rp_fail(RP_E_NOT_AVAILABLE, "NVRTC: %s=off", rp_option_name(RP_OPT_NVRTC));
    return rp_nvrtc_open(path, out);
}

typedef struct Batch {
    const RpNvrtc   *nvrtc;
    CudaTarget       target;
    CompileJob      *jobs;
    int              n;
    atomic_int       next, done;
    atomic_bool      cancelled;
    CompileWatch     watch;
    double           end;   /* of the time limit */
    const CodeCache *cache; /* NULL: not used */
} Batch;

static void note_cache(CompileJob *j) { snprintf(j->cache, sizeof j->cache, "%.511s", rp_last_error()); }

static RpStatus compile_or_read(const Batch *b, CompileJob *j) {
    size_t bytes = 0;
    char  *key   = NULL;
    if (b->cache != NULL && !rp_cuda_code_includes_files(&j->code)) {
        key = rp_nvrtc_key(b->nvrtc, &j->code, b->target, &bytes);
        if (key == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for its source", j->code.owner);
        if (rp_code_cache_read(b->cache, key, bytes, &j->binary, &j->cached) != RP_OK) note_cache(j);
    }
    RpStatus st = RP_OK;
    if (!j->cached) {
        st = rp_nvrtc_compile(b->nvrtc, &j->code, b->target, &j->binary, NULL);
        if (st == RP_OK && key != NULL && rp_code_cache_write(b->cache, key, bytes, &j->binary) != RP_OK) note_cache(j);
    }
    free(key);
    return st;
}

static RpStatus run(Batch *b, CompileJob *j) {
    if (atomic_load(&b->cancelled))
        return rp_fail(RP_E_CANCELLED, "%s: cancelled before it was compiled", j->code.owner);
    if (b->watch.limit_s > 0.0 && rp_seconds() > b->end)
        return rp_fail(RP_E_NOT_AVAILABLE, "%s: not compiled within %.0f s", j->code.owner, b->watch.limit_s);
    return compile_or_read(b, j);
}

/* Does the next job. False if there is none. */
static bool work(Batch *b) {
    const int i = atomic_fetch_add(&b->next, 1);
    if (i >= b->n) return false;
    CompileJob *j = &b->jobs[i];
    j->status     = run(b, j);
    if (j->status != RP_OK) snprintf(j->error, sizeof j->error, "%s", rp_last_error());
    atomic_fetch_add(&b->done, 1);
    return true;
}

static void *work_all(void *batch) {
    while (work(batch)) {
    }
    return NULL;
}

static void report(Batch *b) {
    if (b->watch.progress == NULL || atomic_load(&b->cancelled)) return;
    if (!b->watch.progress((size_t)atomic_load(&b->done), (size_t)b->n, b->watch.user))
        atomic_store(&b->cancelled, true);
}

bool rp_compile_all(const RpNvrtc *n, CudaTarget target, CompileJob *jobs, int n_jobs, const CompileWatch *watch) {
    CodeCache  cache;
    pthread_t  threads[MAX_THREADS];
    Batch      b       = {.nvrtc = n, .target = target, .jobs = jobs, .n = n_jobs};
    const long cores   = sysconf(_SC_NPROCESSORS_ONLN);
    int        started = 0;
    if (watch != NULL) b.watch = *watch;
    b.end = rp_seconds() + b.watch.limit_s;
    if (rp_code_cache_open(&cache) == RP_OK)
        b.cache = &cache;
    else
        for (int i = 0; i < n_jobs; i++) note_cache(&jobs[i]);
    report(&b);
    /* This thread works too: without further threads it compiles everything. */
    while (started < MAX_THREADS && started < n_jobs - 1 && started < cores - 1 &&
           pthread_create(&threads[started], NULL, work_all, &b) == 0)
        started++;
    while (work(&b)) report(&b);
    for (int i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
        report(&b);
    }
    if (b.cache != NULL) rp_code_cache_close(&cache);
    return !atomic_load(&b.cancelled);
}
