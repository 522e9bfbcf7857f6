/* show.h - prints a reply of a chat while it comes: text, reasoning, and tool calls as NAME(ARGUMENTS). */
#ifndef CLI_CHAT_SHOW_H
#define CLI_CHAT_SHOW_H

#include "reprise/chat.h"

#include <stdbool.h>

/* Initialise `screen` to `hide`, the rest to zero. */
typedef struct Show {
    bool             screen;       /* stdout is a terminal: reasoning is dimmed */
    bool             to_stderr;    /* without a screen the reasoning goes to stderr; else it is left out */
    bool             hide;         /* no reasoning at all */
    bool             any, written; /* an event was shown; `written`: something was printed on stdout */
    bool             styled;       /* stdout is dimmed */
    bool             error_open;   /* stderr has a line without its end */
    char             last;         /* last character on stdout */
    RpReplyEventKind kind;
} Show;

/* False if stdout is closed. */
bool cli_show_event(Show *s, const RpReplyEvent *e);

/* Ends the style and the line. */
void cli_show_end(Show *s);

#endif
