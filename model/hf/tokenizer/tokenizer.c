/* The vocabulary of tokenizer.json: model, added tokens and merges (tokenizer.h). */
#include "model/hf/tokenizer/tokenizer.h"

#include "base/hash.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 }; /* tokenizer.ggml.token_type */

static RpStatus bad(const HfVocabulary *v, const char *what) {
    return rp_fail(RP_E_FORMAT, "%s: %s", v->j->path, what);
}

static bool same(RpGgufString a, RpGgufString b) { return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0; }

static RpStatus set_token(HfVocabulary *v, const JsonNode *id, RpGgufString text, uint8_t type) {
    uint64_t i;
    if (!rp_json_u63(v->j, id, &i) || i >= v->n)
        return rp_fail(RP_E_FORMAT, "%s: token '%.*s' has no id below %u, the vocab_size of config.json", v->j->path,
                       (int)(text.len < 48 ? text.len : 48), text.ptr, v->n);
    HfToken *t = &v->tokens[i];
    if (t->type != 0 && !same(t->text, text))
        return rp_fail(RP_E_FORMAT, "%s: two tokens have the id %u", v->j->path, (unsigned)i);
    t->text = text;
    t->type = type;
    return RP_OK;
}

/* "<0x41>" */
static bool is_byte(RpGgufString s) {
    static const char digits[] = "0123456789ABCDEF";
    return s.len == 6 && memcmp(s.ptr, "<0x", 3) == 0 && s.ptr[5] == '>' && memchr(digits, s.ptr[3], 16) != NULL &&
           memchr(digits, s.ptr[4], 16) != NULL;
}

static RpStatus read_vocab(HfVocabulary *v) {
    const JsonNode *vocab = rp_json_get(v->j, v->model, "vocab");
    const bool      bytes = rp_hf_option(v, v->model, "byte_fallback", false);
    if (vocab == NULL || vocab->type != JSON_OBJECT) return bad(v, "model.vocab is no object");
    for (const JsonNode *x = rp_json_first(v->j, vocab); x != NULL; x = rp_json_next(v->j, vocab, x)) {
        const RpGgufString text = rp_json_key(v->j, x);
        RP_TRY(set_token(v, x, text, bytes && is_byte(text) ? BYTE : NORMAL));
    }
    return RP_OK;
}

