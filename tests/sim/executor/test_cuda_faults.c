/* Sessions on a simulated device that fails: graphs that cannot be made, memory that runs out, calls that fail
 * once, a device that is lost, NaN logits. Every fallback must give its reason (I10), and after a failure the next
 * reply must have the tokens and logits of a healthy device. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "sim/device/sim.h"
#include "tests/support/hang.h"

#include <math.h>

enum { N_CTX = 24, N_REPLY = 5, N_PROMPT = 6, CHUNK = 4, N_RUNNERS = 3, MAX_VOCAB = 128 };

static const int32_t prompt[N_PROMPT] = {5, 17, 40, 8, 21, 33};

static RpModel *open_tiny(void) {
    RpModel *m = golden_open_tiny("llama-q4_0");
    cr_assert_leq(rp_model_info(m)->n_vocab, (int32_t)MAX_VOCAB);
    return m;
}

static RpSessionOptions options(RpExecMode mode, bool require_graph) {
    return (RpSessionOptions){
        .n_ctx = N_CTX, .prefill_chunk = CHUNK, .device = "cuda", .mode = mode, .require_graph = require_graph};
}

static RpSampler *new_sampler(const RpModel *m) {
    RpSamplerParams p = rp_sampler_defaults();
    RpSampler      *s;
    p.temperature = 0.8f;
    p.seed        = 3;
    OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &s));
    return s;
}

static RpStatus generate(RpSession *s, int32_t n, RpTokenList *list) {
    RpGenerateResult        r;
    const RpGenerateOptions o       = {.max_tokens = n, .ignore_end = true, .tokens = list};
    RpSampler              *sampler = new_sampler(rp_session_model(s));
    const RpStatus          st      = rp_generate(s, sampler, prompt, N_PROMPT, &o, &r);
    rp_sampler_free(sampler);
    return st;
}

/* The tokens of a reply, and the logits after it. */
typedef struct Decoded {
    int32_t ids[N_REPLY];
    float   logits[MAX_VOCAB];
} Decoded;

static Decoded decode(RpSession *s) {
    Decoded     d    = {0};
    RpTokenList list = {0};
    OK(rp_session_rewind(s, 0));
    OK(generate(s, N_REPLY, &list));
    cr_assert_eq(list.n, (size_t)N_REPLY);
    memcpy(d.ids, list.ids, sizeof d.ids);
    rp_token_list_free(&list);
    cr_assert_not_null(rp_session_logits(s));
    memcpy(d.logits, rp_session_logits(s), (size_t)rp_model_info(rp_session_model(s))->n_vocab * sizeof(float));
    return d;
}

static Decoded decode_healthy(const RpModel *m) {
    RpSession             *s;
    const RpSessionOptions o = options(RP_MODE_LOOP, true);
    OK(rp_session_open(m, &o, &s));
    cr_assert_eq(rp_session_info(s).mode, RP_MODE_LOOP);
    cr_assert_str_eq(rp_session_info(s).reason, "");
    const Decoded d = decode(s);
    rp_session_free(s);
    cr_assert_eq(sim_stats().live_allocs, 0L);
    return d;
}

#define EXPECT_DECODES(s, want)                                                                                        \
    do {                                                                                                               \
        const Decoded got_ = decode(s);                                                                                \
        cr_expect_arr_eq(&got_, &(want), sizeof got_);                                                                 \
    } while (0)

/* ---- graphs that cannot be made ---- */

/* Opens a session while the nth `call` fails. It runs in a lesser mode and gives the reason; with require_graph
 * it does not open. */
