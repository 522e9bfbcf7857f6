/* Op temperature: the factor of queries that grows with the position, in steps of `length` positions. */
#include "ops/op.h"

static CHECK_RULE(check) {
    const RpTemperatureParams *p = &args->params->temperature;
    if (p->length < 1) return rp_refuse(RP_E_ARG, op, args, "length = %d must be at least 1", p->length);
    if (args->temperature.pos.dtype != RP_I32) return rp_refuse(RP_E_DTYPE, op, args, "pos must be i32");
    if (args->dst.dtype == RP_F32 && args->dst.ne[0] == 1 && args->dst.ne[1] == 1 &&
        args->dst.ne[2] == args->temperature.pos.ne[0])
        return RP_OK;
    return rp_refuse(RP_E_SHAPE, op, args, "the result must be f32 [1,1,t], with an element for each position");
}

static SHAPE_RULE(shape) {
    const RpTensorView *pos = in->temperature.pos;
    if (params->temperature.length < 1) REFUSE(RP_E_ARG, "the length must be at least 1");
    if (!rp_shape_is_index(pos, pos->ne[0])) REFUSE(RP_E_SHAPE, "positions must be i32, one per token");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){1, 1, pos->ne[0], 1}, NULL);
    return RP_OK;
}

const OpRules rp_rules_temperature = {
    .shape = shape, .check = check, .gradient = rp_gradient_constant, .colour = "#d9f0d3"};
