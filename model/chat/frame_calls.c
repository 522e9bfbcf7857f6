/* The parts of one call of a tool, as each format writes it (hold.h). */
#include "model/chat/hold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MEMBERS = 256, MOST_IN_TREE = 4, MOST_REQUIRED = 3 };

typedef struct Member {
    RpGgufString    name;
    const JsonNode *schema; /* NULL: any value */
    bool            required;
} Member;

typedef struct Members {
    Member         *all;
    size_t          n;
    RpGgufString    tool;
    const JsonNode *parameters;
} Members;

static bool is_format(const Frame *f, const char *name) { return strcmp(f->parser->format->name, name) == 0; }

static bool has(const Frame *f, MarkId m) { return f->parser->format->marks[m] != NULL; }

/* White space between the pieces of a call. */
static void gap(Frame *f) { rp_frame_put(f, RP_PART_REGEX, f->loose ? FRAME_GAP : "\\n?"); }

/* {"name": "f", "arguments": {...}} */
static void put_object(Frame *f, RpGgufString name, const JsonNode *parameters) {
    const bool command = is_format(f, "command-r7b"), llama = is_format(f, "llama3");
    JsonOut    o = {0};
    rp_json_put_text(&o, command ? "{\"tool_call_id\": \"0\", \"tool_name\": " : "{\"name\": ");
    rp_json_put_string(&o, name);
    rp_json_put_text(&o, command || llama ? ", \"parameters\": " : ", \"arguments\": ");
    rp_frame_own(f, RP_PART_TEXT, o);
    rp_frame_schema(f, parameters);
    rp_frame_put(f, RP_PART_TEXT, "}");
}

static void json_call(Frame *f, RpGgufString name, const JsonNode *parameters) {
    const bool lines = is_format(f, "hermes") || is_format(f, "minimax-m1"), llama = is_format(f, "llama3");
    if (!llama) rp_frame_mark(f, MARK_CALL);
    if (lines) rp_frame_put(f, RP_PART_REGEX, "\\n?");
    if (!lines && !llama) rp_frame_put(f, RP_PART_TEXT, "[");
    put_object(f, name, parameters);
    if (!lines && !llama) rp_frame_put(f, RP_PART_TEXT, "]");
    if (lines) rp_frame_put(f, RP_PART_REGEX, "\\n?");
    if (!llama && has(f, MARK_CALL_END)) rp_frame_mark(f, MARK_CALL_END);
}

void rp_frame_call_id(Frame *f) {
    rp_frame_put(f, RP_PART_OPEN, NULL);
    rp_frame_mark(f, MARK_ID);
    rp_frame_put(f, RP_PART_REGEX, "[0-9A-Za-z]{1,64}");
    rp_frame_put(f, RP_PART_OR, NULL);
    rp_frame_put(f, RP_PART_CLOSE, NULL);
}

static void named_call(Frame *f, RpGgufString name, const JsonNode *parameters) {
    const bool kimi = is_format(f, "kimi-k2"), deepseek = (f->parser->format->flags & FORMAT_FENCE) != 0;
    if (has(f, MARK_CALLS)) rp_frame_mark(f, MARK_CALLS);
    rp_frame_mark(f, MARK_CALL);
    if (is_format(f, "mistral") && !f->parser->token[MARK_NAME_END]) {
        rp_frame_put(f, RP_PART_TEXT, "[");
        put_object(f, name, parameters);
        rp_frame_put(f, RP_PART_TEXT, "]");
        return;
    }
    if (deepseek) { /* R1 and the first V3 write a type and a block of code */
        rp_frame_put(f, RP_PART_OPEN, NULL);
        rp_frame_put(f, RP_PART_TEXT, "function");
        rp_frame_mark(f, MARK_NAME_END);
        rp_frame_bytes(f, name);
        rp_frame_put(f, RP_PART_TEXT, "\n```json\n");
        rp_frame_schema(f, parameters);
        rp_frame_put(f, RP_PART_TEXT, "\n```");
        rp_frame_put(f, RP_PART_OR, NULL);
    }
    if (kimi) rp_frame_put(f, RP_PART_TEXT, "functions.");
    rp_frame_bytes(f, name);
    if (kimi) rp_frame_put(f, RP_PART_REGEX, ":[0-9]{1,3}");
    if (f->parser->token[MARK_ID]) rp_frame_call_id(f);
    rp_frame_mark(f, MARK_NAME_END);
    rp_frame_schema(f, parameters);
    if (deepseek) rp_frame_put(f, RP_PART_CLOSE, NULL);
    if (has(f, MARK_CALL_END)) rp_frame_mark(f, MARK_CALL_END);
    if (has(f, MARK_CALLS_END)) rp_frame_mark(f, MARK_CALLS_END);
}

