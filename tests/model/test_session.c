/* Sessions on tiny models of every family. The references are other runs of the library: token by token with
 * one thread. Prefills in any chunks, any number of threads and every instruction set must give the same bits
 * (I8). */
#include "tests/support/repack.h"

#include <math.h>

static RpSession *open_session(const RpModel *m, RpSessionOptions o) {
    RpSession *s;
    if (o.n_ctx == 0) o.n_ctx = 200;
    OK(rp_session_open(m, &o, &s));
    return s;
}

static void fill(int32_t *ids, int n, int32_t n_vocab) {
    for (int i = 0; i < n; i++) ids[i] = (int32_t)((unsigned)i * 2654435761u >> 8) % (n_vocab - 3) + 3;
}

/* Every family and many weight types: biases, QK norms, sliding windows, experts, sinks, latent attention,
 * layers without RoPE. */
static const char *const files[] = {"llama-mix",    "llama-mix-k",   "llama-f16",     "qwen2-mix",
                                    "qwen3-mix",    "gemma3-mix",    "mixtral-mix-k", "qwen2moe-mix",
                                    "qwen3moe-mix", "gpt-oss-mxfp4", "deepseek2-mix", "smollm3-mix"};

#ifdef RP_TEST_SLOW
enum { EVERY_FILE = 3 };
#else
enum { EVERY_FILE = 1 };
#endif
enum { N_FILES = sizeof files / sizeof files[0], N_IDS = 150 };

/* The logits after N_IDS tokens, appended `step` tokens per call. */
static void logits_after(const RpModel *m, RpSessionOptions o, int step, float *out) {
    RpSession *s = open_session(m, o);
    int32_t    ids[N_IDS];
    fill(ids, N_IDS, rp_model_info(m)->n_vocab);
    for (int i = 0; i < N_IDS; i += step)
        OK(rp_session_prefill(s, ids + i, (size_t)(N_IDS - i < step ? N_IDS - i : step), NULL, NULL));
    memcpy(out, rp_session_logits(s), (size_t)rp_model_info(m)->n_vocab * sizeof(float));
    rp_session_free(s);
}

Test(session, prefill_equals_token_by_token_bit_for_bit) {
    for (int f = 0; f < N_FILES; f += EVERY_FILE) {
        RpModel     *m     = golden_open_tiny(files[f]);
        const size_t bytes = (size_t)rp_model_info(m)->n_vocab * sizeof(float);
        float        want[256], got[256];
        logits_after(m, (RpSessionOptions){.n_threads = 1}, 1, want);
        for (int step = 2; step <= N_IDS; step = step * 2 + 1) {
            logits_after(m, (RpSessionOptions){.n_threads = 2, .prefill_chunk = 64}, step, got);
            cr_expect_arr_eq(got, want, bytes, "%s in steps of %d", files[f], step);
        }
        logits_after(m, (RpSessionOptions){.n_threads = 3, .prefill_chunk = 1}, N_IDS, got);
        cr_expect_arr_eq(got, want, bytes, "%s in chunks of one", files[f]);
        rp_model_free(m);
    }
}

/* Close to an f16 KV cache, and the same bits in any chunks. */
static void check_q8_0(const char *file) {
    RpModel     *m       = golden_open_tiny(file);
    const size_t n_vocab = (size_t)rp_model_info(m)->n_vocab;
    float        f16[256], want[256], got[256];
    double       size = 0.0, off = 0.0;
    logits_after(m, (RpSessionOptions){.n_threads = 1}, N_IDS, f16);
    logits_after(m, (RpSessionOptions){.n_threads = 1, .kv_type = RP_Q8_0}, 1, want);
    for (int step = 2; step <= N_IDS; step = step * 3 + 1) {
        logits_after(m, (RpSessionOptions){.n_threads = 1 + step % 4, .prefill_chunk = 64, .kv_type = RP_Q8_0}, step,
                     got);
        cr_expect_arr_eq(got, want, n_vocab * sizeof(float), "%s in steps of %d", file, step);
    }
    logits_after(m, (RpSessionOptions){.kv_type = RP_F16}, N_IDS, got);
    cr_expect_arr_eq(got, f16, n_vocab * sizeof(float), "%s: f16 is the default", file);
    for (size_t i = 0; i < n_vocab; i++) {
        size += pow((double)f16[i], 2.0);
        off += pow((double)f16[i] - (double)want[i], 2.0);
    }
    cr_log_info("%s: a q8_0 KV cache changes the logits by %g of their norm", file, sqrt(off / size));
    cr_expect(off > 0.0, "%s: q8_0 makes no difference", file);
    cr_expect_leq(sqrt(off / size), 0.05, "%s: changed by %g", file, sqrt(off / size));
    rp_model_free(m);
}

