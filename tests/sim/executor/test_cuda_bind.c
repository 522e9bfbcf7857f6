/* Binding states and weights on the simulated device: which calls it takes, rollback after failures, loops; and
 * damage that verify finds. Results are compared with those before the bind. */
#include "tests/support/case.h"
#include "tests/support/decoder.h"

#include "sim/device/sim.h"

#include <math.h>

/* A bind captures and instantiates nothing (I9): it repoints every kernel node, one update each. */
Test(cuda_bind, captures_nothing_after_open) {
    RpModel            *m = decoder_synth("Q4_0", 1), *other = decoder_synth("Q4_0", 2);
    Decoder             d = decoder_open(m, RP_MODE_REPLAY, false), plan_only;
    RpExecutorStates   *states;
    const unsigned long n = (unsigned long)rp_plan_memory(d.plan).n_steps;
    decoder_plan(other, false, &plan_only);
    OK(rp_executor_states_new(d.exec, &states));
    (void)decoder_run(&d, 3, 0);
    sim_stats_reset();
    for (int i = 0; i < 3; i++) {
        OK(rp_executor_states_bind(d.exec, i % 2 == 0 ? states : NULL));
        (void)decoder_run(&d, 3, 0);
    }
    SimStats s = sim_stats();
    cr_expect_eq(s.captures + s.instantiates, 0ul);
    cr_expect_eq(s.updates, 3 * n);
    cr_expect_eq(s.graph_launches, 3ul);
    cr_expect_eq(s.launch_calls + s.allocs, 0ul);
    OK(rp_executor_weights_bind(d.exec, plan_only.plan)); /* copied to the device at the first bind */
    s = sim_stats();
    cr_expect_eq(s.allocs, 2ul, "the weights, and the pinned buffer of their upload");
    cr_expect_eq(s.updates, 4 * n);
    OK(rp_executor_weights_bind(d.exec, NULL));
    OK(rp_executor_weights_bind(d.exec, plan_only.plan));
    cr_expect_eq(sim_stats().allocs, 2ul);
    cr_expect_eq(sim_stats().captures + sim_stats().instantiates, 0ul);
    OK(rp_executor_states_bind(d.exec, NULL));
    rp_executor_states_free(states);
    decoder_close(&d);
    decoder_close(&plan_only);
    cr_expect_eq(sim_stats().live_allocs, 0L);
    rp_model_free(m);
    rp_model_free(other);
}

