/* Passes must not change what a graph computes: random graphs (random_graph.h) with random sets of passes.
 *
 * Two passes change the arithmetic: `attention` the order of additions, `quantize` the precision of
 * activations. The others must keep every bit. The reference of a set of passes is therefore the same graph
 * with only those two of the set:
 *
 *     {attention, qkv, linear}  ->  reference {attention}        equal bits
 *     {quantize, gate_up}       ->  reference {quantize}         equal bits
 *     {attention}, {quantize}   ->  reference {}                 within a tolerance
 *
 * REPRISE_TEST_SEED=N repeats one graph and prints it. */
#include "tests/support/random_graph_run.h"

#include "reprise/extend.h"

enum { MAX_PASSES = 64 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(RP_TEST_SLOW)
enum { N_GRAPHS = 100 };
#else
enum { N_GRAPHS = 2000 };
#endif

typedef struct PassSet {
    bool on[MAX_PASSES];
} PassSet;

typedef struct Results {
    Items items;
    bool  done;
} Results;

/* Results of one graph: for the four sets of the two passes, and for the set under test. */
typedef struct Trial {
    uint64_t seed;
    Results  reference[2][2], got; /* [attention][quantize] */
    bool     routes;
    double   worst[2]; /* largest errors of attention and of quantize */
} Trial;

static int find_pass(const char *name) {
    for (int i = 0; i < rp_pass_count(); i++)
        if (strcmp(rp_pass_name(i), name) == 0) return i;
    cr_assert(false, "there is no pass %s", name);
    return -1;
}

static const char *switched_off(const PassSet *s, char *buf, size_t size) {
    size_t n = 0;
    buf[0]   = '\0';
    for (int i = 0; i < rp_pass_count() && n < size; i++)
        if (!s->on[i]) n += (size_t)snprintf(buf + n, size - n, "%s-%s", n > 0 ? "," : "", rp_pass_name(i));
    return buf;
}

static int count_ops(const ComputeGraph *g, const char *op) {
    int n = 0;
    for (int i = 0; i < rp_graph_n_nodes(g); i++) n += strcmp(rp_node_op_name(rp_graph_node(g, i)), op) == 0;
    return n;
}

static void show(const Trial *t, const ComputeGraph *g, const char *passes) {
    char title[1100];
    if (getenv("REPRISE_TEST_SEED") == NULL) return;
    snprintf(title, sizeof title, "seed %llu, passes \"%s\"", (unsigned long long)t->seed, passes);
    OK(rp_graph_dump(g, &(RpDumpOptions){.title = title}, stderr));
}

static void run_steps(const RandomGraph *r, const Trial *t, int n_threads, Results *out) {
    ExecPlan   *plan;
    RpExecutor *e;
    OK(rp_plan_new(r->g, &plan));
    OK(rp_executor_open(plan, &(RpExecutorOptions){.n_threads = n_threads}, &e));
    out->items.n = 0, out->items.n_bytes = 0;
    for (int step = 0; step < RANDOM_STEPS; step++) {
        set_random_inputs(r, e, t->seed, step);
        OK(rp_executor_poison(e));
        OK(rp_executor_run(e));
        read_items(r, e, step, &out->items);
    }
    rp_executor_free(e);
    rp_plan_free(plan);
}

static void run_set(Trial *t, const PassSet *set, int n_threads, Results *out) {
    RandomGraph r;
    char        off[1024];
    switched_off(set, off, sizeof off);
    random_graph(t->seed, &r);
    t->routes       = r.routes;
    const int n_raw = rp_graph_n_steps(r.g);
    RpStatus  st    = rp_graph_optimize(r.g, off);
    if (st == RP_OK) st = rp_graph_verify(r.g);
    cr_assert_eq(st, RP_OK, "seed %llu, passes %s: %s", (unsigned long long)t->seed, off, rp_last_error());
    show(t, r.g, off);
    cr_assert_leq(rp_graph_n_steps(r.g), n_raw + count_ops(r.g, "quantize"),
                  "seed %llu, passes %s: more kernels than without", (unsigned long long)t->seed, off);
    run_steps(&r, t, n_threads, out);
    out->done = true;
    rp_graph_free(r.g);
}

/* The results with only those of attention and quantize that the set has. */
static const Results *reference(Trial *t, const PassSet *of) {
    const int a = find_pass("attention"), q = find_pass("quantize");
    Results  *out = &t->reference[of->on[a]][of->on[q]];
    PassSet   set = {0};
    set.on[a] = of->on[a], set.on[q] = of->on[q];
    if (!out->done) run_set(t, &set, 1, out);
    return out;
}

static bool is_reference(const PassSet *set) {
    const int a = find_pass("attention"), q = find_pass("quantize");
    for (int i = 0; i < rp_pass_count(); i++)
        if (set->on[i] && i != a && i != q) return false;
    return true;
}

/* Runs the set and compares with its reference bit for bit. */
static void check(Trial *t, const PassSet *set, int n_threads) {
    const Items *want = &reference(t, set)->items, *got = &t->got.items;
    char         off[1024];
    if (n_threads == 1 && is_reference(set)) return;
    run_set(t, set, n_threads, &t->got);
    switched_off(set, off, sizeof off);
    for (int i = 0; i < want->n && i < got->n; i++) {
        const Item *it = &want->items[i];
        cr_assert_str_eq(got->items[i].name, it->name, "seed %llu, passes %s: an output or state is missing",
                         (unsigned long long)t->seed, off);
        cr_assert_arr_eq(got->bytes + it->at, want->bytes + it->at, it->n_bytes,
                         "seed %llu, passes %s, %d threads: %s of step %d has other bits, off by %g",
                         (unsigned long long)t->seed, off, n_threads, it->name, it->step, item_off(got, want, i));
    }
    cr_assert_eq(got->n, want->n, "seed %llu, passes %s: an output or state is missing", (unsigned long long)t->seed,
                 off);
}

/* Compares one of the two passes with no pass, within a tolerance. */
static void check_near(Trial *t, bool attention, bool quantize, double tolerance) {
    PassSet set                    = {0};
    set.on[find_pass("attention")] = attention, set.on[find_pass("quantize")] = quantize;
    const Items *want = &reference(t, &(PassSet){0})->items, *got = &reference(t, &set)->items;
    for (int i = 0; i < want->n; i++) {
        const double off   = item_off(got, want, i);
        t->worst[quantize] = fmax(t->worst[quantize], off);
        cr_assert(off <= tolerance, "seed %llu, %s: %s of step %d is off by %g", (unsigned long long)t->seed,
                  quantize ? "quantize" : "attention", want->items[i].name, want->items[i].step, off);
    }
}

static void begin_trial(uint64_t seed, Trial *t) {
    t->seed = seed;
    for (int i = 0; i < 4; i++) t->reference[i / 2][i % 2].done = false;
}

static void check_bits(Trial *t) {
    PassSet     all = {0}, some = {0};
    RandomGraph r = {.rng = ~t->seed};
    for (int i = 0; i < rp_pass_count(); i++) all.on[i] = true, some.on[i] = chance(&r, 60);
    check(t, &(PassSet){0}, 2);
    check(t, &all, 1);
    check(t, &all, 2);
    check(t, &some, 1);
    for (int i = 0; i < 3; i++) { /* three passes alone, others for each seed */
        PassSet one                                                     = {0};
        one.on[(t->seed * 3 + (uint64_t)i) % (uint64_t)rp_pass_count()] = true;
        check(t, &one, 1);
    }
}

/* Graphs with experts are left out: a small difference can select other experts. */
static void check_tolerance(Trial *t) {
    (void)reference(t, &(PassSet){0});
    if (!t->routes) check_near(t, true, false, 1e-3);
    if (!t->routes) check_near(t, false, true, 1.0);
}

/* Runs the trial for n graphs from seed `first` on, or for REPRISE_TEST_SEED only. */
static void all_trials(void (*trial)(Trial *), uint64_t first, int n) {
    Trial      *t    = calloc(1, sizeof *t);
    const char *only = getenv("REPRISE_TEST_SEED");
    Results    *all[5];
    for (int i = 0; i < 5; i++) {
        all[i]              = i < 4 ? &t->reference[i / 2][i % 2] : &t->got;
        all[i]->items.bytes = malloc(RANDOM_ROOM);
    }
    if (only != NULL) first = strtoull(only, NULL, 10), n = 1;
    for (int i = 0; i < n; i++) {
        begin_trial(first + (uint64_t)i, t);
        trial(t);
    }
    cr_log_info("%d graphs; off by %g with attention, %g with quantize", n, t->worst[0], t->worst[1]);
    for (int i = 0; i < 5; i++) free(all[i]->items.bytes);
    free(t);
}

Test(random_graphs, passes_keep_every_bit) { all_trials(check_bits, 1, N_GRAPHS); }

Test(random_graphs, attention_and_quantize_change_results_little) { all_trials(check_tolerance, 1, N_GRAPHS); }

/* ---- the random graphs exercise every fusion ---- */

static bool is(const TensorNode *n, const char *op) { return strcmp(rp_node_op_name(n), op) == 0; }

enum { N_FEATURES = 35 };

static void features(const TensorNode *n, bool has[N_FEATURES]) {
    const RpOpParams  *p              = rp_node_params(n);
    const RpTensorView v              = rp_node_view(n);
    const bool         of[N_FEATURES] = {
                is(n, "qkv") && p->qkv.norm == RP_HEAD_NORM_NONE,
                is(n, "qkv") && p->qkv.norm == RP_HEAD_NORM_EACH,
                is(n, "qkv") && p->qkv.norm == RP_HEAD_NORM_WHOLE,
                is(n, "qkv") && p->qkv.column.norm != 0,
                is(n, "qkv") && rp_node_source(n, 8) != NULL && rp_node_source(n, 10) != NULL,
                is(n, "qkv") && rp_node_source(n, RP_SOURCE(qkv, wk)) == NULL,
                is(n, "gate_up") && p->gate_up.kind == RP_GATE_SILU,
                is(n, "gate_up") && p->gate_up.kind == RP_GATE_GELU_TANH,
                is(n, "gate_up") && p->gate_up.kind == RP_GATE_GELU_ERF,
                is(n, "gate_up") && p->gate_up.kind == RP_GATE_OAI,
                is(n, "gate_up") && rp_node_source(n, 4) != NULL,
                is(n, "gate_up") && v.dtype == RP_Q8_ACT,
                is(n, "router") && p->router.kind == RP_ROUTER_LOGITS,
                is(n, "router") && p->router.kind == RP_ROUTER_SOFT_MAX,
                is(n, "router") && p->router.kind == RP_ROUTER_SIGMOID,
                is(n, "router") && p->router.quantize != 0,
                is(n, "experts_down") && rp_node_source(n, 4) != NULL,
                is(n, "experts_down") && rp_node_source(n, 5) != NULL,
                is(n, "router") && rp_node_source(n, 5) != NULL,
                is(n, "gate_up") && rp_node_source(n, 7) != NULL,
                is(n, "experts_down") && rp_node_source(n, 6) != NULL && rp_node_source(n, 7) == NULL,
                is(n, "experts_down") && rp_node_source(n, 7) != NULL,
                is(n, "experts_down") && rp_node_source(n, RP_SOURCE(experts_down, scales)) != NULL,
                is(n, "experts_down") && p->experts_down.post_norm != 0,
                is(n, "linear") && p->linear.post_norm != 0,
                is(n, "linear") && p->linear.sum_norm != 0,
                is(n, "linear") && p->linear.sum_norm == 0 && rp_node_source(n, 8) != NULL,
                is(n, "linear") && p->linear.act != RP_LINEAR_ACT_NONE,
                is(n, "linear") && p->linear.act != RP_LINEAR_ACT_NONE && rp_node_source(n, 6) != NULL,
                is(n, "linear") && rp_node_source(n, 4) != NULL && rp_node_source(n, 6) != NULL,
                is(n, "linear") && p->linear.column.norm != 0 && p->linear.column.round != 0,
                is(n, "linear") && p->linear.scale != 1.0f,
                is(n, "linear") && rp_node_source(n, 3) != NULL && rp_node_source(n, 4) != NULL,
                is(n, "attention") && v.dtype == RP_Q8_ACT,
                is(n, "get_rows") && p->get_rows.scale != 0.0f,
    };
    for (int i = 0; i < N_FEATURES; i++) has[i] = has[i] || of[i];
}

Test(random_graphs, every_fusion_occurs) {
    static const char *const what[N_FEATURES]   = {"qkv",
                                                   "qkv with a norm of each head",
                                                   "qkv with a norm of all heads",
                                                   "qkv with the norm before it",
                                                   "qkv with biases",
                                                   "qkv of queries alone",
                                                   "silu",
                                                   "gelu by tanh",
                                                   "gelu by erf",
                                                   "swiglu_oai",
                                                   "gate_up of experts",
                                                   "gate_up with a quantised result",
                                                   "router of logits",
                                                   "router by softmax",
                                                   "router by sigmoid",
                                                   "router with the quantised column",
                                                   "experts_down with bias",
                                                   "experts_down with residual",
                                                   "router with the gate of a shared expert",
                                                   "gate_up with a shared expert",
                                                   "experts_down with a shared expert",
                                                   "experts_down with a shared expert and its gate",
                                                   "experts_down with scales of experts",
                                                   "experts_down with a norm",
                                                   "linear with post-norm",
                                                   "linear with the norm of a sum",
                                                   "linear with two residuals",
                                                   "linear with an activation",
                                                   "linear with an activation and a factor",
                                                   "linear with a residual and a factor",
                                                   "linear with norm and quantised column",
                                                   "linear with scale",
                                                   "linear with bias and residual",
                                                   "attention with a quantised result",
                                                   "get_rows with scale"};
    int                      graphs[N_FEATURES] = {0};
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        RandomGraph r;
        bool        has[N_FEATURES] = {false};
        random_graph(seed, &r);
        OK(rp_graph_optimize(r.g, ""));
        for (int i = 0; i < rp_graph_n_nodes(r.g); i++) features(rp_graph_node(r.g, i), has);
        for (int i = 0; i < N_FEATURES; i++) graphs[i] += has[i];
        rp_graph_free(r.g);
    }
    for (int i = 0; i < N_FEATURES; i++) {
        cr_log_info("%-30s in %d graphs", what[i], graphs[i]);
        cr_expect_geq(graphs[i], 5, "%s is in %d of 2000 graphs", what[i], graphs[i]);
    }
}
