/* Query, key and value projections of one token, or its queries alone, c = column(x):
 *     y = rope(norm(wq c + bias))    k_cache[:,row,h] = rope(norm(wk c + bias))    v_cache[:,row,h] = wv c + bias
 * with row = pos, or as given (a cache of blocks). A row outside of the caches is not stored. With `value_norm` the
 * heads of values are normed too, without weights. With `gates` every second head of wq is a gate: its sums follow the
 * queries in y as they are.
 * geometry  GEMV, row tiles of 8/split row pairs (gemv.cuh). With q8_act columns a multiprocessor has one block of 16
 *           warps, so that it computes the column once; else blocks have 8 warps. The grid has the blocks of all
 *           projections, as many as the device holds at a time, with about the same number of bytes each:
 *
 *               blockIdx.x   0 ... q.blocks-1 | ... + k.blocks-1 | ... + v.blocks-1
 *
 *           Projections whose weights have another type have a launch of their own, except values in Q6_K beside Q4_K
 *           or Q5_K.
 *
 *           A rotation needs two rows, which are those of a warp (pair_of). So a block rotates and stores its own rows,
 *           32 pairs at a time by the lanes of a warp. The cosines and sines of all pairs are computed before the
 *           products, beside the norm of the column. Norms and stores in q8_0 need more of a head. Then sums go to
 *           scratch memory, and the last-arriving block of each head finishes it, or of all heads where one norm spans
 *           them (RP_HEAD_NORM_WHOLE)
 * traffic   the weights once; per block and element of the column, from L2: 1.375 bytes if it is q8_act already,
 *           8 to 12 if the block computes it; the sums are written and read once
 * numerics  the bits of the separate ops: mul_mat.cu, rms_norm.cu, rope.cu, copy.cu */
#include "kernels/device/arrive.cuh"
#include "kernels/device/column.cuh"
#include "kernels/device/copy.cuh"
#include "kernels/device/rope.cuh"
#include "ops/fused/qkv.h"

#include <type_traits>

