/* Second half of an expert feed-forward for one token:
 *     y = post_norm(scale * sum_j weights[j] * (w[:,:,ids[j]] x[:,j] + bias[:,ids[j]])) + own
 *     own = open * shared x[:,k] + residual
 * with weights[j] * scales[ids[j]] for weights[j] if there are scales.
 * The ids are read on the device (I4); an id outside of w counts as zeros.
 * geometry  GEMV, blocks of 8 warps (gemv.cuh), several row tiles each (ColumnGrid). A block computes its rows for all
 *           chosen experts, so that no other kernel adds them up: n_experts of them side by side, all of them if no
 *           more than 8 / split are chosen. With split 2 and 2 experts:
 *
 *               warp   0 1          2 3            4 5          6 7
 *               rows   0,1          0,1            2,3          2,3
 *               expert ids[j0]      ids[j0 + 1]    ids[j0]      ids[j0 + 1]
 *
 *           (K types with rows of 1024 elements or less: half or a quarter of a warp for two rows, rp_gemv_parts)
 *
 *           then one thread per row adds the results of the experts in the order of j. With more experts the next
 *           n_experts follow, and a block has one row tile. With a post-norm the sums go to scratch memory and the
 *           last-arriving block norms them (arrive.cuh)
 * traffic   the chosen experts' weights once; their columns once per block, from L2
 *           A shared expert is computed as the last of the experts
 * numerics  sums as mul_mat_id.cu, the weighted sum as combine.cu: the bits of the separate ops */
#include "kernels/device/arrive.cuh"
#include "kernels/device/column.cuh"

namespace {

struct ExpertsDownArgs {
    RpTensorView   w, x;
    const int32_t *ids;
    const float   *weights, *bias, *residual, *open, *scales, *post_weight;
    void          *shared;                    /* the matrix of the shared expert, like one expert of w; NULL: none */
    float         *y, *sums, scale, post_eps; /* sums: in scratch memory, before the post-norm */
    unsigned      *counter;
    bool           post;
    int            split, n_experts, parts;
    ColumnGrid     grid; /* its split: warps that share the rows of a warp, split * n_experts */
};

/* Columns: those of the experts that the block computes side by side; the warp multiplies column `slot`. */
struct ExpertColumns {
    enum { COLUMNS = 1, WARPS = RP_GEMV_WARPS };
    GemvColumns<RP_GEMV_WARPS> all;
    int                        n_experts, slot;
    __device__ int             n_staged() const { return n_experts; }
    __device__ int             warp_column() const { return slot; }
    __device__ void            open() {}
    __device__ void            stage(int64_t from, int len, char *to) const { all.stage(from, len, to); }
    __device__ bool            aligned() const { return all.aligned(); }
    __device__ float           at(int64_t i) const { return ((const float *)(all.x + slot * all.stride))[i]; }
    template <bool ALIGNED> __device__ void load8(int, int64_t i, int64_t left, float (&v)[RP_FLOAT_FRAG]) const {
        rp_load8<ALIGNED>((const float *)(all.x + slot * all.stride) + i, left, v);
    }
};

/* Put: results of the experts side by side, one buffer for even tiles and one for odd ones (as in rp_gemv_finish),
 *
 *     table[tile % 2][pair of rows][slot][row of the pair]        0 for no expert */
struct ExpertsDownPut {
    enum { PARTS = 4, RESULTS = RP_GEMV_WARPS * PARTS * RP_GEMV_ROWS };
    const ExpertsDownArgs &p;
    const GemvWork        &work;
    float                 *table;
    const float           *shares; /* routing weights of the experts side by side; open of the shared one */
    int32_t                expert;
    int                    count; /* experts side by side, without the shared one, which is behind them */
    bool                   last;  /* no experts follow */
    float                 &sum;   /* of the row of this thread, over the experts so far */

    __device__ int tile_rows() const { return (RP_GEMV_WARPS >> rp_log2(p.grid.split)) * work.parts * RP_GEMV_ROWS; }

    __device__ float *buffer(int m) const { return table + ((m & tile_rows()) != 0 ? RESULTS : 0); }

