/* The memory plan: buffers, reuse, in-place steps. References: lifetimes computed from the graph alone, and
 * results of a run in which every tensor has separate memory. Graphs are random. */
#include "tests/support/case.h"
#include "tests/support/golden.h"
#include "tests/trainer/checksums.h"

#include "base/kernels.h"
#include "graph/graph.h"
#include "graph/plan.h"

#define NE(...) ((int64_t[RP_MAX_DIMS]){__VA_ARGS__})

static float weight_data[64 * 64];

/* splitmix64 */
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z          = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z          = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* A random valid graph of [n, 4] tensors: unary ops, sums, products, views and stores into a state. */
static ComputeGraph *random_graph(uint64_t seed) {
    enum { N = 40, MAX = 64 };
    ComputeGraph *g = rp_graph_new();
    TensorNode   *nodes[MAX];
    int           n        = 0;
    const int64_t sizes[3] = {16, 32, 64};
    TensorNode   *state    = rp_graph_state(g, "state", RP_F16, NE(64, 8, 1, 1));
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        nodes[n++] = rp_graph_input(g, name, RP_F32, NE(sizes[i], 4, 1, 1));
    }
    for (int i = 0; i < N; i++) {
        TensorNode   *a = nodes[next(&seed) % (uint64_t)n], *b = nodes[next(&seed) % (uint64_t)n], *y = NULL;
        const int64_t width = rp_node_view(a).ne[0];
        switch (next(&seed) % 8) {
        case 0:
            y = rp_silu(g, a);
            break;
        case 1:
            y = rp_scale(g, a, 0.5f, 0.1f);
            break;
        case 2:
            y = rp_rms_norm(g, a, NULL, 1e-5f);
            break;
        case 3:
            y = rp_node_view(b).ne[0] <= width ? rp_add(g, a, b) : rp_add(g, b, a);
            break;
        case 4:
            y = rp_mul(g, a, a);
            break;
        case 5:
            y = rp_cast(g, rp_permute(g, a, 1, 0, 2, 3), RP_F32), y = rp_reshape(g, y, width, 4, 1, 1);
            break;
        case 6:
            y = rp_reshape(g, rp_reshape(g, a, 4 * width, 1, 1, 1), width, 4, 1, 1);
            break;
        default:
            if (width == 64) y = rp_cast(g, state = rp_store(g, a, state, NULL), RP_F32);
            if (width == 64)
                y = rp_view(g, y,
                            &(RpViewParams){
                                .ne = {64, 4,   1,    1   },
                                .nb = {0,  256, 1024, 1024},
                });
            break;
        }
        if (y != NULL && n < MAX) nodes[n++] = y;
    }
    TensorNode *outputs[2] = {rp_silu(g, nodes[n - 1]), rp_silu(g, nodes[n / 2])};
    OK(rp_graph_finish(g, outputs, 2));
    return g;
}

/* The steps from the first write of a buffer to its last read, computed from the graph: -1 for inputs (written
 * before step 0), n_steps for outputs (read after the last step). */
static void lifetime(const ComputeGraph *g, const ExecPlan *plan, int buffer, int *from, int *to) {
    int step = 0;
    *from = plan->n_steps, *to = -2;
    for (int i = 0; i < g->n_nodes; i++) {
        const TensorNode *n  = g->nodes[i];
        const int         at = node_is_kernel(n) ? step++ : -1;
        if (n->base->kind == NODE_INPUT && plan->buffer_of[n->id] == buffer) *from = -1, *to = plan->n_steps;
        if (at >= 0 && plan->buffer_of[n->id] == buffer) *from = at < *from ? at : *from, *to = at > *to ? at : *to;
        for (int s = 0; s < RP_MAX_SRC && at >= 0; s++)
            if (n->src[s] != NULL && plan->buffer_of[n->src[s]->id] == buffer && at > *to) *to = at;
        if (n->is_output && plan->buffer_of[n->id] == buffer) *to = plan->n_steps;
    }
}

