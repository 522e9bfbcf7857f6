/* The parts of a whole reply: optional reasoning, then the answer or a call (hold.h). */
#include "model/chat/hold.h"

#include <stdlib.h>
#include <string.h>

static RpStatus no_memory(void) { return rp_fail(RP_E_NOMEM, "out of memory for the grammar of a reply"); }

static void add(Frame *f, RpGrammarPart part) {
    if (f->status != RP_OK) return;
    if (f->n == f->room) {
        const size_t   room  = 2 * f->room + 64;
        RpGrammarPart *grown = realloc(f->parts, room * sizeof *grown);
        if (grown == NULL) {
            f->status = no_memory();
            return;
        }
        f->parts = grown;
        f->room  = room;
    }
    f->parts[f->n++] = part;
}

void rp_frame_put(Frame *f, RpGrammarPartKind kind, const char *text) {
    add(f, (RpGrammarPart){.kind = kind, .text = text, .n = text != NULL ? strlen(text) : 0});
}

void rp_frame_own(Frame *f, RpGrammarPartKind kind, JsonOut text) {
    if (f->status == RP_OK && text.failed) f->status = no_memory();
    if (f->status == RP_OK && f->n_owned == f->owned_room) {
        const size_t room  = 2 * f->owned_room + 32;
        char       **grown = realloc(f->owned, room * sizeof *grown);
        if (grown == NULL) f->status = no_memory();
        if (grown != NULL) f->owned = grown, f->owned_room = room;
    }
    if (f->status != RP_OK) {
        free(text.p);
        return;
    }
    f->owned[f->n_owned++] = text.p;
    add(f, (RpGrammarPart){
               .kind = kind, .text = text.p, .n = text.n, .flags = kind == RP_PART_SCHEMA ? RP_GRAMMAR_WEAKEN : 0});
}

void rp_frame_bytes(Frame *f, RpGgufString s) {
    JsonOut o = {0};
    rp_json_put(&o, s.ptr, s.len);
    rp_frame_own(f, RP_PART_TEXT, o);
}

void rp_frame_mark(Frame *f, MarkId m) {
    const RpReplyParser *p    = f->parser;
    const char          *text = m == MARK_THINK ? p->reasoning->marks[m] : p->format->marks[m];
    if (p->token[m])
        add(f, (RpGrammarPart){.kind = RP_PART_TOKEN, .token = p->token_id[m]});
    else
        rp_frame_put(f, RP_PART_TEXT, text);
}

RpGgufString rp_frame_tool(const Json *j, const JsonNode *tool, const JsonNode **parameters) {
    const JsonNode *function = rp_json_get(j, tool, "function");
    if (function == NULL) function = tool;
    *parameters = rp_json_get(j, function, "parameters");
    if (*parameters == NULL) *parameters = rp_json_get(j, function, "input_schema");
    if (*parameters != NULL && (*parameters)->type != JSON_OBJECT) *parameters = NULL;
    return rp_json_string(j, rp_json_get(j, function, "name"));
}

/* Arguments are an object, whatever else the schema says. */
void rp_frame_schema(Frame *f, const JsonNode *parameters) {
    JsonOut o = {0};
    rp_json_put_text(&o, "{\"type\": \"object\"");
    if (parameters == NULL) rp_json_put_text(&o, ", \"additionalProperties\": false");
    for (const JsonNode *m = rp_json_first(f->j, parameters); m != NULL; m = rp_json_next(f->j, parameters, m)) {
        const RpGgufString key   = rp_json_key(f->j, m);
        bool               first = false;
        if (key.len == 4 && memcmp(key.ptr, "type", 4) == 0) continue;
        rp_json_put_key(&o, &first, key);
        rp_json_put_node(&o, f->j, m);
    }
    rp_json_put_text(&o, "}");
    rp_frame_own(f, RP_PART_SCHEMA, o);
    if (f->status == RP_OK && f->loose) f->parts[f->n - 1].flags |= RP_GRAMMAR_ANY_ORDER;
}

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

void rp_frame_free(Frame *f) {
    for (size_t i = 0; i < f->n_owned; i++) free(f->owned[i]);
    free(f->owned);
    free(f->parts);
}
