/* The messages and calls of a chat (turns.h). */
#include "server/api/turns.h"

#include <string.h>

static bool has_role(const json_t *message, const char *role) {
    const char *has = json_string_value(json_object_get(message, "role"));
    return has != NULL && strcmp(has, role) == 0;
}

/* Makes the joined texts the content of their message. */
static bool flush(Chat *chat) {
    const bool ok =
        chat->joining == NULL ||
        (!chat->joined.failed && api_set(chat->joining, "content", json_stringn(chat->joined.p, chat->joined.n)));
    chat->joining = NULL;
    bytes_clear(&chat->joined);
    return ok;
}

/* Joins a text to the content of the last message. */
static json_t *join(Chat *chat, json_t *message, const char *text) {
    if (chat->joining == NULL) bytes_text(&chat->joined, json_string_value(json_object_get(message, "content")));
    chat->joining = message;
    bytes_text(&chat->joined, "\n\n");
    bytes_text(&chat->joined, text);
    return chat->joined.failed ? NULL : message;
}

static json_t *last_message(const Chat *chat) {
    const json_t *messages = json_object_get(chat->json, "messages");
    const size_t  n        = json_array_size(messages);
    return n > 0 ? json_array_get(messages, n - 1) : NULL;
}

json_t *chat_add(Chat *chat, const char *role, const char *text) {
    json_t *messages = json_object_get(chat->json, "messages");
    if (json_array_size(messages) == 1 && strcmp(role, "system") == 0 && has_role(last_message(chat), "system"))
        return join(chat, last_message(chat), text);
    if (!flush(chat)) return NULL;
    json_t *message = json_pack("{s:s, s:s}", "role", role, "content", text);
    return json_array_append_new(messages, message) == 0 ? message : NULL;
}

json_t *chat_add_user(Chat *chat, const char *text) {
    json_t *last = last_message(chat);
    return last != NULL && has_role(last, "user") ? join(chat, last, text) : chat_add(chat, "user", text);
}

json_t *chat_add_system(Chat *chat, const char *text) {
    const json_t *last = last_message(chat);
    return last == NULL || has_role(last, "system") ? chat_add(chat, "system", text) : chat_add_user(chat, text);
}

json_t *chat_assistant(Chat *chat) {
    json_t *last = last_message(chat);
    return last != NULL && has_role(last, "assistant") ? last : chat_add(chat, "assistant", "");
}

bool chat_add_call(Chat *chat, json_t *message, const char *id, const char *name, const char *arguments) {
    json_t *calls = json_object_get(message, "tool_calls");
    if (!api_set(chat->calls, id, json_true())) return false;
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

bool chat_check_result(const Chat *chat, const char *id, const char *at, const char *name, ApiError *e) {
    return json_object_get(chat->calls, id) != NULL ||
           api_refuse(e, at, name, "no call before it has the id \"%.60s\"", id);
}

bool chat_read(bool (*read)(Chat *chat, const json_t *body, ApiRequest *r, ApiError *e), const json_t *body,
               ApiRequest *r, ApiError *e) {
    r->kind   = API_CHAT;
    r->chat   = json_pack("{s:[]}", "messages");
    Chat chat = {.json = r->chat, .calls = json_object(), .tools = json_object()};
    bool ok   = (chat.json != NULL && chat.calls != NULL && chat.tools != NULL) || api_no_memory(e);
    if (ok) ok = read(&chat, body, r, e);
    if (ok) ok = flush(&chat) || api_no_memory(e);
    json_decref(chat.calls), json_decref(chat.tools);
    bytes_free(&chat.joined);
    if (!ok) api_request_free(r);
    return ok;
}
