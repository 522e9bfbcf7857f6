/* Calls that a model has begun by itself: what may follow the opening mark (hold.h). Several calls may come in one
 * block, white space is that of the models, and any text may follow in the token that ends the block. */
#include "model/chat/hold.h"

#include <string.h>

#define GAP   FRAME_GAP
#define COMMA GAP "," GAP
#define COLON GAP ":" GAP

static bool has(const Frame *f, MarkId m) { return f->parser->format->marks[m] != NULL; }

static void put(Frame *f, RpGrammarPartKind kind) { rp_frame_put(f, kind, NULL); }

static void regex(Frame *f, const char *text) { rp_frame_put(f, RP_PART_REGEX, text); }

static bool is_format(const Frame *f, const char *name) { return strcmp(f->parser->format->name, name) == 0; }

/* {"name": "f", "arguments": {...}} with the members that some models write beside these. */
static void object(Frame *f, const JsonNode *tool) {
    const JsonNode    *parameters;
    const RpGgufString name = rp_frame_tool(f->j, tool, &parameters);
    JsonOut            o    = {0};
    rp_json_put_string(&o, name);
    regex(f, "\\{" GAP);
    if (is_format(f, "llama3")) regex(f, "(\"type\"" COLON "\"function\"" COMMA ")?");
    if (is_format(f, "command-r7b")) regex(f, "(\"tool_call_id\"" COLON "\"[0-9]{1,3}\"" COMMA ")?");
    regex(f, "\"(tool_)?name\"" COLON);
    rp_frame_own(f, RP_PART_TEXT, o);
    regex(f, COMMA "\"(arguments|parameters)\"" COLON);
    rp_frame_schema(f, parameters);
    if (is_format(f, "mistral")) regex(f, "(" COMMA "\"id\"" COLON "\"[0-9A-Za-z]{1,32}\")?");
    regex(f, GAP "\\}");
}

/* f<sep>{...}, of DeepSeek V3 and R1 also function<sep>f and a block of code. */
static void named(Frame *f, const JsonNode *tool) {
    const JsonNode    *parameters;
    const RpGgufString name  = rp_frame_tool(f->j, tool, &parameters);
    const unsigned     flags = f->parser->format->flags;
    if (flags & FORMAT_FENCE) {
        put(f, RP_PART_OPEN);
        rp_frame_put(f, RP_PART_TEXT, "function");
        rp_frame_mark(f, MARK_NAME_END);
        rp_frame_bytes(f, name);
        regex(f, "\n```json\n" GAP);
        rp_frame_schema(f, parameters);
        regex(f, GAP "```");
        put(f, RP_PART_OR);
    }
    if (flags & FORMAT_OWN_IDS) rp_frame_put(f, RP_PART_TEXT, "functions.");
    rp_frame_bytes(f, name);
    if (flags & FORMAT_OWN_IDS) regex(f, ":[0-9]{1,3}");
    regex(f, " ?");
    if (has(f, MARK_ID)) rp_frame_call_id(f);
    rp_frame_mark(f, MARK_NAME_END);
    regex(f, " ?");
    rp_frame_schema(f, parameters);
    if (flags & FORMAT_FENCE) put(f, RP_PART_CLOSE);
}

/* The rest of a header and the message: functions.f<|channel|>commentary json<|message|>{...}<|call|> */
static void message(Frame *f, const JsonNode *tool) {
    const JsonNode    *parameters;
    const RpGgufString name = rp_frame_tool(f->j, tool, &parameters);
    rp_frame_put(f, RP_PART_TEXT, "functions.");
    rp_frame_bytes(f, name);
    put(f, RP_PART_OPEN);
    rp_frame_mark(f, MARK_CHANNEL);
    regex(f, "commentary|analysis");
    put(f, RP_PART_OR);
    put(f, RP_PART_CLOSE);
    regex(f, " ?");
    put(f, RP_PART_OPEN);
    rp_frame_mark(f, MARK_CONSTRAIN);
    rp_frame_put(f, RP_PART_TEXT, "json");
    put(f, RP_PART_OR);
    regex(f, "(json|code)?");
    put(f, RP_PART_CLOSE);
    rp_frame_mark(f, MARK_MESSAGE);
    rp_frame_schema(f, parameters);
    rp_frame_mark(f, MARK_CALL_END);
}

typedef void Put(Frame *f, const JsonNode *tool);

static void function(Frame *f, const JsonNode *tool) { rp_frame_function(f, tool, true); }

static void function_behind_mark(Frame *f, const JsonNode *tool) { rp_frame_function(f, tool, false); }

/* Each call between two marks of its own. */
static void marked(Frame *f, const JsonNode *tool) {
    rp_frame_mark(f, MARK_CALL);
    named(f, tool);
    rp_frame_mark(f, MARK_CALL_END);
}

/* A call of one of the tools; with a separator also several. */
static void calls(Frame *f, const JsonNode *tools, Put *one, const char *separator) {
    put(f, RP_PART_OPEN);
    for (const JsonNode *t = rp_json_first(f->j, tools); t != NULL; t = rp_json_next(f->j, tools, t)) {
        if (t != rp_json_first(f->j, tools)) put(f, RP_PART_OR);
        one(f, t);
    }
    if (separator != NULL)
        rp_frame_put(f, RP_PART_REPEAT, separator);
    else
        put(f, RP_PART_CLOSE);
}

/* [one, one], or what `bare` says. */
static void list(Frame *f, const JsonNode *tools, Put *one, Put *bare, const char *separator) {
    put(f, RP_PART_OPEN);
    regex(f, "\\[" GAP);
    calls(f, tools, one, COMMA);
    regex(f, GAP "\\]");
    put(f, RP_PART_OR);
    calls(f, tools, bare, separator);
    put(f, RP_PART_CLOSE);
}

static void block(Frame *f, const JsonNode *tools) {
    switch (f->parser->format->syntax) {
    case SYNTAX_JSON:
        regex(f, GAP);
        list(f, tools, object, object, has(f, MARK_CALL_END) ? GAP : NULL);
        regex(f, GAP);
        break;
    case SYNTAX_NAMED:
        regex(f, GAP);
        if (f->parser->format->flags & FORMAT_SHORT_IDS) /* Mistral */
            list(f, tools, object, named, NULL);
        else
            calls(f, tools, named, NULL);
        break;
    case SYNTAX_PYTHON:
        regex(f, GAP);
        list(f, tools, function, function, COMMA);
        regex(f, GAP);
        break;
    case SYNTAX_XML:
        regex(f, GAP);
        calls(f, tools, function, has(f, MARK_FUNCTION_END) ? GAP : NULL);
        regex(f, GAP);
        break;
    default:
        calls(f, tools, function, NULL);
        break;
    }
    if (has(f, MARK_CALL_END)) rp_frame_mark(f, MARK_CALL_END);
}

void rp_frame_block(Frame *f, const JsonNode *tools, MarkId by) {
    f->loose = true;
    if (by == N_MARKS) {
        calls(f, tools, object, NULL);
    } else if (by == MARK_HEADER) {
        calls(f, tools, message, NULL);
    } else if (by == MARK_NAME) {
        calls(f, tools, function_behind_mark, NULL);
    } else if (by == MARK_CALLS) {
        regex(f, GAP);
        calls(f, tools, f->parser->format->syntax == SYNTAX_NAMED ? marked : function, GAP);
        regex(f, GAP);
        rp_frame_mark(f, MARK_CALLS_END);
    } else {
        block(f, tools);
    }
    regex(f, "[^]*");
}
