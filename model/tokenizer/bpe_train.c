/* Training of byte-level BPE, the algorithm of Hugging Face's tokenizers (models/bpe/trainer.rs), with the same
 * merges:
 *
 *     words   the distinct pieces of the pre-tokenizer "gpt-2" as lists of symbols, with numbers of occurrences
 *     pairs   neighbouring symbols: how often they occur, and in which words
 *     heap    pairs by count; of equal counts the smaller pair of ids first. One whose count fell is put back
 *
 * Each step merges the pair on top in the words that it occurs in, and only their counts change. O(n log n). */
#include "model/tokenizer/bpe_train.h"

#include "model/tokenizer/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct Word {
    size_t  at; /* in Training.symbols */
    int32_t n;
    int64_t count;
} Word;

typedef struct Pair {
    int32_t left, right;
    int64_t count;
    int32_t words; /* list of the words in which it came up in this step, -1: none */
    int32_t merge; /* its place in the list of merges, -1: none */
} Pair;

typedef struct WordNode { /* of a list */
    int32_t word, next;
} WordNode;

typedef struct Candidate {
    int64_t count; /* when it was pushed */
    int32_t pair, words;
} Candidate;

typedef struct Training {
    StringTable   pieces; /* numbered as words; borrowed from the texts */
    StringTable   known;  /* bytes of tokens, without the end token: number = id - 1 */
    Word         *words;
    int32_t      *symbols;
    Pair         *pairs;
    uint32_t     *slots; /* [n_slots] number of a pair + 1; 0: free */
    WordNode     *nodes;
    Candidate    *heap;
    int32_t      *fresh; /* pairs with a list of this step */
    size_t        n_symbols, n_pairs, n_slots, n_nodes, n_heap, n_fresh;
    size_t        word_room, symbol_room, pair_room, node_room, heap_room, fresh_room, token_room, merge_room;
    BpeVocabulary out;
} Training;

/* Makes room for element n of an array. */
static RpStatus reserve(void *array, size_t *room, size_t n, size_t size) {
    void *old;
    memcpy(&old, array, sizeof old);
    if (n < *room) return RP_OK;
    const size_t more = *room == 0 ? 1024 : 2 * *room;
    void        *p    = more < INT32_MAX ? realloc(old, more * size) : NULL;
    if (p == NULL) return rp_fail(RP_E_NOMEM, "out of memory while a tokenizer is trained");
    memcpy(array, &p, sizeof p);
    *room = more;
    return RP_OK;
}

/* ---- the byte alphabet ---- */

static bool is_printable(unsigned byte) { return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad); }

/* The character of a byte: itself, or U+0100 + its place among the other bytes. */
static unsigned character_of(unsigned byte) {
    unsigned others = 0;
    if (is_printable(byte)) return byte;
    for (unsigned b = 0; b < byte; b++) others += !is_printable(b);
    return 0x100 + others;
}

size_t rp_bpe_spell(const char *bytes, size_t n, char *out) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned c = character_of((unsigned char)bytes[i]);
        if (c >= 0x80) out[used++] = (char)(0xc0 | c >> 6);
        out[used++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
    }
    return used;
}

/* The token whose bytes are those of a, then those of b; a new one if there is none. */
static RpStatus add_token(Training *t, RpGgufString a, RpGgufString b, int32_t *id) {
    RP_TRY(reserve(&t->out.tokens, &t->token_room, (size_t)t->out.n_tokens, sizeof *t->out.tokens));
    char *text = malloc(a.len + b.len + 1);
    if (text == NULL) return rp_fail(RP_E_NOMEM, "out of memory while a tokenizer is trained");
    if (a.len > 0) memcpy(text, a.ptr, a.len);
    if (b.len > 0) memcpy(text + a.len, b.ptr, b.len);
    *id = rp_strings_find(&t->known, text, a.len + b.len) + 1;
    if (*id > 0) {
        free(text);
        return RP_OK;
    }
    const RpGgufString token         = {text, a.len + b.len};
    *id                              = t->out.n_tokens;
    t->out.tokens[t->out.n_tokens++] = token;
    return *id == BPE_END ? RP_OK : rp_strings_append(&t->known, token);
}