static void check_fallback(const RpModel *m, const Decoded *want, const char *call, unsigned nth, RpExecMode mode,
                           const char *reason) {
    RpSession       *s;
    RpSessionOptions o = options(RP_MODE_LOOP, false);
    sim_fail(call, nth, cudaErrorNotSupported);
    OK(rp_session_open(m, &o, &s));
    cr_expect_eq(sim_fails_left(), 0u, "%s %u was not called", call, nth);
    cr_expect_eq(rp_session_info(s).mode, mode, "%s %u: %s", call, nth, rp_mode_name(rp_session_info(s).mode));
    cr_expect_not_null(strstr(rp_session_info(s).reason, reason), "%s %u: \"%s\" does not say \"%s\"", call, nth,
                       rp_session_info(s).reason, reason);
    cr_expect_not_null(strstr(rp_session_info(s).reason, cudaGetErrorString(cudaErrorNotSupported)), "%s %u: \"%s\"",
                       call, nth, rp_session_info(s).reason);
    EXPECT_DECODES(s, *want);
    rp_session_free(s);
    cr_expect_eq(sim_stats().live_allocs, 0L, "%s %u", call, nth);

    o.require_graph = true;
    sim_fail(call, nth, cudaErrorNotSupported);
    REFUSED(rp_session_open(m, &o, &s), RP_E_CUDA, cudaGetErrorString(cudaErrorNotSupported));
    cr_expect_not_null(strstr(rp_last_error(), "cuda:0"), "%s", rp_last_error());
    cr_expect_eq(sim_stats().live_allocs, 0L, "%s %u", call, nth);
}

/* Six captures at open: plans of 4, 2 and 1 tokens, the plan of one token that samples, that plan without its sampler,
 * and again as a loop. plan and loop: how the message names what failed; loop NULL: the call is not made for the
 * loop. */
static void check_each_plan(const RpModel *m, const Decoded *want, const char *call, const char *plan,
                            const char *loop) {
    char reason[128];
    snprintf(reason, sizeof reason, "prefill of 4 tokens: eager instead of replay: cuda:0: %s", plan);
    check_fallback(m, want, call, 1, RP_MODE_LOOP, reason);
    snprintf(reason, sizeof reason, "prefill of 2 tokens: eager instead of replay: cuda:0: %s", plan);
    check_fallback(m, want, call, 2, RP_MODE_LOOP, reason);
    snprintf(reason, sizeof reason, "prefill of 1 token: eager instead of replay: cuda:0: %s", plan);
    check_fallback(m, want, call, 3, RP_MODE_LOOP, reason);
    snprintf(reason, sizeof reason, "eager instead of replay: cuda:0: %s", plan);
    check_fallback(m, want, call, 4, RP_MODE_EAGER, reason);
    check_fallback(m, want, call, 5, RP_MODE_EAGER, reason);
    snprintf(reason, sizeof reason, "replay instead of loop: cuda:0: %s", loop);
    if (loop != NULL) check_fallback(m, want, call, 6, RP_MODE_REPLAY, reason);
}

/* With PDL, a capture that fails is tried once more without (test_cuda_overlap.c). */
static void without_pdl(void) { cr_assert_eq(setenv("REPRISE_PDL", "off", 1), 0); }

Test(cuda_faults, a_failed_capture_falls_back_to_a_lesser_mode_with_a_reason) {
    without_pdl();
    RpModel      *m    = open_tiny();
    const Decoded want = decode_healthy(m);
    check_each_plan(m, &want, "cudaStreamBeginCapture", "begin of the capture", NULL);
    check_each_plan(m, &want, "cudaStreamEndCapture", "end of the capture", "end of the loop's capture");
    check_each_plan(m, &want, "cudaGraphInstantiate", "instantiation of the graph", "instantiation of the loop");
    check_each_plan(m, &want, "cudaGraphUpload", "upload of the graph", "upload of the loop");
    check_fallback(m, &want, "cudaStreamBeginCaptureToGraph", 1, RP_MODE_REPLAY,
                   "replay instead of loop: cuda:0: begin of the loop's capture");
    check_fallback(m, &want, "cudaGraphAddNode", 1, RP_MODE_REPLAY, "replay instead of loop: cuda:0: loop");
    rp_model_free(m);
}

/* Kernel launches at open: all; those of the prefill chunks; those of the plan of one token. With sampling that plan
 * has one more, since `sample` is two kernels; without its sampler one less; the loop has another one. */
typedef struct Launches {
    unsigned all, chunk, token;
} Launches;

static Launches launches_of(const RpModel *m) {
    const RpSessionOptions o = options(RP_MODE_LOOP, false);
    RpSession             *s;
    sim_stats_reset();
    OK(rp_session_open(m, &o, &s));
    Launches l = {.all   = (unsigned)sim_stats().launch_calls,
                  .token = (unsigned)rp_plan_memory(rp_session_decode_plan(s)).n_steps};
    rp_session_free(s);
    cr_assert_gt(l.all, 5 * l.token);
    l.chunk = l.all - 4 * l.token - 2;
    return l;
}