/* "vocab" of a unigram model: [text, log probability] by id. */
static RpStatus read_pieces(HfVocabulary *v) {
    const JsonNode *vocab = rp_json_get(v->j, v->model, "vocab");
    const bool      bytes = rp_hf_option(v, v->model, "byte_fallback", false);
    uint32_t        id    = 0;
    if (vocab == NULL || vocab->type != JSON_ARRAY || vocab->n > v->n)
        return rp_fail(RP_E_FORMAT, "%s: model.vocab is no list of at most %u pieces", v->j->path, v->n);
    v->log_probs = malloc(v->n * sizeof *v->log_probs);
    if (v->log_probs == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for %u pieces", v->j->path, v->n);
    for (uint32_t i = 0; i < v->n; i++) v->log_probs[i] = (double)NAN;
    for (const JsonNode *x = rp_json_first(v->j, vocab); x != NULL; x = rp_json_next(v->j, vocab, x), id++) {
        const JsonNode *text = rp_json_first(v->j, x), *score = text != NULL ? rp_json_next(v->j, x, text) : NULL;
        v->log_probs[id] = rp_json_number(v->j, score);
        if (x->type != JSON_ARRAY || x->n != 2 || text->type != JSON_STRING || !isfinite(v->log_probs[id]))
            return rp_fail(RP_E_FORMAT, "%s: piece %u is not a text and a number", v->j->path, id);
        v->tokens[id].text = rp_json_string(v->j, text);
        v->tokens[id].type = bytes && is_byte(v->tokens[id].text) ? BYTE : NORMAL;
    }
    return RP_OK;
}

/* Tokens that are found in a text before it is split. */
static RpStatus read_added(HfVocabulary *v) {
    const JsonNode *list = rp_json_get(v->j, v->j->nodes, "added_tokens");
    if (list == NULL || list->type == JSON_NULL) return RP_OK;
    if (list->type != JSON_ARRAY) return bad(v, "added_tokens is no list");
    for (const JsonNode *x = rp_json_first(v->j, list); x != NULL; x = rp_json_next(v->j, list, x)) {
        const JsonNode *text = rp_json_get(v->j, x, "content"), *special = rp_json_get(v->j, x, "special");
        if (text == NULL || text->type != JSON_STRING || text->len == 0) return bad(v, "an added token has no content");
        uint64_t   id;
        const bool is_special = special != NULL && special->type == JSON_TRUE;
        /* such as those of images, which the embedding of a text model does not have */
        if (is_special && rp_json_u63(v->j, rp_json_get(v->j, x, "id"), &id) && id >= v->n) continue;
        RP_TRY(
            set_token(v, rp_json_get(v->j, x, "id"), rp_json_string(v->j, text), is_special ? CONTROL : USER_DEFINED));
        (void)rp_json_u63(v->j, rp_json_get(v->j, x, "id"), &id); /* set_token has checked it */
        const bool normalized    = rp_hf_option(v, x, "normalized", false),
                   single        = rp_hf_option(v, x, "single_word", false);
        v->tokens[id].normalized = normalized;
        v->tokens[id].strip =
            (uint8_t)((rp_hf_option(v, x, "lstrip", false) ? 1 : 0) | (rp_hf_option(v, x, "rstrip", false) ? 2 : 0) |
                      (single ? 4 : 0) | (single && normalized ? 8 : 0));
        v->strips = v->strips || v->tokens[id].strip != 0;
    }
    return RP_OK;
}

/* The characters beside a single word are those of the normalised text. These steps keep them in words or outside. */
static bool keeps_words(const HfVocabulary *v) {
    for (uint32_t i = 0; i < v->n_steps; i++) {
        const char *kind = v->steps[i].text[0].ptr;
        if (strcmp(kind, "nfc") != 0 && strcmp(kind, "nfd") != 0 && strcmp(kind, "lowercase") != 0) return false;
    }
    return !v->words;
}

/* An added token with "normalized" is looked for in the normalised text, after its own text was normalised. Whether the
 * steps of the normalizer change the text is checked when the tokenizer is read (model/tokenizer/tokenizer.c). */
static RpStatus check_added(const HfVocabulary *v) {
    const JsonNode *list = rp_json_get(v->j, v->j->nodes, "added_tokens");
    for (const JsonNode *x = rp_json_first(v->j, list); x != NULL; x = rp_json_next(v->j, list, x)) {
        const JsonNode    *content    = rp_json_get(v->j, x, "content");
        const RpGgufString text       = rp_json_string(v->j, content);
        const bool         normalized = rp_hf_option(v, x, "normalized", false);
        if (normalized && rp_hf_option(v, x, "single_word", false) && !keeps_words(v))
            return rp_hf_unsupported(v, "single_word in the normalised text of an added token", content);
        if (normalized && (v->prepends || (v->replaces && memchr(text.ptr, ' ', text.len) != NULL)))
            return rp_hf_unsupported(v, "normalized of an added token that the normalizer changes", content);
    }
    return RP_OK;
}

static void put_normalized(const HfVocabulary *v) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++) n += v->tokens[i].normalized;
    if (n == 0 || v->n_steps == 0) return;
    rp_gguf_put_array(v->m->out, "tokenizer.hf.normalized", RP_GGUF_U32, n);
    for (uint32_t i = 0; i < v->n; i++)
        if (v->tokens[i].normalized) rp_gguf_put_element(v->m->out, &i, sizeof i);
}

/* Without a token for each byte, characters that are no token become unknown tokens. */
static RpStatus check_bytes(const HfVocabulary *v) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++) n += v->tokens[i].type == BYTE;
    if (v->byte_level || v->unigram || v->words || n == 256) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED,
                   "%s: byte_fallback: a BPE model with U+2581 for spaces needs a token for each of 256 bytes, not %u",
                   v->j->path, n);
}

/* ---- merges ---- */

/* Left and right of a merge: "a b", or ["a", "b"] in newer files. */
static RpStatus read_merge(const HfVocabulary *v, const JsonNode *x, RpGgufString *left, RpGgufString *right) {
    if (x->type == JSON_ARRAY && x->n == 2) {
        const JsonNode *a = rp_json_first(v->j, x), *b = rp_json_next(v->j, x, a);
        *left  = rp_json_string(v->j, a);
        *right = rp_json_string(v->j, b);
    } else {
        const RpGgufString s     = rp_json_string(v->j, x);
        const char        *space = s.len > 1 ? memchr(s.ptr + 1, ' ', s.len - 1) : NULL;
        *left                    = (RpGgufString){s.ptr, space != NULL ? (size_t)(space - s.ptr) : 0};
        *right = (RpGgufString){space != NULL ? space + 1 : s.ptr, space != NULL ? s.len - left->len - 1 : 0};
    }
    if (left->len == 0 || right->len == 0) return bad(v, "a merge is no pair of texts");
    if (memchr(left->ptr, ' ', left->len) != NULL || memchr(right->ptr, ' ', right->len) != NULL)
        return rp_fail(RP_E_UNSUPPORTED, "%s: a merge of texts with spaces is not supported", v->j->path);
    return RP_OK;
}

