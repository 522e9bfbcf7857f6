#include "graph/op_table.h"

const OpInfo rp_op_table[RP_OP_COUNT] = {
#define OP(ID, name, min_src, max_src, Params, shape, flags)                                                 \
    [RP_OP_##ID] = {#name, min_src, max_src, rp_shape_##shape, flags},
    RP_OPS(OP)
#undef OP
};
