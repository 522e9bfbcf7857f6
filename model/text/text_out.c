/* The text of a reply (text_out.h). */
#include "model/text/text_out.h"

#include <stdlib.h>

enum { FEED_BYTES = 256 }; /* a token's bytes go through the stages at most this many at a time */

static size_t utf8_room(size_t n) { return n + 4 + 3 * (n + 4); } /* see rp_utf8_feed */

RpStatus rp_text_out_open(TextOut *t, const RpTokenizer *tokenizer, const RpGenerateOptions *o) {
    *t = (TextOut){.options = o, .tokenizer = tokenizer};
    if (o->n_stop > 0 && o->stop == NULL) return rp_fail(RP_E_ARG, "%zu stop strings at NULL", o->n_stop);
    RP_TRY(rp_stop_match_init(&t->stop, o->stop, o->n_stop));
    const size_t room = FEED_BYTES + rp_stop_match_longest(&t->stop);
    t->bytes          = malloc(room);
    t->text           = malloc(utf8_room(room));
    if (t->bytes == NULL || t->text == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the text of a reply");
    return RP_OK;
}

void rp_text_out_close(TextOut *t) {
    rp_stop_match_free(&t->stop);
    free(t->bytes);
    free(t->text);
}

/* False where the callback wants to stop. */
static bool emit_text(const TextOut *t, size_t len) {
    return t->options->on_text == NULL || t->options->on_text(t->text, len, t->options->user);
}

RpStatus rp_text_out_put(TextOut *t, int32_t token, bool *done, RpStopReason *reason) {
    RpGgufString piece   = {.ptr = ""};
    bool         stopped = false;
    if (t->tokenizer != NULL) RP_TRY(rp_token_bytes(t->tokenizer, token, t->options->print_special, &piece));
    /* at least once, also for an empty piece, so that the callback can stop */
    size_t i = 0;
    do {
        size_t       n   = 0;
        const size_t end = piece.len - i < FEED_BYTES ? piece.len : i + FEED_BYTES;
        while (i < end && !stopped) stopped = rp_stop_match_feed(&t->stop, piece.ptr[i++], t->bytes, &n);
        if (!emit_text(t, rp_utf8_feed(&t->utf8, t->bytes, n, t->text))) {
            *done   = true;
            *reason = RP_STOP_CANCELLED;
            return RP_OK;
        }
    } while (i < piece.len && !stopped);
    if (stopped) {
        *done   = true;
        *reason = RP_STOP_STRING;
    }
    return RP_OK;
}

void rp_text_out_rest(TextOut *t) {
    size_t len = rp_utf8_feed(&t->utf8, t->stop.held, t->stop.n_held, t->text);
    len += rp_utf8_flush(&t->utf8, t->text + len);
    if (len > 0) (void)emit_text(t, len);
}