Test(plan, no_two_live_buffers_overlap) {
    for (uint64_t seed = 0; seed < 200; seed++) {
        ComputeGraph *g = random_graph(seed);
        ExecPlan     *plan;
        OK(rp_plan_new(g, &plan));
        for (int a = 0; a < plan->n_buffers; a++)
            for (int b = 0; b < a; b++) {
                int               from[2], to[2];
                const PlanBuffer *x = &plan->buffers[a], *y = &plan->buffers[b];
                lifetime(g, plan, a, &from[0], &to[0]);
                lifetime(g, plan, b, &from[1], &to[1]);
                const bool both_live = from[0] <= to[1] && from[1] <= to[0];
                const bool overlap   = x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
                cr_assert(!both_live || !overlap, "seed %d: buffers %d and %d", (int)seed, a, b);
                cr_assert(x->offset + x->bytes <= plan->memory.arena, CASE(seed, a, b));
            }
        rp_plan_free(plan);
        rp_graph_free(g);
    }
}

/* Runs the graph with separate memory for every tensor; the outputs are the reference. */
static void run_without_reuse(const ComputeGraph *g, float *out[2]) {
    void       *memory[1024] = {0};
    RpKernelCtx ctx          = {.nth = 1};
    for (int i = 0; i < g->n_nodes; i++) {
        const TensorNode *n = g->nodes[i];
        if (n->base == n) memory[n->id] = calloc(1, rp_view_extent_bytes(&n->view));
        if (n->kind == NODE_INPUT)
            for (int64_t k = 0; k < rp_view_elems(&n->view); k++)
                ((float *)memory[n->id])[k] = (float)((k * 7 + n->id) % 11) * 0.3f - 1.0f;
        if (!node_is_kernel(n)) continue;
        RpOpArgs args = {.dst = n->view, .params = &n->params};
        args.dst.data = (char *)memory[n->base->id] + n->offset;
        for (int s = 0; s < RP_MAX_SRC; s++)
            if (n->src[s] != NULL) {
                args.src[s]      = n->src[s]->view;
                args.src[s].data = (char *)memory[n->src[s]->base->id] + n->src[s]->offset;
            }
        OK(rp_cpu_kernel(n->op)(&args, &ctx));
    }
    for (int i = 0, k = 0; i < g->n_nodes; i++) {
        if (g->nodes[i]->is_output)
            out[k++] = memory[g->nodes[i]->id];
        else
            free(memory[i]);
    }
}

Test(plan, reuse_and_in_place_change_no_result) {
    for (uint64_t seed = 0; seed < 100; seed++) {
        ComputeGraph *g = random_graph(seed);
        ExecPlan     *plan;
        RpExecutor   *e;
        float        *want[2] = {NULL, NULL};
        run_without_reuse(g, want);
        OK(rp_plan_new(g, &plan));
        OK(rp_executor_open(plan, &(RpExecutorOptions){.n_threads = 1 + (int)(seed % 3)}, &e));
        for (int i = 0; i < g->n_nodes; i++)
            if (g->nodes[i]->kind == NODE_INPUT)
                for (int64_t k = 0; k < rp_view_elems(&g->nodes[i]->view); k++)
                    ((float *)rp_executor_data(e, g->nodes[i]))[k] = (float)((k * 7 + i) % 11) * 0.3f - 1.0f;
        OK(rp_executor_run(e));
        for (int i = 0, k = 0; i < g->n_nodes; i++)
            if (g->nodes[i]->is_output) {
                cr_expect_arr_eq(rp_executor_data(e, g->nodes[i]), want[k], rp_view_extent_bytes(&g->nodes[i]->view),
                                 "seed %d, output %d", (int)seed, k);
                free(want[k++]);
            }
        rp_executor_free(e);
        rp_plan_free(plan);
        rp_graph_free(g);
    }
}

Test(plan, computes_in_place_and_reuses_buffers) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = rp_graph_input(g, "x", RP_F32, NE(64, 4, 1, 1)), *y = x;
    for (int i = 0; i < 10; i++) y = rp_silu(g, y);
    OK(rp_graph_finish(g, &y, 1));
    ExecPlan *plan;
    OK(rp_plan_new(g, &plan));
    const RpPlanMemory m = rp_plan_memory(plan);
    cr_expect_eq(m.n_steps, 10);
    cr_expect_eq(plan->n_buffers, 2); /* the input, and one buffer on which nine steps work in place */
    cr_expect_eq(m.arena, 2048u);
    cr_expect_eq(m.unshared, 11264u);
    rp_plan_free(plan);
    rp_graph_free(g);
}

