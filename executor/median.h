/* median.h - of measurements. */
#ifndef EXECUTOR_MEDIAN_H
#define EXECUTOR_MEDIAN_H

/* Sorts the n > 0 samples. */
double rp_median(double *samples, int n);

#endif
