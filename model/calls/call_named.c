/* Calls of a name, a mark and arguments as JSON:
 *
 *     [TOOL_CALLS]f[ARGS]{...}    [TOOL_CALLS]f[CALL_ID]9LETTERS[ARGS]{...}    [TOOL_CALLS][{"name": "f", ...}]
 *     <call>f<sep>{...}</call>    <call>function<sep>f\n```json\n{...}\n```</call>    functions.f:0<sep>{...} */
#include "model/calls/call_json.h"

#include <string.h>

enum { NAMED_NAME, NAMED_ID, NAMED_GAP, NAMED_SECOND, NAMED_FENCE, NAMED_BODY, NAMED_WAIT };

static void trim(ShortText *t) {
    size_t first = 0;
    while (t->n > 0 && rp_json_space((unsigned char)t->p[t->n - 1])) t->n--;
    while (first < t->n && rp_json_space((unsigned char)t->p[first])) first++;
    memmove(t->p, t->p + first, t->n - first);
    t->n -= first;
    t->p[t->n] = '\0';
}

/* functions.f:0 is the id, f the name. */
static void own_id(Call *k) {
    k->id = k->name;
    if (strncmp(k->name.p, "functions.", 10) == 0) {
        memmove(k->name.p, k->name.p + 10, k->name.n - 9);
        k->name.n -= 10;
    }
    const char *colon = strrchr(k->name.p, ':');
    if (colon != NULL) k->name.n = (size_t)(colon - k->name.p);
}

static bool body_begins(RpReplyParser *p, unsigned char c) {
    Call *k = &p->call;
    bool  done;
    trim(&k->name);
    trim(&k->id);
    if (p->format->flags & FORMAT_OWN_IDS) own_id(k);
    if (k->name.n == 0) return false;
    k->step = NAMED_BODY;
    rp_reply_begin_call(p);
    return rp_json_body_byte(p, c, &done);
}

static bool step_byte(RpReplyParser *p, unsigned char c) {
    Call *k    = &p->call;
    bool  done = false;
    switch (k->step) {
    case NAMED_NAME:
        if (c == '{' && k->name.n > 0) return body_begins(p, c);
        if ((c == '{' || c == '[') && p->format->flags & FORMAT_SHORT_IDS) {
            p->syntax = &rp_syntax_json;
            p->syntax->byte(p, c);
            return true;
        }
        return c != '{' && c != '\0' && (k->name.n > 0 || !rp_json_space(c) ? rp_reply_short(&k->name, c) : true);
    case NAMED_ID:
        return c != '\0' && rp_reply_short(&k->id, c);
    case NAMED_GAP:
        if (c == '{') return body_begins(p, c);
        if (rp_json_space(c)) return true;
        if (!(p->format->flags & FORMAT_FENCE)) return false;
        k->name.n = 0; /* that was the type */
        k->step   = NAMED_SECOND;
        return rp_reply_short(&k->name, c);
    case NAMED_SECOND:
        if (c == '\n') k->step = NAMED_FENCE;
        return c != '\0' && rp_reply_short(&k->name, c);
    case NAMED_FENCE:
        if (c == '{') return body_begins(p, c);
        return rp_json_space(c) || strchr("`json", c) != NULL;
    case NAMED_BODY:
        if (!rp_json_body_byte(p, c, &done)) return false;
        if (!done) return true;
        k->step = NAMED_WAIT;
        if (p->format->marks[MARK_CALL_END] == NULL) rp_reply_call_ended(p);
        return true;
    default:
        return rp_json_space(c) || (c == '`' && p->format->flags & FORMAT_FENCE);
    }
}

static void named_byte(RpReplyParser *p, unsigned char c) {
    if (!step_byte(p, c)) rp_reply_bad(p);
}

static unsigned named_marks(const RpReplyParser *p) {
    const unsigned ends = rp_json_call_ends(p);
    return p->call.step == NAMED_NAME ? ends | BIT(MARK_NAME_END) | BIT(MARK_ID)
           : p->call.step == NAMED_ID ? ends | BIT(MARK_NAME_END)
                                      : ends;
}

static bool named_whole(RpReplyParser *p) { return p->call.step == NAMED_WAIT; }

static void named_mark(RpReplyParser *p, MarkId m) {
    Call *k = &p->call;
    if (m == MARK_ID) {
        k->step = NAMED_ID;
    } else if (m == MARK_NAME_END) {
        k->step = NAMED_GAP;
    } else if (!named_whole(p)) {
        rp_reply_bad(p);
    } else {
        rp_reply_call_ended(p);
        if (m == MARK_CALLS_END) rp_reply_section_ended(p);
    }
}

const Syntax rp_syntax_named = {named_marks, named_byte, named_mark, named_whole};
