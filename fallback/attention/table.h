/* table.h - where the positions of a sequence lie in a KV cache of blocks (op attention in reprise/ops.h). */
#ifndef FALLBACK_ATTENTION_TABLE_H
#define FALLBACK_ATTENTION_TABLE_H

#include "base/kernels.h"

/* The sources of an op. Without a table, `block` is 0 and there is one sequence, whose positions are the rows. */
typedef struct KvTable {
    const RpTensorView *table, *seq;
    int64_t             block;
} KvTable;

static inline int32_t kv_sequence(KvTable k, int64_t t) { return k.block != 0 ? ((const int32_t *)k.seq->data)[t] : 0; }

/* Positions that a sequence can have in a cache of n_rows. */
static inline int64_t kv_context(KvTable k, int64_t n_rows) { return k.block != 0 ? k.table->ne[0] * k.block : n_rows; }

/* The row of the cache with position i of the sequence of token t. */
static inline int64_t kv_row(KvTable k, int64_t t, int64_t i) {
    if (k.block == 0) return i;
    const int32_t *blocks = rp_view_row(k.table, kv_sequence(k, t));
    return blocks[i / k.block] * k.block + i % k.block;
}

/* Positions [from, end) of token t. Sequences and blocks are data, so they are checked before they become addresses.
 * RP_E_ARG for a sequence that the table does not have, or a block that the cache of n_rows does not have. */
RP_NODISCARD static inline RpStatus kv_check(const char *op, KvTable k, int64_t n_rows, int64_t t, int64_t from,
                                             int64_t end) {
    if (k.block == 0) return RP_OK;
    const int32_t seq = kv_sequence(k, t);
    if (seq < 0 || seq >= k.table->ne[1])
        return rp_fail(RP_E_ARG, "%s: token %lld is of sequence %d, the table has %lld", op, (long long)t, seq,
                       (long long)k.table->ne[1]);
    const int32_t *blocks = rp_view_row(k.table, seq);
    for (int64_t i = from / k.block; i * k.block < end; i++)
        if (blocks[i] < 0 || blocks[i] >= n_rows / k.block)
            return rp_fail(RP_E_ARG, "%s: block %lld of sequence %d is %d, the cache has %lld", op, (long long)i, seq,
                           blocks[i], (long long)(n_rows / k.block));
    return RP_OK;
}

#endif
