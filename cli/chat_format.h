/* chat_format.h - makes the text of a conversation by a chat template: the template of the model, the template in a
 * file, a named format, or none. */
#ifndef CLI_CHAT_FORMAT_H
#define CLI_CHAT_FORMAT_H

#include "cli/common.h"

/* Zero-initialise it. */
typedef struct ChatFormat {
    RpChatTemplate *program; /* NULL: the format `kind` */
    RpChatKind      kind;
    const char     *name;   /* to be shown; borrowed */
    char           *source; /* of the program, malloc; NULL: it is the model's */
} ChatFormat;

/* `name`: NULL for the model's template, a named format, or the path of a file. `none`: messages and replies are
 * concatenated as they are. */
RP_NODISCARD RpStatus cli_chat_format_open(const RpModel *m, const char *name, bool none, ChatFormat *out);
void                  cli_chat_format_free(ChatFormat *f);

/* The source of a template: of a named format, or the contents of the file `name`. The caller frees *out. */
RP_NODISCARD RpStatus cli_chat_source(const char *name, char **out);

/* As rp_chat_template_format. */
RP_NODISCARD RpStatus cli_chat_text(const ChatFormat *f, const RpChatMessage *messages, size_t n, char **text,
                                    bool **control);

#endif
