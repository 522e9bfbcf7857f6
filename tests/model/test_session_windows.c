/* Sessions whose layers with a window keep the latest positions only (RpSessionOptions.window_tokens) have the bits of
 * sessions that keep all, as far as they can be rewound, and read and write the same files. */
#include "tests/support/case.h"
#include "tests/support/golden.h"
#include "tests/support/hf_folder.h"

#include "model/runner.h"

enum { N_CTX = 500, CHUNK = 32, WINDOW = 8, LEAST = 4, N_TEXT = 450, BLOCK = SESSION_BLOCK };

static char path[128];

static void setup(void) {
    hf_begin();
    snprintf(path, sizeof path, "%s/a.context", folder);
}

TestSuite(session_windows, .init = setup, .fini = hf_end);

static RpSession *open_session(const RpModel *m, RpSessionOptions o) {
    RpSession *s;
    o.n_ctx         = N_CTX;
    o.n_threads     = 1;
    o.prefill_chunk = CHUNK;
    o.device        = "cpu";
    OK(rp_session_open(m, &o, &s));
    return s;
}

static void make_text(const RpModel *m, int32_t *text) {
    for (int32_t i = 0; i < N_TEXT; i++) text[i] = 3 + (i * 7 + i * i) % (rp_model_info(m)->n_vocab - 3);
}

static void same_logits(RpSession *a, RpSession *b, const char *name, int32_t n) {
    const size_t bytes = (size_t)rp_model_info(rp_session_model(a))->n_vocab * sizeof(float);
    cr_expect_arr_eq(rp_session_logits(b), rp_session_logits(a), bytes, "%s: other logits after %d tokens", name, n);
}

/* ---- memory ---- */

Test(session_windows, their_bytes_do_not_grow_with_the_context) {
    enum { WITH_WINDOW = 6, WITHOUT = 1, ROW = 2 * 2 * 16 * 2, N_BLOCKS = 16 };
    static const struct {
        int32_t tokens, blocks;
    } cases[] = {
        {0,   N_BLOCKS},
        {1,   LEAST   },
        {128, LEAST   },
        {129, 5       },
        {448, 14      },
        {481, N_BLOCKS},
        {999, N_BLOCKS}
    };
    RpModel        *m = golden_open_tiny("gemma3-mix"), *recurrent = golden_open_tiny("lfm2-mix");
    RpSessionMemory memory, all;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const RpSessionOptions o = {
            .n_ctx = N_BLOCKS * BLOCK, .prefill_chunk = CHUNK, .device = "cpu", .window_tokens = cases[i].tokens};
        const size_t bytes = (size_t)(WITH_WINDOW * cases[i].blocks + WITHOUT * N_BLOCKS) * BLOCK * ROW;
        OK(rp_session_memory(m, &o, &memory));
        cr_expect_eq(memory.kv, bytes, "%zu bytes for %d positions", memory.kv, cases[i].tokens);
    }
    OK(rp_session_memory(recurrent, &(RpSessionOptions){.device = "cpu"}, &all));
    OK(rp_session_memory(recurrent, &(RpSessionOptions){.device = "cpu", .window_tokens = 1}, &memory));
    cr_expect_eq(memory.kv, all.kv, "a model with recurrent layers keeps all");
    REFUSED(rp_session_memory(m, &(RpSessionOptions){.window_tokens = -1}, &memory), RP_E_ARG,
            "window_tokens of a session is -1: must not be negative");
    rp_model_free(m), rp_model_free(recurrent);
}

/* ---- bits ---- */

static void count_rows(size_t i, const float *logits, void *user) {
    float *to = user;
    memcpy(to + i * 64, logits, 64 * sizeof *logits);
}

static void goes_like_one_with_all(const char *name, RpDtype kv_type) {
    RpModel   *m = golden_open_tiny(name);
    RpSession *a = open_session(m, (RpSessionOptions){.kv_type = kv_type});
    RpSession *b = open_session(m, (RpSessionOptions){.kv_type = kv_type, .window_tokens = 1});
    int32_t    text[N_TEXT];
    float     *want = calloc((size_t)64 * 100, sizeof *want), *got = calloc((size_t)64 * 100, sizeof *got);
    cr_assert(want != NULL && got != NULL);
    cr_assert_eq(b->n_windows, LEAST, "%s: %d window blocks", name, b->n_windows);
    make_text(m, text);
    for (int32_t done = 0, n; done < 300; done += n) { /* chunks of many lengths */
        n = 1 + done * 5 % 90 < 300 - done ? 1 + done * 5 % 90 : 300 - done;
        OK(rp_session_prefill(a, text + done, (size_t)n, NULL, NULL));
        OK(rp_session_prefill(b, text + done, (size_t)n, NULL, NULL));
        same_logits(a, b, name, done + n);
    }
    cr_assert_leq(rp_model_info(m)->n_vocab, 64, "%s", name);
    OK(rp_session_score(a, text + 300, 100, count_rows, want));
    OK(rp_session_score(b, text + 300, 100, count_rows, got));
    cr_expect_arr_eq(got, want, (size_t)64 * 100 * sizeof *got, "%s: other scores", name);
    for (int32_t i = 400; i < N_TEXT; i++) {
        OK(rp_session_step(a, text[i]));
        OK(rp_session_step(b, text[i]));
        same_logits(a, b, name, i + 1);
    }
    free(want), free(got);
    rp_session_free(a), rp_session_free(b);
    rp_model_free(m);
}