/* The end token, and the bytes in the order of their characters: printable ones, then the others. */
static RpStatus add_alphabet(Training *t) {
    const RpGgufString none = {"", 0};
    int32_t            id;
    RP_TRY(add_token(t, none, none, &id));
    for (int printable = 1; printable >= 0; printable--)
        for (unsigned b = 0; b < 256; b++) {
            const char c = (char)b;
            if (is_printable(b) == printable) RP_TRY(add_token(t, (RpGgufString){&c, 1}, none, &id));
        }
    return RP_OK;
}

/* ---- words ---- */

/* Counts a piece. A new piece becomes a word, and its bytes become symbols. */
static RpStatus count_piece(const char *piece, size_t len, void *user) {
    Training *t = user;
    int32_t   w;
    if (len > INT32_MAX / 2) return rp_fail(RP_E_ARG, "a word of %zu bytes", len);
    const int32_t n_before = (int32_t)t->pieces.n;
    RP_TRY(rp_strings_add(&t->pieces, (RpGgufString){piece, len}, &w));
    if (w < n_before) {
        t->words[w].count++;
        return RP_OK;
    }
    RP_TRY(reserve(&t->words, &t->word_room, (size_t)w, sizeof *t->words));
    t->words[w] = (Word){.at = t->n_symbols, .n = (int32_t)len, .count = 1};
    for (size_t i = 0; i < len; i++) {
        RP_TRY(reserve(&t->symbols, &t->symbol_room, t->n_symbols, sizeof *t->symbols));
        t->symbols[t->n_symbols++] = rp_strings_find(&t->known, piece + i, 1) + 1;
    }
    return RP_OK;
}

/* ---- pairs ---- */

static size_t slot_of(const Training *t, int32_t left, int32_t right) {
    uint64_t z = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    size_t   s = (size_t)(z ^ z >> 32) & (t->n_slots - 1);
    for (; t->slots[s] != 0; s = (s + 1) & (t->n_slots - 1)) {
        const Pair *p = &t->pairs[t->slots[s] - 1];
        if (p->left == left && p->right == right) break;
    }
    return s;
}

/* Doubles the table when it is half full. */
static RpStatus grow_slots(Training *t) {
    if (2 * t->n_pairs < t->n_slots) return RP_OK;
    const size_t n     = t->n_slots == 0 ? 4096 : 2 * t->n_slots;
    uint32_t    *slots = calloc(n, sizeof *slots);
    if (slots == NULL) return rp_fail(RP_E_NOMEM, "out of memory while a tokenizer is trained");
    free(t->slots);
    t->slots   = slots;
    t->n_slots = n;
    for (size_t i = 0; i < t->n_pairs; i++) slots[slot_of(t, t->pairs[i].left, t->pairs[i].right)] = (uint32_t)i + 1;
    return RP_OK;
}

/* Adds `by` to the count of a pair. If the count grows, the word joins the pair's list of this step. */
static RpStatus change(Training *t, int32_t left, int32_t right, int64_t by, int32_t word) {
    RP_TRY(grow_slots(t));
    const size_t s = slot_of(t, left, right);
    if (t->slots[s] == 0) {
        RP_TRY(reserve(&t->pairs, &t->pair_room, t->n_pairs, sizeof *t->pairs));
        t->pairs[t->n_pairs] = (Pair){.left = left, .right = right, .words = -1, .merge = -1};
        t->slots[s]          = (uint32_t)++t->n_pairs;
    }
    const uint32_t number = t->slots[s] - 1;
    Pair          *p      = &t->pairs[number];
    p->count += by;
    if (by < 0 || (p->words >= 0 && t->nodes[p->words].word == word)) return RP_OK;
    if (p->words < 0) {
        RP_TRY(reserve(&t->fresh, &t->fresh_room, t->n_fresh, sizeof *t->fresh));
        t->fresh[t->n_fresh++] = (int32_t)number;
    }
    RP_TRY(reserve(&t->nodes, &t->node_room, t->n_nodes, sizeof *t->nodes));
    t->nodes[t->n_nodes] = (WordNode){.word = word, .next = p->words};
    p->words             = (int32_t)t->n_nodes++;
    return RP_OK;
}

