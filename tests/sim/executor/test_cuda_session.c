/* Sessions on the simulated device: replies in every mode, their ends, chunks; launches and copies are counted.
 * The reference for tokens and logits is a loop over rp_session_step with the host's sampler. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "sim/device/sim.h"

#include <math.h>

enum { N_CTX = 48, N_REPLY = 12, N_PROMPT = 9 };

static const int32_t prompt[N_PROMPT] = {5, 17, 40, 8, 21, 33, 4, 44, 11};

static RpSession *open_chunks(const RpModel *m, RpExecMode mode, int32_t chunk) {
    const RpSessionOptions o = {
        .n_ctx = N_CTX, .prefill_chunk = chunk, .device = "cuda", .mode = mode, .require_graph = mode != RP_MODE_EAGER};
    RpSession *s;
    OK(rp_session_open(m, &o, &s));
    cr_assert_eq(rp_session_info(s).mode, mode, "%s", rp_session_info(s).reason);
    return s;
}

static RpSession *open_session(const RpModel *m, RpExecMode mode) { return open_chunks(m, mode, 8); }

static RpSampler *new_sampler(const RpModel *m, float temperature) {
    RpSamplerParams p = rp_sampler_defaults();
    p.temperature     = temperature;
    p.top_k           = 20;
    p.top_p           = 0.95f;
    p.repeat_penalty  = 1.1f;
    p.seed            = 5;
    RpSampler *s;
    OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &s));
    return s;
}

static RpTokenList generate(RpSession *s, RpSampler *sampler, int32_t n, RpGenerateResult *r) {
    RpTokenList             list = {0};
    const RpGenerateOptions o    = {.max_tokens = n, .ignore_end = true, .tokens = &list};
    OK(rp_generate(s, sampler, prompt, N_PROMPT, &o, r));
    return list;
}

/* The reference: tokens and last logits of a loop over rp_session_step and the host's sampler. */
static void manual_reply(const RpModel *m, float temperature, int32_t *out, float *logits) {
    RpSession *s       = open_session(m, RP_MODE_REPLAY);
    RpSampler *sampler = new_sampler(m, temperature);
    for (int i = 0; i < N_PROMPT; i++) rp_sampler_accept(sampler, prompt[i]);
    OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
    for (int i = 0; i < N_REPLY; i++) {
        OK(rp_sampler_sample(sampler, rp_session_logits(s), &out[i]));
        if (i < N_REPLY - 1) OK(rp_session_step(s, out[i]));
    }
    memcpy(logits, rp_session_logits(s), (size_t)rp_model_info(m)->n_vocab * sizeof *logits);
    rp_sampler_free(sampler);
    rp_session_free(s);
}

Test(cuda_session, replies_are_the_same_in_every_mode) {
    static const char *const names[] = {"llama-mix", "gemma3-mix", "qwen3moe-mix"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i += SIM_EACH) {
        RpModel *m = golden_open_tiny(names[i]);
        for (int hot = 0; hot < 2; hot++) {
            int32_t want[N_REPLY];
            float   logits[512];
            manual_reply(m, hot ? 0.9f : 0.0f, want, logits);
            for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) {
                RpGenerateResult r;
                RpSession       *s       = open_session(m, (RpExecMode)mode);
                RpSampler       *sampler = new_sampler(m, hot ? 0.9f : 0.0f);
                RpTokenList      list    = generate(s, sampler, N_REPLY, &r);
                cr_expect_eq(r.reason, RP_STOP_LIMIT, CASE(i, hot, mode));
                cr_assert_eq(list.n, (size_t)N_REPLY, CASE(i, hot, mode));
                cr_expect_arr_eq(list.ids, want, sizeof want, "%s, %s", names[i], rp_mode_name((RpExecMode)mode));
                cr_expect_eq(rp_session_n_past(s), N_PROMPT + N_REPLY - 1, CASE(i, hot, mode));
                cr_assert_not_null(rp_session_logits(s), CASE(i, hot, mode));
                cr_expect_arr_eq(rp_session_logits(s), logits, (size_t)rp_model_info(m)->n_vocab * sizeof *logits,
                                 "%s: logits after the reply", rp_mode_name((RpExecMode)mode));
                rp_token_list_free(&list);
                rp_sampler_free(sampler);
                rp_session_free(s);
            }
        }
        rp_model_free(m);
    }
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

