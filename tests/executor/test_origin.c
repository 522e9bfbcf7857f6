/* Where nodes of a rewritten graph come from and where their values lie, and runs in parts that read them. References:
 * the graph before the passes, results of whole runs with every node as an output, and the file read by itself. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#define NE(...) ((int64_t[RP_MAX_DIMS]){__VA_ARGS__})

enum { N_TOK = 3, N_CTX = 16 };

typedef struct Step {
    RpModel      *m;
    ComputeGraph *g;
    ExecPlan     *plan;
    RpExecutor   *exec;
} Step;

static Step open_step(const char *model, const char *passes, int n_threads) {
    Step s = {.m = golden_open_tiny(model)};
    OK(rp_model_graph(s.m, &(RpModelGraphOptions){.n_tok = N_TOK, .n_ctx = N_CTX}, &s.g));
    OK(rp_graph_optimize(s.g, passes));
    OK(rp_plan_new(s.g, &s.plan));
    OK(rp_executor_open(s.plan, &(RpExecutorOptions){.n_threads = n_threads, .device = "cpu"}, &s.exec));
    return s;
}

static void set_inputs(Step *s) {
    int32_t *tokens = rp_executor_data(s->exec, rp_graph_find(s->g, "tokens"));
    int32_t *pos    = rp_executor_data(s->exec, rp_graph_find(s->g, "pos"));
    for (int32_t i = 0; i < N_TOK; i++) tokens[i] = 5 + i, pos[i] = i;
    *(int32_t *)rp_executor_data(s->exec, rp_graph_find(s->g, "out_rows")) = N_TOK - 1;
}

static void close_step(Step *s) {
    rp_executor_free(s->exec);
    rp_plan_free(s->plan);
    rp_graph_free(s->g);
    rp_model_free(s->m);
}

static bool is_op(const TensorNode *n) {
    const char *op = rp_node_op_name(n);
    return strcmp(op, "weight") != 0 && strcmp(op, "input") != 0 && strcmp(op, "state") != 0;
}

/* ---- origins ---- */

Test(origin, a_graph_without_passes_stands_for_itself) {
    Step s = open_step("llama-mix", "-all", 1);
    for (int i = 0; i < rp_graph_n_nodes(s.g); i++) {
        const TensorNode *n = rp_graph_node(s.g, i);
        cr_assert(rp_node_n_origins(n) == 1 && rp_node_origin(n, 0) == n && rp_node_origin(n, 1) == NULL, "node %d", i);
        cr_assert(rp_node_pass(n, 0) == NULL && rp_node_built(n) >= 0, "node %d", i);
        cr_assert_str_eq(rp_node_built_op(n), rp_node_op_name(n), "node %d", i);
    }
    close_step(&s);
}

/* Names of the built ops, in order, of the node of that name: "mul_mat add add". */
static const char *built_ops(const TensorNode *n, char *buf, size_t size) {
    size_t len = 0;
    buf[0]     = '\0';
    for (int i = 0; i < rp_node_n_origins(n); i++)
        len +=
            (size_t)snprintf(buf + len, size - len, "%s%s", i > 0 ? " " : "", rp_node_built_op(rp_node_origin(n, i)));
    return buf;
}

static const char *passes_of(const TensorNode *n, char *buf, size_t size) {
    size_t len = 0;
    buf[0]     = '\0';
    for (int i = 0; rp_node_pass(n, i) != NULL; i++)
        len += (size_t)snprintf(buf + len, size - len, "%s%s", i > 0 ? " " : "", rp_node_pass(n, i));
    return buf;
}

