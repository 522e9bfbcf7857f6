/* workspace.h - the workspace of a call as memory of an op. A query adds RP_NN_ALIGN bytes, so that callers need not
 * align. */
#ifndef NN_WORKSPACE_H
#define NN_WORKSPACE_H

#include "nn/call.h"

/* The part of a workspace from its first byte on that is aligned to RP_NN_ALIGN. Empty if there is no such part. */
static inline NnMemory rp_nn_workspace(void *memory, int64_t bytes) {
    const size_t skip = (size_t)(-(uintptr_t)memory % RP_NN_ALIGN);
    if (memory == NULL || bytes < 0 || (size_t)bytes < skip) return (NnMemory){0};
    return (NnMemory){(char *)memory + skip, (size_t)bytes - skip};
}

/* RP_E_ARG unless `memory` has the bytes that the op needs. */
static inline RpStatus rp_nn_check_workspace(const char *function, const NnMemory *memory, size_t wanted) {
    if (memory->bytes >= wanted) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: a workspace of %zu aligned bytes, must be %zu", function, memory->bytes, wanted);
}

/* The workspace to report for an op that needs `wanted` aligned bytes. */
static inline int64_t rp_nn_workspace_bytes(size_t wanted) { return wanted > 0 ? (int64_t)wanted + RP_NN_ALIGN : 0; }

#endif