Test(session, keeps_the_kv_cache_in_q8_0) {
    check_q8_0("qwen3-f32");
    check_q8_0("qwen3moe-mix");
    check_q8_0("gpt-oss-mxfp4");
}

Test(session, a_q8_0_kv_cache_takes_about_half_the_memory) {
    RpModel        *m = golden_open_tiny("qwen3-f32");
    RpSessionMemory f16, q8_0;
    OK(rp_session_memory(m, &(RpSessionOptions){.n_ctx = 128}, &f16));
    OK(rp_session_memory(m, &(RpSessionOptions){.n_ctx = 128, .kv_type = RP_Q8_0}, &q8_0));
    cr_expect_eq(q8_0.kv * 64, f16.kv * 34);
    rp_model_free(m);
}

Test(session, refuses_unsupported_kv_cache_types) {
    RpModel   *m = golden_open_tiny("llama-mix");
    RpSession *s;
    REFUSED(rp_session_open(m, &(RpSessionOptions){.kv_type = RP_Q8_0}, &s), RP_E_UNSUPPORTED,
            "a KV cache of q8_0: heads of 16 are not whole blocks of 32");
    REFUSED(rp_session_open(m, &(RpSessionOptions){.kv_type = RP_Q4_0}, &s), RP_E_ARG,
            "a KV cache of q4_0: must be f16 or q8_0");
    rp_model_free(m);
    m = golden_open_tiny("deepseek2-mix");
    REFUSED(rp_session_open(m, &(RpSessionOptions){.kv_type = RP_Q8_0}, &s), RP_E_UNSUPPORTED,
            "a KV cache of q8_0: the latent attention of deepseek2 needs f16");
    rp_model_free(m);
    m = golden_open_tiny("qwen3-f32");
    REFUSED(rp_session_open(m, &(RpSessionOptions){.kv_type = RP_Q8_0, .passes = "-attention"}, &s), RP_E_UNSUPPORTED,
            "the attention pass is switched off, must be on for a cache of q8_0");
    rp_model_free(m);
}

Test(session, gives_the_same_bits_for_any_number_of_threads_and_instruction_set) {
    for (int f = 0; f < N_FILES; f += EVERY_FILE) {
        RpModel     *m     = golden_open_tiny(files[f]);
        const size_t bytes = (size_t)rp_model_info(m)->n_vocab * sizeof(float);
        float        want[256], got[256];
        logits_after(m, (RpSessionOptions){.n_threads = 1}, N_IDS, want);
        for (int threads = 2; threads <= 5; threads++) {
            logits_after(m, (RpSessionOptions){.n_threads = threads}, N_IDS, got);
            cr_expect_arr_eq(got, want, bytes, "%s with %d threads", files[f], threads);
        }
        for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
            const RpCpuIsa best = rp_cpu_isa();
            if (rp_cpu_isa_set((RpCpuIsa)isa) != RP_OK) continue;
            logits_after(m, (RpSessionOptions){.n_threads = 2}, N_IDS, got);
            cr_expect_arr_eq(got, want, bytes, "%s with %s", files[f], rp_cpu_isa_name((RpCpuIsa)isa));
            OK(rp_cpu_isa_set(best));
        }
        rp_model_free(m);
    }
}

Test(session, gives_the_same_bits_with_repacked_weights) {
    for (int f = 0; f < N_FILES; f += EVERY_FILE) {
        RpModel     *m     = golden_open_tiny(files[f]);
        const size_t bytes = (size_t)rp_model_info(m)->n_vocab * sizeof(float);
        float        want[256], got[256];
        logits_after(m, (RpSessionOptions){.n_threads = 2, .repack = "off"}, N_IDS, want);
        for (int step = 1; step <= N_IDS; step = step * 4 + 1) {
            logits_after(m, (RpSessionOptions){.n_threads = 1 + step % 3, .repack = "on"}, step, got);
            cr_expect_arr_eq(got, want, bytes, "%s in steps of %d", files[f], step);
        }
        logits_after(m, (RpSessionOptions){.n_threads = 2, .repack = "auto"}, N_IDS, got);
        cr_expect_arr_eq(got, want, bytes, "%s with the copies that a measurement chose", files[f]);
        rp_model_free(m);
    }
}

