/* turns.h - builds ApiRequest.chat: the messages, tools and variables of rp_chat_generate (reprise/chat.h), which are
 * those of OpenAI's chats. Other formats are converted. */
#ifndef SERVER_API_TURNS_H
#define SERVER_API_TURNS_H

#include "server/api/json.h"

/* A chat while it is read. The sets make each look-up independent of the length of the request. */
typedef struct Chat {
    json_t *json;    /* {"messages": [...], ...}, borrowed from the request */
    json_t *calls;   /* the ids of calls so far, as members */
    json_t *tools;   /* the names of tools, each with its index */
    json_t *joining; /* the last message, if more texts were joined to it; borrowed */
    Bytes   joined;  /* its content */
} Chat;

/* Reads a body by `read`, with a chat that is begun and ended. After a failure the request is freed. */
bool chat_read(bool (*read)(Chat *chat, const json_t *body, ApiRequest *r, ApiError *e), const json_t *body,
               ApiRequest *r, ApiError *e);

/* Appends {"role": role, "content": text}. System messages at the begin become one, with an empty line between. NULL:
 * out of memory; else borrowed. */
json_t *chat_add(Chat *chat, const char *role, const char *text);

/* The same for a user. Messages of a user in a row become one, because many templates want users and assistants in
 * turn. */
json_t *chat_add_user(Chat *chat, const char *text);

/* A system message. After messages of other roles it becomes a user message, because many templates refuse it there. */
json_t *chat_add_system(Chat *chat, const char *text);

/* The last message, if it is one of the assistant; else a new one without text. NULL: out of memory. */
json_t *chat_assistant(Chat *chat);

/* Appends a call to the message of an assistant. Arguments are JSON; empty ones are "{}". */
bool chat_add_call(Chat *chat, json_t *message, const char *id, const char *name, const char *arguments);

/* Arguments of a call: JSON of an object, or empty. */
bool chat_check_arguments(const char *arguments, const char *at, const char *name, ApiError *e);

/* The id of a result must be that of a call before. */
bool chat_check_result(const Chat *chat, const char *id, const char *at, const char *name, ApiError *e);

/* Appends a tool {"type": "function", "function": ...} with the members name, description, parameters and strict of
 * `from`, where the parameters are called `schema`. */
bool chat_add_tool(Chat *chat, const json_t *from, const char *schema, const char *at, ApiError *e);

/* Sets tool_choice. OpenAI's forms of chats and of responses, and null. allowed_tools takes the others away. Call it
 * behind the tools. */
bool chat_choose(Chat *chat, const json_t *choice, ApiError *e);

/* A response_format of `type`, "grammar" (GBNF) or "regex". */
bool chat_answer_text(Chat *chat, const char *type, const char *text, ApiError *e);

/* {"type": "text" | "json_object" | "json_schema" | "grammar" | "regex", ...}: a response_format of chats, or the
 * text.format of responses, which has name and schema beside the type. `at` is the path of it. */
bool chat_answer_format(Chat *chat, const json_t *format, const char *at, ApiError *e);

/* Members of chat_template_kwargs, reasoning_effort and a budget of 0 as variables of the template. `effort` may be
 * NULL. */
bool chat_variables(Chat *chat, const json_t *body, const char *effort, ApiError *e);

#endif
