/* The CPU executor and its thread pool: bits for any number of threads (I8), no allocation after open (I3),
 * errors, shared states, barriers. Expected results are written by hand or taken from one thread. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include <math.h>

#include "executor/device.h"
#include "executor/pool.h"
#include "reprise/device.h"
#include "tests/support/hang.h"

#include <stdatomic.h>
#include <sys/wait.h>

#define NE(...) ((int64_t[RP_MAX_DIMS]){__VA_ARGS__})

/* ---- I3: counts allocations, by replacing malloc with a counting one that calls glibc's ---- */

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_COUNT 1
static atomic_long n_allocations;
void              *__libc_malloc(size_t size);
void              *__libc_calloc(size_t n, size_t size);
void              *__libc_realloc(void *p, size_t size);
void              *malloc(size_t size) { return atomic_fetch_add(&n_allocations, 1), __libc_malloc(size); }
void              *calloc(size_t n, size_t size) { return atomic_fetch_add(&n_allocations, 1), __libc_calloc(n, size); }
void *realloc(void *p, size_t size) { return atomic_fetch_add(&n_allocations, 1), __libc_realloc(p, size); }
#endif

static float weights[64 * 64];

typedef struct Net {
    ComputeGraph *g;
    ExecPlan     *plan;
    TensorNode   *x, *y, *ids;
} Net;

/* y = silu(w x) with rows of x fetched by ids */
static Net new_net(void) {
    Net n = {.g = rp_graph_new()};
    for (int i = 0; i < 64 * 64; i++) weights[i] = (float)(i * 13 % 29) * 0.01f;
    const RpTensorView v = rp_view_contiguous(RP_F32, NE(64, 64, 1, 1), weights);
    TensorNode        *w = rp_graph_weight(n.g, "w", &v);
    n.ids                = rp_graph_input(n.g, "ids", RP_I32, NE(5, 1, 1, 1));
    n.x                  = rp_get_rows(n.g, w, n.ids);
    n.y                  = rp_silu(n.g, rp_mul_mat(n.g, w, n.x));
    OK(rp_graph_finish(n.g, &n.y, 1));
    OK(rp_plan_new(n.g, &n.plan));
    return n;
}

static void free_net(Net *n) {
    rp_plan_free(n->plan);
    rp_graph_free(n->g);
}

static void set_ids(RpExecutor *e, const Net *n, int32_t last) {
    memcpy(rp_executor_data(e, n->ids), (int32_t[]){1, 2, 3, 4, last}, 5 * sizeof(int32_t));
}

Test(executor, gives_the_same_bits_for_any_number_of_threads) {
    Net   n = new_net();
    float want[5 * 64];
    for (int threads = 1; threads <= 9; threads++) {
        RpExecutor *e;
        OK(rp_executor_open(n.plan, &(RpExecutorOptions){.n_threads = threads}, &e));
        cr_expect_eq(rp_executor_n_threads(e), threads, CASE(threads));
        for (int i = 0; i < 20; i++) {
            set_ids(e, &n, 5);
            OK(rp_executor_run(e));
        }
        if (threads == 1) memcpy(want, rp_executor_data(e, n.y), sizeof want);
        cr_expect_arr_eq(rp_executor_data(e, n.y), want, sizeof want, "%d threads", threads);
        rp_executor_free(e);
    }
    free_net(&n);
}

Test(executor, allocates_nothing_while_running) { /* I3 */
#ifdef CAN_COUNT
    Net         n = new_net();
    RpExecutor *e;
    OK(rp_executor_open(n.plan, &(RpExecutorOptions){.n_threads = 2}, &e));
    set_ids(e, &n, 5);
    OK(rp_executor_run(e));
    const long before = atomic_load(&n_allocations);
    for (int i = 0; i < 10; i++) OK(rp_executor_run(e));
    cr_expect_eq(atomic_load(&n_allocations), before);
    void *volatile one = malloc(1); /* the counter works */
    free(one);
    cr_expect_neq(atomic_load(&n_allocations), before);
    rp_executor_free(e);
    free_net(&n);
#else
    cr_skip_test("allocations cannot be counted under a sanitizer");
#endif
}

