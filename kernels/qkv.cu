/* Queries, keys and values of one token: y = rope(norm(wq c + bias)); rope(norm(wk c + bias)) and wv c + bias go to row pos of
 * the caches, c = column(x). A position outside of the caches stores nothing.
 * geometry  blocks of 8 warps, two rows a warp or a few warps (gemv.cuh), first those of the queries, then keys, then values.
 *           Sums wait in scratch memory; the last block of each head, or of all heads where they are normed as one row, does
 *           the rest
 * traffic   the weights once; of the column, from L2, 1.375 bytes an element a block, or 8 to 12 if the block makes it; the
 *           sums twice
 * numerics  sums as mul_mat.cu has them, norms, rotation, stores as the ops of their own, the same bits */
#include "kernels/arrive.cuh"
#include "kernels/column.cuh"
#include "kernels/copy.cuh"
#include "kernels/rope.cuh"
#include "kernels/scratch.h"

enum { Q, K, V, PARTS };

/* Queries, keys or values. */
struct QkvPart {
    TensorView   w, out; /* out: [d,h] of f32, or a cache [rows,n_ctx] */
    const float *bias, *norm;
    float       *sums;
    unsigned    *counters; /* a head's, or one for all */
    int          split;
    int64_t      blocks;
};

struct QkvArgs {
    QkvPart        part[PARTS];
    ColumnSource   column;
    const int32_t *pos;
    const float   *factors;
    RopeShape      rope;
    HeadNorm       norm;
    float          norm_eps;
    int            head_dim;
    bool           early;
};

/* Which of the parts this block works for, and where in it. */
struct QkvBlock {
    int     part;
    GemvJob job;
};

__device__ static const QkvPart &part_of(const QkvArgs &p, int part) {
    return part == Q ? p.part[Q] : part == K ? p.part[K] : p.part[V];
}

__device__ static QkvBlock block_of(const QkvArgs &p) {
    const int64_t b = blockIdx.x, keys = p.part[Q].blocks, values = keys + p.part[K].blocks;
    QkvBlock      r = {};
    r.part          = b < keys ? Q : b < values ? K : V;
    r.job           = {part_of(p, r.part).w.ne[1], p.column.n, 1, part_of(p, r.part).split};
    r.job.early     = p.early;
    r.job.block     = r.part == Q ? b : r.part == K ? b - keys : b - values;
    return r;
}

struct QkvPut {
    float          *sums;
    const float    *bias;
    int64_t         rows;
    __device__ void operator()(int64_t m, int, const float (&v)[RP_GEMV_ROWS]) const {
        for (int r = 0; r < RP_GEMV_ROWS; r++)
            if (m + r < rows) sums[m + r] = v[r] + (bias != nullptr ? bias[m + r] : 0.0f);
    }
};

/* Where head h of this token goes; NULL where it is not stored. */
__device__ static char *place_of(const QkvArgs &p, const QkvPart &part, int which, int64_t h) {
    if (which == Q) return rp_row_at(part.out, h, 0, 0);
    const int32_t pos = p.pos[0];
    return pos >= 0 && pos < part.out.ne[1] ? rp_row_at(part.out, pos, 0, 0) : nullptr;
}

/* The sums of a head, by whoever came last: norm, rotation, store. Not inlined, so that angles in double take no registers from
 * the products. */
__device__ RP_NOINLINE static void end_head(const QkvArgs &p, const QkvPart &part, int which, int64_t h,
                                            float whole_scale) {
    RP_SHARED_DYNAMIC(float, v);
    RP_SHARED(float, scratch, [RP_WARP]);
    const int    d = p.head_dim, tid = (int)threadIdx.x;
    const bool   turns = which != V, norms = turns && p.norm != RP_HEAD_NORM_NONE;
    const float *weight =
        part.norm != nullptr ? part.norm + (p.norm == RP_HEAD_NORM_WHOLE ? h * d : 0) : nullptr;
    __syncthreads(); /* the head before has been read by all */
    for (int i = tid; i < d; i += RP_GEMV_THREADS) v[i] = __ldcg(part.sums + h * d + i);
    __syncthreads();
    if (norms) {
        const float scale =
            p.norm == RP_HEAD_NORM_WHOLE ? whole_scale : rp_rms_scale<false>(v, d, p.norm_eps, scratch);
        for (int i = tid; i < d; i += RP_GEMV_THREADS)
            v[i] = v[i] * scale * (weight != nullptr ? weight[i] : 1.0f);
        __syncthreads();
    }
    if (turns) {
        for (int pair = tid; pair < p.rope.p.n_dims / 2; pair += RP_GEMV_THREADS)
            rp_turn_pair(p.rope, p.pos[0], p.factors, pair, v, v);
        __syncthreads();
    }
    char *row = place_of(p, part, which, h);
    if (row == nullptr) return;
    if (part.out.dtype == RP_Q8_0) {
        for (int i = tid; i < d; i += RP_GEMV_THREADS) /* whole warps */
            rp_put_q8_0(v[i], (uint8_t *)row + (h * d + i) / RP_WARP * RP_Q8_0_BYTES);
        return;
    }
    const int64_t at = which == Q ? 0 : h * d;
    for (int i = tid; i < d; i += RP_GEMV_THREADS) rp_put_float(part.out.dtype, row, at + i, v[i]);
}