/* ---- heap ---- */

static bool before(const Training *t, const Candidate *a, const Candidate *b) {
    const Pair *p = &t->pairs[a->pair], *q = &t->pairs[b->pair];
    if (a->count != b->count) return a->count > b->count;
    if (p->left != q->left) return p->left < q->left;
    return p->right != q->right ? p->right < q->right : a->words < b->words;
}

static RpStatus push(Training *t, Candidate c) {
    RP_TRY(reserve(&t->heap, &t->heap_room, t->n_heap, sizeof *t->heap));
    size_t i = t->n_heap++;
    for (; i > 0 && before(t, &c, &t->heap[(i - 1) / 2]); i = (i - 1) / 2) t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = c;
    return RP_OK;
}

static Candidate pop(Training *t) {
    const Candidate top = t->heap[0], last = t->heap[--t->n_heap];
    size_t          i = 0;
    for (size_t child; (child = 2 * i + 1) < t->n_heap; i = child) {
        if (child + 1 < t->n_heap && before(t, &t->heap[child + 1], &t->heap[child])) child++;
        if (!before(t, &t->heap[child], &last)) break;
        t->heap[i] = t->heap[child];
    }
    t->heap[i] = last;
    return top;
}

/* The pairs that came up in this step become candidates. */
static RpStatus push_fresh(Training *t) {
    for (size_t i = 0; i < t->n_fresh; i++) {
        Pair *p = &t->pairs[t->fresh[i]];
        if (p->count > 0) RP_TRY(push(t, (Candidate){.count = p->count, .pair = t->fresh[i], .words = p->words}));
        p->words = -1;
    }
    t->n_fresh = 0;
    return RP_OK;
}

/* ---- merges ---- */

/* Merges the two symbols everywhere in a word, from left to right, and updates the pairs with their neighbours. */
static RpStatus merge_word(Training *t, int32_t number, int32_t left, int32_t right, int32_t made) {
    Word    *w = &t->words[number];
    int32_t *s = t->symbols + w->at, n = 0;
    for (int32_t i = 0; i < w->n;) {
        if (s[i] != left || i + 1 == w->n || s[i + 1] != right) {
            s[n++] = s[i++];
            continue;
        }
        if (n > 0) RP_TRY(change(t, s[n - 1], left, -w->count, number));
        if (n > 0) RP_TRY(change(t, s[n - 1], made, w->count, number));
        s[n++] = made;
        i += 2;
        if (i < w->n) RP_TRY(change(t, right, s[i], -w->count, number));
        if (i < w->n) RP_TRY(change(t, made, s[i], w->count, number));
    }
    w->n = n;
    return RP_OK;
}

/* Merges the pair in all words of the candidate. A pair can appear again, because two merges may have one result. It is
 * then merged a second time, and the later place in the list of merges counts. */
static RpStatus merge(Training *t, const Candidate *c) {
    Pair         *p    = &t->pairs[c->pair];
    const int32_t left = p->left, right = p->right;
    int32_t       made;
    RP_TRY(add_token(t, t->out.tokens[left], t->out.tokens[right], &made));
    RP_TRY(reserve(&t->out.merges, &t->merge_room, t->out.n_merges, sizeof *t->out.merges));
    if (p->merge >= 0) t->out.merges[p->merge][0] = -1;
    p->merge                   = (int32_t)t->out.n_merges++;
    t->out.merges[p->merge][0] = left;
    t->out.merges[p->merge][1] = right;
    for (int32_t node = c->words; node >= 0; node = t->nodes[node].next)
        RP_TRY(merge_word(t, t->nodes[node].word, left, right, made));
    return push_fresh(t);
}

