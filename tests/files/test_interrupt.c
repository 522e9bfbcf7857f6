/* The wait of `chat` for input (cli/terminal/interrupt.c): a signal ends it, whether it comes before the wait or
 * during it, and a forgotten one does not. */
#include "tests/support/case.h"

#include <criterion/criterion.h>

#include "cli/terminal/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static int input[2];

/* A wait that a signal does not end is ended by this one, so that the test fails instead of hanging. */
static void begin(void) {
    cr_assert_eq(pipe(input), 0);
    cli_catch_termination();
    alarm(60);
}

static void end(void) {
    alarm(0);
    close(input[0]);
    close(input[1]);
}

TestSuite(interrupt, .init = begin, .fini = end);

static void *interrupt_later(void *main_thread) {
    usleep(50000);
    pthread_kill(*(pthread_t *)main_thread, SIGINT);
    return NULL;
}

Test(interrupt, a_signal_before_the_wait_ends_it) {
    raise(SIGINT);
    cr_expect(!cli_wait_for_input(input[0]));
    cr_expect_eq(cli_interrupt_signal(), SIGINT);
}

Test(interrupt, a_signal_during_the_wait_ends_it) {
    pthread_t self = pthread_self(), other;
    cr_assert_eq(pthread_create(&other, NULL, interrupt_later, &self), 0);
    cr_expect(!cli_wait_for_input(input[0]));
    pthread_join(other, NULL);
}

/* A signal that another thread handles does not interrupt this one. */
static void *interrupt_here(void *unused) {
    (void)unused;
    usleep(50000);
    raise(SIGINT);
    return NULL;
}

Test(interrupt, a_signal_in_another_thread_ends_the_wait) {
    pthread_t other;
    cr_assert_eq(pthread_create(&other, NULL, interrupt_here, NULL), 0);
    cr_expect(!cli_wait_for_input(input[0]));
    pthread_join(other, NULL);
}

Test(interrupt, a_forgotten_signal_does_not_end_the_wait) {
    for (int i = 0; i < 40; i++) { /* more than are read at a time */
        raise(SIGINT);
        cli_forget_interrupt();
    }
    cr_assert_eq(write(input[1], "x", 1), 1);
    cr_expect(cli_wait_for_input(input[0]));
    raise(SIGTERM);
    cli_forget_interrupt(); /* of Ctrl-C alone */
    cr_expect(!cli_wait_for_input(input[0]));
}

Test(interrupt, the_end_of_the_input_ends_the_wait) {
    close(input[1]);
    input[1] = dup(input[0]);
    cr_expect(cli_wait_for_input(input[0]));
    cr_expect(!cli_interrupted());
}