namespace {

enum { Q, K, V, PROJS };

/* One projection. */
struct QkvProj {
    RpTensorView w, out; /* out: f32 [d,h], or a KV cache [d,n_ctx,h] */
    const float *bias, *norm;
    float       *sums;     /* [rows] in scratch memory */
    unsigned    *counters; /* one per head; with a norm over all heads only the first is used */
    ColumnGrid   grid;
    bool         direct; /* a block stores its rows itself, without sums and counters */
};

struct QkvArgs {
    QkvProj        proj[PROJS];
    ColumnSource   column;
    const int32_t *pos, *row; /* row: of the caches; pos where there are no rows apart from it */
    const float   *factors;
    RopeShape      rope;
    RpHeadNorm     norm;
    float          norm_eps;
    int            head_dim, early; /* early: of GemvWork */
    bool           gates, value_norm;
};

/* The projection that this block works for, and its rows there. */
struct QkvBlock {
    int      proj;
    GemvWork work;
};

/* Selects instead of p.proj[i]: an index at run time could move the kernel's parameters to local memory. Where they are
 * constants (nvrtc.cuh), each member is selected. */
#ifdef RP_CONSTANT_ARGUMENTS
__device__ QkvProj proj_of(const QkvArgs &p, int proj) {
    return rp_select(proj == Q, p.proj[Q], rp_select(proj == K, p.proj[K], p.proj[V]));
}
#else
__device__ const QkvProj &proj_of(const QkvArgs &p, int proj) {
    return proj == Q ? p.proj[Q] : proj == K ? p.proj[K] : p.proj[V];
}
#endif

__device__ QkvBlock block_of(const QkvArgs &p) {
    const int      b = (int)blockIdx.x, keys = p.proj[Q].grid.blocks, values = keys + p.proj[K].grid.blocks;
    const int      proj = b < keys ? Q : b < values ? K : V, first = proj == Q ? 0 : proj == K ? keys : values;
    const QkvProj &t = proj_of(p, proj);
    return {proj, rp_column_work(t.grid, t.w, b - first)};
}

/* Gates are the odd heads of wq. */
__device__ bool is_gate(const QkvArgs &p, int which, int64_t h) { return p.gates && which == Q && h % 2 != 0; }

/* The row that head h of this token is stored to; NULL for a row outside of the cache. */
__device__ char *place_of(const QkvArgs &p, const QkvProj &proj, int which, int64_t h) {
    if (which == Q && p.gates) h = h / 2 + (h % 2 != 0 ? proj.out.ne[1] / 2 : 0);
    if (which == Q) return rp_row_at(proj.out, h, 0, 0);
    const int32_t row = p.row[0];
    return row >= 0 && row < proj.out.ne[1] ? rp_row_at(proj.out, row, h, 0) : nullptr;
}

/* The rows of results m and m + 1 of a projection, m even. Where rotated pairs are not neighbours, their halves are
 * interleaved. Worked example, a head of 8 rows of which 6 rotate:
 *
 *     m        0  1   2  3   4  5   6  7
 *     row      0  3   1  4   2  5   6  7  */
struct RowPair {
    int head, pair; /* pair: of the rotation; -1 if the rows do not rotate */
    int first, second;
};

__device__ RowPair pair_of(const QkvArgs &p, int proj, int m) {
    const int d = p.head_dim, n_dims = p.rope.p.n_dims, h = m / d, j = m - h * d;
    RowPair   r = {h, proj != V && j < n_dims && !is_gate(p, proj, h) ? j / 2 : -1, m, m + 1};
    if (r.pair >= 0 && p.rope.p.mode != RP_ROPE_NORM) r.first = m - j + j / 2, r.second = r.first + n_dims / 2;
    return r;
}

/* The rotations of all pairs, in shared memory. */
__device__ Rotation *rotations(void) {
    RP_SHARED(Rotation, table, [RP_ROPE_MAX_DIMS / 2]);
    return table;
}

/* Computes the rotations by the last threads of the block, from THREADS - 1 down. Not inlined, so that the arithmetic
 * of the angles takes no registers from the products. */
template <int THREADS> __device__ RP_NOINLINE void rotate_table(const QkvArgs &p) {
    for (int pair = THREADS - 1 - (int)threadIdx.x; pair < p.rope.p.n_dims / 2; pair += THREADS)
        rotations()[pair] = rp_rotation(p.rope, p.pos[0], p.factors, pair);
}

/* The column, and meanwhile the rotations: with q8_act columns half of the warps have no part in the norm. */
template <int WARPS> struct QkvColumn : ColumnOfBlock<WARPS> {
    const QkvArgs &p;
    bool           rotates;
    __device__     QkvColumn(const QkvArgs &args, int proj)
        : ColumnOfBlock<WARPS>(args.column), p(args), rotates(proj != V) {}
    __device__ void open() {
        if (rotates) rotate_table<WARPS * RP_WARP>(p);
        ColumnOfBlock<WARPS>::open();
    }
};

/* Rotates and stores the rows of results m and m + 1, of which a and b are the sums. */
__device__ void store_pair(const QkvArgs &p, int which, int m, float a, float b) {
    const QkvProj &proj = proj_of(p, which);
    const RowPair  r    = pair_of(p, which, m);
    char          *row  = place_of(p, proj, which, r.head);
    if (row == nullptr) return;
    if (proj.bias != nullptr) a += proj.bias[r.first], b += proj.bias[r.second];
    if (r.pair >= 0) rp_rotate(rotations()[r.pair], a, b, &a, &b);
    const int head = r.head * p.head_dim;
    rp_put_float(proj.out.dtype, row, r.first - head, a);
    rp_put_float(proj.out.dtype, row, r.second - head, b);
}

/* The sums of results `at` and at + 1 of the block that are stored directly: 32 pairs for the lanes of a warp. There is
 * one buffer for even runs of 32 pairs and one for odd ones: while a warp stores one run, others may write the next.
 * They reach the one after only past its barrier (rp_gemv_reduce). */
__device__ float *pair_sums(int at) {
    RP_SHARED(float, sums, [2 * 2 * RP_WARP]);
    return sums + at % (2 * 2 * RP_WARP);
}

/* Stores the pairs of the block's row tiles before `tile`, if there are no more or they end a run of 32. Not inlined,
 * and finds its rows again, so that it takes no registers from the products. */
__device__ RP_NOINLINE void store_pairs(const QkvArgs &p, int tile) {
    enum { RUN = 2 * RP_WARP };
    const QkvBlock  b    = block_of(p);
    const BlockRows mine = rp_block_rows(b.work);
    const int next = rp_gemv_block_row(b.work, tile), end = next < mine.end ? next : mine.end, n = end - mine.first;
    if (n % RUN != 0 && end < mine.end) return;
    __syncthreads(); /* the sums of all warps are in shared memory */
    const int at = (n - 1) / RUN * RUN + 2 * (int)threadIdx.x;
    if (threadIdx.x < RP_WARP && at < n) store_pair(p, b.proj, mine.first + at, pair_sums(at)[0], pair_sums(at)[1]);
}

template <int WARPS> struct QkvPut {
    const QkvArgs  &p;
    const GemvWork &work;
    int             proj;
    __device__ void operator()(int m, int c, const float (&v)[RP_GEMV_ROWS]) const {
        const QkvProj &t = proj_of(p, proj);
        if (!t.direct)
            BiasedSums{t.sums, t.bias, work.rows}(m, c, v);
        else
            for (int i = 0; i < 2; i++) pair_sums(m - rp_gemv_block_row(work, 0))[i] = v[i];
    }
};

template <int WARPS> __device__ void rp_gemv_end_tile(const QkvPut<WARPS> &put, const GemvWork &, int tile) {
    if (proj_of(put.p, put.proj).direct) store_pairs(put.p, tile + WARPS / RP_GEMV_WARPS);
}

/* Weights: the rows of pair_of where the block stores them, else those of the matrix in their order. The matrix is made
 * again for each row tile, from the kernel's parameters: kept, it takes ten registers from the loop along k. */
template <class Form> struct HeadRows {
    const QkvArgs  &p;
    const GemvWork &work;
    int             proj;
    __device__ auto matrix() const { return Form::matrix(proj_of(p, proj).w, work); }
    __device__ auto at(int m) const {
        if (!proj_of(p, proj).direct || m >= work.rows) return matrix().at(m);
        const RowPair r = pair_of(p, proj, m);
        return matrix().two(r.first, r.second);
    }
    __device__ bool aligned() const { return matrix().aligned(); }
};

/* Norm, rotation and store of one head by the last-arriving block. Not inlined, so that the arithmetic of the
 * angles takes no registers from the products. v, the head in shared memory, reuses the space of the staged column. */
template <int THREADS>
__device__ RP_NOINLINE void finish_head(const QkvArgs &p, const QkvProj &proj, int which, int64_t h,
                                        float whole_scale) {
    RP_SHARED_DYNAMIC(float, v);
    RP_SHARED(float, scratch, [RP_WARP]);
    const int    d = p.head_dim, tid = (int)threadIdx.x;
    const bool   rotates    = which != V && !is_gate(p, which, h);
    const bool   normalizes = which == V ? p.value_norm : rotates && p.norm != RP_HEAD_NORM_NONE;
    const float *weight     = proj.norm != nullptr ? proj.norm + (p.norm == RP_HEAD_NORM_WHOLE ? h * d : 0) : nullptr;
    __syncthreads(); /* all threads have read the head before */
    for (int i = tid; i < d; i += THREADS) v[i] = __ldcg(proj.sums + h * d + i);
    __syncthreads();
    if (normalizes) {
        const float scale =
            p.norm == RP_HEAD_NORM_WHOLE ? whole_scale : rp_rms_scale<false, THREADS>(v, d, p.norm_eps, scratch);
        for (int i = tid; i < d; i += THREADS) v[i] = v[i] * scale * (weight != nullptr ? weight[i] : 1.0f);
        __syncthreads();
    }
    if (rotates) {
        for (int pair = tid; pair < p.rope.p.n_dims / 2; pair += THREADS)
            rp_rotate_row(p.rope, rotations()[pair], pair, v, v);
        __syncthreads();
    }
    char *row = place_of(p, proj, which, h);
    if (row == nullptr) return;
    if (proj.out.dtype == RP_Q8_0) {
        for (int i = tid; i < d; i += THREADS) /* whole warps */
            rp_put_q8_0(v[i], (uint8_t *)row + i / RP_WARP * RP_Q8_0_BYTES);
        return;
    }
    for (int i = tid; i < d; i += THREADS) rp_put_float(proj.out.dtype, row, i, v[i]);
}

/* Arrives at every head that this block has rows of. A head waits for the blocks that overlap it. With d = 24 and
 * blocks of 16 rows, head 1 (rows 24..47) waits for blocks 1 and 2, and block 1 (rows 16..31) arrives at heads 0 and 1.
 * Not inlined, so that nothing of it takes registers from the product. */
template <int THREADS> __device__ RP_NOINLINE void finish_heads(const QkvArgs &p) {
    RP_SHARED(float, scratch, [RP_WARP]);
    const QkvBlock b    = block_of(p);
    const QkvProj &proj = proj_of(p, b.proj);
    if (proj.direct) return;
    const int       d = p.head_dim, tile_rows = (RP_GEMV_WARPS >> rp_log2(b.work.split)) * RP_GEMV_ROWS;
    const BlockRows mine = rp_block_rows(b.work);
    if (p.norm == RP_HEAD_NORM_WHOLE && b.proj != V) {
        if (!rp_arrives_last(proj.counters, (unsigned)proj.grid.blocks)) return;
        const float scale = rp_rms_scale<true, THREADS>(proj.sums, b.work.rows, p.norm_eps, scratch);
        for (int h = 0; h < b.work.rows / d; h++) finish_head<THREADS>(p, proj, b.proj, h, scale);
        return;
    }
    for (int h = mine.first / d; h * d < mine.end; h++) {
        const unsigned blocks = rp_blocks_of_rows(proj.grid, tile_rows, h * d, (h + 1) * d);
        if (rp_arrives_last(proj.counters + h, blocks)) finish_head<THREADS>(p, proj, b.proj, h, 1.0f);
    }
}

template <class Form> __device__ inline void rows_of(const QkvArgs &p, const QkvBlock &b) {
    constexpr int WARPS = BlockShape<Form>::WARPS;
    Form::product(b.work, HeadRows<Form>{p, b.work, b.proj}, QkvColumn<WARPS>(p, b.proj),
                  QkvPut<WARPS>{p, b.work, b.proj});
}

/* Weights of one form, or those of the values of another. */
template <class Form, class ValueForm>
__global__ void __launch_bounds__(BlockShape<Form>::THREADS, BlockShape<Form>::RESIDENT)
    qkv_kernel(const __grid_constant__ QkvArgs p) {
    rp_gemv_open(p.early);
    const QkvBlock b = block_of(p);
    if (std::is_same<Form, ValueForm>::value || b.proj != V)
        rows_of<Form>(p, b);
    else
        rows_of<ValueForm>(p, b);
    finish_heads<BlockShape<Form>::THREADS>(p);
}

/* Bit i: the launch computes projection i. */
enum { ALL_PROJS = 1 << Q | 1 << K | 1 << V };

/* The projections that the op has: all, or the queries alone. */
unsigned projs_of(const QkvArgs &p) { return rp_is_present(&p.proj[K].w) ? ALL_PROJS : 1u << Q; }

/* The blocks of each projection (column.cuh). */
template <class Form> void divide_blocks(QkvArgs &p, unsigned projs, bool early, const RpKernelCtx *ctx) {
    enum { TILES = BlockShape<Form>::WARPS / RP_GEMV_WARPS }; /* of a block, computed at a time */
    TileShare t[PROJS] = {};
    for (int i = Q; i < PROJS; i++)
        if (projs >> i & 1) t[i] = rp_tile_share(p.proj[i].w);
    rp_share_tiles(t, PROJS, rp_tuning_blocks(ctx, BlockShape<Form>::RESIDENT));
    p.early = rp_gemv_early(early, rp_share_pairs(t, PROJS, TILES), RP_GEMV_WARPS, ctx);
    for (int i = Q; i < PROJS; i++) {
        p.proj[i].grid       = rp_share_grid(t[i]);
        p.proj[i].grid.early = p.early;
    }
}

/* Dynamic shared memory: the staged column, later a head of f32. */
template <class Form> LaunchShape shape_of(const QkvArgs &p, bool any_type) {
    const unsigned staged = rp_column_shared(p.column), head = (unsigned)p.head_dim * sizeof(float);
    const int      blocks = p.proj[Q].grid.blocks + p.proj[K].grid.blocks + p.proj[V].grid.blocks;
    return {dim3((unsigned)blocks), dim3(BlockShape<Form>::THREADS), staged > head ? staged : head, any_type};
}

/* One launch, with values in Q6_K. */
template <class Form> RpStatus pair_rows(QkvArgs &p, bool early, RpKernelCtx *ctx) {
    typedef QuantForm<RP_Q6_K> Q6K;
    divide_blocks<Form>(p, ALL_PROJS, early, ctx);
    return RP_LAUNCH_FORM("qkv", ctx, shape_of<Form>(p, true), Q6K(), (qkv_kernel<Form, Q6K>), p);
}

/* A launch for the projections of each type. Q4_K_M and Q5_K_M files mix two types often enough for kernels of their
 * own. */
RpStatus rows_by_type(QkvArgs &p, bool early, RpKernelCtx *ctx) {
    const RpDtype q = p.proj[Q].w.dtype, k = p.proj[K].w.dtype, v = p.proj[V].w.dtype;
    if (projs_of(p) == ALL_PROJS && p.column.quantize && q == k && v == RP_Q6_K) {
        if (q == RP_Q4_K) return pair_rows<QuantForm<RP_Q4_K>>(p, early, ctx);
        if (q == RP_Q5_K) return pair_rows<QuantForm<RP_Q5_K>>(p, early, ctx);
    }
    for (unsigned done = 0, all = projs_of(p); done != all;) {
        const int     first = (done & 1 << Q) == 0 ? Q : (done & 1 << K) == 0 ? K : V;
        const RpDtype type  = p.proj[first].w.dtype;
        unsigned      projs = 0;
        for (int i = first; i < PROJS; i++)
            if ((all >> i & 1) != 0 && p.proj[i].w.dtype == type) projs |= 1u << i;
        RP_TRY(rp_for_form(type, p.column.quantize, [&](auto form) {
            using Form = decltype(form);
            divide_blocks<Form>(p, projs, early, ctx);
            const LaunchShape shape = shape_of<Form>(p, projs != all);
            return RP_LAUNCH_FORM("qkv", ctx, shape, form, (qkv_kernel<Form, Form>), p);
        }));
        done |= projs;
    }
    return RP_OK;
}

RpStatus check_room(const RpOpArgs *args, const RpKernelCtx *ctx) {
    enum { MAX_HEAD = 8192 };
    const RpQkvParams *o     = &args->params->qkv;
    const int64_t      heads = (args->qkv.wq.ne[1] + args->qkv.wk.ne[1] + args->qkv.wv.ne[1]) / o->head_dim;
    if (heads > RP_COUNTERS || o->head_dim > MAX_HEAD)
        return rp_fail(RP_E_UNSUPPORTED, "qkv: %lld heads of %d: must be at most %d of %d", (long long)heads,
                       o->head_dim, (int)RP_COUNTERS, MAX_HEAD);
    return rp_check_scratch("qkv", ctx, rp_cuda_qkv_scratch(args, ctx));
}

} // namespace

