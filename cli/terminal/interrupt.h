/* interrupt.h - signals that ask a command to end. */
#ifndef CLI_TERMINAL_INTERRUPT_H
#define CLI_TERMINAL_INTERRUPT_H

#include <stdbool.h>

/* From here on Ctrl-C sets a flag that the commands poll; a second Ctrl-C while it is set ends the program. */
void cli_catch_interrupts(void);
/* The same for SIGTERM and, without nohup, SIGHUP: for commands that write files, whose temporary file they
 * remove. */
void cli_catch_termination(void);
/* Waits until fd can be read or has ended: true. false: a signal is or was caught. */
bool cli_wait_for_input(int fd);
bool cli_interrupted(void);      /* true after a signal */
int  cli_interrupt_signal(void); /* the signal that was caught; 0: none */
void cli_forget_interrupt(void); /* forgets Ctrl-C, for the next reply of a chat; SIGTERM and SIGHUP stay */

#endif