/* A context from a file: the reply is that of the session that saved it, in every mode that
 * the model has. Caches and recurrent states are copied from the device and back. */
Test(cuda_session, contexts_are_saved_and_restored) {
    static const char *const names[] = {"gemma3-mix", "qwen35-mix", "deepseek2-mix"};
    char                     path[]  = "/tmp/reprise-context-XXXXXX";
    const int                file    = mkstemp(path);
    cr_assert_geq(file, 0);
    close(file);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i += SIM_EACH) {
        RpModel         *m       = golden_open_tiny(names[i]);
        RpSampler       *sampler = new_sampler(m, 0.9f);
        RpSession       *s       = open_session(m, RP_MODE_REPLAY);
        RpTokenList      context = {0}, want = {0};
        RpGenerateResult r;
        for (int k = 0; k < N_PROMPT; k++) OK(rp_token_list_push(&context, prompt[k]));
        OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
        OK(rp_session_save(s, &context, NULL, path));
        RpGenerateOptions o = {.max_tokens = N_REPLY, .ignore_end = true, .tokens = &want};
        OK(rp_generate(s, sampler, prompt, 2, &o, &r));
        rp_session_free(s);
        for (int mode = RP_MODE_EAGER; mode <= (i == 1 ? RP_MODE_REPLAY : RP_MODE_LOOP); mode++) {
            RpTokenList list = {0};
            s                = open_session(m, (RpExecMode)mode);
            o.tokens         = &list;
            rp_sampler_reset(sampler);
            OK(rp_session_restore(s, path, &context, NULL));
            OK(rp_generate(s, sampler, prompt, 2, &o, &r));
            cr_assert_eq(list.n, want.n, CASE(i, mode));
            cr_expect_arr_eq(list.ids, want.ids, want.n * sizeof *want.ids, "%s, %s", names[i],
                             rp_mode_name((RpExecMode)mode));
            rp_token_list_free(&list);
            rp_session_free(s);
        }
        rp_token_list_free(&context), rp_token_list_free(&want);
        rp_sampler_free(sampler);
        rp_model_free(m);
    }
    unlink(path);
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

/* Replay: one graph launch and 4 bytes back per token. Loop: one launch per reply of up to 128 tokens
 * and no copies back (tokens arrive in mapped memory). Nothing is captured or allocated after open (I3, I9). The host
 * samples the first token from the prefill's logits. */
Test(cuda_session, launches_one_graph_per_token_or_one_per_reply) {
    RpModel *m = golden_open_tiny("qwen3moe-mix");
    for (int mode = RP_MODE_REPLAY; mode <= RP_MODE_LOOP; mode++) {
        RpSession       *s       = open_session(m, (RpExecMode)mode);
        RpSampler       *sampler = new_sampler(m, 0.0f);
        RpTokenList      list    = {0};
        RpGenerateResult r;
        OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
        sim_stats_reset();
        OK(rp_generate(s, sampler, NULL, 0,
                       &(RpGenerateOptions){.max_tokens = N_REPLY, .ignore_end = true, .tokens = &list}, &r));
        const SimStats      n     = sim_stats();
        const unsigned long steps = N_REPLY - 1;
        cr_expect_eq(list.n, (size_t)N_REPLY, CASE(mode));
        cr_expect_eq(n.graph_launches, mode == RP_MODE_LOOP ? 1ul : steps, CASE(mode));
        cr_expect_eq(n.launch_calls, 0ul, CASE(mode));
        cr_expect_eq(n.captures + n.instantiates, 0ul, CASE(mode));
        cr_expect_eq(n.allocs, 0ul, CASE(mode));
        cr_expect_eq(n.d2h_bytes, mode == RP_MODE_LOOP ? 0ul : 4 * steps, CASE(mode));
        cr_expect_leq(n.h2d_copies, 2ul, "the step state, once a reply");
        rp_token_list_free(&list);
        rp_sampler_free(sampler);
        rp_session_free(s);
    }
    rp_model_free(m);
}

/* ---- samplers with more steps ---- */

static RpSampler *new_sampler_of(const RpModel *m, RpSamplerParams p) {
    RpSampler *s;
    p.temperature = 0.9f;
    p.top_p       = 0.95f;
    p.seed        = 5;
    OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &s));
    return s;
}

/* The tokens of a reply, token k sampled with masks[k % 2] where a mask is given. The mask is set as a grammar does it:
 * in the callback after each token, for the next one. */
