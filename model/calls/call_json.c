/* Calls as JSON: {"name": "f", "arguments": {...}}, also "parameters", in any order; several in an array, or one behind
 * the other. Arguments may be the text of a JSON string. */
#include "model/calls/call_json.h"

#include <string.h>

enum { CALL_START, CALL_OBJECT, CALL_BEHIND, CALL_NEXT, CALL_WAIT };

static bool in_string(const JsonScan *s) {
    return s->state == SCAN_STRING || s->state == SCAN_ESCAPE || s->state == SCAN_HEX;
}

static bool in_number(ScanState s) { return s >= SCAN_MINUS && s <= SCAN_EXPONENT; }

unsigned rp_json_call_ends(const RpReplyParser *p) {
    unsigned ends = BIT(MARK_CALL_END) | BIT(MARK_CALLS_END);
    if (!in_string(&p->call.scan)) return ends;
    for (unsigned m = MARK_CALLS_END; m <= MARK_CALL_END; m++)
        if (!p->token[m]) ends &= ~BIT(m);
    return ends;
}

static bool inner_byte(RpReplyParser *p, unsigned char c) {
    JsonScan  *s    = &p->call.inner;
    const bool text = in_string(s);
    if (s->depth == 0 && s->state == SCAN_VALUE && c != '{' && !rp_json_space(c)) return false;
    if (s->state == SCAN_END) return rp_json_space(c);
    if (rp_json_scan(s, c) > SCAN_DONE) return false;
    if (text && c < 0x20)
        rp_reply_argument(p, c);
    else
        rp_reply_arguments(p, (const char *)&c, 1);
    return true;
}

/* A byte of arguments that are the text of a string, between its quotes. */
static bool inner_text(RpReplyParser *p, unsigned char c, bool last) {
    char         out[STRING_DECODE_ROOM];
    const size_t n = last ? rp_string_decode_end(&p->call.decode, out) : rp_string_decode(&p->call.decode, c, out);
    for (size_t i = 0; i < n; i++)
        if (!inner_byte(p, (unsigned char)out[i])) return false;
    return !last || p->call.inner.state == SCAN_END;
}

static void arguments_byte(RpReplyParser *p, unsigned char c, bool was_in_string) {
    if (was_in_string && c < 0x20)
        rp_reply_argument(p, c);
    else
        rp_reply_arguments(p, (const char *)&c, 1);
}

bool rp_json_body_byte(RpReplyParser *p, unsigned char c, bool *done) {
    JsonScan  *s      = &p->call.scan;
    const bool string = s->state == SCAN_STRING;
    *done             = false;
    if (s->depth == 0 && c != '{') return rp_json_space(c);
    const ScanResult r = rp_json_scan(s, c);
    *done              = r == SCAN_DONE;
    if (r > SCAN_DONE) return false;
    arguments_byte(p, c, string);
    return true;
}

/* The value of a member of the call begins. */
static bool begin_value(RpReplyParser *p, unsigned char c) {
    static const char *const names[] = {"name", "tool_name"}, *const arguments[] = {"arguments", "parameters"};
    Call *k     = &p->call;
    k->in_value = true;
    k->route    = ROUTE_NONE;
    memset(&k->decode, 0, sizeof k->decode);
    k->key.p[k->key.n] = '\0';
    for (int i = 0; i < 2; i++) {
        if (strcmp(k->key.p, names[i]) == 0) k->route = ROUTE_NAME;
        if (strcmp(k->key.p, arguments[i]) == 0) k->route = ROUTE_ARGUMENTS;
    }
    if (k->route == ROUTE_NAME) return c == '"' && !k->begun;
    if (k->route == ROUTE_NONE) return true;
    const bool again  = k->arguments_done;
    k->arguments_done = true;
    k->inner_string   = c == '"';
    memset(&k->inner, 0, sizeof k->inner);
    if (c == 'n') k->route = ROUTE_NONE; /* null */
    return !again && (c == '{' || c == '"' || c == 'n');
}

