/* Contexts in files: the next tokens have the bits that they have in a session that went on, whatever the family and
 * the type of the cache; damaged, foreign and other files are refused and change nothing. */
#include "tests/support/case.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/golden.h"
#include "tests/support/hf_folder.h"

#include <sys/stat.h>

enum { N_PAST = 37, N_MORE = 5, N_CTX = 64, MAX_VOCAB = 2048 };

static char path[128];

static void setup(void) {
    hf_begin();
    snprintf(path, sizeof path, "%s/a.context", folder);
}

TestSuite(context_file, .init = setup, .fini = hf_end);

static RpSession *open_session(const RpModel *m, RpSessionOptions o) {
    RpSession *s;
    if (o.n_ctx == 0) o.n_ctx = N_CTX;
    o.n_threads = 1;
    o.device    = "cpu";
    OK(rp_session_open(m, &o, &s));
    return s;
}

static RpTokenList tokens_of(const RpModel *m, size_t n) {
    RpTokenList t = {0};
    for (size_t i = 0; i < n; i++)
        OK(rp_token_list_push(&t, 3 + (int32_t)(i * 7 + i * i) % (rp_model_info(m)->n_vocab - 3)));
    return t;
}

/* Logits after each of N_MORE further tokens. */
static void go_on(RpSession *s, const RpModel *m, float out[N_MORE][MAX_VOCAB]) {
    const size_t n = (size_t)rp_model_info(m)->n_vocab;
    cr_assert_leq(n, (size_t)MAX_VOCAB);
    for (int32_t i = 0; i < N_MORE; i++) {
        OK(rp_session_step(s, 5 + i));
        memcpy(out[i], rp_session_logits(s), n * sizeof **out);
    }
}

static void save(RpSession *s, const RpModel *m, const char *note) {
    RpTokenList t = tokens_of(m, N_PAST);
    OK(rp_session_prefill(s, t.ids, t.n, NULL, NULL));
    OK(rp_session_save(s, &t, note, path));
    rp_token_list_free(&t);
}

static void continues_with_the_same_bits(const char *name, RpDtype kv) {
    static float want[N_MORE][MAX_VOCAB], got[N_MORE][MAX_VOCAB];
    RpModel     *m = golden_open_tiny(name);
    RpSession   *a = open_session(m, (RpSessionOptions){.kv_type = kv}), *b;
    RpTokenList  t = {0}, all = tokens_of(m, N_PAST), more = tokens_of(m, 11);
    char        *note;
    save(a, m, "a note");
    go_on(a, m, want);
    b = open_session(m, (RpSessionOptions){.kv_type = kv, .n_ctx = N_CTX - 8});
    OK(rp_session_prefill(b, more.ids, more.n, NULL, NULL)); /* is replaced */
    OK(rp_session_restore(b, path, &t, &note));
    cr_expect_eq(rp_session_n_past(b), N_PAST, "%s", name);
    cr_expect(t.n == all.n && memcmp(t.ids, all.ids, all.n * sizeof *all.ids) == 0, "%s: other tokens", name);
    cr_expect_str_eq(note, "a note", "%s", name);
    cr_expect_null(rp_session_logits(b), "%s", name);
    go_on(b, m, got);
    cr_expect_eq(memcmp(got, want, sizeof got), 0, "%s: other logits", name);
    OK(rp_session_rewind(b, N_PAST)); /* recurrent states too: the restored one is kept */
    go_on(b, m, got);
    cr_expect_eq(memcmp(got, want, sizeof got), 0, "%s: other logits after a rewind", name);
    free(note);
    rp_token_list_free(&t), rp_token_list_free(&all), rp_token_list_free(&more);
    rp_session_free(a), rp_session_free(b);
    rp_model_free(m);
}

Test(context_file, goes_on_with_the_same_bits) {
    static const char *const names[] = {"llama-f32",  "llama-mix", "gemma3-mix", "gpt-oss-f32",      "deepseek2-mix",
                                        "qwen35-f32", "lfm2-mix",  "gemma4-mix", "granitehybrid-mix"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) continues_with_the_same_bits(names[i], RP_F16);
}

Test(context_file, goes_on_with_the_same_bits_with_a_cache_of_q8_0) {
    continues_with_the_same_bits("qwen3-f32", RP_Q8_0);
}

/* A new file replaces that of another context, and nothing but that. */
Test(context_file, no_other_file_is_replaced) {
    RpModel    *m = golden_open_tiny("llama-f32");
    RpSession  *s = open_session(m, (RpSessionOptions){0});
    RpTokenList t = tokens_of(m, N_PAST);
    size_t      n;
    char       *model = golden_read_tiny("llama-f32", &n), other[160];
    save(s, m, NULL);
    OK(rp_session_save(s, &t, "again", path));
    hf_write("model.gguf", model, n);
    snprintf(other, sizeof other, "%s/model.gguf", folder);
    REFUSED(rp_session_save(s, &t, NULL, other), RP_E_ARG, "the file is no context: it was not replaced");
    hf_write("model.gguf", "text", 4);
    REFUSED(rp_session_save(s, &t, NULL, other), RP_E_ARG, "the file is no context: it was not replaced");
    hf_write("model.gguf", "", 0);
    OK(rp_session_save(s, &t, NULL, other));
    REFUSED(rp_session_save(s, &t, NULL, "/nonexistent/x"), RP_E_IO, "/nonexistent/x");
    REFUSED(rp_session_save(s, &t, NULL, folder), RP_E_ARG, folder);
    t.n--;
    REFUSED(rp_session_save(s, &t, NULL, path), RP_E_ARG, "the context has 36 tokens, the session 37");
    OK(rp_session_rewind(s, 0));
    t.n = 0;
    REFUSED(rp_session_save(s, &t, NULL, path), RP_E_STATE, "the context is empty: there is nothing to save");
    rp_token_list_free(&t);
    free(model);
    rp_session_free(s);
    rp_model_free(m);
}

