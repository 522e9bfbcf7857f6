/* turns.h - ApiRequest.chat is built: the messages, tools and variables of rp_chat_generate (reprise/chat.h), which are
 * those of OpenAI's chats. Formats of other forms are converted. */
#ifndef SERVER_API_TURNS_H
#define SERVER_API_TURNS_H

#include "server/api/json.h"

/* {"messages": []}; NULL: out of memory */
json_t *chat_new(void);

/* Appends {"role": role, "content": text}. System messages at the begin become one, with an empty line between. NULL:
 * out of memory; else borrowed. */
json_t *chat_add(json_t *chat, const char *role, const char *text);

/* The same for a user. Messages in a row become one likewise: many templates want users and assistants in turn. */
json_t *chat_add_user(json_t *chat, const char *text);

/* The last message, if it is one of the assistant; else a new one without text. NULL: out of memory. */
json_t *chat_assistant(json_t *chat);

/* Appends a call to the message of an assistant. Arguments are JSON; empty ones are "{}". */
bool chat_add_call(json_t *message, const char *id, const char *name, const char *arguments);

/* Arguments of a call: JSON of an object, or empty. */
bool chat_check_arguments(const char *arguments, const char *at, const char *name, ApiError *e);

/* The id of a result must be that of a call before. */
bool chat_check_result(const json_t *chat, const char *id, const char *at, const char *name, ApiError *e);

/* Appends a tool {"type": "function", "function": ...} with the members name, description, parameters and strict of
 * `from`, where the parameters are called `schema`. */
bool chat_add_tool(json_t *chat, const json_t *from, const char *schema, const char *at, ApiError *e);

/* Sets tool_choice. OpenAI's forms of chats and of responses, and null. allowed_tools takes the others away. Call it
 * behind the tools. */
bool chat_choose(json_t *chat, const json_t *choice, ApiError *e);

/* {"type": "text" | "json_object" | "json_schema", ...}: a response_format of chats, or the text.format of responses,
 * which has name and schema beside the type. `at` is the path of it. */
bool chat_answer_format(json_t *chat, const json_t *format, const char *at, ApiError *e);

/* Members of chat_template_kwargs, reasoning_effort and a budget of 0 as variables of the template. `effort` may be
 * NULL. */
bool chat_variables(json_t *chat, const json_t *body, const char *effort, ApiError *e);

#endif
