/* chat_template.h - what a template says of replies. */
#ifndef MODEL_CHAT_CHAT_TEMPLATE_H
#define MODEL_CHAT_CHAT_TEMPLATE_H

#include "reprise/chat.h"

RpReplyFormat rp_chat_template_format_of_replies(const RpChatTemplate *t);
bool          rp_chat_template_has_tools(const RpChatTemplate *t); /* its text has the word "tools" */

#endif
