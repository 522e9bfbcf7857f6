/* Replies that a grammar holds, on the simulated device: in engines and chats; calls that fail, other KV caches,
 * traces. */
#include "tests/sim/executor/held_model.h"
#include "tests/support/hang.h"
#include "tests/support/reply.h"

#include "base/sampling/held.h"
#include "reprise/engine.h"
#include "reprise/trace.h"

TestSuite(cuda_held_runs, .init = setup, .fini = teardown);

/* ---- engines ---- */

enum { N_SEQ = 3 };

typedef struct Held {
    RpMatcher  *matcher;
    RpSampler  *sampler;
    RpTokenList tokens;
    uint32_t    bits[N_VOCAB / 32];
    int         n_asked;
    bool        checks;
} Held;

/* The reference makes each mask when the token before is known. */
static bool mask_next(int32_t token, void *user) {
    Held *h = user;
    OK(rp_matcher_accept(h->matcher, token));
    OK(rp_matcher_mask(h->matcher, h->bits));
    return !rp_matcher_finished(h->matcher);
}

static int32_t ask(void *user) {
    Held *h = user;
    h->n_asked++;
    if (h->checks) cr_expect_eq(sim_stats().kernels, 0ul, "call %d: the step is under way", h->n_asked);
    return -1;
}

static void engine_replies(const RpGrammar *g, int32_t n_draft, bool by_hand, Held h[N_SEQ]) {
    RpEngine     *e;
    RpEngineEvent v;
    OK(rp_engine_open(model, &(RpEngineOptions){.n_ctx = N_CTX, .n_seq = N_SEQ, .device = "cuda"}, &e));
    for (int i = 0; i < N_SEQ; i++) {
        h[i] = (Held){.sampler = new_sampler(model, 1, (uint64_t)i), .checks = !by_hand && n_draft == 0};
        OK(rp_matcher_new(g, vocab, &h[i].matcher));
        OK(rp_matcher_mask(h[i].matcher, h[i].bits));
        RpRequest r = {.prompt = prompt, .n_prompt = N_PROMPT - (size_t)i, .max_tokens = N_REPLY, .n_draft = n_draft};
        r.user = r.token_user = &h[i], r.sampler = h[i].sampler;
        if (by_hand) r.on_token = mask_next, rp_sampler_set_mask(h[i].sampler, h[i].bits);
        if (!by_hand) r.matcher = h[i].matcher, r.force_token = ask;
        uint64_t id;
        OK(rp_engine_add(e, &r, &id));
    }
    while (rp_engine_pending(e) > 0) {
        sim_stats_reset();
        OK(rp_engine_step(e));
        while (rp_engine_poll(e, &v)) {
            Held *of = v.user;
            cr_expect_eq(v.status, RP_OK, "%s", v.error != NULL ? v.error : "");
            if (v.token >= 0) OK(rp_token_list_push(&of->tokens, v.token));
        }
    }
    for (int i = 0; i < N_SEQ; i++) rp_matcher_free(h[i].matcher), rp_sampler_free(h[i].sampler);
    rp_engine_free(e);
}

/* The host makes the masks of all requests while the device computes the step, and samples when it has the logits. */
Test(cuda_held_runs, an_engine_makes_masks_while_the_device_computes) {
    for (int i = 1; i < 3; i++)
        for (int32_t n_draft = 0; n_draft <= 3; n_draft += 3) {
            RpGrammar *g = grammar_of(i);
            Held       want[N_SEQ], got[N_SEQ];
            engine_replies(g, n_draft, true, want);
            engine_replies(g, n_draft, false, got);
            for (int k = 0; k < N_SEQ; k++) {
                cr_assert_eq(got[k].tokens.n, want[k].tokens.n, CASE(i, n_draft, k));
                cr_expect_arr_eq(got[k].tokens.ids, want[k].tokens.ids, want[k].tokens.n * sizeof(int32_t),
                                 CASE(i, n_draft, k));
                cr_expect_eq(got[k].n_asked, (int)got[k].tokens.n, "asked once for each token");
                rp_token_list_free(&want[k].tokens), rp_token_list_free(&got[k].tokens);
            }
            rp_grammar_free(g);
        }
}

