/* The gated delta rule (ops/private.h), token after token:
 *
 *     u[j]   = b * (v[j] - g * sum_i k[i] S[i,j])
 *     S[i,j] = g * S[i,j] + k[i] * u[j]
 *     y[j]   = sum_i q[i] S[i,j]
 *
 * Columns j of a head are independent. A worker has blocks of LANES of them, and takes the tokens one after the other,
 * in two passes over the block of S, which stays in the L1 cache. Each sum has two accumulators, which take even and
 * odd i. So the bits depend neither on workers and instruction sets nor on how a prompt is cut (I8). */
#include "fallback/recurrent/slots.h"
#include "fallback/recurrent/softplus.h"
#include "fallback/recurrent/strip.h"
#include "fallback/rows.h"
#include "fallback/simd/float.h"
#include "fallback/squares.h"

enum { LANES = 32, ROWS = 8 };

/* The input of one token to a head. */
typedef struct DeltaStep {
    float q[RP_DELTA_MAX_DIM], k[RP_DELTA_MAX_DIM]; /* normalised */
    float g, b;
} DeltaStep;

/* A block of S: row i begins at data + i * row. */
typedef struct DeltaBlock {
    float  *data; /* NULL: zeros */
    int64_t row;
} DeltaBlock;

/* Any number of rows and lanes. `from` and `to` may be the same memory. */
RP_BODY void update_lanes(const DeltaStep *step, DeltaBlock from, DeltaBlock to, int64_t d, const float *v, float *y,
                          int lanes) {
    float sum[2][LANES] = {{0.0f}}, u[LANES];
    for (int64_t i = 0; i < d && from.data != NULL; i++)
        for (int l = 0; l < lanes; l++) sum[i % 2][l] = fmaf(step->k[i], from.data[i * from.row + l], sum[i % 2][l]);
    for (int l = 0; l < lanes; l++) u[l] = step->b * fmaf(-step->g, sum[0][l] + sum[1][l], v[l]);
    memset(sum, 0, sizeof sum);
    for (int64_t i = 0; i < d; i++)
        for (int l = 0; l < lanes; l++) {
            const float before      = from.data != NULL ? step->g * from.data[i * from.row + l] : 0.0f;
            const float s           = fmaf(step->k[i], u[l], before);
            to.data[i * to.row + l] = s;
            sum[i % 2][l]           = fmaf(step->q[i], s, sum[i % 2][l]);
        }
    for (int l = 0; l < lanes; l++) y[l] = sum[0][l] + sum[1][l];
}

/* even[l] = sum of k[i] S[i,l] over even i, odd[l] over odd i. Sums are loaded and stored once for ROWS rows. d is a
 * multiple of ROWS. */
RP_BODY void sum_columns(const float *k, DeltaBlock s, int64_t d, float *even, float *odd) {
    for (int l = 0; l < LANES; l++) even[l] = odd[l] = 0.0f;
    for (int64_t i = 0; i < d; i += ROWS) {
        const float *row = s.data + i * s.row;
        for (int l = 0; l < LANES; l++) {
            float e = even[l], o = odd[l];
            for (int r = 0; r < ROWS; r += 2) {
                e = fmaf(k[i + r], row[r * s.row + l], e);
                o = fmaf(k[i + r + 1], row[(r + 1) * s.row + l], o);
            }
            even[l] = e, odd[l] = o;
        }
    }
}

/* S[i,l] = g * S[i,l] + k[i] * u[l] and y[l] = sum of q[i] S[i,l], for STRIP lanes from lane `at` on. Two rows at a
 * time: u and both sums stay in registers. */
RP_BODY void update_strip(const DeltaStep *step, DeltaBlock from, DeltaBlock to, int64_t d, const float *u_all,
                          float *y, int at) {
    float u[STRIP], even[STRIP] = {0.0f}, odd[STRIP] = {0.0f};
    for (int l = 0; l < STRIP; l++) u[l] = u_all[at + l];
    for (int64_t i = 0; i < d; i += 2) {
        const float *a = from.data + i * from.row + at, *b = a + from.row;
        float       *to_a = to.data + i * to.row + at, *to_b = to_a + to.row, s[STRIP], r[STRIP];
        EACH_LANE(l) s[l]    = fmaf(step->k[i], u[l], step->g * a[l]);
        EACH_LANE(l) r[l]    = fmaf(step->k[i + 1], u[l], step->g * b[l]);
        EACH_LANE(l) to_a[l] = s[l];
        EACH_LANE(l) to_b[l] = r[l];
        EACH_LANE(l) even[l] = fmaf(step->q[i], s[l], even[l]);
        EACH_LANE(l) odd[l]  = fmaf(step->q[i + 1], r[l], odd[l]);
    }
    for (int l = 0; l < STRIP; l++) y[at + l] = even[l] + odd[l];
}

RP_BODY void update_block(const DeltaStep *step, DeltaBlock from, DeltaBlock to, int64_t d, const float *v, float *y) {
    float even[LANES], odd[LANES], u[LANES];
    sum_columns(step->k, from, d, even, odd);
    for (int l = 0; l < LANES; l++) u[l] = step->b * fmaf(-step->g, even[l] + odd[l], v[l]);
    for (int at = 0; at < LANES; at += STRIP) update_strip(step, from, to, d, u, y, at);
}

