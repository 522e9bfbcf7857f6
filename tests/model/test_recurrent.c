/* Sessions of models with recurrent states: a prompt in chunks of any length gives the bits of single steps, and a
 * rewind gives the bits of a context that was never longer. */
#include "tests/support/case.h"
#include "tests/support/tiny.h"

#include "model/model.h"
#include "model/runner.h"

#include "reprise/convert.h"
#include "reprise/train.h"

#include <stdlib.h>
#include <unistd.h>

enum { N_IDS = 21, MAX_VOCAB = 128 };

static const int32_t ids[N_IDS] = {3, 17, 5, 40, 8, 21, 9, 11, 30, 4, 19, 7, 33, 6, 12, 25, 3, 3, 41, 20, 10};

static const char *const models[] = {"qwen35-f32",        "qwen35-mix",     "qwen35moe-mix",      "qwen3next-f32",
                                     "qwen3next-mix",     "lfm2-f32",       "lfm2-mix",           "lfm2moe-mix",
                                     "granitehybrid-mix", "nemotron_h-f32", "nemotron_h_moe-mix", "falcon-h1-mix"};

enum { N_MODELS = sizeof models / sizeof models[0] };

static RpModel *open_model(const char *name) {
    char     path[1024];
    RpModel *m;
    snprintf(path, sizeof path, GOLDEN_DIR "tiny/%s.gguf", name);
    OK(rp_model_open(path, NULL, &m));
    cr_assert_leq(rp_model_info(m)->n_vocab, MAX_VOCAB);
    return m;
}

static RpSession *open_session(const RpModel *m, int threads, int32_t chunk, const char *passes, size_t state_bytes) {
    RpSession *s;
    OK(rp_session_open(
        m,
        &(RpSessionOptions){
            .n_ctx = 64, .n_threads = threads, .prefill_chunk = chunk, .passes = passes, .state_bytes = state_bytes},
        &s));
    return s;
}

static size_t row_bytes(const RpModel *m) { return (size_t)rp_model_info(m)->n_vocab * sizeof(float); }

/* The logits after each token, one step after the other on one thread. */
static void run_steps(const RpModel *m, const char *passes, float rows[N_IDS][MAX_VOCAB]) {
    RpSession *s = open_session(m, 1, 1, passes, 0);
    for (int i = 0; i < N_IDS; i++) {
        OK(rp_session_step(s, ids[i]));
        memcpy(rows[i], rp_session_logits(s), row_bytes(m));
    }
    rp_session_free(s);
}

static void expect_logits(RpSession *s, const RpModel *m, const float *want, const char *what, int n) {
    cr_expect_arr_eq(rp_session_logits(s), want, row_bytes(m), "%s: other bits after %d tokens", what, n);
}

/* The first `split` tokens as one prefill, the others as a second, but for the last two, which are steps. */
static void check_split(const RpModel *m, const char *name, int threads, int32_t chunk, int split,
                        float rows[N_IDS][MAX_VOCAB]) {
    RpSession *s = open_session(m, threads, chunk, "", 0);
    OK(rp_session_prefill(s, ids, (size_t)split, NULL, NULL));
    expect_logits(s, m, rows[split - 1], name, split);
    OK(rp_session_prefill(s, ids + split, (size_t)(N_IDS - 2 - split), NULL, NULL));
    expect_logits(s, m, rows[N_IDS - 3], name, N_IDS - 2);
    for (int i = N_IDS - 2; i < N_IDS; i++) {
        OK(rp_session_step(s, ids[i]));
        expect_logits(s, m, rows[i], name, i + 1);
    }
    rp_session_free(s);
}

