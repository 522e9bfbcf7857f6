/* The context of a session in a file (context.h). */
#include "base/argument.h"
#include "model/context/context.h"
#include "model/runner.h"

#include <stdlib.h>

static ContextPlace place_of(const RpSession *s, int32_t slot) {
    const Runner *r = &s->runners[s->n_runners - 1];
    return (ContextPlace){.owner       = "session",
                          .model       = s->model,
                          .passes      = s->passes,
                          .graph       = r->graph,
                          .executor    = r->executor,
                          .n_ctx       = s->n_ctx,
                          .block       = SESSION_BLOCK,
                          .window_from = rp_session_window_from(s),
                          .slot        = slot};
}

/* The window blocks of n positions, which the caller frees: of the latest blocks. *out is NULL where the caches have
 * all positions in their order. */
static RpStatus window_blocks(const RpSession *s, int32_t n, int32_t **out) {
    const int32_t n_blocks = rp_session_blocks(n);
    *out                   = NULL;
    if (s->n_windows == 0) return RP_OK;
    if ((*out = malloc(((size_t)n_blocks + 1) * sizeof **out)) == NULL)
        return rp_fail(RP_E_NOMEM, "out of memory for the blocks of a context");
    for (int32_t b = 0; b < n_blocks; b++) (*out)[b] = b < n_blocks - s->n_windows ? -1 : b % s->n_windows;
    return RP_OK;
}

static RpStatus check_saved(const RpSession *s, const RpTokenList *tokens, int32_t slot) {
    if (s->n_past == 0) return rp_fail(RP_E_STATE, "the context is empty: there is nothing to save");
    if (tokens->n != (size_t)s->n_past)
        return rp_fail(RP_E_ARG, "the context has %zu tokens, the session %d", tokens->n, s->n_past);
    if (s->slots.n > 0 && slot < 0)
        return rp_fail(RP_E_STATE, "the recurrent state after %d tokens was lost by a failed run: rewind to %d",
                       s->n_past, rp_slots_reach(&s->slots, s->n_past));
    return RP_OK;
}

RpStatus rp_session_save(const RpSession *s, const RpTokenList *tokens, const char *note, const char *path) {
    RP_NOT_NULL(s, "s");
    RP_NOT_NULL(tokens, "tokens");
    RP_NOT_NULL(path, "path");
    const int32_t slot = rp_slots_find(&s->slots, s->n_past);
    ContextPlace  p    = place_of(s, slot);
    int32_t      *windows;
    RP_TRY(check_saved(s, tokens, slot));
    RP_TRY(window_blocks(s, s->n_past, &windows));
    p.windows         = windows;
    const RpStatus st = rp_context_write(&p, tokens->ids, s->n_past, note, path);
    free(windows);
    return st;
}

/* Only the device can fail here. The context is empty then. */
static RpStatus replace_context(RpSession *s, const ContextPlace *p, const ContextFile *f) {
    RP_TRY(rp_session_rewind(s, 0));
    RP_TRY(rp_context_read(p, f, 0, f->n, true));
    if (s->n_windows > 0) s->n_written = f->n;
    if (s->slots.n > 0 && f->n > 0) {
        rp_slots_put(&s->slots, rp_slots_take(&s->slots, -1), f->n); /* the first: all are free */
        rp_slots_keep(&s->slots, f->n);
    }
    s->n_past      = f->n;
    s->window_from = f->window_from;
    return RP_OK;
}

RpStatus rp_session_restore(RpSession *s, const char *path, RpTokenList *tokens, char **note) {
    if (note != NULL) *note = NULL;
    RP_NOT_NULL(s, "s");
    RP_NOT_NULL(path, "path");
    RP_NOT_NULL(tokens, "tokens");
    ContextFile  f;
    RpTokenList  read    = {0};
    char        *text    = NULL;
    int32_t     *windows = NULL;
    ContextPlace p       = place_of(s, 0);
    RP_TRY(rp_context_open(&p, path, &f));
    RpStatus st = rp_context_text(&f, &read, note != NULL ? &text : NULL);
    if (st == RP_OK) st = window_blocks(s, f.n, &windows);
    p.windows = windows;
    if (st == RP_OK) st = replace_context(s, &p, &f);
    free(windows);
    rp_context_close(&f);
    if (st != RP_OK) {
        rp_token_list_free(&read);
        free(text);
        return st;
    }
    rp_token_list_free(tokens);
    *tokens = read;
    if (note != NULL) *note = text;
    return RP_OK;
}
