/* y[:,c] = w[:,:,ids[c]]^T x[:,c] for the columns c = j + k*t: the gradient of mul_mat_id with respect to its x. The
 * columns are sorted by expert; those of an expert are the rows of a product by the loops of op gemm, which reads w as
 * it lies in memory:
 *
 *     unit     up to RP_GEMM_ROWS columns of an expert and RP_GEMM_COLS elements of each, which one worker computes
 *     slice    RP_GEMM_TERMS elements of x, gathered in local memory: [column][element]
 *
 * Results are summed in local memory and copied to their columns. No sum depends on the number of workers (I8). */
#include "fallback/gemm.h"
#include "fallback/training/expert_columns.h"

#include "ops/rules.h"

enum { GATHERED = RP_GEMM_ROWS * RP_GEMM_TERMS, RESULTS = RP_GEMM_ROWS * RP_GEMM_COLS };

CpuNeeds rp_needs_mul_mat_id_transposed(const RpOpArgs *args) {
    const RpTensorView *w = &args->mul_mat_id_transposed.w, *ids = &args->mul_mat_id_transposed.ids;
    return (CpuNeeds){.phases = 1,
                      .local  = rp_align_floats(GATHERED + RESULTS) + rp_expert_columns_bytes(ids, w->ne[2])};
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Elements [j0, j0 + columns) of the columns list[0..rows), at most RP_GEMM_ROWS, of one expert. */
static void compute(const RpOpArgs *args, int64_t expert, int64_t j0, int64_t columns, const int32_t *list,
                    int64_t rows, float *local) {
    const RpTensorView *w = &args->mul_mat_id_transposed.w, *x = &args->mul_mat_id_transposed.x;
    const int64_t       k = x->ne[1], m = w->ne[1];
    const RpTensorView  sums = rp_floats(local + GATHERED, columns, rows);
    for (int64_t k0 = 0; k0 < m; k0 += RP_GEMM_TERMS) {
        const int64_t n = smaller(m - k0, RP_GEMM_TERMS);
        RpTensorView  b = rp_floats(NULL, columns, n);
        b.nb[1]         = w->nb[1];
        b.data = (char *)w->data + (size_t)expert * w->nb[2] + (size_t)k0 * w->nb[1] + (size_t)j0 * sizeof(float);
        for (int64_t r = 0; r < rows; r++)
            memcpy(local + r * n, rp_expert_column(x, k, list[r]) + k0, (size_t)n * sizeof(float));
        rp_gemm_block(local, n, 1, &b, k0 > 0, &sums);
    }
    for (int64_t r = 0; r < rows; r++) {
        char *y = (char *)args->dst.data + (size_t)(list[r] % k) * args->dst.nb[1] +
                  (size_t)(list[r] / k) * args->dst.nb[2] + (size_t)j0 * sizeof(float);
        memcpy(y, (float *)sums.data + r * columns, (size_t)columns * sizeof(float));
    }
}

/* Columns without an expert are divided among the workers. */
static void zero_the_rest(const RpOpArgs *args, const RpKernelCtx *ctx) {
    const int32_t *ids = args->mul_mat_id_transposed.ids.data;
    const int64_t  k = args->dst.ne[1], n = k * args->dst.ne[2], n_expert = args->mul_mat_id_transposed.w.ne[2];
    for (int64_t c = n * ctx->ith / ctx->nth; c < n * (ctx->ith + 1) / ctx->nth; c++)
        if (ids[c] < 0 || ids[c] >= n_expert)
            memset((char *)args->dst.data + (size_t)(c % k) * args->dst.nb[1] + (size_t)(c / k) * args->dst.nb[2], 0,
                   (size_t)args->dst.ne[0] * sizeof(float));
}

/* Columns of a unit: enough for four units for each worker, if there are as many. */
static int64_t unit_rows(int64_t all, int64_t nth) {
    const int64_t each = all / (4 * nth) / RP_GEMM_STRIP * RP_GEMM_STRIP;
    return each > RP_GEMM_ROWS ? RP_GEMM_ROWS : each < 2 * RP_GEMM_STRIP ? 2 * RP_GEMM_STRIP : each;
}

RpStatus rp_cpu_mul_mat_id_transposed(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(mul_mat_id_transposed, args));
    enum { PACKING = 12 }; /* the cost of packing w for a unit, in columns */
    const RpTensorView *ids = &args->mul_mat_id_transposed.ids;
    const int64_t       n = args->dst.ne[0], n_expert = args->mul_mat_id_transposed.w.ne[2];
    float              *local = ctx->local;
    const ExpertColumns c = rp_expert_columns(ids, n_expert, (char *)ctx->local + rp_align_floats(GATHERED + RESULTS));
    const int64_t       across = (n + RP_GEMM_COLS - 1) / RP_GEMM_COLS,
                  rows         = unit_rows(c.first[n_expert] * across, ctx->nth);
    int64_t all = 0, at = 0; /* cost of all units, of the units before */
    for (int64_t e = 0; e < n_expert; e++) {
        const int64_t count = c.first[e + 1] - c.first[e];
        all += (count + (count + rows - 1) / rows * PACKING) * across;
    }
    const int64_t from = all * ctx->ith / ctx->nth, to = all * (ctx->ith + 1) / ctx->nth;
    zero_the_rest(args, ctx);
    for (int64_t e = 0; e < n_expert; e++)
        for (int64_t i = c.first[e]; i < c.first[e + 1]; i += rows)
            for (int64_t j0 = 0; j0 < n; j0 += RP_GEMM_COLS) {
                const int64_t count = smaller(c.first[e + 1] - i, rows);
                if (at >= from && at < to)
                    compute(args, e, j0, smaller(n - j0, RP_GEMM_COLS), c.order + i, count, local);
                at += count + PACKING;
            }
    return RP_OK;
}
