/* dw[:,:,e] = sum of x[:,c] dy[:,c]^T over the columns c = j + k*t with ids[c] = e. The columns are sorted by expert,
 * so that dw of an expert is a product of two matrices, by the loops of op gemm:
 *
 *     unit     rows [i0,i1) and columns [j0,j1) of one expert, which one worker computes
 *     slice    RP_GEMM_TERMS of its columns: parts of x [column][j] and of dy [column][i] are gathered in local memory
 *
 * The slices of an expert are added in the order of its columns, so the number of workers changes no bit (I8). */
#include "fallback/gemm.h"
#include "fallback/training/expert_columns.h"

#include "ops/rules.h"

CpuNeeds rp_needs_mul_mat_id_backward(const RpOpArgs *args) {
    return (CpuNeeds){
        .phases = 1,
        .local  = rp_align_floats(RP_GEMM_TERMS * (RP_GEMM_COLS + RP_GEMM_ROWS)) +
                 rp_expert_columns_bytes(&args->mul_mat_id_backward.ids, args->params->mul_mat_id_backward.experts)};
}

typedef struct Block {
    int64_t i0, j0;
    int     rows, columns;
} Block;

/* Elements [from, from + n) of columns list[0..count) of v: to[column][n]. */
static void gather(const RpTensorView *v, int64_t k, const int32_t *list, int64_t count, int64_t from, int n,
                   float *to) {
    for (int64_t c = 0; c < count; c++)
        memcpy(to + c * n, rp_expert_column(v, k, list[c]) + from, (size_t)n * sizeof *to);
}

/* One unit of the expert whose columns are list[0..count). */
static void compute(const RpOpArgs *args, int64_t expert, const Block *u, const int32_t *list, int64_t count,
                    float *local) {
    const int64_t k = args->mul_mat_id_backward.ids.ne[0];
    float        *x = local, *dy = local + RP_GEMM_TERMS * RP_GEMM_COLS;
    RpTensorView  result = rp_floats(NULL, u->columns, u->rows);
    result.nb[1]         = args->dst.nb[1];
    result.data          = (char *)args->dst.data + (size_t)expert * args->dst.nb[2] + (size_t)u->i0 * args->dst.nb[1] +
                  (size_t)u->j0 * sizeof(float);
    for (int64_t c = 0; c < count; c += RP_GEMM_TERMS) {
        const int64_t      n = count - c < RP_GEMM_TERMS ? count - c : RP_GEMM_TERMS;
        const RpTensorView b = rp_floats(x, u->columns, n);
        gather(&args->mul_mat_id_backward.x, k, list + c, n, u->j0, u->columns, x);
        gather(&args->mul_mat_id_backward.dy, k, list + c, n, u->i0, u->rows, dy);
        rp_gemm_block(dy, 1, u->rows, &b, c > 0, &result);
    }
    for (int r = 0; r < u->rows && count == 0; r++)
        memset((char *)result.data + (size_t)r * result.nb[1], 0, (size_t)u->columns * sizeof(float));
}

/* Units are small enough for four of them for each worker, if their rows allow it. */
static int64_t unit_rows(int64_t rows, int64_t nth) {
    const int64_t each = rows / (4 * nth) / RP_GEMM_STRIP * RP_GEMM_STRIP;
    return each > RP_GEMM_ROWS ? RP_GEMM_ROWS : each < 2 * RP_GEMM_STRIP ? 2 * RP_GEMM_STRIP : each;
}

RpStatus rp_cpu_mul_mat_id_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(mul_mat_id_backward, args));
    enum { ZEROS = 8 }; /* the cost of a unit without columns, in columns */
    const int64_t n = args->dst.ne[0], m = args->dst.ne[1], n_expert = args->dst.ne[2];
    const int64_t across = (n + RP_GEMM_COLS - 1) / RP_GEMM_COLS, rows = unit_rows(m * across * n_expert, ctx->nth),
                  down        = (m + rows - 1) / rows;
    float              *local = ctx->local;
    const RpTensorView *ids   = &args->mul_mat_id_backward.ids;
    const ExpertColumns c     = rp_expert_columns(
            ids, n_expert, (char *)ctx->local + rp_align_floats(RP_GEMM_TERMS * (RP_GEMM_COLS + RP_GEMM_ROWS)));
    const int64_t all = (c.first[n_expert] + ZEROS * n_expert) * across * down, from = all * ctx->ith / ctx->nth,
                  to = all * (ctx->ith + 1) / ctx->nth;
    int64_t at       = 0; /* cost of the units before */
    for (int64_t e = 0; e < n_expert; e++) {
        const int64_t count = c.first[e + 1] - c.first[e];
        for (int64_t i = 0; i < across * down; i++, at += count + ZEROS) {
            if (at < from || at >= to) continue;
            Block u   = {.i0 = i / across * rows, .j0 = i % across * RP_GEMM_COLS};
            u.rows    = (int)(m - u.i0 < rows ? m - u.i0 : rows);
            u.columns = (int)(n - u.j0 < RP_GEMM_COLS ? n - u.j0 : RP_GEMM_COLS);
            compute(args, e, &u, c.order + c.first[e], count, local);
        }
    }
    return RP_OK;
}
