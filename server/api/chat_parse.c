/* The body of /v1/chat/completions. */
#include "server/api/formats.h"
#include "server/api/sampling.h"
#include "server/api/turns.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TOP_LOGPROBS = 20 };

/* The call i of an assistant. */
static bool read_call(Chat *chat, json_t *message, const json_t *call, const char *at, ApiError *e) {
    const json_t *function = NULL, *given;
    const char   *id = "", *name, *type = "function", *text = "";
    char          place[API_PATH], *dumped = NULL;
    strcpy(place, at);
    strncat(place, ".function", sizeof place - strlen(place) - 1);
    if (!json_is_object(call)) return api_refuse(e, at, "", "must be an object");
    if (!api_read_string(call, at, "type", &type, e) || !api_need_string(call, at, "id", &id, e) ||
        !api_read_tree(call, at, "function", JSON_OBJECT, &function, e))
        return false;
    if (strcmp(type, "function") != 0)
        return api_refuse(e, at, "type", "\"%.40s\" is not supported, only \"function\"", type);
    if (function == NULL) return api_refuse(e, place, "", "must be an object");
    if (!api_need_string(function, place, "name", &name, e)) return false;
    given = api_member(function, "arguments");
    if (json_is_object(given)) {
        text = dumped = json_dumps(given, JSON_COMPACT);
        if (dumped == NULL) return api_no_memory(e);
    } else if (!api_read_string(function, place, "arguments", &text, e) ||
               !chat_check_arguments(text, place, "arguments", e)) {
        return false;
    }
    const bool ok = chat_add_call(chat, message, id, name, text);
    free(dumped);
    return ok || api_no_memory(e);
}

/* What only an assistant's message has. */
static bool read_assistant(Chat *chat, json_t *message, const json_t *from, const char *at, ApiError *e) {
    const json_t *calls     = NULL, *call;
    const char   *reasoning = NULL;
    size_t        i;
    char          place[API_PATH];
    if (!api_read_tree(from, at, "tool_calls", JSON_ARRAY, &calls, e) ||
        !api_read_string(from, at, "reasoning", &reasoning, e) ||
        !api_read_string(from, at, "reasoning_content", &reasoning, e))
        return false;
    if (api_member(from, "function_call") != NULL)
        return api_refuse(e, at, "function_call", "is not supported, use tool_calls");
    if (reasoning != NULL && !api_set(message, "reasoning_content", json_string(reasoning))) return api_no_memory(e);
    json_array_foreach(calls, i, call) {
        api_path(place, at, "tool_calls", i);
        if (!read_call(chat, message, call, place, e)) return false;
    }
    return true;
}

/* The content, with "" for none where a message may have none. */
static bool read_content(const json_t *from, const char *role, const char *at, Bytes *out, ApiError *e) {
    const json_t *content = api_member(from, "content");
    if (content != NULL) return api_read_text(content, at, "content", out, e);
    if (strcmp(role, "assistant") != 0) return api_refuse(e, at, "content", "must be a string or an array of parts");
    const char *refusal = "";
    if (!api_read_string(from, at, "refusal", &refusal, e)) return false;
    bytes_text(out, refusal);
    return !out->failed || api_no_memory(e);
}

static bool add_message(Chat *chat, const json_t *from, const char *role, const char *at, const char *text,
                        ApiError *e) {
    const char *name = NULL, *id = NULL;
    const bool  tool = strcmp(role, "tool") == 0;
    if (!api_read_string(from, at, "name", &name, e)) return false;
    if (tool &&
        (!api_need_string(from, at, "tool_call_id", &id, e) || !chat_check_result(chat, id, at, "tool_call_id", e)))
        return false;
    json_t *message = chat_add(chat, role, text);
    if (message == NULL || (name != NULL && !api_set(message, "name", json_string(name))) ||
        (id != NULL && !api_set(message, "tool_call_id", json_string(id))))
        return api_no_memory(e);
    if (strcmp(role, "assistant") == 0) return read_assistant(chat, message, from, at, e);
    return json_array_size(json_object_get(from, "tool_calls")) == 0 ||
           api_refuse(e, at, "tool_calls", "only the assistant has calls");
}

static bool read_message(Chat *chat, const json_t *from, const char *at, ApiError *e) {
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    const char              *role;
    Bytes                    text = {0};
    if (!json_is_object(from)) return api_refuse(e, at, "", "must be an object");
    if (!api_need_string(from, at, "role", &role, e)) return false;
    if (strcmp(role, "developer") == 0) role = "system";
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(role, roles[i]) != 0) continue;
        const bool ok = read_content(from, role, at, &text, e) && add_message(chat, from, role, at, text.p, e);
        bytes_free(&text);
        return ok;
    }
    return api_refuse(e, at, "role",
                      "\"%.40s\" must be one of \"system\", \"developer\", \"user\", \"assistant\" and \"tool\"", role);
}