/* The nth `call` fails while states or weights are bound. The former ones must stay bound. */
static void check_failure(const RpModel *m, const RpModel *other, bool of_states, const char *call, unsigned nth,
                          cudaError_t with) {
    Decoder           d = decoder_open(m, RP_MODE_REPLAY, false), plan_only;
    RpExecutorStates *states;
    float             want[DECODER_VOCAB];
    decoder_plan(other, false, &plan_only);
    OK(rp_executor_states_new(d.exec, &states));
    (void)decoder_run(&d, 3, 0);
    memcpy(want, decoder_run(&d, 4, 1), d.n_vocab * sizeof *want);
    sim_fail(call, nth, with);
    const RpStatus st =
        of_states ? rp_executor_states_bind(d.exec, states) : rp_executor_weights_bind(d.exec, plan_only.plan);
    cr_expect_eq(st, with == cudaErrorMemoryAllocation ? RP_E_NOMEM : RP_E_CUDA, "%s", rp_last_error());
    cr_expect_not_null(strstr(rp_last_error(), "cuda:0"), "%s", rp_last_error());
    cr_expect_eq(sim_fails_left(), 0u);
    cr_expect_arr_eq(decoder_run(&d, 4, 1), want, d.n_vocab * sizeof *want, "%s %u", call, nth);
    if (of_states)
        OK(rp_executor_states_bind(d.exec, states));
    else
        OK(rp_executor_weights_bind(d.exec, plan_only.plan));
    cr_expect_neq(memcmp(decoder_run(&d, 4, 1), want, d.n_vocab * sizeof *want), 0);
    OK(rp_executor_states_bind(d.exec, NULL));
    rp_executor_states_free(states);
    decoder_close(&d);
    decoder_close(&plan_only);
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

Test(cuda_bind, a_failed_bind_keeps_what_was_bound) {
    RpModel *m = decoder_synth("Q4_0", 1), *other = decoder_synth("Q4_0", 2);
    for (int of_states = 0; of_states < 2; of_states++) {
        check_failure(m, other, of_states, "cudaGraphExecKernelNodeSetParams", 1, cudaErrorInvalidValue);
        check_failure(m, other, of_states, "cudaGraphExecKernelNodeSetParams", 9, cudaErrorInvalidValue);
    }
    check_failure(m, other, false, "cudaMalloc", 1, cudaErrorMemoryAllocation);
    check_failure(m, other, false, "cudaMemcpyAsync", 1, cudaErrorInvalidValue);
    check_failure(m, other, false, "cudaMemcpyAsync", 5, cudaErrorInvalidValue);
    check_failure(m, other, false, "cudaEventSynchronize", 1, cudaErrorInvalidValue);
    rp_model_free(m);
    rp_model_free(other);
}

/* The bind fails, and the rollback too. The next run repairs it, or fails as well; the run after that succeeds. */
Test(cuda_bind, a_bind_that_cannot_be_rolled_back_is_repaired_by_the_next_run) {
    RpModel          *m = golden_open_tiny("llama-q4_0");
    Decoder           d = decoder_open(m, RP_MODE_REPLAY, false);
    RpExecutorStates *states;
    float             want[DECODER_VOCAB];
    OK(rp_executor_states_new(d.exec, &states));
    (void)decoder_run(&d, 3, 0);
    memcpy(want, decoder_run(&d, 4, 1), d.n_vocab * sizeof *want);
    for (unsigned nth = 12; nth <= 14; nth++) sim_fail("cudaGraphExecKernelNodeSetParams", nth, cudaErrorInvalidValue);
    REFUSED(rp_executor_states_bind(d.exec, states), RP_E_CUDA, "new addresses of a node");
    sim_reset_faults();
    sim_fail("cudaGraphExecKernelNodeSetParams", 12, cudaErrorInvalidValue);
    sim_fail("cudaGraphExecKernelNodeSetParams", 13, cudaErrorInvalidValue);
    sim_fail("cudaGraphExecKernelNodeSetParams", 14, cudaErrorInvalidValue);
    REFUSED(rp_executor_states_bind(d.exec, states), RP_E_CUDA, "new addresses of a node");
    REFUSED(decoder_try(&d, 4, 1), RP_E_CUDA, "new addresses of a node");
    cr_expect_eq(sim_fails_left(), 0u);
    cr_expect_arr_eq(decoder_run(&d, 4, 1), want, d.n_vocab * sizeof *want);
    rp_executor_states_free(states);
    decoder_close(&d);
    rp_model_free(m);
}

Test(cuda_bind, every_allocation_of_states_may_fail) {
    RpModel          *m = golden_open_tiny("llama-q4_0");
    Decoder           d = decoder_open(m, RP_MODE_REPLAY, false);
    RpExecutorStates *states;
    const long        before = sim_stats().live_allocs;
    for (unsigned nth = 1;; nth++) {
        sim_fail("cudaMalloc", nth, cudaErrorMemoryAllocation);
        const RpStatus st = rp_executor_states_new(d.exec, &states);
        if (st == RP_OK) break;
        cr_assert_eq(st, RP_E_NOMEM, "%s", rp_last_error());
        cr_expect_null(states, CASE(nth));
        cr_expect_eq(sim_stats().live_allocs, before, CASE(nth));
    }
    cr_expect_eq(sim_fails_left(), 1u);
    cr_expect_gt(sim_stats().live_allocs, before);
    rp_executor_states_free(states);
    cr_expect_eq(sim_stats().live_allocs, before);
    decoder_close(&d);
    rp_model_free(m);
}

/* During a loop nothing else may use the device memory, in none of the executors that share it. */
Test(cuda_bind, nothing_else_runs_during_a_loop) {
    RpModel *m = golden_open_tiny("llama-q4_0");
    Decoder  d = decoder_open(m, RP_MODE_REPLAY, false), sampling;
    int32_t  words[DECODER_WORDS], token;
    float    want[DECODER_VOCAB], x;
    decoder_plan(m, true, &sampling);
    OK(rp_executor_open(sampling.plan,
                        &(RpExecutorOptions){.share = d.exec, .step = sampling.step, .require_graph = true},
                        &sampling.exec));
    cr_assert_eq(rp_executor_info(sampling.exec).mode, RP_MODE_LOOP);
    memcpy(want, decoder_run(&d, 3, 0), d.n_vocab * sizeof *want);
    decoder_step(words, 9, 0);
    OK(rp_executor_reply_begin(
        sampling.exec,
        &(RpReplyOptions){.state = words, .n_state = DECODER_WORDS, .max_tokens = DECODER_CTX, .n_ctx = DECODER_CTX}));
    OK(rp_executor_reply_next(sampling.exec, &token));
    REFUSED(decoder_try(&d, 3, 0), RP_E_STATE, "cuda:0: a reply is under way");
    REFUSED(rp_executor_run(sampling.exec), RP_E_STATE, "a reply is under way");
    REFUSED(rp_executor_poison(d.exec), RP_E_STATE, "a reply is under way");
    REFUSED(rp_executor_get(d.exec, rp_graph_find(d.graph, "logits"), &x, sizeof x), RP_E_STATE,
            "a reply is under way");
    REFUSED(rp_executor_states_bind(d.exec, NULL), RP_E_STATE, "a reply is under way");
    OK(rp_executor_reply_next(sampling.exec, &token));
    OK(rp_executor_reply_end(sampling.exec, NULL));
    cr_expect_arr_eq(decoder_run(&d, 3, 0), want, d.n_vocab * sizeof *want);
    decoder_close(&sampling);
    decoder_close(&d);
    cr_expect_eq(sim_stats().live_allocs, 0L);
    rp_model_free(m);
}

/* Nodes of the loop keep their addresses, so with other memory bound a reply is replayed: the executor says so
 * (I10). */
Test(cuda_bind, a_loop_that_is_not_used_is_not_reported) {
    RpModel          *m = decoder_synth("Q4_0", 1), *other = decoder_synth("Q4_0", 2);
    Decoder           d = decoder_open(m, RP_MODE_LOOP, true), plan_only;
    RpExecutorStates *states;
    int32_t           tokens[4];
    decoder_plan(other, true, &plan_only);
    OK(rp_executor_states_new(d.exec, &states));
    for (int of_states = 0; of_states < 2; of_states++) {
        cr_expect_eq(rp_executor_info(d.exec).mode, RP_MODE_LOOP, CASE(of_states));
        cr_expect_str_eq(rp_executor_info(d.exec).reason, "", CASE(of_states));
        OK(of_states ? rp_executor_states_bind(d.exec, states) : rp_executor_weights_bind(d.exec, plan_only.plan));
        const RpExecutorInfo info = rp_executor_info(d.exec);
        cr_expect_eq(info.mode, RP_MODE_REPLAY, CASE(of_states));
        cr_expect_not_null(strstr(info.reason, "replay instead of loop: other states or weights are bound"), "%s",
                           info.reason);
        sim_stats_reset();
        OK(decoder_reply(&d, 9, 4, tokens));
        cr_expect_eq(sim_stats().graph_launches, 4ul, CASE(of_states));
        cr_expect_eq(sim_stats().while_iters, 0ul, CASE(of_states));
        OK(of_states ? rp_executor_states_bind(d.exec, NULL) : rp_executor_weights_bind(d.exec, NULL));
    }
    cr_expect_eq(rp_executor_info(d.exec).mode, RP_MODE_LOOP);
    sim_stats_reset();
    OK(decoder_reply(&d, 9, 4, tokens));
    cr_expect_eq(sim_stats().graph_launches, 1ul);
    rp_executor_states_free(states);
    decoder_close(&d);
    decoder_close(&plan_only);
    rp_model_free(m);
    rp_model_free(other);
}

/* A stop request ends a loop within two tokens, long before its limit. */
Test(cuda_bind, a_loop_stops_on_request_and_at_the_end_of_the_context) {
    RpModel    *m = golden_open_tiny("llama-q4_0");
    Decoder     d = decoder_open(m, RP_MODE_LOOP, true);
    int32_t     words[DECODER_WORDS], token, want[DECODER_CTX];
    RpStepState s;
    bool        ran_on = false;
    OK(decoder_reply(&d, 9, DECODER_CTX, want));
    for (int round = 0; round < 3; round++) { /* tokens of the last round are still in the ring, and must be ignored */
        decoder_step(words, 9, 0);
        OK(rp_executor_reply_begin(
            d.exec,
            &(RpReplyOptions){.state = words, .n_state = DECODER_WORDS, .max_tokens = 10000, .n_ctx = DECODER_CTX}));
        for (int i = 0; i < 2; i++) {
            OK(rp_executor_reply_next(d.exec, &token));
            cr_expect_eq(token, want[i], CASE(round, i));
        }
        OK(rp_executor_reply_end(d.exec, &ran_on));
        cr_expect(ran_on, CASE(round));
        OK(rp_executor_get(d.exec, d.step, &s, sizeof s));
        cr_expect(s.pos >= 2 && s.pos <= 4, "%d tokens were run", s.pos);
    }
    /* The end of the context ends it too. */
    decoder_step(words, 9, 0);
    OK(rp_executor_reply_begin(
        d.exec,
        &(RpReplyOptions){.state = words, .n_state = DECODER_WORDS, .max_tokens = 10000, .n_ctx = DECODER_CTX - 4}));
    for (int i = 0; i < DECODER_CTX - 4; i++) OK(rp_executor_reply_next(d.exec, &token));
    OK(rp_executor_reply_end(d.exec, &ran_on));
    cr_expect(!ran_on);
    OK(rp_executor_get(d.exec, d.step, &s, sizeof s));
    cr_expect_eq(s.pos, DECODER_CTX - 4);
    decoder_close(&d);
    rp_model_free(m);
}

/* ---- a wrong result ---- */

typedef struct Differing {
    int               n, n_wrong;
    char              first[64];
    const TensorNode *last; /* a node is visited again for each source that it writes */
} Differing;

static bool find_wrong(const TensorNode *node, const RpTensorView *view, const void *got, const void *want,
                       void *user) {
    Differing   *d = user;
    const float *a = got, *b = want;
    double       off = 0.0, top = 0.0;
    for (size_t i = 0; view->dtype == RP_F32 && i < rp_view_extent_bytes(view) / 4; i++) {
        if (memcmp(&a[i], &b[i], 4) == 0 || !isfinite(b[i])) continue;
        off = fmax(off, fabs((double)a[i] - (double)b[i]));
        top = fmax(top, fabs((double)b[i]));
    }
    if (off > 1e-3 * top && d->n_wrong++ == 0) snprintf(d->first, sizeof d->first, "%s", rp_node_name(node));
    d->n += node != d->last;
    d->last = node;
    return true;
}

/* The weights in the file are changed after they were copied to the device. Only the step that reads them may
 * differ, because verify gives every step the device's sources. */
Test(cuda_bind, verify_names_the_step_whose_weights_were_damaged) {
    size_t      n;
    RpModel    *m;
    RpGgufFile *f;
    char       *data   = golden_read_tiny("llama-f32", &n);
    Differing   before = {0}, after = {0};
    OK(rp_model_open_memory(data, n, "m.gguf", &m));
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_REPLAY; mode++) {
        Decoder d = decoder_open(m, (RpExecMode)mode, false);
        before = after = (Differing){0};
        (void)decoder_run(&d, 3, 0);
        OK(rp_executor_verify(d.exec, find_wrong, &before));
        cr_expect_eq(before.n_wrong, 0, "%s", before.first);
        OK(rp_gguf_open_memory(data, n, "m.gguf", &f));
        const RpGgufTensor *t = rp_gguf_find_tensor(f, "blk.1.ffn_down.weight");
        cr_assert_not_null(t, CASE(mode));
        float *w = t->view.data, kept = w[5];
        w[5] += 3.0f;
        OK(rp_executor_verify(d.exec, find_wrong, &after));
        w[5] = kept;
        rp_gguf_close(f);
        cr_expect_eq(after.n, rp_plan_memory(d.plan).n_steps, CASE(mode));
        cr_expect_eq(after.n_wrong, 1, CASE(mode));
        cr_log_info("wrong: '%s'", after.first);
        decoder_close(&d);
    }
    rp_model_free(m);
    free(data);
}