/* The heads that this block has rows of; a head's blocks are those that overlap it. */
__device__ static void end_heads(const QkvArgs &p, const QkvBlock &b) {
    RP_SHARED(float, scratch, [RP_WARP]);
    const QkvPart &part = part_of(p, b.part);
    const int64_t  d = p.head_dim, rows = b.job.rows, own = RP_GEMV_WARPS / b.job.split * RP_GEMV_ROWS;
    const int64_t  first = rp_gemv_begin(b.job, 0), end = first + own < rows ? first + own : rows;
    if (p.norm == RP_HEAD_NORM_WHOLE && b.part != V) {
        if (!rp_arrives_last(part.counters, (unsigned)part.blocks)) return;
        const float scale = rp_rms_scale<true>(part.sums, rows, p.norm_eps, scratch);
        for (int64_t h = 0; h < rows / d; h++) end_head(p, part, b.part, h, scale);
        return;
    }
    for (int64_t h = first / d; h * d < end; h++) {
        const int64_t blocks = ((h + 1) * d - 1) / own - h * d / own + 1;
        if (rp_arrives_last(part.counters + h, (unsigned)blocks)) end_head(p, part, b.part, h, 1.0f);
    }
}

template <RpDtype T> __device__ static inline void quant_rows_of(const QkvArgs &p, const QkvBlock &b) {
    const QkvPart     &part   = part_of(p, b.part);
    const OneMatrix<T> matrix = {rp_planes<T>(part.w), 0, b.job.rows, b.job.n / RP_UNIT};
    rp_gemv_quant<T, 1>(b.job, matrix, MadeColumn(p.column), QkvPut{part.sums, part.bias, b.job.rows});
}

template <RpDtype T> __device__ static inline void wide_rows_of(const QkvArgs &p, const QkvBlock &b) {
    const QkvPart     &part   = part_of(p, b.part);
    const OneMatrix<T> matrix = {rp_planes<T>(part.w), 0, b.job.rows, b.job.n / RP_UNIT};
    rp_gemv_wide<T>(b.job, matrix, MadeColumn(p.column), QkvPut{part.sums, part.bias, b.job.rows});
}

template <RpDtype T> __device__ static inline void float_rows_of(const QkvArgs &p, const QkvBlock &b) {
    const QkvPart    &part   = part_of(p, b.part);
    const FloatMatrix matrix = {(const char *)part.w.data, part.w.nb[1], b.job.rows};
    rp_gemv_float<T, 1>(b.job, matrix, MadeColumn(p.column), b.job.n,
                        QkvPut{part.sums, part.bias, b.job.rows});
}

/* Weights of one type; K types in two: TV of the values. */
template <RpDtype T, RpDtype TV>
__global__ void __launch_bounds__(RP_GEMV_THREADS, T == TV ? rp_gemv_blocks(T, 1) : 1)
    quant_kernel(const __grid_constant__ QkvArgs p) {
    rp_gemv_open(p.early);
    const QkvBlock b = block_of(p);
    if (T == TV || b.part != V)
        quant_rows_of<T>(p, b);
    else
        quant_rows_of<TV>(p, b);
    end_heads(p, b);
}

template <RpDtype T>
__global__ void __launch_bounds__(RP_GEMV_THREADS, 3) float_kernel(const __grid_constant__ QkvArgs p) {
    rp_gemv_open(p.early);
    const QkvBlock b = block_of(p);
    float_rows_of<T>(p, b);
    end_heads(p, b);
}

/* Any types: each block looks at its own. */
__global__ void __launch_bounds__(RP_GEMV_THREADS) mixed_kernel(const __grid_constant__ QkvArgs p) {
    rp_gemv_open(p.early);
    const QkvBlock b    = block_of(p);
    const RpDtype  type = part_of(p, b.part).w.dtype;
    RP_DEVICE_FOR_QUANT(type, quant_rows_of, p, b);
    end_heads(p, b);
}

__global__ void __launch_bounds__(RP_GEMV_THREADS, 2) mixed_wide_kernel(const __grid_constant__ QkvArgs p) {
    rp_gemv_open(p.early);
    const QkvBlock b    = block_of(p);
    const RpDtype  type = part_of(p, b.part).w.dtype;
    if (type == RP_F32) float_rows_of<RP_F32>(p, b);
    if (type == RP_F16) float_rows_of<RP_F16>(p, b);
    if (type == RP_BF16) float_rows_of<RP_BF16>(p, b);
    RP_DEVICE_FOR_QUANT(type, wide_rows_of, p, b);
    end_heads(p, b);
}