/* A failed launch invalidates the capture. It must still be ended, and the device is not lost. */
Test(cuda_faults, a_failed_launch_during_a_capture_ends_the_capture) {
    without_pdl();
    static const char launch[] = "cudaLaunchKernelExC", token[] = "prefill of 1 token: eager instead of replay";
    RpModel          *m    = open_tiny();
    const Decoded     want = decode_healthy(m);
    const Launches    n    = launches_of(m);
    check_fallback(m, &want, launch, 1, RP_MODE_LOOP, "prefill of 4 tokens: eager instead of replay");
    check_fallback(m, &want, launch, n.chunk + 1, RP_MODE_LOOP, token);
    check_fallback(m, &want, launch, n.chunk + n.token, RP_MODE_LOOP, token);
    check_fallback(m, &want, launch, n.chunk + 2 * n.token + 1, RP_MODE_EAGER, "eager instead of replay");
    check_fallback(m, &want, launch, n.chunk + 2 * n.token + 2, RP_MODE_EAGER, "eager instead of replay");
    check_fallback(m, &want, launch, n.all - n.token, RP_MODE_REPLAY, "replay instead of loop");
    check_fallback(m, &want, launch, n.all, RP_MODE_REPLAY, "replay instead of loop");
    rp_model_free(m);
}

/* ---- memory ---- */

Test(cuda_faults, every_allocation_at_open_may_fail) {
    static const char *const calls[] = {"cudaMalloc", "cudaMallocHost", "cudaHostAlloc"};
    RpModel                 *m       = open_tiny();
    const Decoded            want    = decode_healthy(m);
    const RpSessionOptions   o       = options(RP_MODE_LOOP, true);
    RpSession               *s;
    int                      n_failed = 0;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        for (unsigned nth = 1;; nth++) {
            sim_fail(calls[i], nth, cudaErrorMemoryAllocation);
            const RpStatus st   = rp_session_open(m, &o, &s);
            const bool     over = sim_fails_left() > 0;
            sim_reset_faults();
            if (over) {
                cr_assert_eq(st, RP_OK, "%s", rp_last_error());
                EXPECT_DECODES(s, want);
                rp_session_free(s);
                break;
            }
            n_failed++;
            cr_assert_eq(st, RP_E_NOMEM, "%s %u: %s", calls[i], nth, rp_last_error());
            cr_expect_null(s, CASE(i, nth));
            cr_expect_not_null(strstr(rp_last_error(), "cuda:0"), "%s", rp_last_error());
            cr_expect_eq(sim_stats().live_allocs, 0L, "%s %u", calls[i], nth);
        }
    cr_expect_gt(n_failed, 8);
    rp_model_free(m);
}

/* The smallest device memory with which a session opens. Refusals must come before weights are copied. */
static size_t least_memory(const RpModel *m, const RpSessionOptions *o) {
    size_t     low = 0, high = (size_t)1 << 28;
    RpSession *s;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        sim_device_memory(middle);
        sim_stats_reset();
        const RpStatus st = rp_session_open(m, o, &s);
        if (st == RP_OK) {
            rp_session_free(s);
            high = middle;
            continue;
        }
        cr_assert_eq(st, RP_E_NOMEM, "%s", rp_last_error());
        cr_expect_eq(sim_stats().h2d_bytes, 0ul, "with %zu bytes of memory: %s", middle, rp_last_error());
        cr_expect_not_null(strstr(rp_last_error(), "tokens would fit"), "%s", rp_last_error());
        cr_expect_eq(sim_stats().live_allocs, 0L, "with %zu bytes of memory", middle);
        low = middle;
    }
    return high;
}

Test(cuda_faults, a_device_that_is_too_small_is_refused_before_weights_are_copied) {
    RpModel         *m = open_tiny();
    RpSession       *s;
    RpSessionOptions o    = options(RP_MODE_LOOP, true);
    o.n_ctx               = 64;
    const size_t large    = least_memory(m, &o);
    o.n_ctx               = 16;
    const size_t    small = least_memory(m, &o);
    RpSessionMemory memory;
    OK(rp_session_memory(m, &o, &memory));
    cr_expect_lt(small, large);
    cr_expect_gt(small, memory.total);

    sim_device_memory(small);
    o.n_ctx = 64;
    sim_stats_reset();
    REFUSED(rp_session_open(m, &o, &s), RP_E_NOMEM, "a context of 64 tokens takes");
    long long fit = -1;
    sscanf(strstr(rp_last_error(), "about ") != NULL ? strstr(rp_last_error(), "about ") : "", "about %lld", &fit);
    cr_expect(fit >= 1 && fit < 64, "%s", rp_last_error());
    cr_expect_eq(sim_stats().h2d_bytes, 0ul);
    cr_expect_eq(sim_stats().allocs, 0ul);
    o.n_ctx = 16;
    OK(rp_session_open(m, &o, &s));
    OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
    rp_session_free(s);
    rp_model_free(m);
}

