/* y = act(gate c + gate_bias) * (up c + up_bias), c = column(x): the gated half of a feed-forward, dense or of the
 * selected experts and of a shared one.
 *
 * Workers take whole blocks of 32 rows, so that each can quantise its part of the result to q8_act without a barrier.
 *
 *     local: column (rp_column_bytes) | gate rows f32 [m] | up rows f32 [m]     each at a multiple of 64 bytes */
#include "fallback/experts.h"
#include "fallback/fused/fused.h"

#include <string.h>

enum { BLOCK = 32 };

CpuNeeds rp_needs_gate_up(const RpOpArgs *args) {
    return (CpuNeeds){.phases = 1,
                      .local  = rp_column_bytes(args->gate_up.x.ne[0]) + 2 * rp_align_floats(args->gate_up.gate.ne[1])};
}

/* Rows [first, first + n) of gate or up, with the bias, for one expert (0 for a dense layer). A bad id gives zeros. */
static RpStatus half(const RpTensorView *w, const RpTensorView *bias, const RpTensorView *x, int32_t expert,
                     int64_t first, int64_t n, float *y) {
    if (expert < 0) {
        memset(y, 0, (size_t)n * sizeof *y);
        return RP_OK;
    }
    RpTensorView one = *w;
    one.data         = (char *)w->data + (size_t)expert * w->nb[2];
    RP_TRY(rp_mul_mat_rows(&one, first, n, x, y));
    rp_add_range(y, bias, expert * w->ne[1] + first, n);
    return RP_OK;
}

/* dst = act(gate) * up. The activation overwrites the gate rows, which are src0. */
static RpStatus activate(const RpGateUpParams *p, const RpOpArgs *gate_up) {
    const RpOpParams gelu = {.gelu = {.kind = p->kind == RP_GATE_GELU_TANH ? RP_GELU_TANH : RP_GELU_ERF}};
    const RpOpParams oai  = {
         .swiglu_oai = {.alpha = p->alpha, .limit = p->limit}
    };
    RpOpArgs act = *gate_up;
    if (p->kind == RP_GATE_OAI) {
        act.params = &oai;
        return rp_run_alone(rp_cpu_swiglu_oai, &act);
    }
    act.dst    = act.unary.x;
    act.params = &gelu;
    RP_TRY(rp_run_alone(p->kind == RP_GATE_SILU ? rp_cpu_silu : rp_cpu_gelu, &act));
    return rp_run_alone(rp_cpu_mul, gate_up);
}

/* Rows [first, first + n) of column j of the result. An f32 result is written to y at once; a q8_act result is computed
 * in the memory of the gate rows and then quantised into y. */
static RpStatus one_expert(const RpOpArgs *args, const RpTensorView *x, int64_t j, int32_t expert, int64_t first,
                           int64_t n, float *gate, float *up) {
    const RpTensorView *y   = &args->dst;
    char               *row = rp_view_row(y, j);
    RP_TRY(half(&args->gate_up.gate, &args->gate_up.gate_bias, x, expert, first, n, gate));
    RP_TRY(half(&args->gate_up.up, &args->gate_up.up_bias, x, expert, first, n, up));
    const bool     quantize = y->dtype == RP_Q8_ACT;
    float         *to       = quantize ? gate : (float *)(void *)row + first;
    const RpOpArgs gate_up  = {
         .dst = rp_floats(to, n, 1), .src = {rp_floats(gate, n, 1), rp_floats(up, n, 1)}
    };
    RP_TRY(activate(&args->params->gate_up, &gate_up));
    if (quantize) rp_quantize_range(gate, n, row, y->ne[0], first);
    return RP_OK;
}

RpStatus rp_cpu_gate_up(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(gate_up, args));
    const RpTensorView *w = &args->gate_up.gate, *ids = &args->gate_up.ids;
    const int64_t       m = w->ne[1], blocks = (m + BLOCK - 1) / BLOCK, first = blocks * ctx->ith / ctx->nth * BLOCK;
    int64_t             end  = blocks * (ctx->ith + 1) / ctx->nth * BLOCK;
    float              *gate = (float *)(void *)((char *)ctx->local + rp_column_bytes(w->ne[0]));
    float              *up   = (float *)(void *)((char *)gate + rp_align_floats(m));
    RpTensorView        x;
    if (end > m) end = m;
    if (first >= end) return RP_OK;
    RP_TRY(rp_column(&args->gate_up.x, &args->gate_up.norm, &args->params->gate_up.column, ctx->local, &x));
    const int64_t chosen = args->dst.ne[1] - (rp_is_present(&args->gate_up.shared_gate) ? 1 : 0);
    for (int64_t j = 0; j < chosen; j++) {
        const int32_t expert = rp_is_present(&args->gate_up.ids) ? rp_expert(ids, j, 0, w->ne[2]) : 0;
        RP_TRY(one_expert(args, &x, j, expert, first, end - first, gate, up));
    }
    if (chosen == args->dst.ne[1]) return RP_OK;
    RpOpArgs shared     = *args;
    shared.gate_up.gate = args->gate_up.shared_gate, shared.gate_up.up = args->gate_up.shared_up;
    return one_expert(&shared, &x, chosen, 0, first, end - first, gate, up);
}
