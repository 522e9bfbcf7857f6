/* interrupt.c - the flag that SIGINT, SIGTERM and SIGHUP set.
 *
 * A read that waits for input ends with EINTR, but only if the signal comes while it waits. A signal just before it
 * would be noticed after the next line. So the handler also writes to a pipe, which cli_wait_for_input() polls. */
#include "cli/terminal/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static atomic_int interrupt; /* the signal that was caught, by any thread; 0: none */
static int        wake[2] = {-1, -1};

/* A second signal ends the program at once, with the status that shells use for it. _exit, since exit is not safe
 * here. */
static void on_interrupt(int signal_number) {
    const int saved = errno;
    if (interrupt) _exit(128 + signal_number);
    interrupt = signal_number;
    (void)!write(wake[1], "", 1);
    errno = saved;
}

/* Without a pipe only a signal that comes during a read ends it. */
static void make_pipe(void) {
    int fds[2];
    if (wake[0] >= 0 || pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) return;
    wake[0] = fds[0];
    wake[1] = fds[1];
}

bool cli_wait_for_input(int fd) {
    struct pollfd of[2] = {
        {.fd = fd,      .events = POLLIN},
        {.fd = wake[0], .events = POLLIN}
    };
    char bytes[16];
    while (!interrupt) {
        if (poll(of, 2, -1) < 0 && errno != EINTR) return true; /* the read will say why */
        if (of[0].revents != 0) return !interrupt;
        while (of[1].revents != 0 && read(wake[0], bytes, sizeof bytes) > 0) {
        } /* of this signal, or of one that was forgotten */
    }
    return false;
}

/* Without SA_RESTART, so that Ctrl-C ends a read from the terminal with EINTR. */
void cli_catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    make_pipe();
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
