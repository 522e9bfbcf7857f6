/* input.h - reads messages of a chat from a terminal, with line editing, or from a pipe. */
#ifndef CLI_CHAT_INPUT_H
#define CLI_CHAT_INPUT_H

#include "reprise/status.h"

#include <stdbool.h>

typedef struct Input {
    bool terminal;
    bool marks;   /* the terminal marks what is pasted: bracketed paste */
    bool utf8;    /* other bytes are refused */
    bool catches; /* Ctrl-C, SIGTERM and SIGHUP end the input instead of the program, which writes files at its end */
    /* The i-th command to complete, with its slash; NULL behind the last one. */
    const char *(*command)(int i);
} Input;

typedef struct InputText {
    char *text;  /* malloc; NULL: the input has ended */
    bool  block; /* between lines of """, or pasted in several lines: never a command */
    bool  bad;   /* it cannot be sent, which was reported; `text` is "" */
} InputText;

/* Reads a message: a line, lines that are joined by a backslash at their ends, or the lines between two lines of """.
 * Several lines that are pasted into the line editor are part of one message. The prompt is shown on a terminal only.
 * Ctrl-C at the prompt ends the program, or the input (Input.catches). The caller frees out->text. RP_E_IO if standard
 * input cannot be read, RP_E_NOMEM. */
RP_NODISCARD RpStatus cli_chat_read(const Input *in, const char *prompt, InputText *out);

#endif
