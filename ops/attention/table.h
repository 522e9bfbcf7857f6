/* table.h - what the checks of attention share: sequences in a KV cache of blocks. */
#ifndef OPS_ATTENTION_TABLE_H
#define OPS_ATTENTION_TABLE_H

#include "ops/op.h"

/* NULL, or what must be: table i32 [n_ctx/block,sequences] and seq i32, one for each token of q, in a cache k of whole
 * blocks; or NULL both, and block 0. */
const char *rp_table_problem(const RpTensorView *q, const RpTensorView *k, const RpTensorView *table,
                             const RpTensorView *seq, int32_t block);

#endif