Test(recurrent, chunks_of_any_length_give_the_bits_of_single_steps) {
    static const int32_t chunks[] = {1, 2, 3, 5, 16, 256};
    static const int     splits[] = {1, 2, 7, 16, 18};
    static float         rows[N_IDS][MAX_VOCAB], other[N_IDS][MAX_VOCAB];
    const RpCpuIsa       best = rp_cpu_isa();
    for (int i = 0; i < N_MODELS; i++) {
        RpModel *m = open_model(models[i]);
        run_steps(m, "", rows);
        for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
            if (rp_cpu_isa_set((RpCpuIsa)isa) != RP_OK) continue;
            run_steps(m, "", other);
            for (int t = 0; t < N_IDS; t++)
                cr_expect_arr_eq(other[t], rows[t], row_bytes(m), "%s, %s: token %d", models[i],
                                 rp_cpu_isa_name((RpCpuIsa)isa), t);
            for (int c = 0; c < 6; c++) check_split(m, models[i], 1 + c % 3, chunks[c], splits[c % 5], rows);
        }
        OK(rp_cpu_isa_set(best));
        for (int p = 0; p < 5; p++) check_split(m, models[i], 3, 256, splits[p], rows);
        rp_model_free(m);
    }
}

/* Passes `attention` and `quantize` change bits. The others do not. */
Test(recurrent, fused_steps_have_the_bits_of_separate_ops) {
    static float rows[N_IDS][MAX_VOCAB], separate[N_IDS][MAX_VOCAB];
    for (int i = 0; i < N_MODELS; i++) {
        RpModel *m = open_model(models[i]);
        run_steps(m, "", rows);
        run_steps(m, "-all,+attention,+quantize", separate);
        for (int t = 0; t < N_IDS; t++)
            cr_expect_arr_eq(rows[t], separate[t], row_bytes(m), "%s: token %d", models[i], t);
        rp_model_free(m);
    }
}

/* A delta layer, a layer of attention, and the three kernels outside of the layers. The shared expert is fused with the
 * others. */
Test(recurrent, layers_with_a_shared_expert_are_few_kernels) {
    RpModel      *m = open_model("qwen3next-f32");
    ComputeGraph *g;
    OK(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = 64}, &g));
    OK(rp_graph_optimize(g, ""));
    cr_expect_eq(rp_graph_n_steps(g), 8 + 7 + 3);
    rp_graph_free(g);
    rp_model_free(m);
}

typedef struct Scores {
    float  row[N_IDS][MAX_VOCAB];
    size_t bytes; /* of a row */
} Scores;

static void keep_row(size_t i, const float *logits, void *user) {
    Scores *scores = user;
    memcpy(scores->row[i], logits, scores->bytes);
}

static void check_score(const char *name) {
    static float  rows[N_IDS][MAX_VOCAB];
    static Scores scored;
    RpModel      *m = open_model(name);
    scored.bytes    = row_bytes(m);
    run_steps(m, "", rows);
    RpSession *s = open_session(m, 2, 256, "", 0);
    OK(rp_session_prefill(s, ids, 3, NULL, NULL));
    OK(rp_session_score(s, ids + 3, N_IDS - 3, keep_row, &scored));
    for (int t = 3; t < N_IDS; t++)
        cr_expect_arr_eq(scored.row[t - 3], rows[t], row_bytes(m), "%s: score of token %d", name, t);
    rp_session_free(s);
    rp_model_free(m);
}

Test(recurrent, scores_have_the_bits_of_single_steps) {
    for (int i = 0; i < N_MODELS; i++) check_score(models[i]);
}

