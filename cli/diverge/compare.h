/* compare.h - how the values of a node differ between two runs. */
#ifndef CLI_DIVERGE_COMPARE_H
#define CLI_DIVERGE_COMPARE_H

#include "cli/provenance/values.h"

typedef struct NodeDifference {
    bool   compared;           /* else the other fields are 0 */
    size_t n, n_differ, first; /* elements; those of other bits; the first of them */
    double a, b;               /* values of the first */
    double max_abs,
        max_relative; /* |a - b|, and |a - b| / |a| where a is not 0, over the elements; infinite if one is no number */
    uint64_t max_ulps;              /* steps between neighbours of f32; 0 for integers */
    double   rms_a, rms_difference; /* root of the mean square */
    double   scaled;                /* max_abs / max |a| */
} NodeDifference;

/* Compares values of the same number of elements, f32 or i32. Values of two types are compared as numbers. */
NodeDifference cli_compare(const NodeValues *a, const NodeValues *b);

/* rms_difference / rms_a; 0 without a difference. */
double cli_relative(const NodeDifference *d);

/* How the logits of two runs differ. */
typedef struct LogitsDifference {
    bool    known;
    double  kl;           /* KL(A || B) of the probabilities, in nats, mean over the rows */
    int32_t top_a, top_b; /* tokens of the largest logits in the last row */
    double  max_abs;
} LogitsDifference;

/* rows of n_vocab f32. */
LogitsDifference cli_compare_logits(const NodeValues *a, const NodeValues *b);

#endif
