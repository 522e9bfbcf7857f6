/* The median by sorting, as the number of samples is small. */
#include "executor/median.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double rp_median(double *samples, int n) {
    qsort(samples, (size_t)n, sizeof *samples, by_value);
    return n % 2 ? samples[n / 2] : 0.5 * (samples[n / 2 - 1] + samples[n / 2]);
}
