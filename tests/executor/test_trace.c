/* Traces of plain executors, sessions and engines. The references are the plan (its nodes, in order, and their bytes)
 * and the same run without a trace. Files are read by test_trace.py, which has Perfetto's trace processor. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include <pthread.h>
#include <sys/wait.h>

#define NE(...) ((int64_t[RP_MAX_DIMS]){__VA_ARGS__})

enum { MOST = 20000 };

typedef struct Log {
    RpTraceEvent events[MOST];
    bool         ends[MOST];
    int          n, wrong; /* events; rules that were broken */
    RpTraceKind  open[16];
    int          depth;
    int64_t      last;
} Log;

/* An event must be inside of one of a wider kind, and later than the one before. */
static void on_start(const RpTraceEvent *e, void *user) {
    Log *l = user;
    l->wrong += l->n == MOST || l->depth == 16 || e->start_ns <= l->last || e->end_ns != 0;
    l->wrong += e->kind != RP_TRACE_RUN && (l->depth == 0 || l->open[l->depth - 1] != e->kind - 1);
    if (l->n == MOST || l->depth == 16) return;
    l->last           = e->start_ns;
    l->open[l->depth] = e->kind;
    l->depth++;
    l->events[l->n++] = *e;
}

static void on_end(const RpTraceEvent *e, void *user) {
    Log *l = user;
    l->wrong += l->n == MOST || l->depth == 0 || e->end_ns <= l->last || e->start_ns >= e->end_ns;
    if (l->n == MOST || l->depth == 0) return;
    l->wrong += l->open[--l->depth] != e->kind;
    l->last         = e->end_ns;
    l->ends[l->n]   = true;
    l->events[l->n] = *e;
    l->n++;
}

static Log *new_log(void) {
    Log *l = calloc(1, sizeof *l);
    cr_assert_not_null(l);
    return l;
}

static RpTrace *open_trace(Log *l) {
    RpTrace *t;
    OK(rp_trace_open(&(RpTraceOptions){.start = on_start, .end = on_end, .user = l}, &t));
    return t;
}

static int count(const Log *l, RpTraceKind kind, const char *name) {
    int n = 0;
    for (int i = 0; i < l->n; i++)
        n += l->ends[i] && l->events[i].kind == kind && (name == NULL || strcmp(l->events[i].name, name) == 0);
    return n;
}

static float weights[64 * 64];

typedef struct Net {
    ComputeGraph *g;
    ExecPlan     *plan;
    TensorNode   *y, *ids;
    RpExecutor   *e;
} Net;

static Net new_net(int n_threads) {
    Net n = {.g = rp_graph_new()};
    for (int i = 0; i < 64 * 64; i++) weights[i] = (float)(i * 13 % 29) * 0.01f;
    const RpTensorView v = rp_view_contiguous(RP_F32, NE(64, 64, 1, 1), weights);
    TensorNode        *w = rp_graph_weight(n.g, "w", &v);
    n.ids                = rp_graph_input(n.g, "ids", RP_I32, NE(5, 1, 1, 1));
    n.y                  = rp_silu(n.g, rp_mul_mat(n.g, w, rp_get_rows(n.g, w, n.ids)));
    OK(rp_graph_finish(n.g, &n.y, 1));
    OK(rp_plan_new(n.g, &n.plan));
    OK(rp_executor_open(n.plan, &(RpExecutorOptions){.n_threads = n_threads, .device = "cpu"}, &n.e));
    return n;
}

static void free_net(Net *n) {
    rp_executor_free(n->e);
    rp_plan_free(n->plan);
    rp_graph_free(n->g);
}

static void set_ids(const Net *n, int32_t last) {
    memcpy(rp_executor_data(n->e, n->ids), (int32_t[]){1, 2, 3, 4, last}, 5 * sizeof(int32_t));
}