Test(plan, is_deterministic) {
    char *texts[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        ComputeGraph *g = random_graph(5);
        ExecPlan     *plan;
        size_t        size;
        OK(rp_plan_new(g, &plan));
        FILE *f = open_memstream(&texts[i], &size);
        OK(rp_plan_dump(plan, RP_DUMP_TEXT, f));
        fclose(f);
        REFUSED(rp_plan_dump(plan, RP_DUMP_DOT, stdout), RP_E_ARG,
                "dump format 1 of a plan, must be RP_DUMP_TEXT or RP_DUMP_JSON");
        FILE *full = fopen("/dev/full", "w");
        cr_assert_not_null(full, CASE(i));
        setvbuf(full, NULL, _IONBF, 0);
        REFUSED(rp_plan_dump(plan, RP_DUMP_TEXT, full), RP_E_IO, "the plan could not be written");
        fclose(full);
        rp_plan_free(plan);
        rp_graph_free(g);
    }
    cr_expect_str_eq(texts[0], texts[1]);
    cr_expect_not_null(strstr(texts[0], "arena"));
    free(texts[0]), free(texts[1]);
}

Test(plan, counts_the_bytes_that_a_step_moves) {
    ComputeGraph      *g = rp_graph_new();
    const RpTensorView v = rp_view_contiguous(RP_F32, NE(64, 64, 1, 1), weight_data);
    TensorNode        *w = rp_graph_weight(g, "w", &v), *ids = rp_graph_input(g, "ids", RP_I32, NE(3, 1, 1, 1));
    TensorNode        *y = rp_get_rows(g, w, ids);
    OK(rp_graph_finish(g, &y, 1));
    ExecPlan *plan;
    OK(rp_plan_new(g, &plan));
    cr_expect_eq(rp_plan_traffic_bytes(plan), (size_t)(3 * 256 + 3 * 4 + 3 * 256)); /* three rows, ids, result */
    cr_expect_eq(rp_plan_memory(plan).weights, sizeof weight_data);
    rp_plan_free(plan);
    rp_graph_free(g);
}

Test(plan, refuses_an_unfinished_graph) {
    ComputeGraph *g = rp_graph_new();
    ExecPlan     *plan;
    REFUSED(rp_plan_new(g, &plan), RP_E_STATE, "a graph must be finished before it is planned");
    cr_expect_null(plan);
    rp_graph_free(g);
}

/* The hash of a plan of one op over a weight of [n, 2], made anew. */
static uint64_t hash_of(int64_t n, float eps, RpDtype dtype, const char *weight, bool twice) {
    ComputeGraph      *g = rp_graph_new();
    ExecPlan          *plan;
    uint64_t           hash;
    TensorNode        *x = rp_graph_input(g, "x", RP_F32, NE(n, 2, 1, 1));
    const RpTensorView v = rp_view_contiguous(RP_F32, NE(n, 1, 1, 1), weight_data);
    TensorNode        *w = rp_graph_weight(g, weight, &v);
    TensorNode        *y = rp_rms_norm(g, x, w, eps);
    if (twice) y = rp_add(g, y, y);
    if (dtype != RP_F32) y = rp_cast(g, y, dtype);
    OK(rp_graph_finish(g, &y, 1));
    OK(rp_plan_new(g, &plan));
    OK(rp_plan_hash(plan, &hash));
    rp_plan_free(plan);
    rp_graph_free(g);
    return hash;
}

/* The text that is hashed, of the first plan: one line for each node, with the numbers of its sources. */
static const char lines[] = "input x f32 32:4 2:128 1:256 1:256 at 0+0 {}\n"
                            "weight w f32 32:4 1:128 1:128 1:128 at 1+0 {}\n"
                            "op rms_norm f32 32:4 2:128 1:256 1:256 0=0 1=1 at 2+0 output {\"eps\":9.99999975e-06}\n";

Test(plan, hash_is_of_ops_shapes_types_parameters_and_names) {
    const uint64_t hashes[] = {hash_of(32, 1e-5f, RP_F32, "w", false), hash_of(64, 1e-5f, RP_F32, "w", false),
                               hash_of(32, 1e-6f, RP_F32, "w", false), hash_of(32, 1e-5f, RP_F16, "w", false),
                               hash_of(32, 1e-5f, RP_F32, "v", false), hash_of(32, 1e-5f, RP_F32, "w", true)};
    cr_expect_eq(hashes[0], xx_hash(lines, sizeof lines - 1));
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++) cr_expect_neq(hashes[i], hashes[k], CASE(i, k));
}
