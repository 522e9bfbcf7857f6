/* y[i0,i1,i2,i3] = sum of dy over the places that b[i0,i1,i2,i3] repeats to in y = a + b (repeat.h). Example: the
 * gradient of a bias [512], added to each row of [512,t], is the sum of t rows.
 *
 * Elements of y are divided among the workers. Sums are in double, in the order of memory of dy; a row that becomes one
 * element is summed by 16 lanes. Neither workers nor instruction set change the order (I8). */
#include "fallback/rows.h"
#include "fallback/simd/simd.h"

#include "ops/rules.h"

enum { LANES = 16, CHUNK = 256 };

RP_BODY void add_row_body(const float *x, int64_t n, double *acc) {
    for (int64_t i = 0; i < n; i++) acc[i] += (double)x[i];
}
RP_VARIANTS(add_row, (const float *x, int64_t n, double *acc), (x, n, acc))

RP_BODY void row_sum_body(const float *x, int64_t n, double *out) {
    double  acc[LANES] = {0.0};
    int64_t i          = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) acc[l] += (double)x[i + l];
    for (int l = 0; i + l < n; l++) acc[l] += (double)x[i + l];
    for (int m = LANES / 2; m > 0; m /= 2)
        for (int l = 0; l < m; l++) acc[l] += acc[l + m];
    *out += acc[0];
}
RP_VARIANTS(row_sum, (const float *x, int64_t n, double *out), (x, n, out))

/* acc[0..n) += elements from, from + 1, ... of a row of dy and of its repeats of n0 elements. */
static void add_repeats(const RpTensorView *dy, const float *row, int64_t n0, int64_t from, int64_t n, double *acc) {
    if (n0 == 1) {
        row_sum(row, dy->ne[0], acc);
        return;
    }
    for (int64_t i = from; i < dy->ne[0]; i += n0) add_row(row + i, n, acc);
}

/* y[from..from+n) of row (i1,i2,i3), n <= CHUNK. */
static void sum_chunk(const RpOpArgs *args, int64_t r, int64_t from, int64_t n, float *out) {
    const RpTensorView *dy = &args->repeat_backward.dy, *y = &args->dst;
    const int64_t       n1 = y->ne[1], n2 = y->ne[2], n3 = y->ne[3];
    double              acc[CHUNK] = {0.0};
    for (int64_t i3 = r / (n1 * n2); i3 < dy->ne[3]; i3 += n3)
        for (int64_t i2 = r / n1 % n2; i2 < dy->ne[2]; i2 += n2)
            for (int64_t i1 = r % n1; i1 < dy->ne[1]; i1 += n1)
                add_repeats(dy, rp_view_row(dy, i1 + dy->ne[1] * (i2 + dy->ne[2] * i3)), y->ne[0], from, n, acc);
    for (int64_t i = 0; i < n; i++) out[i] = (float)acc[i];
}

static void sum_range(const RpOpArgs *args, const float *dy, float *y, int64_t row, int64_t from, int64_t n) {
    (void)dy;
    for (int64_t i = 0; i < n; i += CHUNK) sum_chunk(args, row, from + i, n - i < CHUNK ? n - i : CHUNK, y + i);
}

RpStatus rp_cpu_repeat_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(repeat_backward, args));
    rp_for_ranges(args, ctx, sum_range);
    return RP_OK;
}
