/* Byte-level BPE (GPT-2): the pre-tokenizer splits the text into pieces. The bytes of a piece are merged by
 * the rules of the file, lowest rank first. Vocabularies write each byte as a printable character. All texts
 * are decoded to bytes at load:
 *     byte 0x21..0x7e, 0xa1..0xac, 0xae..0xff        the character of the same code
 *     the other 68 bytes in order, 0x00..0x20, ...   U+0100, U+0101, ...        space 0x20 is U+0120 */
#include "model/tokenizer/tokenizer_impl.h"

#include "base/hash.h"
#include "base/text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The byte that a character of a vocabulary stands for, -1: none.
 * U+0100 + n: n = 0x00..0x20 is byte n, n = 0x21..0x42 is byte 0x7f..0xa0, n = 0x43 is byte 0xad. */
static int byte_of(uint32_t code) {
    const bool printable =
        (code >= 0x21 && code <= 0x7e) || (code >= 0xa1 && code <= 0xac) || (code >= 0xae && code <= 0xff);
    if (printable) return (int)code;
    if (code < 0x100 || code > 0x143) return -1;
    const uint32_t n = code - 0x100;
    if (n <= 0x20) return (int)n;
    if (n <= 0x42) return (int)(n - 0x21 + 0x7f);
    return 0xad;
}

/* Decodes a text to bytes. A text with a character that stands for no byte is kept as it is: *raw. */
static RpGgufString to_bytes(RpTokenizer *tk, RpGgufString s, bool *raw) {
    char  *p = rp_tokenizer_bytes(tk, s.len);
    size_t n = 0;
    for (size_t i = 0; i < s.len;) {
        const unsigned char c    = (unsigned char)s.ptr[i];
        const size_t        len  = rp_utf8_length(s.ptr + i, s.len - i);
        uint32_t            code = c;
        if (len == 2) code = (c & 0x1fu) << 6 | ((unsigned char)s.ptr[i + 1] & 0x3fu);
        const int byte = len > 2 || (len == 1 && c >= 0x80) ? -1 : byte_of(code);
        if (byte < 0) {
            memcpy(p, s.ptr, s.len);
            *raw = true;
            return (RpGgufString){p, s.len};
        }
        p[n++] = (char)byte;
        i += len;
    }
    tk->used -= s.len - n; /* the next text begins right behind this one: add_merge relies on it */
    return (RpGgufString){p, n};
}

/* The slot of the rule for a pair, or the free one where it would go. */
static size_t merge_slot(const RpTokenizer *tk, int32_t left, int32_t right) {
    const int32_t pair[2] = {left, right};
    size_t        s       = (size_t)rp_hash(pair, sizeof pair) & (tk->n_merge_slots - 1);
    while (tk->merges[s].rank >= 0 && (tk->merges[s].left != left || tk->merges[s].right != right))
        s = (s + 1) & (tk->n_merge_slots - 1);
    return s;
}

const BpeMerge *rp_bpe_find_merge(const RpTokenizer *tk, int32_t left, int32_t right) {
    return &tk->merges[merge_slot(tk, left, right)];
}

RpStatus rp_bpe_merges_begin(RpTokenizer *tk, uint64_t n) {
    if (n > INT32_MAX / 4) return rp_fail(RP_E_FORMAT, "too many BPE merges");
    tk->n_merge_slots = 64;
    while (tk->n_merge_slots < 2 * n) tk->n_merge_slots *= 2;
    tk->merges = malloc(tk->n_merge_slots * sizeof *tk->merges);
    if (tk->merges == NULL) return rp_fail(RP_E_NOMEM, "out of memory for merges");
    for (size_t i = 0; i < tk->n_merge_slots; i++) tk->merges[i].rank = -1;
    return RP_OK;
}

void rp_bpe_merges_add(RpTokenizer *tk, BpeMerge m) {
    const size_t s = merge_slot(tk, m.left, m.right);
    if (tk->merges[s].rank < 0) tk->merges[s] = m;
}

/* One line "left right" of tokenizer.ggml.merges; its number is its rank. The space is looked for from the
 * second byte on, so that `left` is never empty. */