Test(session_windows, their_logits_are_those_of_sessions_that_keep_all) {
    static const char *const names[] = {"gemma3-mix", "gemma4-mix", "gpt-oss-mxfp4", "olmo3-mix"};
    for (int i = 0; i < 4; i++) goes_like_one_with_all(names[i], RP_F16);
    goes_like_one_with_all("gpt-oss-mxfp4", RP_Q8_0);
}

/* ---- rewinding ---- */

Test(session_windows, a_session_rewinds_to_where_it_has_the_window) {
    RpModel   *m = golden_open_tiny("gemma3-mix");
    RpSession *a = open_session(m, (RpSessionOptions){0}), *b = open_session(m, (RpSessionOptions){.window_tokens = 1});
    int32_t    text[N_TEXT];
    make_text(m, text);
    OK(rp_session_prefill(b, text, 100, NULL, NULL));
    cr_expect_eq(rp_session_rewind_point(b, 1), 1, "all positions are still there");
    OK(rp_session_rewind(b, 60));
    OK(rp_session_prefill(b, text + 60, 300 - 60, NULL, NULL));
    OK(rp_session_prefill(a, text, 300, NULL, NULL));
    const int32_t from = (300 + BLOCK - 1) / BLOCK * BLOCK - LEAST * BLOCK, first = from + WINDOW - 1;
    cr_expect_eq(rp_session_rewind_point(b, first), first);
    cr_expect_eq(rp_session_rewind_point(b, first - 1), 0);
    REFUSED(rp_session_rewind(b, first - 1), RP_E_NOT_AVAILABLE,
            "rewind to 198: layers with a window have the positions from 192 on, the nearest before it is 0");
    for (int32_t to = 299; to >= first; to -= 11) { /* what was written lately stays as far back */
        OK(rp_session_rewind(a, to));
        OK(rp_session_rewind(b, to));
        OK(rp_session_prefill(a, text + to + 1, 9, NULL, NULL));
        OK(rp_session_prefill(b, text + to + 1, 9, NULL, NULL));
        same_logits(a, b, "gemma3-mix", to);
    }
    cr_expect_eq(rp_session_rewind_point(b, first), first);
    OK(rp_session_rewind(b, 0));
    OK(rp_session_prefill(b, text, 40, NULL, NULL));
    cr_expect_eq(rp_session_rewind_point(b, 5), 5, "an empty context has lost nothing");
    rp_session_free(a), rp_session_free(b);
    rp_model_free(m);
}

/* ---- files ---- */

/* A file of one session is read by the other, which goes on with the same bits. */
static void files_go(int32_t n, int32_t rewound, bool from_all, bool to_all) {
    RpModel    *m    = golden_open_tiny("gemma3-mix");
    RpSession  *a    = open_session(m, (RpSessionOptions){.window_tokens = from_all ? 0 : 1});
    RpSession  *b    = open_session(m, (RpSessionOptions){.window_tokens = to_all ? 0 : 1});
    RpTokenList list = {0}, read = {0};
    int32_t     text[N_TEXT];
    make_text(m, text);
    OK(rp_session_prefill(a, text, (size_t)(n + rewound), NULL, NULL));
    OK(rp_session_rewind(a, n));
    for (int32_t i = 0; i < n; i++) OK(rp_token_list_push(&list, text[i]));
    OK(rp_session_save(a, &list, NULL, path));
    OK(rp_session_prefill(b, text + 100, 200, NULL, NULL)); /* what it had is replaced */
    OK(rp_session_restore(b, path, &read, NULL));
    cr_assert_eq(rp_session_n_past(b), n, CASE(n, from_all, to_all));
    const int32_t point = rp_session_rewind_point(b, n - 20);
    cr_expect_eq(point, n - 20, CASE(n, from_all, to_all));
    OK(rp_session_rewind(a, n - 20));
    OK(rp_session_rewind(b, n - 20));
    OK(rp_session_prefill(a, text + n - 20, 40, NULL, NULL));
    OK(rp_session_prefill(b, text + n - 20, 40, NULL, NULL));
    same_logits(a, b, from_all ? "of all" : "of windows", n);
    if (n > 300) cr_expect_eq(rp_session_rewind_point(b, 100), from_all && to_all ? 100 : 0, CASE(n, from_all, to_all));
    rp_token_list_free(&list), rp_token_list_free(&read);
    rp_session_free(a), rp_session_free(b);
    rp_model_free(m);
}

Test(session_windows, files_go_from_one_kind_of_session_to_the_other) {
    static const int32_t lengths[] = {30, 160, 161, 320, 400};
    for (int i = 0; i < 5; i++)
        for (int from_all = 0; from_all < 2; from_all++)
            for (int to_all = 0; to_all < 2; to_all++) files_go(lengths[i], i % 2 == 0 ? 0 : 25, from_all, to_all);
}
