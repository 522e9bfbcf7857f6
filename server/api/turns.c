/* The messages and calls of a chat (turns.h). */
#include "server/api/turns.h"

#include <string.h>

json_t *chat_new(void) { return json_pack("{s:[]}", "messages"); }

static bool has_role(const json_t *message, const char *role) {
    const char *has = json_string_value(json_object_get(message, "role"));
    return has != NULL && strcmp(has, role) == 0;
}

/* Joins a text to the content of a message. */
static bool extend(json_t *message, const char *text) {
    const json_t *old = json_object_get(message, "content");
    Bytes         all = {0};
    bytes_text(&all, json_string_value(old));
    bytes_text(&all, "\n\n");
    bytes_text(&all, text);
    const bool ok = !all.failed && api_set(message, "content", json_stringn(all.p, all.n));
    bytes_free(&all);
    return ok;
}

json_t *chat_add(json_t *chat, const char *role, const char *text) {
    json_t      *messages = json_object_get(chat, "messages");
    const size_t n        = json_array_size(messages);
    if (n == 1 && strcmp(role, "system") == 0 && has_role(json_array_get(messages, 0), "system"))
        return extend(json_array_get(messages, 0), text) ? json_array_get(messages, 0) : NULL;
    json_t *message = json_pack("{s:s, s:s}", "role", role, "content", text);
    return json_array_append_new(messages, message) == 0 ? message : NULL;
}

json_t *chat_add_user(json_t *chat, const char *text) {
    const json_t *messages = json_object_get(chat, "messages");
    const size_t  n        = json_array_size(messages);
    json_t       *last     = n > 0 ? json_array_get(messages, n - 1) : NULL;
    if (last == NULL || !has_role(last, "user")) return chat_add(chat, "user", text);
    return extend(last, text) ? last : NULL;
}

json_t *chat_assistant(json_t *chat) {
    const json_t *messages = json_object_get(chat, "messages");
    const size_t  n        = json_array_size(messages);
    if (n > 0 && has_role(json_array_get(messages, n - 1), "assistant")) return json_array_get(messages, n - 1);
    return chat_add(chat, "assistant", "");
}

bool chat_add_call(json_t *message, const char *id, const char *name, const char *arguments) {
    json_t *calls = json_object_get(message, "tool_calls");
    if (calls == NULL) {
        if (!api_set(message, "tool_calls", json_array())) return false;
        calls = json_object_get(message, "tool_calls");
    }
    return json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function",
                                                  "name", name, "arguments", *arguments == '\0' ? "{}" : arguments)) ==
           0;
}

bool chat_check_arguments(const char *arguments, const char *at, const char *name, ApiError *e) {
    if (*arguments == '\0') return true;
    json_error_t why;
    json_t      *value = json_loads(arguments, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &why);
    const bool   ok    = json_is_object(value);
    if (value == NULL && why.line < 0) return api_no_memory(e);
    json_decref(value);
    return ok || api_refuse(e, at, name, "must be the JSON of an object");
}

bool chat_check_result(const json_t *chat, const char *id, const char *at, const char *name, ApiError *e) {
    const json_t *messages = json_object_get(chat, "messages"), *message, *call;
    size_t        i, k;
    json_array_foreach(messages, i, message) {
        json_array_foreach(json_object_get(message, "tool_calls"), k, call) {
            const char *has = json_string_value(json_object_get(call, "id"));
            if (has != NULL && strcmp(has, id) == 0) return true;
        }
    }
    return api_refuse(e, at, name, "no call before it has the id \"%.60s\"", id);
}
