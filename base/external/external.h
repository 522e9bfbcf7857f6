/* external.h - the internals of RpExternalTensor: a view, its device, and the number of those that hold it. */
#ifndef BASE_EXTERNAL_EXTERNAL_H
#define BASE_EXTERNAL_EXTERNAL_H

#include "reprise/external.h"

#include <stdatomic.h>

struct RpExternalTensor {
    atomic_int   holders;
    RpTensorView view;
    char         name[64], device[16];
    bool         read_only;
    void (*release)(void *user); /* or NULL; called when the last holder has let go */
    void *user;
};

/* One holder more, who calls rp_external_free. Returns t. */
RpExternalTensor *rp_external_hold(RpExternalTensor *t);

/* RP_E_DTYPE or RP_E_SHAPE unless the tensor has the type and the shape `want`. `what` is the node: "input 'x'". */
RP_NODISCARD RpStatus rp_external_fits(const RpExternalTensor *t, const char *what, const RpTensorView *want);

/* True if the memory of the two ranges has a byte in common. */
static inline bool rp_ranges_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

#endif
