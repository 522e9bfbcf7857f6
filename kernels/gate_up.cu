/* y = act(gate c + bias) * (up c + bias), c = column(x), of one token: of one matrix each, or of those of the chosen experts.
 * Where the id is no expert both halves are zeros. The ids are read on the device (I4).
 * geometry  blocks of 8 warps; a warp, or a few, has a row of gate and the same row of up (gemv.cuh); grid (rows, ids); many
 *           rows with a norm: several turns a block. A result that is rounded is made by the last block of each group of 32
 *           rows (of more, where there are more groups than counters), over floats in scratch memory
 * traffic   the chosen weights once; of the column, from L2, 1.375 bytes an element a block, or 8 to 12 if the block makes it
 * numerics  sums as mul_mat.cu and mul_mat_id.cu have them, norms, rounding and functions as the ops of their own */
#include "kernels/act.cuh"
#include "kernels/arrive.cuh"
#include "kernels/column.cuh"
#include "kernels/scratch.h"

struct GateUpArgs {
    TensorView     w[2], y;
    ColumnSource   column;
    const int32_t *ids;
    const float   *bias[2];
    GateKind       kind;
    float          alpha, limit;
    bool           round, early;
    float         *floats; /* where the result is rounded: [k][m] in scratch memory, */
    unsigned      *counters;
    int64_t        group, groups; /* rows that are rounded together, and how often of one expert */
    ColumnGrid     grid;
};

__device__ static int32_t expert_of(const GateUpArgs &p) {
    if (p.ids == nullptr) return 0;
    const int32_t id = p.ids[blockIdx.y];
    return id >= 0 && id < p.w[0].ne[2] ? id : -1;
}

__device__ static float gated(const GateUpArgs &p, float gate, float up) {
    if (p.kind == RP_GATE_SILU) return Silu()(gate) * up;
    if (p.kind == RP_GATE_GELU_TANH) return GeluTanh()(gate) * up;
    if (p.kind == RP_GATE_GELU_ERF) return GeluErf()(gate) * up;
    return SwigluOai{p.alpha, p.limit}(gate, up);
}

struct GateUpPut {
    const GateUpArgs &p;
    int32_t           expert;
    __device__ void   operator()(int64_t m, int, const float (&v)[RP_GEMV_ROWS]) const {
          const int64_t rows = p.w[0].ne[1];
          if (m >= rows) return;
        float half[2] = {v[0], v[1]};
          for (int i = 0; i < 2; i++)
            if (p.bias[i] != nullptr && expert >= 0) half[i] += p.bias[i][expert * rows + m];
        float *row = p.round ? p.floats + blockIdx.y * rows : (float *)rp_row(p.y, blockIdx.y);
          row[m]     = gated(p, half[0], half[1]);
    }
};

__device__ static GemvJob job_of(const GateUpArgs &p) {
    GemvJob job = {p.w[0].ne[1], p.w[0].ne[0], 1, p.grid.split};
    job.each    = 1;
    job.block   = blockIdx.x;
    job.early   = p.early;
    job.turns   = p.grid.turns;
    job.step    = gridDim.x;
    return job;
}

__device__ static void no_expert(const GateUpArgs &p, const GemvJob &job) {
    const int   rows    = RP_GEMV_WARPS / job.split;
    const float none[2] = {0.0f, 0.0f};
    for (int64_t turn = 0; turn < job.turns; turn++)
        if ((int)threadIdx.x < rows) GateUpPut{p, -1}(rp_gemv_begin(job, turn) + threadIdx.x, 0, none);
}

/* Of each turn: whoever comes last rounds the group. */
__device__ static void round_groups(const GateUpArgs &p, const GemvJob &job) {
    const int64_t rows = job.rows, per_block = RP_GEMV_WARPS / job.split;
    for (int64_t turn = 0; p.round && turn < job.turns; turn++) {
        const int64_t m = rp_gemv_begin(job, turn), g = m / p.group, first = g * p.group;
        if (m >= rows) return;
        const int64_t end = first + p.group < rows ? first + p.group : rows;
        if (!rp_arrives_last(&p.counters[blockIdx.y * p.groups + g], (unsigned)((end - first) / per_block)))
            continue;
        for (int64_t i = first + threadIdx.x; i < end; i += RP_GEMV_THREADS) /* whole warps */
            rp_quantize_block(__ldcg(p.floats + blockIdx.y * rows + i), rp_row(p.y, blockIdx.y), rows,
                              i / RP_ACT_BLOCK);
    }
}

template <RpDtype T> __device__ static TwoMatrices<T> matrices_of(const GateUpArgs &p, int32_t expert) {
    const int64_t rows = p.w[0].ne[1];
    return {
        {rp_planes<T>(p.w[0]), rp_planes<T>(p.w[1])},
        expert * rows, rows, p.w[0].ne[0] / RP_UNIT
    };
}

template <RpDtype T>
__global__ void __launch_bounds__(RP_GEMV_THREADS, rp_gemv_blocks(T, 1)) quant_kernel(GateUpArgs p) {
    rp_gemv_open(p.early);
    const int32_t expert = expert_of(p);
    const GemvJob job    = job_of(p);
    if (expert < 0)
        no_expert(p, job); /* the whole block */
    else
        rp_gemv_quant<T, 1>(job, matrices_of<T>(p, expert), MadeColumn(p.column), GateUpPut{p, expert});
    round_groups(p, job);
}

