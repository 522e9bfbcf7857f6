/* message.h - the output of a command: errors and warnings on stderr, text on stdout, and the exit status. */
#ifndef CLI_TERMINAL_MESSAGE_H
#define CLI_TERMINAL_MESSAGE_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_USAGE = 2 };

/* Print "who: text" as one line on stderr; control characters in the text become \xNN. An error and a warning differ in
 * colour only. */
void cli_say(const char *who, const char *fmt, ...) RP_PRINTF(2, 3);
void cli_warn(const char *fmt, ...) RP_PRINTF(1, 2); /* who: reprise */

/* The exit status of a command that ends with `status`. A failure prints the text of rp_last_error, unless a signal
 * caused it; the exit status is 128 + the signal then. */
int cli_exit(RpStatus status);

/* The text as rp_visible_text shows it; the caller frees. NULL if out of memory. */
char *cli_visible(const char *text, size_t n);

/* Writes to stdout and flushes, on a terminal with control characters made visible. False if this or an earlier write
 * failed. */
bool cli_print(const char *text, size_t len);

/* Flushes stdout and returns the final exit status: EXIT_ERROR if a write failed, 128 + the signal if a signal that is
 * caught ended it. Silent for a closed pipe (EPIPE). */
int cli_close_stdout(int exit_status);

/* Prints at most `max` bytes, control characters and quotes escaped as in C; then "..." if some were left out. */
void cli_print_escaped(FILE *out, const char *bytes, size_t n, size_t max);

#endif
