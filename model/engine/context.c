/* Prefixes of the cache of an engine in files (model/context/context.h). */
#include "model/context/context.h"
#include "base/argument.h"
#include "model/engine/engine.h"

#include <stdlib.h>

/* The blocks of a sequence, and its window blocks where there are some. */
typedef struct Path {
    int32_t *blocks, *windows; /* [n_ctx / block] each; windows: WINDOW_NONE for blocks that have none */
} Path;

static ContextPlace place_of(const RpEngine *e, const Path *path) {
    const Runner *r = &e->runners[e->n_runners - 1];
    return (ContextPlace){.owner    = "engine",
                          .model    = e->model,
                          .passes   = e->passes,
                          .graph    = r->graph,
                          .executor = r->executor,
                          .n_ctx    = e->o.n_ctx,
                          .blocks   = path->blocks,
                          .windows  = e->windows.n > 0 ? path->windows : NULL,
                          .block    = e->o.block};
}

static RpStatus new_path(const RpEngine *e, Path *out) {
    const size_t n = (size_t)rp_engine_blocks_of(&e->o, e->o.n_ctx);
    out->blocks    = malloc(2 * n * sizeof *out->blocks);
    if (out->blocks == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the blocks of a context");
    out->windows = out->blocks + n;
    for (size_t i = 0; i < n; i++) out->windows[i] = WINDOW_NONE;
    return RP_OK;
}

/* The first block of the longest run at the end of a path of n blocks whose window blocks are all there. The run may be
 * longer than the window, so that a text can also diverge before the end. 0 without windows. */
static int32_t first_window(const RpEngine *e, const Path *path, int32_t n) {
    if (e->windows.n == 0) return 0;
    while (n > 0 && path->windows[n - 1] != WINDOW_NONE) n--;
    return n;
}

RpStatus rp_engine_save(const RpEngine *e, const RpTokenList *tokens, const char *note, const char *path) {
    RP_NOT_NULL(e, "e");
    RP_NOT_NULL(tokens, "tokens");
    RP_NOT_NULL(path, "path");
    Path         of   = {0};
    const size_t most = (size_t)e->o.n_ctx < tokens->n ? (size_t)e->o.n_ctx : tokens->n;
    RP_TRY(new_path(e, &of));
    const int32_t found = rp_blocks_find_path(&e->blocks, tokens->ids, (int32_t)most / e->o.block, of.blocks);
    const int32_t n     = rp_engine_reach(e, of.blocks, found);
    ContextPlace  p     = place_of(e, &of);
    if (e->states.n > 0 && n > 0) p.slot = e->blocks.all[of.blocks[n - 1]].state;
    for (int32_t i = 0; i < n; i++) of.windows[i] = e->blocks.all[of.blocks[i]].window;
    p.window_from     = first_window(e, &of, n) * e->o.block;
    const RpStatus st = rp_context_write(&p, tokens->ids, n * e->o.block, note, path);
    free(of.blocks);
    return st;
}

/* ---- restoring ---- */

/* A path that is being restored. The engine reads its blocks meanwhile. */
typedef struct Restored {
    Path    path;       /* its windows: those that get positions of the file */
    int32_t first;      /* the first block whose window block the cache has to have */
    int32_t n, n_found; /* n_found: the first blocks, which were in the cache already */
    int32_t slot;       /* for the recurrent states; STATE_NONE: they are not needed */
} Restored;

/* Recurrent layers can begin only after their last token, which must end a block. Layers with a window can begin only
 * where the file has the window before. */
static int32_t blocks_wanted(const RpEngine *e, const ContextFile *f) {
    const int32_t n = f->n / e->o.block;
    if (e->states.n > 0 && f->n % e->o.block != 0) return 0;
    return f->window_from > rp_windows_first(&e->windows, n * e->o.block) * e->o.block ? 0 : n;
}

static RpStatus all_are_read(const ContextFile *f, const char *what) {
    return rp_fail(RP_E_CONTEXT_FULL, "%s: the %s of the engine are all of requests that run", rp_gguf_path(f->file),
                   what);
}

/* The window block of a block of the path that was in the cache already; WINDOW_NONE: it has none. */
static int32_t found_window(const RpEngine *e, const Restored *r, int32_t i) {
    return i < r->n_found ? e->blocks.all[r->path.blocks[i]].window : WINDOW_NONE;
}

/* Begins or ends reading the existing window blocks, so that no other request takes them. */
static void hold_found_windows(RpEngine *e, const Restored *r, bool hold) {
    for (int32_t i = r->first; i < r->n_found; i++) {
        const int32_t window = found_window(e, r, i);
        if (window == WINDOW_NONE || r->path.windows[i] != WINDOW_NONE) continue;
        if (hold)
            rp_windows_retain(&e->windows, window);
        else
            rp_windows_release(&e->windows, window, true);
    }
}

/* Allocates window blocks where the path has none: for the window at its end, and, while some are free, for the earlier
 * positions of the file. */
static RpStatus take_windows(RpEngine *e, const ContextFile *f, Restored *r) {
    const int32_t least = (f->window_from + e->o.block - 1) / e->o.block;
    if (e->windows.n == 0) return RP_OK;
    r->first = rp_windows_first(&e->windows, r->n * e->o.block);
    hold_found_windows(e, r, true);
    for (int32_t i = r->n - 1; i >= least; i--) {
        if (i < r->first && e->windows.n_free == 0) return RP_OK;
        if (found_window(e, r, i) != WINDOW_NONE) continue;
        if ((r->path.windows[i] = rp_windows_take(&e->windows, &e->blocks)) == WINDOW_NONE)
            return all_are_read(f, "window blocks");
    }
    return RP_OK;
}

static RpStatus take_blocks(RpEngine *e, const ContextFile *f, int32_t wanted, Restored *r) {
    int32_t *blocks = r->path.blocks;
    r->n_found      = rp_blocks_find_path(&e->blocks, f->tokens, wanted, blocks);
    for (; r->n < r->n_found; r->n++) rp_blocks_retain(&e->blocks, blocks[r->n]);
    const int32_t needed = wanted - r->n, there = rp_blocks_available(&e->blocks);
    if (needed > there)
        return rp_fail(RP_E_CONTEXT_FULL, "%s: the context needs %d blocks of the cache, %d are free of requests",
                       rp_gguf_path(f->file), needed, there);
    while (r->n < wanted) blocks[r->n++] = rp_blocks_take(&e->blocks);
    RP_TRY(take_windows(e, f, r));
    const bool has_state = wanted > 0 && e->blocks.all[blocks[wanted - 1]].state != STATE_NONE;
    if (e->states.n == 0 || wanted == 0 || has_state) return RP_OK;
    r->slot = rp_states_take(&e->states, &e->blocks, 0);
    return r->slot != STATE_NONE ? RP_OK : all_are_read(f, "recurrent states");
}

static RpStatus copy_states(RpEngine *e, const ContextFile *f, const Restored *r) {
    ContextPlace p = place_of(e, &r->path);
    p.slot         = r->slot;
    return rp_context_read(&p, f, r->n_found * e->o.block, r->n * e->o.block, r->slot != STATE_NONE);
}

static void publish(RpEngine *e, const ContextFile *f, Restored *r) {
    int32_t *blocks = r->path.blocks, *windows = r->path.windows;
    for (int32_t i = r->n_found; i < r->n; i++)
        blocks[i] = rp_blocks_publish(&e->blocks, i > 0 ? blocks[i - 1] : BLOCK_ROOT, blocks[i],
                                      f->tokens + (size_t)i * (size_t)e->o.block);
    for (int32_t i = 0; i < r->n; i++)
        if (windows[i] != WINDOW_NONE) windows[i] = rp_windows_publish(&e->windows, &e->blocks, blocks[i], windows[i]);
    if (r->slot != STATE_NONE) rp_states_keep(&e->states, &e->blocks, blocks[r->n - 1], r->slot);
    r->slot = STATE_NONE;
    rp_blocks_use(&e->blocks, blocks, r->n);
}

/* Blocks that were not published are free again. */
static void let_go(RpEngine *e, Restored *r) {
    hold_found_windows(e, r, false);
    for (int32_t i = 0; i < r->n; i++)
        if (r->path.windows[i] != WINDOW_NONE) rp_windows_release(&e->windows, r->path.windows[i], i >= r->first);
    while (r->n > 0) rp_blocks_release(&e->blocks, r->path.blocks[--r->n]);
    rp_states_give(&e->states, r->slot);
    free(r->path.blocks);
}

static RpStatus restore(RpEngine *e, const ContextFile *f, RpTokenList *tokens, int32_t *n_kept, char **note) {
    Restored      r      = {.slot = STATE_NONE, .first = INT32_MAX};
    const int32_t wanted = blocks_wanted(e, f);
    RpStatus      st     = new_path(e, &r.path);
    if (st == RP_OK) st = take_blocks(e, f, wanted, &r);
    if (st == RP_OK) st = copy_states(e, f, &r);
    if (st == RP_OK) st = rp_context_text(f, tokens, note);
    if (st == RP_OK) publish(e, f, &r);
    let_go(e, &r);
    if (st == RP_OK && n_kept != NULL) *n_kept = wanted * e->o.block;
    return st;
}

RpStatus rp_engine_restore(RpEngine *e, const char *path, RpTokenList *tokens, int32_t *n_kept, char **note) {
    if (note != NULL) *note = NULL;
    RP_NOT_NULL(e, "e");
    RP_NOT_NULL(path, "path");
    RP_NOT_NULL(tokens, "tokens");
    ContextFile        f;
    const ContextPlace p = place_of(e, &(Path){0});
    RP_TRY(rp_context_open(&p, path, &f));
    const RpStatus st = restore(e, &f, tokens, n_kept, note);
    rp_context_close(&f);
    return st;
}
