/* Computes the query of latent attention for one token, and stores its latent vector and its key:
 *     y = k_b[:,:,h] q[0..d,h] of each head, then rope(q[d..d+r,h]) of each head
 *     latent[:,row] = rms_norm(kv[0..n]);  key[:,row] = rope(kv[n..n+r])
 * with row = pos, or as given (a cache of blocks). A row outside of the caches is not stored.
 * geometry  GEMV, blocks of 8 warps with 8/split row pairs (gemv.cuh), grid (row tiles, heads + 1). The first block of
 *           a head also rotates its query, and the first one behind the heads makes latent vector and key
 * traffic   k_b once; the query of a head once per block, from L2
 * numerics  the bits of the separate ops: mul_mat.cu, quantize.cu, rms_norm.cu, rope.cu, copy.cu */
#include "kernels/device/column.cuh"
#include "kernels/device/copy.cuh"
#include "kernels/device/rope.cuh"

namespace {

struct LatentArgs {
    RpTensorView   k_b, q, latent, key;
    const float   *kv, *norm, *factors;
    const int32_t *pos, *row; /* row: of the caches; pos where there are no rows apart from it */
    float         *y;
    RopeShape      rope;
    float          eps;
    int            split, early; /* early: of GemvWork */
    bool           round;
};

/* Pairs of a row of r elements. */
template <class Put> __device__ void rotate(const LatentArgs &p, const float *x, const Put &put) {
    for (int pair = (int)threadIdx.x; pair < p.rope.p.n_dims / 2; pair += RP_GEMV_THREADS) {
        const bool near  = p.rope.p.mode == RP_ROPE_NORM;
        const int  first = near ? 2 * pair : pair, other = near ? first + 1 : first + p.rope.p.n_dims / 2;
        float      a, b;
        rp_rotate(rp_rotation(p.rope, p.pos[0], p.factors, pair), x[first], x[other], &a, &b);
        put(first, a), put(other, b);
    }
}

/* Not inlined, so that nothing of it takes registers from the products. */
__device__ RP_NOINLINE void rotate_query(const LatentArgs &p, int h) {
    const int    n = (int)p.k_b.ne[1], heads = (int)p.k_b.ne[2];
    float *const y = p.y + (int64_t)heads * n + (int64_t)h * p.rope.p.n_dims;
    rotate(p, (const float *)rp_row(p.q, h) + p.k_b.ne[0], [&](int i, float v) { y[i] = v; });
}

__device__ RP_NOINLINE void store_latent(const LatentArgs &p) {
    RP_SHARED(float, scratch, [RP_WARP]);
    const int     n     = (int)p.k_b.ne[1];
    const float   scale = rp_rms_scale<false>(p.kv, n, p.eps, scratch);
    const int32_t to    = p.row[0];
    if (to < 0 || to >= p.latent.ne[1]) return;
    char *const row = rp_row(p.latent, to), *const key = rp_row(p.key, to);
    for (int i = (int)threadIdx.x; i < n; i += RP_GEMV_THREADS)
        rp_put_float(RP_F16, row, i, p.kv[i] * scale * (p.norm != nullptr ? p.norm[i] : 1.0f));
    rotate(p, p.kv + n, [&](int i, float v) { rp_put_float(RP_F16, key, i, v); });
}

template <class Form>
__global__ void __launch_bounds__(RP_GEMV_THREADS, Form::min_blocks(1))
    latent_kernel(const __grid_constant__ LatentArgs p) {
    rp_gemv_open(p.early);
    const int h = (int)blockIdx.y;
    if (h == (int)p.k_b.ne[2]) { /* the whole block */
        if (p.early >= 0) rp_pdl_wait();
        if (blockIdx.x == 0) store_latent(p);
        return;
    }
    GemvWork work             = {(int)p.k_b.ne[1], (int)p.k_b.ne[0], 1, p.split};
    work.first_tile           = (int)blockIdx.x;
    work.early                = p.early;
    const ColumnSource column = {rp_row(p.q, h), nullptr, p.k_b.ne[0], 0.0f, false, false, p.round};
    const GemvRows     put    = {(char *)(p.y + (int64_t)h * work.rows), 0, work.rows, 1};
    Form::product(work, Form::matrix(p.k_b, work, h), FusedColumn(column), put);
    if (blockIdx.x == 0) rotate_query(p, h);
}

} // namespace

extern "C" RpStatus rp_cuda_latent(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(latent, args));
    const RpLatentParams *o = &args->params->latent;
    LatentArgs            p = {};
    p.k_b = args->latent.k_b, p.q = args->latent.q, p.latent = args->latent.latent, p.key = args->latent.key;
    p.kv = (const float *)args->latent.kv.data, p.norm = (const float *)args->latent.norm.data;
    p.factors = (const float *)args->latent.factors.data, p.pos = (const int32_t *)args->latent.pos.data;
    p.row  = rp_is_present(&args->latent.rows) ? (const int32_t *)args->latent.rows.data : p.pos;
    p.y    = (float *)args->dst.data;
    p.rope = rp_rope_shape(o->rope), p.eps = o->eps, p.round = o->round != 0;
    const int64_t heads = p.k_b.ne[2];
    if (heads >= 65535) return rp_fail(RP_E_UNSUPPORTED, "latent: %lld heads: must be at most 65534", (long long)heads);
    p.split = rp_gemv_split(p.k_b.ne[1], p.k_b.ne[0] / rp_gemv_frag_elems(p.k_b.dtype)); /* as in mul_mat */
    p.early = rp_gemv_early((ctx->constant & 1) != 0, rp_blocks(p.k_b.ne[1], RP_GEMV_ROWS * RP_GEMV_WARPS / p.split),
                            p.split, ctx);
    const LaunchShape shape =
        rp_gemv_shape(p.k_b.ne[1], p.split, heads + 1, 1, p.round ? rp_gemv_shared<1>(p.k_b.ne[0]) : 0);
    return rp_for_form(p.k_b.dtype, p.round, [&](auto form) {
        return RP_LAUNCH_FORM("latent", ctx, shape, form, latent_kernel<decltype(form)>, p);
    });
}
