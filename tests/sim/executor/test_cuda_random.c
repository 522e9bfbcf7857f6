/* Random graphs (random_graph.h) on the simulated device: every step against the CPU's kernel from the same
 * sources, results against the CPU's run, and replays against eager runs, bit for bit. */
#include "tests/support/random_graph_run.h"

#include "base/tuning.h"
#include "graph/graph.h"
#include "sim/device/sim.h"

#if defined(SIM_RACE) || defined(__SANITIZE_ADDRESS__)
enum { N_GRAPHS = 12 };
#else
enum { N_GRAPHS = 60 };
#endif

typedef struct Seeds {
    unsigned long long seed;
    RpPrefillTile      tile;
    double             worst; /* difference of a step, relative to its largest result */
} Seeds;

/* Five and more columns of q8_act in f16 tiles: both factors are rounded, an element by at most 2^-11 of itself. A
 * result of one element can be small beside its terms. */
static double tolerance_of(const TensorNode *node, RpPrefillTile tile) {
    const bool    product = node->op == RP_OP_MUL_MAT || node->op == RP_OP_MUL_MAT_ID;
    const int64_t columns = node->view.ne[1] * node->view.ne[2];
    if (tile == RP_PREFILL_F16 && product && node->src[1]->view.dtype == RP_Q8_ACT && columns >= 5) return 0x1p-10;
    return rp_view_elems(&node->view) == 1 ? 1e-4 : 1e-5;
}

static bool compare_step(const TensorNode *node, const RpTensorView *view, const void *cuda, const void *cpu,
                         void *user) {
    Seeds       *s   = user;
    size_t       at  = 0;
    const double off = rp_verify_difference(node, view, cuda, cpu, &at);
    cr_expect(off <= tolerance_of(node, s->tile), "seed %llu: %s '%s': element %zu of %s is off by %g of the largest",
              s->seed, rp_node_op_name(node), rp_node_name(node), at, rp_dtype_name(view->dtype), off);
    s->worst = fmax(s->worst, off);
    return true;
}

static void run_steps(const RandomGraph *r, RpExecutor *e, uint64_t seed, Items *out) {
    out->n = 0, out->n_bytes = 0;
    for (int step = 0; step < RANDOM_STEPS; step++) {
        set_random_inputs(r, e, seed, step);
        OK(rp_executor_poison(e));
        OK(rp_executor_run(e));
        read_items(r, e, step, out);
    }
}

/* Results of RANDOM_STEPS runs on a device; s not NULL: also verifies every step. */
static void run_on(const RandomGraph *r, const char *device, RpExecMode mode, uint64_t seed, Items *out, Seeds *s) {
    ExecPlan   *plan;
    RpExecutor *e;
    OK(rp_plan_new(r->g, &plan));
    OK(rp_executor_open(plan, &(RpExecutorOptions){.n_threads = 1, .device = device, .mode = mode}, &e));
    run_steps(r, e, seed, out);
    if (s != NULL) {
        set_random_inputs(r, e, seed, 0);
        OK(rp_executor_verify(e, compare_step, s));
    }
    rp_executor_free(e);
    rp_plan_free(plan);
}

Test(cuda_random, every_step_and_result_matches_the_cpu) {
    Items      *cpu = calloc(3, sizeof *cpu), *eager = cpu + 1, *replay = cpu + 2;
    Seeds       s     = {0};
    const char *only  = getenv("REPRISE_TEST_SEED");
    double      worst = 0.0;
    for (int i = 0; i < 3; i++) cpu[i].bytes = malloc(RANDOM_ROOM);
    for (uint64_t i = 1; i <= N_GRAPHS; i++) {
        RandomGraph    r;
        const uint64_t seed = only != NULL ? strtoull(only, NULL, 10) : 7000 + i;
        s.seed              = seed;
        random_graph(seed, &r);
        OK(rp_graph_optimize(r.g, ""));
        sim_sched((int)(i % 3), (unsigned)i);
        s.tile = i % 2 == 0 ? RP_PREFILL_INT8 : RP_PREFILL_F16;
        sim_capability(i % 2 == 0 ? 8 : 9, i % 2 == 0 ? 9 : 0);
        run_on(&r, "cpu", RP_MODE_AUTO, seed, cpu, NULL);
        run_on(&r, "cuda", RP_MODE_EAGER, seed, eager, NULL);
        run_on(&r, "cuda", RP_MODE_REPLAY, seed, replay, &s);
        cr_assert(eager->n == cpu->n && eager->n == replay->n, "seed %llu", s.seed);
        /* NaN are equal in both (read_items), so bytes can be compared. */
        cr_assert_arr_eq(replay->bytes, eager->bytes, eager->n_bytes, "seed %llu: a replay gives other bits", s.seed);
        for (int k = 0; k < cpu->n && !r.routes; k++) worst = fmax(worst, item_off(replay, cpu, k));
        rp_graph_free(r.g);
        if (only != NULL) break;
    }
    sim_capability(9, 0);
    cr_log_info("a step is off by %g, a result by %g", s.worst, worst);
    cr_expect_leq(worst, 0.05, "off by %g", worst);
    for (int i = 0; i < 3; i++) free(cpu[i].bytes);
    free(cpu);
}
