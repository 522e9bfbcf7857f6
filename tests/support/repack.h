/* repack.h - whether the default copies weights of a type (executor/repack.h). */
#ifndef TESTS_REPACK_H
#define TESTS_REPACK_H

#include "tests/support/golden.h"

#include "base/repack.h"
#include "executor/repack_trial.h"

/* A measurement decides, once for a type in a process. With less than half a gigabyte of free memory no copy is
 * made. */
static inline bool copies_gain(RpDtype type) {
    const RpTensorView w = rp_view_contiguous(type, (int64_t[RP_MAX_DIMS]){256, 16, 1, 1}, NULL);
    RpDeviceMemory     memory;
    bool               gains;
    if (!rp_cpu_repack_pays()) return false; /* nothing was measured, and there is no weight here to do it with */
    OK(rp_device_memory("cpu", false, &memory));
    OK(rp_repack_try(&w, &gains));
    return gains && memory.free_bytes > (size_t)600 << 20;
}

#endif
