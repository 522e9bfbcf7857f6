/* The body of Anthropic's /v1/messages and /v1/messages/count_tokens. */
#include "server/api/formats.h"
#include "server/api/plain.h"
#include "server/api/sampling.h"
#include "server/api/turns.h"

#include <stdlib.h>
#include <string.h>

/* A line that Claude Code puts in front of its system prompt, and that differs with each request: the prompt would have
 * no prefix in common with the one before. */
static const char billing[] = "x-anthropic-billing-header";

/* A message while its blocks are read. */
typedef struct Turn {
    Chat   *chat;
    Bytes   text, reasoning;
    json_t *calls; /* {"id", "name", "arguments"} */
    char    role;  /* the first letter: user, assistant or system */
    bool    any;   /* a text or a result became a message */
} Turn;

static bool is_type(const json_t *block, const char *type) {
    const char *has = json_string_value(json_object_get(block, "type"));
    return has != NULL && strcmp(has, type) == 0;
}

static bool read_system(Chat *chat, const json_t *body, ApiError *e) {
    const json_t *system = api_member(body, "system"), *block;
    Bytes         text   = {0};
    size_t        i;
    char          at[API_PATH];
    bool          ok = true;
    if (system == NULL) return true;
    if (json_is_string(system)) {
        bytes_text(&text, json_string_value(system));
    } else if (!json_is_array(system)) {
        return api_refuse(e, "", "system", "must be a string or an array of parts");
    }
    for (i = 0; i < json_array_size(system) && ok; i++) {
        block             = json_array_get(system, i);
        const char *start = json_string_value(json_object_get(block, "text"));
        if (start != NULL && strncmp(start, billing, sizeof billing - 1) == 0) continue;
        api_path(at, "", "system", i);
        if (text.n > 0) bytes_text(&text, "\n");
        ok = api_read_part(block, at, &text, e);
    }
    if (ok && text.n > 0) ok = (!text.failed && chat_add(chat, "system", text.p) != NULL) || api_no_memory(e);
    bytes_free(&text);
    return ok;
}

/* The text of the blocks so far becomes a message of the user, or of the system. */
static bool flush_text(Turn *t, ApiError *e) {
    const bool ok = t->text.n == 0 || (!t->text.failed && (t->role == 's' ? chat_add_system(t->chat, t->text.p)
                                                                          : chat_add_user(t->chat, t->text.p)) != NULL);
    t->any |= t->text.n > 0;
    bytes_clear(&t->text);
    return ok || api_no_memory(e);
}

static bool read_result(Turn *t, const json_t *block, const char *at, ApiError *e) {
    const json_t *content = api_member(block, "content");
    const char   *id;
    Bytes         text = {0};
    if (t->role != 'u') return api_refuse(e, at, "type", "\"tool_result\" is a block of the user");
    if (!flush_text(t, e) || !api_need_string(block, at, "tool_use_id", &id, e) ||
        !chat_check_result(t->chat, id, at, "tool_use_id", e))
        return false;
    bytes_text(&text, "");
    bool ok = content == NULL || api_read_text(content, at, "content", &text, e);
    if (ok) {
        json_t *message = text.failed ? NULL : chat_add(t->chat, "tool", text.p);
        ok              = (message != NULL && api_set(message, "tool_call_id", json_string(id))) || api_no_memory(e);
        t->any          = true;
    }
    bytes_free(&text);
    return ok;
}

static bool read_use(Turn *t, const json_t *block, const char *at, ApiError *e) {
    const json_t *input = NULL;
    const char   *id, *name;
    if (t->role != 'a') return api_refuse(e, at, "type", "\"tool_use\" is a block of the assistant");
    if (!api_need_string(block, at, "id", &id, e) || !api_need_string(block, at, "name", &name, e) ||
        !api_read_tree(block, at, "input", JSON_OBJECT, &input, e))
        return false;
    char *arguments = input != NULL ? json_dumps(input, JSON_COMPACT) : strdup("{}");
    if (arguments == NULL) return api_no_memory(e);
    const bool ok = json_array_append_new(
                        t->calls, json_pack("{s:s, s:s, s:s}", "id", id, "name", name, "arguments", arguments)) == 0;
    free(arguments);
    return ok || api_no_memory(e);
}

