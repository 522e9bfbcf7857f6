/* The difference of two results of a node, for rp_verify_difference:
 *
 *     difference = max |got - want| / max |want|      infinite for NaN or infinity against a number
 *
 * Elements that were quantised or rounded when they were stored may differ by one step, since the last bit
 * before the rounding can decide it. Ids must be equal, and so must the results of quantize and copy,
 * which only convert. */
#include "reprise/executor.h"
#include "reprise/extend.h"
#include "reprise/quants.h"

#include <math.h>
#include <string.h>

typedef struct Difference {
    double largest, worst; /* max |want|; max |got - want| */
    size_t at;             /* element of `worst` */
} Difference;

/* A difference up to `step`, the tolerance, counts as none. */
static void compare(Difference *d, double got, double want, double step, size_t at) {
    if (isfinite(want)) d->largest = fmax(d->largest, fabs(want));
    if (got == want || (isnan(got) && isnan(want))) return;
    double difference = fabs(got - want);
    if (difference <= step) return;
    if (isnan(difference)) difference = (double)INFINITY;
    if (difference <= d->worst) return;
    d->worst = difference;
    d->at    = at;
}

static void compare_floats(Difference *d, const char *got, const char *want, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float a, b;
        memcpy(&a, got + i * sizeof a, sizeof a);
        memcpy(&b, want + i * sizeof b, sizeof b);
        if (memcmp(&a, &b, sizeof a) == 0 && !isfinite(b)) continue; /* poison that neither run has overwritten */
        compare(d, (double)a, (double)b, 0.0, i);
    }
}

static void compare_bytes(Difference *d, const char *got, const char *want, size_t from, size_t end) {
    for (size_t i = from; i < end; i++)
        if (got[i] != want[i]) {
            *d = (Difference){1.0, (double)INFINITY, i};
            return;
        }
}

/* A row of q8_act:  q[n] int8, scale[n/32] f32, sum[n/16] f32. Values scale * q may differ by one quant,
 * with 1 % slack for the scale. Scales are compared as floats. A stored sum changes if a quant differs. So it is
 * compared with (sum of quants) * scale of its own row; the slack covers another rounding order. */
static void compare_act(Difference *d, const char *got, const char *want, int64_t n, size_t first) {
    for (int64_t i = 0; i < n; i++) {
        float scale;
        memcpy(&scale, want + n + i / 32 * 4, sizeof scale);
        compare(d, (double)scale * (double)(int8_t)got[i], (double)scale * (double)(int8_t)want[i],
                1.01 * fabs((double)scale), first + (size_t)i);
    }
    for (int64_t i = 0; i < n / 32; i++) {
        float a, b;
        memcpy(&a, got + n + i * 4, sizeof a);
        memcpy(&b, want + n + i * 4, sizeof b);
        compare(d, (double)a, (double)b, 0.0, first + (size_t)(32 * i));
    }
    const double top = d->largest; /* of elements, not of sums */
    for (int64_t j = 0; j < n / 16; j++) {
        float scale, sum;
        int   quants = 0;
        for (int i = 0; i < 16; i++) quants += (int8_t)got[16 * j + i];
        memcpy(&scale, got + n + j / 2 * 4, sizeof scale);
        memcpy(&sum, got + n + n / 8 + j * 4, sizeof sum);
        const double own = (double)scale * quants;
        compare(d, (double)sum, own, 16 * 127 * 0x1p-22 * fabs((double)scale), first + (size_t)(16 * j));
    }
    d->largest = top;
}

static float largest(const float block[32]) {
    float top = 0.0f;
    for (int i = 0; i < 32; i++) top = fabsf(block[i]) > top ? fabsf(block[i]) : top;
    return top;
}

/* A row of f16, bf16 or q8_0. The tolerance is one step of the type:
 *
 *     f16    |want| * 2^-10, at least 2^-24        q8_0   max |want| of its block of 32 / 127, with 1 % slack
 *     bf16   |want| * 2^-7 */
static void compare_stored(Difference *d, RpDtype type, const char *got, const char *want, int64_t n, size_t first) {
    enum { PIECE = 256 };
    float a[PIECE], b[PIECE];
    if (memcmp(got, want, rp_row_bytes(type, n)) == 0) return;
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t m = n - at < PIECE ? n - at : PIECE;
        rp_dequantize_row(type, got + rp_row_bytes(type, at), m, a);
        rp_dequantize_row(type, want + rp_row_bytes(type, at), m, b);
        for (int64_t i = 0; i < m; i++) {
            const float  block = type == RP_Q8_0 ? largest(b + i / 32 * 32) : 0.0f;
            const double step  = fabs((double)b[i]) * (type == RP_BF16 ? 0x1p-7 : 0x1p-10) + 0x1p-24;
            compare(d, (double)a[i], (double)b[i], fmax(step, 1.01 / 127.0 * (double)block), first + (size_t)(at + i));
        }
    }
}

static double relative(const Difference *d) {
    return d->worst == 0.0 ? 0.0 : d->largest > 0.0 ? d->worst / d->largest : (double)INFINITY;
}

double rp_verify_difference(const TensorNode *node, const RpTensorView *view, const void *got, const void *want,
                            size_t *at) {
    if (at != NULL) *at = 0;
    if (node == NULL || view == NULL || got == NULL || want == NULL) return (double)INFINITY;
    const char  *a = got, *b = want, *op = rp_node_op_name(node);
    const size_t bytes  = rp_view_extent_bytes(view);
    const bool   stored = view->dtype == RP_F16 || view->dtype == RP_BF16 || view->dtype == RP_Q8_0;
    Difference   d = {0}, column = {0};
    if (view->dtype == RP_F32) {
        compare_floats(&d, a, b, bytes / sizeof(float));
    } else if (strcmp(op, "router") == 0) {
        /* i32: ids; as the bits of f32 weights and, with the source `open`, a gate; a column */
        const int64_t n    = rp_node_view(rp_node_source(node, 1)).ne[0];
        const bool    gate = rp_node_source(node, 5) != NULL;
        const size_t  row = view->nb[1], before = (gate ? 4 : 2) * row;
        compare_floats(&d, a + row, b + row, (before - row) / sizeof(float));
        compare_bytes(&d, a, b, 0, row);
        if (bytes > before) compare_act(&column, a + before, b + before, n, (before - row) / sizeof(float));
    } else if (view->dtype == RP_Q8_ACT && strcmp(op, "quantize") != 0) {
        for (int64_t r = 0; r < rp_view_rows(view); r++)
            compare_act(&d, a + (size_t)r * rp_row_bytes(view->dtype, view->ne[0]),
                        b + (size_t)r * rp_row_bytes(view->dtype, view->ne[0]), view->ne[0], (size_t)(r * view->ne[0]));
    } else if (stored && strcmp(op, "copy") != 0) {
        for (int64_t r = 0; r < rp_view_rows(view); r++) {
            const size_t row = (size_t)((const char *)rp_view_row(view, r) - (const char *)view->data);
            compare_stored(&d, view->dtype, a + row, b + row, view->ne[0], (size_t)(r * view->ne[0]));
        }
    } else {
        compare_bytes(&d, a, b, 0, bytes);
    }
    if (relative(&column) > relative(&d)) d = column;
    if (at != NULL) *at = d.at;
    return relative(&d);
}
