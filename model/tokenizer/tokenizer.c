/* Tokenizers: loading from the metadata, and decoding of ids to bytes. tokenize.c encodes text, with the kinds in
 * tokenizer_bpe.c ("gpt2"), tokenizer_spm.c ("llama", "gemma4"), unigram.c ("t5") and wordpiece.c ("bert"). Every value
 * of the file is checked (I11). */
#include "model/tokenizer/tokenizer_impl.h"

#include "base/argument.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void rp_tokenizer_free(RpTokenizer *tk) {
    if (tk == NULL) return;
    rp_strings_free(&tk->by_text);
    rp_strings_free(&tk->symbols);
    rp_strings_free(&tk->special_texts);
    rp_pretokenizer_free(tk->pretokenizer);
    free(tk->special);
    free(tk->strip);
    rp_word_characters_free(tk->word_characters);
    free(tk->merges);
    free(tk->joins);
    free(tk->scores);
    free(tk->log_probs);
    free(tk->map.bytes);
    rp_normalizer_free(tk->normalizer);
    free(tk->ends);
    free(tk->suppressed);
    free(tk->types);
    free(tk->pieces);
    free(tk->memory);
    free(tk);
}

/* Bytes of all strings of an array; 0 for NULL. */
static size_t string_bytes(const RpGgufValue *v) {
    size_t      bytes  = 0;
    const void *cursor = v != NULL ? v->data : NULL;
    for (uint64_t i = 0; v != NULL && v->elem_type == RP_GGUF_STRING && i < v->n; i++)
        bytes += rp_gguf_next_string(&cursor).len;
    return bytes;
}

/* Copies the token texts. The memory also holds the pieces and merges that are decoded from texts later:
 * decoding never makes a text longer, and a byte token of SentencePiece takes one byte. */
static RpStatus load_texts(RpTokenizer *tk, const RpGgufFile *f) {
    const RpGgufValue *tokens = rp_gguf_find(f, "tokenizer.ggml.tokens");
    if (tokens == NULL || tokens->type != RP_GGUF_ARRAY || tokens->elem_type != RP_GGUF_STRING || tokens->n == 0 ||
        tokens->n > INT32_MAX / 4)
        return rp_fail(RP_E_FORMAT, "%s: tokenizer.ggml.tokens is not an array of strings", rp_gguf_path(f));
    const size_t n     = (size_t)tokens->n;
    const size_t bytes = 2 * string_bytes(tokens) + string_bytes(rp_gguf_find(f, "tokenizer.ggml.merges")) + n;
    tk->n_vocab        = (int32_t)n;
    tk->room           = bytes;
    tk->memory         = malloc(bytes + 1);
    tk->pieces         = calloc(n, sizeof *tk->pieces);
    tk->types          = calloc(n, sizeof *tk->types);
    tk->ends           = calloc(n, sizeof *tk->ends);
    if (tk->memory == NULL || tk->pieces == NULL || tk->types == NULL || tk->ends == NULL)
        return rp_fail(RP_E_NOMEM, "%s: out of memory for a vocabulary of %zu tokens", rp_gguf_path(f), n);
    /* appended even where two tokens have one text: numbers in by_text are token ids */
    const void *cursor = tokens->data;
    for (size_t i = 0; i < n; i++) {
        const RpGgufString s = rp_gguf_next_string(&cursor);
        char              *p = rp_tokenizer_bytes(tk, s.len);
        memcpy(p, s.ptr, s.len);
        RP_TRY(rp_strings_append(&tk->by_text, (RpGgufString){p, s.len}));
    }
    return RP_OK;
}