typedef struct Masks {
    RpSampler      *sampler;
    const uint32_t *masks[2];
    int             n;
} Masks;

static bool next_mask(const char *text, size_t len, void *user) {
    (void)text, (void)len;
    Masks *m = user;
    m->n++;
    rp_sampler_set_mask(m->sampler, m->masks[m->n % 2]);
    return true;
}

static RpTokenList masked_reply(RpSession *s, RpSampler *sampler, const uint32_t *const masks[2], RpGenerateResult *r) {
    RpTokenList list = {0};
    Masks       m    = {
                 sampler, {masks[0], masks[1]},
                  0
    };
    const RpGenerateOptions o = {
        .max_tokens = N_REPLY, .ignore_end = true, .tokens = &list, .on_text = next_mask, .user = &m};
    OK(rp_session_rewind(s, 0));
    rp_sampler_reset(sampler);
    rp_sampler_set_mask(sampler, masks[0]);
    for (int i = 0; i < N_PROMPT; i++) rp_sampler_accept(sampler, prompt[i]);
    OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
    sim_stats_reset();
    OK(rp_generate(s, sampler, NULL, 0, &o, r));
    return list;
}

/* The reference: a loop over rp_session_step and the host's sampler, with the same masks. */
static void masked_by_hand(const RpModel *m, RpSampler *sampler, const uint32_t *const masks[2], int32_t *out) {
    RpSession *s = open_session(m, RP_MODE_REPLAY);
    rp_sampler_reset(sampler);
    for (int i = 0; i < N_PROMPT; i++) rp_sampler_accept(sampler, prompt[i]);
    OK(rp_session_prefill(s, prompt, N_PROMPT, NULL, NULL));
    for (int i = 0; i < N_REPLY; i++) {
        rp_sampler_set_mask(sampler, masks[i % 2]);
        OK(rp_sampler_sample(sampler, rp_session_logits(s), &out[i]));
        OK(rp_session_step(s, out[i]));
    }
    rp_session_free(s);
}

/* Masks take turns; one of two is none at all. A masked token is one launch of the graph, with copies of the mask and
 * of the state; nothing is captured or allocated (I3, I9). */
Test(cuda_session, samples_on_the_device_with_a_mask_and_penalties) {
    static const uint32_t even[16]    = {0x55555555u, 0x55555555u, 0x55555555u, 0x55555555u},
                          some[16]    = {0x00ff00ffu, 0x0f0f0f0fu, 0xffff0000u, 0x000fffffu};
    const uint32_t *const masks[3][2] = {
        {even, some},
        {NULL, some},
        {NULL, NULL}
    };
    RpModel        *m = golden_open_tiny("llama-mix");
    RpSamplerParams p = rp_sampler_defaults();
    p.repeat_penalty  = 1.2f;
    for (int penalties = 0; penalties < 2; penalties++) {
        p.frequency_penalty = penalties ? 0.3f : 0.0f;
        p.presence_penalty  = penalties ? 0.2f : 0.0f;
        for (int k = 0; k < 3; k++) {
            RpGenerateResult r;
            RpSampler       *sampler = new_sampler_of(m, p);
            int32_t          want[N_REPLY];
            masked_by_hand(m, sampler, masks[k], want);
            for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) {
                RpSession     *s    = open_session(m, (RpExecMode)mode);
                RpTokenList    list = masked_reply(s, sampler, masks[k], &r);
                const SimStats n    = sim_stats();
                cr_assert_null(r.host_sampling, CASE(penalties, k, mode));
                cr_assert_eq(list.n, (size_t)N_REPLY, CASE(penalties, k, mode));
                cr_assert_arr_eq(list.ids, want, sizeof want, CASE(penalties, k, mode));
                cr_expect_eq(n.captures + n.instantiates + n.allocs, 0ul, CASE(penalties, k, mode));
                if (mode == RP_MODE_REPLAY)
                    cr_expect_eq(n.graph_launches, (unsigned long)N_REPLY - 1, CASE(penalties, k));
                rp_token_list_free(&list);
                rp_session_free(s);
            }
            rp_sampler_free(sampler);
        }
    }
    rp_model_free(m);
}

static void count_observed(const RpSampledToken *t, void *user) {
    int *calls = user;
    cr_expect(t->logits != NULL && !t->forced && !t->masked);
    ++*calls;
}

static bool count_logprobs(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n_top, void *user) {
    (void)chosen, (void)top;
    *(int *)user += n_top == 2;
    return true;
}