/* ---- failures ---- */

/* The nth `call` behind the prompt fails. */
static void check_failure(RpExecMode mode, const char *call, unsigned nth) {
    RpSession *s       = open_session(model, mode);
    RpSampler *sampler = new_sampler(model, 2, 1);
    RpGrammar *g       = grammar_of(2);
    Run        want    = run(s, sampler, g, false);
    RpMatcher *m;
    OK(rp_matcher_new(g, vocab, &m));
    RpTokenList             list = {0};
    RpGenerateResult        r;
    const RpGenerateOptions o = {.max_tokens = N_REPLY, .tokens = &list, .matcher = m};
    OK(rp_session_rewind(s, 0));
    rp_sampler_reset(sampler);
    OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
    sim_fail(call, nth, cudaErrorInvalidValue);
    REFUSED(rp_generate(s, sampler, NULL, 0, &o, &r), RP_E_CUDA, cudaGetErrorString(cudaErrorInvalidValue));
    cr_expect_eq(sim_fails_left(), 0u, "%s %u", call, nth);
    cr_expect_eq(rp_session_n_past(s), N_PROMPT + (int32_t)list.n - 1, "%s %u", call, nth);
    cr_expect_arr_eq(list.ids, want.tokens.ids, list.n * sizeof(int32_t), "%s %u", call, nth);
    if (list.n > 1) cr_expect_null(rp_session_logits(s), "%s %u: logits of a run that failed", call, nth);
    Run again = run(s, sampler, g, false);
    EXPECT_SAME(again, want, "%s %u", call, nth);
    rp_token_list_free(&list), rp_token_list_free(&want.tokens), rp_token_list_free(&again.tokens);
    rp_matcher_free(m);
    rp_grammar_free(g);
    rp_sampler_free(sampler);
    rp_session_free(s);
}

Test(cuda_held_runs, a_reply_that_fails_once_can_be_repeated) {
    check_failure(RP_MODE_REPLAY, "cudaGraphLaunch", 3);
    check_failure(RP_MODE_REPLAY, "cudaMemcpyAsync", 2);
    check_failure(RP_MODE_LOOP, "cudaLaunchKernelExC", 3);
    check_failure(RP_MODE_LOOP, "cudaLaunchKernelExC", 4);
    for (unsigned nth = 1; nth < 6; nth++) check_failure(RP_MODE_LOOP, "cudaMemcpyAsync", nth);
    for (unsigned nth = 1; nth < 4; nth++) check_failure(RP_MODE_LOOP, "cudaStreamSynchronize", nth);
    check_failure(RP_MODE_LOOP, "cudaSetDevice", 4);
    check_failure(RP_MODE_EAGER, "cudaLaunchKernelExC", 40);
    check_failure(RP_MODE_EAGER, "cudaMemcpyAsync", 4);
}

static RpStatus open_watched(RpExecMode mode, RpSession **out) {
    const RpSessionOptions o = {.n_ctx = N_CTX, .prefill_chunk = 4, .device = "cuda", .mode = mode, .watchdog_s = 0.02};
    return rp_session_open(model, &o, out);
}

/* A kernel that does not end, before the sampler and in it: the failure names its node. */
Test(cuda_held_runs, a_run_that_does_not_end_names_its_node) {
    static const char *const nodes[][2] = {
        {"attention",  "node 'blk.0.attn' (attention, "},
        {"sample_max", "node 'next_token' (sample, "   }
    };
    RpGrammar *g = grammar_of(2);
    end_if_it_hangs();
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++)
        for (int i = 0; i < 2; i++) {
            RpSampler       *sampler = new_sampler(model, 1, 5);
            RpSession       *s;
            RpMatcher       *m;
            RpGenerateResult r;
            OK(open_watched((RpExecMode)mode, &s));
            OK(rp_matcher_new(g, vocab, &m));
            OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
            sim_hang(nodes[i][0], 1);
            const RpGenerateOptions o = {.max_tokens = N_REPLY, .ignore_end = true, .matcher = m};
            REFUSED(rp_generate(s, sampler, NULL, 0, &o, &r), RP_E_CUDA, nodes[i][1]);
            cr_expect_eq(rp_session_n_past(s), N_PROMPT, CASE(mode, i));
            sim_release();
            RpSession *other = NULL; /* opens when the kernel has ended, and then all can be freed */
            for (int k = 0; k < 10000 && open_watched((RpExecMode)mode, &other) != RP_OK; k++) {
            }
            cr_assert_not_null(other, "%s", rp_last_error());
            rp_session_free(other);
            rp_matcher_free(m);
            rp_session_free(s);
            rp_sampler_free(sampler);
        }
    rp_grammar_free(g);
}