Test(executor, fails_cleanly_and_can_be_run_again) {
    Net n = new_net();
    for (int threads = 1; threads <= 4; threads++) {
        RpExecutor *e;
        OK(rp_executor_open(n.plan, &(RpExecutorOptions){.n_threads = threads}, &e));
        for (int i = 0; i < 50; i++) { /* only one worker meets the bad id */
            set_ids(e, &n, 64);
            REFUSED(rp_executor_run(e), RP_E_ARG, "get_rows: id 64 at 4, the table has 64 rows");
            set_ids(e, &n, 63);
            OK(rp_executor_run(e));
        }
        rp_executor_free(e);
    }
    free_net(&n);
}

Test(executor, keeps_inputs_and_exposes_only_inputs_and_outputs) {
    Net         n = new_net();
    RpExecutor *e;
    OK(rp_executor_open(n.plan, NULL, &e));
    set_ids(e, &n, 5);
    OK(rp_executor_run(e));
    cr_expect_arr_eq(rp_executor_data(e, n.ids), ((int32_t[]){1, 2, 3, 4, 5}), 5 * sizeof(int32_t));
    cr_expect_null(rp_executor_data(e, n.x));
    cr_expect_null(rp_executor_data(e, rp_graph_find(n.g, "w")));
    rp_executor_free(e);
    free_net(&n);
}

/* Removed nodes lose only their numbers in the graph: callers may still hold their addresses. */
Test(executor, removed_nodes_have_no_memory) {
    ComputeGraph *g = rp_graph_new(), *other = rp_graph_new();
    TensorNode   *x = rp_graph_input(g, "x", RP_F32, NE(8, 1, 1, 1)), *y = rp_silu(g, x);
    TensorNode   *state      = rp_graph_state(g, "unused state", RP_F32, NE(8, 1, 1, 1)),
               *input        = rp_graph_input(g, "unused input", RP_F32, NE(8, 1, 1, 1));
    TensorNode *const gone[] = {state, input, rp_add(g, input, state),
                                rp_graph_input(other, "x", RP_F32, NE(8, 1, 1, 1))};
    ExecPlan         *plan;
    RpExecutor       *e;
    float             value = 0.0f;
    OK(rp_graph_finish(g, &y, 1));
    OK(rp_plan_new(g, &plan));
    OK(rp_executor_open(plan, NULL, &e));
    for (int i = 0; i < 4; i++) {
        cr_expect_null(rp_executor_data(e, gone[i]), "%s", rp_node_name(gone[i]));
        REFUSED(rp_executor_get(e, gone[i], &value, sizeof value), RP_E_ARG, "must be an input, an output or a state");
        REFUSED(rp_executor_set(e, gone[i], &value, sizeof value), RP_E_ARG, "must be an input, an output or a state");
    }
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(g);
    rp_graph_free(other);
}