Test(recurrent, a_rewind_to_the_end_of_a_prompt_gives_the_bits_of_a_shorter_context) {
    static float rows[N_IDS][MAX_VOCAB];
    for (int i = 0; i < N_MODELS; i++) {
        RpModel *m = open_model(models[i]);
        run_steps(m, "", rows);
        RpSession *s = open_session(m, 2, 256, "", 0);
        OK(rp_session_prefill(s, ids, 5, NULL, NULL));
        OK(rp_session_prefill(s, ids + 5, 4, NULL, NULL));
        for (int k = 0; k < 3; k++) OK(rp_session_step(s, 11 + k));
        static const int to[] = {9, 5, 9, 0}; /* 9 again: the same tokens, written anew */
        for (int k = 0; k < 4; k++) {
            if (k == 2) OK(rp_session_prefill(s, ids + 5, 4, NULL, NULL));
            if (k != 2) OK(rp_session_rewind(s, to[k]));
            for (int t = to[k]; t < to[k] + 2; t++) {
                OK(rp_session_step(s, ids[t]));
                expect_logits(s, m, rows[t], models[i], t + 1);
            }
            if (k == 1) OK(rp_session_rewind(s, 5));
        }
        rp_session_free(s);
        rp_model_free(m);
    }
}

Test(recurrent, a_rewind_without_a_kept_state_is_refused) {
    RpModel   *m = open_model("qwen35-f32");
    RpSession *s = open_session(m, 1, 256, "", 0);
    OK(rp_session_prefill(s, ids, 5, NULL, NULL));
    OK(rp_session_step(s, ids[5]));
    OK(rp_session_step(s, ids[6]));
    float before[MAX_VOCAB];
    memcpy(before, rp_session_logits(s), row_bytes(m));
    REFUSED(rp_session_rewind(s, 6), RP_E_NOT_AVAILABLE,
            "rewind to 6: the recurrent state is not kept there, the nearest before it is 5");
    cr_expect_eq(rp_session_n_past(s), 7);
    cr_expect_arr_eq(rp_session_logits(s), before, row_bytes(m));
    cr_expect_eq(rp_session_rewind_point(s, 6), 5);
    cr_expect_eq(rp_session_rewind_point(s, 4), 0);
    cr_expect_eq(rp_session_rewind_point(s, 7), 7);
    cr_expect_eq(rp_session_rewind_point(s, 99), 7);
    OK(rp_session_rewind(s, 7));
    OK(rp_session_rewind(s, 0));
    rp_session_free(s);
    rp_model_free(m);
}

/* Room for the current state alone, and for one more. */
Test(recurrent, the_budget_bounds_the_states) {
    RpModel        *m = open_model("qwen35-f32");
    RpSessionMemory none, one, many;
    const size_t    state = rp_config_state_bytes(&m->config);
    OK(rp_session_memory(m, &(RpSessionOptions){.n_ctx = 64, .state_bytes = state - 1}, &none));
    OK(rp_session_memory(m, &(RpSessionOptions){.n_ctx = 64, .state_bytes = state}, &one));
    OK(rp_session_memory(m, &(RpSessionOptions){.n_ctx = 64}, &many));
    cr_expect_eq(none.n_states, 1);
    cr_expect_eq(one.n_states, 2);
    cr_expect_eq(many.n_states, MAX_SLOTS);
    cr_expect_eq(none.states, state);
    cr_expect_eq(one.states, 2 * state);
    cr_expect_eq(one.total - none.total, state);
    cr_expect_eq(one.kv, none.kv);

    RpSession *s = open_session(m, 1, 256, "", state - 1);
    OK(rp_session_prefill(s, ids, 5, NULL, NULL));
    OK(rp_session_step(s, ids[5]));
    REFUSED(rp_session_rewind(s, 5), RP_E_NOT_AVAILABLE,
            "rewind to 5: the recurrent state is not kept there, the nearest before it is 0");
    rp_session_free(s);

    s = open_session(m, 1, 256, "", state); /* the second prompt takes the place of the first */
    OK(rp_session_prefill(s, ids, 5, NULL, NULL));
    OK(rp_session_prefill(s, ids + 5, 5, NULL, NULL));
    OK(rp_session_step(s, ids[10]));
    cr_expect_eq(rp_session_rewind_point(s, 10), 10);
    cr_expect_eq(rp_session_rewind_point(s, 9), 0);
    rp_session_free(s);
    rp_model_free(m);
}

/* ---- published states ---- */

