/* Op swiglu_oai: the clamped SwiGLU of gpt-oss. */
#include "ops/op.h"

static CHECK_RULE(check) {
    RP_TRY(rp_check_repeat(op, args));
    if (args->swiglu_oai.gate.ne[0] != args->swiglu_oai.up.ne[0])
        return rp_refuse(RP_E_SHAPE, op, args, "rows of gate and up must have one length");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    if (in->swiglu_oai.up->dtype != RP_F32 || !rp_shape_same(in->swiglu_oai.gate, in->swiglu_oai.up))
        REFUSE(RP_E_SHAPE, "gate and up must be f32 of one shape");
    if (!(params->swiglu_oai.limit > 0.0f)) REFUSE(RP_E_ARG, "the limit must be positive");
    return rp_shape_binary(in, params, out, why);
}

static GRADIENT_RULE(gradient) {
    TensorNode      *gate = y->from.swiglu_oai.gate, *up = y->from.swiglu_oai.up, *dup = rp_cast(b->g, up, RP_F32);
    const RpOpParams p = {.swiglu_oai_backward = y->params.swiglu_oai};
    TensorNode *dgate  = rp_graph_op(b->g, RP_OP_SWIGLU_OAI_BACKWARD, &p, (TensorNode *const[]){dy, gate, up, dup}, 4);
    rp_backward_give(b, gate, dgate);
    rp_backward_give(b, up, rp_backward_after(b, dup, dgate));
    return NULL;
}

const OpRules rp_rules_swiglu_oai = {.shape = shape, .check = check, .gradient = gradient, .colour = "#d9f0d3"};
