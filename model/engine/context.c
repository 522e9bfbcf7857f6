/* Prefixes of the cache of an engine in files (model/context/context.h). */
#include "model/context/context.h"
#include "base/argument.h"
#include "model/engine/engine.h"

#include <stdlib.h>

static ContextPlace place_of(const RpEngine *e, const int32_t *blocks) {
    const Runner *r = &e->runners[e->n_runners - 1];
    return (ContextPlace){.owner    = "engine",
                          .model    = e->model,
                          .passes   = e->passes,
                          .graph    = r->graph,
                          .executor = r->executor,
                          .n_ctx    = e->o.n_ctx,
                          .blocks   = blocks,
                          .block    = e->o.block};
}

/* Memory for the blocks of a sequence. */
static RpStatus new_path(const RpEngine *e, int32_t **out) {
    *out = malloc((size_t)rp_engine_blocks_of(&e->o, e->o.n_ctx) * sizeof **out);
    return *out != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for the blocks of a context");
}

RpStatus rp_engine_save(const RpEngine *e, const RpTokenList *tokens, const char *note, const char *path) {
    RP_NOT_NULL(e, "e");
    RP_NOT_NULL(tokens, "tokens");
    RP_NOT_NULL(path, "path");
    int32_t     *blocks;
    const size_t most = (size_t)e->o.n_ctx < tokens->n ? (size_t)e->o.n_ctx : tokens->n;
    RP_TRY(new_path(e, &blocks));
    const int32_t found = rp_blocks_find_path(&e->blocks, tokens->ids, (int32_t)most / e->o.block, blocks);
    const int32_t n     = rp_states_reach(&e->states, &e->blocks, blocks, found);
    ContextPlace  p     = place_of(e, blocks);
    if (e->states.n > 0 && n > 0) p.slot = e->blocks.all[blocks[n - 1]].state;
    const RpStatus st = rp_context_write(&p, tokens->ids, n * e->o.block, note, path);
    free(blocks);
    return st;
}

/* ---- restoring ---- */

/* A path that is being restored. The engine reads its blocks meanwhile. */
typedef struct Restored {
    int32_t *blocks;
    int32_t  n, n_found; /* n_found: the first blocks, which were in the cache already */
    int32_t  slot;       /* for the recurrent states; STATE_NONE: they are not needed */
} Restored;

/* Recurrent layers can begin only behind their last token, where a block must end. */
static int32_t blocks_wanted(const RpEngine *e, const ContextFile *f) {
    return e->states.n > 0 && f->n % e->o.block != 0 ? 0 : f->n / e->o.block;
}

static RpStatus take_blocks(RpEngine *e, const ContextFile *f, int32_t wanted, Restored *r) {
    r->n_found = rp_blocks_find_path(&e->blocks, f->tokens, wanted, r->blocks);
    for (; r->n < r->n_found; r->n++) rp_blocks_retain(&e->blocks, r->blocks[r->n]);
    const int32_t needed = wanted - r->n, there = rp_blocks_available(&e->blocks);
    if (needed > there)
        return rp_fail(RP_E_CONTEXT_FULL, "%s: the context needs %d blocks of the cache, %d are free of requests",
                       rp_gguf_path(f->file), needed, there);
    while (r->n < wanted) r->blocks[r->n++] = rp_blocks_take(&e->blocks);
    const bool has_state = wanted > 0 && e->blocks.all[r->blocks[wanted - 1]].state != STATE_NONE;
    if (e->states.n == 0 || wanted == 0 || has_state) return RP_OK;
    r->slot = rp_states_take(&e->states, &e->blocks, 0);
    return r->slot != STATE_NONE
               ? RP_OK
               : rp_fail(RP_E_CONTEXT_FULL, "%s: the recurrent states of the engine are all of requests that run",
                         rp_gguf_path(f->file));
}

static RpStatus copy_states(RpEngine *e, const ContextFile *f, const Restored *r) {
    ContextPlace p = place_of(e, r->blocks);
    p.slot         = r->slot;
    return rp_context_read(&p, f, r->n_found * e->o.block, r->n * e->o.block, r->slot != STATE_NONE);
}

static void publish(RpEngine *e, const ContextFile *f, Restored *r) {
    for (int32_t i = r->n_found; i < r->n; i++)
        r->blocks[i] = rp_blocks_publish(&e->blocks, i > 0 ? r->blocks[i - 1] : BLOCK_ROOT, r->blocks[i],
                                         f->tokens + (size_t)i * (size_t)e->o.block);
    if (r->slot != STATE_NONE) rp_states_keep(&e->states, &e->blocks, r->blocks[r->n - 1], r->slot);
    r->slot = STATE_NONE;
    rp_blocks_use(&e->blocks, r->blocks, r->n);
}

/* Blocks that were not published are free again. */
static void let_go(RpEngine *e, Restored *r) {
    while (r->n > 0) rp_blocks_release(&e->blocks, r->blocks[--r->n]);
    rp_states_give(&e->states, r->slot);
    free(r->blocks);
}

static RpStatus restore(RpEngine *e, const ContextFile *f, RpTokenList *tokens, int32_t *n_kept, char **note) {
    Restored      r      = {.slot = STATE_NONE};
    const int32_t wanted = blocks_wanted(e, f);
    RpStatus      st     = new_path(e, &r.blocks);
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
    const ContextPlace p = place_of(e, NULL);
    RP_TRY(rp_context_open(&p, path, &f));
    const RpStatus st = restore(e, &f, tokens, n_kept, note);
    rp_context_close(&f);
    return st;
}
