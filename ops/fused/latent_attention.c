/* Op latent_attention: attention whose keys and values are latent vectors that all heads share. */
#include "ops/op.h"

#include "base/limits.h"
#include "ops/attention/table.h"

/* A KV cache f16 [n,n_ctx]. */
static bool is_cache(const RpTensorView *v, int64_t n, int64_t n_ctx) {
    return v->dtype == RP_F16 && v->nb[0] == sizeof(uint16_t) && v->ne[0] == n && v->ne[1] == n_ctx && v->ne[2] == 1 &&
           v->ne[3] == 1;
}

static bool is_queries(const RpTensorView *v, int64_t n, int64_t t, int64_t h) {
    return v->dtype == RP_F32 && v->nb[0] == sizeof(float) && v->ne[0] == n && v->ne[1] == t && v->ne[2] == h &&
           v->ne[3] == 1;
}

static const char *problem(const RpTensorView *q, const RpTensorView *latent, const RpTensorView *key,
                           const RpTensorView *pos, const RpTensorView *q_rope) {
    const int64_t t = q->ne[1], h = q->ne[2];
    if (latent->ne[0] > RP_ATTENTION_MAX_DIM) return "latent vectors must have at most 512 elements";
    if (key->ne[0] > RP_LATENT_MAX_ROPE) return "rotated keys must have at most 64 elements";
    if (!is_cache(latent, latent->ne[0], latent->ne[1]) || !is_cache(key, key->ne[0], latent->ne[1]))
        return "latent and key must be f16 with contiguous rows, as many of both";
    if (!is_queries(q, latent->ne[0], t, h)) return "q must be f32 [n,t,h] with contiguous rows, for the n of latent";
    if (!is_queries(q_rope, key->ne[0], t, h))
        return "q_rope must be f32 [r,t,h] with contiguous rows, for the r of key and the t and h of q";
    if (pos->dtype != RP_I32 || pos->ne[0] != t || rp_view_elems(pos) != t)
        return "pos must be i32, one for each token of q";
    return NULL;
}

static const char *problem_of_result(const RpLatentAttentionParams *p, const RpTensorView *q) {
    if (p->dtype != RP_F32 && p->dtype != RP_Q8_ACT) return "the result must be f32 or q8_act";
    if (p->dtype == RP_Q8_ACT && q->ne[0] % rp_dtype_info(RP_Q8_ACT)->block_elems != 0)
        return "latent vectors must be whole blocks of 32 where the result is q8_act";
    return NULL;
}

static CHECK_RULE(check) {
    const RpTensorView            *q = &args->latent_attention.q, *y = &args->dst;
    const RpLatentAttentionParams *p   = &args->params->latent_attention;
    const char                    *why = problem(q, &args->latent_attention.latent, &args->latent_attention.key,
                                                 &args->latent_attention.pos, &args->latent_attention.q_rope);
    if (why == NULL) why = problem_of_result(p, q);
    if (why == NULL)
        why = rp_table_problem(q, &args->latent_attention.latent, rp_given(&args->latent_attention.table),
                               rp_given(&args->latent_attention.seq), p->block);
    if (why != NULL) return rp_refuse(RP_E_SHAPE, op, args, "%s", why);
    if (y->dtype != p->dtype || !rp_shape_same(y, q))
        return rp_refuse(RP_E_SHAPE, op, args, "the result must be %s of the shape of q", rp_dtype_name(p->dtype));
    return RP_OK;
}

static SHAPE_RULE(shape) {
    const RpTensorView *q = in->latent_attention.q;
    *why                  = problem(q, in->latent_attention.latent, in->latent_attention.key, in->latent_attention.pos,
                                    in->latent_attention.q_rope);
    if (*why == NULL) *why = problem_of_result(&params->latent_attention, q);
    if (*why == NULL)
        *why = rp_table_problem(q, in->latent_attention.latent, in->latent_attention.table, in->latent_attention.seq,
                                params->latent_attention.block);
    if (*why != NULL) return RP_E_SHAPE;
    *out = rp_view_contiguous(params->latent_attention.dtype, q->ne, NULL);
    return RP_OK;
}

static PARTS(parts) { rp_add_part(list, n->view.dtype == RP_Q8_ACT, "round"); }

const OpRules rp_rules_latent_attention = {
    .shape = shape, .check = check, .gradient = rp_gradient_none, .parts = parts, .colour = "#d6604d"};
