/* Joining neighbours in order of score: what both kinds of tokenizers have in common. O(n log n). */
#include "model/tokenizer_impl.h"

#include <stdlib.h>

void rp_merge_work_free(MergeWork *w) {
    free(w->symbols);
    free(w->heap);
    *w = (MergeWork){0};
}

static RpStatus reserve(void **memory, size_t *capacity, size_t n, size_t size) {
    if (n < *capacity) return RP_OK;
    const size_t more = *capacity == 0 ? 64 : 2 * *capacity;
    void        *p    = realloc(*memory, more * size);
    if (p == NULL || more > INT32_MAX) {
        if (p != NULL) *memory = p;
        return rp_fail(RP_E_NOMEM, "out of memory while tokenising");
    }
    *memory   = p;
    *capacity = more;
    return RP_OK;
}

RpStatus rp_merge_add_symbol(MergeWork *w, const char *text, size_t len, int32_t id) {
    void *memory = w->symbols;
    RP_TRY(reserve(&memory, &w->symbol_capacity, w->n_symbols, sizeof *w->symbols));
    w->symbols      = memory;
    const int32_t i = (int32_t)w->n_symbols;
    w->symbols[i]   = (Symbol){.prev = i - 1, .next = -1, .text = text, .len = len, .id = id};
    if (i > 0) w->symbols[i - 1].next = i;
    w->n_symbols++;
    return RP_OK;
}

static bool before(const Join *a, const Join *b) {
    return a->score != b->score ? a->score > b->score : a->left < b->left;
}

RpStatus rp_merge_push(MergeWork *w, Join join) {
    void *memory = w->heap;
    RP_TRY(reserve(&memory, &w->join_capacity, w->n_joins, sizeof *w->heap));
    w->heap  = memory;
    size_t i = w->n_joins++;
    for (; i > 0 && before(&join, &w->heap[(i - 1) / 2]); i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = join;
    return RP_OK;
}

static Join pop(MergeWork *w) {
    const Join top = w->heap[0], last = w->heap[--w->n_joins];
    size_t     i = 0;
    for (size_t child; (child = 2 * i + 1) < w->n_joins; i = child) {
        if (child + 1 < w->n_joins && before(&w->heap[child + 1], &w->heap[child])) child++;
        if (!before(&w->heap[child], &last)) break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return top;
}

RpStatus rp_merge_all(const Tokenizer *tk, MergeWork *w, TryJoin *try_join) {
    w->n_joins = 0;
    for (size_t i = 1; i < w->n_symbols; i++) RP_TRY(try_join(tk, w, (int32_t)i - 1, (int32_t)i));
    while (w->n_joins > 0) {
        const Join j    = pop(w);
        Symbol    *left = &w->symbols[j.left], *right = &w->symbols[j.right];
        if (left->len == 0 || right->len == 0 || left->next != j.right || left->len + right->len != j.len)
            continue;
        left->len += right->len;
        left->id   = j.id;
        right->len = 0;
        left->next = right->next;
        if (right->next >= 0) w->symbols[right->next].prev = j.left;
        if (left->prev >= 0) RP_TRY(try_join(tk, w, left->prev, j.left));
        if (left->next >= 0) RP_TRY(try_join(tk, w, j.left, w->symbols[j.left].next));
    }
    return RP_OK;
}
