/* Fuzz target: a reply of any format, cut in any way.
 *     byte 0  format of calls    byte 1  format of reasoning, and options    byte 2  how the reply is cut
 *     then    the reply; bytes 0x01 to 0x18 stand for the marks of the format
 * All cuts give the same events. Every byte of the reply is in an event, or belongs to a mark or to white space. The
 * arguments of a call that ended are a JSON object. */
#include "tests/support/reply.h"

#include "base/text/utf8.h"
#include "model/chat/parser.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools[] =
    "[{\"name\": \"f\", \"input_schema\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\"},"
    " \"b\": {\"type\": [\"string\", \"null\"]}, \"c\": {\"type\": \"integer\"}}}}]";

static void expect(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    abort();
}

/* The texts of the events, one behind the other. A text may begin as a mark does, so several places of the reply can be
 * the one at which the last text ended. */
typedef struct Log {
    Transcript    events;
    const Joined *reply;
    bool         *at, *next;   /* [n + 1]: the last text may have ended here */
    size_t        first, last; /* of the places in at */
    const char   *marks[2 * N_MARKS];
    bool          check;
} Log;

/* From each place marks and white space may be skipped. */
static void skip(Log *l) {
    for (size_t i = l->first; i <= l->last && i < l->reply->n; i++) {
        const char *p = l->reply->p + i;
        if (!l->at[i]) continue;
        for (int m = -1; m < 2 * N_MARKS; m++) {
            const char  *mark = m < 0 ? NULL : l->marks[m];
            const size_t n    = m < 0 ? (size_t)(*p != '\0' && strchr(" \n\t\r;", *p) != NULL)
                                : mark != NULL && strncmp(p, mark, strlen(mark)) == 0 ? strlen(mark)
                                                                                      : 0;
            l->at[i + n]      = true;
            if (i + n > l->last) l->last = i + n;
        }
    }
}

static void account(Log *l, const char *text, size_t n) {
    size_t first = SIZE_MAX, last = 0;
    skip(l);
    for (size_t i = l->first; i <= l->last; i++) {
        if (!l->at[i]) continue;
        l->at[i] = false;
        if (n > l->reply->n - i || memcmp(l->reply->p + i, text, n) != 0) continue;
        l->next[i + n] = true;
        if (first == SIZE_MAX) first = i + n;
        last = i + n;
    }
    expect(first != SIZE_MAX, "bytes of the reply are in no event");
    bool *at = l->next;
    l->next = l->at, l->at = at, l->first = first, l->last = last;
}

static bool on_event(const RpReplyEvent *e, void *user) {
    Log *l = user;
    if (l->check && e->kind != RP_REPLY_CALL_BEGIN && e->kind != RP_REPLY_CALL_ARGUMENTS && e->kind != RP_REPLY_END)
        account(l, e->text, e->len);
    return transcript_event(e, &l->events);
}

static void parse(const RpReplyParserOptions *options, Log *log, const Joined *reply, uint8_t cut) {
    RpReplyParserOptions o = *options;
    RpReplyParser       *p;
    uint32_t             seed = cut;
    o.on_event                = on_event;
    o.user                    = log;
    log->reply                = reply;
    expect(rp_reply_parser_new(&o, &p) == RP_OK, "the parser cannot be made");
    for (size_t i = 0, n; i < reply->n; i += n) {
        seed = seed * 1664525 + 1013904223;
        n    = cut == 0 ? reply->n : cut == 1 ? 1 : 1 + (seed >> 24) % 17;
        if (n > reply->n - i) n = reply->n - i;
        expect(rp_reply_parser_bytes(p, reply->p + i, n, false) == RP_OK, "bytes are refused");
    }
    expect(rp_reply_parser_end(p) == RP_OK, "the end is refused");
    rp_reply_parser_free(p);
    expect(!log->events.wrong, "an event lacks a field");
}

static bool is_utf8(const Joined *j) {
    for (size_t i = 0, n; i < j->n; i += n) {
        n = rp_utf8_length(j->p + i, j->n - i);
        if (n == 1 && (unsigned char)j->p[i] >= 0x80) return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const ReplyFormat *calls, *reasoning;
    Joined             reply = {0};
    Log                a = {0}, b = {0};
    size_t             n_calls = 0, n_reasoning = 0;
    if (size < 3) return -1;
    while (rp_reply_format_calls(n_calls) != NULL) n_calls++;
    while (rp_reply_format_reasoning(n_reasoning) != NULL) n_reasoning++;
    RpReplyParserOptions o = {
        .format = {rp_reply_format_calls(data[0] % n_calls), rp_reply_format_reasoning((data[1] >> 2) % n_reasoning)},
        .in_reasoning   = (data[1] & 1) != 0,
        .continues      = (data[2] & 0x80) != 0,
        .max_call_bytes = data[0] >= 0x80 ? 64 : 0
    };
    if ((data[1] & 2) != 0) o.tools = tools, o.tools_bytes = sizeof tools - 1;
    if (rp_reply_format_of(o.format.calls, &calls) != RP_OK ||
        rp_reasoning_format_of(o.format.reasoning, &reasoning) != RP_OK)
        abort();
    for (size_t i = 3; i < size; i++) {
        const char *mark = data[i] >= 1 && data[i] <= N_MARKS ? calls->marks[data[i] - 1] : NULL;
        if (mark == NULL && data[i] >= 1 && data[i] <= 2) mark = reasoning->marks[data[i] - 1];
        const char c = (char)data[i];
        join(&reply, mark != NULL ? mark : &c, mark != NULL ? strlen(mark) : 1);
    }
    memcpy(a.marks, calls->marks, sizeof calls->marks);
    memcpy(a.marks + N_MARKS, reasoning->marks, sizeof reasoning->marks);
    a.check = calls->syntax != SYNTAX_HARMONY && is_utf8(&reply); /* headers of harmony are in no event */
    a.at    = calloc(2, reply.n + 1);
    if (a.at == NULL) abort();
    a.next       = a.at + reply.n + 1;
    a.at[0]      = true;
    bool *places = a.at;
    parse(&o, &a, &reply, 0);
    skip(&a);
    expect(!a.check || a.at[reply.n], "the end of the reply is in no event");
    parse(&o, &b, &reply, data[2] == 0 ? 1 : data[2]);
    expect(strcmp(joined(&a.events.all), joined(&b.events.all)) == 0 && a.events.all.n == b.events.all.n,
           "another cut gives other events");
    for (int i = 0; i + 1 < TRANSCRIPT_CALLS; i++) /* the last one has all that are behind it */
        if (a.events.ended[i])
            expect(*joined(&a.events.arguments[i]) == '{' &&
                       rp_json_is_value(a.events.arguments[i].p, a.events.arguments[i].n),
                   "arguments are no JSON object");
    transcript_free(&a.events), transcript_free(&b.events);
    free(places);
    free(reply.p);
    return 0;
}