/* Checks the events of one run of the plan, from event i on. Returns the event behind them. */
static int check_run(const Log *l, int i, const Net *n) {
    const int n_steps = rp_plan_memory(n->plan).n_steps;
    size_t    bytes   = 0;
    cr_assert_geq(l->n, i + 4 + 2 * n_steps);
    const RpTraceEvent *e = &l->events[i];
    cr_expect(e[0].kind == RP_TRACE_RUN && strcmp(e[0].name, "run") == 0 && !l->ends[i]);
    cr_expect(e[1].kind == RP_TRACE_STEP && e[1].n == n_steps && e[1].plan == n->plan && !l->ends[i + 1]);
    for (int k = 0; k < n_steps; k++) {
        const RpTraceEvent *start = &e[2 + 2 * k], *end = start + 1;
        cr_expect(start->node == rp_plan_step_node(n->plan, k) && end->node == start->node, CASE(k));
        cr_expect(!l->ends[i + 2 + 2 * k] && l->ends[i + 3 + 2 * k], CASE(k));
        cr_expect(start->kind == RP_TRACE_NODE && end->index == k && end->start_ns == start->start_ns, CASE(k));
        cr_expect_str_eq(end->op, rp_node_op_name(end->node), CASE(k));
        cr_expect_str_eq(end->device, "cpu", CASE(k));
        bytes += end->bytes_read + end->bytes_written;
        RpStepLaunch launch;
        OK(rp_executor_launch(n->e, k, &launch));
        cr_expect_eq(end->bytes_read + end->bytes_written, launch.bytes, CASE(k));
        cr_expect_gt(end->bytes_written, 0u, CASE(k));
    }
    const RpTraceEvent *step = &e[2 + 2 * n_steps];
    cr_expect(step->kind == RP_TRACE_STEP && step->end_ns > 0 && step->status == RP_OK && step->n_launches == 0);
    cr_expect_eq(step->bytes_read + step->bytes_written, bytes);
    cr_expect_eq(bytes, rp_plan_traffic_bytes(n->plan));
    cr_expect(step[1].kind == RP_TRACE_RUN && step[1].end_ns > step->end_ns);
    return i + 4 + 2 * n_steps;
}

Test(trace, has_run_step_and_nodes_of_an_executor_and_leaves_its_bits) {
    for (int threads = 1; threads <= 3; threads++) {
        Net   n = new_net(threads);
        Log  *l = new_log();
        float want[5 * 64];
        int   at = 0;
        set_ids(&n, 5);
        OK(rp_executor_run(n.e));
        memcpy(want, rp_executor_data(n.e, n.y), sizeof want);
        RpTrace *t = open_trace(l);
        for (int i = 0; i < 3; i++) OK(rp_executor_run(n.e));
        OK(rp_trace_close(t));
        cr_expect_arr_eq(rp_executor_data(n.e, n.y), want, sizeof want, CASE(threads));
        for (int i = 0; i < 3; i++) at = check_run(l, at, &n);
        cr_expect(at == l->n && l->wrong == 0 && l->depth == 0, CASE(at, l->n, l->wrong));
        OK(rp_executor_run(n.e)); /* after the close there are no events */
        cr_expect_eq(at, l->n, CASE(threads));
        free_net(&n);
        free(l);
    }
}

/* Checks the events of a part of a run, from event i on: nodes first <= k < end alone. Returns the event behind. */
static int check_part(const Log *l, int i, const Net *n, int first, int end) {
    size_t read = 0, written = 0;
    cr_assert_geq(l->n, i + 4 + 2 * (end - first), CASE(first, end));
    const RpTraceEvent *e = &l->events[i], *step = e + 2 + 2 * (end - first);
    cr_expect(e[0].kind == RP_TRACE_RUN && strcmp(e[0].name, "part of a run") == 0, CASE(first, end));
    cr_expect(e[1].kind == RP_TRACE_STEP && strcmp(e[1].name, "part") == 0, CASE(first, end));
    cr_expect(e[1].index == first && e[1].n == end - first && e[1].plan == n->plan, CASE(first, end));
    for (int k = first; k < end; k++) {
        const RpTraceEvent *node = &e[3 + 2 * (k - first)];
        cr_expect(node->kind == RP_TRACE_NODE && node->index == k && node->node == rp_plan_step_node(n->plan, k),
                  CASE(first, end, k));
        read += node->bytes_read;
        written += node->bytes_written;
    }
    cr_expect(step->kind == RP_TRACE_STEP && step->end_ns > 0 && step->status == RP_OK, CASE(first, end));
    cr_expect(step->bytes_read == read && step->bytes_written == written, CASE(first, end));
    cr_expect(step[1].kind == RP_TRACE_RUN && step[1].end_ns > step->end_ns, CASE(first, end));
    return i + 4 + 2 * (end - first);
}

