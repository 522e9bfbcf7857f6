/* The variables of a chat template from a request (request.h). */
#include "model/chat/request.h"

#include <stdlib.h>
#include <string.h>

static RpGgufString word(const char *text) { return (RpGgufString){text, strlen(text)}; }

static bool named(RpGgufString key, const char *text) {
    return key.len == strlen(text) && memcmp(key.ptr, text, key.len) == 0;
}

static void put_arguments(const Json *j, const JsonNode *arguments, const char *instead, bool strings, JsonOut *o) {
    JsonOut text = {0};
    if (instead != NULL)
        rp_json_put_text(&text, instead);
    else if (arguments == NULL)
        rp_json_put_text(&text, "{}");
    else if (arguments->type == JSON_STRING)
        rp_json_put(&text, rp_json_string(j, arguments).ptr, arguments->len);
    else
        rp_json_put_node(&text, j, arguments);
    o->failed |= text.failed;
    if (o->failed || text.p == NULL) {
        free(text.p);
        return;
    }
    if (strings)
        rp_json_put_string(o, (RpGgufString){text.p, text.n});
    else
        rp_json_put(o, text.p, text.n);
    free(text.p);
}

static void put_call(const Json *j, const JsonNode *call, const char *instead, bool strings, JsonOut *o) {
    const RequestCall c     = rp_request_call(j, call);
    bool              first = true, inner = true;
    if (c.id != NULL) {
        rp_json_put_key(o, &first, word("id"));
        rp_json_put_node(o, j, c.id);
    }
    rp_json_put_key(o, &first, word("type"));
    rp_json_put_text(o, "\"function\"");
    rp_json_put_key(o, &first, word("function"));
    rp_json_put_key(o, &inner, word("name"));
    rp_json_put_node(o, j, c.name);
    rp_json_put_key(o, &inner, word("arguments"));
    put_arguments(j, c.arguments, instead, strings, o);
    rp_json_put_text(o, "}}");
}

/* *n counts the calls of the whole conversation. */
static void put_message(const Json *j, const JsonNode *message, const RequestStyle *style, size_t *n, JsonOut *o) {
    bool first = true;
    for (const JsonNode *m = rp_json_first(j, message); m != NULL; m = rp_json_next(j, message, m)) {
        const RpGgufString key = rp_json_key(j, m);
        rp_json_put_key(o, &first, key);
        if (message == style->begun && m == rp_request_begun_text(j, message)) {
            rp_json_put_string(o, word(style->begun_marker));
            continue;
        }
        if (style->empty && m->type == JSON_NULL && named(key, "content")) {
            rp_json_put_text(o, "\"\"");
            continue;
        }
        if (m->type != JSON_ARRAY || !named(key, "tool_calls")) {
            rp_json_put_node(o, j, m);
            continue;
        }
        rp_json_put_text(o, "[");
        for (const JsonNode *c = rp_json_first(j, m); c != NULL; c = rp_json_next(j, m, c)) {
            if (c != rp_json_first(j, m)) rp_json_put_text(o, ", ");
            put_call(j, c, style->instead != NULL ? style->instead[*n] : NULL, style->strings, o);
            ++*n;
        }
        rp_json_put_text(o, "]");
    }
    rp_json_put_text(o, first ? "{}" : "}");
}

void rp_request_write_tool(const Json *j, const JsonNode *tool, JsonOut *o) {
    const JsonNode *function = rp_json_get(j, tool, "function");
    const JsonNode *f        = function != NULL ? function : tool;
    const JsonNode *schema = rp_json_get(j, f, "parameters"), *description = rp_json_get(j, f, "description");
    bool            first = true, inner = true;
    if (schema == NULL) schema = rp_json_get(j, f, "input_schema");
    rp_json_put_key(o, &first, word("type"));
    rp_json_put_text(o, "\"function\"");
    rp_json_put_key(o, &first, word("function"));
    rp_json_put_key(o, &inner, word("name"));
    rp_json_put_node(o, j, rp_json_get(j, f, "name"));
    rp_json_put_key(o, &inner, word("description"));
    if (description != NULL && description->type == JSON_STRING)
        rp_json_put_node(o, j, description);
    else
        rp_json_put_text(o, "\"\"");
    rp_json_put_key(o, &inner, word("parameters"));
    if (schema != NULL && schema->type == JSON_OBJECT)
        rp_json_put_node(o, j, schema);
    else
        rp_json_put_text(o, "{\"type\": \"object\", \"properties\": {}}");
    rp_json_put_text(o, "}}");
}

/* Members that say how the reply is made, and that templates do not get. */
static bool is_of_reply(RpGgufString key) {
    return named(key, "tool_choice") || named(key, "response_format") || named(key, "stop") ||
           named(key, "max_tokens") || named(key, "max_completion_tokens") || named(key, "continue_final_message");
}

RpStatus rp_request_write(const Json *j, const RequestStyle *style, JsonOut *out) {
    const JsonNode *root  = &j->nodes[0];
    bool            first = true;
    size_t          n     = 0;
    for (const JsonNode *m = rp_json_first(j, root); m != NULL; m = rp_json_next(j, root, m)) {
        const RpGgufString key      = rp_json_key(j, m);
        const bool         messages = named(key, "messages"), tools = named(key, "tools");
        if (is_of_reply(key) || (tools && !style->tools)) continue;
        rp_json_put_key(out, &first, key);
        if (!messages && !tools) {
            rp_json_put_node(out, j, m);
            continue;
        }
        rp_json_put_text(out, "[");
        for (const JsonNode *x                                                               = rp_json_first(j, m);
             x != NULL && (!messages || x != style->begun || style->begun_marker != NULL); x = rp_json_next(j, m, x)) {
            if (x != rp_json_first(j, m)) rp_json_put_text(out, ", ");
            if (messages)
                put_message(j, x, style, &n, out);
            else
                rp_request_write_tool(j, x, out);
        }
        rp_json_put_text(out, "]");
    }
    rp_json_put_text(out, "}");
    return out->failed ? rp_fail(RP_E_NOMEM, "out of memory for the variables of a chat template") : RP_OK;
}
