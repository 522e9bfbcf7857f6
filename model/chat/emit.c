/* Events of a parser of replies: pieces of text are joined, cut into whole characters, and handed to the callback. */
#include "model/chat/parser.h"

#include <stdio.h>
#include <string.h>

void rp_reply_append(ReplyBytes *b, const char *text, size_t n) {
    if (n == 0) return;
    memcpy(b->p + b->n, text, n);
    b->n += n;
}

static void give(RpReplyParser *p, RpReplyEvent *e) {
    if (p->cancelled || p->on_event == NULL) return;
    if (!p->on_event(e, p->user)) p->cancelled = true;
}

static void give_text(RpReplyParser *p, char *text, size_t n) {
    if (n == 0) return;
    text[n] = '\0';
    give(p, &(RpReplyEvent){.kind = p->out_kind, .call = p->out_call, .text = text, .len = n});
}

void rp_reply_flush(RpReplyParser *p, bool last) {
    char   text[4 * OUT_BYTES + 20];
    size_t n = rp_utf8_feed(&p->utf8, p->out, p->n_out, text);
    if (last) n += rp_utf8_flush(&p->utf8, text + n);
    p->n_out = 0;
    give_text(p, text, n);
}

void rp_reply_put(RpReplyParser *p, RpReplyEventKind kind, const char *text, size_t n) {
    const int32_t call =
        kind == RP_REPLY_CALL_ARGUMENTS || (kind == RP_REPLY_MALFORMED && p->call.begun) ? p->n_calls : -1;
    if (kind != p->out_kind || call != p->out_call) rp_reply_flush(p, true);
    p->out_kind = kind;
    p->out_call = call;
    for (size_t i = 0; i < n; i++) {
        if (p->n_out == OUT_BYTES) rp_reply_flush(p, false);
        p->out[p->n_out++] = text[i];
    }
}

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static void make_id(RpReplyParser *p) {
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    ShortText        *id        = &p->call.id;
    const bool        brief     = (p->format->flags & FORMAT_SHORT_IDS) != 0;
    uint64_t          x         = mix(p->id_seed ^ mix((uint64_t)p->n_calls));
    id->n                       = 0;
    if (!brief) {
        memcpy(id->p, "call_", 5);
        id->n = 5;
    }
    for (int i = 0; i < (brief ? 9 : 18); i++, x = i == 9 ? mix(x) : x / 62) id->p[id->n++] = letters[x % 62];
}

void rp_reply_begin_call(RpReplyParser *p) {
    Call *c = &p->call;
    rp_reply_flush(p, true);
    if (c->id.n == 0 || c->id.n >= ID_BYTES) make_id(p);
    c->id.p[c->id.n]     = '\0';
    c->name.p[c->name.n] = '\0';
    c->begun             = true;
    c->number            = p->n_calls;
    give(p, &(RpReplyEvent){
                .kind = RP_REPLY_CALL_BEGIN, .call = p->n_calls, .text = "", .id = c->id.p, .name = c->name.p});
    if (p->value.n > 0) rp_reply_put(p, RP_REPLY_CALL_ARGUMENTS, p->value.p, p->value.n);
    p->value.n = 0;
}

void rp_reply_arguments(RpReplyParser *p, const char *text, size_t n) {
    p->call.any_arguments = true;
    if (p->call.begun)
        rp_reply_put(p, RP_REPLY_CALL_ARGUMENTS, text, n);
    else
        rp_reply_append(&p->value, text, n);
}

void rp_reply_argument(RpReplyParser *p, unsigned char c) {
    char         text[8];
    const size_t n = rp_json_escape(c, text);
    rp_reply_arguments(p, text, n);
}

void rp_reply_end_call(RpReplyParser *p) {
    Call *c = &p->call;
    if (!c->any_arguments) rp_reply_arguments(p, "{}", 2);
    rp_reply_flush(p, true);
    rp_reply_append(&p->raw, "", 1);
    give(p, &(RpReplyEvent){.kind = RP_REPLY_CALL_END,
                            .call = p->n_calls,
                            .text = p->raw.p + p->call_at,
                            .len  = p->raw.n - 1 - p->call_at,
                            .id   = c->id.p,
                            .name = c->name.p});
    p->n_calls++;
    p->raw.n = 0;
}

void rp_reply_give_end(RpReplyParser *p) {
    rp_reply_flush(p, true);
    give(p, &(RpReplyEvent){.kind = RP_REPLY_END, .call = -1, .text = ""});
}
