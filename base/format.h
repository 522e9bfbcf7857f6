/* format.h - shapes as texts. */
#ifndef BASE_FORMAT_H
#define BASE_FORMAT_H

#include "reprise/tensor.h"

/* "q4_1 [576,576]": trailing dimensions of 1 are left out. Returns buf. */
const char *rp_format_shape(const RpTensorView *v, char *buf, size_t size);

#endif
