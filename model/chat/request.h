/* request.h - requests of chats: what is checked, and the JSON that a template gets. */
#ifndef MODEL_CHAT_REQUEST_H
#define MODEL_CHAT_REQUEST_H

#include "base/text/json_read.h"
#include "model/chat/json_write.h"

/* The shapes of messages, tools and tool_choice. RP_E_FORMAT for wrong types, RP_E_ARG for a history that does not
 * fit; the text names the index. *tools: there are some, and tool_choice is not "none". */
RP_NODISCARD RpStatus rp_request_check(const Json *j, bool *tools);

/* A call of a message: of the form of OpenAI, or flat. */
typedef struct RequestCall {
    const JsonNode *id, *name, *arguments; /* NULL: there is none */
} RequestCall;
RequestCall rp_request_call(const Json *j, const JsonNode *call);

/* What is written instead of the arguments of the i-th call of the whole conversation; NULL: nothing. */
typedef struct RequestStyle {
    const char *const *instead;
    bool               strings; /* arguments as the text of a string, not as an object */
    bool               empty;   /* content of a message with calls that is null becomes "" */
    bool               tools;
} RequestStyle;

/* The variables of the template: tools in the form of OpenAI, arguments as the style says. */
RP_NODISCARD RpStatus rp_request_write(const Json *j, const RequestStyle *style, JsonOut *out);

#endif
