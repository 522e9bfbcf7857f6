/* Checks of a request (request.h). */
#include "model/chat/json_scan.h"
#include "model/chat/request.h"

#include <stdlib.h>
#include <string.h>

/* Ids of calls with the index of their message, or names of tools with theirs. They are sorted, so that the time of a
 * look-up hardly depends on the length of the request. */
typedef struct Name {
    RpGgufString text;
    size_t       at;
} Name;

typedef struct Names {
    Name  *all;
    size_t n, room;
} Names;

static RpStatus add_name(Names *names, RpGgufString text, size_t at) {
    if (names->n == names->room) {
        const size_t room  = 2 * names->room + 16;
        Name        *grown = realloc(names->all, room * sizeof *grown);
        if (grown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu names", room);
        names->all  = grown;
        names->room = room;
    }
    names->all[names->n++] = (Name){text, at};
    return RP_OK;
}

static int compare_texts(RpGgufString a, RpGgufString b) {
    const size_t n     = a.len < b.len ? a.len : b.len;
    const int    order = n > 0 ? memcmp(a.ptr, b.ptr, n) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* By text, then by place. */
static int compare_names(const void *a, const void *b) {
    const Name *x = a, *y = b;
    const int   order = compare_texts(x->text, y->text);
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

static void sort_names(Names *names) {
    if (names->n > 0) qsort(names->all, names->n, sizeof *names->all, compare_names);
}

/* The first place of a text; NULL: there is none. */
static const Name *find_name(const Names *names, RpGgufString text) {
    size_t low = 0, high = names->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_texts(names->all[middle].text, text) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < names->n && compare_texts(names->all[low].text, text) == 0 ? &names->all[low] : NULL;
}

static bool is(const JsonNode *n, JsonType type) { return n != NULL && n->type == type; }

/* A string that is not empty. */
static bool is_name(const JsonNode *n) { return is(n, JSON_STRING) && n->len > 0; }

RequestCall rp_request_call(const Json *j, const JsonNode *call) {
    const JsonNode *function = rp_json_get(j, call, "function");
    if (function == NULL) function = call;
    return (RequestCall){rp_json_get(j, call, "id"), rp_json_get(j, function, "name"),
                         rp_json_get(j, function, "arguments")};
}

static bool is_object_text(RpGgufString s) {
    while (s.len > 0 && rp_json_space((unsigned char)s.ptr[0])) s.ptr++, s.len--;
    return s.len > 0 && *s.ptr == '{' && rp_json_is_value(s.ptr, s.len);
}

static RpStatus check_call(const Json *j, size_t message, size_t i, const JsonNode *call) {
    const RequestCall c = rp_request_call(j, call);
    if (!is_name(c.name)) return rp_fail(RP_E_FORMAT, "messages[%zu]: tool_calls[%zu] has no name", message, i);
    if (c.id != NULL && !is_name(c.id))
        return rp_fail(RP_E_FORMAT, "messages[%zu]: the id of tool_calls[%zu] must be a string", message, i);
    if (c.arguments != NULL && !is(c.arguments, JSON_OBJECT) &&
        !(is(c.arguments, JSON_STRING) && is_object_text(rp_json_string(j, c.arguments))))
        return rp_fail(RP_E_FORMAT,
                       "messages[%zu]: the arguments of tool_calls[%zu] must be an object, or its JSON as a string",
                       message, i);
    return RP_OK;
}

/* The result of a tool: the call must be in a message before. `first`: the index of the first message with a call. */
static RpStatus check_result(const Json *j, const Names *calls, size_t first, size_t i, const JsonNode *message) {
    const JsonNode *id = rp_json_get(j, message, "tool_call_id");
    if (id != NULL && !is(id, JSON_STRING))
        return rp_fail(RP_E_FORMAT, "messages[%zu]: tool_call_id must be a string", i);
    if (first >= i)
        return rp_fail(RP_E_ARG, "messages[%zu]: the result of a tool, but no message before it has a call", i);
    if (id == NULL) return RP_OK;
    const RpGgufString want  = rp_json_string(j, id);
    const Name        *found = find_name(calls, want);
    if (found != NULL && found->at < i) return RP_OK;
    return rp_fail(RP_E_ARG, "messages[%zu]: no call before it has the id \"%.*s\"", i,
                   (int)(want.len < 96 ? want.len : 96), want.ptr);
}

static RpStatus check_message(const Json *j, size_t i, const JsonNode *m, Names *names) {
    if (m->type != JSON_OBJECT) return rp_fail(RP_E_FORMAT, "messages[%zu] must be an object", i);
    if (!is_name(rp_json_get(j, m, "role"))) return rp_fail(RP_E_FORMAT, "messages[%zu] has no role", i);
    const JsonNode *content = rp_json_get(j, m, "content"), *calls = rp_json_get(j, m, "tool_calls");
    if (content != NULL && !is(content, JSON_STRING) && !is(content, JSON_NULL) && !is(content, JSON_ARRAY))
        return rp_fail(RP_E_FORMAT, "messages[%zu]: content must be a string, null, or an array of parts", i);
    if (calls != NULL && !is(calls, JSON_ARRAY) && !is(calls, JSON_NULL))
        return rp_fail(RP_E_FORMAT, "messages[%zu]: tool_calls must be an array", i);
    if (calls != NULL && calls->n > 0 && !rp_json_is(j, rp_json_get(j, m, "role"), "assistant"))
        return rp_fail(RP_E_ARG, "messages[%zu]: only the assistant has tool_calls", i);
    size_t n = 0;
    for (const JsonNode *c = rp_json_first(j, calls); c != NULL; c = rp_json_next(j, calls, c)) {
        RP_TRY(check_call(j, i, n++, c));
        RP_TRY(add_name(names, rp_json_string(j, rp_json_get(j, c, "id")), i));
    }
    return RP_OK;
}

static RpStatus check_messages(const Json *j, const JsonNode *messages, Names *names) {
    size_t i = 0;
    for (const JsonNode *m = rp_json_first(j, messages); m != NULL; m = rp_json_next(j, messages, m))
        RP_TRY(check_message(j, i++, m, names));
    const size_t first = names->n > 0 ? names->all[0].at : i;
    sort_names(names);
    i = 0;
    for (const JsonNode *m = rp_json_first(j, messages); m != NULL; m = rp_json_next(j, messages, m), i++)
        if (rp_json_is(j, rp_json_get(j, m, "role"), "tool")) RP_TRY(check_result(j, names, first, i, m));
    return RP_OK;
}

static RpStatus check_tool(const Json *j, size_t i, const JsonNode *tool, Names *names) {
    const JsonNode *type = rp_json_get(j, tool, "type"), *function = rp_json_get(j, tool, "function");
    if (tool->type != JSON_OBJECT) return rp_fail(RP_E_FORMAT, "tools[%zu] must be an object", i);
    if (function != NULL && type != NULL && !rp_json_is(j, type, "function"))
        return rp_fail(RP_E_FORMAT, "tools[%zu]: the type must be \"function\"", i);
    if (function == NULL) function = tool;
    const JsonNode *name = rp_json_get(j, function, "name"), *schema = rp_json_get(j, function, "parameters");
    const JsonNode *text = rp_json_get(j, function, "description");
    if (!is_name(name)) return rp_fail(RP_E_FORMAT, "tools[%zu] has no name", i);
    const RpGgufString s = rp_json_string(j, name);
    const int          n = (int)(s.len < 96 ? s.len : 96);
    for (size_t k = 0; k < s.len; k++)
        if ((unsigned char)s.ptr[k] <= ' ' || strchr("\"'<>(){}[]=,:;", s.ptr[k]) != NULL)
            return rp_fail(RP_E_FORMAT, "tools[%zu]: the name \"%.*s\" has a character that names of tools cannot have",
                           i, n, s.ptr);
    if (schema == NULL) schema = rp_json_get(j, function, "input_schema");
    if (schema != NULL && !is(schema, JSON_OBJECT) && !is(schema, JSON_NULL))
        return rp_fail(RP_E_FORMAT, "tools[%zu] \"%.*s\": the parameters must be a JSON schema, an object", i, n,
                       s.ptr);
    if (text != NULL && !is(text, JSON_STRING) && !is(text, JSON_NULL))
        return rp_fail(RP_E_FORMAT, "tools[%zu] \"%.*s\": the description must be a string", i, n, s.ptr);
    return add_name(names, s, i);
}

static RpStatus check_tools(const Json *j, const JsonNode *tools, Names *names) {
    size_t i = 0;
    for (const JsonNode *t = rp_json_first(j, tools); t != NULL; t = rp_json_next(j, tools, t))
        RP_TRY(check_tool(j, i++, t, names));
    sort_names(names);
    for (i = 1; i < names->n; i++) {
        const RpGgufString s = names->all[i].text;
        if (compare_texts(names->all[i - 1].text, s) == 0)
            return rp_fail(RP_E_FORMAT, "tools[%zu]: there are two tools \"%.*s\"", names->all[i].at,
                           (int)(s.len < 96 ? s.len : 96), s.ptr);
    }
    return RP_OK;
}

static RpStatus check_choice(const Json *j, const JsonNode *choice, bool *none) {
    const JsonNode    *tools    = rp_json_get(j, &j->nodes[0], "tools");
    const JsonNode    *function = rp_json_get(j, choice, "function");
    const JsonNode    *name     = rp_json_get(j, function != NULL ? function : choice, "name");
    const RpGgufString s        = rp_json_string(j, name);
    *none                       = rp_json_is(j, choice, "none");
    if (choice == NULL || choice->type == JSON_NULL || *none || rp_json_is(j, choice, "auto")) return RP_OK;
    if (!rp_json_is(j, choice, "required") && !(choice->type == JSON_OBJECT && is_name(name)))
        return rp_fail(RP_E_FORMAT, "tool_choice must be \"auto\", \"none\", \"required\", or name a function");
    if (!is(tools, JSON_ARRAY) || tools->n == 0)
        return rp_fail(RP_E_ARG, "tool_choice asks for a call, but there are no tools");
    for (const JsonNode *t = rp_json_first(j, tools); t != NULL && choice->type == JSON_OBJECT;
         t                 = rp_json_next(j, tools, t)) {
        const JsonNode    *f     = rp_json_get(j, t, "function");
        const RpGgufString other = rp_json_string(j, rp_json_get(j, f != NULL ? f : t, "name"));
        if (other.len == s.len && memcmp(other.ptr, s.ptr, s.len) == 0) return RP_OK;
    }
    if (choice->type == JSON_STRING) return RP_OK;
    return rp_fail(RP_E_ARG, "tool_choice: there is no tool \"%.*s\"", (int)(s.len < 96 ? s.len : 96), s.ptr);
}

bool rp_request_answer_text(const Json *j, const JsonNode *format, RpGgufString *text, bool *is_gbnf) {
    const JsonNode *type = rp_json_get(j, format, "type");
    *is_gbnf             = rp_json_is(j, type, "grammar");
    if (!*is_gbnf && !rp_json_is(j, type, "regex")) return false;
    *text = rp_json_string(j, rp_json_get(j, format, *is_gbnf ? "grammar" : "regex"));
    return true;
}

static RpStatus check_response_format(const Json *j, const JsonNode *format) {
    const JsonNode *type = rp_json_get(j, format, "type"), *inner = rp_json_get(j, format, "json_schema");
    const JsonNode *schema = rp_json_get(j, inner != NULL ? inner : format, "schema");
    if (format == NULL || format->type == JSON_NULL || rp_json_is(j, type, "text") ||
        rp_json_is(j, type, "json_object"))
        return RP_OK;
    RpGgufString text;
    bool         is_gbnf;
    if (rp_request_answer_text(j, format, &text, &is_gbnf))
        return text.len > 0 ? RP_OK
                            : rp_fail(RP_E_FORMAT, "response_format: %s must be a text that is not empty",
                                      is_gbnf ? "grammar" : "regex");
    if (!rp_json_is(j, type, "json_schema"))
        return rp_fail(RP_E_FORMAT, "response_format: the type must be \"text\", \"json_object\", \"json_schema\", "
                                    "\"grammar\" or \"regex\"");
    return schema != NULL ? RP_OK : rp_fail(RP_E_FORMAT, "response_format: json_schema has no schema");
}

static RpStatus check_limits(const Json *j, const JsonNode *stop, const JsonNode *limit) {
    uint64_t n;
    bool     strings = stop == NULL || stop->type == JSON_STRING || stop->type == JSON_ARRAY || stop->type == JSON_NULL;
    if (stop != NULL && stop->type == JSON_ARRAY)
        for (const JsonNode *s = rp_json_first(j, stop); s != NULL; s = rp_json_next(j, stop, s))
            strings &= s->type == JSON_STRING;
    if (!strings) return rp_fail(RP_E_FORMAT, "stop must be a string or an array of strings");
    if (limit != NULL && limit->type != JSON_NULL && (!rp_json_u63(j, limit, &n) || n == 0))
        return rp_fail(RP_E_FORMAT, "max_tokens must be a whole number above 0");
    return RP_OK;
}

const JsonNode *rp_request_begun(const Json *j) {
    const JsonNode *root = &j->nodes[0], *on = rp_json_get(j, root, "continue_final_message"), *last = NULL;
    const JsonNode *messages = rp_json_get(j, root, "messages");
    if (!is(on, JSON_TRUE)) return NULL;
    for (const JsonNode *m = rp_json_first(j, messages); m != NULL; m = rp_json_next(j, messages, m)) last = m;
    return last;
}

const JsonNode *rp_request_begun_text(const Json *j, const JsonNode *message) {
    const JsonNode *content = rp_json_get(j, message, "content");
    const JsonNode *text    = is_name(content) ? content : rp_json_get(j, message, "reasoning_content");
    return is_name(text) ? text : NULL;
}

/* The message that the reply goes on from: text without calls. */
static RpStatus check_begun(const Json *j) {
    const JsonNode *root = &j->nodes[0], *on = rp_json_get(j, root, "continue_final_message");
    if (on != NULL && on->type != JSON_TRUE && on->type != JSON_FALSE && on->type != JSON_NULL)
        return rp_fail(RP_E_FORMAT, "continue_final_message must be true or false");
    if (!is(on, JSON_TRUE)) return RP_OK;
    const JsonNode *m = rp_request_begun(j), *calls = rp_json_get(j, m, "tool_calls");
    const JsonNode *content = rp_json_get(j, m, "content"), *reasoning = rp_json_get(j, m, "reasoning_content");
    const JsonNode *choice = rp_json_get(j, root, "tool_choice");
    if (m == NULL || !rp_json_is(j, rp_json_get(j, m, "role"), "assistant"))
        return rp_fail(RP_E_ARG, "continue_final_message: the last message must be one of the assistant");
    if (calls != NULL && calls->n > 0)
        return rp_fail(RP_E_ARG, "continue_final_message: the last message must have no tool_calls");
    if (is(choice, JSON_OBJECT) || rp_json_is(j, choice, "required"))
        return rp_fail(RP_E_ARG, "continue_final_message: tool_choice must not ask for a call");
    if ((content != NULL && !is(content, JSON_STRING) && !is(content, JSON_NULL)) ||
        (reasoning != NULL && !is(reasoning, JSON_STRING) && !is(reasoning, JSON_NULL)))
        return rp_fail(RP_E_FORMAT, "continue_final_message: the last message must have texts as strings");
    return RP_OK;
}

static RpStatus check_all(const Json *j, bool *has_tools, Names *calls, Names *names) {
    const JsonNode *root = &j->nodes[0], *messages = rp_json_get(j, root, "messages"),
                   *tools = rp_json_get(j, root, "tools");
    bool none;
    if (!is(root, JSON_OBJECT)) return rp_fail(RP_E_FORMAT, "the request must be an object");
    if (!is(messages, JSON_ARRAY)) return rp_fail(RP_E_FORMAT, "the request has no array of messages");
    RP_TRY(check_messages(j, messages, calls));
    RP_TRY(check_choice(j, rp_json_get(j, root, "tool_choice"), &none));
    RP_TRY(check_response_format(j, rp_json_get(j, root, "response_format")));
    RP_TRY(check_limits(j, rp_json_get(j, root, "stop"), rp_json_get(j, root, "max_tokens")));
    RP_TRY(check_begun(j));
    if (tools == NULL || tools->type == JSON_NULL) return RP_OK;
    if (!is(tools, JSON_ARRAY)) return rp_fail(RP_E_FORMAT, "tools must be an array");
    RP_TRY(check_tools(j, tools, names));
    *has_tools = tools->n > 0 && !none;
    return RP_OK;
}

RpStatus rp_request_check(const Json *j, bool *has_tools) {
    Names calls = {0}, names = {0};
    *has_tools        = false;
    const RpStatus st = check_all(j, has_tools, &calls, &names);
    free(calls.all), free(names.all);
    return st;
}