Test(trace, has_the_parts_of_a_run_with_their_nodes) {
    for (int threads = 1; threads <= 2; threads++) {
        Net          n = new_net(threads);
        Log         *l = new_log();
        float        want[5 * 64];
        RpStepLaunch launch;
        int          at = 0;
        set_ids(&n, 5);
        OK(rp_executor_run(n.e));
        memcpy(want, rp_executor_data(n.e, n.y), sizeof want);
        const int n_steps = rp_plan_memory(n.plan).n_steps, ends[] = {1, 1, n_steps};
        cr_assert_geq(n_steps, 3, CASE(threads));
        OK(rp_executor_poison(n.e));
        RpTrace *t = open_trace(l);
        for (int i = 0; i < 3; i++) OK(rp_executor_run_steps(n.e, i > 0 ? ends[i - 1] : 0, ends[i]));
        OK(rp_trace_close(t));
        cr_expect_arr_eq(rp_executor_data(n.e, n.y), want, sizeof want, CASE(threads));
        for (int i = 0; i < 3; i++) at = check_part(l, at, &n, i > 0 ? ends[i - 1] : 0, ends[i]);
        cr_expect(at == l->n && l->wrong == 0 && l->depth == 0, CASE(at, l->n, l->wrong));
        OK(rp_executor_launch(n.e, 0, &launch));
        cr_expect_eq(l->events[4].bytes_read + l->events[4].bytes_written, launch.bytes,
                     CASE(threads)); /* the first part: one node */
        set_ids(&n, 999);
        l->n = 0;
        t    = open_trace(l);
        cr_expect_neq(rp_executor_run_steps(n.e, 0, n_steps), RP_OK, CASE(threads));
        OK(rp_trace_close(t));
        cr_assert_eq(l->n, 6, CASE(threads)); /* the first node fails, and no other starts */
        for (int i = 3; i < 6; i++) cr_expect(l->ends[i] && l->events[i].status != RP_OK, CASE(i));
        free_net(&n);
        free(l);
    }
}

typedef struct Verified {
    Net     *other;
    Log     *late; /* of the trace that the callback opens */
    RpTrace *trace, *closed;
    int      n, most;
} Verified;

/* Uses the library within the step: that is allowed, and not traced. */
static bool on_result(const TensorNode *node, const RpTensorView *view, const void *got, const void *want, void *user) {
    Verified *v = user;
    cr_expect_eq(rp_verify_difference(node, view, got, want, NULL), 0);
    OK(rp_executor_run(v->other->e));
    if (v->n == 0 && v->late != NULL) {
        v->trace = open_trace(v->late);
        OK(rp_trace_close(v->closed));
    }
    return ++v->n < v->most;
}

