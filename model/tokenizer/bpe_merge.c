/* The merge loop of byte-level BPE and of SentencePiece: a linked list of symbols, and a binary heap of candidate
 * merges. O(n log n).
 *
 * Example, rules by rank: 0 "l o", 1 "lo w", 2 "e r", 3 "low er"; score = -rank.
 *     symbols            heap, best first
 *     l  o  w  e  r      (l,o) (e,r)
 *     lo .  w  e  r      (lo,w) (e,r)      merged l and o, pushed (lo,w)
 *     low .  .  e  r     (e,r)             merged lo and w; (low,e) is no rule
 *     low .  .  er .     (low,er)          merged e and r, pushed (low,er)
 *     lower .  .  .  .   empty
 * A symbol that was merged into its left neighbour has length 0 (a dot). Candidates of changed symbols stay
 * in the heap and are recognised when popped: with rules 0 "b c", 1 "a b" and text "abc", (a,b) is popped
 * when b is "bc" already. Its length 2 is then not 1 + 2, so it is skipped. */
#include "model/tokenizer/tokenizer_impl.h"

#include <stdlib.h>

void rp_bpe_merger_free(BpeMerger *merger) {
    free(merger->symbols);
    free(merger->heap);
    *merger = (BpeMerger){0};
}

/* ---- where no merge joins ---- */

static size_t join_bit(uint32_t a, uint32_t b) {
    return (size_t)((((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u) >> 43); /* 21 bits: RP_JOIN_BITS */
}

bool rp_tokenizer_joins(const RpTokenizer *tk, uint32_t a, uint32_t b) {
    const size_t bit = join_bit(a, b);
    return tk->joins != NULL && (tk->joins[bit / 64] >> bit % 64 & 1) != 0;
}

RpStatus rp_tokenizer_add_join(RpTokenizer *tk, uint32_t a, uint32_t b) {
    const size_t bit = join_bit(a, b);
    if (tk->joins == NULL) tk->joins = calloc(RP_JOIN_BITS / 64, sizeof *tk->joins);
    if (tk->joins == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a tokenizer");
    tk->joins[bit / 64] |= (uint64_t)1 << bit % 64;
    return RP_OK;
}

/* ---- merging ---- */

RpStatus rp_bpe_merger_begin(BpeMerger *merger, const char *text, size_t len) {
    if (len > RP_MAX_MERGED_BYTES)
        return rp_fail(RP_E_ARG,
                       "%zu bytes of text without a place where it can be cut: the tokenizer takes at most %d", len,
                       RP_MAX_MERGED_BYTES);
    if (len > merger->symbol_capacity) {
        const size_t room    = len < 64 ? 64 : len;
        Symbol      *symbols = realloc(merger->symbols, room * sizeof *symbols);
        if (symbols == NULL) return rp_fail(RP_E_NOMEM, "out of memory while tokenising %zu bytes", len);
        merger->symbols         = symbols;
        merger->symbol_capacity = room;
    }
    merger->text      = text;
    merger->n_symbols = 0;
    return RP_OK;
}

void rp_bpe_merger_add_symbol(BpeMerger *merger, size_t at, size_t len, int32_t id) {
    const int32_t i    = (int32_t)merger->n_symbols++;
    merger->symbols[i] = (Symbol){.prev = i - 1, .next = -1, .at = (uint32_t)at, .len = (uint32_t)len, .id = id};
    if (i > 0) merger->symbols[i - 1].next = i;
}

/* Highest score first; of equal scores the leftmost. */
static bool before(const BpeCandidate *a, const BpeCandidate *b) {
    return a->score != b->score ? a->score > b->score : a->left < b->left;
}

RpStatus rp_bpe_merger_push(BpeMerger *merger, BpeCandidate candidate) {
    if (merger->n_candidates == merger->candidate_capacity) {
        const size_t  room = merger->candidate_capacity == 0 ? 64 : 2 * merger->candidate_capacity;
        BpeCandidate *heap = realloc(merger->heap, room * sizeof *heap);
        if (heap == NULL) return rp_fail(RP_E_NOMEM, "out of memory while tokenising");
        merger->heap               = heap;
        merger->candidate_capacity = room;
    }
    size_t i = merger->n_candidates++;
    for (; i > 0 && before(&candidate, &merger->heap[(i - 1) / 2]); i = (i - 1) / 2)
        merger->heap[i] = merger->heap[(i - 1) / 2];
    merger->heap[i] = candidate;
    return RP_OK;
}

static BpeCandidate pop(BpeMerger *merger) {
    const BpeCandidate top = merger->heap[0], last = merger->heap[--merger->n_candidates];
    size_t             i = 0;
    for (size_t child; (child = 2 * i + 1) < merger->n_candidates; i = child) {
        if (child + 1 < merger->n_candidates && before(&merger->heap[child + 1], &merger->heap[child])) child++;
        if (!before(&merger->heap[child], &last)) break;
        merger->heap[i] = merger->heap[child];
    }
    merger->heap[i] = last;
    return top;
}

RpStatus rp_bpe_merge_all(const RpTokenizer *tk, BpeMerger *merger, ProposeMerge *propose_merge) {
    merger->n_candidates = 0;
    for (size_t i = 1; i < merger->n_symbols; i++) RP_TRY(propose_merge(tk, merger, (int32_t)i - 1, (int32_t)i));
    while (merger->n_candidates > 0) {
        const BpeCandidate c    = pop(merger);
        Symbol            *left = &merger->symbols[c.left], *right = &merger->symbols[c.right];
        /* stale: one of both was merged since, or is no longer a neighbour */
        if (left->len == 0 || right->len == 0 || left->next != c.right || left->len + right->len != c.len) continue;
        left->len += right->len;
        left->id   = c.id;
        right->len = 0;
        left->next = right->next;
        if (right->next >= 0) merger->symbols[right->next].prev = c.left;
        if (left->prev >= 0) RP_TRY(propose_merge(tk, merger, left->prev, c.left));
        if (left->next >= 0) RP_TRY(propose_merge(tk, merger, c.left, merger->symbols[c.left].next));
    }
    return RP_OK;
}