/* ---- failures of one call ---- */

/* The nth `call` fails in a step after the prompt. Repeating the step must give the bits of a healthy session. */
static void check_step(const RpModel *m, RpExecMode mode, const char *call, unsigned nth) {
    const RpSessionOptions o = options(mode, mode != RP_MODE_EAGER);
    RpSession             *s, *healthy;
    const size_t           bytes = (size_t)rp_model_info(m)->n_vocab * sizeof(float);
    OK(rp_session_open(m, &o, &s));
    OK(rp_session_open(m, &o, &healthy));
    OK(rp_session_prefill(healthy, prompt, N_PROMPT, NULL, NULL));
    OK(rp_session_step(healthy, 7));
    OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
    sim_fail(call, nth, cudaErrorInvalidValue);
    REFUSED(rp_session_step(s, 7), RP_E_CUDA, cudaGetErrorString(cudaErrorInvalidValue));
    cr_expect_eq(sim_fails_left(), 0u);
    cr_expect_not_null(strstr(rp_last_error(), "cuda:0"), "%s", rp_last_error());
    cr_expect_eq(rp_session_n_past(s), N_PROMPT);
    cr_expect_null(rp_session_logits(s));
    OK(rp_session_step(s, 7));
    cr_expect_eq(rp_session_n_past(s), N_PROMPT + 1);
    cr_expect_arr_eq(rp_session_logits(s), rp_session_logits(healthy), bytes, "%s, %s %u", rp_mode_name(mode), call,
                     nth);
    rp_session_free(s);
    rp_session_free(healthy);
}

Test(cuda_faults, a_run_that_fails_once_can_be_repeated) {
    RpModel *m = open_tiny();
    check_step(m, RP_MODE_EAGER, "cudaLaunchKernelExC", 1);
    check_step(m, RP_MODE_EAGER, "cudaLaunchKernelExC", 7);
    check_step(m, RP_MODE_EAGER, "cudaMemcpyAsync", 1);
    check_step(m, RP_MODE_EAGER, "cudaMemcpyAsync", 2);
    check_step(m, RP_MODE_EAGER, "cudaStreamSynchronize", 1);
    check_step(m, RP_MODE_REPLAY, "cudaGraphLaunch", 1);
    check_step(m, RP_MODE_REPLAY, "cudaStreamSynchronize", 1);
    check_step(m, RP_MODE_REPLAY, "cudaSetDevice", 1);
    rp_model_free(m);
}

/* The nth `call` fails during a reply. The reply can be repeated with the same tokens; the failed one leaves no
 * logits. */