template <RpDtype T> __global__ void __launch_bounds__(RP_GEMV_THREADS, 2) wide_kernel(GateUpArgs p) {
    rp_gemv_open(p.early);
    const int32_t expert = expert_of(p);
    const GemvJob job    = job_of(p);
    if (expert < 0)
        no_expert(p, job);
    else
        rp_gemv_wide<T>(job, matrices_of<T>(p, expert), MadeColumn(p.column), GateUpPut{p, expert});
    round_groups(p, job);
}

template <RpDtype T> __global__ void __launch_bounds__(RP_GEMV_THREADS, 3) float_kernel(GateUpArgs p) {
    rp_gemv_open(p.early);
    const int32_t expert = expert_of(p);
    const GemvJob job    = job_of(p);
    if (expert < 0) {
        no_expert(p, job);
    } else {
        const TwoFloatMatrices w = {
            {rp_row_at(p.w[0], 0,   expert, 0), rp_row_at(p.w[1], 0, expert, 0)},
            {p.w[0].nb[1],              p.w[1].nb[1]},
            job.rows
        };
        rp_gemv_float<T, 1>(job, w, MadeColumn(p.column), job.n, GateUpPut{p, expert});
    }
    round_groups(p, job);
}

static LaunchShape shape_of(const GateUpArgs &p) {
    return {dim3((unsigned)p.grid.blocks, (unsigned)p.y.ne[1]), dim3(RP_GEMV_THREADS),
            rp_column_shared(p.column)};
}

template <RpDtype T> static RpStatus quant_rows(const GateUpArgs &p, KernelCtx *ctx) {
    return RP_LAUNCH("gate_up", ctx, shape_of(p), quant_kernel<T>, p);
}

template <RpDtype T> static RpStatus wide_rows(const GateUpArgs &p, KernelCtx *ctx) {
    return RP_LAUNCH("gate_up", ctx, shape_of(p), wide_kernel<T>, p);
}

template <RpDtype T> static RpStatus float_rows(const GateUpArgs &p, KernelCtx *ctx) {
    return RP_LAUNCH("gate_up", ctx, shape_of(p), float_kernel<T>, p);
}

static bool rounds(const OpArgs *args) { return args->params->gate_up.dtype == RP_Q8_ACT; }

extern "C" size_t rp_cuda_gate_up_scratch(const OpArgs *args, const BlasLt *) {
    return rounds(args) ? rp_scratch_size(rp_view_elems(&args->dst)) : 0;
}

extern "C" RpStatus rp_cuda_gate_up(const OpArgs *args, KernelCtx *ctx) {
    RP_TRY(rp_check_gate_up(args));
    RP_TRY(rp_check_scratch("gate_up", ctx, rp_cuda_gate_up_scratch(args, nullptr)));
    const GateUpParams *o    = &args->params->gate_up;
    const TensorView   *w    = &args->src[0];
    const RpDtype       type = w->dtype;
    const int64_t       k    = args->dst.ne[1];
    GateUpArgs          p    = {};
    p.w[0] = args->src[0], p.w[1] = args->src[1], p.y = args->dst;
    p.column  = rp_column_source(args->src[2], args->src[3], o->column);
    p.ids     = (const int32_t *)args->src[4].data;
    p.bias[0] = (const float *)args->src[5].data, p.bias[1] = (const float *)args->src[6].data;
    p.kind = o->kind, p.alpha = o->alpha, p.limit = o->limit;
    p.round    = rounds(args);
    p.early    = p.ids == nullptr && (ctx->constant & 3) == 3; /* chosen experts are known by ids only */
    p.floats   = rp_scratch_floats(ctx);
    p.counters = (unsigned *)ctx->scratch;
    for (p.group = RP_ACT_BLOCK; k * (w->ne[1] + p.group - 1) / p.group > RP_COUNTERS;) p.group *= 2;
    p.groups = (w->ne[1] + p.group - 1) / p.group;
    if (k > 65535 || (p.round && k * p.groups > RP_COUNTERS))
        return rp_fail(RP_E_UNSUPPORTED, "gate_up: %lld ids: at most %d of a result in %s", (long long)k,
                       p.round ? (int)RP_COUNTERS : 65535, rp_dtype_name(args->dst.dtype));
    const int split =
        rp_gemv_split(w->ne[1] * k, w->ne[0] / rp_gemv_unit_of(type)); /* that of the halves by themselves */
    p.grid = rp_column_grid(p.column, w->ne[1], 1, split, k);
    if (type == RP_F32) return float_rows<RP_F32>(p, ctx);
    if (type == RP_F16) return float_rows<RP_F16>(p, ctx);
    if (type == RP_BF16) return float_rows<RP_BF16>(p, ctx);
    if (p.column.round) return RP_FOR_QUANT(type, quant_rows, p, ctx);
    return RP_FOR_QUANT(type, wide_rows, p, ctx);
}
