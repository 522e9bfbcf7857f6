#include "grammar/vocab.h"

#include "base/argument.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static RpStatus no_memory(void) { return rp_fail(RP_E_NOMEM, "out of memory for the vocabulary of a grammar"); }

/* Whole characters that a JSON string has as they are, without some that "." of a regular expression leaves out. */
static bool is_safe(const unsigned char *p, size_t n) {
    for (size_t i = 0; i < n;) {
        const unsigned char c   = p[i];
        const size_t        len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
        if (len == 0 || len > n - i || c < 0x20 || c == '"' || c == '\\' || c == 0x7f) return false;
        for (size_t k = 1; k < len; k++)
            if ((p[i + k] & 0xc0) != 0x80) return false;
        if (len > 1) {
            const unsigned char d = p[i + 1];
            if ((c == 0xe0 && d < 0xa0) || (c == 0xed && d >= 0xa0) || (c == 0xf0 && d < 0x90) ||
                (c == 0xf4 && d >= 0x90))
                return false;
            if (c == 0xc2 && d < 0xa0) return false;                                            /* U+0080 to U+009F */
            if (c == 0xe2 && d == 0x80 && (p[i + 2] == 0xa8 || p[i + 2] == 0xa9)) return false; /* U+2028, U+2029 */
        }
        i += len;
    }
    return true;
}

typedef struct Order {
    const char *p;
    uint32_t    n;
    int32_t     id;
    bool        is_safe;
} Order;

static int by_bytes(const void *a, const void *b) {
    const Order *x = a, *y = b;
    const int    c = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return c != 0 ? c : x->n != y->n ? (x->n < y->n ? -1 : 1) : x->id < y->id ? -1 : 1;
}

/* Closes the path down to `depth`. The chars of a node are those of its longest child and one. */
static void close_path(Trie *t, const uint32_t *open, size_t *at, size_t depth) {
    for (; *at > depth; --*at) {
        TrieNode *n = &t->nodes[open[*at]];
        n->end      = (uint32_t)t->n;
        if (*at > 1 && t->nodes[open[*at - 1]].chars < n->chars + 1)
            t->nodes[open[*at - 1]].chars = (uint16_t)(n->chars + 1);
    }
}

/* Adds the tokens in the order of their bytes; open[d] is the node of the path at depth d. */
static RpStatus build_trie(RpGrammarVocab *v, Trie *t, const Order *order, size_t n, bool safe) {
    uint32_t     open[MAX_TOKEN_BYTES + 1];
    size_t       depth = 0;
    const Order *last  = NULL;
    t->ids             = malloc((n + 1) * sizeof *t->ids);
    if (t->ids == NULL) return no_memory();
    for (size_t i = 0; i < n; i++) {
        const Order *o      = &order[i];
        size_t       common = 0;
        if (o->is_safe != safe) continue;
        if (safe) v->safe[o->id / 32] |= 1u << (o->id % 32);
        while (last != NULL && common < depth && common < o->n && last->p[common] == o->p[common]) common++;
        close_path(t, open, &depth, common);
        last = o;
        if (RP_GROW(t->nodes, t->room, t->n + o->n + 1) != RP_OK) return no_memory();
        if (depth == o->n) { /* the bytes of the token before */
            int32_t *end = &t->nodes[open[depth]].token;
            while (v->same[*end] >= 0) end = &v->same[*end];
            v->same[*end] = o->id;
        }
        for (; depth < o->n; t->n++) {
            t->nodes[t->n] = (TrieNode){
                .token = -1, .ids = (uint32_t)t->n_ids, .depth = (uint16_t)(depth + 1), .byte = (uint8_t)o->p[depth]};
            open[++depth] = (uint32_t)t->n;
            if (depth == o->n) t->nodes[t->n].token = o->id;
        }
        t->ids[t->n_ids++] = o->id;
        if ((int)depth > t->depth) t->depth = (int)depth;
    }
    close_path(t, open, &depth, 0);
    if (RP_GROW(t->nodes, t->room, t->n + 1) != RP_OK) return no_memory();
    t->nodes[t->n] = (TrieNode){.token = -1, .ids = (uint32_t)t->n_ids};
    return RP_OK;
}

static RpStatus build_tries(RpGrammarVocab *v) {
    Order *order = malloc(((size_t)v->n + 1) * sizeof *order);
    size_t k     = 0;
    v->safe      = calloc(v->words, sizeof *v->safe);
    RpStatus st  = order == NULL || v->safe == NULL ? no_memory() : RP_OK;
    for (int32_t i = 0; i < v->n && st == RP_OK; i++) {
        const uint32_t len = v->offset[i + 1] - v->offset[i];
        v->same[i]         = -1;
        if (v->is_end[i]) v->end_ids[v->n_end++] = i;
        if (len == 0 || len > MAX_TOKEN_BYTES || v->is_end[i]) continue;
        order[k++] = (Order){v->text + v->offset[i], len, i, is_safe((unsigned char *)v->text + v->offset[i], len)};
    }
    if (st == RP_OK) qsort(order, k, sizeof *order, by_bytes);
    if (st == RP_OK) st = build_trie(v, &v->tries[TRIE_SAFE], order, k, true);
    if (st == RP_OK) st = build_trie(v, &v->tries[TRIE_OTHER], order, k, false);
    free(order);
    return st;
}

