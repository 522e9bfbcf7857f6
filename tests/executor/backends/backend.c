/* The backend of test_backend.c. It hands every step back, counts its calls, and fails where it is told to. Compiled
 * several times: VARIANT_ABI, VARIANT_BYTES and VARIANT_NAME change its table, VARIANT_TABLE is what its function
 * returns, VARIANT_SYMBOL the name of that. */
#include "tests/executor/backends/backend.h"

#ifndef VARIANT_ABI
#define VARIANT_ABI RP_BACKEND_ABI
#endif
#ifndef VARIANT_BYTES
#define VARIANT_BYTES sizeof(RpBackend)
#endif
#ifndef VARIANT_NAME
#define VARIANT_NAME "handing"
#endif
#ifndef VARIANT_TABLE
#define VARIANT_TABLE &backend
#endif
#ifndef VARIANT_SYMBOL
#define VARIANT_SYMBOL rp_backend
#endif

__attribute__((visibility("default"))) BackendCalls backend_calls;

static const RpBackendHost *host;

static RpStatus call(int *counter, const char *name) {
    ++*counter;
    if (backend_calls.fail_at == NULL || backend_calls.fail_at[0] != name[0]) return RP_OK;
    return host->fail(RP_E_STATE, "the test asked for it");
}

static RpStatus open_it(const RpBackendHost *given, RpBackendPlan *plan, void **self) {
    host                   = given;
    *self                  = &backend_calls;
    backend_calls.steps    = host->n_steps(plan);
    backend_calls.outside  = host->run_steps(plan, 0, 1);
    backend_calls.too_many = -1;
    return call(&backend_calls.opened, "open");
}

static RpStatus run(void *self, RpBackendPlan *plan) {
    BackendCalls *c = self;
    if (c->too_many >= 0) return host->run_steps(plan, 0, c->too_many);
    const int n = host->n_steps(plan), half = n / 2;
    RpStatus  st = host->run_steps(plan, 0, half);
    for (int i = half; i < n && st == RP_OK; i++) st = host->run_steps(plan, i, i + 1);
    return st == RP_OK ? call(&c->runs, "run") : st;
}

static RpStatus bind(void *self, RpBackendPlan *plan) {
    (void)self;
    backend_calls.first = host->step_args(plan, 0)->src[0].data; /* any source: the test looks whether it changes */
    return call(&backend_calls.binds, "bind");
}

static RpStatus read_it(void *self, RpBackendPlan *plan, const void *memory, size_t bytes) {
    (void)self, (void)plan;
    backend_calls.read_at    = memory;
    backend_calls.read_bytes = bytes;
    return call(&backend_calls.reads, "eread");
}

static void free_it(void *self) { ((BackendCalls *)self)->freed++; }

static const char *describe(void *self) {
    (void)self;
    return "every step is handed back";
}

__attribute__((visibility("default"))) RpBackendEntry VARIANT_SYMBOL;

const RpBackend *VARIANT_SYMBOL(void) {
    __attribute__((unused)) static const RpBackend backend = {.bytes    = VARIANT_BYTES,
                                                              .abi      = VARIANT_ABI,
                                                              .name     = VARIANT_NAME,
                                                              .open     = open_it,
                                                              .run      = run,
                                                              .bind     = bind,
                                                              .read     = read_it,
                                                              .free     = free_it,
                                                              .describe = describe};
    return VARIANT_TABLE;
}
