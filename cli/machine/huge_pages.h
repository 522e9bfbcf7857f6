/* huge_pages.h - how much of a model's weights is on huge pages (docs/cpu.md). */
#ifndef CLI_MACHINE_HUGE_PAGES_H
#define CLI_MACHINE_HUGE_PAGES_H

#include "reprise/reprise.h"

#include <stdio.h>

/* The share of the weights that this process has mapped on huge pages, 0 to 1: pages count from their first use on.
 * -1 if the system does not tell (Linux does, in /proc/self/smaps). */
double cli_huge_share(const RpModel *m);

/* The same from a file in the format of /proc/PID/smaps. */
double cli_huge_share_in(FILE *smaps, const RpGgufFile *f);

#endif
