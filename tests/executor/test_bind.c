/* One executor with other states or weights bound to it, and its reports: poison, verify, profile, launches,
 * replies. The reference is always another executor, opened for that memory. Device: REPRISE_DEVICE (CPU,
 * simulated device or GPU). */
#include "tests/support/case.h"
#include "tests/support/decoder.h"

#include <math.h>

enum { N_TOKENS = 5 };

/* ---- binding ---- */

/* Three contexts that take turns in one executor, against one executor per context. */
Test(bind, contexts_bound_in_turn_give_the_bits_of_separate_executors) {
    RpModel *m = golden_open_tiny("llama-mix");
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_REPLAY; mode++) {
        Decoder           d         = decoder_open(m, (RpExecMode)mode, false), reference[3];
        RpExecutorStates *states[3] = {NULL};
        for (int k = 0; k < 3; k++) reference[k] = decoder_open(m, (RpExecMode)mode, false);
        for (int k = 1; k < 3; k++) OK(rp_executor_states_new(d.exec, &states[k]));
        for (int i = 0; i < N_TOKENS; i++)
            for (int k = 0; k < 3; k++) {
                const int32_t token = 3 + 5 * i + 7 * k;
                OK(rp_executor_states_bind(d.exec, states[k]));
                const float *got = decoder_run(&d, token, i), *want = decoder_run(&reference[k], token, i);
                cr_expect_arr_eq(got, want, d.n_vocab * sizeof *got, "context %d, token %d", k, i);
            }
        OK(rp_executor_states_bind(d.exec, NULL));
        for (int k = 1; k < 3; k++) rp_executor_states_free(states[k]);
        for (int k = 0; k < 3; k++) decoder_close(&reference[k]);
        decoder_close(&d);
    }
    rp_model_free(m);
}

Test(bind, new_states_are_zero_and_states_of_another_executor_are_refused) {
    RpModel          *m = golden_open_tiny("llama-mix");
    Decoder           a = decoder_open(m, RP_MODE_AUTO, false), b = decoder_open(m, RP_MODE_AUTO, false);
    RpExecutorStates *states;
    OK(rp_executor_states_new(a.exec, &states));
    REFUSED(rp_executor_states_bind(b.exec, states), RP_E_ARG, "these states belong to another executor");
    OK(rp_executor_states_bind(a.exec, states));
    const TensorNode  *k     = rp_graph_find(a.graph, "k.0");
    const RpTensorView v     = rp_node_view(k);
    const size_t       bytes = rp_view_extent_bytes(&v);
    char              *got = malloc(bytes), *zero = calloc(1, bytes);
    OK(rp_executor_get(a.exec, k, got, bytes));
    cr_expect_arr_eq(got, zero, bytes);
    free(got), free(zero);
    OK(rp_executor_states_bind(a.exec, NULL));
    rp_executor_states_free(states);
    rp_executor_states_free(NULL);
    decoder_close(&a);
    decoder_close(&b);
    rp_model_free(m);
}

/* With another model's weights and separate states, an executor gives that model's bits. */
Test(bind, weights_of_another_model_give_its_bits) {
    static const char *const types[] = {"Q4_0", "F16"};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        RpModel *m[2] = {decoder_synth(types[t], 1), decoder_synth(types[t], 2)};
        for (int mode = RP_MODE_EAGER; mode <= RP_MODE_REPLAY; mode++) {
            Decoder           reference[2] = {decoder_open(m[0], (RpExecMode)mode, false),
                                              decoder_open(m[1], (RpExecMode)mode, false)};
            Decoder           d            = decoder_open(m[0], (RpExecMode)mode, false);
            RpExecutorStates *states;
            OK(rp_executor_states_new(d.exec, &states));
            for (int i = 0; i < N_TOKENS; i++)
                for (int k = 0; k < 2; k++) {
                    OK(rp_executor_weights_bind(d.exec, k == 0 ? NULL : reference[1].plan));
                    OK(rp_executor_states_bind(d.exec, k == 0 ? NULL : states));
                    const float *got = decoder_run(&d, 3 + 5 * i, i), *want = decoder_run(&reference[k], 3 + 5 * i, i);
                    cr_expect_arr_eq(got, want, d.n_vocab * sizeof *got, "%s, model %d, token %d", types[t], k, i);
                    if (k == 1) cr_expect_neq(got[0], *decoder_run(&reference[0], 3 + 5 * i, i), CASE(mode, i, k));
                }
            OK(rp_executor_states_bind(d.exec, NULL));
            rp_executor_states_free(states);
            decoder_close(&d);
            decoder_close(&reference[0]);
            decoder_close(&reference[1]);
        }
        rp_model_free(m[0]);
        rp_model_free(m[1]);
    }
}