/* The text as a regular expression. */
static void put_escaped(JsonOut *o, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char       c[8];
        const bool plain = (unsigned char)text[i] >= 0x80 || (text[i] >= 'a' && text[i] <= 'z');
        snprintf(c, sizeof c, plain ? "%c" : "\\x%02x", plain ? text[i] : (unsigned char)text[i]);
        rp_json_put_text(o, c);
    }
}

/* The texts of `enum`; NULL: it does not list such. */
static const JsonNode *texts_of(const Frame *f, const JsonNode *schema) {
    const JsonNode *values = rp_json_get(f->j, schema, "enum");
    bool            texts  = values != NULL && values->type == JSON_ARRAY && values->n > 0;
    for (const JsonNode *v = rp_json_first(f->j, values); v != NULL && texts; v = rp_json_next(f->j, values, v))
        texts = v->type == JSON_STRING && v->len > 0;
    return texts ? values : NULL;
}

/* How many characters a string has. */
static void put_count(const Frame *f, const JsonNode *schema, JsonOut *o) {
    char       count[40];
    uint64_t   most;
    const bool limit = rp_json_u63(f->j, rp_json_get(f->j, schema, "maxLength"), &most) && most < 10000;
    snprintf(count, sizeof count, limit ? "{0,%u}" : "*", (unsigned)(limit ? most : 0));
    rp_json_put_text(o, count);
}

/* Free text and the mark behind it: one of the texts of `enum`, or any that does not have the mark. `lines`: a line end
 * may be in front of the mark. A mark that is text is part of the same expression: masks are then kept for each of its
 * states, and are not made anew wherever the text may end. */
static void put_free(Frame *f, const JsonNode *schema, MarkId end, bool lines) {
    const JsonNode *values = texts_of(f, schema);
    JsonOut         o      = {0};
    const bool      texts = values != NULL, token = f->parser->token[end];
    const char     *mark = f->parser->format->marks[end];
    for (const JsonNode *v = rp_json_first(f->j, values); v != NULL && texts; v = rp_json_next(f->j, values, v)) {
        if (v != rp_json_first(f->j, values)) rp_json_put_text(&o, "|");
        put_escaped(&o, rp_json_string(f->j, v).ptr, v->len);
    }
    if (!texts && !token) {
        rp_json_put_text(&o, "(?![^]*");
        put_escaped(&o, mark, strlen(mark));
        rp_json_put_text(&o, "[^])");
    }
    if (!texts) {
        rp_json_put_text(&o, "[^]");
        put_count(f, schema, &o);
    }
    if (!texts && !token) {
        if (lines) rp_json_put_text(&o, "\\n?");
        put_escaped(&o, mark, strlen(mark));
    }
    rp_frame_own(f, RP_PART_REGEX, o);
    if (!texts && !token) return;
    if (lines) rp_frame_put(f, RP_PART_REGEX, "\\n?");
    rp_frame_mark(f, end);
}

/* A string of Python, in either quotes. */
static void put_quoted(Frame *f, const JsonNode *schema, const char *quote) {
    const JsonNode *values = texts_of(f, schema);
    JsonOut         o      = {0};
    rp_json_put_text(&o, quote);
    if (values == NULL) {
        rp_json_put_text(&o, *quote == '"' ? "([^\"\\\\]" : "([^'\\\\]");
        rp_json_put_text(&o, "|\\\\([\"'\\\\/bfnrtav0]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}))");
        put_count(f, schema, &o);
    }
    for (const JsonNode *v = rp_json_first(f->j, values); v != NULL; v = rp_json_next(f->j, values, v)) {
        rp_json_put_text(&o, v == rp_json_first(f->j, values) ? "(" : "|");
        put_escaped(&o, rp_json_string(f->j, v).ptr, v->len);
    }
    if (values != NULL) rp_json_put_text(&o, ")");
    rp_json_put_text(&o, quote);
    rp_frame_own(f, RP_PART_REGEX, o);
}

