/* The rules of every op, made from the rows, so that a missing struct is a link error. */
#include "ops/rules.h"

#include "base/op_table.h"

const OpRules *rp_op_rules(TensorOp op) {
    static const OpRules *const rules[RP_N_ROWS] = {
#define OP(number, ID, name, required, sources, Params, fields, flags) [RP_ROW_##ID] = &rp_rules_##name,
        RP_OPS(OP, OP)
#undef OP
    };
    const int row = rp_op_row(op);
    return row >= 0 ? rules[row] : NULL;
}
