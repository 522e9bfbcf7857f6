/* Fused product of one token, c = column(x) (column.cuh). Every step but the product is optional; a norm of the sum
 * needs a post-norm:
 *     y = factor * (sum_norm(post_norm(act(scale * (w c + bias))) + residual) + sum_residual)
 * geometry  GEMV, blocks of 8 warps with 8/split row pairs (gemv.cuh), each for several row tiles (ColumnGrid). With
 *           a post-norm the sums go to scratch memory and the last-arriving block does the rest (arrive.cuh)
 * traffic   the weights once; per block and element of the column, from L2: 1.375 bytes if it is q8_act already,
 *           8 to 12 if the block computes it
 * numerics  the bits of the separate ops: sums as mul_mat.cu, norms as rms_norm.cu, quantisation as quantize.cu */
#include "base/kernels.h"
#include "kernels/device/act.cuh"
#include "kernels/device/arrive.cuh"
#include "kernels/device/column.cuh"

namespace {

struct LinearArgs {
    RpTensorView w;
    ColumnSource column;
    const float *bias, *residual, *post_weight, *factor, *sum_weight, *sum_residual;
    float       *y, *sums; /* sums: in scratch memory, before the post-norm */
    unsigned    *counter;
    float        scale, post_eps, sum_eps;
    RpLinearAct  act;
    bool         post, sum_norm, one_factor; /* one_factor: for all rows */
    ColumnGrid   grid;
};

/* Not inlined, so that an activation takes no registers from the product. */
__device__ RP_NOINLINE float activated(RpLinearAct act, float x) {
    if (act == RP_LINEAR_ACT_SILU) return Silu()(x);
    if (act == RP_LINEAR_ACT_GELU_TANH) return GeluTanh()(x);
    if (act == RP_LINEAR_ACT_GELU_ERF) return GeluErf()(x);
    return ReluSqr()(x);
}

/* The end of row i: the residuals and the factor. __fadd_rn keeps the compiler from fusing the addition with a product,
 * which op add does not. */
__device__ float ended(const LinearArgs &p, const float *residual, int64_t i, float v) {
    if (residual != nullptr) v = __fadd_rn(v, residual[i]);
    if (p.sum_residual != nullptr) v = __fadd_rn(v, p.sum_residual[i]);
    return p.factor != nullptr ? __fmul_rn(v, p.factor[p.one_factor ? 0 : i]) : v;
}

/* Epilogue per row. */
struct LinearPut {
    const LinearArgs &p;
    __device__ void   operator()(int m, int, const float (&v)[RP_GEMV_ROWS]) const {
          for (int r = 0; r < RP_GEMV_ROWS; r++) {
              const int i = m + r;
              if (i >= (int)p.w.ne[1]) return;
            float sum = v[r] + (p.bias != nullptr ? p.bias[i] : 0.0f);
              if (p.scale != 1.0f) sum = fmaf(p.scale, sum, 0.0f);
            if (p.act != RP_LINEAR_ACT_NONE) sum = activated(p.act, sum);
            if (p.post)
                p.sums[i] = sum;
            else
                p.y[i] = ended(p, p.residual, i, sum);
        }
    }
};

/* The last-arriving block: the norms of the whole row. */
__device__ void norms(const LinearArgs &p) {
    RP_SHARED(float, scratch, [RP_WARP]);
    const int64_t n = p.w.ne[1];
    if (!p.post || !rp_arrives_last(p.counter, gridDim.x)) return;
    float        scale  = rp_rms_scale<true>(p.sums, n, p.post_eps, scratch);
    const float *weight = p.post_weight, *residual = p.residual;
    if (p.sum_norm) {
        for (int64_t i = threadIdx.x; i < n; i += RP_GEMV_THREADS) {
            const float v = rp_normed(p.sums, weight, scale, i);
            p.sums[i]     = residual != nullptr ? __fadd_rn(v, residual[i]) : v;
        }
        __syncthreads(); /* the whole row, and scratch has been read */
        scale  = rp_rms_scale<true>(p.sums, n, p.sum_eps, scratch);
        weight = p.sum_weight, residual = nullptr;
    }
    for (int64_t i = threadIdx.x; i < n; i += RP_GEMV_THREADS)
        p.y[i] = ended(p, residual, i, rp_normed(p.sums, weight, scale, i));
}

template <class Form>
__global__ void __launch_bounds__(RP_GEMV_THREADS, Form::min_blocks(1)) linear_kernel(LinearArgs p) {
    rp_gemv_open(p.grid.early);
    const GemvWork work = rp_column_work(p.grid, p.w, (int)blockIdx.x);
    Form::product(work, Form::matrix(p.w, work), FusedColumn(p.column), LinearPut{p});
    norms(p);
}

LaunchShape shape_of(const LinearArgs &p) {
    return {dim3((unsigned)p.grid.blocks), dim3(RP_GEMV_THREADS), rp_column_shared(p.column)};
}

} // namespace

extern "C" size_t rp_cuda_linear_scratch(const RpOpArgs *args, const RpKernelCtx *) {
    return args->params->linear.post_norm != 0 ? rp_scratch_size(args->linear.w.ne[1]) : 0;
}

extern "C" RpStatus rp_cuda_linear(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(linear, args));
    RP_TRY(rp_check_scratch("linear", ctx, rp_cuda_linear_scratch(args, ctx)));
    const RpLinearParams *o = &args->params->linear;
    LinearArgs            p = {};
    p.w                     = args->linear.w;
    p.column                = rp_column_source(args->linear.x, args->linear.norm, o->column);
    p.bias                  = (const float *)args->linear.bias.data;
    p.residual              = (const float *)args->linear.residual.data;
    p.post_weight           = (const float *)args->linear.post_norm.data;
    p.y                     = (float *)args->dst.data;
    p.sums                  = rp_scratch_floats(ctx);
    p.counter               = (unsigned *)ctx->scratch;
    p.scale                 = o->scale;
    p.post                  = o->post_norm != 0;
    p.post_eps              = o->post_eps;
    p.factor                = (const float *)args->linear.factor.data;
    p.one_factor            = args->linear.factor.ne[0] == 1;
    p.act                   = o->act;
    p.sum_norm              = o->sum_norm != 0;
    p.sum_eps               = o->sum_eps;
    p.sum_weight            = (const float *)args->linear.sum_norm.data;
    p.sum_residual          = (const float *)args->linear.sum_residual.data;
    const RpDtype type      = p.w.dtype;
    const int     split     = rp_gemv_split(p.w.ne[1], p.w.ne[0] / rp_gemv_frag_elems(type));
    const bool    early     = (ctx->constant & 1) != 0; /* w is a weight */
    return rp_for_form(type, p.column.quantize, [&](auto form) {
        p.grid = rp_column_grid(p.w.ne[1], RP_GEMV_ROWS, split, decltype(form)::min_blocks(1), 1, early, ctx);
        return RP_LAUNCH_FORM("linear", ctx, shape_of(p), form, linear_kernel<decltype(form)>, p);
    });
}