static RpStatus add_merge(RpTokenizer *tk, const RpGgufFile *f, RpGgufString line, int32_t rank) {
    const char *space = line.len > 1 ? memchr(line.ptr + 1, ' ', line.len - 1) : NULL;
    if (space == NULL || space == line.ptr + line.len - 1)
        return rp_fail(RP_E_FORMAT, "%s: BPE merge %d is not a pair of strings", rp_gguf_path(f), rank);
    const RpGgufString texts[2] = {
        {line.ptr,  (size_t)(space - line.ptr)               },
        {space + 1, line.len - (size_t)(space - line.ptr) - 1}
    };
    RpGgufString pair[2];
    BpeMerge     m   = {.rank = rank};
    bool         raw = false;
    for (int i = 0; i < 2; i++) {
        pair[i] = to_bytes(tk, texts[i], &raw);
        RP_TRY(rp_strings_add(&tk->symbols, pair[i], i == 0 ? &m.left : &m.right));
    }
    /* pair[1] lies right behind pair[0], so that their concatenation needs no copy */
    RP_TRY(rp_strings_add(&tk->symbols, (RpGgufString){pair[0].ptr, pair[0].len + pair[1].len}, &m.merged));
    rp_bpe_merges_add(tk, m);
    if (pair[0].len == 0 || pair[1].len == 0) return RP_OK;
    return rp_tokenizer_add_join(tk, (unsigned char)pair[0].ptr[pair[0].len - 1], (unsigned char)pair[1].ptr[0]);
}

static RpStatus load_merges(RpTokenizer *tk, const RpGgufFile *f) {
    const RpGgufValue *v = rp_gguf_find(f, "tokenizer.ggml.merges");
    if (v == NULL || v->type != RP_GGUF_ARRAY || (v->elem_type != RP_GGUF_STRING && v->n > 0))
        return rp_fail(RP_E_FORMAT, "%s: tokenizer.ggml.merges is not an array of strings", rp_gguf_path(f));
    RP_TRY(rp_bpe_merges_begin(tk, v->n));
    const void *cursor = v->data;
    for (uint64_t i = 0; i < v->n; i++) RP_TRY(add_merge(tk, f, rp_gguf_next_string(&cursor), (int32_t)i));
    return RP_OK;
}

/* Only normal, unused and byte tokens are written in the byte alphabet; special tokens are plain text. A normal token
 * that is not (`raw`) gives way to one of the same bytes that is. */
static RpStatus load_token(RpTokenizer *tk, int32_t i, bool *raw) {
    const RpGgufString text = tk->by_text.strings[i];
    const bool spelt     = tk->types[i] == TOKEN_NORMAL || tk->types[i] == TOKEN_BYTE || tk->types[i] == TOKEN_UNUSED;
    tk->pieces[i]        = spelt ? to_bytes(tk, text, &raw[i]) : text;
    const int32_t before = rp_strings_find(&tk->symbols, tk->pieces[i].ptr, tk->pieces[i].len);
    RP_TRY(rp_strings_append(&tk->symbols, tk->pieces[i]));
    if (!spelt || raw[i]) return RP_OK;
    if (before >= 0 && raw[before]) rp_strings_prefer(&tk->symbols, i);
    if (tk->pieces[i].len == 1 && tk->byte_token[(unsigned char)tk->pieces[i].ptr[0]] < 0)
        tk->byte_token[(unsigned char)tk->pieces[i].ptr[0]] = i;
    return RP_OK;
}

