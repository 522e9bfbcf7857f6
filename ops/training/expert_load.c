/* Op expert_load: the share of the tokens that each expert gets. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTensorView *ids     = &args->expert_load.ids;
    const int32_t       experts = args->params->expert_load.experts;
    if (experts < 1) return rp_refuse(RP_E_ARG, op, args, "experts = %d must be at least 1", experts);
    RP_TRY(rp_check_array(op, args, "ids", ids, RP_I32, ids->ne[0], rp_view_rows(ids)));
    if (rp_view_elems(ids) > 1 << 24) /* counts are exact in f32 */
        return rp_refuse(RP_E_SHAPE, op, args, "there must be at most %d ids, not %lld", 1 << 24,
                         (long long)rp_view_elems(ids));
    if (rp_is_present(&args->expert_load.weights))
        RP_TRY(rp_check_array(op, args, "weights", &args->expert_load.weights, RP_F32, rp_view_rows(ids), 1));
    return rp_check_array(op, args, "result", &args->dst, RP_F32, experts, 1);
}

static SHAPE_RULE(shape) {
    const RpTensorView *ids     = in->expert_load.ids;
    const int32_t       experts = params->expert_load.experts;
    if (experts < 1) REFUSE(RP_E_ARG, "there must be at least one expert");
    if (!rp_shape_is_choice(ids, ids->ne[0], ids->ne[1]))
        REFUSE(RP_E_SHAPE, "the ids must be contiguous i32 [k, tokens]");
    if (in->expert_load.weights != NULL && !rp_shape_is_vector(in->expert_load.weights, ids->ne[1]))
        REFUSE(RP_E_SHAPE, "the weights must be f32, one per token");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){experts, 1, 1, 1}, NULL);
    return RP_OK;
}

const OpRules rp_rules_expert_load = {.shape = shape, .check = check, .gradient = rp_gradient_constant};