/* The arrays for n tokens of `bytes` bytes together. */
static RpStatus open_vocab(size_t n, size_t bytes, RpGrammarVocab **out) {
    static atomic_ullong number;
    RpGrammarVocab      *v = calloc(1, sizeof *v);
    if (v == NULL) return no_memory();
    v->number  = atomic_fetch_add(&number, 1) + 1;
    v->n       = (int32_t)n;
    v->words   = (n + 31) / 32;
    v->text    = malloc(bytes + 1);
    v->offset  = calloc(n + 1, sizeof *v->offset);
    v->same    = malloc((n + 1) * sizeof *v->same);
    v->is_end  = calloc(n + 1, sizeof *v->is_end);
    v->end_ids = malloc((n + 1) * sizeof *v->end_ids);
    *out       = v;
    return v->text != NULL && v->offset != NULL && v->same != NULL && v->is_end != NULL && v->end_ids != NULL
               ? RP_OK
               : no_memory();
}

static RpStatus finish(RpGrammarVocab *v, RpStatus st, RpGrammarVocab **out) {
    if (st == RP_OK) st = build_tries(v);
    if (st != RP_OK) {
        rp_grammar_vocab_free(v);
        v = NULL;
    }
    *out = v;
    return st;
}

RpStatus rp_grammar_vocab_of(const RpGgufString *tokens, size_t n, const int32_t *end, size_t n_end,
                             RpGrammarVocab **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(tokens, "tokens");
    if (n_end > 0) RP_NOT_NULL(end, "end");
    RpGrammarVocab *v     = NULL;
    size_t          bytes = 0;
    if (n < 1 || n > INT32_MAX) return rp_fail(RP_E_ARG, "grammar: a vocabulary of %zu tokens", n);
    for (size_t i = 0; i < n; i++) bytes += tokens[i].len;
    if (bytes > UINT32_MAX) return rp_fail(RP_E_ARG, "grammar: a vocabulary of %zu bytes", bytes);
    for (size_t i = 0; i < n_end; i++)
        if (end[i] < 0 || (size_t)end[i] >= n)
            return rp_fail(RP_E_ARG, "grammar: end token %d is outside of the vocabulary of %zu", end[i], n);
    RpStatus st = open_vocab(n, bytes, &v);
    for (size_t i = 0; i < n && st == RP_OK; i++) {
        if (tokens[i].len > 0) memcpy(v->text + v->offset[i], tokens[i].ptr, tokens[i].len);
        v->offset[i + 1] = v->offset[i] + (uint32_t)tokens[i].len;
    }
    for (size_t i = 0; i < n_end && st == RP_OK; i++) v->is_end[end[i]] = true;
    return finish(v, st, out);
}

RpStatus rp_grammar_vocab_new(const RpTokenizer *tk, RpGrammarVocab **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(tk, "tk");
    RpGrammarVocab *v = NULL;
    const size_t    n = (size_t)rp_tokenizer_n_vocab(tk);
    RpGgufString    s;
    size_t          bytes = 0;
    for (size_t i = 0; i < n; i++) {
        RP_TRY(rp_token_bytes(tk, (int32_t)i, false, &s));
        bytes += s.len;
    }
    RpStatus st = open_vocab(n, bytes, &v);
    for (size_t i = 0; i < n && st == RP_OK; i++) {
        st = rp_token_bytes(tk, (int32_t)i, false, &s);
        if (st == RP_OK && s.len > 0) memcpy(v->text + v->offset[i], s.ptr, s.len);
        if (st == RP_OK) v->offset[i + 1] = v->offset[i] + (uint32_t)s.len;
        if (st == RP_OK) v->is_end[i] = rp_tokenizer_is_end(tk, (int32_t)i);
    }
    if (v != NULL) v->tokenizer = tk;
    return finish(v, st, out);
}

void rp_grammar_vocab_free(RpGrammarVocab *v) {
    if (v == NULL) return;
    for (int kind = 0; kind < TRIES; kind++) {
        free(v->tries[kind].nodes);
        free(v->tries[kind].ids);
    }
    free(v->safe);
    free(v->text);
    free(v->offset);
    free(v->same);
    free(v->is_end);
    free(v->end_ids);
    free(v);
}

int32_t rp_grammar_vocab_size(const RpGrammarVocab *v) { return v != NULL ? v->n : 0; }
