/* softplus.h - shared by the gates of recurrent ops. */
#ifndef FALLBACK_RECURRENT_SOFTPLUS_H
#define FALLBACK_RECURRENT_SOFTPLUS_H

#include <math.h>

/* log(1 + exp(x)) in double: the C library's double functions differ between CPUs by less than a rounding to float. */
static inline float rp_softplus(float x) { return (float)(x > 20.0f ? (double)x : log1p(exp((double)x))); }

#endif
