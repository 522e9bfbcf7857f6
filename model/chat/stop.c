#include "model/chat/stop.h"

#include <stdlib.h>
#include <string.h>

RpStatus rp_reply_stop_open(ReplyStop *s, const char *const *stop, size_t n, const Json *request) {
    const JsonNode *more = rp_json_get(request, &request->nodes[0], "stop");
    const size_t    room = n + (more == NULL ? 0 : more->type == JSON_STRING ? 1 : more->n);
    if (room == 0) return RP_OK;
    s->strings = calloc(room, sizeof *s->strings);
    if (s->strings == NULL) return rp_fail(RP_E_NOMEM, "out of memory for stop strings");
    for (size_t i = 0; i < n; i++) s->strings[s->n++] = (RpGgufString){stop[i], stop[i] != NULL ? strlen(stop[i]) : 0};
    if (more != NULL && more->type == JSON_STRING) s->strings[s->n++] = rp_json_string(request, more);
    for (const JsonNode *m = rp_json_first(request, more); m != NULL; m = rp_json_next(request, more, m))
        s->strings[s->n++] = rp_json_string(request, m);
    for (size_t i = 0; i < s->n; i++)
        if (s->strings[i].len == 0) return rp_fail(RP_E_ARG, "stop string %zu of the chat is empty", i);
    return RP_OK;
}

void rp_reply_stop_close(ReplyStop *s) {
    free(s->strings);
    free(s->held.p);
}

/* Gives the first n bytes that are held back. */
static bool give(ReplyStop *s, size_t n) {
    if (n == 0) return true;
    const char         behind = s->held.p[n];
    const RpReplyEvent e      = {.kind = RP_REPLY_TEXT, .call = -1, .text = s->held.p, .len = n};
    s->held.p[n]              = '\0';
    const bool more           = s->to == NULL || s->to(&e, s->user);
    s->held.p[n]              = behind;
    memmove(s->held.p, s->held.p + n, s->held.n - n + 1);
    s->held.n -= n;
    return more;
}

static bool hold_back(ReplyStop *s, const char *text, size_t n) {
    if (s->held.n + n + 1 > s->held.room) {
        const size_t room  = 2 * (s->held.n + n + 1) + 64;
        char        *grown = realloc(s->held.p, room);
        if (grown == NULL) {
            s->status = rp_fail(RP_E_NOMEM, "out of memory for text in front of a stop string");
            return false;
        }
        s->held.p    = grown;
        s->held.room = room;
    }
    memcpy(s->held.p + s->held.n, text, n);
    s->held.n += n;
    s->held.p[s->held.n] = '\0';
    return true;
}

/* The place of the first stop string, and which it is; SIZE_MAX: none is complete. */
static size_t first_stop(const ReplyStop *s, size_t *which) {
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < s->n; i++) {
        const char *at = memmem(s->held.p, s->held.n, s->strings[i].ptr, s->strings[i].len);
        if (at == NULL || (size_t)(at - s->held.p) >= first) continue;
        first  = (size_t)(at - s->held.p);
        *which = i;
    }
    return first;
}

/* Bytes at the end that may begin a stop string. */
static size_t undecided(const ReplyStop *s) {
    size_t most = 0;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = s->strings[i].len - 1; k > most; k--)
            if (k <= s->held.n && memcmp(s->held.p + s->held.n - k, s->strings[i].ptr, k) == 0) most = k;
    return most;
}

bool rp_reply_stop_event(ReplyStop *s, const RpReplyEvent *e) {
    if (s->n == 0) return s->to == NULL || s->to(e, s->user);
    if (e->kind != RP_REPLY_TEXT) return give(s, s->held.n) && (s->to == NULL || s->to(e, s->user));
    if (!hold_back(s, e->text, e->len)) return false;
    size_t       which = 0;
    const size_t at    = first_stop(s, &which);
    if (at == SIZE_MAX) return give(s, s->held.n - undecided(s));
    const bool more = give(s, at);
    s->found        = more;
    if (more && s->to != NULL) { /* the text that is held back begins with the stop string */
        s->held.n              = s->strings[which].len;
        s->held.p[s->held.n]   = '\0';
        const RpReplyEvent end = {.kind = RP_REPLY_END, .call = -1, .text = s->held.p, .len = s->held.n};
        (void)s->to(&end, s->user);
    }
    s->held.n = 0;
    return false;
}