RP_BODY void update_body(const DeltaStep *step, DeltaBlock from, DeltaBlock to, int64_t d, const float *v, float *y,
                         int lanes) {
    if (lanes == LANES && d % ROWS == 0 && from.data != NULL)
        update_block(step, from, to, d, v, y);
    else
        update_lanes(step, from, to, d, v, y, lanes);
}
RP_VARIANTS(update,
            (const DeltaStep *step, DeltaBlock from, DeltaBlock to, int64_t d, const float *v, float *y, int lanes),
            (step, from, to, d, v, y, lanes))

RP_BODY void scaled_body(const float *x, float scale, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * scale;
}
RP_VARIANTS(scaled, (const float *x, float scale, int64_t n, float *y), (x, scale, n, y))

/* Row `head` of token t of q, k or v. */
static const float *head_of(const RpTensorView *x, int64_t head, int64_t t) {
    return rp_view_row(x, head + x->ne[1] * t);
}

/* alpha or beta [n0,n1,t]. */
static float gate_of(const RpTensorView *x, int64_t head, int64_t t) {
    return head_of(x, head / x->ne[0], t)[head % x->ne[0]];
}

static void prepare(DeltaStep *step, const RpOpArgs *args, int64_t head, int64_t t) {
    const RpTensorView       *k = &args->gated_delta.k;
    const RpGatedDeltaParams *p = &args->params->gated_delta;
    const int64_t d = k->ne[0], keys = k->ne[1], key = p->grouped ? head * keys / args->dst.ne[1] : head % keys;
    const float  *q_row = head_of(&args->gated_delta.q, key, t), *k_row = head_of(k, key, t);
    const float   rate = ((const float *)args->gated_delta.a.data)[head],
                shift  = ((const float *)args->gated_delta.dt.data)[head];
    scaled(k_row, (float)(1.0 / sqrt(rp_square_sum(k_row, d) + (double)p->eps)), d, step->k);
    scaled(q_row, (float)(1.0 / sqrt((rp_square_sum(q_row, d) + (double)p->eps) * (double)d)), d, step->q);
    step->g = rp_expf(rate * rp_softplus(gate_of(&args->gated_delta.alpha, head, t) + shift));
    step->b = 1.0f / (1.0f + rp_expf(-gate_of(&args->gated_delta.beta, head, t)));
}

/* Columns j to j + lanes - 1 of a head. A state that no slot keeps goes to `local`. */
static void update_columns(const RpOpArgs *args, int64_t head, int64_t j, int lanes, int64_t n_tok, float *local) {
    const RpTensorView *state = &args->gated_delta.state, *y = &args->dst;
    const int32_t      *slot = args->gated_delta.slots.data;
    const int64_t       d = y->ne[0], at = head * d * d + j;
    DeltaBlock          from = {NULL, d};
    for (int64_t t = 0; t < n_tok; t++) {
        const int32_t before = rp_slot_before(&args->gated_delta.slots, &args->gated_delta.starts, t);
        if (before != SLOT_FOLLOWS)
            from = (DeltaBlock){before >= 0 ? (float *)rp_view_row(state, before) + at : NULL, d};
        const DeltaBlock kept = {slot[1 + t] >= 0 ? (float *)rp_view_row(state, slot[1 + t]) + at : NULL, d};
        const DeltaBlock to   = kept.data != NULL ? kept : (DeltaBlock){local, LANES};
        DeltaStep        step;
        prepare(&step, args, head, t);
        update(&step, from, to, d, head_of(&args->gated_delta.v, head, t) + j,
               (float *)rp_view_row(y, head + y->ne[1] * t) + j, lanes);
        from = to;
    }
    for (int64_t t = n_tok; t < y->ne[2]; t++)
        memset((float *)rp_view_row(y, head + y->ne[1] * t) + j, 0, (size_t)lanes * sizeof(float));
}

CpuNeeds rp_needs_gated_delta(const RpOpArgs *args) {
    return (CpuNeeds){.phases = 1, .local = (size_t)args->dst.ne[0] * LANES * sizeof(float)};
}

RpStatus rp_cpu_gated_delta(const RpOpArgs *args, RpKernelCtx *ctx) {
    int64_t n_tok = 0;
    RP_TRY(RP_CHECK(gated_delta, args));
    RP_TRY(rp_read_slots("gated_delta", &args->gated_delta.slots, &args->gated_delta.starts,
                         args->gated_delta.state.ne[1], &n_tok));
    const int64_t d = args->dst.ne[0], blocks = (d + LANES - 1) / LANES, items = blocks * args->dst.ne[1];
    for (int64_t i = items * ctx->ith / ctx->nth; i < items * (ctx->ith + 1) / ctx->nth; i++) {
        const int64_t j = i % blocks * LANES;
        update_columns(args, i / blocks, j, d - j < LANES ? (int)(d - j) : LANES, n_tok, ctx->local);
    }
    return RP_OK;
}
