/* Tools, the choice among them, the format of answers and the variables of the template (turns.h). */
#include "server/api/turns.h"

#include <string.h>

static bool check_name(const Chat *chat, const char *name, const char *at, ApiError *e) {
    for (const char *c = name; *c != '\0'; c++)
        if ((unsigned char)*c <= ' ' || strchr("\"'<>(){}[]=,:;", *c) != NULL)
            return api_refuse(e, at, "name", "\"%.60s\" has a character that names of tools cannot have", name);
    return json_object_get(chat->tools, name) == NULL ||
           api_refuse(e, at, "name", "there are two tools \"%.60s\"", name);
}

bool chat_add_tool(Chat *chat, const json_t *from, const char *schema, const char *at, ApiError *e) {
    const char   *name, *text = NULL;
    const json_t *parameters = NULL;
    bool          strict     = false;
    json_t       *function, *tool;
    if (json_object_get(chat->json, "tools") == NULL && !api_set(chat->json, "tools", json_array()))
        return api_no_memory(e);
    if (!api_need_string(from, at, "name", &name, e) || !check_name(chat, name, at, e) ||
        !api_read_string(from, at, "description", &text, e) || !api_read_bool(from, at, "strict", &strict, e) ||
        !api_read_tree(from, at, schema, JSON_OBJECT, &parameters, e))
        return false;
    function = json_pack("{s:s}", "name", name);
    if ((text != NULL && !api_set(function, "description", json_string(text))) ||
        (parameters != NULL && !api_set(function, "parameters", json_deep_copy(parameters))) ||
        (strict && !api_set(function, "strict", json_true()))) {
        json_decref(function);
        return api_no_memory(e);
    }
    tool = json_pack("{s:s, s:o}", "type", "function", "function", function);
    return (json_array_append_new(json_object_get(chat->json, "tools"), tool) == 0 &&
            json_object_set(chat->tools, name, tool) == 0) ||
           api_no_memory(e);
}

/* The name in {"type": "function", "name": n} or {"type": "function", "function": {"name": n}}: a tool of the chat. */
static bool read_choice(const Chat *chat, const json_t *choice, const char *at, const char **name, ApiError *e) {
    const json_t *function = api_member(choice, "function");
    char          place[API_PATH];
    const char   *type = "";
    *name              = NULL;
    if (!json_is_object(choice)) return api_refuse(e, at, "", "must be an object");
    if (!api_read_string(choice, at, "type", &type, e)) return false;
    if (strcmp(type, "function") != 0)
        return api_refuse(e, at, "type", "\"%.40s\" is not supported, only \"function\"", type);
    strcpy(place, at);
    if (function != NULL) strncat(place, ".function", sizeof place - strlen(place) - 1);
    if (!api_need_string(function != NULL ? function : choice, place, "name", name, e)) return false;
    return json_object_get(chat->tools, *name) != NULL ||
           api_refuse(e, place, "name", "there is no tool \"%.60s\"", *name);
}

/* Moves the tools of a list to `left`. */
static bool take(Chat *chat, const json_t *list, const char *at, json_t *left, json_t *taken, ApiError *e) {
    const json_t *one;
    const char   *name;
    size_t        i;
    char          place[API_PATH];
    json_array_foreach(list, i, one) {
        api_path(place, at, "tools", i);
        if (!read_choice(chat, one, place, &name, e)) return false;
        if (json_object_get(taken, name) != NULL) continue;
        if (json_array_append(left, json_object_get(chat->tools, name)) != 0 || !api_set(taken, name, json_true()))
            return api_no_memory(e);
    }
    return true;
}

/* {"type": "allowed_tools", "mode": "auto" | "required", "tools": [...]}, in chats within a member allowed_tools. */
static bool allow(Chat *chat, const json_t *choice, ApiError *e) {
    const json_t *inner = api_member(choice, "allowed_tools"), *list = NULL;
    const char   *mode = "auto", *at = inner != NULL ? "tool_choice.allowed_tools" : "tool_choice";
    if (inner == NULL) inner = choice;
    if (!api_read_string(inner, at, "mode", &mode, e) || !api_read_tree(inner, at, "tools", JSON_ARRAY, &list, e))
        return false;
    if (strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0)
        return api_refuse(e, at, "mode", "must be \"auto\" or \"required\"");
    if (json_array_size(list) == 0) return api_refuse(e, at, "tools", "must be an array that is not empty");
    json_t *left = json_array(), *taken = json_object();
    bool    ok = take(chat, list, at, left, taken, e);
    if (ok) ok = api_set(chat->json, "tools", json_incref(left)) || api_no_memory(e);
    json_decref(left), json_decref(taken);
    return ok && (api_set(chat->json, "tool_choice", json_string(mode)) || api_no_memory(e));
}