/* The second session finds the copy made, and it outlives the first. */
Test(session, sessions_share_repacked_weights) {
    RpModel   *m        = golden_open_tiny("llama-mix-k");
    RpSession *none     = open_session(m, (RpSessionOptions){.repack = "off"}),
              *one      = open_session(m, (RpSessionOptions){.repack = "on"}),
              *two      = open_session(m, (RpSessionOptions){.repack = "on"});
    const size_t  bytes = rp_session_info(one).repack_bytes;
    const int32_t id    = 5;
    float         want[256], got[256];
    const size_t  n = (size_t)rp_model_info(m)->n_vocab * sizeof(float);
    cr_assert(bytes > 0 && rp_session_info(two).repack_bytes == bytes && rp_session_info(none).repack_bytes == 0);
    rp_session_free(one);
    OK(rp_session_prefill(none, &id, 1, NULL, NULL));
    OK(rp_session_prefill(two, &id, 1, NULL, NULL));
    memcpy(want, rp_session_logits(none), n);
    memcpy(got, rp_session_logits(two), n);
    cr_assert_arr_eq(got, want, n);
    rp_session_free(none), rp_session_free(two);
    REFUSED(rp_session_open(m, &(RpSessionOptions){.repack = "yes"}, &one), RP_E_ARG,
            "repack 'yes': must be on, off, auto or codebook");
    rp_model_free(m);
}

Test(session, repacks_codebook_types_by_default_if_that_gains) {
    static const char *const names[] = {"llama-iq3_s", "llama-iq2_xxs", "llama-mix-k", "llama-q4_k"};
    static const RpDtype     types[] = {RP_IQ3_S, RP_IQ2_XXS, RP_Q8_ACT, RP_Q8_ACT}; /* Q8_ACT: no codebook */
    cr_assert_eq(unsetenv("REPRISE_REPACK"), 0);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        RpModel   *m       = golden_open_tiny(names[i]);
        RpSession *plain   = open_session(m, (RpSessionOptions){0}),
                  *named   = open_session(m, (RpSessionOptions){.repack = "codebook"});
        const size_t bytes = rp_session_info(plain).repack_bytes;
        cr_expect_eq(bytes, rp_session_info(named).repack_bytes, "%s", names[i]);
        cr_expect_eq(bytes > 0, types[i] != RP_Q8_ACT && copies_gain(types[i]), "%s: %zu bytes", names[i], bytes);
        rp_session_free(plain), rp_session_free(named);
        rp_model_free(m);
    }
}

typedef struct Kept {
    float  rows[N_IDS][64];
    size_t n;
} Kept;

static void keep(size_t i, const float *logits, void *user) {
    Kept *k = user;
    cr_assert_eq(i, k->n);
    memcpy(k->rows[k->n++], logits, sizeof k->rows[0]);
}

Test(session, score_gives_the_logits_of_single_steps) {
    static Kept k;
    RpModel    *m = golden_open_tiny("gemma3-mix");
    RpSession  *a = open_session(m, (RpSessionOptions){0}), *b = open_session(m, (RpSessionOptions){0});
    int32_t     ids[N_IDS];
    cr_assert_eq(rp_model_info(m)->n_vocab, 64);
    fill(ids, N_IDS, 64);
    OK(rp_session_score(a, ids, N_IDS, keep, &k));
    cr_expect_eq(k.n, (size_t)N_IDS);
    for (int i = 0; i < N_IDS; i++) {
        OK(rp_session_step(b, ids[i]));
        cr_expect_arr_eq(rp_session_logits(b), k.rows[i], sizeof k.rows[i], "token %d", i);
    }
    rp_session_free(a), rp_session_free(b);
    rp_model_free(m);
}

Test(session, rewinds_to_an_earlier_position) {
    RpModel   *m = golden_open_tiny("llama-mix");
    RpSession *s = open_session(m, (RpSessionOptions){0});
    int32_t    ids[40];
    float      want[64];
    fill(ids, 40, 64);
    OK(rp_session_prefill(s, ids, 20, NULL, NULL));
    OK(rp_session_step(s, 7));
    memcpy(want, rp_session_logits(s), sizeof want);
    OK(rp_session_prefill(s, ids + 20, 20, NULL, NULL));
    OK(rp_session_rewind(s, 20));
    cr_expect_null(rp_session_logits(s));
    cr_expect_eq(rp_session_n_past(s), 20);
    OK(rp_session_step(s, 7));
    cr_expect_arr_eq(rp_session_logits(s), want, sizeof want);
    REFUSED(rp_session_rewind(s, 22), RP_E_ARG, "rewind to 22: the context holds 21 tokens");
    REFUSED(rp_session_rewind(s, -1), RP_E_ARG, "rewind to -1");
    rp_session_free(s);
    rp_model_free(m);
}

Test(session, refuses_tokens_past_the_context_without_loss) {
    RpModel   *m = golden_open_tiny("llama-mix");
    RpSession *s = open_session(m, (RpSessionOptions){.n_ctx = 10});
    int32_t    ids[20];
    float      before[64];
    fill(ids, 20, 64);
    OK(rp_session_prefill(s, ids, 8, NULL, NULL));
    memcpy(before, rp_session_logits(s), sizeof before);
    REFUSED(rp_session_prefill(s, ids, 3, NULL, NULL), RP_E_CONTEXT_FULL,
            "3 tokens do not fit: the context holds 8 of 10 already");
    cr_expect_eq(rp_session_n_past(s), 8);
    cr_expect_arr_eq(rp_session_logits(s), before, sizeof before);
    OK(rp_session_prefill(s, ids, 2, NULL, NULL));
    REFUSED(rp_session_step(s, 3), RP_E_CONTEXT_FULL, "10 of 10");
    rp_session_free(s);
    rp_model_free(m);
}