/* ---- other memory ---- */

typedef struct Plan {
    ComputeGraph *graph;
    ExecPlan     *plan;
    RpExecutor   *exec;
} Plan;

static RpStatus even_tokens(void *user, int32_t *extra, size_t *n_words) {
    const RpSampleExtra e = {.masked = 1};
    ++*(int *)user;
    memcpy(extra, &e, sizeof e);
    extra[RP_SAMPLE_EXTRA_WORDS] = extra[RP_SAMPLE_EXTRA_WORDS + 1] = 0x55555555;
    *n_words                                                        = RP_SAMPLE_EXTRA_WORDS + 2;
    return RP_OK;
}

static void held_tokens(Plan *p, int32_t out[N_REPLY]) {
    int                  calls = 0;
    const RpStepState    step  = {.token = 9, .top_p = 1.0f, .repeat_penalty = 1.0f, .temperature = 1.5f};
    const RpReplyOptions o     = {
            .state = (const int32_t *)&step, .n_state = RP_STEP_WORDS, .max_tokens = N_REPLY, .n_ctx = N_CTX};
    OK(rp_executor_held_begin(p->exec, &o));
    for (int i = 0; i < N_REPLY; i++) {
        OK(rp_executor_held_next(p->exec, even_tokens, &calls, &out[i]));
        cr_expect_eq(out[i] % 2, 0, CASE(i));
    }
    REFUSED(rp_executor_held_next(p->exec, even_tokens, &calls, &out[0]), RP_E_STATE, "no reply is under way");
    cr_expect_eq(calls, N_REPLY);
    OK(rp_executor_reply_end(p->exec, NULL));
}

/* Other KV caches: the nodes of the graph before the sampler get the new addresses too. */
Test(cuda_held_runs, tokens_are_held_with_other_states) {
    Plan              p = {0};
    RpExecutorStates *states;
    int32_t           want[N_REPLY], got[N_REPLY];
    OK(rp_model_graph(model, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = N_CTX, .draws = true}, &p.graph));
    OK(rp_graph_optimize(p.graph, ""));
    OK(rp_plan_new(p.graph, &p.plan));
    const RpExecutorOptions o = {
        .device = "cuda", .require_graph = true, .step = rp_graph_find(p.graph, "step"), .mode = RP_MODE_LOOP};
    OK(rp_executor_open(p.plan, &o, &p.exec));
    held_tokens(&p, want);
    OK(rp_executor_states_new(p.exec, &states));
    OK(rp_executor_states_bind(p.exec, states));
    held_tokens(&p, got);
    cr_expect_arr_eq(got, want, sizeof want);
    /* The first states were not written to. */
    const TensorNode  *k = rp_graph_find(p.graph, "k.0");
    static uint8_t     before[1 << 16], after[1 << 16], bound[1 << 16];
    const RpTensorView v     = rp_node_view(k);
    const size_t       bytes = rp_view_extent_bytes(&v);
    cr_assert_leq(bytes, sizeof before);
    OK(rp_executor_states_bind(p.exec, NULL));
    OK(rp_executor_poison(p.exec));
    OK(rp_executor_get(p.exec, k, before, bytes));
    memset(after, 0, bytes);
    OK(rp_executor_set(p.exec, k, after, bytes));
    OK(rp_executor_states_bind(p.exec, states));
    held_tokens(&p, got);
    OK(rp_executor_get(p.exec, k, bound, bytes));
    OK(rp_executor_states_bind(p.exec, NULL));
    OK(rp_executor_get(p.exec, k, after, bytes));
    cr_expect_arr_eq(bound, before, bytes);
    for (size_t i = 0; i < bytes; i++) cr_assert_eq(after[i], 0, CASE(i));
    rp_executor_states_free(states);
    rp_executor_free(p.exec);
    rp_plan_free(p.plan);
    rp_graph_free(p.graph);
}