Test(executor, refuses_bad_options) {
    Net         n = new_net();
    RpExecutor *e;
    REFUSED(rp_executor_open(n.plan, &(RpExecutorOptions){.n_threads = -1}, &e), RP_E_ARG,
            "-1 threads: must be from 1 to 512");
    REFUSED(rp_executor_open(n.plan, &(RpExecutorOptions){.n_threads = 100000}, &e), RP_E_ARG, "100000 threads");
    setenv("REPRISE_THREADS", "two", 1);
    REFUSED(rp_executor_open(n.plan, NULL, &e), RP_E_ARG, "REPRISE_THREADS='two': must be a number from 0 to 512");
    setenv("REPRISE_THREADS", "1", 1);
    setenv("REPRISE_SPIN_US", "-1", 1);
    REFUSED(rp_executor_open(n.plan, NULL, &e), RP_E_ARG, "REPRISE_SPIN_US='-1'");
    unsetenv("REPRISE_SPIN_US");
    setenv("REPRISE_ISA", "mmx", 1);
    REFUSED(rp_executor_open(n.plan, NULL, &e), RP_E_ARG, "REPRISE_ISA=mmx: must be " RP_ISA_NAMES);
    for (int isa = 0; isa < RP_ISA_COUNT; isa++) { /* at least those of another architecture */
        char text[128];
        if (rp_cpu_isa_set((RpCpuIsa)isa) == RP_OK) continue;
        snprintf(text, sizeof text, "%s: this CPU or build does not have it", rp_cpu_isa_name((RpCpuIsa)isa));
        cr_expect_str_eq(rp_last_error(), text, CASE(isa));
        setenv("REPRISE_ISA", rp_cpu_isa_name((RpCpuIsa)isa), 1);
        snprintf(text, sizeof text, "REPRISE_ISA=%s: this CPU or build does not have it; the best here is ",
                 rp_cpu_isa_name((RpCpuIsa)isa));
        REFUSED(rp_executor_open(n.plan, NULL, &e), RP_E_NOT_AVAILABLE, text);
    }
    REFUSED(rp_cpu_isa_set((RpCpuIsa)RP_ISA_COUNT), RP_E_ARG, "instruction set 5: must be from 0 to 4");
    unsetenv("REPRISE_ISA");
    static const char *const prefetch[] = {"l3", "l2:100", "l1:-64", "l2:1048576", "none:64", "l1:", "l1:64x"};
    for (size_t i = 0; i < sizeof prefetch / sizeof prefetch[0]; i++) {
        char text[160];
        setenv("REPRISE_PREFETCH", prefetch[i], 1);
        snprintf(text, sizeof text,
                 "REPRISE_PREFETCH=%s: must be auto, none, l1, l2, l1:BYTES or l2:BYTES, BYTES a multiple of 64 below "
                 "1048576",
                 prefetch[i]);
        REFUSED(rp_executor_open(n.plan, NULL, &e), RP_E_ARG, text);
    }
    unsetenv("REPRISE_PREFETCH");
    REFUSED(rp_executor_open(n.plan, &(RpExecutorOptions){.mode = (RpExecMode)9}, &e), RP_E_ARG,
            "launch mode 9: must be from 0 to 3");
    REFUSED(rp_executor_open(n.plan, &(RpExecutorOptions){.columns = (RpColumns)3}, &e), RP_E_ARG,
            "columns 3: must be from 0 to 2");
    REFUSED(rp_executor_open(n.plan, &(RpExecutorOptions){.step = n.ids}, &e), RP_E_ARG,
            "'ids' as step state: must be a state of at least 14 i32");
    RpExecMode mode;
    REFUSED(rp_mode_from_name("graph", &mode), RP_E_ARG, "'graph': must be auto, eager, replay or loop");
    OK(rp_executor_open(n.plan, NULL, &e));
    cr_expect_eq(rp_executor_n_threads(e), 1);
    rp_executor_free(e);
    free_net(&n);
}

/* sum += x in a state of that name; y is the new sum. */
static ComputeGraph *counter(const char *name, TensorNode **x, TensorNode **y, int64_t n) {
    ComputeGraph *g     = rp_graph_new();
    TensorNode   *state = rp_graph_state(g, name, RP_F32, NE(n, 1, 1, 1));
    *x                  = rp_graph_input(g, "x", RP_F32, NE(n, 1, 1, 1));
    *y                  = rp_scale(g, rp_store(g, rp_add(g, *x, state), state, NULL), 1.0f, 0.0f);
    OK(rp_graph_finish(g, y, 1));
    return g;
}

Test(executor, states_persist_and_can_be_shared) {
    TensorNode   *x[2], *y[2], *bad[2];
    ComputeGraph *g[3] = {counter("sum", &x[0], &y[0], 4), counter("sum", &x[1], &y[1], 4),
                          counter("sum", &bad[0], &bad[1], 8)};
    ExecPlan     *plan[3];
    RpExecutor   *e[3];
    for (int i = 0; i < 3; i++) OK(rp_plan_new(g[i], &plan[i]));
    OK(rp_executor_open(plan[0], &(RpExecutorOptions){.n_threads = 2}, &e[0]));
    OK(rp_executor_open(plan[1], &(RpExecutorOptions){.share = e[0]}, &e[1]));
    REFUSED(rp_executor_open(plan[2], &(RpExecutorOptions){.share = e[0]}, &e[2]), RP_E_SHAPE,
            "state 'sum' has another shape in the executor to share with");
    for (int i = 0; i < 6; i++) {
        float *in = rp_executor_data(e[i % 2], x[i % 2]);
        for (int k = 0; k < 4; k++) in[k] = (float)k;
        OK(rp_executor_run(e[i % 2]));
        cr_expect_float_eq(((float *)rp_executor_data(e[i % 2], y[i % 2]))[3], 3.0f * (float)(i + 1), 0.0f, CASE(i));
    }
    rp_executor_free(e[1]);
    rp_executor_free(e[0]);
    for (int i = 0; i < 3; i++) rp_plan_free(plan[i]), rp_graph_free(g[i]);
}