static bool read_messages(Chat *chat, const json_t *body, ApiError *e) {
    const json_t *messages = NULL, *message;
    size_t        i;
    char          at[API_PATH];
    if (!api_read_tree(body, "", "messages", JSON_ARRAY, &messages, e)) return false;
    if (json_array_size(messages) == 0) return api_refuse(e, "", "messages", "must be an array that is not empty");
    json_array_foreach(messages, i, message) {
        api_path(at, "", "messages", i);
        if (!read_message(chat, message, at, e)) return false;
    }
    return true;
}

/* An element of tools: {"type": "function", "function": {...}}, or the function itself. */
static bool read_tools(Chat *chat, const json_t *body, ApiError *e) {
    const json_t *tools = NULL, *tool, *function;
    const char   *type;
    size_t        i;
    char          at[API_PATH];
    if (api_member(body, "functions") != NULL) return api_refuse(e, "", "functions", "is not supported, use tools");
    if (!api_read_tree(body, "", "tools", JSON_ARRAY, &tools, e)) return false;
    json_array_foreach(tools, i, tool) {
        api_path(at, "", "tools", i);
        function = NULL;
        type     = "function";
        if (!json_is_object(tool)) return api_refuse(e, at, "", "must be an object");
        if (!api_read_string(tool, at, "type", &type, e) ||
            !api_read_tree(tool, at, "function", JSON_OBJECT, &function, e))
            return false;
        if (strcmp(type, "function") != 0)
            return api_refuse(e, at, "type", "\"%.40s\" is not supported, only \"function\"", type);
        if (function != NULL) strncat(at, ".function", sizeof at - strlen(at) - 1);
        if (!chat_add_tool(chat, function != NULL ? function : tool, "parameters", at, e)) return false;
    }
    return true;
}

/* llama.cpp's grammar and json_schema. */
static bool read_held(Chat *chat, const json_t *body, ApiRequest *r, ApiError *e) {
    const json_t *schema  = NULL;
    const char   *grammar = NULL;
    if (!api_read_string(body, "", "grammar", &grammar, e) ||
        !api_read_tree(body, "", "json_schema", JSON_OBJECT, &schema, e))
        return false;
    const bool format = json_object_get(r->chat, "response_format") != NULL;
    if (grammar != NULL && grammar[0] == '\0') grammar = NULL; /* some clients send it empty */
    if ((grammar != NULL) + (schema != NULL) + format > 1)
        return api_refuse(e, "", grammar != NULL ? "grammar" : "json_schema",
                          "only one of grammar, json_schema and response_format can be given");
    if (grammar != NULL) return chat_answer_text(chat, "grammar", grammar, e);
    if (schema == NULL) return true;
    return api_set(
               r->chat, "response_format",
               json_pack("{s:s, s:{s:o}}", "type", "json_schema", "json_schema", "schema", json_deep_copy(schema))) ||
           api_no_memory(e);
}

static bool read_logprobs(const json_t *body, ApiRequest *r, ApiError *e) {
    int64_t top  = 0;
    bool    want = false;
    if (!api_read_bool(body, "", "logprobs", &want, e) ||
        !api_read_whole(body, "", "top_logprobs", 0, MAX_TOP_LOGPROBS, &top, e))
        return false;
    if (top > 0 && !want) return api_refuse(e, "", "top_logprobs", "needs logprobs");
    r->n_logprobs = want ? (int32_t)top : -1;
    return true;
}

/* The reply goes on from the last message. */
static bool read_continue(const json_t *body, ApiRequest *r, ApiError *e) {
    bool on = false, prompt = false;
    if (!api_read_bool(body, "", "continue_final_message", &on, e) ||
        !api_read_bool(body, "", "add_generation_prompt", &prompt, e))
        return false;
    if (!on) return true;
    if (prompt) return api_refuse(e, "", "add_generation_prompt", "must be false with continue_final_message");
    return api_set(r->chat, "continue_final_message", json_true()) || api_no_memory(e);
}

static bool read_chat(Chat *chat, const json_t *body, ApiRequest *r, ApiError *e) {
    const char *effort = NULL;
    return read_messages(chat, body, e) && read_tools(chat, body, e) &&
           chat_choose(chat, api_member(body, "tool_choice"), e) &&
           chat_answer_format(chat, api_member(body, "response_format"), "response_format", e) &&
           api_read_string(body, "", "reasoning_effort", &effort, e) && chat_variables(chat, body, effort, e) &&
           read_held(chat, body, r, e) && read_continue(body, r, e);
}

static bool read_request(Chat *chat, const json_t *body, ApiRequest *r, ApiError *e) {
    return api_read_common(body, r, e) && api_read_limit(body, "max_completion_tokens", "max_tokens", r, e) &&
           api_read_stop(body, "stop", r, e) && read_logprobs(body, r, e) && read_chat(chat, body, r, e);
}

bool api_chat_parse(const ApiFormat *format, const json_t *body, const ApiRequest *defaults, ApiRequest *out,
                    ApiError *error) {
    api_request_begin(format, defaults, out);
    return chat_read(read_request, body, out, error);
}