static LaunchShape shape_of(const QkvArgs &p, bool any_type) {
    const unsigned staged = rp_column_shared(p.column), head = (unsigned)p.head_dim * sizeof(float);
    return {dim3((unsigned)(p.part[Q].blocks + p.part[K].blocks + p.part[V].blocks)), dim3(RP_GEMV_THREADS),
            staged > head ? staged : head, any_type};
}

template <RpDtype T> static RpStatus quant_rows(const QkvArgs &p, KernelCtx *ctx) {
    return RP_LAUNCH("qkv", ctx, shape_of(p, false), (quant_kernel<T, T>), p);
}

template <RpDtype T> static RpStatus float_rows(const QkvArgs &p, KernelCtx *ctx) {
    return RP_LAUNCH("qkv", ctx, shape_of(p, false), float_kernel<T>, p);
}

static RpStatus mixed_rows(const QkvArgs &p, KernelCtx *ctx) {
    const RpDtype type = p.part[Q].w.dtype;
    const bool    pair =
        p.part[K].w.dtype == type && p.part[V].w.dtype == RP_Q6_K; /* as files of q4_k_m and q5_k_m have it */
    if (pair && type == RP_Q4_K)
        return RP_LAUNCH("qkv", ctx, shape_of(p, true), (quant_kernel<RP_Q4_K, RP_Q6_K>), p);
    if (pair && type == RP_Q5_K)
        return RP_LAUNCH("qkv", ctx, shape_of(p, true), (quant_kernel<RP_Q5_K, RP_Q6_K>), p);
    return RP_LAUNCH("qkv", ctx, shape_of(p, true), mixed_kernel, p);
}

extern "C" size_t rp_cuda_qkv_scratch(const OpArgs *args, const BlasLt *) {
    return rp_scratch_size(args->src[Q].ne[1] + args->src[K].ne[1] + args->src[V].ne[1]);
}

static RpStatus check_room(const OpArgs *args, const KernelCtx *ctx) {
    enum { MAX_HEAD = 8192 };
    const QkvParams *o     = &args->params->qkv;
    const int64_t    heads = (args->src[Q].ne[1] + args->src[K].ne[1] + args->src[V].ne[1]) / o->head_dim;
    if (heads > RP_COUNTERS || o->head_dim > MAX_HEAD)
        return rp_fail(RP_E_UNSUPPORTED, "qkv: %lld heads of %d: at most %d of %d", (long long)heads,
                       o->head_dim, (int)RP_COUNTERS, MAX_HEAD);
    return rp_check_scratch("qkv", ctx, rp_cuda_qkv_scratch(args, nullptr));
}

extern "C" RpStatus rp_cuda_qkv(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_qkv(args));
    RP_TRY(check_room(args, ctx));
    const QkvParams *o        = &args->params->qkv;
    const TensorView out[]    = {args->dst, args->src[5], args->src[6]};
    QkvArgs          p        = {};
    float           *sums     = rp_scratch_floats(ctx);
    unsigned        *counters = (unsigned *)ctx->scratch;
    for (int i = Q; i < PARTS; i++) {
        const TensorView &w = args->src[i];
        QkvPart          &t = p.part[i];
        t.w = w, t.out = out[i];
        t.bias     = (const float *)args->src[8 + i].data;
        t.norm     = i != V ? (const float *)args->src[11 + i].data : nullptr;
        t.sums     = sums;
        t.counters = counters;
        t.split    = rp_gemv_split(w.ne[1], w.ne[0] / rp_gemv_unit_of(w.dtype));
        t.blocks   = rp_blocks(w.ne[1], RP_GEMV_ROWS * RP_GEMV_WARPS / t.split);
        if (sums != nullptr) sums += w.ne[1], counters += w.ne[1] / o->head_dim;
    }
    p.column  = rp_column_source(args->src[3], args->src[7], o->column);
    p.pos     = (const int32_t *)args->src[4].data;
    p.factors = (const float *)args->src[13].data;
    p.rope    = rp_rope_shape(o->rope);
    p.early   = (ctx->constant & 7) == 7;
    p.norm = o->norm, p.norm_eps = o->norm_eps, p.head_dim = o->head_dim;
    const RpDtype type = p.part[Q].w.dtype;
    const bool    same = p.part[K].w.dtype == type && p.part[V].w.dtype == type;
    if (same && type == RP_F32) return float_rows<RP_F32>(p, ctx);
    if (same && type == RP_F16) return float_rows<RP_F16>(p, ctx);
    if (same && type == RP_BF16) return float_rows<RP_BF16>(p, ctx);
    if (!p.column.round) return RP_LAUNCH("qkv", ctx, shape_of(p, true), mixed_wide_kernel, p);
    return same ? RP_FOR_QUANT(type, quant_rows, p, ctx) : mixed_rows(p, ctx);
}
