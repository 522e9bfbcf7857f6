/* Blocks of the KV cache and the tree of prefixes (blocks.h). */
#include "model/engine/blocks.h"

#include <stdlib.h>
#include <string.h>

RpStatus rp_blocks_init(Blocks *b, int32_t n, int32_t size) {
    *b           = (Blocks){.n = n, .size = size, .n_free = n};
    b->n_buckets = 1;
    while (b->n_buckets < n) b->n_buckets *= 2;
    b->all     = calloc((size_t)n, sizeof *b->all);
    b->tokens  = malloc((size_t)n * (size_t)size * sizeof *b->tokens);
    b->buckets = malloc((size_t)b->n_buckets * sizeof *b->buckets);
    b->free    = malloc((size_t)n * sizeof *b->free);
    if (b->all == NULL || b->tokens == NULL || b->buckets == NULL || b->free == NULL)
        return rp_fail(RP_E_NOMEM, "out of memory for the %d blocks of an engine", n);
    for (int32_t i = 0; i < b->n_buckets; i++) b->buckets[i] = BLOCK_NONE;
    for (int32_t i = 0; i < n; i++)
        b->free[i] = n - 1 - i, b->all[i].state = STATE_NONE, b->all[i].window = WINDOW_NONE;
    return RP_OK;
}

void rp_blocks_free(Blocks *b) {
    free(b->all);
    free(b->tokens);
    free(b->buckets);
    free(b->free);
    *b = (Blocks){0};
}

static const int32_t *tokens_of(const Blocks *b, int32_t block) { return b->tokens + (size_t)block * (size_t)b->size; }

/* FNV-1a over the parent and the tokens. */
static int32_t *bucket_of(const Blocks *b, int32_t parent, const int32_t *tokens) {
    uint64_t h = (14695981039346656037u ^ (uint32_t)parent) * 1099511628211u;
    for (int32_t i = 0; i < b->size; i++) h = (h ^ (uint32_t)tokens[i]) * 1099511628211u;
    return &b->buckets[(h ^ h >> 32) & (uint64_t)(b->n_buckets - 1)];
}

int32_t rp_blocks_find(const Blocks *b, int32_t parent, const int32_t *tokens) {
    const size_t bytes = (size_t)b->size * sizeof *tokens;
    int32_t      i     = *bucket_of(b, parent, tokens);
    while (i != BLOCK_NONE && (b->all[i].parent != parent || memcmp(tokens_of(b, i), tokens, bytes) != 0))
        i = b->all[i].next;
    return i;
}

int32_t rp_blocks_find_path(const Blocks *b, const int32_t *tokens, int32_t n, int32_t *path) {
    int32_t i = 0, parent = BLOCK_ROOT;
    while (i < n && (parent = rp_blocks_find(b, parent, tokens + (size_t)i * (size_t)b->size)) != BLOCK_NONE)
        path[i++] = parent;
    return i;
}

/* Takes a published block out of its bucket. */
static void unpublish(Blocks *b, int32_t block) {
    Block   *of = &b->all[block];
    int32_t *at = bucket_of(b, of->parent, tokens_of(b, block));
    while (*at != block) at = &b->all[*at].next;
    *at = of->next;
    if (of->state != STATE_NONE && b->drop_state != NULL) b->drop_state(b->states, of->state);
    if (of->window != WINDOW_NONE && b->drop_window != NULL) b->drop_window(b->windows, of->window);
    of->state     = STATE_NONE;
    of->window    = WINDOW_NONE;
    of->published = false;
}

static int32_t oldest_kept(const Blocks *b) {
    int32_t oldest = BLOCK_NONE;
    for (int32_t i = 0; i < b->n; i++)
        if (b->all[i].published && b->all[i].readers == 0 &&
            (oldest == BLOCK_NONE || b->all[i].used < b->all[oldest].used))
            oldest = i;
    return oldest;
}

int32_t rp_blocks_available(const Blocks *b) { return b->n_free + b->n_kept; }

int32_t rp_blocks_take(Blocks *b) {
    int32_t block;
    if (b->n_free > 0) {
        block = b->free[--b->n_free];
    } else if (b->n_kept > 0) {
        block = oldest_kept(b);
        unpublish(b, block);
        b->n_kept--;
        b->evicted++;
    } else {
        return BLOCK_NONE;
    }
    b->all[block].readers = 1;
    return block;
}

void rp_blocks_retain(Blocks *b, int32_t block) {
    if (b->all[block].readers++ == 0) b->n_kept--;
}

void rp_blocks_release(Blocks *b, int32_t block) {
    if (--b->all[block].readers > 0) return;
    if (b->all[block].published)
        b->n_kept++;
    else
        b->free[b->n_free++] = block;
}

int32_t rp_blocks_publish(Blocks *b, int32_t parent, int32_t block, const int32_t *tokens) {
    const int32_t there = rp_blocks_find(b, parent, tokens);
    if (there != BLOCK_NONE) {
        rp_blocks_retain(b, there);
        rp_blocks_release(b, block);
        return there;
    }
    int32_t *bucket = bucket_of(b, parent, tokens);
    memcpy(b->tokens + (size_t)block * (size_t)b->size, tokens, (size_t)b->size * sizeof *tokens);
    b->all[block].published = true;
    b->all[block].parent    = parent;
    b->all[block].next      = *bucket;
    b->all[block].used      = ++b->clock;
    *bucket                 = block;
    return block;
}

void rp_blocks_use(Blocks *b, const int32_t *path, int32_t n) {
    for (int32_t i = n - 1; i >= 0; i--) b->all[path[i]].used = ++b->clock;
}