/* Without tokenizer.ggml.token_type every token is a normal one. */
static RpStatus load_types(RpTokenizer *tk, const RpGgufFile *f) {
    const RpGgufValue *v = rp_gguf_find(f, "tokenizer.ggml.token_type");
    if (v != NULL && (v->type != RP_GGUF_ARRAY || v->elem_type == RP_GGUF_STRING || v->n != (uint64_t)tk->n_vocab))
        return rp_fail(RP_E_FORMAT, "%s: tokenizer.ggml.token_type is not an array of %d numbers", rp_gguf_path(f),
                       tk->n_vocab);
    for (int32_t i = 0; i < tk->n_vocab; i++) {
        const double type = v != NULL ? rp_gguf_number_at(v, (uint64_t)i) : (double)TOKEN_NORMAL;
        if (!(type >= 0.0 && type <= (double)TOKEN_BYTE))
            return rp_fail(RP_E_FORMAT, "%s: token %d is of the unknown type %g", rp_gguf_path(f), i, type);
        tk->types[i] = (TokenType)type;
    }
    return RP_OK;
}

/* Tokens that are recognised in raw text by their exact text. */
static bool is_special(const RpTokenizer *tk, int32_t id) {
    const TokenType t = tk->types[id];
    return (t == TOKEN_CONTROL || t == TOKEN_USER_DEFINED || t == TOKEN_UNKNOWN) && tk->by_text.strings[id].len > 0;
}

typedef struct Special {
    size_t  len;
    int32_t id;
} Special;