static void refuse_weights(const char *mine, const char *theirs, const char *text) {
    RpModel *a = golden_open_tiny(mine), *b = golden_open_tiny(theirs);
    Decoder  d = decoder_open(a, RP_MODE_AUTO, false), other;
    float    before[DECODER_VOCAB];
    decoder_plan(b, false, &other);
    memcpy(before, decoder_run(&d, 3, 0), d.n_vocab * sizeof *before);
    REFUSED(rp_executor_weights_bind(d.exec, other.plan), RP_E_SHAPE, text);
    cr_expect_arr_eq(decoder_run(&d, 3, 0), before, d.n_vocab * sizeof *before, "what was bound stays");
    decoder_close(&other);
    decoder_close(&d);
    rp_model_free(a);
    rp_model_free(b);
}

Test(bind, weights_of_another_plan_are_refused) {
    refuse_weights("llama-mix", "qwen3moe-mix",
                   "weights of a plan of 25 steps: must have the 15 steps of the executor's plan");
    refuse_weights(
        "llama-q4_0", "llama-q5_0",
        "step 0 is get_rows 'embedding', in the plan of the weights get_rows 'embedding' with other sources or "
        "parameters");
    refuse_weights("llama-f32", "llama-f16", "step 0 is get_rows");
    refuse_weights("llama-f32", "llama-ntk", "is qkv '"); /* the same shapes, but other rotation angles */
}

/* Replies with bound weights or states are made by single runs; the tokens are those of an executor opened for
 * them. */
Test(bind, replies_use_the_bound_weights_and_states) {
    RpModel *m[2]        = {decoder_synth("Q4_0", 1), decoder_synth("Q4_0", 2)};
    Decoder  d           = decoder_open(m[0], RP_MODE_AUTO, true),
            reference[2] = {decoder_open(m[0], RP_MODE_AUTO, true), decoder_open(m[1], RP_MODE_AUTO, true)};
    RpExecutorStates *states;
    int32_t           want[2][N_TOKENS], got[N_TOKENS];
    for (int k = 0; k < 2; k++) OK(decoder_reply(&reference[k], 9, N_TOKENS, want[k]));
    OK(rp_executor_states_new(d.exec, &states));
    for (int i = 0; i < 4; i++) {
        OK(rp_executor_weights_bind(d.exec, i % 2 == 0 ? NULL : reference[1].plan));
        OK(rp_executor_states_bind(d.exec, i < 2 ? NULL : states));
        OK(decoder_reply(&d, 9, N_TOKENS, got));
        cr_expect_arr_eq(got, want[i % 2], sizeof got, "round %d", i);
    }
    OK(rp_executor_states_bind(d.exec, NULL));
    rp_executor_states_free(states);
    decoder_close(&d);
    for (int k = 0; k < 2; k++) decoder_close(&reference[k]), rp_model_free(m[k]);
}

/* ---- copying states to the host and back ---- */