static bool read_block(Turn *t, const json_t *block, const char *at, ApiError *e) {
    const char *thinking = "";
    if (is_type(block, "tool_result")) return read_result(t, block, at, e);
    if (is_type(block, "tool_use")) return read_use(t, block, at, e);
    if (is_type(block, "redacted_thinking") && t->role == 'a') return true;
    if (is_type(block, "thinking") && t->role == 'a') {
        if (!api_read_string(block, at, "thinking", &thinking, e)) return false;
        bytes_text(&t->reasoning, thinking);
        return true;
    }
    if (t->text.n > 0) bytes_text(&t->text, "\n");
    return api_read_part(block, at, &t->text, e);
}

static bool end_assistant(Turn *t, ApiError *e) {
    const json_t *call;
    size_t        i;
    json_t       *message = t->text.failed || t->reasoning.failed
                                ? NULL
                                : chat_add(t->chat, "assistant", t->text.p != NULL ? t->text.p : "");
    bool          ok      = message != NULL;
    if (ok && t->reasoning.n > 0)
        ok = api_set(message, "reasoning_content", json_stringn(t->reasoning.p, t->reasoning.n));
    json_array_foreach(t->calls, i, call) {
        const char *id = json_string_value(json_object_get(call, "id"));
        ok             = ok && chat_add_call(t->chat, message, id, json_string_value(json_object_get(call, "name")),
                                             json_string_value(json_object_get(call, "arguments")));
    }
    return ok || api_no_memory(e);
}

static bool read_blocks(Turn *t, const json_t *content, const char *at, ApiError *e) {
    const json_t *block;
    size_t        i;
    char          place[API_PATH];
    if (json_is_string(content)) {
        bytes_text(&t->text, json_string_value(content));
        return true;
    }
    if (!json_is_array(content)) return api_refuse(e, at, "content", "must be a string or an array of parts");
    json_array_foreach(content, i, block) {
        api_path(place, at, "content", i);
        if (!read_block(t, block, place, e)) return false;
    }
    return true;
}

static bool read_message(Chat *chat, const json_t *message, const char *at, ApiError *e) {
    const char *role;
    if (!json_is_object(message)) return api_refuse(e, at, "", "must be an object");
    if (!api_need_string(message, at, "role", &role, e)) return false;
    if (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 && strcmp(role, "system") != 0)
        return api_refuse(e, at, "role", "\"%.40s\" must be \"user\", \"assistant\" or \"system\"", role);
    Turn t  = {.chat = chat, .calls = json_array(), .role = *role};
    bool ok = t.calls != NULL ? read_blocks(&t, api_member(message, "content"), at, e) : api_no_memory(e);
    if (ok) ok = t.role == 'a' ? end_assistant(&t, e) : flush_text(&t, e);
    if (ok && t.role == 'u' && !t.any) ok = api_refuse(e, at, "content", "must not be empty");
    bytes_free(&t.text), bytes_free(&t.reasoning), json_decref(t.calls);
    return ok;
}

static bool read_messages(Chat *chat, const json_t *body, ApiError *e) {
    const json_t *messages = NULL, *message = NULL;
    size_t        i;
    char          at[API_PATH] = "";
    if (!api_read_tree(body, "", "messages", JSON_ARRAY, &messages, e)) return false;
    if (json_array_size(messages) == 0) return api_refuse(e, "", "messages", "must be an array that is not empty");
    json_array_foreach(messages, i, message) {
        api_path(at, "", "messages", i);
        if (!read_message(chat, message, at, e)) return false;
    }
    message = json_array_get(messages, json_array_size(messages) - 1);
    if (*json_string_value(json_object_get(message, "role")) != 'a') return true;
    message = json_array_get(json_object_get(chat->json, "messages"),
                             json_array_size(json_object_get(chat->json, "messages")) - 1);
    if (json_object_get(message, "tool_calls") != NULL)
        return api_refuse(e, at, "content", "the reply begins with the last message: it must have no \"tool_use\"");
    return api_set(chat->json, "continue_final_message", json_true()) || api_no_memory(e);
}

/* Tools with an input_schema. Those that name a type of Anthropic's own, such as web_search_20250305, are left out. */
static bool read_tools(Chat *chat, const json_t *body, ApiError *e) {
    const json_t *tools = NULL, *tool;
    size_t        i;
    char          at[API_PATH];
    if (!api_read_tree(body, "", "tools", JSON_ARRAY, &tools, e)) return false;
    json_array_foreach(tools, i, tool) {
        const char *type = "custom";
        api_path(at, "", "tools", i);
        if (!json_is_object(tool)) return api_refuse(e, at, "", "must be an object");
        if (!api_read_string(tool, at, "type", &type, e)) return false;
        if (strcmp(type, "custom") == 0 && !chat_add_tool(chat, tool, "input_schema", at, e)) return false;
    }
    return true;
}