/* 13 tokens in two calls, the second one with the states of its last `k` positions; then a rewind to `to` and two steps
 * with the tokens of `rows`. The call runs in chunks, and k may be more than its tokens. */
static void check_published(const RpModel *m, const char *name, int32_t chunk, int32_t k, int to, bool scores,
                            float rows[N_IDS][MAX_VOCAB]) {
    static Scores scored;
    RpSession    *s = open_session(m, 2, chunk, "", 0);
    scored.bytes    = row_bytes(m);
    OK(rp_session_prefill(s, ids, 4, NULL, NULL));
    rp_session_publish(s, k);
    if (scores)
        OK(rp_session_score(s, ids + 4, 9, keep_row, &scored));
    else
        OK(rp_session_prefill(s, ids + 4, 9, NULL, NULL));
    expect_logits(s, m, rows[12], name, 13);
    for (int p = 1; p <= 13; p++) {
        const int first = 13 - k < 4 ? 4 : 13 - k + 1;
        cr_expect_eq(rp_session_rewind_point(s, p), p >= first ? p : p >= 4 ? 4 : 0, "%s: %d of %d", name, p, k);
    }
    OK(rp_session_rewind(s, to));
    for (int t = to; t < to + 2; t++) {
        OK(rp_session_step(s, ids[t]));
        expect_logits(s, m, rows[t], name, t + 1);
    }
    cr_expect_eq(rp_session_rewind_point(s, to + 1), k > 1 ? to + 1 : 4, "%s: the state before the last step", name);
    cr_expect_eq(rp_session_rewind_point(s, 4), 4, "%s: the end of the prompt is kept", name);
    rp_session_free(s);
}

Test(recurrent, the_states_of_the_last_positions_can_be_rewound_to) {
    static float rows[N_IDS][MAX_VOCAB];
    for (int i = 0; i < N_MODELS; i++) {
        RpModel *m = open_model(models[i]);
        run_steps(m, "", rows);
        for (int to = 10; to <= 13; to++) check_published(m, models[i], 256, 4, to, to % 2 == 0, rows);
        for (int to = 8; to <= 13; to++) check_published(m, models[i], 2, 6, to, to % 2 == 0, rows);
        check_published(m, models[i], 4, 9, 5, false, rows);
        check_published(m, models[i], 4, 60, 4, true, rows);
        check_published(m, models[i], 4, 1, 13, false, rows);
        rp_model_free(m);
    }
}

/* Two slots: of four states that are asked for there is room for the last two. */
Test(recurrent, the_budget_bounds_the_published_states) {
    RpModel   *m = open_model("qwen35-f32");
    RpSession *s = open_session(m, 1, 256, "", rp_config_state_bytes(&m->config));
    rp_session_publish(s, 4);
    OK(rp_session_prefill(s, ids, 9, NULL, NULL));
    cr_expect_eq(rp_session_rewind_point(s, 9), 9);
    cr_expect_eq(rp_session_rewind_point(s, 8), 8);
    cr_expect_eq(rp_session_rewind_point(s, 7), 0);
    OK(rp_session_prefill(s, ids + 9, 2, NULL, NULL));
    cr_expect_eq(rp_session_rewind_point(s, 10), 10);
    cr_expect_eq(rp_session_rewind_point(s, 9), 0);
    rp_session_free(s);
    rp_model_free(m);
}

/* ---- slots ---- */

