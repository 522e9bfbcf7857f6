/* Op gate_up: the first products of a feed-forward, of one token, and their activation. */
#include "ops/op.h"

#include "ops/fused/column.h"

static CHECK_RULE(check) {
    const RpTensorView   *w = &args->gate_up.gate, *up = &args->gate_up.up, *ids = &args->gate_up.ids;
    const RpGateUpParams *p = &args->params->gate_up;
    RP_TRY(rp_check_column(op, args, w, &args->gate_up.x, &args->gate_up.norm, &p->column));
    if (up->dtype != w->dtype) return rp_refuse(RP_E_SHAPE, op, args, "gate and up must be of one type");
    if (up->ne[0] != w->ne[0] || up->ne[1] != w->ne[1] || up->ne[2] != w->ne[2])
        return rp_refuse(RP_E_SHAPE, op, args, "gate and up must have one shape");
    if (p->dtype == RP_Q8_ACT && w->ne[1] % 32 != 0)
        return rp_refuse(RP_E_SHAPE, op, args, "a q8_act result must be whole blocks of 32");
    if (rp_is_present(ids)) RP_TRY(rp_check_ids(op, args, ids, args->dst.ne[1], 1));
    RP_TRY(rp_check_vector(op, args, "gate_bias", &args->gate_up.gate_bias, w->ne[1] * w->ne[2]));
    RP_TRY(rp_check_vector(op, args, "up_bias", &args->gate_up.up_bias, w->ne[1] * w->ne[2]));
    return rp_check_result(op, args, p->dtype, w->ne[1], rp_is_present(ids) ? ids->ne[0] : 1);
}

static SHAPE_RULE(shape) {
    const RpTensorView   *gate = in->gate_up.gate, *up = in->gate_up.up, *ids = in->gate_up.ids;
    const RpGateUpParams *p = &params->gate_up;
    RP_TRY(rp_shape_column(gate, in->gate_up.x, in->gate_up.norm, &p->column, why));
    if (gate->dtype != up->dtype || !rp_shape_same(gate, up) || !rp_shape_contiguous_rows(up))
        REFUSE(RP_E_SHAPE, "gate and up must be of one type and shape");
    if (p->dtype != RP_F32 && p->dtype != RP_Q8_ACT) REFUSE(RP_E_DTYPE, "the result is f32 or q8_act");
    if (p->dtype == RP_Q8_ACT && gate->ne[1] % rp_dtype_info(RP_Q8_ACT)->block_elems != 0)
        REFUSE(RP_E_SHAPE, "a q8_act result must be whole blocks of 32");
    if ((unsigned)p->kind > RP_GATE_OAI) REFUSE(RP_E_ARG, "unknown kind of gate");
    if (p->kind == RP_GATE_OAI && !(p->limit > 0.0f)) REFUSE(RP_E_ARG, "the limit must be positive");
    if (gate->ne[3] != 1 || (ids == NULL && gate->ne[2] != 1))
        REFUSE(RP_E_SHAPE, "the weights must be matrices, or with ids one matrix per expert");
    if (ids != NULL && !rp_shape_is_choice(ids, ids->ne[0], 1)) REFUSE(RP_E_SHAPE, "ids must be i32 of one token");
    if (!rp_shape_fits_experts(in->gate_up.gate_bias, gate) || !rp_shape_fits_experts(in->gate_up.up_bias, gate))
        REFUSE(RP_E_SHAPE, "biases must be f32, one per row of the weights");
    *out = rp_view_contiguous(p->dtype, (int64_t[]){gate->ne[1], ids != NULL ? ids->ne[0] : 1, 1, 1}, NULL);
    return RP_OK;
}

static PARTS(parts) {
    static const char *const kinds[] = {
        [RP_GATE_SILU] = "silu", [RP_GATE_GELU_TANH] = "gelu", [RP_GATE_GELU_ERF] = "gelu", [RP_GATE_OAI] = "swiglu"};
    rp_column_parts(list, &n->params.gate_up.column);
    rp_add_part(list, true, n->from.gate_up.ids != NULL ? "products of experts" : "products");
    rp_add_part(list, n->from.gate_up.gate_bias != NULL || n->from.gate_up.up_bias != NULL, "bias");
    rp_add_part(list, true, kinds[n->params.gate_up.kind]);
    rp_add_part(list, n->params.gate_up.dtype == RP_Q8_ACT, "round");
}

const OpRules rp_rules_gate_up = {
    .shape = shape, .check = check, .gradient = rp_gradient_none, .parts = parts, .colour = "#fdae61"};
