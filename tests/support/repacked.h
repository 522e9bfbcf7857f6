/* repacked.h - repacked copies of weights (fallback/products/repack.h), which only the CPU kernels read. */
#ifndef TESTS_REPACKED_H
#define TESTS_REPACKED_H

#include "tests/support/blocks.h"

#include "fallback/products/repack.h"

/* The caller frees `data` of the result. */
static inline RpTensorView repacked(const RpTensorView *w) {
    const int64_t groups = rp_view_rows(w) / RP_PANEL_ROWS;
    RpTensorView  copy   = rp_repacked_view(w, NULL);
    const size_t  bytes  = (size_t)groups * RP_PANEL_ROWS * copy.nb[1];
    cr_assert(rp_can_repack(w));
    copy.data = aligned_alloc(64, (bytes + 63) / 64 * 64);
    rp_repack(w, &copy, 0, groups / 2); /* in parts, as workers do */
    rp_repack(w, &copy, groups / 2, groups);
    return copy;
}

#endif