Test(bind, a_context_can_be_copied_to_another_executor) {
    RpModel *m = golden_open_tiny("llama-mix-k");
    Decoder  a = decoder_open(m, RP_MODE_AUTO, false), b = decoder_open(m, RP_MODE_EAGER, false);
    for (int i = 0; i < 3; i++) (void)decoder_run(&a, 3 + 5 * i, i);
    for (int l = 0; l < rp_model_info(m)->n_layer; l++)
        for (int which = 0; which < 2; which++) {
            char name[32];
            snprintf(name, sizeof name, "%c.%d", which ? 'v' : 'k', l);
            const RpTensorView v     = rp_node_view(rp_graph_find(a.graph, name));
            const size_t       bytes = rp_view_extent_bytes(&v);
            char              *data  = malloc(bytes);
            const size_t       first = which ? bytes : bytes / 3 & ~(size_t)1; /* keys in two parts */
            OK(rp_executor_get(a.exec, rp_graph_find(a.graph, name), data, first));
            OK(rp_executor_get_at(a.exec, rp_graph_find(a.graph, name), first, data + first, bytes - first));
            OK(rp_executor_set_at(b.exec, rp_graph_find(b.graph, name), first, data + first, bytes - first));
            OK(rp_executor_set(b.exec, rp_graph_find(b.graph, name), data, first));
            free(data);
        }
    const float *x = decoder_run(&a, 40, 3), *y = decoder_run(&b, 40, 3);
    cr_expect_arr_eq(x, y, a.n_vocab * sizeof *x);
    float copy[DECODER_VOCAB];
    OK(rp_executor_get(a.exec, rp_graph_find(a.graph, "logits"), copy, a.n_vocab * sizeof *copy));
    cr_expect_arr_eq(copy, x, a.n_vocab * sizeof *copy);

    const TensorNode *logits = rp_graph_find(a.graph, "logits"), *w = rp_graph_find(a.graph, "output_norm.weight");
    char              text[80];
    snprintf(text, sizeof text, "'logits': %zu bytes from byte 0 on: must be inside of its %zu bytes", sizeof copy + 1,
             a.n_vocab * sizeof *copy);
    REFUSED(rp_executor_get(a.exec, logits, copy, sizeof copy + 1), RP_E_ARG, text);
    snprintf(text, sizeof text, "'logits': 2 bytes from byte %zu on: must be inside of its %zu bytes",
             a.n_vocab * sizeof *copy - 1, a.n_vocab * sizeof *copy);
    REFUSED(rp_executor_get_at(a.exec, logits, a.n_vocab * sizeof *copy - 1, copy, 2), RP_E_ARG, text);
    REFUSED(rp_executor_set_at(a.exec, logits, SIZE_MAX, copy, 2), RP_E_ARG, "'logits': 2 bytes from byte ");
    cr_assert_not_null(w);
    REFUSED(rp_executor_get(a.exec, w, copy, 4), RP_E_ARG, "must be an input, an output or a state");
    REFUSED(rp_executor_set(a.exec, w, copy, 4), RP_E_ARG, "must be an input, an output or a state");
    int n_refused = 0;
    for (int i = 0; i < rp_graph_n_nodes(a.graph); i++)
        n_refused += rp_executor_get(a.exec, rp_graph_node(a.graph, i), copy, 1) == RP_E_ARG;
    cr_expect_gt(n_refused, 20, "weights and intermediate results");
    decoder_close(&a);
    decoder_close(&b);
    rp_model_free(m);
}

/* ---- poison, verify, profile, launches ---- */

Test(bind, a_poisoned_executor_gives_the_same_bits) {
    RpModel *m = golden_open_tiny("qwen3moe-mix");
    Decoder  d = decoder_open(m, RP_MODE_AUTO, false);
    float    want[DECODER_VOCAB];
    memcpy(want, decoder_run(&d, 3, 0), d.n_vocab * sizeof *want);
    OK(rp_executor_poison(d.exec));
    const float *logits = rp_executor_data(d.exec, rp_graph_find(d.graph, "logits"));
    for (size_t i = 0; i < d.n_vocab; i++) cr_expect(isnan(logits[i]), CASE(i));
    cr_expect_arr_eq(decoder_run(&d, 3, 0), want, d.n_vocab * sizeof *want);
    decoder_close(&d);
    rp_model_free(m);
}