static bool read_choice(Chat *chat, const json_t *body, ApiRequest *r, ApiError *e) {
    const json_t *choice = NULL;
    const char   *type, *name;
    bool          one = false;
    if (!api_read_tree(body, "", "tool_choice", JSON_OBJECT, &choice, e)) return false;
    if (choice == NULL) return true;
    if (!api_need_string(choice, "tool_choice", "type", &type, e) ||
        !api_read_bool(choice, "tool_choice", "disable_parallel_tool_use", &one, e))
        return false;
    r->one_call = one;
    json_t *converted;
    if (strcmp(type, "tool") == 0) {
        if (!api_need_string(choice, "tool_choice", "name", &name, e)) return false;
        converted = json_pack("{s:s, s:s}", "type", "function", "name", name);
    } else if (strcmp(type, "auto") == 0 || strcmp(type, "none") == 0) {
        converted = json_string(type);
    } else if (strcmp(type, "any") == 0) {
        converted = json_string("required");
    } else {
        return api_refuse(e, "tool_choice", "type", "must be \"auto\", \"any\", \"tool\" or \"none\"");
    }
    const bool ok = converted != NULL ? chat_choose(chat, converted, e) : api_no_memory(e);
    json_decref(converted);
    return ok;
}

/* {"type": "enabled", "budget_tokens": n}, "adaptive", "between_tools" or "disabled" */
static bool read_thinking(const json_t *body, ApiRequest *r, ApiError *e) {
    const json_t *thinking = NULL;
    const char   *type;
    int64_t       budget = 0;
    if (!api_read_tree(body, "", "thinking", JSON_OBJECT, &thinking, e)) return false;
    if (thinking == NULL) return true;
    if (!api_need_string(thinking, "thinking", "type", &type, e) ||
        !api_read_whole(thinking, "thinking", "budget_tokens", 1, INT32_MAX, &budget, e))
        return false;
    const bool on = strcmp(type, "enabled") == 0;
    if (!on && strcmp(type, "adaptive") != 0 && strcmp(type, "between_tools") != 0 && strcmp(type, "disabled") != 0)
        return api_refuse(e, "thinking", "type",
                          "must be \"enabled\", \"adaptive\", \"between_tools\" or \"disabled\"");
    if (on && budget == 0) return api_refuse(e, "thinking", "budget_tokens", "must be given");
    if (on && json_object_get(r->chat, "continue_final_message") != NULL)
        return api_refuse(e, "thinking", "type", "must not be \"enabled\" if the last message is of the assistant");
    if (on) r->reasoning_budget = (int32_t)budget;
    return api_set(r->chat, "enable_thinking", json_boolean(*type != 'd')) || api_no_memory(e);
}

static bool read_output(Chat *chat, const json_t *body, ApiError *e) {
    const json_t *output = NULL;
    const char   *effort = NULL;
    return api_read_tree(body, "", "output_config", JSON_OBJECT, &output, e) &&
           api_read_string(output, "output_config", "effort", &effort, e) &&
           chat_answer_format(chat, api_member(output, "format"), "output_config.format", e) &&
           chat_variables(chat, body, effort, e);
}

static bool read_counted(Chat *chat, const json_t *body, ApiRequest *r, ApiError *e) {
    if (json_array_size(json_object_get(body, "mcp_servers")) > 0)
        return api_refuse(e, "", "mcp_servers", "is not supported");
    if (!api_read_common(body, r, e) || !api_read_limit(body, "max_tokens", NULL, r, e) ||
        !api_read_stop(body, "stop_sequences", r, e) || !read_system(chat, body, e) || !read_messages(chat, body, e) ||
        !read_tools(chat, body, e) || !read_choice(chat, body, r, e) || !read_output(chat, body, e))
        return false;
    r->n = 1;
    return read_thinking(body, r, e);
}

static bool read_request(Chat *chat, const json_t *body, ApiRequest *r, ApiError *e) {
    if (api_member(body, "max_tokens") == NULL) return api_refuse(e, "", "max_tokens", "must be given");
    return read_counted(chat, body, r, e);
}

bool api_messages_parse(const ApiFormat *format, const json_t *body, const ApiRequest *defaults, ApiRequest *out,
                        ApiError *error) {
    api_request_begin(format, defaults, out);
    return chat_read(read_request, body, out, error);
}

bool api_count_tokens_parse(const json_t *body, const ApiRequest *defaults, ApiRequest *out, ApiError *error) {
    api_request_begin(NULL, defaults, out);
    return chat_read(read_counted, body, out, error);
}