/* What the device cannot do is sampled on the host from logits that are copied, and the result says why (I10). */
Test(cuda_session, says_why_the_host_samples) {
    RpModel         *m = golden_open_tiny("llama-mix");
    RpSession       *s = open_session(m, RP_MODE_LOOP);
    RpSamplerParams  p = rp_sampler_defaults();
    RpGenerateResult r;
    int              calls = 0;
    p.typical_p            = 0.9f;
    p.min_keep             = 2;
    RpSampler  *sampler    = new_sampler_of(m, p);
    RpTokenList list       = generate(s, sampler, N_REPLY, &r);
    cr_expect_eq(list.n, (size_t)N_REPLY);
    cr_assert_not_null(r.host_sampling);
    cr_expect_str_eq(r.host_sampling, "typical_p, min_keep");
    rp_token_list_free(&list);
    rp_sampler_free(sampler);

    p               = rp_sampler_defaults();
    p.repeat_last_n = 2000;
    sampler         = new_sampler_of(m, p);
    OK(rp_session_rewind(s, 0));
    list = generate(s, sampler, 2, &r);
    cr_assert_not_null(r.host_sampling);
    cr_expect_str_eq(r.host_sampling, "repeat_last_n");
    rp_token_list_free(&list);
    rp_sampler_free(sampler);

    sampler = new_sampler_of(m, rp_sampler_defaults());
    OK(rp_session_rewind(s, 0));
    const RpGenerateOptions o = {
        .max_tokens = 4, .ignore_end = true, .on_logprobs = count_logprobs, .n_logprobs = 2, .user = &calls};
    OK(rp_generate(s, sampler, prompt, N_PROMPT, &o, &r));
    cr_expect_eq(calls, 4);
    cr_assert_not_null(r.host_sampling);
    cr_expect_str_eq(r.host_sampling, "log probabilities");

    OK(rp_session_rewind(s, 0));
    rp_sampler_reset(sampler);
    rp_sampler_observe(sampler, count_observed, &calls);
    list = generate(s, sampler, N_REPLY, &r);
    cr_expect_eq(calls, 4 + N_REPLY);
    cr_assert_not_null(r.host_sampling);
    cr_expect_str_eq(r.host_sampling, "an observer of the sampler");
    rp_token_list_free(&list);
    rp_sampler_free(sampler);
    rp_session_free(s);
    rp_model_free(m);
}

/* A callback cancels a reply while the loop runs on the device; the session can be used again. */
typedef struct Counter {
    int n, stop_at;
} Counter;

static bool count_calls(const char *text, size_t len, void *user) {
    Counter *c = user;
    (void)text, (void)len;
    return ++c->n < c->stop_at;
}

Test(cuda_session, a_reply_can_be_stopped_and_the_session_goes_on) {
    RpModel         *m       = golden_open_tiny("llama-mix");
    RpSession       *s       = open_session(m, RP_MODE_LOOP);
    RpSampler       *sampler = new_sampler(m, 0.0f);
    Counter          c       = {.stop_at = 4};
    RpTokenList      list    = {0}, again;
    RpGenerateResult r;
    OK(rp_generate(s, sampler, prompt, N_PROMPT,
                   &(RpGenerateOptions){.ignore_end = true, .tokens = &list, .on_text = count_calls, .user = &c}, &r));
    cr_expect_eq(r.reason, RP_STOP_CANCELLED);
    cr_expect_eq(list.n, 4u);
    cr_expect_eq(rp_session_n_past(s), N_PROMPT + 3);
    cr_expect_null(rp_session_logits(s), "the device may have run on");
    OK(rp_session_rewind(s, 0));
    rp_sampler_free(sampler);
    sampler = new_sampler(m, 0.0f);
    again   = generate(s, sampler, 4, &r);
    cr_expect_arr_eq(again.ids, list.ids, 4 * sizeof *list.ids);
    rp_token_list_free(&list);
    rp_token_list_free(&again);
    rp_sampler_free(sampler);
    rp_session_free(s);
    rp_model_free(m);
}

