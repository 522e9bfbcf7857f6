/* The body of /v1/responses, without a state: all items come with each request. */
#include "server/api/formats.h"
#include "server/api/sampling.h"
#include "server/api/turns.h"

#include <string.h>

enum { MAX_TOP_LOGPROBS = 20 };

/* A message {"role": ..., "content": ...}. An assistant message after its reasoning becomes one message with it. */
static bool read_message(Chat *chat, const json_t *item, const char *at, ApiError *e) {
    static const char *const roles[] = {"system", "developer", "user", "assistant"};
    const char              *role;
    Bytes                    text  = {0};
    bool                     known = false;
    if (!api_need_string(item, at, "role", &role, e)) return false;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) known |= strcmp(role, roles[i]) == 0;
    if (!known)
        return api_refuse(e, at, "role",
                          "\"%.40s\" must be one of \"system\", \"developer\", \"user\" and \"assistant\"", role);
    bool ok = api_read_text(api_member(item, "content"), at, "content", &text, e);
    if (ok && strcmp(role, "assistant") == 0) {
        json_t *message = chat_assistant(chat);
        if (message != NULL && (json_string_length(json_object_get(message, "content")) > 0 ||
                                json_object_get(message, "tool_calls") != NULL))
            message = chat_add(chat, role, "");
        ok = (message != NULL && api_set(message, "content", json_stringn(text.p, text.n))) || api_no_memory(e);
    } else if (ok) {
        ok = (*role == 'u' ? chat_add_user(chat, text.p) : chat_add_system(chat, text.p)) != NULL || api_no_memory(e);
    }
    bytes_free(&text);
    return ok;
}

/* The reasoning in front of a message or a call: reasoning_content of its message. Encrypted reasoning and summaries
 * are dropped. */
static bool read_reasoning(Chat *chat, const json_t *item, const char *at, ApiError *e) {
    const json_t *content = api_member(item, "content");
    Bytes         text    = {0};
    if (content == NULL || (json_is_array(content) && json_array_size(content) == 0)) return true;
    bool ok = api_read_text(content, at, "content", &text, e);
    if (ok && text.n > 0) {
        json_t *message = chat_add(chat, "assistant", "");
        ok              = (message != NULL && api_set(message, "reasoning_content", json_stringn(text.p, text.n))) ||
             api_no_memory(e);
    }
    bytes_free(&text);
    return ok;
}

static bool read_call(Chat *chat, const json_t *item, const char *at, ApiError *e) {
    const char *id, *name, *arguments = "";
    if (!api_need_string(item, at, "call_id", &id, e) || !api_need_string(item, at, "name", &name, e) ||
        !api_read_string(item, at, "arguments", &arguments, e) || !chat_check_arguments(arguments, at, "arguments", e))
        return false;
    json_t *message = chat_assistant(chat);
    return (message != NULL && chat_add_call(chat, message, id, name, arguments)) || api_no_memory(e);
}

static bool read_result(Chat *chat, const json_t *item, const char *at, ApiError *e) {
    const char *id;
    Bytes       text = {0};
    if (!api_need_string(item, at, "call_id", &id, e) || !chat_check_result(chat, id, at, "call_id", e)) return false;
    bool ok = api_read_text(api_member(item, "output"), at, "output", &text, e);
    if (ok) {
        json_t *message = chat_add(chat, "tool", text.p);
        ok              = (message != NULL && api_set(message, "tool_call_id", json_string(id))) || api_no_memory(e);
    }
    bytes_free(&text);
    return ok;
}

static bool read_item(Chat *chat, const json_t *item, const char *at, ApiError *e) {
    static const struct {
        const char *type;
        bool (*read)(Chat *chat, const json_t *item, const char *at, ApiError *e);
    } types[] = {
        {"message",              read_message  },
        {"reasoning",            read_reasoning},
        {"function_call",        read_call     },
        {"function_call_output", read_result   },
    };
    const char *type = "message";
    if (!json_is_object(item)) return api_refuse(e, at, "", "must be an object");
    if (!api_read_string(item, at, "type", &type, e)) return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i].type) == 0) return types[i].read(chat, item, at, e);
    return api_refuse(e, at, "type", "items of type \"%.40s\" are not supported", type);
}

static bool read_input(Chat *chat, const json_t *body, ApiError *e) {
    const json_t *input        = api_member(body, "input"), *item;
    const char   *instructions = NULL;
    size_t        i;
    char          at[API_PATH];
    if (!api_read_string(body, "", "instructions", &instructions, e)) return false;
    if (instructions != NULL && *instructions != '\0' && chat_add(chat, "system", instructions) == NULL)
        return api_no_memory(e);
    if (json_is_string(input)) return chat_add(chat, "user", json_string_value(input)) != NULL || api_no_memory(e);
    if (!json_is_array(input) || json_array_size(input) == 0)
        return api_refuse(e, "", "input", "must be a string, or an array of items that is not empty");
    json_array_foreach(input, i, item) {
        api_path(at, "", "input", i);
        if (!read_item(chat, item, at, e)) return false;
    }
    return true;
}