/* y = w x + b + x, a graph whose fusions are known by hand. */
Test(origin, lists_what_a_pattern_has_fused) {
    static float       data[32 * 32];
    char               text[256];
    const RpTensorView v = rp_view_contiguous(RP_F32, NE(32, 32, 1, 1), data);
    const RpTensorView b = rp_view_contiguous(RP_F32, NE(32, 1, 1, 1), data);
    ComputeGraph      *g = rp_graph_new();
    TensorNode        *w = rp_graph_weight(g, "w", &v), *bias = rp_graph_weight(g, "b", &b);
    TensorNode        *x = rp_graph_input(g, "x", RP_F32, NE(32, 1, 1, 1));
    TensorNode        *p = rp_mul_mat(g, w, x), *sum = rp_add(g, p, bias), *y = rp_add(g, sum, x);
    rp_node_set_name(p, "product");
    rp_node_set_name(y, "y");
    OK(rp_graph_finish(g, &y, 1));
    OK(rp_graph_optimize(g, ""));
    cr_assert_str_eq(rp_node_op_name(y), "linear");
    cr_assert_str_eq(rp_node_built_op(y), "add");
    cr_assert_str_eq(built_ops(y, text, sizeof text), "mul_mat add add");
    cr_assert_str_eq(passes_of(y, text, sizeof text), "linear residual");
    cr_assert(rp_node_origin(y, 0) == p && rp_node_number(p) < 0, "the product was taken out");
    cr_assert_str_eq(rp_node_name(rp_node_origin(y, 0)), "product");
    cr_assert(rp_node_built(p) < rp_node_built(sum) && rp_node_built(sum) < rp_node_built(y),
              "in the order of building");
    rp_graph_free(g);
}

Test(origin, a_node_of_a_pass_has_no_built_one) {
    char text[256];
    Step s      = open_step("llama-mix", "-all,+quantize", 1);
    int  n_made = 0;
    for (int i = 0; i < rp_graph_n_nodes(s.g); i++) {
        const TensorNode *n = rp_graph_node(s.g, i);
        if (rp_node_built(n) >= 0) continue;
        cr_assert(rp_node_n_origins(n) == 0 && rp_node_origin(n, 0) == NULL, "node %d", i);
        cr_assert_str_eq(rp_node_built_op(n), "quantize", "node %d", i);
        cr_assert_str_eq(passes_of(n, text, sizeof text), "quantize", "node %d", i);
        n_made++;
    }
    cr_assert_gt(n_made, 0);
    close_step(&s);
}

/* Every built node is in the graph, or some node does its work: none is lost by a pass. */
Test(origin, no_built_node_is_lost) {
    static const char *const models[] = {"llama-mix",     "gemma3-mix", "qwen3moe-mix",
                                         "deepseek2-mix", "qwen35-mix", "qwen2moe-mix"};
    for (size_t k = 0; k < sizeof models / sizeof models[0]; k++) {
        Step  s    = open_step(models[k], "", 1);
        Step  raw  = open_step(models[k], "-all", 1);
        bool *seen = calloc((size_t)rp_graph_n_nodes(raw.g) * 8, 1);
        for (int i = 0; i < rp_graph_n_nodes(s.g); i++)
            for (int o = 0; o < rp_node_n_origins(rp_graph_node(s.g, i)); o++)
                seen[rp_node_built(rp_node_origin(rp_graph_node(s.g, i), o))] = true;
        for (int i = 0; i < rp_graph_n_nodes(raw.g); i++) {
            const TensorNode *n = rp_graph_node(raw.g, i);
            RpNodePlace       place;
            OK(rp_plan_place(raw.plan, n, &place));
            const bool kernel = place.step >= 0 && rp_plan_step_node(raw.plan, place.step) == n;
            cr_assert(!kernel || seen[rp_node_built(n)], "%s: %s '%s' is lost", models[k], rp_node_op_name(n),
                      rp_node_name(n));
        }
        free(seen);
        close_step(&raw);
        close_step(&s);
    }
}

Test(origin, nothing_is_known_of_null) {
    cr_assert(rp_node_built(NULL) == -1 && rp_node_n_origins(NULL) == 0 && rp_node_origin(NULL, 0) == NULL);
    cr_assert(rp_node_pass(NULL, 0) == NULL);
    cr_assert_str_eq(rp_node_built_op(NULL), "");
}

/* ---- places ---- */

