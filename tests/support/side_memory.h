/* side_memory.h - saves, restores and compares the sources that an op writes to (RP_WRITES), such as the KV
 * cache of qkv. */
#ifndef TESTS_SIDE_MEMORY_H
#define TESTS_SIDE_MEMORY_H

#include "tests/support/golden.h"

#include "base/kernels.h"
#include "base/op_table.h"

/* The op whose CPU kernel this is. */
static inline TensorOp op_of_kernel(RpOpKernel *cpu) {
    int row = 0;
    while (row < RP_N_ROWS && rp_cpu_kernel(rp_row_op(row)) != cpu) row++;
    return row < RP_N_ROWS ? rp_row_op(row) : RP_OP_CUSTOM;
}

static inline bool writes_source(RpOpKernel *cpu, const RpOpArgs *args, int i) {
    const OpInfo *info = rp_op_info(op_of_kernel(cpu));
    return info != NULL && (info->flags & (unsigned)RP_WRITES(i)) != 0 && rp_is_present(&args->src[i]);
}

/* Contents of the written sources. */
typedef struct SideMemory {
    char *bytes[RP_MAX_SRC]; /* NULL: the op does not write source i */
} SideMemory;

static inline SideMemory side_save(RpOpKernel *cpu, const RpOpArgs *args) {
    SideMemory m = {0};
    for (int i = 0; i < RP_MAX_SRC; i++) {
        if (!writes_source(cpu, args, i)) continue;
        const size_t bytes = rp_view_extent_bytes(&args->src[i]);
        m.bytes[i]         = memcpy(malloc(bytes), args->src[i].data, bytes);
    }
    return m;
}

static inline void side_restore(const SideMemory *m, const RpOpArgs *args) {
    for (int i = 0; i < RP_MAX_SRC; i++)
        if (m->bytes[i] != NULL) memcpy(args->src[i].data, m->bytes[i], rp_view_extent_bytes(&args->src[i]));
}

static inline void side_free(SideMemory *m) {
    for (int i = 0; i < RP_MAX_SRC; i++) free(m->bytes[i]);
    *m = (SideMemory){0};
}

static inline void side_expect(const SideMemory *m, const RpOpArgs *args, const char *what) {
    for (int i = 0; i < RP_MAX_SRC; i++)
        if (m->bytes[i] != NULL)
            cr_assert_arr_eq(args->src[i].data, m->bytes[i], rp_view_extent_bytes(&args->src[i]),
                             "%s: other bytes in source %d", what, i);
}

#endif
