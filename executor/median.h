/* median.h - the median of measurements. */
#ifndef EXECUTOR_MEDIAN_H
#define EXECUTOR_MEDIAN_H

/* The mean of the two middle samples if n is even. Sorts `samples` in place; n > 0. */
double rp_median(double *samples, int n);

#endif