static void check_reply(const RpModel *m, const Decoded *want, RpExecMode mode, const char *call, unsigned nth) {
    const RpSessionOptions o    = options(mode, true);
    RpTokenList            list = {0};
    RpSession             *s;
    OK(rp_session_open(m, &o, &s));
    EXPECT_DECODES(s, *want);
    OK(rp_session_rewind(s, 0));
    OK(rp_session_prefill(s, prompt, 1, NULL, NULL));
    OK(rp_session_rewind(s, 0));
    sim_fail(call, nth, cudaErrorInvalidValue);
    REFUSED(generate(s, N_CTX - N_PROMPT, &list), RP_E_CUDA, cudaGetErrorString(cudaErrorInvalidValue));
    cr_expect_eq(sim_fails_left(), 0u);
    cr_expect(rp_session_n_past(s) >= N_PROMPT && rp_session_n_past(s) < N_CTX);
    cr_expect_eq((int32_t)list.n, rp_session_n_past(s) - N_PROMPT + 1);
    if (list.n >= N_REPLY) cr_expect_arr_eq(list.ids, want->ids, sizeof want->ids);
    if (rp_session_logits(s) != NULL) /* those of the prompt, if the reply had not begun */
        cr_expect(mode == RP_MODE_LOOP && list.n == 1, "%s, %s %u: logits of a run that failed", rp_mode_name(mode),
                  call, nth);
    EXPECT_DECODES(s, *want);
    EXPECT_DECODES(s, *want);
    rp_token_list_free(&list);
    rp_session_free(s);
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

Test(cuda_faults, a_reply_that_fails_once_can_be_repeated) {
    RpModel      *m    = open_tiny();
    const Decoded want = decode_healthy(m);
    end_if_it_hangs();
    /* The prompt takes two launches: a chunk of 4 tokens, and the rest. */
    check_reply(m, &want, RP_MODE_REPLAY, "cudaGraphLaunch", 6);
    check_reply(m, &want, RP_MODE_REPLAY, "cudaStreamSynchronize", 7);
    check_reply(m, &want, RP_MODE_LOOP, "cudaGraphLaunch", 3);
    check_reply(m, &want, RP_MODE_LOOP, "cudaMemcpyAsync", 2);
    /* The host gives up while the loop runs: the loop is stopped, and its tokens must not appear in the next
     * reply. */
    check_reply(m, &want, RP_MODE_LOOP, "cudaStreamQuery", 2);
    check_reply(m, &want, RP_MODE_LOOP, "cudaStreamQuery", 5);
    rp_model_free(m);
}

/* ---- a lost device ---- */

/* Every further call fails and names the first failure; the context keeps its tokens. */
static void check_lost(RpSession *s, int32_t n_low, int32_t n_high) {
    static const char again[] = "cuda:0 has failed before (";
    RpTokenList       list    = {0};
    const int32_t     n_past  = rp_session_n_past(s);
    cr_expect(n_past >= n_low && n_past <= n_high, "%d tokens", n_past);
    cr_expect_null(rp_session_logits(s));
    REFUSED(rp_session_step(s, 1), RP_E_CUDA, again);
    REFUSED(rp_session_prefill(s, prompt, 2, NULL, NULL), RP_E_CUDA, again);
    REFUSED(generate(s, 3, &list), RP_E_CUDA, again);
    cr_expect_eq(rp_session_n_past(s), n_past);
    rp_token_list_free(&list);
    rp_session_free(s);
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

static const cudaError_t fatal[] = {cudaErrorIllegalAddress, cudaErrorECCUncorrectable, cudaErrorLaunchFailure};

static void expect_named(cudaError_t e) {
    cr_expect_not_null(strstr(rp_last_error(), "cuda:0: "), "%s", rp_last_error());
    cr_expect_not_null(strstr(rp_last_error(), cudaGetErrorString(e)), "%s", rp_last_error());
}

Test(cuda_faults, a_lost_device_is_reported_by_every_call) {
    RpModel *m = open_tiny();
    end_if_it_hangs();
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
        for (int mode = RP_MODE_EAGER; mode <= RP_MODE_REPLAY; mode++)
            for (int prefill = 0; prefill < 2; prefill++) {
                const RpSessionOptions o = options((RpExecMode)mode, mode != RP_MODE_EAGER);
                RpSession             *s;
                OK(rp_session_open(m, &o, &s));
                OK(rp_session_prefill(s, prompt, 3, NULL, NULL));
                sim_fault(5, fatal[i]);
                const RpStatus st =
                    prefill ? rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL) : rp_session_step(s, 9);
                cr_assert_eq(st, RP_E_CUDA, "%s", rp_last_error());
                expect_named(fatal[i]);
                check_lost(s, 3, 3);
                sim_reset_faults();
            }
    rp_model_free(m);
}

Test(cuda_faults, a_device_lost_during_a_reply_ends_it) {
    RpModel       *m    = open_tiny();
    const Decoded  want = decode_healthy(m);
    const Launches n    = launches_of(m);
    end_if_it_hangs();
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++)
        for (unsigned nth = 1; nth < 60; nth += 19) {
            const RpSessionOptions o    = options((RpExecMode)mode, mode != RP_MODE_EAGER);
            RpTokenList            list = {0};
            RpSession             *s;
            OK(rp_session_open(m, &o, &s));
            sim_fault(n.chunk + n.token + 2 * (N_PROMPT - CHUNK - 1) + nth, cudaErrorIllegalAddress);
            cr_assert_eq(generate(s, 0, &list), RP_E_CUDA, "%s", rp_last_error());
            expect_named(cudaErrorIllegalAddress);
            if (list.n >= N_REPLY) cr_expect_arr_eq(list.ids, want.ids, sizeof want.ids, CASE(mode, nth));
            cr_expect(list.n == 0 || rp_session_n_past(s) == N_PROMPT + (int32_t)list.n - 1, CASE(mode, nth));
            check_lost(s, CHUNK, N_CTX - 1);
            rp_token_list_free(&list);
            sim_reset_faults();
        }
    /* With a healthy device the process works again. */
    const Decoded again = decode_healthy(m);
    cr_expect_arr_eq(&again, &want, sizeof want);
    rp_model_free(m);
}