static int longest_first(const void *a, const void *b) {
    const Special *x = a, *y = b;
    if (x->len != y->len) return x->len > y->len ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* special[] and special_texts in the same order: longest first, then by id. A short token must not cut a
 * longer one that contains it. */
static RpStatus load_specials(RpTokenizer *tk) {
    size_t n = 0;
    for (int32_t i = 0; i < tk->n_vocab; i++) n += is_special(tk, i);
    Special *sorted = malloc((n + 1) * sizeof *sorted);
    tk->special     = malloc((n + 1) * sizeof *tk->special);
    RpStatus st     = RP_OK;
    if (sorted == NULL || tk->special == NULL) st = rp_fail(RP_E_NOMEM, "out of memory for special tokens");
    n = 0;
    for (int32_t i = 0; i < tk->n_vocab && st == RP_OK; i++)
        if (is_special(tk, i)) sorted[n++] = (Special){tk->by_text.strings[i].len, i};
    if (st == RP_OK) qsort(sorted, n, sizeof *sorted, longest_first);
    for (size_t i = 0; i < n && st == RP_OK; i++) {
        tk->special[i] = sorted[i].id;
        st             = rp_strings_append(&tk->special_texts, tk->by_text.strings[sorted[i].id]);
    }
    tk->n_special = n;
    free(sorted);
    return st;
}

/* Files of Phi-3 and Phi-3.5 do not say that their special tokens take the white space behind them. llama.cpp knows the
 * files by their name. */
static bool is_phi3(const RpGgufFile *f) {
    RpGgufString name = {"", 0};
    if (rp_gguf_get_string(f, "general.name", &name) != RP_OK) return false;
    for (size_t i = 0; i + 4 <= name.len; i++)
        if (strncasecmp(name.ptr + i, "phi3", 4) == 0 ||
            (i + 5 <= name.len && strncasecmp(name.ptr + i, "phi-3", 5) == 0))
            return true;
    return false;
}

static bool is_text(const RpTokenizer *tk, int32_t id, const char *text) {
    const RpGgufString s = tk->by_text.strings[id];
    return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

static RpStatus strip_as_phi3(RpTokenizer *tk, const RpGgufFile *f) {
    tk->strip = calloc((size_t)tk->n_vocab, 1);
    if (tk->strip == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a tokenizer", rp_gguf_path(f));
    for (int32_t i = 0; i < tk->n_vocab; i++) {
        const bool special = tk->types[i] == TOKEN_CONTROL || tk->types[i] == TOKEN_USER_DEFINED;
        const bool keeps   = is_text(tk, i, "<unk>") || is_text(tk, i, "<s>") || is_text(tk, i, "<|endoftext|>");
        if (!keeps && (special || is_text(tk, i, "</s>"))) tk->strip[i] = STRIP_RIGHT;
    }
    return RP_OK;
}

static RpStatus load_strip(RpTokenizer *tk, const RpGgufFile *f) {
    const RpGgufValue *v = rp_gguf_find(f, "tokenizer.hf.strip");
    if (v == NULL) return is_phi3(f) ? strip_as_phi3(tk, f) : RP_OK;
    if (v->type != RP_GGUF_ARRAY || v->elem_type != RP_GGUF_U8 || v->n != (uint64_t)tk->n_vocab)
        return rp_fail(RP_E_FORMAT, "%s: tokenizer.hf.strip is not a u8 for each of the %d tokens", rp_gguf_path(f),
                       tk->n_vocab);
    tk->strip = malloc((size_t)tk->n_vocab);
    if (tk->strip == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a tokenizer", rp_gguf_path(f));
    memcpy(tk->strip, v->data, (size_t)tk->n_vocab);
    for (int32_t i = 0; i < tk->n_vocab; i++)
        if ((tk->strip[i] & (SINGLE_WORD | SINGLE_IN_FRAGMENT)) != 0)
            return rp_word_characters_new(&tk->word_characters);
    return RP_OK;
}

/* Added tokens that the package tokenizers looks for in the normalised text, after their own text was normalised: here
 * they are found before. */
static RpStatus check_normalized(const RpTokenizer *tk, const RpGgufFile *f) {
    const RpGgufValue *v = rp_gguf_find(f, "tokenizer.hf.normalized");
    for (uint64_t i = 0; v != NULL && i < v->n; i++) {
        const double id = rp_gguf_number_at(v, i);
        if (!(id >= 0.0 && id < (double)tk->n_vocab))
            return rp_fail(RP_E_FORMAT, "%s: tokenizer.hf.normalized has %g, the vocabulary has %d tokens",
                           rp_gguf_path(f), id, tk->n_vocab);
        const RpGgufString text = tk->by_text.strings[(int32_t)id];
        char              *normal;
        size_t             len;
        RP_TRY(rp_normalize(tk->normalizer, text.ptr, text.len, &normal, &len));
        const bool same = len == text.len && (normal == NULL || memcmp(normal, text.ptr, len) == 0);
        free(normal);
        if (!same)
            return rp_fail(RP_E_UNSUPPORTED,
                           "%s: normalized of an added token that the normalizer changes '%.*s' is not supported",
                           rp_gguf_path(f), (int)(text.len < 48 ? text.len : 48), text.ptr);
    }
    return RP_OK;
}

static RpStatus load_normalizer(RpTokenizer *tk, const RpGgufFile *f) {
    RP_TRY(rp_normalizer_new(f, &tk->normalizer));
    return check_normalized(tk, f);
}

/* Files of RoBERTa and XLM-RoBERTa, which have the architecture of BERT, but not its words. */
static bool is_roberta(const RpTokenizer *tk, const RpGgufFile *f) {
    RpGgufString arch = {"", 0};
    if (rp_gguf_get_string(f, "general.architecture", &arch) != RP_OK) return false;
    return !tk->words && arch.len == 4 && memcmp(arch.ptr, "bert", 4) == 0;
}

static RpStatus load(RpTokenizer *tk, const RpGgufFile *f) {
    RpGgufString kind = {"", 0};
    RP_TRY(rp_gguf_get_string(f, "tokenizer.ggml.model", &kind));
    if (kind.len == 0 || (kind.len == 4 && memcmp(kind.ptr, "none", 4) == 0))
        return rp_fail(RP_E_UNSUPPORTED, "%s has no tokenizer (tokenizer.ggml.model, or tokenizer.json of a directory)",
                       rp_gguf_path(f));
    const bool bpe     = kind.len == 4 && memcmp(kind.ptr, "gpt2", 4) == 0;
    const bool unigram = kind.len == 2 && memcmp(kind.ptr, "t5", 2) == 0;
    tk->words          = kind.len == 4 && memcmp(kind.ptr, "bert", 4) == 0;
    tk->gemma4         = kind.len == 6 && memcmp(kind.ptr, "gemma4", 6) == 0;
    if (!bpe && !unigram && !tk->gemma4 && !tk->words && !(kind.len == 5 && memcmp(kind.ptr, "llama", 5) == 0))
        return rp_fail(RP_E_UNSUPPORTED,
                       "%s: tokenizer '%.*s' is not supported (there are gpt2, llama, gemma4, bert and t5)",
                       rp_gguf_path(f), (int)(kind.len < 32 ? kind.len : 32), kind.ptr);
    /* defaults of the kind; the keys below override them */
    tk->kind    = bpe ? "gpt2" : unigram ? "t5" : tk->words ? "bert" : "llama";
    tk->unknown = -1;
    for (int b = 0; b < 256; b++) tk->byte_token[b] = -1;
    tk->add_bos = tk->add_space_prefix = !bpe;
    tk->bos = tk->eos = tk->sep = -1;
    RP_TRY(load_texts(tk, f));
    RP_TRY(load_types(tk, f));
    RP_TRY(bpe ? rp_bpe_load(tk, f) : tk->words ? rp_wordpiece_load(tk, f) : rp_spm_load(tk, f));
    if (unigram) RP_TRY(rp_unigram_load(tk, f));
    if (unigram && rp_gguf_find(f, "tokenizer.hf.log_probs") == NULL) RP_TRY(rp_charsmap_load(tk, f));
    if (tk->normalizes) tk->add_bos = false, tk->add_eos = true; /* of T5; those of other families say it */
    const bool all_said = rp_gguf_find(f, "tokenizer.hf.special_tokens") != NULL; /* what is absent there is none */
    const bool plain    = !bpe && !unigram && !tk->gemma4 && !tk->words;
    if (plain && !all_said && tk->n_vocab > 2) tk->unknown = 0, tk->bos = 1, tk->eos = 2; /* of old converters */
    if (!all_said && is_roberta(tk, f)) tk->add_sep = true; /* files of older converters do not say it */
    if (all_said || !tk->words) { /* converters have written false for BERT, which always has both */
        RP_TRY(rp_gguf_get_bool(f, "tokenizer.ggml.add_bos_token", &tk->add_bos));
        RP_TRY(rp_gguf_get_bool(f, "tokenizer.ggml.add_eos_token", &tk->add_eos));
        RP_TRY(rp_gguf_get_bool(f, "tokenizer.ggml.add_sep_token", &tk->add_sep));
    }
    RP_TRY(rp_gguf_get_bool(f, "tokenizer.ggml.add_space_prefix", &tk->add_space_prefix));
    if (tk->gemma4) tk->add_bos = true, tk->add_space_prefix = false; /* files that say otherwise are wrong */
    RP_TRY(rp_tokenizer_load_id(tk, f, "tokenizer.ggml.bos_token_id", &tk->bos));
    RP_TRY(rp_tokenizer_load_id(tk, f, "tokenizer.ggml.unknown_token_id", &tk->unknown));
    RP_TRY(rp_tokenizer_load_id(tk, f, "tokenizer.ggml.seperator_token_id", &tk->sep)); /* spelt so in files */
    RP_TRY(load_strip(tk, f));
    RP_TRY(load_normalizer(tk, f));
    RP_TRY(rp_tokenizer_load_marks(tk, f));
    return load_specials(tk);
}

RpStatus rp_tokenizer_new(const RpGgufFile *f, RpTokenizer **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(f, "f");

    RpTokenizer *tk = calloc(1, sizeof *tk);
    if (tk == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a tokenizer");
    const RpStatus st = load(tk, f);
    if (st != RP_OK) {
        rp_tokenizer_free(tk);
        return st;
    }
    *out = tk;
    return RP_OK;
}