Test(trace, has_the_nodes_of_a_verification) {
    Net   n = new_net(2), other = new_net(1);
    Log  *l = new_log(), *late = new_log(), *closed = new_log();
    float want[5 * 64];
    set_ids(&n, 5);
    set_ids(&other, 5);
    OK(rp_executor_run(n.e));
    memcpy(want, rp_executor_data(n.e, n.y), sizeof want);
    const int n_steps = rp_plan_memory(n.plan).n_steps;
    for (int most = 2; most <= 100; most += 98) { /* all, or until the callback stops it */
        const int n_nodes = most < n_steps ? most : n_steps;
        Verified  v       = {.other = &other, .most = most, .late = late};
        RpTrace  *t       = open_trace(l);
        l->n = late->n = closed->n = 0;
        v.closed                   = open_trace(closed);
        OK(rp_executor_verify(n.e, on_result, &v));
        OK(rp_trace_close(v.trace));
        OK(rp_trace_close(t));
        cr_expect(v.n == n_nodes && l->n == 4 + 2 * n_nodes, CASE(most, v.n, l->n));
        const RpTraceEvent *e = l->events, *step = &e[l->n - 2];
        cr_expect(e[0].kind == RP_TRACE_RUN && strcmp(e[0].name, "verify") == 0, CASE(most));
        cr_expect(e[1].kind == RP_TRACE_STEP && strcmp(e[1].name, "verify") == 0 && e[1].n == n_steps, CASE(most));
        size_t bytes = 0;
        for (int k = 0; k < n_nodes; k++) {
            RpStepLaunch launch;
            OK(rp_executor_launch(n.e, k, &launch));
            cr_expect(e[3 + 2 * k].index == k && l->ends[3 + 2 * k], CASE(most, k));
            cr_expect_eq(e[3 + 2 * k].bytes_read + e[3 + 2 * k].bytes_written, launch.bytes, CASE(most, k));
            bytes += launch.bytes;
        }
        cr_expect_eq(step->bytes_read + step->bytes_written, bytes, CASE(most));
        cr_expect(l->wrong == 0 && l->depth == 0 && late->n == 0, CASE(most, l->wrong, late->n));
        cr_expect_eq(closed->n, 3, CASE(most, closed->n)); /* the starts before the callback */
        closed->depth = 0;
    }
    cr_expect_arr_eq(rp_executor_data(n.e, n.y), want, sizeof want);
    free_net(&n);
    free_net(&other);
    free(l);
    free(late);
    free(closed);
}

Test(trace, says_which_node_failed) {
    Net      n = new_net(2);
    Log     *l = new_log();
    RpTrace *t = open_trace(l);
    set_ids(&n, 999);
    cr_expect_neq(rp_executor_run(n.e), RP_OK);
    OK(rp_trace_close(t));
    cr_assert_eq(l->n, 6);
    cr_expect_eq(l->events[2].index, 0);
    for (int i = 3; i < 6; i++) cr_expect(l->ends[i] && l->events[i].status != RP_OK, CASE(i));
    cr_expect_eq(l->wrong, 0);
    set_ids(&n, 5);
    OK(rp_executor_run(n.e));
    free_net(&n);
    free(l);
}

Test(trace, has_the_runs_of_a_session) {
    RpModel         *m = golden_open_tiny("llama-mix");
    RpSession       *s;
    RpSampler       *sampler;
    RpGenerateResult r;
    Log             *l      = new_log();
    const int32_t    ids[9] = {3, 4, 5, 6, 7, 8, 9, 10, 11};
    RpSamplerParams  params = rp_sampler_defaults();
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = 64, .n_threads = 2, .device = "cpu"}, &s));
    OK(rp_sampler_new(&params, rp_model_info(m)->n_vocab, &sampler));
    RpTrace *t = open_trace(l);
    OK(rp_session_prefill(s, ids, 9, NULL, NULL));
    cr_expect(count(l, RP_TRACE_RUN, "prefill") == 1 && l->events[0].n == 9);
    const int chunks = count(l, RP_TRACE_STEP, NULL);
    cr_expect_geq(chunks, 1);
    OK(rp_session_step(s, 12));
    cr_expect_eq(count(l, RP_TRACE_RUN, "decode"), 1);
    cr_expect_eq(count(l, RP_TRACE_STEP, NULL), chunks + 1);
    const int decode = count(l, RP_TRACE_NODE, NULL), nodes = rp_plan_memory(rp_session_decode_plan(s)).n_steps;
    cr_expect_eq(l->events[l->n - 2].n, nodes);
    const RpGenerateOptions o = {.max_tokens = 5, .ignore_end = true};
    OK(rp_generate(s, sampler, ids, 1, &o, &r));
    cr_expect_eq(r.n_generated, 5);
    cr_expect_eq(count(l, RP_TRACE_RUN, "generate"), 1);
    cr_expect_eq(count(l, RP_TRACE_RUN, "prefill"), 2); /* within it */
    cr_expect_eq(count(l, RP_TRACE_NODE, NULL), decode + 5 * nodes);
    OK(rp_trace_close(t));
    cr_expect(l->wrong == 0 && l->depth == 0);
    rp_sampler_free(sampler);
    rp_session_free(s);
    rp_model_free(m);
    free(l);
}