/* Texts of `enum` that a string of Python has without escapes. */
static bool plain_texts(const Frame *f, const JsonNode *schema) {
    const JsonNode *values = texts_of(f, schema);
    for (const JsonNode *v = rp_json_first(f->j, values); v != NULL; v = rp_json_next(f->j, values, v)) {
        const RpGgufString s = rp_json_string(f->j, v);
        for (size_t i = 0; i < s.len; i++)
            if (strchr("\"'\\\n\r", s.ptr[i]) != NULL) return false;
    }
    return true;
}

/* The schema of one parameter, with the definitions of the tool. */
static void put_value(Frame *f, const Members *ms, const Member *m) {
    static const char *const defs[] = {"$defs", "definitions"};
    JsonOut                  o      = {0};
    bool                     first  = true;
    for (int i = 0; i < 2; i++) {
        const JsonNode *d = rp_json_get(f->j, ms->parameters, defs[i]);
        if (d == NULL) continue;
        rp_json_put_key(&o, &first, (RpGgufString){defs[i], strlen(defs[i])});
        rp_json_put_node(&o, f->j, d);
    }
    rp_json_put_key(&o, &first, (RpGgufString){"allOf", 5});
    rp_json_put_text(&o, "[");
    if (m->schema != NULL)
        rp_json_put_node(&o, f->j, m->schema);
    else
        rp_json_put_text(&o, "{}");
    rp_json_put_text(&o, "]}");
    rp_frame_own(f, RP_PART_SCHEMA, o);
    if (f->status == RP_OK && f->loose) f->parts[f->n - 1].flags |= RP_GRAMMAR_ANY_ORDER;
}

static ValueKind kind_of(const Frame *f, const Members *ms, const Member *m) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)ms->tool.len, ms->tool.ptr);
    return rp_tools_kind(f->parser, name, m->name.ptr, m->name.len);
}

static void xml_member(Frame *f, const Members *ms, const Member *m) {
    const bool lines = (f->parser->format->flags & FORMAT_LINES) != 0, text = kind_of(f, ms, m) != VALUE_ANY;
    rp_frame_mark(f, MARK_KEY);
    rp_frame_bytes(f, m->name);
    rp_frame_mark(f, text && has(f, MARK_STRING_KEY_END) ? MARK_STRING_KEY_END : MARK_KEY_END);
    if (has(f, MARK_VALUE)) {
        gap(f);
        rp_frame_mark(f, MARK_VALUE);
    }
    if (lines) rp_frame_put(f, RP_PART_REGEX, "\\n?");
    if (text) {
        put_free(f, m->schema, MARK_VALUE_END, lines);
    } else {
        put_value(f, ms, m);
        if (lines) rp_frame_put(f, RP_PART_REGEX, "\\n?");
        rp_frame_mark(f, MARK_VALUE_END);
    }
    gap(f);
}

/* A string as the format quotes it. */
static void put_string(Frame *f, const JsonNode *schema) {
    if (f->parser->format->syntax == SYNTAX_GEMMA) {
        rp_frame_mark(f, MARK_QUOTE);
        put_free(f, schema, MARK_QUOTE, false);
        return;
    }
    rp_frame_put(f, RP_PART_OPEN, NULL);
    put_quoted(f, schema, "\"");
    rp_frame_put(f, RP_PART_OR, NULL);
    put_quoted(f, schema, "'");
    rp_frame_put(f, RP_PART_CLOSE, NULL);
}

static bool is_type(const Frame *f, const JsonNode *schema, const char *type) {
    return rp_json_is(f->j, rp_json_get(f->j, schema, "type"), type);
}