/* An executor takes a state that the owner does not have from the executor that it shares with. If it shares with the
 * owner, it allocates the state. */
Test(executor, states_that_the_owner_lacks_can_be_shared) {
    enum { N = 4 };
    TensorNode   *x[N], *y[N];
    ComputeGraph *g[N];
    ExecPlan     *plan[N];
    RpExecutor   *e[N];
    const int     lender[N] = {-1, 0, 1, 0};
    const float   add[N] = {1.0f, 2.0f, 3.0f, 4.0f}, want[N] = {1.0f, 2.0f, 5.0f, 4.0f};
    for (int i = 0; i < N; i++) {
        g[i] = counter(i == 0 ? "sum" : "own", &x[i], &y[i], 4);
        OK(rp_plan_new(g[i], &plan[i]));
        OK(rp_executor_open(plan[i], &(RpExecutorOptions){.n_threads = 1, .share = i > 0 ? e[lender[i]] : NULL},
                            &e[i]));
    }
    for (int i = 0; i < N; i++) {
        float *in = rp_executor_data(e[i], x[i]);
        for (int k = 0; k < 4; k++) in[k] = add[i];
        OK(rp_executor_run(e[i]));
        cr_expect_float_eq(((float *)rp_executor_data(e[i], y[i]))[3], want[i], 0.0f, CASE(i));
    }
    for (int i = N - 1; i >= 0; i--) rp_executor_free(e[i]);
    for (int i = 0; i < N; i++) rp_plan_free(plan[i]), rp_graph_free(g[i]);
}

/* A build without the CUDA toolkit has every function of the device, and each says so. */
Test(executor, says_that_the_build_has_no_cuda) {
    static const char text[] = "this build was made without the CUDA toolkit";
    Net               n      = new_net();
    int               n_devices;
    RpExecutor       *e;
    RpStepLaunch      l;
    RpCudaDeviceInfo  info;
    RpCudaTuningInfo  tuning;
    RpCudaMemory     *memory;
    double            bytes_per_s;
    if (rp_cuda_built) {
        free_net(&n);
        cr_skip_test("this build has CUDA");
    }
    REFUSED(rp_cuda_probe(&n_devices), RP_E_NOT_AVAILABLE, text);
    cr_expect_eq(n_devices, 0);
    REFUSED(rp_cuda_device_info(0, &info), RP_E_NOT_AVAILABLE, text);
    REFUSED(rp_cuda_tuning_info(0, &tuning), RP_E_NOT_AVAILABLE, text);
    REFUSED(rp_cuda_copy_bandwidth(0, 1024, &bytes_per_s), RP_E_NOT_AVAILABLE, text);
    REFUSED(rp_cuda_memory_new(0, 16, &memory), RP_E_NOT_AVAILABLE, text);
    REFUSED(rp_cuda_plan_launch(n.plan, 0, &l), RP_E_NOT_AVAILABLE, text);
    REFUSED(rp_executor_open(n.plan, &(RpExecutorOptions){.device = "cuda"}, &e), RP_E_NOT_AVAILABLE, text);
    free_net(&n);
}

/* ---- the thread pool ---- */

typedef struct Race {
    ThreadPool *pool;
    atomic_int  done[200];
    int         fail_worker, fail_step;
    atomic_int  last_step[8];
} Race;