Test(trace, has_the_steps_of_an_engine) {
    RpModel        *m = golden_open_tiny("llama-mix");
    RpEngine       *e;
    RpSampler      *samplers[2];
    uint64_t        id;
    Log            *l      = new_log();
    const int32_t   ids[4] = {3, 4, 5, 6};
    RpSamplerParams params = rp_sampler_defaults();
    OK(rp_engine_open(m, &(RpEngineOptions){.n_ctx = 64, .n_seq = 2, .n_threads = 2}, &e));
    RpTrace *t = open_trace(l);
    for (int i = 0; i < 2; i++) {
        OK(rp_sampler_new(&params, rp_model_info(m)->n_vocab, &samplers[i]));
        OK(rp_engine_add(
            e, &(RpRequest){.prompt = ids, .n_prompt = 4, .sampler = samplers[i], .max_tokens = 3, .ignore_end = true},
            &id));
    }
    while (rp_engine_pending(e) > 0) OK(rp_engine_step(e));
    OK(rp_trace_close(t));
    const int steps = (int)rp_engine_stats(e).steps;
    cr_expect_eq(count(l, RP_TRACE_RUN, "engine step"), steps);
    cr_expect_eq(count(l, RP_TRACE_STEP, NULL), steps);
    cr_expect_eq(l->events[0].n, 8);
    cr_expect(l->wrong == 0 && l->depth == 0);
    rp_engine_free(e);
    for (int i = 0; i < 2; i++) rp_sampler_free(samplers[i]);
    rp_model_free(m);
    free(l);
}

/* ---- opening and closing ---- */

typedef struct Within {
    Net     *other;
    RpTrace *trace;
    int      n;
} Within;

static void use_the_library(const RpTraceEvent *e, void *user) {
    Within  *w = user;
    RpTrace *t;
    if (e->kind != RP_TRACE_STEP) return;
    w->n++;
    OK(rp_executor_run(w->other->e));
    REFUSED(rp_trace_open(&(RpTraceOptions){.start = on_start, .user = NULL}, &t), RP_E_STATE,
            "a trace is opened within a callback of a trace");
    REFUSED(rp_trace_close(w->trace), RP_E_STATE, "a trace is closed within a callback of a trace");
    REFUSED(rp_trace_end(), RP_E_STATE, "a trace is closed within a callback of a trace");
}

Test(trace, of_a_callback_that_runs_is_not_traced) {
    Net    n = new_net(2), other = new_net(1);
    Within w = {.other = &other};
    OK(rp_trace_open(&(RpTraceOptions){.end = use_the_library, .user = &w}, &w.trace));
    set_ids(&n, 5);
    set_ids(&other, 5);
    OK(rp_executor_run(n.e));
    OK(rp_trace_close(w.trace));
    cr_expect_eq(w.n, 1);
    free_net(&n);
    free_net(&other);
}

typedef struct Opener {
    Log     *log;
    RpTrace *trace;
} Opener;

static bool open_between(int64_t done, int64_t total, void *user) {
    Opener *o = user;
    (void)done, (void)total;
    if (o->trace == NULL) o->trace = open_trace(o->log);
    return true;
}