/* ---- traces ---- */

typedef struct Seen {
    int steps, nodes;
} Seen;

typedef struct Tracer {
    RpTrace *inner;
    Seen     seen;
    int      n;
} Tracer;

static void see(const RpTraceEvent *e, void *user) {
    Seen *s = user;
    s->steps += e->kind == RP_TRACE_STEP;
    s->nodes += e->kind == RP_TRACE_NODE;
}

/* Opens a trace in one call and closes it in the next. */
static int32_t open_and_close(void *user) {
    Tracer *t = user;
    if (t->n++ % 2 == 1) {
        OK(rp_trace_close(t->inner));
        t->inner = NULL;
    } else {
        OK(rp_trace_open(&(RpTraceOptions){.end = see, .user = &t->seen}, &t->inner));
    }
    return -1;
}

/* The callback runs within a step that is traced, and no lock is held. Eager steps have each node once. */
Test(cuda_held_runs, a_token_may_be_prepared_in_a_trace) {
    end_if_it_hangs();
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) {
        RpSession              *s       = open_session(model, (RpExecMode)mode);
        RpSampler              *sampler = new_sampler(model, 1, 5);
        Seen                    seen    = {0};
        Tracer                  t       = {0};
        RpTrace                *outer;
        RpGenerateResult        r;
        const RpGenerateOptions o = {
            .max_tokens = N_REPLY, .ignore_end = true, .force_token = open_and_close, .user = &t};
        OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
        OK(rp_trace_open(&(RpTraceOptions){.end = see, .user = &seen}, &outer));
        OK(rp_generate(s, sampler, NULL, 0, &o, &r));
        OK(rp_trace_close(outer));
        OK(rp_trace_close(t.inner));
        cr_expect_eq(t.n, N_REPLY, CASE(mode));
        cr_expect_eq(seen.steps, N_REPLY - 1, CASE(mode));
        if (mode == RP_MODE_EAGER) cr_expect_eq(seen.nodes % (N_REPLY - 1), 0, CASE(seen.nodes));
        cr_expect_eq(seen.nodes > 0, mode == RP_MODE_EAGER, CASE(mode, seen.nodes));
        rp_sampler_free(sampler);
        rp_session_free(s);
    }
}

/* ---- the demo model, whose tokenizer forces tokens ---- */

static RpModel *open_demo(void) {
    RpModel *m;
    OK(rp_model_open(RP_SOURCE_DIR "/assets/demo.gguf", NULL, &m));
    return m;
}

