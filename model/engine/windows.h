/* windows.h - blocks of the caches of layers with a window. Such a layer attends to the last `window` positions only,
 * so its caches have room for those of the running requests and for the ends of some prefixes, not for whole texts:
 *
 *     text              |-------------------------------------------|
 *     blocks            # # # # # # # # # # # # # # # # # # # # # #    of layers that attend to all positions
 *     window blocks                                       # # # # #    from the first position the next token needs
 *
 * A window block is free; or requests read it; or it belongs to a published block of the same positions (blocks.h),
 * with or without readers. A request can begin behind a published block if the window before the next position is
 * there.
 *
 * When a window block is needed and none is free, a published block gives up its window block. Windows inside of a text
 * go first, because they help only a text that diverges there. Windows at the ends of prompts and replies, and where
 * texts have diverged before, go last. In both groups the least recently used one is first. */
#ifndef MODEL_ENGINE_WINDOWS_H
#define MODEL_ENGINE_WINDOWS_H

#include "model/engine/blocks.h"

typedef struct Windows {
    int32_t   n;             /* 0: no layer has a window */
    int32_t   window, block; /* positions that a token attends to, its own included; positions of a block */
    int32_t  *readers;       /* [n] */
    int32_t  *owner;         /* [n]: the published block that it belongs to; BLOCK_NONE: none */
    uint64_t *used;          /* [n]: the larger, the later it is given up */
    int32_t  *free;          /* [n_free] */
    int32_t   n_free;
    uint64_t  clock;
} Windows;

/* Window blocks that n_seq requests need at most while they run, in steps of step_tokens. With p whole blocks in
 * window - 1 positions, and q in the columns of a request beyond the first, it reads at most p + q + 3 blocks, and one
 * more that was taken for guesses. A guess of MAX_DRAFT tokens is shorter than a block. */
int64_t rp_windows_least(int32_t window, int32_t block, int32_t n_seq, int32_t step_tokens);

/* Blocks of the window before a position that begins a block. */
static inline int32_t rp_windows_each(int32_t window, int32_t block) { return (window - 1 + block - 1) / block; }

/* n window blocks. RP_E_NOMEM; call rp_windows_free also after a failure. Blocks that are dropped give theirs back. */
RP_NODISCARD RpStatus rp_windows_init(Windows *w, int32_t n, int32_t window, Blocks *b);
void                  rp_windows_free(Windows *w);

/* The first block that a token at position `pos` attends to. */
int32_t rp_windows_first(const Windows *w, int32_t pos);

/* Allocates a window block with one reader and undefined contents; WINDOW_NONE: all have readers. */
int32_t rp_windows_take(Windows *w, Blocks *b);

void rp_windows_retain(Windows *w, int32_t i);

/* Window blocks that no request reads, and that belong to a published block. */
int32_t rp_windows_kept(const Windows *w);

/* `is_end`: a text is likely to be continued there. */
void rp_windows_release(Windows *w, int32_t i, bool is_end);

/* Attaches a window block, which the caller reads, to a published block. If the block already has one, the caller reads
 * that instead and releases its own: both hold the same bits (I8). Returns the one that the caller reads. */
int32_t rp_windows_publish(Windows *w, Blocks *b, int32_t block, int32_t i);

/* How many of the first n blocks of a path a request can begin behind: with windows those up to the last one behind
 * which the window is there. */
int32_t rp_windows_reach(const Windows *w, const Blocks *b, const int32_t *path, int32_t n);

#endif