/* Without another trace the steps that follow get a run of their own. With one the late trace has only whole events. */
Test(trace, that_is_opened_within_a_run_has_whole_events) {
    RpModel   *m = golden_open_tiny("llama-mix");
    RpSession *s;
    int32_t    ids[40];
    Log       *first = new_log();
    for (int i = 0; i < 40; i++) ids[i] = 3 + i;
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = 128, .n_threads = 1, .prefill_chunk = 16, .device = "cpu"}, &s));
    for (int with = 0; with < 2; with++) {
        Opener   o = {.log = new_log()};
        RpTrace *t = with ? open_trace(first) : NULL;
        OK(rp_session_prefill(s, ids, 40, open_between, &o));
        OK(rp_trace_close(o.trace));
        OK(rp_trace_close(t));
        cr_expect_eq(count(o.log, RP_TRACE_RUN, NULL), with ? 0 : 2, CASE(with));
        cr_expect_eq(count(o.log, RP_TRACE_STEP, NULL), 2, CASE(with));
        cr_expect_eq(o.log->depth, 0, CASE(with));
        if (!with) cr_expect_eq(o.log->wrong, 0, CASE(with));
        free(o.log);
    }
    cr_expect_eq(count(first, RP_TRACE_RUN, "prefill"), 1);
    cr_expect_eq(count(first, RP_TRACE_STEP, NULL), 3);
    free(first);
    rp_session_free(s);
    rp_model_free(m);
}

