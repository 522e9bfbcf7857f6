/* The lengths of repetitions are the Z function of the latest tokens in reverse: repeats[k] is how many tokens before
 * and with the one k tokens ago are the same as the latest ones. It takes linear time. */
#include "model/sampler/dry.h"

#include "reprise/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TAIL = sizeof((DryBreaker *)0)->tail / sizeof(int32_t) };

/* A growing array sorted by head: an insertion keeps the order of those with the same head. */
static RpStatus add_breaker(Dry *d, const DryBreaker *b) {
    if (d->n_breakers == d->room) {
        const size_t room  = d->room > 0 ? 2 * d->room : 64;
        DryBreaker  *grown = realloc(d->breakers, room * sizeof *grown);
        if (grown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu sequence breakers", room);
        d->breakers = grown;
        d->room     = room;
    }
    size_t at = d->n_breakers++;
    for (; at > 0 && d->breakers[at - 1].head > b->head; at--) d->breakers[at] = d->breakers[at - 1];
    d->breakers[at] = *b;
    return RP_OK;
}

RpStatus rp_dry_break(Dry *d, const int32_t *tokens, int32_t n) {
    DryBreaker b = {.head = tokens[0], .n = n - 1 < MAX_TAIL ? n - 1 : MAX_TAIL};
    memcpy(b.tail, tokens + 1, (size_t)b.n * sizeof *b.tail);
    return add_breaker(d, &b);
}

/* The first breaker whose head is not below `token`. */
static size_t first_breaker(const Dry *d, int32_t token) {
    size_t lo = 0, hi = d->n_breakers;
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        if (d->breakers[middle].head < token)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

static bool has_breaker(const Dry *d, const DryBreaker *b) {
    for (size_t i = first_breaker(d, b->head); i < d->n_breakers && d->breakers[i].head == b->head; i++)
        if (d->breakers[i].n == b->n && memcmp(d->breakers[i].tail, b->tail, (size_t)b->n * sizeof *b->tail) == 0)
            return true;
    return false;
}

/* The text of a breaker from byte `from` on, as the tail of `head`. */
static RpStatus add_tail(Dry *d, const RpTokenizer *tk, int32_t head, const char *rest) {
    RpTokenList tail = {0};
    DryBreaker  b    = {.head = head};
    RpStatus    st   = rp_tokenize(tk, rest, strlen(rest), 0, &tail);
    if (st == RP_OK) {
        b.n = tail.n < MAX_TAIL ? (int32_t)tail.n : MAX_TAIL;
        if (b.n > 0) memcpy(b.tail, tail.ids, (size_t)b.n * sizeof *b.tail);
        if (!has_breaker(d, &b)) st = add_breaker(d, &b);
    }
    rp_token_list_free(&tail);
    return st;
}

/* A token breaks sequences if its text contains the breaker, or if it ends with the beginning of the breaker and the
 * tokens of the rest follow. */
static RpStatus add_token(Dry *d, const RpTokenizer *tk, int32_t id, const char *text) {
    const size_t len = strlen(text);
    RpGgufString word;
    RP_TRY(rp_token_bytes(tk, id, true, &word));
    if (word.len == 0) return RP_OK;
    if (memmem(word.ptr, word.len, text, len) != NULL) {
        const DryBreaker b = {.head = id};
        return has_breaker(d, &b) ? RP_OK : add_breaker(d, &b);
    }
    for (size_t at = word.len < len ? 0 : word.len - len + 1; at < word.len; at++)
        if (memcmp(word.ptr + at, text, word.len - at) == 0) RP_TRY(add_tail(d, tk, id, text + (word.len - at)));
    return RP_OK;
}

/* By token, so that each insertion is at the end. */
static RpStatus add_texts(Dry *d, const RpTokenizer *tk, const char *const *texts, size_t n) {
    const int32_t n_vocab = rp_tokenizer_n_vocab(tk);
    for (int32_t id = 0; id < n_vocab; id++)
        for (size_t i = 0; i < n; i++) RP_TRY(add_token(d, tk, id, texts[i]));
    return RP_OK;
}

RpStatus rp_dry_open(Dry *d, const RpSamplerParams *p) {
    static const char *const usual[] = {"\n", ":", "\"", "*"};
    *d = (Dry){.multiplier = p->dry_multiplier, .base = p->dry_base, .allowed_length = p->dry_allowed_length};
    if (p->dry_multiplier == 0.0f || p->dry_penalty_last_n == 0) return RP_OK;
    d->last_n  = p->dry_penalty_last_n;
    d->ring    = calloc((size_t)d->last_n, sizeof *d->ring);
    d->latest  = calloc((size_t)d->last_n, sizeof *d->latest);
    d->repeats = calloc((size_t)d->last_n, sizeof *d->repeats);
    if (d->ring == NULL || d->latest == NULL || d->repeats == NULL)
        return rp_fail(RP_E_NOMEM, "out of memory for %d tokens of DRY", d->last_n);
    if (p->tokenizer == NULL) return RP_OK;
    if (p->dry_breakers == NULL) return add_texts(d, p->tokenizer, usual, sizeof usual / sizeof *usual);
    return add_texts(d, p->tokenizer, p->dry_breakers, p->n_dry_breakers);
}

void rp_dry_close(Dry *d) {
    free(d->ring);
    free(d->latest);
    free(d->repeats);
    free(d->breakers);
    *d = (Dry){0};
}

void rp_dry_accept(Dry *d, int32_t token) {
    if (d->last_n == 0) return;
    d->ring[d->next] = token;
    d->next          = (d->next + 1) % d->last_n;
    if (d->n < d->last_n) d->n++;
}

/* How many of the latest tokens lie behind the latest breaker: no repetition reaches further back. */
static int32_t length_limit(const Dry *d) {
    for (int32_t i = 0; i < d->n && d->n_breakers > 0; i++) {
        int32_t longest = -1;
        for (size_t k = first_breaker(d, d->latest[i]); k < d->n_breakers && d->breakers[k].head == d->latest[i]; k++) {
            const DryBreaker *b    = &d->breakers[k];
            int32_t           same = 0;
            if (b->n <= longest || b->n > i) continue;
            while (same < b->n && b->tail[same] == d->latest[i - 1 - same]) same++;
            if (same == b->n) longest = b->n;
        }
        if (longest >= 0) return i - longest;
    }
    return d->n;
}

bool rp_dry_lengths(Dry *d, int32_t *lengths) {
    if (d->n <= d->allowed_length) return false;
    for (int32_t i = 0; i < d->n; i++) d->latest[i] = d->ring[(d->next + d->last_n - 1 - i) % d->last_n];
    const int32_t limit = length_limit(d);
    if (limit < d->allowed_length) return false;
    int32_t left = 0, right = 0; /* the box of the Z function: latest[left..right) repeats the latest tokens */
    d->repeats[0] = 0;
    for (int32_t k = 1; k < d->n; k++) {
        int32_t same = 0;
        if (k < right) same = d->repeats[k - left] < right - k ? d->repeats[k - left] : right - k;
        while (k + same < d->n && d->latest[same] == d->latest[k + same]) same++;
        if (k + same > right) left = k, right = k + same;
        d->repeats[k]        = same;
        const int32_t length = same < limit ? same : limit;
        int32_t      *of     = &lengths[d->latest[k - 1]]; /* the token that followed */
        if (length >= d->allowed_length && length + 1 > *of) *of = length + 1;
    }
    for (int32_t k = 0; k < d->n - 1; k++) { /* a breaker of one token is not penalised */
        const size_t at = first_breaker(d, d->latest[k]);
        for (size_t i = at; i < d->n_breakers && d->breakers[i].head == d->latest[k]; i++)
            if (d->breakers[i].n == 0) lengths[d->latest[k]] = 0;
    }
    return true;
}

void rp_dry_forget(const Dry *d, int32_t *lengths) {
    for (int32_t i = 0; i < d->n; i++) lengths[d->latest[i]] = 0;
}

float rp_dry_penalty(const Dry *d, int32_t length) {
    const float largest  = 88.7228391f; /* ln(FLT_MAX) */
    int         exponent = length - d->allowed_length, most = 0;
    if (d->base > 1.000001f) most = (int)(largest / logf(d->base));
    if (most > 0 && exponent > most) exponent = most;
    return (float)((double)d->multiplier * pow((double)d->base, (double)exponent));
}