/* A value as models write it in calls of Python and Gemma. Values without a special spelling there are JSON. */
static void native_value(Frame *f, const Members *ms, const Member *m, int depth) {
    const bool      gemma = f->parser->format->syntax == SYNTAX_GEMMA;
    const JsonNode *items = rp_json_get(f->j, m->schema, "items");
    const bool      list = depth < 4 && is_type(f, m->schema, "array") && items != NULL && items->type == JSON_OBJECT &&
                      rp_json_get(f->j, m->schema, "maxItems") == NULL && rp_json_get(f->j, m->schema, "enum") == NULL;
    const bool text = depth > 0 ? is_type(f, m->schema, "string") : kind_of(f, ms, m) != VALUE_ANY;
    if (text && (gemma || plain_texts(f, m->schema))) {
        put_string(f, m->schema);
    } else if (list) {
        rp_frame_put(f, RP_PART_TEXT, "[");
        rp_frame_put(f, RP_PART_OPEN, NULL);
        rp_frame_put(f, RP_PART_OPEN, NULL);
        native_value(f, ms, &(Member){.schema = items}, depth + 1);
        rp_frame_put(f, RP_PART_REPEAT, ", ?");
        rp_frame_put(f, RP_PART_OR, NULL);
        rp_frame_put(f, RP_PART_CLOSE, NULL);
        rp_frame_put(f, RP_PART_TEXT, "]");
    } else if (!gemma && is_type(f, m->schema, "boolean") && rp_json_get(f->j, m->schema, "enum") == NULL) {
        rp_frame_put(f, RP_PART_REGEX, "[Tt]rue|[Ff]alse");
    } else {
        put_value(f, ms, m);
    }
}

static void literal_member(Frame *f, const Members *ms, const Member *m) {
    const bool gemma = f->parser->format->syntax == SYNTAX_GEMMA;
    rp_frame_bytes(f, m->name);
    rp_frame_put(f, RP_PART_TEXT, gemma ? ":" : "=");
    if (f->loose)
        native_value(f, ms, m, 0);
    else if (gemma && kind_of(f, ms, m) != VALUE_ANY)
        put_string(f, m->schema);
    else
        put_value(f, ms, m);
}

static bool all_required(const Members *ms, unsigned used) {
    for (size_t i = 0; i < ms->n; i++)
        if (ms->all[i].required && (used >> i & 1) == 0) return false;
    return true;
}

typedef void PutMember(Frame *f, const Members *ms, const Member *m);

/* A few members in any order: a tree of those that have not come. */
static void tree(Frame *f, const Members *ms, PutMember *one, const char *comma, unsigned used) {
    bool first = true;
    if (used + 1 == 1u << ms->n) return;
    rp_frame_put(f, RP_PART_OPEN, NULL);
    for (unsigned i = 0; i < ms->n; i++) {
        if (used >> i & 1) continue;
        if (!first) rp_frame_put(f, RP_PART_OR, NULL);
        first = false;
        if (used != 0 && comma != NULL) rp_frame_put(f, RP_PART_REGEX, comma);
        one(f, ms, &ms->all[i]);
        tree(f, ms, one, comma, used | 1u << i);
    }
    if (all_required(ms, used)) rp_frame_put(f, RP_PART_OR, NULL);
    rp_frame_put(f, RP_PART_CLOSE, NULL);
}

/* The members from the i-th, each behind a comma. */
static void members_behind(Frame *f, const Members *ms, size_t i) {
    for (; i < ms->n; i++) {
        if (!ms->all[i].required) rp_frame_put(f, RP_PART_OPEN, NULL);
        rp_frame_put(f, RP_PART_REGEX, ", ?");
        literal_member(f, ms, &ms->all[i]);
        if (ms->all[i].required) continue;
        rp_frame_put(f, RP_PART_OR, NULL);
        rp_frame_put(f, RP_PART_CLOSE, NULL);
    }
}

/* One alternative for each member that may be the first. */
static void literal_members(Frame *f, const Members *ms) {
    size_t i = 0;
    if (f->loose && ms->n <= MOST_IN_TREE) {
        tree(f, ms, literal_member, ", ?", 0);
        return;
    }
    rp_frame_put(f, RP_PART_OPEN, NULL);
    for (; i < ms->n; i++) {
        if (i > 0) rp_frame_put(f, RP_PART_OR, NULL);
        literal_member(f, ms, &ms->all[i]);
        members_behind(f, ms, i + 1);
        if (ms->all[i].required) break;
    }
    if (i == ms->n && ms->n > 0) rp_frame_put(f, RP_PART_OR, NULL);
    rp_frame_put(f, RP_PART_CLOSE, NULL);
}

