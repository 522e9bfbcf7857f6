/* Unigram (Kudo 2018, arXiv:1804.10959): of all ways to write a text as pieces, the one whose log probabilities
 * have the greatest sum, by dynamic programming over the ends of pieces. A character that is no piece costs the
 * least log probability minus 10; neighbours of that kind become one unknown token, or byte tokens. */
#include "model/tokenizer/tokenizer_impl.h"

#include "base/text/utf8.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static const double unknown_penalty = 10.0;

/* Encoding takes time proportional to the length of the text times the square of this: a hostile piece as long as
 * the text would make that cubic. Pieces of SentencePiece have at most 16 characters by default. */
enum { LONGEST_PIECE = 256 };

/* The best way to write text[0..i). */
typedef struct Path {
    double   sum;
    uint32_t start; /* of its last piece */
    int32_t  id;    /* of that piece; -1: unknown, -2: there is no way yet */
} Path;

/* The scores of a GGUF file are the log probabilities of its normal pieces. User-defined ones cost nothing. */
static void take_scores(RpTokenizer *tk) {
    double least = (double)FLT_MAX;
    for (int32_t i = 0; i < tk->n_vocab; i++) {
        const TokenType type  = tk->types[i];
        const bool      piece = type == TOKEN_NORMAL || type == TOKEN_UNUSED || type == TOKEN_USER_DEFINED;
        const size_t    len   = tk->by_text.strings[i].len;
        tk->log_probs[i]      = !piece ? (double)NAN : type == TOKEN_USER_DEFINED ? 0.0 : (double)tk->scores[i];
        if (type == TOKEN_NORMAL) least = fmin(least, (double)tk->scores[i]);
        if (piece && len > tk->longest) tk->longest = len;
    }
    tk->unknown_log_prob = least - unknown_penalty;
}

static RpStatus check_lengths(const RpTokenizer *tk, const RpGgufFile *f) {
    for (int32_t i = 0; i < tk->n_vocab; i++)
        if (!isnan(tk->log_probs[i]) && tk->by_text.strings[i].len > LONGEST_PIECE)
            return rp_fail(RP_E_UNSUPPORTED, "%s: piece %d of a unigram model has %zu bytes (at most %d are supported)",
                           rp_gguf_path(f), i, tk->by_text.strings[i].len, LONGEST_PIECE);
    return RP_OK;
}

RpStatus rp_unigram_load(RpTokenizer *tk, const RpGgufFile *f) {
    const RpGgufValue *v     = rp_gguf_find(f, "tokenizer.hf.log_probs");
    double             least = 0.0;
    if (v == NULL) {
        tk->log_probs = malloc((size_t)tk->n_vocab * sizeof *tk->log_probs);
        if (tk->log_probs == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a tokenizer", rp_gguf_path(f));
        take_scores(tk);
        return check_lengths(tk, f);
    }
    if (v->type != RP_GGUF_ARRAY || v->elem_type != RP_GGUF_F64 || v->n != (uint64_t)tk->n_vocab)
        return rp_fail(RP_E_FORMAT, "%s: tokenizer.hf.log_probs is not an f64 for each of the %d tokens",
                       rp_gguf_path(f), tk->n_vocab);
    tk->log_probs = malloc((size_t)tk->n_vocab * sizeof *tk->log_probs);
    if (tk->log_probs == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a tokenizer", rp_gguf_path(f));
    for (int32_t i = 0; i < tk->n_vocab; i++) {
        const double x   = rp_gguf_number_at(v, (uint64_t)i);
        const size_t len = tk->by_text.strings[i].len;
        tk->log_probs[i] = isfinite(x) ? x : (double)NAN;
        if (!isfinite(x)) continue;
        least       = fmin(least, x);
        tk->longest = len > tk->longest ? len : tk->longest;
    }
    tk->unknown_log_prob = least - unknown_penalty;
    return check_lengths(tk, f);
}

static void improve(Path *to, double sum, size_t start, int32_t id) {
    if (to->id != -2 && !(sum > to->sum)) return;
    *to = (Path){.sum = sum, .start = (uint32_t)start, .id = id};
}

/* All pieces that begin at text[at], whose first character has n bytes. */
static void extend(const RpTokenizer *tk, const char *text, size_t len, size_t at, size_t n, Path *paths) {
    bool single = false;
    for (size_t to = at + n; to <= len && to - at <= tk->longest; to += rp_utf8_length(text + to, len - to)) {
        const int32_t id = rp_spm_token_of(tk, text + at, to - at);
        if (id >= 0 && !isnan(tk->log_probs[id])) {
            improve(&paths[to], paths[at].sum + tk->log_probs[id], at, id);
            single = single || to == at + n;
        }
        if (to == len) break;
    }
    if (!single) improve(&paths[at + n], paths[at].sum + tk->unknown_log_prob, at, -1);
}

/* A stretch without a piece: byte tokens if the vocabulary has them all, else one unknown token. */
static RpStatus emit_unknown(const RpTokenizer *tk, const char *p, size_t len, RpTokenList *out) {
    bool bytes = true;
    for (size_t i = 0; i < len && bytes; i++) {
        const int32_t id = tk->byte_token[(unsigned char)p[i]];
        bytes            = id >= 0 && tk->types[id] == TOKEN_BYTE;
    }
    for (size_t i = 0; i < len && bytes; i++) RP_TRY(rp_token_list_push(out, tk->byte_token[(unsigned char)p[i]]));
    if (bytes) return RP_OK;
    if (tk->unknown >= 0) return rp_token_list_push(out, tk->unknown);
    return rp_fail(RP_E_UNSUPPORTED, "the tokenizer has no token for %zu bytes from 0x%02x on", len,
                   (unsigned char)p[0]);
}

/* Emits the pieces from front to back: next[i] is the end of the piece that begins at i. */
static RpStatus emit_path(const RpTokenizer *tk, const char *text, size_t len, const Path *paths, uint32_t *next,
                          RpTokenList *out) {
    for (size_t end = len; end > 0; end = paths[end].start) next[paths[end].start] = (uint32_t)end;
    for (size_t at = 0, end; at < len; at = end) {
        end = next[at];
        if (paths[end].id >= 0) {
            RP_TRY(rp_token_list_push(out, paths[end].id));
            continue;
        }
        while (end < len && paths[next[end]].id == -1) end = next[end];
        RP_TRY(emit_unknown(tk, text + at, end - at, out));
    }
    return RP_OK;
}

RpStatus rp_unigram_encode(const RpTokenizer *tk, const char *text, size_t len, RpTokenList *out) {
    if (len > RP_MAX_MERGED_BYTES)
        return rp_fail(RP_E_ARG,
                       "%zu bytes of text without a place where it can be cut: the tokenizer takes at most %d", len,
                       RP_MAX_MERGED_BYTES);
    Path     *paths = malloc((len + 1) * sizeof *paths);
    uint32_t *next  = malloc((len + 1) * sizeof *next);
    RpStatus  st =
        paths != NULL && next != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory while tokenising %zu bytes", len);
    if (st == RP_OK) {
        for (size_t i = 0; i <= len; i++) paths[i] = (Path){.id = -2};
        for (size_t at = 0, n; at < len; at += n) {
            n = rp_utf8_length(text + at, len - at);
            extend(tk, text, len, at, n, paths);
        }
        st = emit_path(tk, text, len, paths, next, out);
    }
    free(paths);
    free(next);
    return st;
}
