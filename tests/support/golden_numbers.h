/* golden_numbers.h - lines "<what> <number> <number> ..." of golden files. */
#ifndef TESTS_SUPPORT_GOLDEN_NUMBERS_H
#define TESTS_SUPPORT_GOLDEN_NUMBERS_H

#include "tests/support/golden.h"

#include <math.h>

/* The numbers of the next line, which begins with `what`, at most `room`. Returns how many there are. */
static inline int32_t golden_numbers(FILE *f, const char *what, double *to, int32_t room) {
    static char  *line = NULL;
    static size_t size = 0;
    cr_assert_not_null(golden_line(f, &line, &size));
    cr_assert(strncmp(line, what, strlen(what)) == 0, "%s: %.40s", what, line);
    char   *at = line + strlen(what), *end;
    int32_t n  = 0;
    for (double v = strtod(at, &end); end != at && n < room; at = end, v = strtod(at, &end)) to[n++] = v;
    return n;
}

/* The largest absolute difference. */
static inline double golden_farthest(const double *want, const float *got, int32_t n) {
    double most = 0.0;
    for (int32_t i = 0; i < n; i++) most = fmax(most, fabs(want[i] - (double)got[i]));
    return most;
}

#endif
