/* SentencePiece BPE: the characters of a text are merged as long as two neighbours together are a token,
 * highest score first. A symbol that is no token in the end is written as byte tokens "<0x..>". Spaces are
 * U+2581.
 *     "Hello world" -> "_Hello_world", _ being U+2581 -> _Hello, _world */
#include "model/tokenizer/tokenizer_impl.h"

#include "base/text/utf8.h"
#include "model/tokenizer/space.h"

#include <stdlib.h>
#include <string.h>

static const char space_mark[3] = {'\xe2', '\x96', '\x81'};

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* True for a byte token: "<0x41>" is byte 0x41. */
static bool byte_of(RpGgufString s, unsigned char *out) {
    if (s.len != 6 || memcmp(s.ptr, "<0x", 3) != 0 || s.ptr[5] != '>') return false;
    const int high = hex_digit(s.ptr[3]), low = hex_digit(s.ptr[4]);
    *out = (unsigned char)(16 * high + low);
    return high >= 0 && low >= 0;
}

/* The bytes that a token prints: each U+2581 becomes a space. */
static RpGgufString unmarked(RpTokenizer *tk, RpGgufString s) {
    char  *p = rp_tokenizer_bytes(tk, s.len);
    size_t n = 0;
    for (size_t i = 0; i < s.len;) {
        const bool mark = s.len - i >= sizeof space_mark && memcmp(s.ptr + i, space_mark, sizeof space_mark) == 0;
        p[n++]          = mark ? ' ' : s.ptr[i];
        i += mark ? sizeof space_mark : 1;
    }
    return (RpGgufString){p, n};
}

/* The bytes of a character, as a number. */
static uint32_t character(const char *p, size_t len) {
    uint32_t code = 0;
    for (size_t i = 0; i < len; i++) code = code << 8 | (unsigned char)p[i];
    return code;
}

/* Notes which characters stand side by side in the tokens that texts are merged to. */
static RpStatus load_joins(RpTokenizer *tk) {
    for (int32_t i = 0; i < tk->n_vocab; i++) {
        const RpGgufString s = tk->by_text.strings[i];
        if (tk->types[i] == TOKEN_BYTE || rp_tokenizer_is_control(tk, i)) continue;
        for (size_t at = 0, n; at < s.len; at += n) {
            n               = rp_utf8_length(s.ptr + at, s.len - at);
            const size_t to = at + n;
            if (to == s.len) break;
            RP_TRY(rp_tokenizer_add_join(tk, character(s.ptr + at, n),
                                         character(s.ptr + to, rp_utf8_length(s.ptr + to, s.len - to))));
        }
    }
    return RP_OK;
}

/* The rules of tokenizer.hf.merges, "left right". Without them any two neighbours whose text is a token can be
 * merged. */
static RpStatus load_merges(RpTokenizer *tk, const RpGgufFile *f) {
    const RpGgufValue *v = rp_gguf_find(f, tk->gemma4 ? "tokenizer.ggml.merges" : "tokenizer.hf.merges");
    if (v == NULL && tk->gemma4) return rp_fail(RP_E_FORMAT, "%s: tokenizer.ggml.merges is missing", rp_gguf_path(f));
    if (v == NULL) return RP_OK;
    if (v->type != RP_GGUF_ARRAY || (v->elem_type != RP_GGUF_STRING && v->n > 0))
        return rp_fail(RP_E_FORMAT, "%s: tokenizer.hf.merges is not an array of strings", rp_gguf_path(f));
    RP_TRY(rp_bpe_merges_begin(tk, v->n));
    const void *cursor = v->data;
    for (uint64_t i = 0; i < v->n; i++) {
        const RpGgufString line = rp_gguf_next_string(&cursor);
        const char        *at   = line.len > 1 ? memchr(line.ptr + 1, ' ', line.len - 1) : NULL;
        char               text[1024];
        if (at == NULL || line.len > sizeof text)
            return rp_fail(RP_E_FORMAT, "%s: merge %llu is not a pair of strings", rp_gguf_path(f),
                           (unsigned long long)i);
        const size_t left = (size_t)(at - line.ptr), right = line.len - left - 1;
        memcpy(text, line.ptr, left);
        memcpy(text + left, at + 1, right);
        const BpeMerge m = {.left   = rp_strings_find(&tk->by_text, line.ptr, left),
                            .right  = rp_strings_find(&tk->by_text, at + 1, right),
                            .merged = rp_strings_find(&tk->by_text, text, left + right),
                            .rank   = (int32_t)i};
        if (m.left < 0 || m.right < 0 || m.merged < 0)
            return rp_fail(RP_E_FORMAT, "%s: merge %llu, '%.*s', is not of tokens", rp_gguf_path(f),
                           (unsigned long long)i, (int)(line.len < 96 ? line.len : 96), line.ptr);
        rp_bpe_merges_add(tk, m);
    }
    return RP_OK;
}

