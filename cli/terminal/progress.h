/* progress.h - one line on stderr that tells how far a command is, while it works.
 *
 *   Progress p = {.label = "verifying", .off = args.quiet};
 *   for (i = 0; i < n; i++) { ...; if (!cli_progress(&p, i + 1, n)) break; }
 *   cli_progress_end(&p);
 *
 * The line is rewritten in place and erased at the end. Nothing is printed if stderr is no terminal. */
#ifndef CLI_TERMINAL_PROGRESS_H
#define CLI_TERMINAL_PROGRESS_H

#include "reprise/status.h"

#include <stdbool.h>

typedef struct Progress {
    const char *label;
    bool        off;
    char        step[80];                  /* text after the label */
    double      start, latest;             /* times of the first call of the step and of the last drawing */
    bool        started, shown, can_print; /* can_print: stderr is a terminal */
} Progress;

/* Draws the share of the step that is done and the time left, if the step takes more than half a second. False after
 * a signal that is caught (cli_catch_interrupts, cli_catch_termination). */
bool cli_progress(Progress *p, double done, double total);

/* Begins a step of unknown length and draws its name at once. Returns the same as cli_progress. */
bool cli_progress_step(Progress *p, const char *fmt, ...) RP_PRINTF(2, 3);

/* Erases the line. */
void cli_progress_end(Progress *p);

/* Erases the line that is on the screen, if any, before a message. */
void cli_progress_clear(void);

#endif