/* f(a=1), or of Gemma call:f{a:1} */
static void literal_function(Frame *f, const Members *ms) {
    const bool gemma = f->parser->format->syntax == SYNTAX_GEMMA;
    if (gemma) rp_frame_mark(f, MARK_NAME);
    rp_frame_bytes(f, ms->tool);
    rp_frame_put(f, RP_PART_TEXT, gemma ? "{" : "(");
    literal_members(f, ms);
    rp_frame_put(f, RP_PART_TEXT, gemma ? "}" : ")");
}

static void literal_call(Frame *f, const Members *ms) {
    const bool gemma = f->parser->format->syntax == SYNTAX_GEMMA, block = is_format(f, "gemma3");
    rp_frame_mark(f, MARK_CALL);
    if (!gemma) rp_frame_put(f, RP_PART_TEXT, block ? "\n" : "[");
    literal_function(f, ms);
    if (!gemma) rp_frame_put(f, RP_PART_TEXT, block ? "\n" : "]");
    rp_frame_mark(f, MARK_CALL_END);
}

/* Many members: the required ones in any order, and any number of the others before, between and behind them. */
static void between(Frame *f, const Members *ms, unsigned used) {
    bool     first = true, left = false;
    unsigned bit = 1;
    rp_frame_put(f, RP_PART_OPEN, NULL);
    rp_frame_put(f, RP_PART_OPEN, NULL);
    for (size_t i = 0; i < ms->n; i++) {
        if (ms->all[i].required) continue;
        if (!first) rp_frame_put(f, RP_PART_OR, NULL);
        first = false;
        xml_member(f, ms, &ms->all[i]);
    }
    rp_frame_put(f, RP_PART_REPEAT, NULL);
    rp_frame_put(f, RP_PART_OR, NULL);
    rp_frame_put(f, RP_PART_CLOSE, NULL);
    for (size_t i = 0; i < ms->n; i++) {
        if (!ms->all[i].required) continue;
        if ((used & bit) == 0) {
            rp_frame_put(f, left ? RP_PART_OR : RP_PART_OPEN, NULL);
            left = true;
            xml_member(f, ms, &ms->all[i]);
            between(f, ms, used | bit);
        }
        bit <<= 1;
    }
    if (left) rp_frame_put(f, RP_PART_CLOSE, NULL);
}

static void xml_members(Frame *f, const Members *ms) {
    size_t n_required = 0;
    for (size_t i = 0; i < ms->n; i++) n_required += ms->all[i].required;
    if (f->loose && ms->n <= MOST_IN_TREE) {
        tree(f, ms, xml_member, NULL, 0);
        return;
    }
    if (f->loose && n_required < ms->n && n_required <= MOST_REQUIRED) {
        between(f, ms, 0);
        return;
    }
    for (size_t i = 0; i < ms->n; i++) {
        if (!ms->all[i].required) rp_frame_put(f, RP_PART_OPEN, NULL);
        xml_member(f, ms, &ms->all[i]);
        if (ms->all[i].required) continue;
        rp_frame_put(f, RP_PART_OR, NULL);
        rp_frame_put(f, RP_PART_CLOSE, NULL);
    }
}

/* The name and the parameters. `mark`: with the mark in front of the name, if the format has one. */
static void xml_function(Frame *f, const Members *ms, bool mark) {
    if (mark && has(f, MARK_NAME)) rp_frame_mark(f, MARK_NAME);
    rp_frame_bytes(f, ms->tool);
    if (has(f, MARK_NAME_END)) rp_frame_mark(f, MARK_NAME_END);
    gap(f);
    xml_members(f, ms);
    if (has(f, MARK_FUNCTION_END)) rp_frame_mark(f, MARK_FUNCTION_END);
}

static void xml_call(Frame *f, const Members *ms) {
    const MarkId open = has(f, MARK_CALLS) ? MARK_CALLS : MARK_CALL;
    rp_frame_mark(f, open);
    if (has(f, MARK_NAME)) gap(f);
    xml_function(f, ms, true);
    if (has(f, MARK_FUNCTION_END)) gap(f);
    rp_frame_mark(f, open == MARK_CALLS ? MARK_CALLS_END : MARK_CALL_END);
}