RpStatus rp_bpe_load(RpTokenizer *tk, const RpGgufFile *f) {
    bool         adds_bos = false;
    RpGgufString pre      = {"default", 7};
    RP_TRY(rp_gguf_get_string(f, "tokenizer.ggml.pre", &pre));
    snprintf(tk->pre, sizeof tk->pre, "%.*s", (int)(pre.len < sizeof tk->pre ? pre.len : sizeof tk->pre - 1), pre.ptr);
    const RpGgufValue *expressions = rp_gguf_find(f, "tokenizer.hf.expressions");
    if (expressions != NULL)
        RP_TRY(rp_pretokenizer_of_file(f, expressions, &tk->pretokenizer));
    else
        RP_TRY(rp_pretokenizer_new(tk->pre, &tk->pretokenizer, &tk->ignore_merges, &adds_bos));
    tk->add_bos = adds_bos;
    RP_TRY(rp_gguf_get_bool(f, "tokenizer.hf.ignore_merges", &tk->ignore_merges));
    bool *raw = calloc((size_t)tk->n_vocab + 1, sizeof *raw);
    if (raw == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a tokenizer", rp_gguf_path(f));
    RpStatus st = RP_OK;
    for (int32_t i = 0; i < tk->n_vocab && st == RP_OK; i++) st = load_token(tk, i, raw);
    free(raw);
    return st == RP_OK ? load_merges(tk, f) : st;
}

/* Pushes the rule for a pair, if there is one. A lower rank is a higher score. */
static RpStatus propose_merge(const RpTokenizer *tk, BpeMerger *merger, int32_t left, int32_t right) {
    const Symbol *a = &merger->symbols[left], *b = &merger->symbols[right];
    if (a->id < 0 || b->id < 0) return RP_OK;
    const BpeMerge *m = rp_bpe_find_merge(tk, a->id, b->id);
    if (m->rank < 0) return RP_OK;
    return rp_bpe_merger_push(
        merger, (BpeCandidate){
                    .left = left, .right = right, .len = a->len + b->len, .score = -(float)m->rank, .id = m->merged});
}

typedef struct Encoding {
    const RpTokenizer *tk;
    BpeMerger         *merger;
    RpTokenList       *out;
} Encoding;

/* Bytes that no merge has made a token, one token each. The same if a merge has made a control token: these come
 * from no text. */
static RpStatus emit_bytes(const Encoding *e, const char *p, size_t len) {
    for (size_t i = 0; i < len; i++) {
        const int32_t id = e->tk->byte_token[(unsigned char)p[i]];
        if (id < 0 && e->tk->unknown < 0)
            return rp_fail(RP_E_UNSUPPORTED, "the tokenizer has no token for byte 0x%02x", (unsigned char)p[i]);
        RP_TRY(rp_token_list_push(e->out, id >= 0 ? id : e->tk->unknown));
    }
    return RP_OK;
}

/* Encodes text[0..len), whose bytes merges may join. */
static RpStatus encode_joined(const Encoding *e, const char *text, size_t len) {
    const RpTokenizer *tk     = e->tk;
    BpeMerger         *merger = e->merger;
    RP_TRY(rp_bpe_merger_begin(merger, text, len));
    for (size_t i = 0; i < len; i++) rp_bpe_merger_add_symbol(merger, i, 1, rp_strings_find(&tk->symbols, text + i, 1));
    RP_TRY(rp_bpe_merge_all(tk, merger, propose_merge));
    for (int32_t i = 0; i >= 0; i = merger->symbols[i].next) {
        const Symbol *s = &merger->symbols[i];
        if (s->id >= 0 && s->id < tk->n_vocab && !rp_tokenizer_is_control(tk, s->id))
            RP_TRY(rp_token_list_push(e->out, s->id));
        else
            RP_TRY(emit_bytes(e, text + s->at, s->len));
    }
    return RP_OK;
}

/* Encodes one piece. With ignore_merges a piece that is a token as a whole is that token, even if the rules
 * would lead to others. */
static RpStatus encode_piece(const char *piece, size_t len, void *user) {
    const Encoding    *e  = user;
    const RpTokenizer *tk = e->tk;
    if (tk->ignore_merges) {
        const int32_t id = rp_strings_find(&tk->symbols, piece, len);
        if (id >= 0 && id < tk->n_vocab && tk->types[id] == TOKEN_NORMAL) return rp_token_list_push(e->out, id);
    }
    for (size_t from = 0, to; from < len; from = to) {
        for (to = from + 1; to < len; to++)
            if (!rp_tokenizer_joins(tk, (unsigned char)piece[to - 1], (unsigned char)piece[to])) break;
        RP_TRY(encode_joined(e, piece + from, to - from));
    }
    return RP_OK;
}

RpStatus rp_bpe_encode(const RpTokenizer *tk, const char *text, size_t len, BpeMerger *merger, RpTokenList *out) {
    Encoding e = {.tk = tk, .merger = merger, .out = out};
    return rp_pretokenize(tk->pretokenizer, text, len, encode_piece, &e);
}
