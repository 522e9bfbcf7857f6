/* paste.h - text that is pasted into the line editor. The terminal marks it (bracketed paste), so that its line ends do
 * not end the line:
 *
 *     one line        is typed into the line
 *     several lines   are kept; the line shows [paste 1: 12 lines], which is replaced when the line ends */
#ifndef CLI_CHAT_PASTE_H
#define CLI_CHAT_PASTE_H

#include <stdbool.h>
#include <stdio.h>

/* Before the first line: `on` if the program catches Ctrl-C and other signals (terminal/interrupt.h). They then end
 * the line. */
void cli_paste_catches(bool on);

/* Call them around each line: the terminal marks pasted text only between them. Ctrl-C between them ends the program,
 * unless it is caught. */
void cli_paste_on(void);
void cli_paste_off(void);

/* The next character for the editor, as rl_getc_function; -1 at the end. */
int cli_paste_getc(FILE *in);

/* Puts the pasted texts into a line of *n bytes, malloc, which it may free. NULL: out of memory. Forgets the texts. */
char *cli_paste_expand(char *line, size_t *n);

#endif
