/* First half of a feed-forward for one token: y[:,j] = act(gate c + bias) * (up c + bias), c = column(x), dense or
 * for each chosen expert ids[j]. An id outside of w gives zeros for both products. The ids are read on the device
 * (I4). A shared expert, which every token uses, has matrices of its own and the last column of the result.
 * geometry  GEMV, blocks of 8 warps; `split` warps multiply one row of gate and the same row of up, so the activation
 *           needs no second kernel; grid (blocks, ids), several row tiles per block (ColumnGrid).
 *           A q8_act result needs whole blocks of 32 rows. If the grid can be so divided, a thread block computes all
 *           32 and quantises them. Else several do: f32 results go to scratch memory, and the last-arriving block of
 *           each 32 rows quantises them
 * traffic   the chosen weights once; per block and element of the column, from L2: 1.375 bytes if it is q8_act
 *           already, 8 to 12 if the block computes it; a q8_act result once more as f32, from L2
 * numerics  the bits of the separate ops (mul_mat.cu or mul_mat_id.cu, quantize.cu, act.cuh) */
#include "base/kernels.h"
#include "kernels/device/act.cuh"
#include "kernels/device/arrive.cuh"
#include "kernels/device/column.cuh"

namespace {

struct GateUpArgs {
    RpTensorView   w[2], y;
    ColumnSource   column;
    const int32_t *ids;
    const float   *bias[2];
    void          *shared[2]; /* gate and up of the shared expert, like one expert of w; NULL: none */
    RpGateKind     kind;
    float          alpha, limit;
    bool           quantizes;
    bool           whole; /* every thread block has whole blocks of 32 rows, which it quantises itself */
    /* For a q8_act result. Row m of expert j counts at counters[j * n_counters + m / counter_rows]. */
    float     *f32_result; /* [k][m] in scratch memory */
    unsigned  *counters;
    int        counter_rows; /* rows quantised together: 32, doubled until the counters suffice */
    int        n_counters;   /* per expert */
    ColumnGrid grid;
};

__device__ bool is_shared(const GateUpArgs &p) { return p.shared[0] != nullptr && blockIdx.y == gridDim.y - 1; }

__device__ int32_t expert_of(const GateUpArgs &p) {
    if (p.ids == nullptr || is_shared(p)) return 0;
    const int32_t id = p.ids[blockIdx.y];
    return id >= 0 && id < p.w[0].ne[2] ? id : -1;
}

/* Matrices i of all experts, or that of the shared one. */
__device__ RpTensorView weights_of(const GateUpArgs &p, int i) {
    RpTensorView w = p.w[i];
    if (is_shared(p)) w.data = p.shared[i], w.ne[2] = 1;
    return w;
}

__device__ float gated(const GateUpArgs &p, float gate, float up) {
    if (p.kind == RP_GATE_SILU) return Silu()(gate) * up;
    if (p.kind == RP_GATE_GELU_TANH) return GeluTanh()(gate) * up;
    if (p.kind == RP_GATE_GELU_ERF) return GeluErf()(gate) * up;
    return SwigluOai{p.alpha, p.limit}(gate, up);
}

/* Put: v[0] is the sum of gate, v[1] of up, for row m of both. They wait in shared memory for the end of the block's
 * row tiles, when a thread each computes a row: sums[m - first][gate, up]. */
enum { MAX_ROWS = 256 }; /* of a block */

struct GateUpPut {
    float          *sums;
    int             first;
    __device__ void operator()(int m, int, const float (&v)[RP_GEMV_ROWS]) const {
        for (int i = 0; i < 2; i++) sums[2 * (m - first) + i] = v[i];
    }
};

/* Bias and activation of the block's rows. */
__device__ void finish_rows(const GateUpArgs &p, const BlockRows &mine, int32_t expert, const float *sums) {
    const int rows = (int)p.w[0].ne[1];
    float    *row  = p.quantizes ? p.f32_result + (int64_t)blockIdx.y * rows : (float *)rp_row(p.y, blockIdx.y);
    __syncthreads();
    for (int m = mine.first + (int)threadIdx.x; m < mine.end; m += RP_GEMV_THREADS) {
        float half[2];
        for (int i = 0; i < 2; i++) {
            half[i] = sums[2 * (m - mine.first) + i];
            if (p.bias[i] != nullptr && expert >= 0) half[i] += p.bias[i][(int64_t)expert * rows + m];
        }
        const float v = gated(p, half[0], half[1]);
        if (p.whole) /* whole warps: mine.first and mine.end are multiples of 32 */
            rp_quantize_block(v, rp_row(p.y, blockIdx.y), rows, m / RP_ACT_BLOCK);
        else
            row[m] = v;
    }
}

__device__ GemvWork work_of(const GateUpArgs &p) {
    GemvWork work     = rp_column_work(p.grid, p.w[0], (int)blockIdx.x);
    work.warp_results = 1;
    return work;
}

/* Arrives at each counter that the block has rows of; the last block to arrive quantises all rows of the counter. */
__device__ void quantize_rows(const GateUpArgs &p, const GemvWork &work, const BlockRows &mine) {
    if (!p.quantizes || p.whole) return;
    const int shift    = rp_log2(p.counter_rows);
    float    *result   = p.f32_result + (int64_t)blockIdx.y * work.rows;
    unsigned *counters = p.counters + blockIdx.y * p.n_counters;
    for (int g = mine.first >> shift; g << shift < mine.end; g++) {
        const int first = g << shift, end = first + p.counter_rows < work.rows ? first + p.counter_rows : work.rows;
        if (!rp_arrives_last(counters + g, rp_blocks_of_rows(p.grid, RP_GEMV_WARPS / work.split, first, end))) continue;
        for (int i = first + (int)threadIdx.x; i < end; i += RP_GEMV_THREADS) /* whole warps */
            rp_quantize_block(__ldcg(result + i), rp_row(p.y, blockIdx.y), work.rows, i / RP_ACT_BLOCK);
    }
}

template <class Form>
__global__ void __launch_bounds__(RP_GEMV_THREADS, Form::min_blocks(1)) gate_up_kernel(GateUpArgs p) {
    rp_gemv_open(p.grid.early);
    RP_SHARED(float, sums, [2 * MAX_ROWS]);
    const int32_t   expert = expert_of(p);
    const GemvWork  work   = work_of(p);
    const BlockRows mine   = rp_block_rows(work);
    if (expert >= 0) /* the same for the whole block */
        Form::product(work, Form::matrices(weights_of(p, 0), weights_of(p, 1), work, expert), FusedColumn(p.column),
                      GateUpPut{sums, mine.first});
    else /* both products are 0; act(0) * 0 goes through the same epilogue */
        for (int i = (int)threadIdx.x; i < 2 * MAX_ROWS; i += RP_GEMV_THREADS) sums[i] = 0.0f;
    finish_rows(p, mine, expert, sums);
    quantize_rows(p, work, mine);
}

/* Rows of the block that has the most of them. */
int64_t most_rows(const ColumnGrid &grid) {
    return grid.unit * (grid.turns + (grid.rest > 0 ? 1 : 0)) * (RP_GEMV_WARPS / grid.split);
}

/* Whether every thread block has whole blocks of 32 rows. */
bool has_whole_blocks(const ColumnGrid &grid) {
    const int unit_rows = grid.unit * (RP_GEMV_WARPS / grid.split);
    return unit_rows % RP_ACT_BLOCK == 0 || (grid.rest == 0 && most_rows(grid) % RP_ACT_BLOCK == 0);
}

/* Grid of a q8_act result, whose blocks wait for no other: units of 32 rows; for experts a unit for each block, if no
 * multiprocessor gets more rows by it. Such grids may be larger than the device. Otherwise `grid`. */
ColumnGrid whole_grid(const ColumnGrid &grid, int64_t rows, int resident, int64_t k, bool experts,
                      const RpKernelCtx *ctx) {
    const int tile_rows = RP_GEMV_WARPS / grid.split;
    if (!experts) return rp_whole_units(grid, RP_ACT_BLOCK / tile_rows, resident, ctx);
    const int     n_sm   = rp_tuning_of(ctx).n_sm;
    const int64_t blocks = rp_blocks(rows, RP_ACT_BLOCK), most = rp_blocks(grid.blocks * k, n_sm) * most_rows(grid);
    if (rp_blocks(blocks * k, n_sm) * RP_ACT_BLOCK > most) return grid;
    return rp_grid_of(rp_blocks(rows, tile_rows), blocks, grid.split);
}

/* No block has more than MAX_ROWS rows. */
ColumnGrid grid_of(const GateUpArgs &p, int split, int resident, bool early, const RpKernelCtx *ctx) {
    const int64_t rows = p.w[0].ne[1], k = p.y.ne[1];
    ColumnGrid    grid = rp_column_grid(rows, 1, split, resident, k, early, ctx);
    if (p.quantizes) grid = whole_grid(grid, rows, resident, k, p.ids != nullptr, ctx);
    if (most_rows(grid) > MAX_ROWS)
        grid = rp_grid_of(rp_blocks(rows, RP_GEMV_WARPS / split), rp_blocks(rows, MAX_ROWS), split);
    grid.early = rp_gemv_early(early, grid.blocks, split, ctx);
    return grid;
}

LaunchShape shape_of(const GateUpArgs &p) {
    return {dim3((unsigned)p.grid.blocks, (unsigned)p.y.ne[1]), dim3(RP_GEMV_THREADS), rp_column_shared(p.column)};
}

bool quantizes(const RpOpArgs *args) { return args->params->gate_up.dtype == RP_Q8_ACT; }

} // namespace