Test(recurrent, the_states_of_a_run_take_different_slots) {
    StateSlots s = {.n = 4};
    int32_t    slot[4];
    rp_slots_put(&s, rp_slots_take(&s, -1), 5);
    rp_slots_keep(&s, 5);
    rp_slots_take_last(&s, 0, false, 3, slot);
    cr_expect(slot[0] == 1 && slot[1] == 2 && slot[2] == 3, "%d %d %d", slot[0], slot[1], slot[2]);
    cr_expect_eq(rp_slots_find(&s, 1), -1, "a run that fails leaves nothing");
    for (int32_t i = 0; i < 3; i++) rp_slots_put(&s, slot[i], 6 + i);
    rp_slots_take_last(&s, 3, true, 2, slot);
    cr_expect(slot[0] == 0 && slot[1] == 1, "%d %d: the states used the longest time ago", slot[0], slot[1]);
    cr_expect_eq(rp_slots_find(&s, 8), 3, "the state that the run reads stays");
    rp_slots_forget_loose(&s, 3);
    cr_expect_eq(rp_slots_find(&s, 7), -1);
    cr_expect_eq(rp_slots_find(&s, 8), 3);
}

Test(recurrent, a_run_takes_the_slot_that_matters_least) {
    StateSlots s = {.n = 3};
    cr_expect_eq(rp_slots_take(&s, -1), 0);
    rp_slots_put(&s, 0, 4);
    cr_expect_eq(rp_slots_take(&s, 0), 0, "a state that is not kept is overwritten");
    cr_expect_eq(rp_slots_find(&s, 4), -1, "a run that fails leaves nothing");
    rp_slots_put(&s, 0, 5);
    rp_slots_keep(&s, 5);
    cr_expect_eq(rp_slots_take(&s, 0), 1);
    rp_slots_put(&s, 1, 6);
    rp_slots_keep(&s, 6);
    cr_expect_eq(rp_slots_take(&s, 1), 2);
    rp_slots_put(&s, 2, 7);
    rp_slots_keep(&s, 7);
    rp_slots_rewind(&s, 5);
    cr_expect_eq(rp_slots_find(&s, 6), -1);
    cr_expect_eq(rp_slots_find(&s, 7), -1);
    cr_expect_eq(rp_slots_reach(&s, 9), 5);
    cr_expect_eq(rp_slots_take(&s, 0), 1, "a free slot before a kept one");
    rp_slots_put(&s, 1, 8);
    rp_slots_keep(&s, 8);
    rp_slots_put(&s, rp_slots_take(&s, 1), 9);
    rp_slots_keep(&s, 9);
    cr_expect_eq(rp_slots_take(&s, 2), 0, "the kept state that was used the longest time ago");
    StateSlots one = {.n = 1};
    rp_slots_put(&one, 0, 3);
    rp_slots_keep(&one, 3);
    cr_expect_eq(rp_slots_take(&one, 0), 0, "there is no other");
}

/* ---- files ---- */

Test(recurrent, layers_and_what_is_not_run_are_counted) {
    RpModel *m = open_model("qwen35-mix");
    cr_expect_eq(rp_model_info(m)->n_layer, 4);
    cr_expect_eq(rp_model_info(m)->n_layer_recurrent, 3);
    cr_expect_eq(rp_model_info(m)->n_layer_nextn, 1);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(rp_config_layer(&m->config, i).attention, i == 3 ? ATTENTION_FULL : ATTENTION_DELTA, CASE(i));
    const RpGgufTensor *further = rp_gguf_find_tensor(m->file, "blk.4.nextn.eh_proj.weight");
    cr_assert_not_null(further);
    cr_expect_gt(rp_model_info(m)->weight_bytes, rp_model_info(m)->decode_weight_bytes + further->bytes);
    rp_model_free(m);
}