bool chat_choose(Chat *chat, const json_t *choice, ApiError *e) {
    const char *word = json_string_value(choice), *type = json_string_value(json_object_get(choice, "type")), *name;
    if (choice == NULL) return true;
    if (word != NULL) {
        if (strcmp(word, "auto") != 0 && strcmp(word, "none") != 0 && strcmp(word, "required") != 0)
            return api_refuse(e, "", "tool_choice", "must be \"auto\", \"none\", \"required\", or name a function");
        if (*word == 'r' && json_array_size(json_object_get(chat->json, "tools")) == 0)
            return api_refuse(e, "", "tool_choice", "asks for a call, but there are no tools");
        if (json_array_size(json_object_get(chat->json, "tools")) == 0) return true;
        return api_set(chat->json, "tool_choice", json_string(word)) || api_no_memory(e);
    }
    if (!json_is_object(choice))
        return api_refuse(e, "", "tool_choice", "must be \"auto\", \"none\", \"required\", or name a function");
    if (type != NULL && strcmp(type, "allowed_tools") == 0) return allow(chat, choice, e);
    if (!read_choice(chat, choice, "tool_choice", &name, e)) return false;
    return api_set(chat->json, "tool_choice",
                   json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", name)) ||
           api_no_memory(e);
}

bool chat_answer_text(Chat *chat, const char *type, const char *text, ApiError *e) {
    return api_set(chat->json, "response_format", json_pack("{s:s, s:s}", "type", type, type, text)) ||
           api_no_memory(e);
}

/* {"type": "grammar", "grammar": "root ::= ..."} or {"type": "regex", "regex": "..."} */
static bool answer_text(Chat *chat, const json_t *format, const char *type, const char *at, ApiError *e) {
    const char *text = NULL;
    if (!api_read_string(format, at, type, &text, e)) return false;
    if (text == NULL || text[0] == '\0') return api_refuse(e, at, type, "must be a text that is not empty");
    return chat_answer_text(chat, type, text, e);
}

bool chat_answer_format(Chat *chat, const json_t *format, const char *at, ApiError *e) {
    const char   *type   = NULL;
    const json_t *schema = NULL, *inner = format;
    char          place[API_PATH];
    strcpy(place, at);
    if (format == NULL) return true;
    if (!json_is_object(format)) return api_refuse(e, at, "", "must be an object");
    if (!api_read_string(format, at, "type", &type, e)) return false;
    if (type != NULL && strcmp(type, "text") == 0) return true;
    if (type != NULL && (strcmp(type, "grammar") == 0 || strcmp(type, "regex") == 0))
        return answer_text(chat, format, type, at, e);
    const bool object = type != NULL && strcmp(type, "json_object") == 0;
    if (!object && (type == NULL || strcmp(type, "json_schema") != 0))
        return api_refuse(e, at, "type",
                          "must be \"text\", \"json_object\", \"json_schema\", \"grammar\" or \"regex\"");
    if (api_member(format, "json_schema") != NULL) {
        if (!api_read_tree(format, at, "json_schema", JSON_OBJECT, &inner, e)) return false;
        strncat(place, ".json_schema", sizeof place - strlen(place) - 1);
    }
    if (!api_read_tree(inner, place, "schema", JSON_OBJECT, &schema, e)) return false;
    if (schema == NULL && !object) return api_refuse(e, place, "schema", "must be a JSON schema, an object");
    if (schema == NULL)
        return api_set(chat->json, "response_format", json_pack("{s:s}", "type", "json_object")) || api_no_memory(e);
    return api_set(
               chat->json, "response_format",
               json_pack("{s:s, s:{s:o}}", "type", "json_schema", "json_schema", "schema", json_deep_copy(schema))) ||
           api_no_memory(e);
}

bool chat_variables(Chat *chat, const json_t *body, const char *effort, ApiError *e) {
    const json_t *all    = NULL;
    bool          none   = effort != NULL && strcmp(effort, "none") == 0;
    int64_t       budget = -1;
    const char   *name;
    json_t       *value;
    if (!api_read_tree(body, "", "chat_template_kwargs", JSON_OBJECT, &all, e) ||
        !api_read_whole(body, "", "reasoning_budget", -1, INT32_MAX, &budget, e) ||
        !api_read_whole(body, "", "thinking_budget_tokens", -1, INT32_MAX, &budget, e))
        return false;
    none |= budget == 0;
    if (none && !api_set(chat->json, "enable_thinking", json_false())) return api_no_memory(e);
    if (effort != NULL && !none && !api_set(chat->json, "reasoning_effort", json_string(effort)))
        return api_no_memory(e);
    if (all == NULL) return true;
    json_object_foreach(json_object_get(body, "chat_template_kwargs"), name, value) {
        static const char *const taken[] = {"messages",        "tools", "tool_choice",
                                            "response_format", "stop",  "max_tokens"};
        for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
            if (strcmp(name, taken[i]) == 0)
                return api_refuse(e, "chat_template_kwargs", name, "is a member of the request, not of the template");
        if (!api_set(chat->json, name, json_deep_copy(value))) return api_no_memory(e);
    }
    return true;
}