/* 200 steps with a barrier after each. All workers must have counted a step before any passes its barrier. */
static RpStatus race(void *arg, int ith, int nth) {
    Race *r = arg;
    for (int step = 0; step < 200; step++) {
        atomic_store(&r->last_step[ith], step);
        atomic_fetch_add(&r->done[step], 1);
        const bool     fails = ith == r->fail_worker && step == r->fail_step;
        const RpStatus st    = rp_pool_barrier(r->pool, fails ? rp_fail(RP_E_ARG, "worker %d failed", ith) : RP_OK);
        if (st != RP_OK) return st;
        if (atomic_load(&r->done[step]) != nth) return rp_fail(RP_E_STATE, "the barrier let worker %d through", ith);
    }
    return RP_OK;
}

Test(pool, no_worker_passes_a_barrier_before_all_have_arrived) {
    static Race r;
    for (long spin = 0; spin <= 50; spin += 50)
        for (int n = 1; n <= 5; n += 2) {
            OK(rp_pool_new(n, spin, &r.pool));
            for (int run = 0; run < 10; run++) {
                for (int i = 0; i < 200; i++) atomic_store(&r.done[i], 0);
                r.fail_worker = -1;
                OK(rp_pool_run(r.pool, race, &r));
            }
            rp_pool_free(r.pool);
        }
}

Test(pool, a_failure_stops_every_worker_at_the_same_step) {
    static Race r;
    OK(rp_pool_new(4, 20, &r.pool));
    for (int run = 0; run < 100; run++) {
        for (int i = 0; i < 200; i++) atomic_store(&r.done[i], 0);
        r.fail_worker = run % 4;
        r.fail_step   = run;
        char text[32];
        snprintf(text, sizeof text, "worker %d failed", run % 4);
        REFUSED(rp_pool_run(r.pool, race, &r), RP_E_ARG, text);
        for (int i = 0; i < 4; i++) cr_expect_eq(atomic_load(&r.last_step[i]), run, CASE(run, i));
    }
    rp_pool_free(r.pool);
}

static RpStatus forked_task(void *arg, int ith, int nth) {
    (void)arg, (void)ith, (void)nth;
    return RP_OK;
}

/* A fork copies no threads: a run in the child would wait for ever. */
Test(pool, says_that_the_process_was_forked) {
    ThreadPool *pool;
    int         status = -1;
    OK(rp_pool_new(3, 20, &pool));
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        end_if_it_hangs();
        const RpStatus st   = rp_pool_run(pool, forked_task, NULL);
        const bool     said = strcmp(rp_last_error(), "this process was forked after the executor was opened, and has "
                                                          "none of its 3 threads: open an executor here") == 0;
        rp_pool_free(pool);
        _exit(st == RP_E_STATE && said ? 0 : 1);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
    OK(rp_pool_run(pool, forked_task, NULL));
    rp_pool_free(pool);
}

/* A row of q8_act: quants[32], scale, sum[2]. The sums are part of the result. */
Test(executor, a_difference_finds_a_wrong_sum_of_q8_act) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = rp_silu(g, rp_graph_input(g, "x", RP_F32, (int64_t[]){32, 1, 1, 1}));
    int8_t        want[44], got[44];
    size_t        at;
    float         numbers[3] = {0.5f, 0.0f, 0.0f};
    for (int i = 0; i < 32; i++) want[i] = (int8_t)(3 * i - 40);
    for (int i = 0; i < 32; i++) numbers[1 + i / 16] += 0.5f * (float)want[i];
    memcpy(want + 32, numbers, sizeof numbers);
    const RpTensorView v = rp_view_contiguous(RP_Q8_ACT, (int64_t[]){32, 1, 1, 1}, NULL);
    memcpy(got, want, sizeof got);
    cr_expect_eq(rp_verify_difference(x, &v, got, want, &at), 0.0);
    /* another quant of one step, and its sum */
    got[20]++;
    numbers[2] += 0.5f;
    memcpy(got + 32, numbers, sizeof numbers);
    cr_expect_eq(rp_verify_difference(x, &v, got, want, &at), 0.0);
    numbers[2] += 1.0f;
    memcpy(got + 32, numbers, sizeof numbers);
    cr_expect_gt(rp_verify_difference(x, &v, got, want, &at), 0.01);
    cr_expect_eq(at, 16u);
    numbers[2] = NAN;
    memcpy(got + 32, numbers, sizeof numbers);
    cr_expect(isinf(rp_verify_difference(x, &v, got, want, &at)) != 0);
    rp_graph_free(g);
}
