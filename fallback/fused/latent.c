/* Computes the query of latent attention for one token and stores its latent vector and key, by the kernels of the
 * separate ops:
 *
 *     y              = k_b[:,:,h] q[0..d,h] of each head, then rope(q[d..d+r,h]) of each head
 *     latent[:,pos]  = rms_norm(kv[0..n])
 *     key[:,pos]     = rope(kv[n..n+r])      with `rows` column rows[0] in place of pos
 *
 * Workers take whole heads; the stores are one item more.
 *
 *     local: the query of a head, quantised; in the last item latent vector and key f32 [n + r] (rp_column_bytes) */
#include "fallback/fused/fused.h"

CpuNeeds rp_needs_latent(const RpOpArgs *args) {
    const int64_t q = args->latent.q.ne[0], kv = args->latent.kv.ne[0];
    return (CpuNeeds){.phases = 1, .local = rp_column_bytes(q > kv ? q : kv)};
}

/* r elements of one row, to y. */
static RpStatus rotate(const RpOpArgs *args, float *x, float *y) {
    const RpOpParams   rope = {.rope = args->params->latent.rope};
    const RpTensorView from = rp_floats(x, rope.rope.n_dims, 1);
    return rp_run_alone(rp_cpu_rope, &(RpOpArgs){
                                         .dst    = rp_floats(y, rope.rope.n_dims, 1),
                                         .src    = {from, args->latent.pos, args->latent.factors},
                                         .params = &rope,
    });
}

static RpStatus query(const RpOpArgs *args, RpKernelCtx *ctx, int64_t h) {
    const RpTensorView  *k_b = &args->latent.k_b, *q = &args->latent.q;
    const int64_t        n = k_b->ne[1], r = args->params->latent.rope.n_dims, heads = k_b->ne[2];
    const RpColumnParams column = {.round = args->params->latent.round};
    const RpTensorView   none   = {0};
    float               *x = rp_view_row(q, h), *y = args->dst.data;
    const RpTensorView   head = rp_floats(x, k_b->ne[0], 1);
    RpTensorView         w    = *k_b, c;
    w.data                    = (char *)w.data + (size_t)h * w.nb[2];
    RP_TRY(rp_column(&head, &none, &column, ctx->local, &c));
    RP_TRY(rp_mul_mat_rows(&w, 0, n, &c, y + h * n));
    return rotate(args, x + k_b->ne[0], y + heads * n + h * r);
}

/* Into a row of a cache. */
static RpStatus store(const RpOpArgs *args, const RpTensorView *cache, float *x) {
    const RpTensorView from = rp_floats(x, cache->ne[0], 1);
    const RpTensorView at   = rp_is_present(&args->latent.rows) ? args->latent.rows : args->latent.pos;
    return rp_run_alone(rp_cpu_copy, &(RpOpArgs){
                                         .dst = *cache, .src = {from, *cache, at}
    });
}

static RpStatus stores(const RpOpArgs *args, RpKernelCtx *ctx) {
    const int64_t      n    = args->latent.latent.ne[0];
    const RpOpParams   norm = {.rms_norm = {.eps = args->params->latent.eps}};
    float             *kv = args->latent.kv.data, *made = (float *)ctx->local;
    const RpTensorView from = rp_floats(kv, n, 1);
    RP_TRY(rp_run_alone(rp_cpu_rms_norm, &(RpOpArgs){
                                             .dst    = rp_floats(made, n, 1),
                                             .src    = {from, args->latent.norm},
                                             .params = &norm,
    }));
    RP_TRY(rotate(args, kv + n, made + n));
    RP_TRY(store(args, &args->latent.latent, made));
    return store(args, &args->latent.key, made + n);
}

RpStatus rp_cpu_latent(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(latent, args));
    const int64_t heads = args->latent.k_b.ne[2], items = heads + 1;
    for (int64_t i = items * ctx->ith / ctx->nth; i < items * (ctx->ith + 1) / ctx->nth; i++)
        RP_TRY(i < heads ? query(args, ctx, i) : stores(args, ctx));
    return RP_OK;
}