Test(origin, places_are_those_of_the_plan) {
    Step s = open_step("llama-mix", "", 1);
    for (int i = 0; i < rp_graph_n_nodes(s.g); i++) {
        const TensorNode  *n = rp_graph_node(s.g, i);
        const RpTensorView v = rp_node_view(n);
        RpNodePlace        p;
        OK(rp_plan_place(s.plan, n, &p));
        cr_assert_eq(p.bytes, rp_view_extent_bytes(&v), "node %d", i);
        if (!is_op(n)) {
            cr_assert(p.step == -1 && p.base == n && (p.offset == 0 || strcmp(p.space, "arena") == 0), "node %d", i);
            continue;
        }
        cr_assert(p.step >= 0 && p.step < rp_plan_memory(s.plan).n_steps, "node %d", i);
        if (strcmp(p.space, "arena") != 0) continue;
        cr_assert(p.first_step <= p.step && p.step <= p.last_step, "node %d", i);
        cr_assert_leq(p.offset + p.bytes, rp_plan_memory(s.plan).arena, "node %d", i);
        cr_assert_eq(p.last_step >= rp_plan_memory(s.plan).n_steps, rp_node_is_output(n), "node %d", i);
    }
    close_step(&s);
}

Test(origin, refuses_a_node_that_is_not_in_the_graph) {
    Step        a = open_step("llama-mix", "", 1), b = open_step("llama-mix", "", 1);
    RpNodePlace p;
    REFUSED(rp_plan_place(a.plan, rp_graph_find(b.g, "logits"), &p), RP_E_ARG,
            "'logits' is not a node of the graph of this plan");
    close_step(&a);
    close_step(&b);
}

/* ---- weights in their file ---- */

Test(origin, finds_weights_in_their_file) {
    size_t bytes, n_found = 0;
    char  *file = golden_read_tiny("llama-mix", &bytes);
    Step   s    = open_step("llama-mix", "", 1);
    for (int i = 0; i < rp_graph_n_nodes(s.g); i++) {
        const TensorNode *n      = rp_graph_node(s.g, i);
        size_t            offset = 0;
        if (strcmp(rp_node_op_name(n), "weight") != 0) continue;
        const RpTensorView v    = rp_node_view(n);
        const size_t       size = rp_view_extent_bytes(&v);
        const char        *path = rp_model_find_bytes(s.m, v.data, &offset);
        cr_assert_not_null(path, "%s", rp_node_name(n));
        cr_assert_not_null(strstr(path, "llama-mix.gguf"), "%s", path);
        cr_assert(offset + size <= bytes && memcmp(file + offset, v.data, size) == 0, "%s", rp_node_name(n));
        n_found++;
    }
    cr_assert_gt(n_found, 5);
    size_t offset = 0;
    cr_assert_null(rp_model_find_bytes(s.m, &offset, &offset), "memory that is no part of the file");
    cr_assert_null(rp_model_find_bytes(s.m, NULL, &offset));
    cr_assert_null(rp_model_find_bytes(NULL, &offset, &offset));
    close_step(&s);
    free(file);
}

/* Weights of a directory lie in its files, but for those that were converted when it was opened. */
Test(origin, finds_weights_of_a_directory_and_an_adapter) {
    static const struct {
        const char *model, *adapter, *file;
    } cases[] = {
        {GOLDEN_DIR "hf/gemma2",           NULL,                           "model.safetensors"},
        {GOLDEN_DIR "tiny/llama-f32.gguf", GOLDEN_DIR "lora/adapter.gguf", "adapter.gguf"     }
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        RpModel      *m;
        ComputeGraph *g;
        int           n_found = 0, n_made = 0;
        OK(rp_model_open(cases[i].model, NULL, &m));
        if (cases[i].adapter != NULL) OK(rp_model_add_adapter(m, cases[i].adapter, 1.0f));
        OK(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = N_CTX}, &g));
        for (int k = 0; k < rp_graph_n_nodes(g); k++) {
            const TensorNode  *n      = rp_graph_node(g, k);
            const RpTensorView v      = rp_node_view(n);
            size_t             offset = 0;
            if (strcmp(rp_node_op_name(n), "weight") != 0) continue;
            const char *path = rp_model_find_bytes(m, v.data, &offset);
            n_made += path == NULL;
            if (path == NULL || strstr(path, cases[i].file) == NULL) continue;
            char *bytes = malloc(rp_view_extent_bytes(&v));
            FILE *f     = fopen(path, "rb");
            cr_assert(f != NULL && fseek(f, (long)offset, SEEK_SET) == 0, "%s", path);
            cr_assert_eq(fread(bytes, 1, rp_view_extent_bytes(&v), f), rp_view_extent_bytes(&v), "%s", path);
            cr_assert(memcmp(bytes, v.data, rp_view_extent_bytes(&v)) == 0, "%s in %s", rp_node_name(n), path);
            fclose(f);
            free(bytes);
            n_found++;
        }
        cr_assert_gt(n_found, 2, "%s", cases[i].model);
        cr_assert_eq(n_made > 0, i == 0, "%s: %d weights in no file: gemma's norms are converted", cases[i].model,
                     n_made);
        rp_graph_free(g);
        rp_model_free(m);
    }
}

