/* Blocks of the caches of layers with a window (windows.h). */
#include "model/engine/windows.h"

#include <stdlib.h>

static const uint64_t END = (uint64_t)1 << 63; /* of `used`: given up after those without it */

int64_t rp_windows_least(int32_t window, int32_t block, int32_t n_seq, int32_t step_tokens) {
    return (int64_t)n_seq * ((window - 1) / block + 4) + step_tokens / block + 1;
}

static void drop(void *windows, int32_t i) {
    Windows *w           = windows;
    w->owner[i]          = BLOCK_NONE;
    w->free[w->n_free++] = i; /* requests that read it read its block too, which would not be dropped */
}

RpStatus rp_windows_init(Windows *w, int32_t n, int32_t window, Blocks *b) {
    *w = (Windows){.n = n, .window = window, .block = b->size, .n_free = n};
    if (n == 0) return RP_OK;
    w->readers = calloc((size_t)n, sizeof *w->readers);
    w->owner   = malloc((size_t)n * sizeof *w->owner);
    w->used    = calloc((size_t)n, sizeof *w->used);
    w->free    = malloc((size_t)n * sizeof *w->free);
    if (w->readers == NULL || w->owner == NULL || w->used == NULL || w->free == NULL)
        return rp_fail(RP_E_NOMEM, "out of memory for the %d window blocks of an engine", n);
    for (int32_t i = 0; i < n; i++) w->free[i] = n - 1 - i, w->owner[i] = BLOCK_NONE;
    b->drop_window = drop;
    b->windows     = w;
    return RP_OK;
}

void rp_windows_free(Windows *w) {
    free(w->readers);
    free(w->owner);
    free(w->used);
    free(w->free);
    *w = (Windows){0};
}

int32_t rp_windows_first(const Windows *w, int32_t pos) {
    return pos < w->window ? 0 : (pos - w->window + 1) / w->block;
}

static int32_t oldest_without_readers(const Windows *w) {
    int32_t oldest = WINDOW_NONE;
    for (int32_t i = 0; i < w->n; i++)
        if (w->owner[i] != BLOCK_NONE && w->readers[i] == 0 && (oldest == WINDOW_NONE || w->used[i] < w->used[oldest]))
            oldest = i;
    return oldest;
}

int32_t rp_windows_take(Windows *w, Blocks *b) {
    int32_t i;
    if (w->n_free > 0) {
        i = w->free[--w->n_free];
    } else if ((i = oldest_without_readers(w)) != WINDOW_NONE) {
        b->all[w->owner[i]].window = WINDOW_NONE;
        w->owner[i]                = BLOCK_NONE;
    } else {
        return WINDOW_NONE;
    }
    w->readers[i] = 1;
    w->used[i]    = 0;
    return i;
}

void rp_windows_retain(Windows *w, int32_t i) { w->readers[i]++; }

int32_t rp_windows_kept(const Windows *w) {
    int32_t n = 0;
    for (int32_t i = 0; i < w->n; i++) n += w->owner[i] != BLOCK_NONE && w->readers[i] == 0;
    return n;
}

void rp_windows_release(Windows *w, int32_t i, bool is_end) {
    w->used[i] = ++w->clock | (w->used[i] & END) | (is_end ? END : 0);
    if (--w->readers[i] == 0 && w->owner[i] == BLOCK_NONE) w->free[w->n_free++] = i;
}

int32_t rp_windows_publish(Windows *w, Blocks *b, int32_t block, int32_t i) {
    int32_t *there = &b->all[block].window;
    if (*there == WINDOW_NONE) {
        *there      = i;
        w->owner[i] = block;
    } else if (*there != i) {
        rp_windows_retain(w, *there);
        rp_windows_release(w, i, false);
    }
    return *there;
}

int32_t rp_windows_reach(const Windows *w, const Blocks *b, const int32_t *path, int32_t n) {
    while (w->n > 0 && n > 0) {
        const int32_t first = rp_windows_first(w, n * w->block);
        int32_t       i     = n;
        while (i > first && b->all[path[i - 1]].window != WINDOW_NONE) i--;
        if (i == first) break;
        n = i - 1; /* every later end has the missing block in its window too */
    }
    return n;
}
