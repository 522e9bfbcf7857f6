/* Op gated: the normed heads of a delta net times silu of their gates, or heads of attention times sigmoid of theirs.
 * */
#include "ops/op.h"

#include <string.h>

/* z has the rows of x, or its elements in another shape without gaps. */
static const char *problem(const RpTensorView *x, const RpTensorView *z, const RpTensorView *w,
                           const RpGatedParams *p) {
    const bool same = memcmp(x->ne, z->ne, sizeof x->ne) == 0;
    if (x->dtype != RP_F32 || x->nb[0] != sizeof(float)) return "x must be f32 with contiguous rows";
    if (z->dtype != RP_F32 || z->nb[0] != sizeof(float)) return "z must be f32 with contiguous rows";
    if (!same && (rp_view_elems(z) != rp_view_elems(x) || !rp_view_is_contiguous(z)))
        return "z must have the elements of x";
    if (w != NULL && (w->dtype != RP_F32 || rp_view_elems(w) != x->ne[0] || !rp_view_is_contiguous(w)))
        return "w must be f32, as long as the rows of x";
    if (w != NULL && p->norm == 0) return "norm must not be 0 where w is given";
    return NULL;
}

static CHECK_RULE(check) {
    const RpTensorView *x = &args->gated.x, *w = &args->gated.w;
    const char         *why = problem(x, &args->gated.z, rp_is_present(w) ? w : NULL, &args->params->gated);
    if (why != NULL) return rp_refuse(RP_E_SHAPE, op, args, "%s", why);
    return rp_check_unary(op, args);
}

static SHAPE_RULE(shape) {
    *why = problem(in->gated.x, in->gated.z, in->gated.w, &params->gated);
    if (*why != NULL) return RP_E_SHAPE;
    return rp_shape_unary(in, params, out, why);
}

static PARTS(parts) {
    const RpGatedParams *p = &n->params.gated;
    rp_add_part(list, p->norm != 0, "norm");
    rp_add_part(list, p->silu != 0, "silu");
    rp_add_part(list, p->silu == 0, "sigmoid");
    rp_add_part(list, true, "product");
}

const OpRules rp_rules_gated = {
    .shape = shape, .check = check, .gradient = rp_gradient_none, .parts = parts, .colour = "#fccde5"};