extern "C" size_t rp_cuda_qkv_scratch(const RpOpArgs *args, const RpKernelCtx *) {
    return rp_scratch_size(args->qkv.wq.ne[1] + args->qkv.wk.ne[1] + args->qkv.wv.ne[1]);
}

extern "C" RpStatus rp_cuda_qkv(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(qkv, args));
    RP_TRY(check_room(args, ctx));
    const RpQkvParams *o        = &args->params->qkv;
    QkvArgs            p        = {};
    float             *sums     = rp_scratch_floats(ctx);
    unsigned          *counters = (unsigned *)ctx->scratch;
    for (int i = Q; i < PROJS; i++) {
        const QkvSources    s = rp_qkv_sources(args, i);
        const RpTensorView &w = *s.w;
        QkvProj            &t = p.proj[i];
        t.w = w, t.out = s.cache != nullptr ? *s.cache : args->dst;
        t.bias     = (const float *)s.bias->data;
        t.norm     = s.norm != nullptr ? (const float *)s.norm->data : nullptr;
        t.sums     = sums;
        t.counters = counters;
        t.direct   = (i == V ? o->value_norm == 0 : o->norm == RP_HEAD_NORM_NONE) && t.out.dtype != RP_Q8_0 &&
                   o->head_dim % 2 == 0;
        /* Each projection has its part of the scratch memory: rows sums, a counter per head. */
        if (sums != nullptr) sums += w.ne[1], counters += w.ne[1] / o->head_dim;
    }
    p.column  = rp_column_source(args->qkv.x, args->qkv.norm, o->column);
    p.pos     = (const int32_t *)args->qkv.pos.data;
    p.row     = rp_is_present(&args->qkv.rows) ? (const int32_t *)args->qkv.rows.data : p.pos;
    p.factors = (const float *)args->qkv.factors.data;
    if (o->rope.n_dims > 0) p.rope = rp_rope_shape(o->rope);
    p.norm = o->norm, p.norm_eps = o->norm_eps, p.head_dim = o->head_dim, p.gates = o->gates != 0;
    p.value_norm     = o->value_norm != 0;
    unsigned weights = 1u << RP_SOURCE(qkv, wq);
    if (projs_of(p) == ALL_PROJS) weights |= 1u << RP_SOURCE(qkv, wk) | 1u << RP_SOURCE(qkv, wv);
    return rows_by_type(p, (ctx->constant & weights) == weights, ctx);
}