    __device__ void operator()(int m, int, const float (&v)[RP_GEMV_ROWS]) const {
        const int rows = (int)p.w.ne[1];
        const int pair = (m & (tile_rows() - 1)) / RP_GEMV_ROWS,
                  slot = ((int)threadIdx.x / RP_WARP >> rp_log2(p.split)) & (p.n_experts - 1);
        float *to      = buffer(m) + (pair * p.n_experts + slot) * RP_GEMV_ROWS;
        for (int r = 0; r < RP_GEMV_ROWS; r++) {
            const bool valid = expert >= 0 && m + r < rows;
            to[r] = !valid ? 0.0f : v[r] + (p.bias != nullptr ? p.bias[(int64_t)expert * rows + m + r] : 0.0f);
        }
    }

    /* The end of a row tile: thread tid adds up row tid % 2 of row pair tid / 2. */
    __device__ void end_tile(int tile) const {
        const int tid   = (int)threadIdx.x;
        const int first = rp_gemv_block_row(work, tile), row = first + tid;
        __syncthreads();
        if (tid >= tile_rows() || row >= work.rows) return;
        const float *from = buffer(first) + tid / RP_GEMV_ROWS * p.n_experts * RP_GEMV_ROWS + tid % RP_GEMV_ROWS;
        for (int i = 0; i < count; i++) sum = fmaf(shares[i], from[i * RP_GEMV_ROWS], sum);
        if (!last) return;
        if (p.scale != 1.0f) sum = fmaf(p.scale, sum, 0.0f);
        if (p.shared != nullptr) {
            float own = from[count * RP_GEMV_ROWS];
            if (p.open != nullptr) own = __fmul_rn(shares[count], own);
            if (p.residual != nullptr) own = __fadd_rn(own, p.residual[row]);
            p.y[row] = __fadd_rn(sum, own);
        } else if (p.post)
            p.sums[row] = sum;
        else
            p.y[row] = p.residual != nullptr ? __fadd_rn(sum, p.residual[row]) : sum;
        sum = 0.0f;
    }
};

__device__ inline void rp_gemv_end_tile(const ExpertsDownPut &put, const GemvWork &, int tile) { put.end_tile(tile); }

/* The last-arriving block norms the sums. */
__device__ void post_norm(const ExpertsDownArgs &p) {
    RP_SHARED(float, scratch, [RP_WARP]);
    const int64_t n = p.w.ne[1];
    if (!p.post || !rp_arrives_last(p.counter, gridDim.x)) return;
    const float scale = rp_rms_scale<true>(p.sums, n, p.post_eps, scratch);
    for (int64_t i = threadIdx.x; i < n; i += RP_GEMV_THREADS) {
        const float v = rp_normed(p.sums, p.post_weight, scale, i);
        p.y[i]        = p.residual != nullptr ? __fadd_rn(v, p.residual[i]) : v;
    }
}

/* Routing weight j, times the scale of its expert if there are scales. */
__device__ float share_of(const ExpertsDownArgs &p, int j) {
    if (p.scales == nullptr) return p.weights[j];
    const int32_t id = p.ids[j];
    return __fmul_rn(p.weights[j], id >= 0 && id < p.w.ne[2] ? p.scales[id] : 0.0f);
}

/* Resident blocks per multiprocessor. K types have one: with more, the sum over the experts spills registers. */
template <class Form> constexpr int resident() { return Form::LARGE ? 1 : Form::min_blocks(1); }

/* The chosen experts, n_experts at a time. A warp without an expert is inactive but passes all barriers. */
template <class Form>
__global__ void __launch_bounds__(RP_GEMV_THREADS, resident<Form>()) experts_down_kernel(ExpertsDownArgs p) {
    rp_begin();
    RP_SHARED(float, table, [2 * ExpertsDownPut::RESULTS]);
    RP_SHARED(float, shares, [RP_GEMV_WARPS]);
    const int k = (int)p.x.ne[1], chosen = p.shared != nullptr ? k - 1 : k, tid = (int)threadIdx.x,
              slot = (tid / RP_WARP >> rp_log2(p.split)) & (p.n_experts - 1);
    GemvWork work  = rp_column_work(p.grid, p.w, (int)blockIdx.x);
    work.split     = p.split;
    work.n_experts = p.n_experts;
    if (Form::LARGE) work.parts = p.parts;
    float sum = 0.0f;
    for (int j0 = 0; j0 < k; j0 += p.n_experts) {
        const int     count = k - j0 < p.n_experts ? k - j0 : p.n_experts, j = j0 + slot;
        const bool    own = slot < count && j >= chosen; /* the warp computes the shared expert */
        const int32_t id = slot < count ? (own ? 0 : p.ids[j]) : -1, expert = id >= 0 && id < p.w.ne[2] ? id : -1;
        work.inactive               = expert < 0;
        const ExpertColumns columns = {
            {rp_row_at(p.x, j0, 0, 0), p.x.nb[1], p.x.ne[0], count},
            p.n_experts, slot < count ? slot : 0
        };
        if (j0 > 0) __syncthreads(); /* the table of the experts before has been read */
        if (tid < count) {           /* the barrier of end_tile follows */
            if (j0 + tid < chosen)
                shares[tid] = share_of(p, j0 + tid);
            else if (p.open != nullptr)
                shares[tid] = *p.open;
        }
        RpTensorView w = p.w;
        if (own) w.data = p.shared, w.ne[2] = 1;
        const bool last = j0 + count == k;
        Form::product(work, Form::matrix(w, work, expert < 0 ? 0 : expert), columns,
                      ExpertsDownPut{p, work, table, shares, expert, last ? chosen - j0 : count, last, sum});
    }
    post_norm(p);
}

/* Dynamic shared memory: the staged columns of n_experts experts. */
LaunchShape shape_of(const ExpertsDownArgs &p, bool staged) {
    const int64_t n = p.w.ne[0], most = RP_GEMV_STAGED / p.n_experts;
    return {dim3((unsigned)p.grid.blocks), dim3(RP_GEMV_THREADS),
            staged ? (unsigned)(p.n_experts * rp_staged_bytes(n < most ? n : most)) : 0};
}

} // namespace

