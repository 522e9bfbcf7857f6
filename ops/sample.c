/* Op sample: the next token from its logits, into the step state. */
#include "ops/op.h"

#include "base/step_state.h"

/* Words of `extra` for n logits. */
static int64_t extra_words(int64_t n) { return RP_SAMPLE_EXTRA_WORDS + (n + 31) / 32; }

static CHECK_RULE(check) {
    const RpTensorView *x = &args->sample.logits, *state = &args->sample.state, *scratch = &args->sample.scratch;
    if (x->dtype != RP_F32 || scratch->dtype != RP_F32)
        return rp_refuse(RP_E_DTYPE, op, args, "logits and scratch must be f32");
    if (state->dtype != RP_I32) return rp_refuse(RP_E_DTYPE, op, args, "state must be i32");
    if (x->ne[0] > INT32_MAX / 2)
        return rp_refuse(RP_E_SHAPE, op, args, "rows of logits must have at most %d elements", INT32_MAX / 2);
    if (x->ne[1] != rp_view_rows(x)) return rp_refuse(RP_E_SHAPE, op, args, "logits must be a matrix");
    if (state->ne[0] < RP_STEP_WORDS)
        return rp_refuse(RP_E_SHAPE, op, args, "rows of state must have at least %d words", RP_STEP_WORDS);
    if (scratch->ne[0] < 2 * x->ne[0])
        return rp_refuse(RP_E_SHAPE, op, args, "rows of scratch must be twice as long as those of logits");
    if (rp_is_present(&args->sample.extra) &&
        (args->sample.extra.dtype != RP_I32 || args->sample.extra.ne[0] < extra_words(x->ne[0]) ||
         args->sample.extra.ne[1] != x->ne[1]))
        return rp_refuse(RP_E_SHAPE, op, args, "extra must be i32 of at least %lld words for each row of logits",
                         (long long)extra_words(x->ne[0]));
    if (state->ne[1] != x->ne[1] || scratch->ne[1] != x->ne[1])
        return rp_refuse(RP_E_SHAPE, op, args, "state and scratch must have a row for each row of logits");
    return RP_OK;
}

static SHAPE_RULE(shape) {
    (void)params;
    if (in->sample.logits->dtype != RP_F32 || rp_view_rows(in->sample.logits) != 1 ||
        !rp_shape_contiguous_rows(in->sample.logits))
        REFUSE(RP_E_SHAPE, "the logits must be f32 of one token");
    if (in->sample.state->dtype != RP_I32 || in->sample.state->ne[0] < RP_STEP_WORDS ||
        rp_view_rows(in->sample.state) != 1)
        REFUSE(RP_E_SHAPE, "the state must be i32 words, at least those of an RpStepState");
    if (!rp_shape_is_vector(in->sample.scratch, 2 * in->sample.logits->ne[0]))
        REFUSE(RP_E_SHAPE, "the scratch must be f32, two for each logit");
    const RpTensorView *extra = in->sample.extra;
    if (extra != NULL && (extra->dtype != RP_I32 || rp_view_rows(extra) != 1 || !rp_view_is_contiguous(extra) ||
                          extra->ne[0] < extra_words(in->sample.logits->ne[0])))
        REFUSE(RP_E_SHAPE, "the extra must be an RpSampleExtra and a bit for each logit");
    *out = *in->sample.state;
    return RP_OK;
}

const OpRules rp_rules_sample = {.shape = shape, .check = check, .gradient = rp_gradient_constant};