Test(trace, of_a_forked_process_stays_with_its_parent) {
    char     path[] = "/tmp/reprise-trace-XXXXXX";
    Net      n      = new_net(1);
    Log     *l      = new_log();
    RpTrace *t      = open_trace(l), *file;
    close(mkstemp(path));
    OK(rp_trace_open(&(RpTraceOptions){.path = path}, &file));
    set_ids(&n, 5);
    OK(rp_executor_run(n.e));
    const int   before = l->n;
    const pid_t child  = fork();
    if (child == 0) {
        bool right =
            rp_executor_run(n.e) == RP_OK && l->n == before && rp_trace_close(t) == RP_E_STATE &&
            strstr(rp_last_error(), "a trace is closed in another process than the one that opened it") != NULL;
        exit(right ? 0 : 1); /* writes no byte of the parent's file */
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(rp_trace_close(t));
    OK(rp_trace_close(file));
    FILE *f = fopen(path, "r");
    char  line[4096];
    int   n_nodes = 0;
    while (fgets(line, sizeof line, f) != NULL) n_nodes += strstr(line, "\"cat\":\"node\"") != NULL;
    fclose(f);
    unlink(path);
    cr_expect_eq(n_nodes, rp_plan_memory(n.plan).n_steps);
    free_net(&n);
    free(l);
}

static void *run_often(void *net) {
    for (int i = 0; i < 200; i++) OK(rp_executor_run(((Net *)net)->e));
    return NULL;
}

/* Traces come and go while others run; each is balanced, and no executor waits for ever. */
Test(trace, can_be_opened_and_closed_while_threads_run) {
    Net       nets[2] = {new_net(1), new_net(2)};
    pthread_t threads[2];
    FILE     *out = fopen("/dev/null", "w");
    for (int i = 0; i < 2; i++) set_ids(&nets[i], 5);
    for (int i = 0; i < 2; i++) cr_assert_eq(pthread_create(&threads[i], NULL, run_often, &nets[i]), 0, CASE(i));
    for (int i = 0; i < 40; i++) {
        RpTrace *t;
        OK(rp_trace_open(&(RpTraceOptions){.stream = out, .most_bytes = 10000}, &t));
        OK(rp_trace_close(t));
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) free_net(&nets[i]);
    fclose(out);
}

/* ---- files ---- */

Test(trace, keeps_its_limit_and_counts_what_it_drops) {
    char    *text = NULL;
    size_t   size = 0;
    FILE    *out  = open_memstream(&text, &size);
    Net      n    = new_net(1);
    RpTrace *t;
    set_ids(&n, 5);
    OK(rp_trace_open(&(RpTraceOptions){.stream = out, .most_bytes = 3000}, &t));
    for (int i = 0; i < 100; i++) OK(rp_executor_run(n.e));
    OK(rp_trace_span(t, "request", "r1", "queue", 5, 5, NULL));
    const uint64_t dropped = rp_trace_dropped(t);
    OK(rp_trace_close(t));
    fclose(out);
    int written = 0;
    for (const char *at = text; (at = strstr(at, "\"ph\":\"X\"")) != NULL; at++) written++;
    cr_expect_lt(size, 3500u);
    cr_expect_eq((uint64_t)written + dropped, 100 * (2 + (uint64_t)rp_plan_memory(n.plan).n_steps) + 1);
    char want[64];
    snprintf(want, sizeof want, "\"dropped_events\":\"%llu\"", (unsigned long long)dropped);
    cr_expect_not_null(strstr(text, want));
    free(text);
    free_net(&n);
}

Test(trace, refuses_what_it_cannot_do) {
    char     path[] = "/tmp/reprise-trace-XXXXXX";
    RpTrace *t;
    REFUSED(rp_trace_open(&(RpTraceOptions){.user = path}, &t), RP_E_ARG,
            "a trace without a callback, a path and a stream");
    REFUSED(rp_trace_open(&(RpTraceOptions){.path = path, .stream = stdout}, &t), RP_E_ARG,
            "a trace with a path and a stream");
    REFUSED(rp_trace_open(&(RpTraceOptions){.path = "/tmp"}, &t), RP_E_ARG, "is a folder");
    FILE *f = fdopen(mkstemp(path), "w");
    fputs("GGUF, or what else is not to be lost", f);
    fclose(f);
    REFUSED(rp_trace_open(&(RpTraceOptions){.path = path}, &t), RP_E_ARG, "is no trace, and is not replaced by one");
    cr_expect_null(t);
    unlink(path);
    for (int i = 0; i < 2; i++) { /* the second replaces the first */
        OK(rp_trace_begin(path));
        REFUSED(rp_trace_begin(path), RP_E_STATE, ": the trace of the process has begun already");
        OK(rp_trace_end());
    }
    unlink(path);
    OK(rp_trace_open(&(RpTraceOptions){.path = "/dev/full"}, &t));
    REFUSED(rp_trace_span(t, "request", "r1", "queue", 6, 5, NULL), RP_E_ARG,
            "span 'queue' of a trace ends 1 ns before its start");
    REFUSED(rp_trace_close(t), RP_E_IO, "/dev/full: a trace could not be written: No space left on device");
    OK(rp_trace_open(&(RpTraceOptions){.stream = fopen("/dev/full", "w")}, &t));
    REFUSED(rp_trace_close(t), RP_E_IO, "a stream: a trace could not be written");
    OK(rp_trace_close(NULL));
    OK(rp_trace_end());
}

Test(trace, of_the_environment_begins_with_the_first_executor) {
    char path[] = "/tmp/reprise-trace-XXXXXX.jsonl";
    close(mkstemps(path, 6));
    setenv("REPRISE_TRACE", "/tmp", 1);
    Net         n = {.g = rp_graph_new()};
    TensorNode *x = rp_graph_input(n.g, "x", RP_F32, NE(4, 1, 1, 1)), *y = rp_silu(n.g, x);
    OK(rp_graph_finish(n.g, &y, 1));
    OK(rp_plan_new(n.g, &n.plan));
    REFUSED(rp_executor_open(n.plan, NULL, &n.e), RP_E_ARG, "/tmp: is a folder");
    setenv("REPRISE_TRACE", path, 1);
    OK(rp_executor_open(n.plan, &(RpExecutorOptions){.n_threads = 1, .device = "cpu"}, &n.e));
    OK(rp_executor_run(n.e));
    OK(rp_trace_end());
    free_net(&n);
    FILE *f = fopen(path, "r");
    char  line[4096], want[4][16] = {"\"M\"", "\"node\"", "\"M\"", "\"step\""};
    for (int i = 0; i < 4; i++)
        cr_expect(fgets(line, sizeof line, f) != NULL && strncmp(line, "{\"ph\":\"", 7) == 0 && strstr(line, want[i]),
                  "%d: %s", i, line);
    fclose(f);
    unlink(path);
}