extern "C" size_t rp_cuda_experts_down_scratch(const RpOpArgs *args, const RpKernelCtx *) {
    return args->params->experts_down.post_norm != 0 ? rp_scratch_size(args->experts_down.w.ne[1]) : 0;
}

extern "C" RpStatus rp_cuda_experts_down(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(experts_down, args));
    RP_TRY(rp_check_scratch("experts_down", ctx, rp_cuda_experts_down_scratch(args, ctx)));
    const RpExpertsDownParams *o = &args->params->experts_down;
    ExpertsDownArgs            p = {};
    p.w                          = args->experts_down.w;
    p.x                          = args->experts_down.x;
    p.ids                        = (const int32_t *)args->experts_down.ids.data;
    p.weights                    = (const float *)args->experts_down.weights.data;
    p.bias                       = (const float *)args->experts_down.bias.data;
    p.residual                   = (const float *)args->experts_down.residual.data;
    p.shared                     = args->experts_down.shared.data;
    p.open                       = (const float *)args->experts_down.open.data;
    p.y                          = (float *)args->dst.data;
    p.scale                      = o->scale;
    p.scales                     = (const float *)args->experts_down.scales.data;
    p.post                       = o->post_norm != 0;
    p.post_eps                   = o->post_eps;
    p.post_weight                = (const float *)args->experts_down.post_norm.data;
    p.sums                       = rp_scratch_floats(ctx);
    p.counter                    = (unsigned *)ctx->scratch;
    const RpDtype type           = p.w.dtype;
    const int64_t k = p.x.ne[1], m = p.w.ne[1];
    const int64_t n_frags = p.w.ne[0] / rp_gemv_frag_elems(type);
    p.split               = rp_gemv_split(m * k, n_frags); /* as in mul_mat_id */
    p.n_experts           = 1;
    while (p.n_experts < k && p.split * p.n_experts < RP_GEMV_WARPS) p.n_experts *= 2;
    return rp_for_form(type, p.x.dtype == RP_Q8_ACT, [&](auto form) {
        using Form           = decltype(form);
        const bool one_round = k <= p.n_experts; /* else one row tile a block */
        p.parts              = Form::LARGE ? rp_gemv_parts(n_frags) : 1;
        p.grid               = rp_column_grid(m, p.parts * RP_GEMV_ROWS, p.split * p.n_experts,
                                one_round ? resident<Form>() : INT16_MAX, 1, false, ctx);
        return RP_LAUNCH_FORM("experts_down", ctx, shape_of(p, Form::STAGED), form, experts_down_kernel<Form>, p);
    });
}
