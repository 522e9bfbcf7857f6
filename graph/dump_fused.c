/* The operations in a fused op, in execution order, for dumps: a linear op reads "norm, round, product,
 * bias, residual". "round" is the quantisation to q8_act, as in the name of the pass. */
#include "graph/dump.h"

#include "ops/rules.h"

const char *rp_node_fused_ops(const TensorNode *n, char *buf, size_t size) {
    PartList       list  = {.text = buf, .size = size};
    const OpRules *rules = n->kind == NODE_OP ? rp_op_rules(n->op) : NULL;
    buf[0]               = '\0';
    if (rules != NULL && rules->parts != NULL) {
        const OpNode node = rp_graph_op_node(n);
        rules->parts(&list, &node);
    }
    return buf;
}
