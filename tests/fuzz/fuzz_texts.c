/* Fuzz target: texts and token files of `reprise train`.
 *     byte 0  bits 0-1 separator (blank lines, "\n", none, "ab"), bits 2-3 token file (0: text),
 *             bit 4 BPE or SentencePiece
 *     byte 1  share that is held out
 *     byte 2  length of a sequence
 *     byte 3  seed
 *     then the file
 * Documents are parts of the text, in order, without line ends around them. Every token is learned or held out, and a
 * sequence is a part of what is learned. */
#include "tests/fuzz/file_edit.h"

#include "cli/train/train.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 4, MAX_SEQ = 12, N_SEQUENCES = 3, SMALL_VOCAB = 300 };

static RpTokenizer *tokenizers[2];

static void load(void) {
    static const char *const files[] = {"tokenizer/smollm", "tokenizer/spm", NULL};
    for (size_t i = 0; i < 2; i++)
        fuzz_expect(rp_tokenizer_new(fuzz_golden(files, i), &tokenizers[i]) == RP_OK, "the tokenizer");
}

static void check_documents(const Corpus *c, const char *separator) {
    const char *at = c->files[0].bytes, *end = at + c->files[0].n;
    for (size_t i = 0; i < c->n_documents; i++) {
        const RpGgufString d = c->documents[i];
        fuzz_expect(d.len > 0 && d.ptr >= at && d.ptr + d.len <= end, "a document is no part of the text");
        fuzz_expect(strchr("\r\n", d.ptr[0]) == NULL || d.ptr[0] == '\0', "a document begins with a line end");
        if (separator != NULL && separator[0] != '\0')
            fuzz_expect(memmem(d.ptr, d.len, separator, strlen(separator)) == NULL, "a separator in a document");
        at = d.ptr + d.len;
    }
}

static RpStatus read_text(Corpus *c, const char *path, const uint8_t o[HEAD], float share) {
    static const char *const separators[] = {NULL, "\n", "", "ab"};
    const char              *items[1]     = {path};
    const TextList           paths        = {.items = items, .n = 1};
    RpGgufString            *texts;
    size_t                   n;
    RP_TRY(cli_corpus_read(c, &paths, separators[o[0] & 3]));
    check_documents(c, separators[o[0] & 3]);
    fuzz_expect(cli_corpus_training_texts(c, share, &texts, &n) == RP_OK && n <= c->n_documents, "the texts");
    free(texts);
    return cli_corpus_tokenize(c, tokenizers[o[0] >> 4 & 1], true);
}

static int64_t sum_of(const RpTokenList *list) {
    int64_t sum = 0;
    for (size_t i = 0; i < list->n; i++) sum += list->ids[i];
    return sum;
}

/* Neither more nor fewer tokens than before the split. */
static void split(Corpus *c, float share, int32_t seq, uint8_t seed) {
    const size_t  n   = c->train.n;
    const int64_t sum = sum_of(&c->train);
    int32_t       ids[N_SEQUENCES * (MAX_SEQ + 1)];
    size_t        places[N_SEQUENCES];
    const bool    ok = cli_corpus_split(c, share, seq) == RP_OK;
    fuzz_expect(ok == (c->train.n > (size_t)seq), "a split without a sequence");
    fuzz_expect(c->train.n + c->held.n == n && sum_of(&c->train) + sum_of(&c->held) == sum, "tokens are lost");
    if (!ok) return;
    cli_train_sequences(&c->train, seq, seed, 1 + seed % 5, N_SEQUENCES, ids, places);
    for (size_t i = 0; i < N_SEQUENCES; i++) {
        fuzz_expect(places[i] + (size_t)seq < c->train.n, "a sequence behind the end");
        fuzz_expect(memcmp(ids + i * ((size_t)seq + 1), c->train.ids + places[i], ((size_t)seq + 1) * sizeof *ids) == 0,
                    "a sequence is no part of the tokens");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int32_t token_bytes[] = {0, 2, 4, 2};
    char                 path[64];
    Corpus               c = {0};
    if (tokenizers[0] == NULL) load();
    if (size < HEAD) return 0;
    const float              share = (float)(data[1] % 64) / 64.0f;
    const int32_t            bytes = token_bytes[data[0] >> 2 & 3], seq = 1 + data[2] % MAX_SEQ;
    const RpTokenizer *const tk = (data[0] >> 2 & 3) == 3 ? NULL : tokenizers[data[0] >> 4 & 1];
    fuzz_path(path, "text");
    fuzz_save(path, data + HEAD, size - HEAD);
    const RpStatus st =
        bytes == 0 ? read_text(&c, path, data, share) : cli_corpus_read_tokens(&c, path, bytes, SMALL_VOCAB, tk);
    if (st == RP_OK) split(&c, share, seq, data[3]);
    cli_corpus_free(&c);
    unlink(path);
    return 0;
}