static RpStatus put_merges(const HfVocabulary *v) {
    const JsonNode *merges = rp_json_get(v->j, v->model, "merges");
    char           *line   = NULL;
    size_t          room   = 0;
    RpStatus        st     = RP_OK;
    if (merges == NULL || merges->type != JSON_ARRAY) return bad(v, "model.merges is no list");
    rp_gguf_put_array(v->m->out, v->byte_level ? "tokenizer.ggml.merges" : "tokenizer.hf.merges", RP_GGUF_STRING,
                      merges->n);
    for (const JsonNode *x = rp_json_first(v->j, merges); x != NULL && st == RP_OK; x = rp_json_next(v->j, merges, x)) {
        RpGgufString a, b;
        st = read_merge(v, x, &a, &b);
        if (st != RP_OK) break;
        if (a.len + b.len + 2 > room) {
            char *grown = realloc(line, room = 2 * (a.len + b.len) + 64);
            if (grown == NULL) st = rp_fail(RP_E_NOMEM, "%s: out of memory for merges", v->j->path);
            if (grown == NULL) break;
            line = grown;
        }
        memcpy(line, a.ptr, a.len);
        line[a.len] = ' ';
        memcpy(line + a.len + 1, b.ptr, b.len);
        rp_gguf_put_text(v->m->out, line, a.len + b.len + 1);
    }
    free(line);
    return st;
}

/* ---- scores of a SentencePiece vocabulary, for other readers of a GGUF file: the lowest rank of its merges ---- */

typedef struct Slots {
    uint32_t *slots; /* [n] id + 1, 0: free; open addressing */
    size_t    n;
} Slots;

static size_t slot_of(const HfVocabulary *v, const Slots *s, RpGgufString text) {
    size_t at = (size_t)(rp_hash(text.ptr, text.len) % s->n);
    while (s->slots[at] != 0 && !same(v->tokens[s->slots[at] - 1].text, text)) at = (at + 1) % s->n;
    return at;
}

static RpStatus score_merges(HfVocabulary *v, const Slots *s) {
    const JsonNode *merges = rp_json_get(v->j, v->model, "merges");
    float           rank   = 0.0f;
    char            text[1024];
    if (merges == NULL || merges->type != JSON_ARRAY) return bad(v, "model.merges is no list");
    for (const JsonNode *x = rp_json_first(v->j, merges); x != NULL; x = rp_json_next(v->j, merges, x), rank += 1.0f) {
        RpGgufString a, b;
        RP_TRY(read_merge(v, x, &a, &b));
        if (a.len + b.len > sizeof text) return bad(v, "a merge of more than 1024 bytes");
        memcpy(text, a.ptr, a.len);
        memcpy(text + a.len, b.ptr, b.len);
        const uint32_t id = s->slots[slot_of(v, s, (RpGgufString){text, a.len + b.len})];
        if (id == 0) return bad(v, "a merge makes no token");
        if (v->tokens[id - 1].score < -rank) v->tokens[id - 1].score = -rank;
    }
    return RP_OK;
}