Test(cuda_faults, a_device_lost_at_open_is_an_error) {
    RpModel               *m = open_tiny();
    const RpSessionOptions o = options(RP_MODE_LOOP, false);
    RpSession             *s;
    sim_fail("cudaGraphInstantiate", 1, cudaErrorECCUncorrectable);
    sim_fail("cudaStreamQuery", 1, cudaErrorECCUncorrectable);
    REFUSED(rp_session_open(m, &o, &s), RP_E_CUDA, cudaGetErrorString(cudaErrorECCUncorrectable));
    cr_expect_eq(sim_stats().live_allocs, 0L);
    rp_model_free(m);
}

/* ---- NaN logits ---- */

static void fill_with_nan(char *data, size_t n, const char *name) {
    RpGgufFile *f;
    OK(rp_gguf_open_memory(data, n, "m.gguf", &f));
    const RpGgufTensor *t = rp_gguf_find_tensor(f, name);
    cr_assert_not_null(t);
    for (int64_t r = 0; r < rp_view_rows(&t->view);
         r++) { /* a vector entirely; of a matrix the rows that are not in the prompt */
        bool in_prompt = false;
        for (int i = 0; i < N_PROMPT; i++) in_prompt |= rp_view_rows(&t->view) > 1 && prompt[i] == r;
        if (!in_prompt) memset(rp_view_row(&t->view, r), 0xff, (size_t)t->view.ne[0] * sizeof(float));
    }
    rp_gguf_close(f);
}

/* n_sampled tokens are sampled before all logits are NaN. The context must be the same in every mode. */
static void check_nan(RpExecMode mode, const char *device, const char *tensor, size_t n_sampled) {
    size_t           n;
    RpModel         *m;
    RpSession       *s;
    char            *data = golden_read_tiny("llama-f32", &n);
    RpTokenList      list = {0};
    RpSessionOptions o    = options(mode, false);
    fill_with_nan(data, n, tensor);
    OK(rp_model_open_memory(data, n, "m.gguf", &m));
    o.device    = device;
    o.n_threads = 1;
    OK(rp_session_open(m, &o, &s));
    const bool on_device = strcmp(device, "cuda") == 0 && n_sampled > 0; /* the first token is sampled on the host */
    for (int round = 0; round < 2; round++) {
        list.n = 0;
        OK(rp_session_rewind(s, 0));
        REFUSED(generate(s, 4, &list), RP_E_ARG,
                on_device ? "nothing to sample: every logit is NaN or -inf"
                          : "nothing to sample: each of the 64 logits is NaN or -inf");
        cr_expect_eq(rp_session_n_past(s), N_PROMPT + (int32_t)n_sampled, "%s", rp_mode_name(mode));
        cr_expect_eq(list.n, n_sampled, CASE(round));
    }
    OK(rp_session_rewind(s, 0));
    OK(rp_session_step(s, prompt[0]));
    cr_expect_eq(isnan(rp_session_logits(s)[0]) != 0, n_sampled == 0);
    rp_token_list_free(&list);
    rp_session_free(s);
    rp_model_free(m);
    free(data);
}

Test(cuda_faults, nan_logits_are_refused) {
    end_if_it_hangs();
    for (int at_once = 0; at_once < 2; at_once++) {
        const char  *tensor    = at_once ? "output_norm.weight" : "token_embd.weight";
        const size_t n_sampled = at_once ? 0 : 1;
        check_nan(RP_MODE_AUTO, "cpu", tensor, n_sampled);
        for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++)
            check_nan((RpExecMode)mode, "cuda", tensor, n_sampled);
    }
}
