/* quantize.h - quantisation of rows whose elements differ in importance. */
#ifndef BASE_QUANTIZE_H
#define BASE_QUANTIZE_H

#include "reprise/quants.h"

/* rp_quantize_row (reprise/quants.h) with the importance of each element, w[n] >= 0 and finite: sums of w * error^2 are
 * made small. In types whose quantisers do not search, as Q8_0, MXFP4 and Q1_0, it changes nothing. NULL: all are as
 * important. */
RP_NODISCARD RpStatus rp_quantize_row_weighted(RpDtype dtype, const float *x, const float *w, int64_t n, void *out);

#endif
