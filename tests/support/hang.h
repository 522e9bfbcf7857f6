/* hang.h - ends a test that hangs. No test passes or fails by how long it takes: the limit is far above what a busy
 * machine needs, and REPRISE_TEST_HANG_S replaces it. */
#ifndef TESTS_HANG_H
#define TESTS_HANG_H

#include <stdlib.h>
#include <unistd.h>

static inline unsigned hang_seconds(void) {
    const char *s = getenv("REPRISE_TEST_HANG_S");
    return s != NULL && atoi(s) > 0 ? (unsigned)atoi(s) : 600;
}

/* The process is ended by SIGALRM. */
static inline void end_if_it_hangs(void) { (void)alarm(hang_seconds()); }

#endif