/* Behind forced tokens, which are one chunk, the host samples: the chunk is a plan without a sampler. */
Test(cuda_held_runs, forced_tokens_are_chunks) {
    static const char regex[] =
        "[a-z]{2,4} (the cat sat on the mat and ran|the cat sat on the mat or ran) [a-z ]{20,30}";
    RpModel         *m       = open_demo();
    RpSession       *s       = open_session(m, RP_MODE_LOOP);
    RpSampler       *sampler = new_sampler(m, 2, 1);
    const size_t     logits  = (size_t)rp_model_info(m)->n_vocab * sizeof(float);
    RpTokenList      list[2] = {{0}, {0}};
    SimStats         stats[2];
    RpGrammarVocab  *v;
    RpGrammar       *g;
    RpMatcher       *matcher;
    RpGenerateResult r;
    OK(rp_grammar_vocab_new(rp_model_tokenizer(m), &v));
    OK(rp_grammar_regex(regex, sizeof regex - 1, &g));
    OK(rp_matcher_new(g, v, &matcher));
    for (int on_host = 0; on_host < 2; on_host++) {
        rp_matcher_reset(matcher);
        rp_sampler_reset(sampler);
        rp_sampler_observe(sampler, on_host ? ignore : NULL, NULL);
        OK(rp_session_rewind(s, 0));
        OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
        sim_stats_reset();
        OK(rp_generate(s, sampler, NULL, 0, &(RpGenerateOptions){.tokens = &list[on_host], .matcher = matcher}, &r));
        stats[on_host] = sim_stats();
        cr_expect_eq(r.reason, RP_STOP_GRAMMAR, CASE(on_host));
        cr_expect_eq(rp_session_n_past(s), N_PROMPT + (int32_t)list[on_host].n - 1, CASE(on_host));
    }
    cr_assert_eq(list[0].n, list[1].n);
    cr_expect_arr_eq(list[0].ids, list[1].ids, list[0].n * sizeof(int32_t));
    const unsigned long sampled = stats[0].d2h_bytes % logits / 4, chunks = stats[0].d2h_bytes / logits;
    cr_expect_geq(sampled, 3ul);
    cr_expect_geq(chunks, 2ul);
    cr_expect_lt(sampled + chunks, list[0].n - 1, "%lu sampled, %lu chunks", sampled, chunks);
    cr_expect_eq(stats[1].d2h_bytes, (sampled + chunks) * logits, "the same runs");
    rp_token_list_free(&list[0]), rp_token_list_free(&list[1]);
    rp_matcher_free(matcher), rp_grammar_free(g), rp_grammar_vocab_free(v);
    rp_sampler_free(sampler);
    rp_session_free(s);
    rp_model_free(m);
}

#define MESSAGES "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], "
#define SCHEMA                                                                                                         \
    "{\"type\": \"object\", \"properties\": {\"exact\": {\"type\": \"boolean\"}, \"n\": {\"enum\": [1, 2, 3]}}, "      \
    "\"required\": [\"n\"], \"additionalProperties\": false}"

/* A call behind reasoning, which its budget closes; with REPRISE_TEST_EVERY_MODEL also an answer by a schema. */
Test(cuda_held_runs, chats_are_those_of_the_host) {
    static const char source[] = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools[0].type if tools }}";
    static const char *const requests[] = {
        MESSAGES "\"tools\": [{\"name\": \"sum\", \"input_schema\": " SCHEMA "}], \"tool_choice\": \"required\"}",
        MESSAGES "\"response_format\": {\"type\": \"json_schema\", \"schema\": " SCHEMA "}}"};
    RpModel        *m       = open_demo();
    RpSession      *s       = open_session(m, RP_MODE_LOOP);
    RpSampler      *sampler = new_sampler(m, 1, 2);
    RpChatTemplate *plain;
    OK(rp_chat_template_new(rp_model_tokenizer(m), "a", source, sizeof source - 1, &plain));
    for (int i = 0; i < (getenv("REPRISE_TEST_EVERY_MODEL") != NULL ? 2 : 1); i++) {
        Transcript t[2] = {0};
        for (int on_host = 0; on_host < 2; on_host++) {
            RpChatResult        r;
            const RpChatOptions o = {
                .json             = requests[i],
                .json_bytes       = strlen(requests[i]),
                .format           = {i == 0 ? "hermes" : "none", i == 0 ? "think" : "none"},
                .chat_template    = plain,
                .reasoning_budget = i == 0 ? 3 : 0,
                .on_event         = transcript_event,
                .user             = &t[on_host]
            };
            rp_sampler_reset(sampler);
            rp_sampler_observe(sampler, on_host ? ignore : NULL, NULL);
            OK(rp_session_rewind(s, 0));
            OK(rp_chat_generate(s, sampler, &o, &r));
            cr_expect_eq(r.host_sampling != NULL, on_host != 0, CASE(i, on_host));
            cr_expect_eq(r.reason, RP_STOP_GRAMMAR, CASE(i, on_host));
            cr_expect_eq(r.n_calls, i == 0, CASE(i, on_host));
        }
        cr_expect_str_eq(joined(&t[0].all), joined(&t[1].all), CASE(i));
        transcript_free(&t[0]), transcript_free(&t[1]);
    }
    rp_chat_template_free(plain);
    rp_sampler_free(sampler);
    rp_session_free(s);
    rp_model_free(m);
}
