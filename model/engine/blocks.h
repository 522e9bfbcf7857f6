/* blocks.h - the blocks of an engine's KV cache, and the prefixes of token sequences that they hold.
 *
 * A block is free, or has readers: the requests whose table names it. A full block can be published: it is then found
 * by its tokens and by the published block before it, so that published blocks form a tree whose paths are prefixes:
 *
 *     "A man" - " a plan" - " a canal"          block = find(find(ROOT, "A man"), " a plan")
 *                        \ " a boat"
 *
 * A published block without readers is kept until a block is needed and none is free. Then the least recently used one
 * is dropped. The use of a path is recorded from its end to its root, so that no block is dropped before its children.
 *
 * With recurrent layers a published block may refer to a state, the one after its last token (states.h). In models with
 * a window it may refer to a window block of the same positions (windows.h). */
#ifndef MODEL_ENGINE_BLOCKS_H
#define MODEL_ENGINE_BLOCKS_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BLOCK_ROOT = -1, BLOCK_NONE = -1, STATE_NONE = -1, WINDOW_NONE = -1 };

typedef struct Block {
    int32_t  readers;
    bool     published;
    int32_t  parent, next; /* of a published block: the block before it; the next one in its bucket, BLOCK_NONE: none */
    int32_t  state;        /* STATE_NONE: none */
    int32_t  window;       /* WINDOW_NONE: none */
    uint64_t used;         /* the larger, the later it was used */
} Block;

typedef struct Blocks {
    Block   *all;     /* [n] */
    int32_t *tokens;  /* [n][size]: of published blocks */
    int32_t *buckets; /* [n_buckets]: first block of each */
    int32_t *free;    /* [n_free]: blocks that are neither read nor published, the next one last */
    int32_t  n, size, n_buckets, n_free, n_kept; /* kept: published, without readers */
    uint64_t clock, evicted;
    /* Called for the state and the window block of a block that is dropped. NULL: no block has any. */
    void (*drop_state)(void *states, int32_t state);
    void (*drop_window)(void *windows, int32_t window);
    void *states, *windows;
} Blocks;

/* n blocks of `size` tokens. RP_E_NOMEM; call rp_blocks_free also after a failure. */
RP_NODISCARD RpStatus rp_blocks_init(Blocks *b, int32_t n, int32_t size);
void                  rp_blocks_free(Blocks *b);

/* Allocates a block with one reader and undefined contents; BLOCK_NONE: all blocks have readers. */
int32_t rp_blocks_take(Blocks *b);

/* Blocks that rp_blocks_take can give. */
int32_t rp_blocks_available(const Blocks *b);

void rp_blocks_retain(Blocks *b, int32_t block);
void rp_blocks_release(Blocks *b, int32_t block);

/* The published block of these tokens [size] behind `parent`, BLOCK_ROOT: the first of a sequence; or BLOCK_NONE. */
int32_t rp_blocks_find(const Blocks *b, int32_t parent, const int32_t *tokens);

/* Finds the published blocks of tokens [n * size], which begin a sequence, up to the first one that is missing. Returns
 * how many it found. */
int32_t rp_blocks_find_path(const Blocks *b, const int32_t *tokens, int32_t n, int32_t *path);

/* Publishes a block that the caller reads. If these tokens are published already, the caller reads that block instead
 * and releases its own: both hold the same bits (I8). Returns the block that the caller reads. */
int32_t rp_blocks_publish(Blocks *b, int32_t parent, int32_t block, const int32_t *tokens);

/* The path of n blocks of a sequence was used. */
void rp_blocks_use(Blocks *b, const int32_t *path, int32_t n);

#endif