/* Removes the earlier places of merges that were made twice. */
static void drop_repeated(BpeVocabulary *v) {
    size_t n = 0;
    for (size_t i = 0; i < v->n_merges; i++)
        if (v->merges[i][0] >= 0) memmove(v->merges[n++], v->merges[i], sizeof v->merges[i]);
    v->n_merges = n;
}

/* Counts the pairs of all words. */
static RpStatus count_pairs(Training *t) {
    for (size_t w = 0; w < t->pieces.n; w++)
        for (int32_t i = 1; i < t->words[w].n; i++) {
            const int32_t *s = t->symbols + t->words[w].at + i;
            RP_TRY(change(t, s[-1], s[0], t->words[w].count, (int32_t)w));
        }
    return push_fresh(t);
}

static RpStatus stopped(void) { return rp_fail(RP_E_CANCELLED, "the training of a tokenizer was stopped"); }

static RpStatus read_texts(Training *t, const RpGgufString *texts, size_t n, BpeProgress *progress, void *user) {
    Pretokenizer *pretokenizer;
    bool          unused[2];
    size_t        done = 0, total = 0;
    RpStatus      st = rp_pretokenizer_new("gpt-2", &pretokenizer, &unused[0], &unused[1]);
    for (size_t i = 0; i < n; i++) total += texts[i].len;
    for (size_t i = 0; i < n && st == RP_OK; i++) {
        st = rp_pretokenize(pretokenizer, texts[i].ptr, texts[i].len, count_piece, t);
        done += texts[i].len;
        if (st == RP_OK && progress != NULL && !progress(done, total, user)) st = stopped();
    }
    rp_pretokenizer_free(pretokenizer);
    return st;
}

static RpStatus train(Training *t, const RpGgufString *texts, size_t n, int32_t n_vocab, BpeProgress *progress,
                      void *user) {
    RP_TRY(add_alphabet(t));
    RP_TRY(read_texts(t, texts, n, progress, user));
    RP_TRY(count_pairs(t));
    while (t->out.n_tokens < n_vocab && t->n_heap > 0) {
        Candidate     top   = pop(t);
        const int64_t count = t->pairs[top.pair].count;
        if (top.count != count) { /* it fell since: pushed back, unless the pair is gone */
            top.count = count;
            if (count > 0) RP_TRY(push(t, top));
            continue;
        }
        RP_TRY(merge(t, &top));
        if (progress != NULL && !progress((size_t)t->out.n_tokens, (size_t)n_vocab, user)) return stopped();
    }
    drop_repeated(&t->out);
    return RP_OK;
}

void rp_bpe_vocabulary_free(BpeVocabulary *v) {
    for (int32_t i = 0; i < v->n_tokens; i++) {
        char *text;
        memcpy(&text, &v->tokens[i].ptr, sizeof text);
        free(text);
    }
    free(v->tokens);
    free(v->merges);
    *v = (BpeVocabulary){0};
}

RpStatus rp_bpe_train(const RpGgufString *texts, size_t n_texts, int32_t n_vocab, BpeProgress *progress, void *user,
                      BpeVocabulary *out) {
    Training       t  = {0};
    const RpStatus st = train(&t, texts, n_texts, n_vocab, progress, user);
    rp_strings_free(&t.pieces);
    rp_strings_free(&t.known);
    free(t.words);
    free(t.symbols);
    free(t.pairs);
    free(t.slots);
    free(t.nodes);
    free(t.heap);
    free(t.fresh);
    *out = t.out;
    if (st != RP_OK) rp_bpe_vocabulary_free(out);
    return st;
}
