/* Replies of gpt-oss: messages with a header each (OpenAI's "harmony" format). The prompt ends inside of a header.
 *
 *     <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json
 *     <|message|>{...}<|call|>     or     <|channel|>final<|message|>...<|return|> */
#include "model/calls/call_json.h"

#include <string.h>

unsigned rp_harmony_marks(const RpReplyParser *p) {
    const unsigned ends   = BIT(MARK_MESSAGE_END) | BIT(MARK_CALL_END) | BIT(MARK_RETURN);
    const unsigned header = BIT(MARK_CHANNEL) | BIT(MARK_MESSAGE) | BIT(MARK_CONSTRAIN) | BIT(MARK_HEADER);
    if (p->in_header) return ends | header;
    return ends | (p->token[MARK_HEADER] ? BIT(MARK_HEADER) | BIT(MARK_CHANNEL) : 0);
}

static void begin_header(RpReplyParser *p) {
    p->in_header = true;
    p->capture   = true;
    p->header.n  = 0;
    p->raw.n = p->call_at = 0;
    memset(&p->call, 0, sizeof p->call);
}

static void end_message(RpReplyParser *p) {
    if (p->body == RP_REPLY_CALL_ARGUMENTS && p->call.scan.state == SCAN_END)
        rp_reply_end_call(p);
    else if (p->body == RP_REPLY_CALL_ARGUMENTS)
        rp_reply_bad(p);
    if (p->body == RP_REPLY_MALFORMED && p->call.begun) {
        rp_reply_flush(p, true);
        p->n_calls++; /* its number is used */
    }
    rp_reply_flush(p, true);
    begin_header(p);
}

/* The word behind `key` in the header; "" for none. */
static size_t word_behind(const ShortText *h, const char *key, const char **out) {
    const char *at = memmem(h->p, h->n, key, strlen(key));
    *out           = "";
    if (at == NULL) return 0;
    *out              = at + strlen(key);
    size_t       n    = 0;
    const size_t most = (size_t)(h->p + h->n - *out);
    while (n < most && !rp_json_space((unsigned char)(*out)[n]) && (*out)[n] != '\1') n++;
    return n;
}

static void begin_body(RpReplyParser *p) {
    const char  *channel, *to;
    const size_t n_channel = word_behind(&p->header, "\1", &channel), n_to = word_behind(&p->header, "to=", &to);
    const size_t prefix = n_to > 10 && memcmp(to, "functions.", 10) == 0 ? 10 : 0;
    p->in_header        = false;
    p->body             = n_channel == 8 && memcmp(channel, "analysis", 8) == 0 ? RP_REPLY_REASONING : RP_REPLY_TEXT;
    if (n_to == prefix) {
        p->capture = false;
        p->raw.n   = 0;
        return;
    }
    p->body = RP_REPLY_CALL_ARGUMENTS;
    for (size_t i = prefix; i < n_to; i++) (void)rp_reply_short(&p->call.name, (unsigned char)to[i]);
    p->value.n = 0;
    rp_reply_begin_call(p);
}

/* Offset of the name of a tool in the header; SIZE_MAX: it has none. */
static size_t recipient(const RpReplyParser *p) {
    const char *at = memmem(p->header.p, p->header.n, "to=", 3);
    return at != NULL ? (size_t)(at - p->header.p) + 3 : SIZE_MAX;
}

bool rp_harmony_in_call(const RpReplyParser *p) {
    return p->in_header ? recipient(p) != SIZE_MAX : p->body == RP_REPLY_CALL_ARGUMENTS;
}

void rp_harmony_byte(RpReplyParser *p, unsigned char c) {
    bool done;
    if (p->in_header) {
        if (c < 0x20 || !rp_reply_short(&p->header, c))
            rp_reply_bad(p);
        else if (c == '=' && recipient(p) == p->header.n)
            rp_reply_opened(p, MARK_HEADER);
    } else if (p->body != RP_REPLY_CALL_ARGUMENTS) {
        rp_reply_put(p, p->body, (const char *)&c, 1);
    } else if (p->call.scan.state == SCAN_END ? !rp_json_space(c) : !rp_json_body_byte(p, c, &done)) {
        rp_reply_bad(p);
    }
}

void rp_harmony_mark(RpReplyParser *p, MarkId m) {
    const char *text = p->format->marks[m];
    if (p->capture) rp_reply_append(&p->raw, text, strlen(text));
    if (!p->in_header) {
        if (p->body == RP_REPLY_MALFORMED) rp_reply_put(p, RP_REPLY_MALFORMED, text, strlen(text));
        end_message(p);
        if (m == MARK_CHANNEL) rp_harmony_mark(p, m);
        return;
    }
    switch (m) {
    case MARK_HEADER:
        begin_header(p);
        break;
    case MARK_CHANNEL:
        (void)rp_reply_short(&p->header, '\1');
        break;
    case MARK_CONSTRAIN:
        (void)rp_reply_short(&p->header, ' ');
        break;
    case MARK_MESSAGE:
        begin_body(p);
        break;
    default:
        begin_header(p);
        break; /* a message without a text */
    }
}

void rp_harmony_end(RpReplyParser *p) {
    if (!p->in_header) {
        end_message(p);
    } else if (p->header.n > 0) { /* a header without a message */
        p->in_header  = false;
        p->call.begun = false;
        rp_reply_bad(p);
    }
}