typedef struct Seen {
    int               n, stop_at;
    double            worst;
    const TensorNode *last; /* a node is visited again for each source that it writes */
} Seen;

static bool see(const TensorNode *node, const RpTensorView *view, const void *got, const void *want, void *user) {
    Seen        *s = user;
    const float *a = got, *b = want;
    for (size_t i = 0; view->dtype == RP_F32 && i < rp_view_extent_bytes(view) / 4; i++)
        if (isfinite(a[i]) && isfinite(b[i])) s->worst = fmax(s->worst, fabs((double)a[i] - (double)b[i]));
    if (node == s->last) return true;
    s->last = node;
    return ++s->n != s->stop_at;
}

Test(bind, verify_visits_every_step_and_keeps_the_results_of_the_run) {
    RpModel *m = golden_open_tiny("llama-mix");
    Decoder  d = decoder_open(m, RP_MODE_AUTO, false);
    float    want[DECODER_VOCAB];
    Seen     all = {0}, some = {.stop_at = 4};
    memcpy(want, decoder_run(&d, 3, 0), d.n_vocab * sizeof *want);
    OK(rp_executor_verify(d.exec, see, &all));
    cr_expect_eq(all.n, rp_plan_memory(d.plan).n_steps);
    cr_expect_lt(all.worst, 1e-3);
    cr_expect_arr_eq(rp_executor_data(d.exec, rp_graph_find(d.graph, "logits")), want, d.n_vocab * sizeof *want);
    OK(rp_executor_verify(d.exec, see, &some));
    cr_expect_eq(some.n, 4);
    cr_expect_arr_eq(decoder_run(&d, 3, 0), want, d.n_vocab * sizeof *want);
    decoder_close(&d);
    rp_model_free(m);
}

/* Every step has a time; a graph that samples keeps its step state, and replies stay the same. */
Test(bind, a_profile_does_not_change_the_step_state) {
    RpModel *m = golden_open_tiny("llama-q4_0");
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) {
        Decoder   d = decoder_open(m, (RpExecMode)mode, true);
        const int n = rp_plan_memory(d.plan).n_steps;
        int32_t   before[DECODER_WORDS], after[DECODER_WORDS], want[N_TOKENS], got[N_TOKENS];
        double   *step_ns = malloc((size_t)n * sizeof *step_ns), total_ns = -1.0;
        OK(decoder_reply(&d, 9, N_TOKENS, want));
        decoder_step(before, 9, DECODER_CTX - 2); /* two positions before the end of the context */
        ((RpStepState *)(void *)before)->n_recent = 8;
        for (int i = 0; i < 8; i++) before[RP_STEP_WORDS + i] = i;
        OK(rp_executor_set(d.exec, d.step, before, sizeof before));
        for (int i = 0; i < n; i++) step_ns[i] = -1.0;
        OK(rp_executor_profile(d.exec, 3, step_ns, &total_ns));
        OK(rp_executor_get(d.exec, d.step, after, sizeof after));
        cr_expect_arr_eq(after, before, sizeof after, "%s", rp_mode_name((RpExecMode)mode));
        for (int i = 0; i < n; i++) cr_expect_geq(step_ns[i], 0.0, "step %d: %g", i, step_ns[i]);
        cr_expect_gt(total_ns, 0.0, CASE(mode));
        REFUSED(rp_executor_profile(d.exec, 0, step_ns, &total_ns), RP_E_ARG,
                "a profile of 0 runs: must be at least 1");
        OK(decoder_reply(&d, 9, N_TOKENS, got));
        cr_expect_arr_eq(got, want, sizeof got, CASE(mode));
        free(step_ns);
        decoder_close(&d);
    }
    rp_model_free(m);
}