Test(session, refuses_bad_tokens_and_options) {
    RpModel   *m = golden_open_tiny("llama-mix");
    RpSession *s = open_session(m, (RpSessionOptions){0});
    REFUSED(rp_session_step(s, 64), RP_E_ARG, "token 64 at 0 is outside of the vocabulary of 64");
    REFUSED(rp_session_step(s, -1), RP_E_ARG, "token -1");
    REFUSED(rp_session_prefill(s, NULL, 0, NULL, NULL), RP_E_ARG, "no tokens to append");
    rp_session_free(s);
    REFUSED(rp_session_open(m, &(RpSessionOptions){.n_ctx = 513}, &s), RP_E_ARG,
            "a context of 513 tokens: must be from 1 to 512, for which the model was trained");
    REFUSED(rp_session_open(m, &(RpSessionOptions){.n_ctx = -5}, &s), RP_E_ARG, "a context of -5 tokens");
    REFUSED(rp_session_open(m, &(RpSessionOptions){.prefill_chunk = -1}, &s), RP_E_ARG,
            "prefill chunks of -1 tokens: must be from 1 to ");
    REFUSED(rp_session_open(m, &(RpSessionOptions){.passes = "-x"}, &s), RP_E_ARG, "'x' is not a pass");
    cr_expect_null(s);
    rp_model_free(m);
}

Test(session, reports_its_memory_before_it_opens) {
    RpModel        *m = golden_open_tiny("llama-mix");
    RpSessionMemory memory;
    OK(rp_session_memory(m, &(RpSessionOptions){.n_ctx = 100}, &memory));
    cr_expect_eq(memory.n_ctx, 100);
    cr_expect_eq(memory.kv, 2u * 2 * ((100 * 32 * 2 + 63) / 64 * 64)); /* K and V of 2 layers, 32 f16 a token */
    cr_expect_gt(memory.arena, 0u);
    cr_expect_eq(memory.total, memory.weights + memory.kv + memory.arena);
    rp_model_free(m);
}

/* A context of 2^30 tokens, which the file allows, takes 275 GB. */
Test(session, refuses_a_context_that_does_not_fit_in_memory) {
    const uint32_t  longest = 1u << 30;
    size_t          n;
    char           *bytes = golden_read_tiny("llama-mix", &n);
    RpGgufFile     *f;
    RpModel        *m;
    RpSession      *s;
    RpSessionMemory memory;
    OK(rp_gguf_open_memory(bytes, n, "long", &f));
    memcpy((char *)(uintptr_t)rp_gguf_find(f, "llama.context_length")->data, &longest, sizeof longest);
    rp_gguf_close(f);
    OK(rp_model_open_memory(bytes, n, "long", &m));
    const RpSessionOptions o = {.n_ctx = 1 << 30, .prefill_chunk = 1, .device = "cpu"};
    OK(rp_session_memory(m, &o, &memory));
    if (memory.kv < (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE))
        cr_skip_test("this machine has the memory");
    REFUSED(rp_session_open(m, &o, &s), RP_E_NOMEM,
            "a context of 1073741824 tokens takes 274.9 GB for the KV cache and ");
    double    gb[2];
    long long fit;
    const int n_read =
        sscanf(rp_last_error(),
               "a context of 1073741824 tokens takes 274.9 GB for the KV cache and %lf GB for intermediate "
               "tensors, %lf GB are free on cpu; about %lld tokens would fit",
               &gb[0], &gb[1], &fit);
    cr_expect_eq(n_read, 3, "%s", rp_last_error());
    cr_expect_null(s);
    rp_model_free(m);
    free(bytes);
}

static bool stop_at_64(int64_t done, int64_t total, void *user) {
    *(int64_t *)user = total;
    return done < 64;
}

Test(session, prefill_can_be_stopped) {
    RpModel   *m = golden_open_tiny("llama-mix");
    RpSession *s = open_session(m, (RpSessionOptions){.prefill_chunk = 32});
    int32_t    ids[N_IDS];
    int64_t    total = 0;
    fill(ids, N_IDS, 64);
    REFUSED(rp_session_prefill(s, ids, N_IDS, stop_at_64, &total), RP_E_CANCELLED,
            "prefill was stopped after 64 of 150 tokens");
    cr_expect_eq(total, N_IDS);
    cr_expect_eq(rp_session_n_past(s), 64);
    OK(rp_session_step(s, 5));
    rp_session_free(s);
    rp_model_free(m);
}
