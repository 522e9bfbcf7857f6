/* clock.c - the monotonic clock of the system. */
#include "cli/terminal/clock.h"

#include <time.h>

static double start_time; /* of main, as cli_now */

double cli_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void   cli_start_clock(void) { start_time = cli_now(); }
double cli_since_start(void) { return cli_now() - start_time; }
