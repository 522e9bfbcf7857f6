/* Fuzz target: a damaged model is opened and run on the CPU. Bytes of the input as in file_edit.h; the options are
 *     1 context   2 chunk of the prefill   3 flags   4 tokens of the prompt   5 first token   6 sampler   7 score
 * A file may be refused. A session that opened must run: a prefill gives the bits of single steps, for every
 * instruction set (I8), and the sampler takes or refuses the logits. Large models are left out. */
#include "tests/fuzz/file_edit.h"

#include "base/kernels.h"
#include "reprise/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed);
}

enum { MAX_PROMPT = 12, MAX_SESSION = 32 << 20 };

static bool small(const RpModelInfo *i) {
    return i->n_layer <= 8 && i->n_vocab <= 1024 && i->n_embd <= 1024 && i->n_head <= 64 && i->head_dim <= 512 &&
           i->n_ff <= 2048 && i->n_expert <= 64;
}

static bool same(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

static void sample(const float *logits, int32_t n_vocab, uint8_t how) {
    RpSamplerParams p = rp_sampler_defaults();
    RpSampler      *s;
    int32_t         token = -1;
    p.temperature         = (float)(how & 3) * 0.7f;
    p.top_k               = (how >> 2 & 3) * 5;
    p.top_p               = (how & 16) != 0 ? 0.9f : 1.0f;
    p.min_p               = (how & 32) != 0 ? 0.05f : 0.0f;
    p.repeat_penalty      = (how & 64) != 0 ? 1.3f : 1.0f;
    fuzz_expect(rp_sampler_new(&p, n_vocab, &s) == RP_OK, "no sampler");
    for (int i = 0; i < 3; i++) {
        const RpStatus st = rp_sampler_sample(s, logits, &token);
        fuzz_expect(st == RP_OK ? token >= 0 && token < n_vocab : st == RP_E_ARG, "the sampler failed");
    }
    rp_sampler_free(s);
}

static void add_loss(size_t i, const float *logits, void *user) {
    double *sum = user;
    *sum += (double)logits[0] + (double)i;
}

static void run(const RpModel *m, RpSession *s, const uint8_t o[FUZZ_HEAD]) {
    const int32_t n_vocab = rp_model_info(m)->n_vocab, n_ctx = rp_session_n_ctx(s);
    int32_t       tokens[MAX_PROMPT + 2];
    double        loss = 0;
    int32_t       n    = 1 + o[4] % MAX_PROMPT;
    if (n > n_ctx - 2) n = n_ctx - 2;
    if (n < 1) return;
    for (int32_t i = 0; i < n + 2; i++) tokens[i] = (o[5] + i * 7) % n_vocab;
    float *logits = malloc((size_t)n_vocab * sizeof *logits);
    if (logits == NULL) return;
    fuzz_expect(rp_session_prefill(s, tokens, (size_t)n, NULL, NULL) == RP_OK, "the prefill failed");
    for (int32_t i = n; i < n + 2; i++) fuzz_expect(rp_session_step(s, tokens[i]) == RP_OK, "a step failed");
    memcpy(logits, rp_session_logits(s), (size_t)n_vocab * sizeof *logits);
    sample(logits, n_vocab, o[6]);
    for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
        if (rp_cpu_isa_set((RpCpuIsa)isa) != RP_OK) continue;
        fuzz_expect(rp_session_rewind(s, 0) == RP_OK, "no rewind");
        if (isa % 2 == 0) /* all tokens at once, or one by one */
            fuzz_expect(rp_session_prefill(s, tokens, (size_t)n + 2, NULL, NULL) == RP_OK, "the second prefill failed");
        else
            for (int32_t i = 0; i < n + 2; i++) fuzz_expect(rp_session_step(s, tokens[i]) == RP_OK, "a step failed");
        fuzz_expect(same(logits, rp_session_logits(s), (size_t)n_vocab),
                    "other logits with another split or instruction set");
    }
    if (o[7] % 4 == 0) {
        fuzz_expect(rp_session_rewind(s, 0) == RP_OK, "no rewind");
        fuzz_expect(rp_session_score(s, tokens, (size_t)n + 2, add_loss, &loss) == RP_OK, "the score failed");
        fuzz_expect(same(logits, rp_session_logits(s), (size_t)n_vocab), "other logits in the score");
    }
    free(logits);
}

static void open_session(const RpModel *m, const uint8_t o[FUZZ_HEAD]) {
    static const char *const passes[] = {"", "-all", "-quantize", "-attention", "-all,+norm", "", "", ""};
    const int32_t            n_train  = rp_model_info(m)->n_ctx_train;
    RpSessionMemory          memory;
    RpSession               *s;
    const RpSessionOptions   options = {.n_ctx         = n_train < 3 + o[1] % 62 ? n_train : 3 + o[1] % 62,
                                        .n_threads     = 1 + (o[3] & 1),
                                        .prefill_chunk = 1 + o[2] % 8,
                                        .passes        = passes[o[3] >> 1 & 7],
                                        .kv_type       = (o[3] & 16) != 0 ? RP_Q8_0 : RP_F16,
                                        .device        = "cpu",
                                        .count_experts = (o[3] & 32) == 0};
    const RpSessionOptions   whole   = {.n_ctx = n_train, .prefill_chunk = 16, .passes = options.passes};
    if (o[7] % 8 == 1) (void)rp_session_memory(m, &whole, &memory); /* only planned: it may be terabytes */
    if (rp_session_memory(m, &options, &memory) != RP_OK || memory.kv + memory.arena > MAX_SESSION) return;
    (void)rp_cpu_isa_set((RpCpuIsa)(o[3] >> 6));
    if (rp_session_open(m, &options, &s) != RP_OK) return;
    run(m, s, o);
    for (int l = 0; l < rp_model_info(m)->n_layer; l++) (void)rp_session_expert_counts(s, l);
    rp_session_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t  head[FUZZ_HEAD] = {0};
    FuzzFile f;
    RpModel *m;
    memcpy(head, data, size < FUZZ_HEAD ? size : FUZZ_HEAD);
    setenv("REPRISE_PREFETCH", "none", 1), setenv("REPRISE_SPIN_US", "0", 1);
    fuzz_file_make(&f, fuzz_tiny(), data, size);
    if (f.n <= FUZZ_MAX_BYTES && rp_model_open_memory(f.bytes, f.n, "fuzz", &m) == RP_OK) {
        if (small(rp_model_info(m))) open_session(m, head);
        rp_model_free(m);
    }
    fuzz_file_free(&f);
    return 0;
}
