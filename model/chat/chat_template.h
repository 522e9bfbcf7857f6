/* chat_template.h - what a template says of replies. */
#ifndef MODEL_CHAT_CHAT_TEMPLATE_H
#define MODEL_CHAT_CHAT_TEMPLATE_H

#include "reprise/chat.h"

RpReplyFormat rp_chat_template_format_of_replies(const RpChatTemplate *t);
bool          rp_chat_template_has_tools(const RpChatTemplate *t); /* its text has the word "tools" */

/* The template for requests with tools, where a file has two (tokenizer.chat_template.tool_use); else t. */
const RpChatTemplate *rp_chat_template_for_tools(const RpChatTemplate *t);

/* A text that is a name, as "chatml", becomes the template of that name. RP_E_UNSUPPORTED for an unknown one. */
RP_NODISCARD RpStatus rp_named_template(const char *path, RpGgufString *text);

#endif