Test(bind, reports_what_is_launched_for_each_step) {
    RpModel     *m       = golden_open_tiny("llama-q4_0");
    Decoder      d       = decoder_open(m, RP_MODE_AUTO, false);
    const bool   on_cuda = strcmp(rp_executor_info(d.exec).device, "cpu") != 0;
    const int    n       = rp_plan_memory(d.plan).n_steps;
    RpStepLaunch l;
    for (int i = 0; i < n; i++) {
        OK(rp_executor_launch(d.exec, i, &l));
        cr_expect_not_null(l.node, CASE(i));
        cr_expect_gt(l.bytes, 0u, CASE(i));
        cr_expect_eq(l.n_kernels > 0, on_cuda, CASE(i));
        cr_expect_eq(l.kernel != NULL, on_cuda, CASE(i));
        if (on_cuda) cr_expect(l.kernel[0] != '\0' && l.grid[0] * l.grid[1] * l.grid[2] > 0, CASE(i));
        if (on_cuda) cr_expect(l.block[0] >= 1 && l.block[0] * l.block[1] * l.block[2] <= 1024, CASE(i));
    }
    REFUSED(rp_executor_launch(d.exec, n, &l), RP_E_ARG, ": must be from 0 to ");
    REFUSED(rp_executor_launch(d.exec, -1, &l), RP_E_ARG, "step -1: must be from 0 to ");
    decoder_close(&d);
    rp_model_free(m);
}

/* ---- replies ---- */

Test(bind, a_reply_with_bad_options_is_refused) {
    RpModel       *m = golden_open_tiny("llama-q4_0");
    Decoder        d = decoder_open(m, RP_MODE_AUTO, true), plain = decoder_open(m, RP_MODE_AUTO, false);
    int32_t        words[DECODER_WORDS], token, end[RP_REPLY_MAX_END + 1] = {0};
    RpReplyOptions o = {.state = words, .n_state = DECODER_WORDS, .max_tokens = 3, .n_ctx = DECODER_CTX};
    decoder_step(words, 9, 0);
    REFUSED(rp_executor_reply_begin(plain.exec, &o), RP_E_STATE, "a reply: this executor has no step state");
    REFUSED(rp_executor_reply_next(d.exec, &token), RP_E_STATE, "no reply is under way, or it has ended");
    o.n_state = 3;
    REFUSED(rp_executor_reply_begin(d.exec, &o), RP_E_ARG, "a step state of 3 words: must be from ");
    o.n_state    = DECODER_WORDS;
    o.max_tokens = 0;
    REFUSED(rp_executor_reply_begin(d.exec, &o), RP_E_ARG, "a reply of 0 tokens: must be at least 1");
    o.max_tokens = 2;
    o.end        = end;
    o.n_end      = RP_REPLY_MAX_END + 1;
    REFUSED(rp_executor_reply_begin(d.exec, &o), RP_E_ARG, "33 end tokens: must be at most 32");
    o.n_end = 0;
    decoder_step(words, 9, DECODER_CTX);
    REFUSED(rp_executor_reply_begin(d.exec, &o), RP_E_CONTEXT_FULL, "a reply from position 16: must be from 0 to 15");
    decoder_step(words, 9, 0);
    OK(rp_executor_reply_begin(d.exec, &o));
    REFUSED(rp_executor_reply_begin(d.exec, &o), RP_E_STATE, "a reply is under way already");
    OK(rp_executor_reply_next(d.exec, &token));
    OK(rp_executor_reply_next(d.exec, &token));
    REFUSED(rp_executor_reply_next(d.exec, &token), RP_E_STATE, "or it has ended");
    OK(rp_executor_reply_end(d.exec, NULL));
    OK(rp_executor_reply_end(d.exec, NULL));
    decoder_close(&d);
    decoder_close(&plain);
    rp_model_free(m);
}