extern "C" size_t rp_cuda_gate_up_scratch(const RpOpArgs *args, const RpKernelCtx *) {
    return quantizes(args) ? rp_scratch_size(rp_view_elems(&args->dst)) : 0;
}

extern "C" RpStatus rp_cuda_gate_up(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(gate_up, args));
    RP_TRY(rp_check_scratch("gate_up", ctx, rp_cuda_gate_up_scratch(args, ctx)));
    const RpGateUpParams *o    = &args->params->gate_up;
    const RpTensorView   *w    = &args->gate_up.gate;
    const RpDtype         type = w->dtype;
    const int64_t         k    = args->dst.ne[1];
    GateUpArgs            p    = {};
    p.w[0] = args->gate_up.gate, p.w[1] = args->gate_up.up, p.y = args->dst;
    p.column  = rp_column_source(args->gate_up.x, args->gate_up.norm, o->column);
    p.ids     = (const int32_t *)args->gate_up.ids.data;
    p.bias[0] = (const float *)args->gate_up.gate_bias.data, p.bias[1] = (const float *)args->gate_up.up_bias.data;
    p.shared[0] = args->gate_up.shared_gate.data, p.shared[1] = args->gate_up.shared_up.data;
    p.kind = o->kind, p.alpha = o->alpha, p.limit = o->limit;
    p.quantizes  = quantizes(args);
    p.f32_result = rp_scratch_floats(ctx);
    p.counters   = (unsigned *)ctx->scratch;
    /* 8 experts of 28672 rows would need 7168 counters for 32 rows each; of 4096 there are enough for 64. */
    for (p.counter_rows = RP_ACT_BLOCK; k * (w->ne[1] + p.counter_rows - 1) / p.counter_rows > RP_COUNTERS;)
        p.counter_rows *= 2;
    p.n_counters = (int)((w->ne[1] + p.counter_rows - 1) / p.counter_rows);
    if (k > 65535 || (p.quantizes && k * p.n_counters > RP_COUNTERS))
        return rp_fail(RP_E_UNSUPPORTED, "gate_up: %lld ids: must be at most %d of a result in %s", (long long)k,
                       p.quantizes ? (int)RP_COUNTERS : 65535, rp_dtype_name(args->dst.dtype));
    /* The split of each half as an op of its own, so that the sums have the same order. */
    const int  split = rp_gemv_split(w->ne[1] * k, w->ne[0] / rp_gemv_frag_elems(type));
    const bool early = p.ids == nullptr && (ctx->constant & 3) == 3; /* ids are results: wait first */
    return rp_for_form(type, p.column.quantize, [&](auto form) {
        p.grid  = grid_of(p, split, decltype(form)::min_blocks(1), early, ctx);
        p.whole = p.quantizes && has_whole_blocks(p.grid);
        return RP_LAUNCH_FORM("gate_up", ctx, shape_of(p), form, gate_up_kernel<decltype(form)>, p);
    });
}
