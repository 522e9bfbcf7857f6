/* y[:,j,t] = w[:,:,ids[j,t]] * x[:,j,t]; an id outside of w gives 0. x[:,0,t] serves all j where ne[1] is 1. The
 * ids are read on the device: no launch depends on them (I4).
 * geometry  GEMV, blocks of 8 warps with 8/split row pairs (gemv.cuh), grid (row tiles, ids per token, tokens)
 * traffic   per token the chosen experts' weights once; x once per block, from L2
 * numerics  as mul_mat.cu; `split` differs, since a token's experts fill the device together */
#include "kernels/device/gemv_forms.cuh"

namespace {

struct MulMatIdArgs {
    RpTensorView w, x, ids, y;
    int          split;
};

/* The block's expert, or -1. */
__device__ int32_t expert_of(const MulMatIdArgs &p) {
    const int32_t id = ((const int32_t *)p.ids.data)[blockIdx.z * p.ids.ne[0] + blockIdx.y];
    return id >= 0 && id < p.w.ne[2] ? id : -1;
}

struct IdProduct {
    GemvWork       work;
    GemvColumns<1> columns;
    GemvRows       put;
};

__device__ IdProduct product_of(const MulMatIdArgs &p) {
    const int64_t j = blockIdx.y, t = blockIdx.z;
    GemvWork      work     = {p.w.ne[1], p.w.ne[0], 1, p.split};
    work.block             = blockIdx.x;
    const GemvColumns<1> x = {rp_row_at(p.x, p.x.ne[1] > 1 ? j : 0, t, 0), 0, p.w.ne[0], 1};
    const GemvRows       y = {rp_row_at(p.y, j, t, 0), 0, p.w.ne[1], 1};
    return {work, x, y};
}

/* Zeros for the rows of this block. */
__device__ void no_expert(const MulMatIdArgs &p) {
    const int     rows = RP_GEMV_ROWS * RP_GEMV_WARPS / p.split;
    const int64_t m    = (int64_t)blockIdx.x * rows + threadIdx.x;
    if ((int)threadIdx.x < rows && m < p.w.ne[1])
        ((float *)rp_row_at(p.y, blockIdx.y, blockIdx.z, 0))[m] = 0.0f;
}

template <class Form>
__global__ void __launch_bounds__(RP_GEMV_THREADS, Form::min_blocks(1)) mul_mat_id_kernel(MulMatIdArgs p) {
    rp_begin();
    const int32_t expert = expert_of(p);
    if (expert < 0) return no_expert(p); /* the whole block */
    const IdProduct product = product_of(p);
    Form::product(product.work, Form::matrix(p.w, product.work, expert), product.columns, product.put);
}

LaunchShape shape_of(const MulMatIdArgs &p, bool staged) {
    return rp_gemv_shape(p.w.ne[1], p.split, p.ids.ne[0], p.ids.ne[1],
                         staged ? rp_gemv_shared<1>(p.w.ne[0]) : 0);
}

} // namespace

extern "C" RpStatus rp_cuda_mul_mat_id(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(rp_check_mul_mat_id(args));
    MulMatIdArgs  p     = {args->mul_mat_id.w, args->mul_mat_id.x, args->mul_mat_id.ids, args->dst, 1};
    const RpDtype type  = p.w.dtype;
    const int64_t alive = p.w.ne[1] * p.ids.ne[0]; /* rows of a token's experts */
    if (p.ids.ne[0] > 65535 || p.ids.ne[1] > 65535)
        return rp_fail(RP_E_UNSUPPORTED, "mul_mat_id: %lld ids of %lld tokens: at most 65535 of each",
                       (long long)p.ids.ne[0], (long long)p.ids.ne[1]);
    p.split = rp_gemv_split(alive, p.w.ne[0] / rp_gemv_frag_elems(type));
    return rp_for_form(type, p.x.dtype == RP_Q8_ACT, [&](auto form) {
        using Form = decltype(form);
        return RP_LAUNCH_FORM("mul_mat_id", ctx, shape_of(p, Form::STAGED), form, mul_mat_id_kernel<Form>, p);
    });
}
