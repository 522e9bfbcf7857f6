/* A trained tokenizer as a GGUF file that has metadata only. */
#include "reprise/convert.h"

#include "base/argument.h"
#include "base/sized.h"
#include "model/gguf/gguf_write.h"
#include "model/tokenizer/bpe_train.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_VOCAB = 4096 };

static const char end_token[] = "<|end|>";

/* `text` has room for two spelt tokens and a space. */
static void put_texts(GgufWriter *w, const BpeVocabulary *v, char *text) {
    rp_gguf_put_array(w, "tokenizer.ggml.tokens", RP_GGUF_STRING, (uint64_t)v->n_tokens);
    rp_gguf_put_text(w, end_token, strlen(end_token));
    for (int32_t i = BPE_FIRST_BYTE; i < v->n_tokens; i++)
        rp_gguf_put_text(w, text, rp_bpe_spell(v->tokens[i].ptr, v->tokens[i].len, text));
    rp_gguf_put_array(w, "tokenizer.ggml.merges", RP_GGUF_STRING, v->n_merges);
    for (size_t i = 0; i < v->n_merges; i++) {
        const RpGgufString *a = &v->tokens[v->merges[i][0]], *b = &v->tokens[v->merges[i][1]];
        size_t              n = rp_bpe_spell(a->ptr, a->len, text);
        text[n++]             = ' ';
        n += rp_bpe_spell(b->ptr, b->len, text + n);
        rp_gguf_put_text(w, text, n);
    }
}

static RpStatus write_all(GgufWriter *w, const BpeVocabulary *v) {
    enum { NORMAL = 1, CONTROL = 3 };
    size_t longest = 0;
    for (int32_t i = 0; i < v->n_tokens; i++)
        if (v->tokens[i].len > longest) longest = v->tokens[i].len;
    char *text = malloc(4 * longest + 2);
    if (text == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a token of %zu bytes", longest);
    rp_gguf_put_string(w, "general.architecture", "gpt2");
    rp_gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
    rp_gguf_put_string(w, "tokenizer.ggml.pre", "gpt-2");
    put_texts(w, v, text);
    free(text);
    rp_gguf_put_array(w, "tokenizer.ggml.token_type", RP_GGUF_I32, (uint64_t)v->n_tokens);
    for (int32_t i = 0; i < v->n_tokens; i++) {
        const int32_t type = i == BPE_END ? CONTROL : NORMAL;
        rp_gguf_put_element(w, &type, sizeof type);
    }
    rp_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", BPE_END);
    rp_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", BPE_END);
    rp_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true);
    return rp_gguf_writer_begin(w);
}

RpStatus rp_train_tokenizer_sized(const RpGgufString *texts, size_t n_texts, const RpTrainTokenizerOptions *options,
                                  size_t options_bytes, const char *path) {
    RP_NOT_NULL(texts, "texts");
    RP_NOT_NULL(path, "path");
    RpTrainTokenizerOptions o;
    BpeVocabulary           v;
    GgufWriter             *w;
    size_t                  bytes = 0;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpTrainTokenizerOptions"));
    if (o.n_vocab == 0) o.n_vocab = DEFAULT_VOCAB;
    if (o.n_vocab < BPE_FIRST_MERGED)
        return rp_fail(RP_E_ARG, "a vocabulary of %d tokens: the end token and the bytes are %d already", o.n_vocab,
                       BPE_FIRST_MERGED);
    for (size_t i = 0; i < n_texts; i++) bytes += texts[i].len;
    if (bytes == 0) return rp_fail(RP_E_ARG, "a tokenizer cannot be trained on no text");
    RP_TRY(rp_bpe_train(texts, n_texts, o.n_vocab, o.progress, o.user, &v));
    RpStatus st = rp_gguf_writer_open(path, &w);
    if (st == RP_OK) st = rp_gguf_writer_close(w, write_all(w, &v));
    rp_bpe_vocabulary_free(&v);
    return st;
}