#define RESTORE_REFUSED(session, status, text)                                                                         \
    do {                                                                                                               \
        char *note = path;                                                                                             \
        REFUSED(rp_session_restore((session), path, &t, &note), (status), (text));                                     \
        cr_expect_null(note);                                                                                          \
        cr_expect_eq(rp_session_n_past(session), 2);                                                                   \
        cr_expect_eq(t.n, 0);                                                                                          \
    } while (0)

static RpSession *open_with_two(const RpModel *m, RpSessionOptions o) {
    RpSession *s = open_session(m, o);
    OK(rp_session_prefill(s, (int32_t[]){5, 6}, 2, NULL, NULL));
    return s;
}

/* A context without tensors and checksums. */
static void write_header(uint32_t format) {
    Bytes b = {0};
    put_header(&b, 3, 0, 2);
    put_key_string(&b, "general.type", "context");
    put_key_u32(&b, "context.format", format);
    hf_write("b.context", b.p, b.n);
    free(b.p);
}

Test(context_file, what_does_not_fit_is_refused) {
    RpModel    *m = golden_open_tiny("qwen3-f32"), *foreign = golden_open_tiny("llama-mix");
    RpSession  *s[6];
    RpTokenList t = {0};
    s[0]          = open_session(m, (RpSessionOptions){0});
    save(s[0], m, NULL);
    s[1] = open_with_two(m, (RpSessionOptions){.n_ctx = N_PAST - 1});
    s[2] = open_with_two(m, (RpSessionOptions){.kv_type = RP_Q8_0});
    s[3] = open_with_two(m, (RpSessionOptions){.passes = "-norm"});
    s[4] = open_with_two(foreign, (RpSessionOptions){0});
    RESTORE_REFUSED(s[1], RP_E_CONTEXT_FULL, "37 tokens do not fit: the context holds 36");
    RESTORE_REFUSED(s[2], RP_E_SHAPE, "tensor k.0 is f16 [32,37,1], the session has q8_0 [32,37,1]");
    RESTORE_REFUSED(s[3], RP_E_ARG, "the context was saved with the passes '', the session has '-norm'");
    RESTORE_REFUSED(s[4], RP_E_ARG, "the context was saved with a model with the fingerprint '");
    s[5] = open_with_two(m, (RpSessionOptions){0});
    strcpy(path, GOLDEN_DIR "tiny/llama-f32.gguf");
    RESTORE_REFUSED(s[5], RP_E_FORMAT, "the file is no context");
    snprintf(path, sizeof path, "%s/b.context", folder);
    write_header(4);
    RESTORE_REFUSED(s[5], RP_E_UNSUPPORTED, "context.format is 4: this version reads 2 and 3");
    write_header(2);
    RESTORE_REFUSED(s[5], RP_E_FORMAT, "train.checksum.tensors is missing: the file is damaged");
    strcpy(path, "/nonexistent/x");
    RESTORE_REFUSED(s[5], RP_E_IO, "/nonexistent/x");
    for (int i = 0; i < 6; i++) rp_session_free(s[i]);
    rp_model_free(m), rp_model_free(foreign);
}

/* Every byte of the metadata, of the table of tensors and every 97th of the data, with a bit turned; every length. */
Test(context_file, a_damaged_file_is_refused) {
    enum { ROOM = 1 << 20 };
    RpModel    *m        = golden_open_tiny("llama-f32");
    RpSession  *s        = open_session(m, (RpSessionOptions){0});
    RpTokenList t        = {0};
    char       *p        = malloc(ROOM);
    int         n_missed = 0;
    save(s, m, NULL);
    rp_session_free(s);
    s              = open_with_two(m, (RpSessionOptions){0});
    FILE        *f = fopen(path, "rb");
    const size_t n = fread(p, 1, ROOM, f);
    fclose(f);
    cr_assert_lt(n, (size_t)ROOM);
    for (size_t i = 0; i < n; i += i < 2000 ? 1 : 97) {
        p[i] = (char)(p[i] ^ (1 << i % 8));
        hf_write("a.context", p, n);
        const RpStatus st = rp_session_restore(s, path, &t, NULL);
        p[i]              = (char)(p[i] ^ (1 << i % 8));
        /* padding behind a tensor has no checksum */
        if (st != RP_OK) cr_expect(rp_session_n_past(s) == 2 && t.n == 0, "byte %zu", i);
        if (st != RP_OK) continue;
        cr_expect_eq(p[i], 0, "byte %zu of %zu was not found", i, n);
        n_missed++;
        OK(rp_session_rewind(s, 2));
        rp_token_list_free(&t);
    }
    cr_expect_lt(n_missed, 64, "%d damages were not found", n_missed);
    for (size_t i = 0; i < n; i += 1 + i / 16) {
        hf_write("a.context", p, i);
        const RpStatus st = rp_session_restore(s, path, &t, NULL);
        cr_expect(st != RP_OK && rp_session_n_past(s) == 2 && t.n == 0, "%zu of %zu bytes", i, n);
    }
    hf_write("a.context", p, n);
    OK(rp_session_restore(s, path, &t, NULL));
    rp_token_list_free(&t);
    free(p);
    rp_session_free(s);
    rp_model_free(m);
}
