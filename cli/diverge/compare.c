/* compare.c - differences of values: bits, numbers, distributions. */
#include "cli/diverge/compare.h"

#include <math.h>
#include <string.h>

static double at(const NodeValues *v, size_t i) {
    return v->dtype == RP_I32 ? (double)((const int32_t *)v->bytes)[i] : (double)((const float *)v->bytes)[i];
}

/* Numbers of the f32 in rising order, so that neighbours differ by 1; -0 and 0 are one number. */
static int64_t rank_of(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? -(int64_t)(bits & INT32_MAX) : bits;
}

static bool same_bits(const NodeValues *a, const NodeValues *b, size_t i) {
    if (a->dtype != b->dtype) return at(a, i) == at(b, i);
    return memcmp((const int32_t *)a->bytes + i, (const int32_t *)b->bytes + i, sizeof(int32_t)) == 0;
}

static void note(NodeDifference *d, const NodeValues *a, const NodeValues *b, size_t i) {
    const double x = at(a, i), y = at(b, i), off = fabs(x - y);
    const bool   finite = isfinite(x) && isfinite(y);
    if (d->n_differ++ == 0) {
        d->first = i;
        d->a     = x;
        d->b     = y;
    }
    d->max_abs = fmax(d->max_abs, finite ? off : HUGE_VAL);
    if (!finite || x != 0.0) d->max_relative = fmax(d->max_relative, finite ? off / fabs(x) : HUGE_VAL);
    if (a->dtype == RP_F32 && b->dtype == RP_F32 && finite) {
        const int64_t  p = rank_of((float)x), q = rank_of((float)y);
        const uint64_t ulps = (uint64_t)(p > q ? p - q : q - p);
        if (ulps > d->max_ulps) d->max_ulps = ulps;
    }
}

NodeDifference cli_compare(const NodeValues *a, const NodeValues *b) {
    NodeDifference d       = {.compared = true, .n = cli_values_n(a)};
    double         squares = 0.0, of_a = 0.0, largest = 0.0;
    for (size_t i = 0; i < d.n; i++) {
        const double x = at(a, i), off = x - at(b, i);
        if (!same_bits(a, b, i)) {
            note(&d, a, b, i);
            squares += off * off;
        }
        of_a += x * x;
        largest = fmax(largest, fabs(x));
    }
    d.rms_a          = sqrt(of_a / (double)d.n);
    d.rms_difference = sqrt(squares / (double)d.n);
    d.scaled         = d.max_abs == 0.0 ? 0.0 : largest > 0.0 ? d.max_abs / largest : HUGE_VAL;
    return d;
}

double cli_relative(const NodeDifference *d) {
    if (d->rms_difference == 0.0) return 0.0;
    return d->rms_a > 0.0 ? d->rms_difference / d->rms_a : HUGE_VAL;
}

/* log of the sum of exp(x) */
static double log_sum(const float *x, size_t n, int32_t *top) {
    double sum = 0.0;
    *top       = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[*top]) *top = (int32_t)i;
    for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - (double)x[*top]);
    return (double)x[*top] + log(sum);
}

LogitsDifference cli_compare_logits(const NodeValues *a, const NodeValues *b) {
    LogitsDifference d = {.known = true};
    const size_t     n = (size_t)a->ne[0], rows = cli_values_n(a) / n;
    for (size_t r = 0; r < rows; r++) {
        const float *x = (const float *)a->bytes + r * n, *y = (const float *)b->bytes + r * n;
        const double of_x = log_sum(x, n, &d.top_a), of_y = log_sum(y, n, &d.top_b);
        for (size_t i = 0; i < n; i++) {
            const double p = exp((double)x[i] - of_x);
            if (p > 0.0) d.kl += p * ((double)x[i] - of_x - ((double)y[i] - of_y)) / (double)rows;
            d.max_abs = fmax(d.max_abs, fabs((double)x[i] - (double)y[i]));
        }
    }
    return d;
}