/* ---- runs in parts ---- */

static size_t bytes_of(const TensorNode *n) {
    const RpTensorView v = rp_node_view(n);
    return rp_view_extent_bytes(&v);
}

/* A run of single steps leaves the bits of a whole run, for any number of threads. */
Test(origin, parts_have_the_bits_of_a_whole_run) {
    for (int threads = 1; threads <= 3; threads += 2) {
        Step         s      = open_step("llama-mix", "", threads);
        const int    n      = rp_plan_memory(s.plan).n_steps;
        const size_t size   = bytes_of(rp_graph_find(s.g, "logits"));
        float       *whole  = malloc(size);
        const float *logits = rp_executor_data(s.exec, rp_graph_find(s.g, "logits"));
        set_inputs(&s);
        OK(rp_executor_run(s.exec));
        memcpy(whole, logits, size);
        OK(rp_executor_poison(s.exec));
        for (int i = 0; i < n; i++) OK(rp_executor_run_steps(s.exec, i, i + 1));
        cr_assert(memcmp(whole, logits, size) == 0, "%d threads, single steps", threads);
        OK(rp_executor_poison(s.exec));
        OK(rp_executor_run_steps(s.exec, 0, n / 2));
        OK(rp_executor_run_steps(s.exec, n / 2, n));
        cr_assert(memcmp(whole, logits, size) == 0, "%d threads, two halves", threads);
        free(whole);
        close_step(&s);
    }
}

/* Graph c = add(b, x) of b = silu(a) of a = scale(x): values computed by hand, although b may overwrite a. */
Test(origin, reads_a_result_before_its_memory_is_reused) {
    ComputeGraph *g = rp_graph_new();
    ExecPlan     *plan;
    RpExecutor   *e;
    float         got[4];
    TensorNode   *x = rp_graph_input(g, "x", RP_F32, NE(4, 1, 1, 1));
    TensorNode   *a = rp_node_set_name(rp_scale(g, x, 2.0f, 1.0f), "a");
    TensorNode   *b = rp_node_set_name(rp_scale(g, a, 3.0f, 0.0f), "b");
    TensorNode   *c = rp_node_set_name(rp_add(g, b, x), "c");
    OK(rp_graph_finish(g, &c, 1));
    OK(rp_plan_new(g, &plan));
    OK(rp_executor_open(plan, &(RpExecutorOptions){.n_threads = 1, .device = "cpu"}, &e));
    memcpy(rp_executor_data(e, x), (float[]){1, 2, 3, 4}, sizeof got);
    OK(rp_executor_run_steps(e, 0, 1));
    OK(rp_executor_read(e, a, got, sizeof got));
    cr_assert(memcmp(got, (float[]){3, 5, 7, 9}, sizeof got) == 0);
    REFUSED(rp_executor_read(e, b, got, sizeof got), RP_E_STATE, "'b' is computed by step 1: 1 steps have run");
    OK(rp_executor_run_steps(e, 1, 2));
    OK(rp_executor_read(e, b, got, sizeof got));
    cr_assert(memcmp(got, (float[]){9, 15, 21, 27}, sizeof got) == 0);
    REFUSED(rp_executor_read(e, a, got, sizeof got), RP_E_STATE,
            "'a' is computed by step 0: step 1, 'b', has reused its memory");
    OK(rp_executor_read(e, x, got, sizeof got));
    cr_assert(memcmp(got, (float[]){1, 2, 3, 4}, sizeof got) == 0);
    OK(rp_executor_run_steps(e, 2, 3));
    OK(rp_executor_read(e, c, got, sizeof got));
    cr_assert(memcmp(got, (float[]){10, 17, 24, 31}, sizeof got) == 0);
    REFUSED(rp_executor_read(e, c, got, sizeof got + 4), RP_E_ARG, "'c': 20 bytes: must be at most 16");
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(g);
}

