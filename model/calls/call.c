/* The life of a call in a reply: it opens, is followed by another one, ends, or turns out to be none. */
#include "model/chat/parser.h"

#include <string.h>

bool rp_reply_short(ShortText *t, unsigned char c) {
    if (t->n + 1 >= sizeof t->p) return false;
    t->p[t->n++] = (char)c;
    return true;
}

void rp_reply_drop_space(RpReplyParser *p) {
    rp_reply_flush(p, true); /* what comes is not joined to what was in front of the mark */
    p->n_space    = 0;
    p->skip_space = true;
    p->any_text   = false;
}

void rp_reply_opened(RpReplyParser *p, MarkId by) {
    p->n_opened++;
    p->opened_by = by;
    p->opened_at = p->n_bytes;
}

void rp_reply_open_call(RpReplyParser *p, bool bare) {
    memset(&p->call, 0, sizeof p->call);
    p->call.bare = bare;
    p->mode      = MODE_CALL;
    p->syntax    = p->first_syntax;
    p->value.n   = 0;
}

void rp_reply_next_call(RpReplyParser *p, size_t n) {
    char          begin[MARK_BYTES];
    const bool    list = p->call.list, bare = p->call.bare;
    const Syntax *syntax = p->syntax;
    p->raw.n -= n;
    memcpy(begin, p->raw.p + p->raw.n, n);
    rp_reply_end_call(p);
    p->call_at = 0;
    rp_reply_append(&p->raw, begin, n);
    rp_reply_open_call(p, bare);
    p->call.list = list;
    p->syntax    = syntax;
}

void rp_reply_bad(RpReplyParser *p) {
    const bool text = p->call.bare && !p->call.begun;
    rp_reply_put(p, text ? RP_REPLY_TEXT : RP_REPLY_MALFORMED, p->raw.p, p->raw.n);
    p->raw.n   = 0;
    p->capture = false;
    if (p->format->syntax == SYNTAX_HARMONY) {
        p->in_header = false;
        p->body      = RP_REPLY_MALFORMED;
        return;
    }
    p->mode = text ? MODE_TEXT : MODE_BAD;
    if (!text) return;
    p->any_text   = true;
    p->skip_space = false;
}

void rp_reply_leave_call(RpReplyParser *p) {
    if (p->mode == MODE_BAD) {
        rp_reply_flush(p, true);         /* the next one is not joined to it */
        if (p->call.begun) p->n_calls++; /* its number is used */
    }
    p->call.begun = false;
    p->mode       = p->in_section ? MODE_CALLS : MODE_TEXT;
    p->capture    = p->in_section;
    p->raw.n      = 0;
    p->call_at    = 0;
    rp_reply_drop_space(p);
}

void rp_reply_call_ended(RpReplyParser *p) {
    rp_reply_end_call(p);
    rp_reply_leave_call(p);
}

void rp_reply_section_ended(RpReplyParser *p) {
    p->in_section = false;
    rp_reply_leave_call(p);
}
