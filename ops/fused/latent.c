/* Op latent: queries of latent attention, and the stores of its latent vector and rotated key, for one token. */
#include "ops/op.h"

#include "ops/fused/column.h"

static bool is_cache(const RpTensorView *v, int64_t n) {
    return v->dtype == RP_F16 && v->nb[0] == sizeof(uint16_t) && v->ne[0] == n && rp_shape_is_one_matrix(v);
}

static const char *problem_of_rows(const RpTensorView *k_b, const RpTensorView *q, const RpTensorView *kv, int64_t r) {
    const int64_t d = k_b->ne[0], n = k_b->ne[1], h = k_b->ne[2];
    if (k_b->dtype == RP_I32 || k_b->dtype == RP_Q8_ACT || k_b->ne[3] != 1 || !rp_shape_contiguous_rows(k_b))
        return "k_b must be of a weight type, a matrix for each head, with contiguous rows";
    if (!rp_shape_is_rows(q) || q->ne[0] != d + r || q->ne[1] != h || rp_view_rows(q) != h)
        return "q must be f32 [d+r,h] with contiguous rows, for the d and h of k_b and r rotated elements";
    if (!rp_shape_is_rows(kv) || kv->ne[0] != n + r || rp_view_rows(kv) != 1)
        return "kv must be f32 [n+r], for the n of k_b and r rotated elements";
    return NULL;
}

static const char *problem_of_params(const RpTensorView *k_b, const RpLatentParams *p) {
    if (p->rope.n_dims < 2 || p->rope.n_dims > RP_ROPE_MAX_DIMS || p->rope.n_dims % 2 != 0 ||
        !(p->rope.freq_base > 0.0f))
        return "n_dims must be even, positive and at most 1024, and freq_base positive";
    if (p->round != 0 && !rp_dtype_is_quant(k_b->dtype)) return "k_b must be quantised where heads are";
    if (p->round != 0 && k_b->ne[0] % rp_dtype_info(RP_Q8_ACT)->block_elems != 0)
        return "heads to be quantised must be whole blocks of 32";
    if (!(p->eps >= 0.0f)) return "eps must not be negative";
    return NULL;
}

static CHECK_RULE(check) {
    const RpTensorView   *k_b = &args->latent.k_b, *factors = &args->latent.factors;
    const RpLatentParams *p = &args->params->latent;
    const int64_t         r = p->rope.n_dims, n = k_b->ne[1];
    const char           *why = problem_of_params(k_b, p);
    if (why != NULL)
        return rp_refuse(RP_E_SHAPE, op, args, "n_dims = %d, freq_base = %g, eps = %g, round = %d: %s", (int)r,
                         (double)p->rope.freq_base, (double)p->eps, (int)p->round, why);
    why = problem_of_rows(k_b, &args->latent.q, &args->latent.kv, r);
    if (why == NULL && (!is_cache(&args->latent.latent, n) || !is_cache(&args->latent.key, r)))
        why = "latent and key must be f16 matrices of rows of n and r elements";
    if (why != NULL) return rp_refuse(RP_E_SHAPE, op, args, "%s", why);
    RP_TRY(rp_check_vector(op, args, "norm", &args->latent.norm, n));
    RP_TRY(rp_check_vector(op, args, "factors", factors, r / 2));
    return rp_check_result(op, args, RP_F32, (n + r) * k_b->ne[2], 1);
}

static SHAPE_RULE(shape) {
    const RpTensorView *k_b = in->latent.k_b;
    const int64_t       r = params->latent.rope.n_dims, n = k_b->ne[1];
    *why = problem_of_params(k_b, &params->latent);
    if (*why == NULL) *why = problem_of_rows(k_b, in->latent.q, in->latent.kv, r);
    if (*why != NULL) return RP_E_SHAPE;
    if (!rp_shape_is_index(in->latent.pos, 1)) REFUSE(RP_E_SHAPE, "the position must be i32 of one token");
    if (in->latent.rows != NULL && !rp_shape_is_index(in->latent.rows, 1))
        REFUSE(RP_E_SHAPE, "the row must be i32 of one token");
    if (!is_cache(in->latent.latent, n) || !is_cache(in->latent.key, r))
        REFUSE(RP_E_SHAPE, "latent and key must be f16 matrices of rows of n and r elements");
    if (!rp_shape_fits(in->latent.norm, n)) REFUSE(RP_E_SHAPE, "the weight of the norm must be f32 [n]");
    if (!rp_shape_fits(in->latent.factors, r / 2)) REFUSE(RP_E_SHAPE, "frequency factors must be f32, one per pair");
    *out = rp_view_contiguous(RP_F32, (int64_t[]){(n + r) * k_b->ne[2], 1, 1, 1}, NULL);
    return RP_OK;
}

static PARTS(parts) {
    rp_add_part(list, n->params.latent.round != 0, "round");
    rp_add_part(list, true, "products");
    rp_add_part(list, true, "norm");
    rp_add_part(list, true, "rotation");
    rp_add_part(list, true, "store");
}

const OpRules rp_rules_latent = {
    .shape = shape, .check = check, .gradient = rp_gradient_none, .parts = parts, .colour = "#c2a5cf"};
