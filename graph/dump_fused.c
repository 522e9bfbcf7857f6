/* What a fused op does beside its name, in the order in which it does it. */
#include "graph/dump.h"

#include <string.h>

typedef struct Parts {
    char  *text;
    size_t size, used;
} Parts;

static void say(Parts *p, bool when, const char *what) {
    if (!when || p->used >= p->size) return;
    p->used += (size_t)snprintf(p->text + p->used, p->size - p->used, "%s%s", p->used > 0 ? ", " : "", what);
}

static void column(Parts *p, const ColumnParams *c) {
    say(p, c->norm != 0, "norm");
    say(p, c->round != 0, "round");
}

static void linear(Parts *p, const TensorNode *n) {
    column(p, &n->params.linear.column);
    say(p, true, "product");
    say(p, n->src[3] != NULL, "bias");
    say(p, n->params.linear.scale != 1.0f, "scale");
    say(p, n->params.linear.post_norm != 0, "norm");
    say(p, n->src[4] != NULL, "residual");
}

static void gate_up(Parts *p, const TensorNode *n) {
    static const char *const kinds[] = {[RP_GATE_SILU]      = "silu",
                                        [RP_GATE_GELU_TANH] = "gelu",
                                        [RP_GATE_GELU_ERF]  = "gelu",
                                        [RP_GATE_OAI]       = "swiglu"};
    column(p, &n->params.gate_up.column);
    say(p, true, n->src[4] != NULL ? "products of experts" : "products");
    say(p, n->src[5] != NULL || n->src[6] != NULL, "bias");
    say(p, true, kinds[n->params.gate_up.kind]);
    say(p, n->params.gate_up.dtype == RP_Q8_ACT, "round");
}

static void qkv(Parts *p, const TensorNode *n) {
    column(p, &n->params.qkv.column);
    say(p, true, "products");
    say(p, n->src[8] != NULL || n->src[9] != NULL || n->src[10] != NULL, "bias");
    say(p, n->params.qkv.norm == RP_HEAD_NORM_EACH, "norm of each head");
    say(p, n->params.qkv.norm == RP_HEAD_NORM_WHOLE, "norm of all heads");
    say(p, true, "rotation");
    say(p, true, "store");
}

static void router(Parts *p, const TensorNode *n) {
    column(p, &n->params.router.column);
    say(p, true, "product");
    say(p, n->src[3] != NULL, "bias");
    say(p, n->params.router.kind == RP_ROUTER_SOFT_MAX, "softmax");
    say(p, n->params.router.kind == RP_ROUTER_SIGMOID, "sigmoid");
    say(p, true, "choice");
}

static void experts_down(Parts *p, const TensorNode *n) {
    say(p, true, "products");
    say(p, n->src[4] != NULL, "bias");
    say(p, true, "sum");
    say(p, n->params.experts_down.scale != 1.0f, "scale");
    say(p, n->src[5] != NULL, "residual");
}

static void attention(Parts *p, const TensorNode *n) { say(p, n->view.dtype == RP_Q8_ACT, "round"); }

static void get_rows(Parts *p, const TensorNode *n) { say(p, n->params.get_rows.scale != 0.0f, "scale"); }

const char *rp_node_fused_ops(const TensorNode *n, char *buf, size_t size) {
    static void (*const of_op[RP_OP_COUNT])(Parts *, const TensorNode *) = {
        [RP_OP_LINEAR] = linear,     [RP_OP_GATE_UP] = gate_up,           [RP_OP_QKV] = qkv,
        [RP_OP_ROUTER] = router,     [RP_OP_EXPERTS_DOWN] = experts_down, [RP_OP_ATTENTION] = attention,
        [RP_OP_GET_ROWS] = get_rows,
    };
    Parts p = {.text = buf, .size = size};
    buf[0]  = '\0';
    if (n->kind == NODE_OP && (unsigned)n->op < RP_OP_COUNT && of_op[n->op] != NULL) of_op[n->op](&p, n);
    return buf;
}