Test(cuda_session, a_full_context_ends_the_reply) {
    RpModel         *m       = golden_open_tiny("llama-mix");
    RpSession       *s       = open_session(m, RP_MODE_LOOP);
    RpSampler       *sampler = new_sampler(m, 0.0f);
    RpGenerateResult r;
    RpTokenList      list = generate(s, sampler, 0, &r);
    cr_expect_eq(r.reason, RP_STOP_CONTEXT);
    cr_expect_eq(rp_session_n_past(s), N_CTX);
    cr_expect_eq(list.n, (size_t)(N_CTX - N_PROMPT + 1));
    rp_token_list_free(&list);
    rp_sampler_free(sampler);
    rp_session_free(s);
    rp_model_free(m);
}

Test(cuda_session, an_end_token_ends_the_loop) {
    RpModel         *m = golden_open_tiny("llama-mix");
    RpGenerateResult r;
    RpSession       *s       = open_session(m, RP_MODE_LOOP);
    RpSamplerParams  p       = rp_sampler_defaults();
    RpTokenList      list    = {0};
    RpSampler       *sampler = NULL;
    int32_t          rounds  = 0;
    p.temperature            = 3.0f;
    OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &sampler));
    do { /* a high temperature: an end token comes soon */
        OK(rp_session_rewind(s, 0));
        list.n = 0;
        OK(rp_generate(s, sampler, prompt, N_PROMPT, &(RpGenerateOptions){.tokens = &list}, &r));
    } while (r.reason != RP_STOP_END_TOKEN && ++rounds < 20);
    cr_assert_eq(r.reason, RP_STOP_END_TOKEN);
    cr_expect(rp_tokenizer_is_end(rp_model_tokenizer(m), list.ids[list.n - 1]));
    cr_expect_eq(rp_session_n_past(s), N_PROMPT + (int32_t)list.n - 1);
    rp_token_list_free(&list);
    rp_sampler_free(sampler);
    rp_session_free(s);
    rp_model_free(m);
}

/* Single steps and chunks of up to four tokens; then chunks of more, whose products add in another order (I8): in f16
 * tiles, and in int8 as on a device of capability 8.9. */
static void check_chunks(const char *name) {
    RpModel   *m = golden_open_tiny(name);
    RpSession *a = open_chunks(m, RP_MODE_REPLAY, 4), *b = open_chunks(m, RP_MODE_EAGER, 1),
              *c = open_chunks(m, RP_MODE_REPLAY, N_PROMPT), *d = open_chunks(m, RP_MODE_EAGER, 16);
    const size_t n_vocab = (size_t)rp_model_info(m)->n_vocab, bytes = n_vocab * sizeof(float);
    for (int k = 0; k < N_PROMPT; k++) OK(rp_session_step(b, prompt[k]));
    sim_capability(8, 9);
    RpSession *e = open_chunks(m, RP_MODE_REPLAY, N_PROMPT), *f = open_chunks(m, RP_MODE_EAGER, 16);
    sim_capability(0, 0);
    RpSession *const chunks[] = {a, c, d, e, f};
    for (int k = 0; k < 5; k++) OK(rp_session_prefill(chunks[k], prompt, N_PROMPT, NULL, NULL));
    cr_expect_arr_eq(rp_session_logits(a), rp_session_logits(b), bytes, "%s: chunks of 4", name);
    cr_expect_arr_eq(rp_session_logits(d), rp_session_logits(c), bytes, "%s: a chunk of 16, 9 of them used", name);
    cr_expect_arr_eq(rp_session_logits(f), rp_session_logits(e), bytes, "%s: the same in int8", name);
    float off = 0.0f, most = 0.0f; /* the two settings are different kernels with nearly the same result */
    for (size_t k = 0; k < n_vocab; k++) {
        off  = fmaxf(off, fabsf(rp_session_logits(e)[k] - rp_session_logits(d)[k]));
        most = fmaxf(most, fabsf(rp_session_logits(d)[k]));
    }
    const char *capability = getenv("SIM_CAPABILITY"); /* PTX for 7.5 multiplies in int8 in both settings */
    const bool  f16        = capability == NULL || atoi(capability) >= 80;
    cr_expect(f16 == (off > 0.0f) && off < 0.02f * most, "%s: int8 and f16 are off by %g of %g", name, (double)off,
              (double)most);
    for (int k = 0; k < 5; k++) rp_session_free(chunks[k]);
    rp_session_free(b);
    rp_model_free(m);
}

Test(cuda_session, chunks_and_single_steps_give_the_same_bits) {
    static const char *const names[] = {"llama-mix-k", "gpt-oss-mxfp4"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i += SIM_EACH) check_chunks(names[i]);
}
