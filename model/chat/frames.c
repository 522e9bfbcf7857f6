/* The parts of a whole reply: optional reasoning, then the answer or a call (hold.h). */
#include "model/chat/hold.h"

#include <stdlib.h>
#include <string.h>

/* A copy of what the answer must be: all keywords of a schema are kept, or refused. */
static void put_answer(Frame *f, const Demand *d) {
    JsonOut o = {0};
    rp_json_put(&o, d->answer.p, d->answer.n);
    rp_frame_own(f, d->answer_kind, o);
    if (f->status == RP_OK) f->parts[f->n - 1].flags = 0;
}

static bool wanted(const Frame *f, const Demand *d, const JsonNode *tool) {
    const JsonNode    *parameters;
    const RpGgufString name = rp_frame_tool(f->j, tool, &parameters);
    return d->name.len == 0 || (d->name.len == name.len && memcmp(d->name.ptr, name.ptr, name.len) == 0);
}

/* to=functions.f <|constrain|>json<|message|>{...}<|call|> */
static void harmony_call(Frame *f, const JsonNode *tool) {
    const JsonNode    *parameters;
    const RpGgufString name = rp_frame_tool(f->j, tool, &parameters);
    JsonOut            o    = {0};
    rp_json_put_text(&o, "commentary to=functions.");
    rp_json_put(&o, name.ptr, name.len);
    rp_frame_own(f, RP_PART_TEXT, o);
    rp_frame_put(f, RP_PART_REGEX, " ?");
    rp_frame_put(f, RP_PART_OPEN, NULL);
    rp_frame_mark(f, MARK_CONSTRAIN);
    rp_frame_put(f, RP_PART_TEXT, "json");
    rp_frame_put(f, RP_PART_OR, NULL);
    rp_frame_put(f, RP_PART_CLOSE, NULL);
    rp_frame_mark(f, MARK_MESSAGE);
    rp_frame_schema(f, parameters);
    rp_frame_mark(f, MARK_CALL_END);
}

static void harmony_reply(Frame *f, const Demand *d, bool reasoning) {
    bool first = !reasoning;
    rp_frame_put(f, RP_PART_OPEN, NULL);
    rp_frame_mark(f, MARK_HEADER);
    rp_frame_put(f, RP_PART_TEXT, "assistant");
    rp_frame_put(f, RP_PART_OR, NULL);
    rp_frame_put(f, RP_PART_CLOSE, NULL);
    rp_frame_mark(f, MARK_CHANNEL);
    rp_frame_put(f, RP_PART_OPEN, NULL);
    if (reasoning) {
        rp_frame_put(f, RP_PART_TEXT, "analysis");
        rp_frame_mark(f, MARK_MESSAGE);
    }
    if (d->answer.p != NULL) {
        if (!first) rp_frame_put(f, RP_PART_OR, NULL);
        first = false;
        rp_frame_put(f, RP_PART_TEXT, "final");
        rp_frame_mark(f, MARK_MESSAGE);
        put_answer(f, d);
    }
    for (const JsonNode *t = rp_json_first(f->j, d->tools); t != NULL && d->calls;
         t                 = rp_json_next(f->j, d->tools, t)) {
        if (!wanted(f, d, t)) continue;
        if (!first) rp_frame_put(f, RP_PART_OR, NULL);
        first = false;
        harmony_call(f, t);
    }
    rp_frame_put(f, RP_PART_CLOSE, NULL);
}

void rp_frame_reply(Frame *f, const Demand *d, bool reasoning) {
    const RpReplyParser *p        = f->parser;
    const bool           is_exact = d->answer.p != NULL && d->answer_kind != RP_PART_SCHEMA; /* line ends count */
    bool                 first    = true;
    if (d->must && p->format->syntax == SYNTAX_NONE) {
        f->status =
            rp_fail(RP_E_UNSUPPORTED, "tool_choice: calls of the format \"%s\" cannot be forced", p->format->name);
        return;
    }
    if (p->format->syntax == SYNTAX_HARMONY) {
        harmony_reply(f, d, reasoning);
        return;
    }
    rp_frame_put(f, RP_PART_OPEN, NULL);
    if (reasoning) {
        rp_frame_mark(f, MARK_THINK);
        rp_frame_put(f, RP_PART_OR, NULL);
    }
    if (p->reasoning->marks[MARK_THINK_END] != NULL && !(reasoning && is_exact)) /* the parser takes them behind it */
        rp_frame_put(f, RP_PART_REGEX, "\\n{0,2}");
    rp_frame_put(f, RP_PART_OPEN, NULL);
    if (d->answer.p != NULL) {
        put_answer(f, d);
        first = false;
    }
    for (const JsonNode *t = rp_json_first(f->j, d->tools); t != NULL && d->calls && p->format->syntax != SYNTAX_NONE;
         t                 = rp_json_next(f->j, d->tools, t)) {
        if (!wanted(f, d, t)) continue;
        if (!first) rp_frame_put(f, RP_PART_OR, NULL);
        first = false;
        rp_frame_call(f, t);
    }
    rp_frame_put(f, RP_PART_CLOSE, NULL);
    rp_frame_put(f, RP_PART_CLOSE, NULL);
}