/* "never" is add_space_prefix = false. */
static RpStatus load_prefix(RpTokenizer *tk, const RpGgufFile *f) {
    RpGgufString s = {"prepend", 7};
    RP_TRY(rp_gguf_get_string(f, "tokenizer.hf.space_prefix", &s));
    tk->space_prefix = PREFIX_EACH;
    if (s.len == 6 && memcmp(s.ptr, "always", 6) == 0) tk->space_prefix = PREFIX_EACH_ABSENT;
    if (s.len == 5 && memcmp(s.ptr, "first", 5) == 0) tk->space_prefix = PREFIX_FIRST_ABSENT;
    RP_TRY(rp_gguf_get_bool(f, "tokenizer.hf.split_spaces", &tk->split_spaces));
    return rp_gguf_get_bool(f, "tokenizer.hf.split_words", &tk->split_words);
}

/* Byte tokens print their byte, normal tokens their text with spaces; other kinds print their text as it
 * is. */
RpStatus rp_spm_load(RpTokenizer *tk, const RpGgufFile *f) {
    const RpGgufValue *scores = rp_gguf_find(f, "tokenizer.ggml.scores");
    const bool         typed  = rp_gguf_find(f, "tokenizer.ggml.token_type") != NULL;
    const bool         ranked = scores == NULL && tk->gemma4; /* merges have ranks, and need no scores */
    if (!ranked && (scores == NULL || scores->type != RP_GGUF_ARRAY || scores->elem_type != RP_GGUF_F32 ||
                    scores->n != (uint64_t)tk->n_vocab))
        return rp_fail(RP_E_FORMAT, "%s: tokenizer.ggml.scores is not an f32 for each of the %d tokens",
                       rp_gguf_path(f), tk->n_vocab);
    tk->scores = malloc(((size_t)tk->n_vocab + 1) * sizeof *tk->scores);
    if (tk->scores == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a tokenizer", rp_gguf_path(f));
    for (int32_t i = 0; i < tk->n_vocab; i++) {
        const RpGgufString text = tk->by_text.strings[i];
        unsigned char      byte;
        tk->scores[i] = ranked ? 0.0f : (float)rp_gguf_number_at(scores, (uint64_t)i);
        if (tk->scores[i] != tk->scores[i])
            return rp_fail(RP_E_FORMAT, "%s: the score of token %d is not a number", rp_gguf_path(f), i);
        if (!typed && byte_of(text, &byte)) tk->types[i] = TOKEN_BYTE; /* files of old converters */
        if (tk->types[i] == TOKEN_BYTE && byte_of(text, &byte)) {
            char *p       = rp_tokenizer_bytes(tk, 1);
            *p            = (char)byte;
            tk->pieces[i] = (RpGgufString){p, 1};
            if (tk->byte_token[byte] < 0) tk->byte_token[byte] = i;
        } else {
            tk->pieces[i] = tk->types[i] == TOKEN_NORMAL ? unmarked(tk, text) : text;
        }
    }
    for (int b = 0; b < 128; b++) { /* without a byte token, an ASCII character that is a token serves as one */
        const char c = (char)b;
        if (tk->byte_token[b] < 0) tk->byte_token[b] = rp_spm_token_of(tk, &c, 1);
    }
    RP_TRY(load_merges(tk, f));
    RP_TRY(load_prefix(tk, f));
    return load_joins(tk);
}

/* Any two neighbours whose text is a token can be merged, or those that the rules of the file name. */
static RpStatus propose_merge(const RpTokenizer *tk, BpeMerger *merger, int32_t left, int32_t right) {
    const Symbol  *a = &merger->symbols[left], *b = &merger->symbols[right];
    const uint32_t len = a->len + b->len; /* neighbours are contiguous in the text */
    const int32_t  id  = rp_spm_token_of(tk, merger->text + a->at, len);
    if (id < 0) return RP_OK;
    float score = tk->scores[id];
    if (tk->merges != NULL) {
        const int32_t x   = rp_spm_token_of(tk, merger->text + a->at, a->len),
                      y   = rp_spm_token_of(tk, merger->text + b->at, b->len);
        const BpeMerge *m = x >= 0 && y >= 0 ? rp_bpe_find_merge(tk, x, y) : NULL;
        if (m == NULL || m->rank < 0) return RP_OK;
        score = -(float)m->rank;
    }
    return rp_bpe_merger_push(merger,
                              (BpeCandidate){.left = left, .right = right, .len = len, .score = score, .id = id});
}

/* The token of a symbol, or its bytes. */
static RpStatus emit(const RpTokenizer *tk, const char *text, size_t len, RpTokenList *out) {
    const int32_t id = rp_spm_token_of(tk, text, len);
    if (id >= 0) return rp_token_list_push(out, id);
    for (size_t i = 0; i < len; i++) {
        const int32_t byte = tk->byte_token[(unsigned char)text[i]];
        if (byte < 0 && tk->unknown < 0)
            return rp_fail(RP_E_UNSUPPORTED, "the tokenizer has no token for byte 0x%02x", (unsigned char)text[i]);
        RP_TRY(rp_token_list_push(out, byte >= 0 ? byte : tk->unknown));
    }
    return RP_OK;
}

/* Cuts text[0..len) into characters up to where no merge joins two of them; *end is that place. */
static RpStatus add_joined(const RpTokenizer *tk, const char *text, size_t len, BpeMerger *merger, size_t *end) {
    size_t   i    = rp_utf8_length(text, len);
    uint32_t last = character(text, i);
    for (size_t n; i < len; i += n) {
        n                   = rp_utf8_length(text + i, len - i);
        const uint32_t next = character(text + i, n);
        const bool     word = tk->split_words && n == sizeof space_mark && memcmp(text + i, space_mark, n) == 0;
        if (word || !rp_tokenizer_joins(tk, last, next)) break;
        last = next;
    }
    *end = i;
    RP_TRY(rp_bpe_merger_begin(merger, text, i));
    for (size_t at = 0, n; at < i; at += n) {
        n = rp_utf8_length(text + at, i - at);
        rp_bpe_merger_add_symbol(merger, at, n, -1);
    }
    return RP_OK;
}

/* Bytes up to the next U+2581, or of the whole text if words are not split. */
static size_t word_length(const RpTokenizer *tk, const char *text, size_t len) {
    const char *mark = len > 1 && tk->split_words ? memmem(text + 1, len - 1, space_mark, sizeof space_mark) : NULL;
    return mark != NULL ? (size_t)(mark - text) : len;
}

/* Gemma 4 merges runs of line ends separately from the text between them. */
static size_t stretch(const RpTokenizer *tk, const char *text, size_t len) {
    size_t n = 1;
    if (!tk->gemma4) return len;
    while (n < len && (text[n] == '\n') == (text[0] == '\n')) n++;
    return n;
}

/* Writes the text with U+2581 for each space, cuts it into characters, merges, and emits the symbols that are
 * left. */
static RpStatus encode(const RpTokenizer *tk, const char *text, size_t len, bool prefix, BpeMerger *merger,
                       RpTokenList *out) {
    char  *marked = malloc(sizeof space_mark * (len + 1));
    size_t n      = 0;
    if (marked == NULL) return rp_fail(RP_E_NOMEM, "out of memory while tokenising %zu bytes", len);
    const bool has_one = len > 0 && (text[0] == ' ' || (len >= 3 && memcmp(text, space_mark, 3) == 0));
    prefix             = prefix && !(has_one && tk->space_prefix != PREFIX_EACH);
    for (size_t i = prefix ? 0 : 1; i <= len; i++) { /* i = 0 is the space in front */
        const char c = i == 0 ? ' ' : text[i - 1];
        if (c != ' ') marked[n++] = c;
        if (c == ' ') memcpy(marked + n, space_mark, sizeof space_mark);
        if (c == ' ') n += sizeof space_mark;
    }
    RpStatus st = RP_OK;
    for (size_t from = 0, end; from < n && st == RP_OK && tk->log_probs != NULL; from += end) {
        end = word_length(tk, marked + from, n - from);
        st  = rp_unigram_encode(tk, marked + from, end, out);
    }
    for (size_t from = 0, end; from < n && st == RP_OK && tk->log_probs == NULL; from += end) {
        end              = stretch(tk, marked + from, n - from);
        const int32_t id = tk->gemma4 && marked[from] == '\n' ? rp_spm_token_of(tk, marked + from, end) : -1;
        if (id >= 0) {
            st = rp_token_list_push(out, id);
            continue;
        }
        st = add_joined(tk, marked + from, end, merger, &end);
        if (st == RP_OK) st = rp_bpe_merge_all(tk, merger, propose_merge);
        for (int32_t i = 0; i >= 0 && st == RP_OK; i = merger->symbols[i].next)
            st = emit(tk, marked + from + merger->symbols[i].at, merger->symbols[i].len, out);
    }
    free(marked);
    return st;
}

/* With split_spaces U+2581 is put in front of each word; with PREFIX_FIRST_ABSENT only in front of a word that begins
 * the text. */
RpStatus rp_spm_encode(const RpTokenizer *tk, const char *text, size_t len, bool prefix, BpeMerger *merger,
                       RpTokenList *out) {
    if (!tk->split_spaces) return encode(tk, text, len, prefix, merger, out);
    for (size_t at = 0, end; at < len; at = end) {
        const size_t space = rp_space_in_front(text + at, len - at);
        for (end = at + space; end < len && rp_space_length(text + end, len - end) == 0;) end++;
        const bool first = at + space == 0;
        if (end > at + space)
            RP_TRY(encode(tk, text + at + space, end - at - space,
                          prefix && (first || tk->space_prefix != PREFIX_FIRST_ABSENT), merger, out));
    }
    return RP_OK;
}