/* `first`: the quote or bracket that begins the value. `last`: the one that ends it. */
static bool value_byte(RpReplyParser *p, unsigned char c, bool was_in_string, bool first, bool last) {
    Call *k = &p->call;
    char  out[STRING_DECODE_ROOM];
    if (k->route == ROUTE_NONE || (first && c == '"')) return true;
    if (k->route == ROUTE_ARGUMENTS && k->inner_string) return inner_text(p, c, last);
    if (k->route == ROUTE_ARGUMENTS) {
        arguments_byte(p, c, was_in_string);
        return true;
    }
    const size_t n = last ? rp_string_decode_end(&k->decode, out) : rp_string_decode(&k->decode, c, out);
    for (size_t i = 0; i < n; i++)
        if (out[i] == '\0' || !rp_reply_short(&k->name, (unsigned char)out[i])) return false;
    if (!last) return true;
    if (k->name.n == 0) return false;
    rp_reply_begin_call(p);
    return true;
}

/* One byte of {"name": ...}. False: it is no call. */
static bool object_byte(RpReplyParser *p, unsigned char c) {
    Call            *k      = &p->call;
    const int        depth  = k->scan.depth;
    const ScanState  state  = k->scan.state;
    const bool       string = in_string(&k->scan), first = depth == 1 && state == SCAN_VALUE && !rp_json_space(c);
    const ScanResult r = rp_json_scan(&k->scan, c);
    if (r == SCAN_BAD || r == SCAN_OVER) return false;
    if (depth == 1 && (state == SCAN_FIRST_KEY || state == SCAN_KEY)) k->key.n = 0;
    if (depth == 1 && string && k->scan.key && c != '"') (void)rp_reply_short(&k->key, c);
    if (first && !begin_value(p, c)) return false;
    if (k->in_value) {
        const bool number = in_number(state) && !in_number(k->scan.state) && depth == 1;
        const bool last   = number || (k->scan.depth == 1 && k->scan.state == SCAN_BEHIND);
        if (!number && !value_byte(p, c, string, first, last)) return false;
        if (last) k->in_value = false;
    }
    if (r == SCAN_DONE) k->step = CALL_BEHIND;
    return r != SCAN_DONE || k->begun;
}

static void finished(RpReplyParser *p) {
    p->call.step = CALL_WAIT;
    if (p->format->marks[MARK_CALL_END] == NULL || p->call.bare) rp_reply_call_ended(p);
}

static void json_object(RpReplyParser *p, unsigned char c) {
    p->call.step = CALL_OBJECT;
    if (!object_byte(p, c)) {
        rp_reply_bad(p);
        return;
    }
    if (p->call.step == CALL_BEHIND && !p->call.list && p->format->marks[MARK_CALL_END] == NULL) finished(p);
}

static void json_byte(RpReplyParser *p, unsigned char c) {
    Call *k = &p->call;
    if (k->step == CALL_OBJECT) {
        json_object(p, c);
    } else if (rp_json_space(c)) {
        return;
    } else if (c == '{' && k->step == CALL_START) {
        json_object(p, c);
    } else if (c == '[' && k->step == CALL_START && !k->list) {
        k->list = true;
    } else if (c == '{' && (k->step == CALL_NEXT || (k->step == CALL_BEHIND && !k->list))) {
        rp_reply_next_call(p, 1);
        json_object(p, c);
    } else if (c == ',' && k->step == CALL_BEHIND && k->list) {
        k->step = CALL_NEXT;
    } else if (c == ']' && k->step == CALL_BEHIND && k->list) {
        finished(p);
    } else {
        rp_reply_bad(p);
    }
}

static unsigned json_marks(const RpReplyParser *p) { return rp_json_call_ends(p); }

static bool json_whole(RpReplyParser *p) {
    return p->call.step == CALL_WAIT || (p->call.step == CALL_BEHIND && !p->call.list);
}

static void json_mark(RpReplyParser *p, MarkId m) {
    if (!json_whole(p)) {
        rp_reply_bad(p);
        return;
    }
    rp_reply_call_ended(p);
    if (m == MARK_CALLS_END) rp_reply_section_ended(p);
}

const Syntax rp_syntax_json = {json_marks, json_byte, json_mark, json_whole};
