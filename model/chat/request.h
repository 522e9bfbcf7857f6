/* request.h - requests of chats: what is checked, and the JSON that a template gets. */
#ifndef MODEL_CHAT_REQUEST_H
#define MODEL_CHAT_REQUEST_H

#include "base/text/json_read.h"
#include "model/chat/json_write.h"
#include "reprise/chat.h"

/* The shapes of messages, tools and tool_choice. RP_E_FORMAT for wrong types, RP_E_ARG for a history that does not
 * fit; the text names the index. *tools: there are some, and tool_choice is not "none". */
RP_NODISCARD RpStatus rp_request_check(const Json *j, bool *tools);

/* A call of a message: of the form of OpenAI, or flat. */
typedef struct RequestCall {
    const JsonNode *id, *name, *arguments; /* NULL: there is none */
} RequestCall;
RequestCall rp_request_call(const Json *j, const JsonNode *call);

/* The last message if the reply goes on from it, else NULL: {"continue_final_message": true}. */
const JsonNode *rp_request_begun(const Json *j);

/* The text of that message that the reply goes on from: its content, else its reasoning_content. NULL: both are
 * empty. */
const JsonNode *rp_request_begun_text(const Json *j, const JsonNode *message);

/* The text of a response_format {"type": "grammar", "grammar": GBNF} or {"type": "regex", "regex": EXPRESSION};
 * *is_gbnf says which. False: it has another type. */
bool rp_request_answer_text(const Json *j, const JsonNode *format, RpGgufString *text, bool *is_gbnf);

/* What is written instead of the arguments of the i-th call of the whole conversation; NULL: nothing. */
typedef struct RequestStyle {
    const char *const *instead;
    bool               strings; /* arguments as the text of a string, not as an object */
    bool               empty;   /* content of a message with calls that is null becomes "" */
    bool               tools;
    const JsonNode    *begun;        /* the message that begins the reply, or NULL */
    const char        *begun_marker; /* in place of its text; NULL: the template does not get the message */
} RequestStyle;

/* begun.c: appends the text of that message to a prompt that ends where the reply begins (whole), or where the text of
 * its marker was, and sets in_reasoning and continues of `out`, whose format is set. RP_E_ARG for reasoning in a model
 * without; RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_request_put_begun(const Json *j, bool whole, char **text, bool **control, RpChatPrompt *out);

/* A tool in the form of OpenAI, whatever form it has. */
void rp_request_write_tool(const Json *j, const JsonNode *tool, JsonOut *out);

/* The variables of the template: tools in the form of OpenAI, arguments as the style says. */
RP_NODISCARD RpStatus rp_request_write(const Json *j, const RequestStyle *style, JsonOut *out);

#endif
