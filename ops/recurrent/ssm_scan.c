/* Op ssm_scan: the selective scan of Mamba-2 over tokens. */
#include "ops/recurrent/slots.h"

/* The sources that both rules look at. */
typedef struct Scan {
    const RpTensorView *x, *z, *dt, *b, *c, *a, *d, *bias, *state, *slots, *starts;
} Scan;

static const char *problem(const Scan *s) {
    const int64_t p = s->x->ne[0], heads = s->x->ne[1], t = s->x->ne[2], n = s->b->ne[0], groups = s->b->ne[1];
    if (!rp_is_rows(s->x, p, heads, t)) return "x must be f32 [p,heads,t] with contiguous rows";
    if (!rp_is_rows(s->z, p, heads, t)) return "z must be f32 of the shape of x with contiguous rows";
    if (n < 1 || n > RP_SSM_MAX_STATE) return "the state of a channel must have from 1 to 256 elements";
    if (rp_is_rows(s->b, n, groups, t) && heads % groups != 0)
        return "the heads of x must be a multiple of the groups of b";
    if (!rp_is_rows(s->b, n, groups, t) || !rp_is_rows(s->c, n, groups, t))
        return "b and c must be f32 [n,groups,t] with contiguous rows, for the t of x";
    if (!rp_is_rows(s->dt, heads, t, 1)) return "dt must be f32 [heads,t] with contiguous rows";
    if (!rp_is_vector(s->a, heads) || !rp_is_vector(s->d, heads) || !rp_is_vector(s->bias, heads))
        return "a, d and bias must be f32, one for each head of x";
    return rp_slots_problem(s->state, s->slots, s->starts, n * p * heads, t);
}

static CHECK_RULE(check) {
    const RpTensorView *x   = &args->ssm_scan.x;
    const Scan          s   = {x,
                               &args->ssm_scan.z,
                               &args->ssm_scan.dt,
                               &args->ssm_scan.b,
                               &args->ssm_scan.c,
                               &args->ssm_scan.a,
                               &args->ssm_scan.d,
                               &args->ssm_scan.bias,
                               &args->ssm_scan.state,
                               &args->ssm_scan.slots,
                               rp_given(&args->ssm_scan.starts)};
    const char         *why = problem(&s);
    if (why != NULL) return rp_refuse(RP_E_SHAPE, op, args, "%s", why);
    if (rp_is_rows(&args->dst, x->ne[0], x->ne[1], x->ne[2])) return RP_OK;
    return rp_refuse(RP_E_SHAPE, op, args, "the result must be f32 of the shape of x");
}

static SHAPE_RULE(shape) {
    const Scan s = {in->ssm_scan.x,     in->ssm_scan.z,     in->ssm_scan.dt,    in->ssm_scan.b,
                    in->ssm_scan.c,     in->ssm_scan.a,     in->ssm_scan.d,     in->ssm_scan.bias,
                    in->ssm_scan.state, in->ssm_scan.slots, in->ssm_scan.starts};
    (void)params;
    *why = problem(&s);
    if (*why != NULL) return RP_E_SHAPE;
    *out = rp_view_contiguous(RP_F32, s.x->ne, NULL);
    return RP_OK;
}

const OpRules rp_rules_ssm_scan = {.shape = shape, .check = check, .gradient = rp_gradient_none, .colour = "#fc8d62"};
