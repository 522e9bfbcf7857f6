/* interrupt.c - the flag that SIGINT, SIGTERM and SIGHUP set. */
#include "cli/terminal/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t interrupt; /* the signal that was caught; 0: none */

/* A second signal ends the program at once, with the status that shells use for it. _exit, since exit is not safe
 * here. */
static void on_interrupt(int signal_number) {
    if (interrupt) _exit(128 + signal_number);
    interrupt = signal_number;
}

/* Without SA_RESTART, so that Ctrl-C ends a read from the terminal with EINTR. */
void cli_catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

void cli_catch_termination(void) {
    struct sigaction action = {.sa_handler = on_interrupt}, old;
    cli_catch_interrupts();
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    /* nohup ignores SIGHUP, and it must stay ignored. */
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
}

bool cli_interrupted(void) { return interrupt != 0; }
int  cli_interrupt_signal(void) { return interrupt; }

/* SIGTERM and SIGHUP stay. */
void cli_forget_interrupt(void) {
    if (interrupt == SIGINT) interrupt = 0;
}
