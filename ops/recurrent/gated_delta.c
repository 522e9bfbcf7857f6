/* Op gated_delta: the gated delta rule over tokens. */
#include "ops/recurrent/slots.h"

/* A number for each head of v and token, as [n0,n1,t] with n0 * n1 heads. */
static bool is_gate(const RpTensorView *v, int64_t heads, int64_t t) {
    return v->dtype == RP_F32 && v->nb[0] == sizeof(float) && v->ne[0] * v->ne[1] == heads && v->ne[2] == t &&
           v->ne[3] == 1;
}

static const char *problem_of_heads(const RpTensorView *q, const RpTensorView *k, const RpTensorView *v) {
    const int64_t d = v->ne[0], heads = v->ne[1], keys = k->ne[1], t = v->ne[2];
    if (d < 1 || d > RP_DELTA_MAX_DIM) return "heads must have from 1 to 256 elements";
    if (!rp_is_rows(v, d, heads, t)) return "v must be f32 [d,heads,t] with contiguous rows";
    if (!rp_is_rows(q, d, keys, t) || !rp_is_rows(k, d, keys, t))
        return "q and k must be f32 [d,key heads,t] with contiguous rows, for the d and t of v";
    if (heads % keys != 0) return "the heads of v must be a multiple of those of k";
    return NULL;
}

static const char *problem_of_gates(const RpTensorView *v, const RpTensorView *alpha, const RpTensorView *beta,
                                    const RpTensorView *a, const RpTensorView *dt) {
    const int64_t heads = v->ne[1], t = v->ne[2];
    if (!is_gate(alpha, heads, t) || !is_gate(beta, heads, t))
        return "alpha and beta must be f32, one for each head of v and token";
    if (!rp_is_vector(a, heads) || !rp_is_vector(dt, heads)) return "a and dt must be f32, one for each head of v";
    return NULL;
}

static CHECK_RULE(check) {
    const RpTensorView       *v = &args->gated_delta.v, *y = &args->dst;
    const RpGatedDeltaParams *p   = &args->params->gated_delta;
    const char               *why = problem_of_heads(&args->gated_delta.q, &args->gated_delta.k, v);
    if (why == NULL)
        why = problem_of_gates(v, &args->gated_delta.alpha, &args->gated_delta.beta, &args->gated_delta.a,
                               &args->gated_delta.dt);
    if (why == NULL)
        why = rp_slots_problem(&args->gated_delta.state, &args->gated_delta.slots, rp_given(&args->gated_delta.starts),
                               v->ne[0] * v->ne[0] * v->ne[1], v->ne[2]);
    if (why != NULL) return rp_refuse(RP_E_SHAPE, op, args, "%s", why);
    if (!rp_is_rows(y, v->ne[0], v->ne[1], v->ne[2]))
        return rp_refuse(RP_E_SHAPE, op, args, "the result must be f32 of the shape of v");
    if (!(p->eps >= 0.0f)) return rp_refuse(RP_E_ARG, op, args, "eps = %g must not be negative", (double)p->eps);
    return RP_OK;
}

static SHAPE_RULE(shape) {
    const RpTensorView *v = in->gated_delta.v;
    *why                  = problem_of_heads(in->gated_delta.q, in->gated_delta.k, v);
    if (*why == NULL)
        *why = problem_of_gates(v, in->gated_delta.alpha, in->gated_delta.beta, in->gated_delta.a, in->gated_delta.dt);
    if (*why == NULL)
        *why = rp_slots_problem(in->gated_delta.state, in->gated_delta.slots, in->gated_delta.starts,
                                v->ne[0] * v->ne[0] * v->ne[1], v->ne[2]);
    if (*why != NULL) return RP_E_SHAPE;
    if (!(params->gated_delta.eps >= 0.0f)) REFUSE(RP_E_ARG, "eps must not be negative");
    *out = rp_view_contiguous(RP_F32, v->ne, NULL);
    return RP_OK;
}

const OpRules rp_rules_gated_delta = {
    .shape = shape, .check = check, .gradient = rp_gradient_none, .colour = "#66c2a5"};