/* Convolutions are no matrices of a product: quantised, the model could not be run. */
Test(recurrent, a_quantised_model_keeps_its_convolutions) {
    static const char *const of[][2] = {
        {"qwen35-f32",        "blk.0.ssm_conv1d.weight"    },
        {"lfm2-f32",          "blk.0.shortconv.conv.weight"},
        {"granitehybrid-f32", "blk.0.ssm_conv1d.weight"    },
        {"granitehybrid-f32", "blk.0.ssm_a"                }
    };
    char in[1024], out[64];
    snprintf(out, sizeof out, "/tmp/rp-recurrent-%d.gguf", (int)getpid());
    for (int i = 0; i < 4; i++) {
        RpModel *m;
        snprintf(in, sizeof in, GOLDEN_DIR "tiny/%s.gguf", of[i][0]);
        OK(rp_requantize(in, out, "Q8_0", NULL, NULL));
        OK(rp_model_open(out, NULL, &m));
        cr_expect_eq(rp_gguf_find_tensor(m->file, of[i][1])->view.dtype, RP_F32, "%s", of[i][1]);
        cr_expect_eq(rp_gguf_find_tensor(m->file, "blk.0.ffn_down.weight")->view.dtype, RP_Q8_0, "%s", of[i][0]);
        RpSession *s = open_session(m, 1, 256, "", 0);
        OK(rp_session_prefill(s, ids, 5, NULL, NULL));
        rp_session_free(s);
        rp_model_free(m);
        remove(out);
    }
}

/* An adapter of a convolution would have no effect. */
Test(recurrent, convolutions_are_not_adapted) {
    static const char *const of[][3] = {
        {"qwen35-f32",        "blk.0.ssm_conv1d.weight",     "blk.0.attn_qkv.weight"         },
        {"lfm2-f32",          "blk.0.shortconv.conv.weight", "blk.0.shortconv.in_proj.weight"},
        {"granitehybrid-mix", "blk.0.ssm_norm.weight",       "blk.0.ssm_in.weight"           }
    };
    for (int i = 0; i < 3; i++) {
        RpModel *m = open_model(of[i][0]);
        cr_expect(!rp_model_adapts(m, rp_gguf_find_tensor(m->file, of[i][1])), "%s", of[i][1]);
        cr_expect(rp_model_adapts(m, rp_gguf_find_tensor(m->file, of[i][2])), "%s", of[i][2]);
        rp_model_free(m);
    }
}

/* A tiny model with one number of its metadata changed: the i32 `at` bytes behind the end of a key. */
static RpStatus open_changed(const char *name, const char *key, size_t at, int32_t value) {
    size_t   n;
    char    *data  = golden_read_tiny(name, &n);
    char    *found = memmem(data, n, key, strlen(key));
    RpModel *m     = NULL;
    cr_assert_not_null(found, "%s", key);
    memcpy(found + strlen(key) + at, &value, sizeof value);
    const RpStatus st = rp_model_open_memory(data, n, "m.gguf", &m);
    rp_model_free(m);
    free(data);
    return st;
}

enum { SCALAR = 4, ELEMENT = 16 }; /* bytes between a key and its number: a type; types and length of an array */