/* A name that the syntax can have. */
static bool fits(const Frame *f, RpGgufString s) {
    const bool xml = f->parser->format->syntax == SYNTAX_XML;
    for (size_t i = 0; i < s.len; i++) {
        const unsigned char c      = (unsigned char)s.ptr[i];
        const bool          letter = c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (xml ? c <= ' ' || strchr("<>\"'&=", c) != NULL : !letter) return false;
    }
    return s.len > 0 && (xml || s.ptr[0] < '0' || s.ptr[0] > '9');
}

static bool same(RpGgufString a, RpGgufString b) { return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0; }

static RpStatus add_member(const Frame *f, Members *ms, RpGgufString name, const JsonNode *schema) {
    const JsonNode *required = rp_json_get(f->j, ms->parameters, "required");
    if (!fits(f, name))
        return rp_fail(RP_E_UNSUPPORTED,
                       "tool_choice: the tool \"%.*s\" has a parameter \"%.*s\", which calls of the "
                       "format \"%s\" cannot have",
                       (int)(ms->tool.len < 96 ? ms->tool.len : 96), ms->tool.ptr, (int)(name.len < 96 ? name.len : 96),
                       name.ptr, f->parser->format->name);
    if (ms->n == MAX_MEMBERS)
        return rp_fail(RP_E_UNSUPPORTED, "tool_choice: the tool \"%.*s\" has more than %d parameters",
                       (int)(ms->tool.len < 96 ? ms->tool.len : 96), ms->tool.ptr, MAX_MEMBERS);
    Member *m = &ms->all[ms->n++];
    *m        = (Member){.name = name, .schema = schema};
    for (const JsonNode *r = rp_json_first(f->j, required); r != NULL; r = rp_json_next(f->j, required, r))
        m->required |= r->type == JSON_STRING && same(rp_json_string(f->j, r), name);
    return RP_OK;
}

/* The properties, then what only `required` names. */
static RpStatus find_members(const Frame *f, Members *ms) {
    const Json     *j        = f->j;
    const JsonNode *all      = rp_json_get(j, ms->parameters, "properties");
    const JsonNode *required = rp_json_get(j, ms->parameters, "required");
    ms->all                  = calloc(MAX_MEMBERS, sizeof *ms->all);
    if (ms->all == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the parameters of a tool");
    if (all != NULL && all->type != JSON_OBJECT) all = NULL;
    for (const JsonNode *m = rp_json_first(j, all); m != NULL; m = rp_json_next(j, all, m))
        RP_TRY(add_member(f, ms, rp_json_key(j, m), m));
    for (const JsonNode *r = rp_json_first(j, required); r != NULL; r = rp_json_next(j, required, r)) {
        bool there = r->type != JSON_STRING;
        for (size_t i = 0; i < ms->n; i++) there |= same(ms->all[i].name, rp_json_string(j, r));
        if (!there) RP_TRY(add_member(f, ms, rp_json_string(j, r), NULL));
    }
    return RP_OK;
}

void rp_frame_call(Frame *f, const JsonNode *tool) {
    const SyntaxId  syntax = f->parser->format->syntax;
    const JsonNode *parameters;
    Members         ms = {.tool = rp_frame_tool(f->j, tool, &parameters), .parameters = parameters};
    if (f->status != RP_OK) return;
    if (syntax == SYNTAX_JSON) {
        json_call(f, ms.tool, parameters);
    } else if (syntax == SYNTAX_NAMED) {
        named_call(f, ms.tool, parameters);
    } else {
        f->status = find_members(f, &ms);
        if (f->status == RP_OK && syntax == SYNTAX_XML) xml_call(f, &ms);
        if (f->status == RP_OK && syntax != SYNTAX_XML) literal_call(f, &ms);
        free(ms.all);
    }
}

void rp_frame_function(Frame *f, const JsonNode *tool, bool mark) {
    const JsonNode *parameters;
    Members         ms = {.tool = rp_frame_tool(f->j, tool, &parameters), .parameters = parameters};
    if (f->status != RP_OK) return;
    f->status = find_members(f, &ms);
    if (f->status == RP_OK && f->parser->format->syntax == SYNTAX_XML) xml_function(f, &ms, mark);
    if (f->status == RP_OK && f->parser->format->syntax != SYNTAX_XML) literal_function(f, &ms);
    free(ms.all);
}
