/* The text that has to come next, and its tokens. */
#include "grammar/matcher.h"

#include "base/argument.h"

#include <string.h>

enum { MAX_FORCED = 4096 };

/* The only byte that may follow the threads, or -1: there are several, or the text may end. */
static RpStatus only_byte(RpMatcher *m, const Thread *threads, size_t n, int *byte) {
    Lexer    *l         = &m->g->lexer;
    const int n_classes = l->rx->n_classes;
    int class           = -1;
    *byte               = -1;
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < n_classes; c++) {
            uint32_t next = l->next[(size_t)threads[i].state * (size_t)n_classes + (size_t)c];
            if (next == LEX_UNKNOWN) RP_TRY(rp_lexer_compute(l, threads[i].state, c, &next));
            if (next == LEX_DEAD || c == class) continue;
            if (class >= 0) return RP_OK;
            class = c;
        }
    if (class < 0) return RP_OK;
    int found = -1;
    for (int b = 0; b < 256; b++) {
        if (l->rx->class_of[b] != class) continue;
        if (found >= 0) return RP_OK; /* several bytes of one class */
        found = b;
    }
    *byte = found;
    return RP_OK;
}

/* Puts the forced text into m->text. */
static RpStatus forced_text(RpMatcher *m, size_t *n) {
    const Place last = m->places[m->n_places - 1];
    size_t      from = 0, to = 0;
    bool        complete = last.complete;
    *n                   = 0;
    RP_TRY(RP_GROW(m->text, m->text_room, MAX_FORCED));
    RP_TRY(RP_GROW(m->walk.threads, m->walk.room, last.n_threads + (size_t)1));
    for (; to < last.n_threads; to++) m->walk.threads[to] = m->threads[last.threads + to];
    while (!complete && *n < MAX_FORCED && to > from) {
        const size_t next = to;
        int          byte;
        RP_TRY(only_byte(m, m->walk.threads + from, to - from, &byte));
        if (byte < 0) return RP_OK;
        RP_TRY(rp_matcher_step(m, m->walk.threads + from, to - from, (unsigned char)byte, &m->walk.threads, &to,
                               &m->walk.room, &complete));
        m->text[(*n)++] = (char)byte;
        from            = next;
    }
    return RP_OK;
}

/* True if text[0..n) is the beginning of a longer token. */
static bool begins_longer(const Trie *t, const char *text, size_t n) {
    uint32_t i = 0, end = (uint32_t)t->n;
    for (size_t k = 0; k < n; k++) {
        while (i < end && t->nodes[i].byte != (uint8_t)text[k]) i = t->nodes[i].end;
        if (i >= end) return false;
        end = t->nodes[i++].end;
    }
    return i < end;
}

static bool has_longer_token(const RpGrammarVocab *v, const char *text, size_t n) {
    return begins_longer(&v->tries[TRIE_SAFE], text, n) || begins_longer(&v->tries[TRIE_OTHER], text, n);
}

/* Bytes of the text whose tokens do not depend on what follows it: no token reaches from them beyond its end. */
static size_t certain_bytes(const RpGrammarVocab *v, const char *text, size_t n) {
    const int    a = v->tries[TRIE_SAFE].depth, b = v->tries[TRIE_OTHER].depth;
    const size_t longest = (size_t)(a > b ? a : b);
    for (size_t i = n > longest ? n - longest : 0; i < n; i++)
        if (has_longer_token(v, text + i, n - i)) return i;
    return n;
}

RpStatus rp_matcher_forced(RpMatcher *m, RpTokenList *out) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(out, "out");
    const RpGrammarVocab *v = m->v;
    size_t                n = 0;
    if (v->tokenizer == NULL || m->g->n_tokens > 0 || m->places[m->n_places - 1].ended) return RP_OK;
    rp_matcher_lock(m);
    RpStatus st = forced_text(m, &n);
    rp_matcher_unlock(m);
    RP_TRY(st);
    const size_t certain = certain_bytes(v, m->text, n);
    if (certain == 0) return RP_OK;
    RpTokenList ids = {0};
    size_t      at  = 0;
    st              = rp_tokenize(v->tokenizer, m->text, n, 0, &ids);
    for (size_t i = 0; i < ids.n && st == RP_OK; i++) {
        const int32_t  id  = ids.ids[i];
        const uint32_t len = v->offset[id + 1] - v->offset[id];
        /* a tokenizer that puts a space in front gives another text: nothing is certain then */
        if (at + len > certain || len == 0 || memcmp(v->text + v->offset[id], m->text + at, len) != 0) break;
        st = rp_token_list_push(out, id);
        at += len;
    }
    rp_token_list_free(&ids);
    return st;
}
