/* Fused product of one token: y = post_norm(scale * (w c + bias)) + residual, c = column(x) (column.cuh). Every
 * step but the product is optional.
 * geometry  GEMV, blocks of 8 warps with 8/split row pairs (gemv.cuh), each for several row tiles (ColumnGrid). With
 *           a post-norm the sums go to scratch memory and the last-arriving block norms them all (arrive.cuh)
 * traffic   the weights once; per block and element of the column, from L2: 1.375 bytes if it is q8_act already,
 *           8 to 12 if the block computes it
 * numerics  the bits of the separate ops: sums as mul_mat.cu, norms as rms_norm.cu, quantisation as quantize.cu */
#include "base/kernels.h"
#include "kernels/device/arrive.cuh"
#include "kernels/device/column.cuh"

namespace {

struct LinearArgs {
    RpTensorView w;
    ColumnSource column;
    const float *bias, *residual, *post_weight;
    float       *y, *sums; /* sums: in scratch memory, before the post-norm */
    unsigned    *counter;
    float        scale, post_eps;
    bool         post;
    ColumnGrid   grid;
};

/* Epilogue per row. __fadd_rn keeps the compiler from fusing the addition with a product, which op add does not. */
struct LinearPut {
    const LinearArgs &p;
    __device__ void   operator()(int m, int, const float (&v)[RP_GEMV_ROWS]) const {
          for (int r = 0; r < RP_GEMV_ROWS; r++) {
              const int i = m + r;
              if (i >= (int)p.w.ne[1]) return;
            float sum = v[r] + (p.bias != nullptr ? p.bias[i] : 0.0f);
              if (p.scale != 1.0f) sum = fmaf(p.scale, sum, 0.0f);
            if (p.post)
                p.sums[i] = sum;
            else
                p.y[i] = p.residual != nullptr ? __fadd_rn(sum, p.residual[i]) : sum;
        }
    }
};

/* The last-arriving block: y = rms_norm(sums) * post_weight + residual. The sums of other blocks are read by __ldcg,
 * in rp_rms_scale<true> too. */
__device__ void post_norm(const LinearArgs &p) {
    RP_SHARED(float, scratch, [RP_WARP]);
    const int64_t n = p.w.ne[1];
    if (!p.post || !rp_arrives_last(p.counter, gridDim.x)) return;
    const float scale = rp_rms_scale<true>(p.sums, n, p.post_eps, scratch);
    for (int64_t i = threadIdx.x; i < n; i += RP_GEMV_THREADS) {
        const float v = __fmul_rn(__ldcg(p.sums + i) * scale, p.post_weight != nullptr ? p.post_weight[i] : 1.0f);
        p.y[i]        = p.residual != nullptr ? __fadd_rn(v, p.residual[i]) : v;
    }
}

template <class Form>
__global__ void __launch_bounds__(RP_GEMV_THREADS, Form::min_blocks(1)) linear_kernel(LinearArgs p) {
    rp_gemv_open(p.grid.early);
    const GemvWork work = rp_column_work(p.grid, p.w, (int)blockIdx.x);
    Form::product(work, Form::matrix(p.w, work), FusedColumn(p.column), LinearPut{p});
    post_norm(p);
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
    const RpDtype type      = p.w.dtype;
    const int     split     = rp_gemv_split(p.w.ne[1], p.w.ne[0] / rp_gemv_frag_elems(type));
    const bool    early     = (ctx->constant & 1) != 0; /* w is a weight */
    return rp_for_form(type, p.column.quantize, [&](auto form) {
        p.grid = rp_column_grid(p.w.ne[1], RP_GEMV_ROWS, split, decltype(form)::min_blocks(1), 1, early, ctx);
        return RP_LAUNCH_FORM("linear", ctx, shape_of(p), form, linear_kernel<decltype(form)>, p);
    });
}
