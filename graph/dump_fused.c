/* The operations in a fused op, in execution order, for dumps: a linear op reads "norm, round, product,
 * bias, residual". "round" is the quantisation to q8_act, as in the name of the pass. */
#include "graph/dump.h"

#include <string.h>

typedef struct OpList {
    char  *text;
    size_t size, used;
} OpList;

/* Appends `what` if `when` is true. */
static void add(OpList *p, bool when, const char *what) {
    if (!when || p->used >= p->size) return;
    p->used += (size_t)snprintf(p->text + p->used, p->size - p->used, "%s%s", p->used > 0 ? ", " : "", what);
}

static void column(OpList *p, const RpColumnParams *c) {
    add(p, c->norm != 0, "norm");
    add(p, c->round != 0, "round");
}

static void linear(OpList *p, const TensorNode *n) {
    column(p, &n->params.linear.column);
    add(p, true, "product");
    add(p, n->from.linear.bias != NULL, "bias");
    add(p, n->params.linear.scale != 1.0f, "scale");
    add(p, n->params.linear.post_norm != 0, "norm");
    add(p, n->from.linear.residual != NULL, "residual");
}

static void gate_up(OpList *p, const TensorNode *n) {
    static const char *const kinds[] = {[RP_GATE_SILU]      = "silu",
                                        [RP_GATE_GELU_TANH] = "gelu",
                                        [RP_GATE_GELU_ERF]  = "gelu",
                                        [RP_GATE_OAI]       = "swiglu"};
    column(p, &n->params.gate_up.column);
    add(p, true, n->from.gate_up.ids != NULL ? "products of experts" : "products");
    add(p, n->from.gate_up.gate_bias != NULL || n->from.gate_up.up_bias != NULL, "bias");
    add(p, true, kinds[n->params.gate_up.kind]);
    add(p, n->params.gate_up.dtype == RP_Q8_ACT, "round");
}

static void qkv(OpList *p, const TensorNode *n) {
    column(p, &n->params.qkv.column);
    add(p, true, "products");
    add(p, n->from.qkv.bq != NULL || n->from.qkv.bk != NULL || n->from.qkv.bv != NULL, "bias");
    add(p, n->params.qkv.norm == RP_HEAD_NORM_EACH, "norm of each head");
    add(p, n->params.qkv.norm == RP_HEAD_NORM_WHOLE, "norm of all heads");
    add(p, true, "rotation");
    add(p, true, "store");
}

static void router(OpList *p, const TensorNode *n) {
    column(p, &n->params.router.column);
    add(p, n->params.router.quantize != 0, "quantized column");
    add(p, true, "product");
    add(p, n->from.router.bias != NULL, "bias");
    add(p, n->params.router.kind == RP_ROUTER_SOFT_MAX, "softmax");
    add(p, n->params.router.kind == RP_ROUTER_SIGMOID, "sigmoid");
    add(p, true, "choice");
}

static void experts_down(OpList *p, const TensorNode *n) {
    add(p, true, "products");
    add(p, n->from.experts_down.bias != NULL, "bias");
    add(p, true, "sum");
    add(p, n->params.experts_down.scale != 1.0f, "scale");
    add(p, n->from.experts_down.residual != NULL, "residual");
}

static void attention(OpList *p, const TensorNode *n) { add(p, n->view.dtype == RP_Q8_ACT, "round"); }

static void get_rows(OpList *p, const TensorNode *n) { add(p, n->params.get_rows.scale != 0.0f, "scale"); }

const char *rp_node_fused_ops(const TensorNode *n, char *buf, size_t size) {
    static void (*const of_op[RP_OP_COUNT])(OpList *, const TensorNode *) = {
        [RP_OP_LINEAR] = linear,     [RP_OP_GATE_UP] = gate_up,           [RP_OP_QKV] = qkv,
        [RP_OP_ROUTER] = router,     [RP_OP_EXPERTS_DOWN] = experts_down, [RP_OP_ATTENTION] = attention,
        [RP_OP_GET_ROWS] = get_rows,
    };
    OpList p = {.text = buf, .size = size};
    buf[0]   = '\0';
    if (n->kind == NODE_OP && (unsigned)n->op < RP_OP_COUNT && of_op[n->op] != NULL) of_op[n->op](&p, n);
    return buf;
}