enum { MAX_RESULTS = 256 };

typedef struct Results {
    const TensorNode *nodes[MAX_RESULTS];
    void             *bytes[MAX_RESULTS];
    int               n;
} Results;

static bool keep_result(const TensorNode *node, const RpTensorView *view, const void *got, const void *want,
                        void *user) {
    Results     *r    = user;
    const size_t size = rp_view_extent_bytes(view);
    (void)want;
    if (r->n > 0 && r->nodes[r->n - 1] == node) return true; /* a cache that it writes to beside its result */
    r->nodes[r->n] = node;
    r->bytes[r->n] = memcpy(malloc(size), got, size);
    return ++r->n < MAX_RESULTS;
}

/* The results that rp_executor_verify reports are read again in a run in parts. */
Test(origin, reads_every_result) {
    static Results r;
    Step           s = open_step("llama-mix", "", 1);
    set_inputs(&s);
    OK(rp_executor_verify(s.exec, keep_result, &r));
    cr_assert_eq(r.n, rp_plan_memory(s.plan).n_steps);
    for (int i = 0; i < r.n; i++) {
        const size_t size = bytes_of(r.nodes[i]);
        char        *got  = malloc(size);
        OK(rp_executor_run_steps(s.exec, i, i + 1));
        OK(rp_executor_read(s.exec, r.nodes[i], got, size));
        cr_assert(memcmp(got, r.bytes[i], size) == 0, "step %d, %s '%s'", i, rp_node_op_name(r.nodes[i]),
                  rp_node_name(r.nodes[i]));
        free(got);
        free(r.bytes[i]);
    }
    close_step(&s);
}

Test(origin, a_step_that_failed_has_no_values) {
    Step              s        = open_step("llama-mix", "", 1);
    const TensorNode *embedded = rp_graph_find(s.g, "embedding");
    char              byte;
    set_inputs(&s);
    int32_t *tokens = rp_executor_data(s.exec, rp_graph_find(s.g, "tokens"));
    tokens[0]       = 1 << 30;
    cr_assert_neq(rp_executor_run_steps(s.exec, 0, 1), RP_OK);
    REFUSED(rp_executor_read(s.exec, embedded, &byte, 1), RP_E_STATE, "0 steps have run");
    cr_assert_neq(rp_executor_run(s.exec), RP_OK);
    REFUSED(rp_executor_read(s.exec, embedded, &byte, 1), RP_E_STATE, "0 steps have run");
    tokens[0] = 1;
    OK(rp_executor_run_steps(s.exec, 0, 1));
    OK(rp_executor_read(s.exec, embedded, &byte, 1));
    close_step(&s);
}

Test(origin, refuses_steps_out_of_order) {
    Step      s = open_step("llama-mix", "", 1);
    const int n = rp_plan_memory(s.plan).n_steps;
    char      text[96], byte;
    set_inputs(&s);
    snprintf(text, sizeof text, "steps 0 to %d: must be in order, and at most the %d of the plan", n + 1, n);
    REFUSED(rp_executor_run_steps(s.exec, 0, n + 1), RP_E_ARG, text);
    REFUSED(rp_executor_run_steps(s.exec, -1, 1), RP_E_ARG, "steps -1 to 1");
    OK(rp_executor_run_steps(s.exec, 0, 2));
    REFUSED(rp_executor_run_steps(s.exec, 3, 4), RP_E_ARG,
            "steps from 3 on: must begin at step 2, or at 0 for a new run");
    REFUSED(rp_executor_read(s.exec, rp_graph_find(s.g, "token_embd.weight"), &byte, 1), RP_E_ARG,
            "'token_embd.weight' is a weight: its values are those of the model file");
    OK(rp_executor_run_steps(s.exec, 0, n));
    close_step(&s);
}