/* Functions; tools that a server of OpenAI runs by itself, and custom ones, are left out. */
static bool read_tools(Chat *chat, const json_t *body, ApiError *e) {
    const json_t *tools = NULL, *tool;
    size_t        i;
    char          at[API_PATH];
    if (!api_read_tree(body, "", "tools", JSON_ARRAY, &tools, e)) return false;
    json_array_foreach(tools, i, tool) {
        const char *type;
        api_path(at, "", "tools", i);
        if (!json_is_object(tool)) return api_refuse(e, at, "", "must be an object");
        if (!api_need_string(tool, at, "type", &type, e)) return false;
        if (strcmp(type, "function") == 0 && !chat_add_tool(chat, tool, "parameters", at, e)) return false;
    }
    return true;
}

/* Refuses members that need a state of the server. */
static bool refuse_state(const json_t *body, ApiError *e) {
    static const char *const names[]    = {"previous_response_id", "conversation", "prompt"};
    bool                     background = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (api_member(body, names[i]) != NULL)
            return api_refuse(e, "", names[i], "is not supported: the server keeps no responses, send all items");
    if (!api_read_bool(body, "", "background", &background, e)) return false;
    return !background || api_refuse(e, "", "background", "is not supported: the server keeps no responses");
}

static bool read_logprobs(const json_t *body, ApiRequest *r, ApiError *e) {
    const json_t *include = NULL, *one;
    int64_t       top     = 0;
    size_t        i;
    if (!api_read_tree(body, "", "include", JSON_ARRAY, &include, e) ||
        !api_read_whole(body, "", "top_logprobs", 0, MAX_TOP_LOGPROBS, &top, e))
        return false;
    json_array_foreach(include, i, one) {
        const char *name = json_string_value(one);
        if (name != NULL && strcmp(name, "message.output_text.logprobs") == 0) r->n_logprobs = (int32_t)top;
    }
    return true;
}

/* Keeps the members that each object of a response repeats. */
static bool keep(const json_t *body, ApiRequest *r, ApiError *e) {
    static const char *const names[] = {"instructions",
                                        "max_output_tokens",
                                        "metadata",
                                        "parallel_tool_calls",
                                        "reasoning",
                                        "text",
                                        "tools",
                                        "tool_choice",
                                        "top_logprobs",
                                        "user",
                                        "service_tier",
                                        "prompt_cache_key",
                                        "safety_identifier"};
    r->extra = json_pack("{s:n, s:n, s:{}, s:b, s:{s:n, s:n}, s:{s:{s:s}}, s:[], s:s}", "instructions",
                         "max_output_tokens", "metadata", "parallel_tool_calls", 1, "reasoning", "effort", "summary",
                         "text", "format", "type", "text", "tools", "tool_choice", "auto");
    if (r->extra == NULL) return api_no_memory(e);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(body, names[i]);
        if (value != NULL && !json_is_null(value) && json_object_set(r->extra, names[i], value) != 0)
            return api_no_memory(e);
    }
    return true;
}

static bool read_request(Chat *chat, const json_t *body, ApiRequest *r, ApiError *e) {
    const json_t *text = NULL, *reasoning = NULL;
    const char   *effort = NULL;
    if (!refuse_state(body, e) || !api_read_common(body, r, e) ||
        !api_read_limit(body, "max_output_tokens", NULL, r, e) || !api_read_stop(body, "stop", r, e) ||
        !read_logprobs(body, r, e) || !read_input(chat, body, e) || !read_tools(chat, body, e) ||
        !chat_choose(chat, api_member(body, "tool_choice"), e) ||
        !api_read_tree(body, "", "text", JSON_OBJECT, &text, e) ||
        !api_read_tree(body, "", "reasoning", JSON_OBJECT, &reasoning, e) ||
        !api_read_string(reasoning, "reasoning", "effort", &effort, e))
        return false;
    r->n = 1;
    return chat_answer_format(chat, api_member(text, "format"), "text.format", e) &&
           chat_variables(chat, body, effort, e) && keep(body, r, e);
}

bool api_responses_parse(const ApiFormat *format, const json_t *body, const ApiRequest *defaults, ApiRequest *out,
                         ApiError *error) {
    api_request_begin(format, defaults, out);
    return chat_read(read_request, body, out, error);
}
