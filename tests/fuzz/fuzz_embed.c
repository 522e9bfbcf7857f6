/* Fuzz target: a damaged model that makes embeddings is opened and run on the CPU. Bytes of the input as in
 * file_edit.h; the options are
 *     1 context   2 pooling   3 norm, dimensions and instruction set   4 tokens of the text   5 first token   6 chunk
 * A file may be refused, and an embedder too. One that opened gives the same bits for a text again, for every
 * instruction set (I8). A text is tokenised, and a document scored. */
#include "tests/fuzz/file_edit.h"

#include "base/kernels.h"
#include "reprise/embed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed);
}

enum { MAX_TEXT = 24, MAX_OUT = 4096 };

static const char *const models[] = {"embed/bert-f32",
                                     "embed/bert-mix",
                                     "embed/bert-rank",
                                     "embed/bert-rank-mix",
                                     "embed/nomic-bert-mix",
                                     "embed/modern-bert-f32",
                                     "embed/modern-bert-rank",
                                     "embed/eurobert-mix",
                                     "embed/gemma-embedding-f32",
                                     "embed/gemma-embedding-mix",
                                     "embed/qwen3-embed-mix",
                                     "embed/qwen3-rank-f32",
                                     "embed/llama-both-f32",
                                     NULL};

static bool small(const RpModelInfo *i) {
    return i->n_layer <= 8 && i->n_vocab <= 1024 && i->n_embd <= 1024 && i->n_head <= 64 && i->head_dim <= 512 &&
           i->n_ff <= 2048 && i->n_label <= 64;
}

static bool same(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

static void run(const RpModel *m, RpEmbedder *e, const uint8_t o[FUZZ_HEAD]) {
    static float         first[MAX_TEXT * MAX_OUT], again[MAX_TEXT * MAX_OUT];
    int32_t              tokens[MAX_TEXT];
    const RpEmbedderInfo info  = rp_embedder_info(e);
    const int32_t        vocab = rp_model_info(m)->n_vocab;
    const size_t         n     = 1 + o[4] % MAX_TEXT;
    for (size_t i = 0; i < n; i++) tokens[i] = (int32_t)((o[5] + 7 * i) % (size_t)vocab);
    if (info.n_out > MAX_OUT) return;
    const RpStatus st = rp_embed(e, tokens, n, first);
    if (st == RP_OK) {
        (void)rp_cpu_isa_set(RP_ISA_PLAIN);
        fuzz_expect(rp_embed(e, tokens, n, again) == RP_OK, "the second run failed");
        const size_t rows = info.pooling == RP_POOLING_NONE ? n : 1;
        fuzz_expect(same(first, again, rows * (size_t)info.n_out), "another instruction set gives other bits");
    }
    (void)rp_embed_text(e, "A caf\xc3\xa9, \xff b", 11, first);
    (void)rp_rerank(e, "a b", 3, "c", 1, first);
}

static void open_embedder(const RpModel *m, const uint8_t o[FUZZ_HEAD]) {
    const RpEmbedderOptions options = {.n_ctx         = 1 + o[1] % 32,
                                       .n_threads     = 1 + (o[6] & 1),
                                       .pooling       = (RpPooling)(o[2] % 6),
                                       .normalize     = (int32_t)(o[3] % 6) - 2,
                                       .dimensions    = (o[3] & 8) != 0 ? 7 : 0,
                                       .prefill_chunk = 1 + (o[6] >> 1) % 8,
                                       .device        = "cpu"};
    RpEmbedder             *e;
    (void)rp_cpu_isa_set((RpCpuIsa)(o[3] >> 6));
    if (rp_embedder_open(m, &options, &e) != RP_OK) return;
    run(m, e, o);
    rp_embedder_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t  head[FUZZ_HEAD] = {0};
    FuzzFile f;
    RpModel *m;
    memcpy(head, data, size < FUZZ_HEAD ? size : FUZZ_HEAD);
    setenv("REPRISE_PREFETCH", "none", 1), setenv("REPRISE_SPIN_US", "0", 1);
    fuzz_file_make(&f, models, data, size);
    if (f.n <= FUZZ_MAX_BYTES && rp_model_open_memory(f.bytes, f.n, "fuzz", &m) == RP_OK) {
        if (small(rp_model_info(m))) open_embedder(m, head);
        rp_model_free(m);
    }
    fuzz_file_free(&f);
    return 0;
}