Test(recurrent, impossible_sizes_are_refused) {
    REFUSED(open_changed("qwen35-f32", "rope.dimension_sections", SCALAR, RP_GGUF_F32), RP_E_FORMAT,
            "m.gguf: qwen35.rope.dimension_sections must be an array of 4 integers");
    REFUSED(open_changed("qwen35-f32", "rope.dimension_sections", ELEMENT, 1), RP_E_UNSUPPORTED,
            "m.gguf: qwen35.rope.dimension_sections {1, 1, 1, 0} leaves out pair 3 of 4");
    REFUSED(open_changed("qwen35-f32", "rope.dimension_sections", ELEMENT, -1), RP_E_FORMAT,
            "m.gguf: qwen35.rope.dimension_sections has the element -1, must not be negative");
    REFUSED(open_changed("qwen35-f32", "ssm.conv_kernel", SCALAR, 1), RP_E_FORMAT,
            "m.gguf: qwen35.ssm.conv_kernel is 1, must be 2 or more");
    REFUSED(open_changed("qwen35-f32", "ssm.conv_kernel", SCALAR, 9), RP_E_FORMAT,
            "m.gguf: qwen35.ssm.conv_kernel is 9, must be from 1 to 8");
    REFUSED(open_changed("qwen35-f32", "ssm.state_size", SCALAR, 257), RP_E_FORMAT,
            "m.gguf: qwen35.ssm.state_size is 257, must be from 1 to 256");
    REFUSED(open_changed("qwen35-f32", "ssm.group_count", SCALAR, 3), RP_E_FORMAT,
            "m.gguf: a delta net of 4 heads of 16 for values, 3 for keys and an inner size of 64 is not possible");
    REFUSED(open_changed("qwen35-f32", "full_attention_interval", SCALAR, 0), RP_E_FORMAT,
            "m.gguf: qwen35.full_attention_interval is 0, must be from 1 to 4096");
    REFUSED(open_changed("lfm2-f32", "shortconv.l_cache", SCALAR, 1), RP_E_FORMAT,
            "m.gguf: lfm2.shortconv.l_cache is 1, must be 2 or more");
    REFUSED(open_changed("lfm2-f32", "attention.head_count_kv", ELEMENT, 3), RP_E_FORMAT,
            "m.gguf: lfm2.attention.head_count_kv has 3 for layer 0, must be from 0 to 2");
    REFUSED(open_changed("lfm2-f32", "attention.head_count_kv", ELEMENT + 4, 0), RP_E_FORMAT,
            "m.gguf: lfm2.attention.head_count_kv has 0 for every layer");
    REFUSED(open_changed("granitehybrid-f32", "ssm.state_size", SCALAR, 257), RP_E_FORMAT,
            "m.gguf: granitehybrid.ssm.state_size is 257, must be from 1 to 256");
    REFUSED(open_changed("granitehybrid-f32", "ssm.time_step_rank", SCALAR, 3), RP_E_FORMAT,
            "m.gguf: a selective scan of 64 channels in 3 heads and 1 groups is not possible");
    REFUSED(open_changed("granitehybrid-f32", "ssm.group_count", SCALAR, 3), RP_E_FORMAT,
            "m.gguf: a selective scan of 64 channels in 4 heads and 3 groups is not possible");
    REFUSED(open_changed("nemotron_h_moe-mix", "moe_latent_size", SCALAR, 1 << 21), RP_E_FORMAT,
            "m.gguf: experts of width 2097152");
    REFUSED(open_changed("nemotron_h_moe-mix", "moe_latent_size", SCALAR, 16), RP_E_SHAPE,
            "m.gguf: tensor blk.1.ffn_up_exps.weight is");
}

/* The file without its second layer, the only one with attention. */
Test(recurrent, a_model_without_any_attention_is_refused) {
    size_t     n;
    char      *data   = golden_read_tiny("qwen35-f32", &n);
    char      *found  = memmem(data, n, "qwen35.block_count", 18);
    const int  layers = 1;
    RpModel   *m;
    RpSession *s;
    cr_assert_not_null(found);
    memcpy(found + 18 + SCALAR, &layers, sizeof layers);
    setenv("REPRISE_UNUSED_TENSORS", "ignore", 1);
    OK(rp_model_open_memory(data, n, "m.gguf", &m));
    unsetenv("REPRISE_UNUSED_TENSORS");
    REFUSED(rp_session_open(m, &(RpSessionOptions){.n_ctx = 16}, &s), RP_E_UNSUPPORTED,
            "qwen35: no layer has attention");
    rp_model_free(m);
    free(data);
}

Test(recurrent, training_is_refused) {
    static const char *const names[] = {"qwen35-f32", "lfm2-f32", "granitehybrid-f32", "falcon-h1-f32"};
    for (int i = 0; i < 4; i++) {
        RpModel   *m = open_model(names[i]);
        RpTrainer *t;
        char       text[1024];
        snprintf(text, sizeof text,
                 "training: " GOLDEN_DIR "tiny/%s.gguf has recurrent layers, which have no gradients", names[i]);
        REFUSED(rp_trainer_open(m, &(RpTrainOptions){.batch = 1, .seq = 4}, &t), RP_E_UNSUPPORTED, text);
        rp_model_free(m);
    }
}
