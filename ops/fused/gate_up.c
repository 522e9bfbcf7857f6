/* Op gate_up: the first products of a feed-forward, of one token, and their activation. */
#include "ops/op.h"

#include "ops/fused/column.h"

/* The matrices of a shared expert, which are like those of each other expert. */
static const char *shared_problem(const RpTensorView *gate, const RpTensorView *shared, bool ids, bool biased) {
    if (!ids || biased) return "ids must be given and biases absent where there is a shared expert";
    if (shared->dtype != gate->dtype) return "a shared expert must have the type of the others";
    if (shared->ne[0] != gate->ne[0] || shared->ne[1] != gate->ne[1] || !rp_shape_is_one_matrix(shared) ||
        shared->nb[1] != gate->nb[1])
        return "a shared expert must have the shape of the others";
    return NULL;
}

static CHECK_RULE(check_shared) {
    const RpTensorView *const shared[] = {&args->gate_up.shared_gate, &args->gate_up.shared_up};
    const bool                ids      = rp_is_present(&args->gate_up.ids),
               biased = rp_is_present(&args->gate_up.gate_bias) || rp_is_present(&args->gate_up.up_bias);
    if (rp_is_present(shared[0]) != rp_is_present(shared[1]))
        return rp_refuse(RP_E_SHAPE, op, args, "a shared expert must have gate and up");
    for (int i = 0; i < 2 && rp_is_present(shared[i]); i++) {
        const char *why = shared_problem(&args->gate_up.gate, shared[i], ids, biased);
        if (why != NULL) return rp_refuse(RP_E_SHAPE, op, args, "%s", why);
    }
    return RP_OK;
}

static CHECK_RULE(check) {
    const RpTensorView   *w = &args->gate_up.gate, *up = &args->gate_up.up, *ids = &args->gate_up.ids;
    const RpGateUpParams *p = &args->params->gate_up;
    RP_TRY(rp_check_column(op, args, w, &args->gate_up.x, &args->gate_up.norm, &p->column));
    if (up->dtype != w->dtype) return rp_refuse(RP_E_SHAPE, op, args, "gate and up must be of one type");
    if (up->ne[0] != w->ne[0] || up->ne[1] != w->ne[1] || up->ne[2] != w->ne[2])
        return rp_refuse(RP_E_SHAPE, op, args, "gate and up must have one shape");
    if (p->dtype == RP_Q8_ACT && w->ne[1] % 32 != 0)
        return rp_refuse(RP_E_SHAPE, op, args, "a q8_act result must be whole blocks of 32");
    if (rp_is_present(ids))
        RP_TRY(rp_check_ids(op, args, ids, args->dst.ne[1] - (rp_is_present(&args->gate_up.shared_gate) ? 1 : 0), 1));
    RP_TRY(rp_check_vector(op, args, "gate_bias", &args->gate_up.gate_bias, w->ne[1] * w->ne[2]));
    RP_TRY(rp_check_vector(op, args, "up_bias", &args->gate_up.up_bias, w->ne[1] * w->ne[2]));
    RP_TRY(check_shared(op, args));
    const int64_t more = rp_is_present(&args->gate_up.shared_gate) ? 1 : 0;
    return rp_check_result(op, args, p->dtype, w->ne[1], rp_is_present(ids) ? ids->ne[0] + more : 1);
}

static SHAPE_RULE(shape) {
    const RpTensorView   *gate = in->gate_up.gate, *up = in->gate_up.up, *ids = in->gate_up.ids;
    const RpGateUpParams *p = &params->gate_up;
    RP_TRY(rp_shape_column(gate, in->gate_up.x, in->gate_up.norm, &p->column, why));
    if (gate->dtype != up->dtype || !rp_shape_same(gate, up) || !rp_shape_contiguous_rows(up))
        REFUSE(RP_E_SHAPE, "gate and up must be of one type and shape");
    if (p->dtype != RP_F32 && p->dtype != RP_Q8_ACT) REFUSE(RP_E_DTYPE, "the result must be f32 or q8_act");
    if (p->dtype == RP_Q8_ACT && gate->ne[1] % rp_dtype_info(RP_Q8_ACT)->block_elems != 0)
        REFUSE(RP_E_SHAPE, "a q8_act result must be whole blocks of 32");
    if ((unsigned)p->kind > RP_GATE_OAI) REFUSE(RP_E_ARG, "kind must be from RP_GATE_SILU, 0, to RP_GATE_OAI, 3");
    if (p->kind == RP_GATE_OAI && !(p->limit > 0.0f)) REFUSE(RP_E_ARG, "the limit must be positive");
    if (gate->ne[3] != 1 || (ids == NULL && gate->ne[2] != 1))
        REFUSE(RP_E_SHAPE, "the weights must be matrices, or with ids one matrix per expert");
    if (ids != NULL && !rp_shape_is_choice(ids, ids->ne[0], 1)) REFUSE(RP_E_SHAPE, "ids must be i32 of one token");
    if (!rp_shape_fits_experts(in->gate_up.gate_bias, gate) || !rp_shape_fits_experts(in->gate_up.up_bias, gate))
        REFUSE(RP_E_SHAPE, "biases must be f32, one per row of the weights");
    RpSourceShape const shared[] = {in->gate_up.shared_gate, in->gate_up.shared_up};
    if ((shared[0] == NULL) != (shared[1] == NULL)) REFUSE(RP_E_SHAPE, "a shared expert must have gate and up");
    for (int i = 0; i < 2 && shared[i] != NULL; i++) {
        *why =
            shared_problem(gate, shared[i], ids != NULL, in->gate_up.gate_bias != NULL || in->gate_up.up_bias != NULL);
        if (*why != NULL) return RP_E_SHAPE;
    }
    const int64_t columns = ids != NULL ? ids->ne[0] + (shared[0] != NULL ? 1 : 0) : 1;
    *out                  = rp_view_contiguous(p->dtype, (int64_t[]){gate->ne[1], columns, 1, 1}, NULL);
    return RP_OK;
}

static PARTS(parts) {
    static const char *const kinds[] = {
        [RP_GATE_SILU] = "silu", [RP_GATE_GELU_TANH] = "gelu", [RP_GATE_GELU_ERF] = "gelu", [RP_GATE_OAI] = "swiglu"};
    rp_column_parts(list, &n->params.gate_up.column);
    rp_add_part(list, true, n->from.gate_up.ids != NULL ? "products of experts" : "products");
    rp_add_part(list, n->from.gate_up.shared_gate != NULL, "shared expert");
    rp_add_part(list, n->from.gate_up.gate_bias != NULL || n->from.gate_up.up_bias != NULL, "bias");
    rp_add_part(list, true, kinds[n->params.gate_up.kind]);
    rp_add_part(list, n->params.gate_up.dtype == RP_Q8_ACT, "round");
}

const OpRules rp_rules_gate_up = {
    .shape = shape, .check = check, .gradient = rp_gradient_none, .parts = parts, .colour = "#fdae61"};