static RpStatus score_tokens(HfVocabulary *v) {
    Slots s = {.n = 2 * (size_t)v->n + 1};
    s.slots = calloc(s.n, sizeof *s.slots);
    if (s.slots == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a vocabulary", v->j->path);
    for (uint32_t i = 0; i < v->n; i++) {
        v->tokens[i].score = -1e8f; /* of what no merge makes; below all ranks */
        if (v->tokens[i].type == 0) continue;
        const size_t at = slot_of(v, &s, v->tokens[i].text);
        if (s.slots[at] == 0) s.slots[at] = i + 1;
    }
    const RpStatus st = score_merges(v, &s);
    free(s.slots);
    return st;
}

/* ---- all of it ---- */

static void put_tokens(const HfVocabulary *v) {
    GgufWriter *w = v->m->out;
    rp_gguf_put_array(w, "tokenizer.ggml.tokens", RP_GGUF_STRING, v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        char unused[32];
        snprintf(unused, sizeof unused, "[PAD%u]", i);
        const HfToken *t = &v->tokens[i];
        if (v->words && t->type != 0)
            rp_hf_put_word(v, t);
        else
            rp_gguf_put_text(w, t->type != 0 ? t->text.ptr : unused, t->type != 0 ? t->text.len : strlen(unused));
    }
    rp_gguf_put_array(w, "tokenizer.ggml.token_type", RP_GGUF_I32, v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        const int32_t type = v->tokens[i].type != 0 ? v->tokens[i].type : UNUSED;
        rp_gguf_put_element(w, &type, sizeof type);
    }
    if (v->strips) rp_gguf_put_array(w, "tokenizer.hf.strip", RP_GGUF_U8, v->n);
    for (uint32_t i = 0; v->strips && i < v->n; i++) rp_gguf_put_element(w, &v->tokens[i].strip, 1);
    if (v->byte_level || v->words) return;
    rp_gguf_put_array(w, "tokenizer.ggml.scores", RP_GGUF_F32, v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        const float score = !v->unigram ? v->tokens[i].score : isnan(v->log_probs[i]) ? 0.0f : (float)v->log_probs[i];
        rp_gguf_put_element(w, &score, sizeof score);
    }
    if (!v->unigram) return;
    rp_gguf_put_array(w, "tokenizer.hf.log_probs", RP_GGUF_F64, v->n);
    for (uint32_t i = 0; i < v->n; i++) rp_gguf_put_element(w, &v->log_probs[i], sizeof(double));
}

/* Refuses options of a BPE model that the merges of the library do not have. */
static RpStatus check_model(const HfVocabulary *v) {
    static const char *const names[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const JsonNode *type = rp_json_get(v->j, v->model, "type"), *dropout = rp_json_get(v->j, v->model, "dropout");
    if (v->model == NULL || v->model->type != JSON_OBJECT) return bad(v, "model is missing");
    if (type != NULL && !rp_json_is(v->j, type, "BPE") && !v->unigram && !v->words)
        return rp_hf_unsupported(v, "model", type);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !v->words; i++) {
        const JsonNode *x = rp_json_get(v->j, v->model, names[i]);
        if (x != NULL && x->type == JSON_STRING && x->len > 0) return rp_hf_unsupported(v, names[i], x);
    }
    if (dropout != NULL && dropout->type == JSON_NUMBER && rp_json_number(v->j, dropout) != 0.0)
        return rp_hf_unsupported(v, "dropout", dropout);
    return RP_OK;
}

static RpStatus read_tokenizer(HfVocabulary *v) {
    v->model   = rp_json_get(v->j, v->j->nodes, "model");
    v->unigram = rp_json_is(v->j, rp_json_get(v->j, v->model, "type"), "Unigram");
    v->words   = rp_json_is(v->j, rp_json_get(v->j, v->model, "type"), "WordPiece");
    RP_TRY(check_model(v));
    RP_TRY(rp_hf_count(v->m, "vocab_size", 0, &v->n));
    if (v->n < 1 || v->n > 1u << 22) return rp_fail(RP_E_FORMAT, "%s: vocab_size is %u", v->m->config.path, v->n);
    v->tokens = calloc(v->n, sizeof *v->tokens);
    if (v->tokens == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for %u tokens", v->j->path, v->n);
    RP_TRY(v->unigram ? read_pieces(v) : read_vocab(v));
    RP_TRY(read_added(v));
    RP_TRY(v->words ? rp_hf_wordpiece(v) : rp_hf_pipeline(v));
    RP_TRY(check_added(v));
    put_normalized(v);
    RP_TRY(check_bytes(v));
    RP_TRY(rp_hf_post_processor(v));
    if (!v->byte_level && !v->unigram && !v->words) RP_TRY(score_tokens(v));
    put_tokens(v);
    if (!v->unigram && !v->words) RP_TRY(put_merges(v));
    return rp_hf_special_tokens(v);
}

RpStatus rp_hf_tokenizer(HfModel *m) {
    HfVocabulary v = {.m = m, .j = &m->tokenizer, .bos = UINT32_MAX, .eos = UINT32_MAX, .sep = UINT32_MAX};
    v.space_prefix = "never";
    if (m->tokenizer.nodes == NULL) {
        rp_gguf_put_string(m->out, "tokenizer.ggml.model", "none"); /* token ids alone */
        return RP_OK;
    }
    const RpStatus st = read_tokenizer(&v);
    for (uint32_t i = 0; i < v.n_steps; i++) free(v.steps[i].own);
    free(v.tokens);
    free(v.log_probs);
    return st;
}