/* The end token is the first occurrence of its id in the reply. Nothing may run after it. */
Test(bind, a_reply_ends_at_the_same_token_in_every_mode) {
    RpModel *m = golden_open_tiny("llama-q4_0");
    int32_t  all[DECODER_CTX], words[DECODER_WORDS], token;
    for (int mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) {
        Decoder d = decoder_open(m, (RpExecMode)mode, true);
        OK(decoder_reply(&d, 9, DECODER_CTX, all));
        int n_first = 4; /* the first token from here on that has not occurred before */
        for (int again = 1; again;) {
            again = 0;
            for (int i = 0; i < n_first; i++) again |= all[i] == all[n_first];
            n_first += again;
        }
        decoder_step(words, 9, 0);
        const RpReplyOptions o = {
            .state      = words,
            .n_state    = DECODER_WORDS,
            .max_tokens = 100,
            .n_ctx      = DECODER_CTX,
            .end        = (const int32_t[]){-7, all[n_first]},
            .n_end      = 2
        };
        bool ran_on = true;
        OK(rp_executor_reply_begin(d.exec, &o));
        for (int i = 0; i <= n_first; i++) {
            OK(rp_executor_reply_next(d.exec, &token));
            cr_expect_eq(token, all[i], CASE(mode, i));
        }
        REFUSED(rp_executor_reply_next(d.exec, &token), RP_E_STATE, "or it has ended");
        OK(rp_executor_reply_end(d.exec, &ran_on));
        cr_expect(!ran_on, CASE(mode));
        RpStepState s;
        OK(rp_executor_get(d.exec, d.step, &s, sizeof s));
        cr_expect_eq(s.pos, n_first + 1, "%s: nothing was run after the end token", rp_mode_name((RpExecMode)mode));
        decoder_close(&d);
    }
    rp_model_free(m);
}

/* The step state of a caller is an index into the ring of recent tokens, the logits and the embedding. */
Test(bind, refuses_step_states_out_of_range) {
    RpModel             *m = decoder_synth("Q8_0", 3);
    Decoder              d = decoder_open(m, RP_MODE_AUTO, true);
    int32_t              words[DECODER_WORDS], token;
    const RpReplyOptions o = {.state = words, .n_state = DECODER_WORDS, .max_tokens = 2, .n_ctx = DECODER_CTX};
    RpStepState *const   s = (RpStepState *)(void *)words;
#define TRY(change, text)                                                                                              \
    do {                                                                                                               \
        decoder_step(words, 1, 0);                                                                                     \
        change;                                                                                                        \
        REFUSED(rp_executor_reply_begin(d.exec, &o), RP_E_ARG, text);                                                  \
    } while (0)
    TRY(s->n_recent = 100000000, "step state: 100000000 recent tokens, the next one at 0, in a ring of 8");
    TRY(s->n_recent = -1, "-1 recent tokens");
    TRY(s->next_recent = 8, "the next one at 8, in a ring of 8");
    TRY(s->next_recent = -1, "the next one at -1");
    TRY(s->repeat_last_n = 9, "repeat_last_n 9: must be from 0 to 8");
    TRY(s->repeat_last_n = -1, "repeat_last_n -1");
    TRY((s->n_recent = 1, words[RP_STEP_WORDS] = 1 << 30), "recent token 1073741824, the vocabulary has");
    TRY((s->n_recent = 1, words[RP_STEP_WORDS] = -1), "recent token -1");
    TRY(s->token = -1, "a reply from token -1: must be from 0 to 319");
    TRY(s->token = 1 << 30, "a reply from token 1073741824");
    TRY(s->temperature = NAN, "temperature nan");
    TRY(s->top_p = 0.0f, "top_p 0");
    TRY(s->top_k = -1, "top_k -1");
    TRY(s->repeat_penalty = 0.0f, "repeat_penalty 0");
#undef TRY
    REFUSED(rp_executor_reply_begin(d.exec, &(RpReplyOptions){.n_state = DECODER_WORDS, .max_tokens = 1, .n_ctx = 4}),
            RP_E_ARG, "a reply: state must not be NULL, nor end if n_end is above 0");
    decoder_step(words, 1, 0);
    OK(rp_executor_reply_begin(d.exec, &o));
    OK(rp_executor_reply_next(d.exec, &token));
    OK(rp_executor_reply_end(d.exec, NULL));
    decoder_close(&d);
    rp_model_free(m);
}
