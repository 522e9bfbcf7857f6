/* Op sample_rows: a token from each row of logits. */
#include "ops/op.h"

#include "base/step_state.h"

static CHECK_RULE(check) {
    const RpTensorView *x = &args->sample_rows.logits, *seeds = &args->sample_rows.seeds,
                       *scratch = &args->sample_rows.scratch, *y = &args->dst;
    const RpSampleRowsParams *p = &args->params->sample_rows;
    if (x->dtype != RP_F32 || scratch->dtype != RP_F32)
        return rp_refuse(RP_E_DTYPE, op, args, "logits and scratch must be f32");
    if (seeds->dtype != RP_I32 || y->dtype != RP_I32)
        return rp_refuse(RP_E_DTYPE, op, args, "seeds and the result must be i32");
    if (x->ne[0] > INT32_MAX / 4)
        return rp_refuse(RP_E_SHAPE, op, args, "rows of logits must have at most %d elements", INT32_MAX / 4);
    if (x->ne[2] != 1 || x->ne[3] != 1) return rp_refuse(RP_E_SHAPE, op, args, "logits must be a matrix");
    if (seeds->ne[0] != 2 || seeds->ne[1] != x->ne[1])
        return rp_refuse(RP_E_SHAPE, op, args, "seeds must have two words for each row of logits");
    if (scratch->ne[0] < 2 * x->ne[0] + RP_SAMPLE_ROWS_STATE || scratch->ne[1] != x->ne[1])
        return rp_refuse(RP_E_SHAPE, op, args,
                         "scratch must have twice the length of a row of logits, and %d, for each",
                         RP_SAMPLE_ROWS_STATE);
    if (y->ne[0] != x->ne[1])
        return rp_refuse(RP_E_SHAPE, op, args, "the result must have a token for each row of logits");
    return rp_sampling_check(p->temperature, p->top_k, p->top_p, p->min_p);
}

static SHAPE_RULE(shape) {
    (void)params;
    const RpTensorView *x = in->sample_rows.logits, *seeds = in->sample_rows.seeds, *scratch = in->sample_rows.scratch;
    if (x->dtype != RP_F32 || x->ne[2] != 1 || x->ne[3] != 1 || !rp_view_is_contiguous(x))
        REFUSE(RP_E_SHAPE, "the logits must be f32 [n,t], contiguous");
    if (!rp_shape_is_choice(seeds, 2, x->ne[1])) REFUSE(RP_E_SHAPE, "the seeds must be i32 [2,t], contiguous");
    if (scratch->dtype != RP_F32 || scratch->ne[0] < 2 * x->ne[0] + RP_SAMPLE_ROWS_STATE ||
        scratch->ne[1] != x->ne[1] || !rp_view_is_contiguous(scratch))
        REFUSE(RP_E_SHAPE, "the scratch must be f32 [2n+16,t], contiguous");
    *out = rp_view_contiguous(RP_I32, (int64_t[]){x->ne[1], 1, 1, 1}, NULL);
    return RP_OK;
}

const OpRules rp_rules_sample_rows = {.shape = shape, .check = check, .gradient = rp_gradient_constant};
