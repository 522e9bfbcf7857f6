/* Pieces of the parts of a reply (hold.h): texts, marks, and the schema of a tool's arguments. */
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

void rp_frame_free(Frame *f) {
    for (size_t i = 0; i < f->n_owned; i++) free(f->owned[i]);
    free(f->owned);
    free(f->parts);
}
