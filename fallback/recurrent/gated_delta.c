/* The gated delta rule (ops/private.h), token after token:
 *
 *     u[j]   = b * (v[j] - g * sum_i k[i] S[i,j])
 *     S[i,j] = g * S[i,j] + k[i] * u[j]
 *     y[j]   = sum_i q[i] S[i,j]
 *
 * Columns j of a head are independent. A worker has blocks of them, and takes the tokens one after the other, in two
 * passes over the block of S. Each sum has two accumulators, which take even and odd i. So the bits depend neither on
 * blocks, workers and instruction sets nor on how a prompt is cut (I8).
 *
 * A prefill has blocks of LANES columns, which stay in the L1 cache for RUN tokens. A decode reads S from memory, so
 * its blocks have MAX_LANES, which is a whole row of S in most models: memory is read in order. */
#include "fallback/recurrent/slots.h"
#include "fallback/recurrent/softplus.h"
#include "fallback/recurrent/strip.h"
#include "fallback/rows.h"
#include "fallback/simd/float.h"
#include "fallback/squares.h"

enum { LANES = 32, MAX_LANES = 128, ROWS = 8, RUN = 8 };

/* The input of one token to a head. */
typedef struct DeltaStep {
    float q[RP_DELTA_MAX_DIM], k[RP_DELTA_MAX_DIM]; /* normalised */
    float g, b;
} DeltaStep;

/* Any number of rows and lanes. `from` and `to` may be the same memory. */
RP_BODY void update_lanes(const DeltaStep *step, StateBlock from, StateBlock to, int64_t d, const float *v, float *y,
                          int lanes) {
    float sum[2][MAX_LANES] = {{0.0f}}, u[MAX_LANES];
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
RP_BODY void sum_columns(const float *k, StateBlock s, int64_t d, float *even, float *odd, int lanes) {
    for (int l = 0; l < lanes; l++) even[l] = odd[l] = 0.0f;
    for (int64_t i = 0; i < d; i += ROWS) {
        const float *row = s.data + i * s.row;
        for (int l = 0; l < lanes; l++) {
            float e = even[l], o = odd[l];
            for (int r = 0; r < ROWS; r += 2) {
                e = fmaf(k[i + r], row[r * s.row + l], e);
                o = fmaf(k[i + r + 1], row[(r + 1) * s.row + l], o);
            }
            even[l] = e, odd[l] = o;
        }
    }
}

/* lanes is a multiple of STRIP, d one of ROWS. */
RP_BODY void update_strips(const DeltaStep *step, StateBlock from, StateBlock to, int64_t d, const float *v, float *y,
                           int lanes) {
    float even[MAX_LANES], odd[MAX_LANES], u[MAX_LANES];
    sum_columns(step->k, from, d, even, odd, lanes);
    for (int l = 0; l < lanes; l++) u[l] = step->b * fmaf(-step->g, even[l] + odd[l], v[l]);
    for (int l = 0; l < lanes; l++) even[l] = odd[l] = 0.0f;
    const StateStep pass = {.in = step->k, .out = step->q, .u = u, .even = even, .odd = odd, .g = step->g};
    rp_step_state(&pass, from, to, d, lanes);
    for (int l = 0; l < lanes; l++) y[l] = even[l] + odd[l];
}

RP_BODY void update_body(const DeltaStep *step, StateBlock from, StateBlock to, int64_t d, const float *v, float *y,
                         int lanes) {
    if (lanes % STRIP == 0 && d % ROWS == 0 && from.data != NULL)
        update_strips(step, from, to, d, v, y, lanes);
    else
        update_lanes(step, from, to, d, v, y, lanes);
}
RP_VARIANTS(update,
            (const DeltaStep *step, StateBlock from, StateBlock to, int64_t d, const float *v, float *y, int lanes),
            (step, from, to, d, v, y, lanes))

RP_BODY void scaled_body(const float *x, float scale, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * scale;
}
RP_VARIANTS(scaled, (const float *x, float scale, int64_t n, float *y), (x, scale, n, y))

/* Row `head` of token t. */
static float *head_of(const RpTensorView *x, int64_t head, int64_t t) { return rp_view_row(x, head + x->ne[1] * t); }

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

/* Blocks of `lanes` columns of a head, from column `begin` on up to column `end`. */
typedef struct DeltaHead {
    int64_t head, begin, end;
    int     lanes;
} DeltaHead;

/* Columns j to j + lanes - 1 of tokens t to t + m - 1, whose inputs to the head are steps[]. `state`: the block before
 * them if token t follows another one, and the block after them. One that no slot keeps goes to `local`. */
static void update_columns(const RpOpArgs *args, int64_t head, int64_t j, int lanes, const DeltaStep *steps, int64_t t,
                           int m, StateBlock *state, float *local) {
    const RpTensorView *all = &args->gated_delta.state, *y = &args->dst, *v = &args->gated_delta.v;
    const int32_t      *kept = (const int32_t *)args->gated_delta.slots.data + 1;
    const int64_t       d = y->ne[0], at = head * d * d + j;
    for (int i = 0; i < m; i++, t++) {
        const int32_t before = rp_slot_before(&args->gated_delta.slots, &args->gated_delta.starts, t);
        if (before != SLOT_FOLLOWS)
            *state = (StateBlock){before >= 0 ? (float *)rp_view_row(all, before) + at : NULL, d};
        StateBlock to = {local, lanes};
        if (kept[t] >= 0) to = (StateBlock){(float *)rp_view_row(all, kept[t]) + at, d};
        update(&steps[i], *state, to, d, head_of(v, head, t) + j, head_of(y, head, t) + j, lanes);
        *state = to;
    }
}

/* RUN tokens of each block, then the next ones: q and k are normalised once for all blocks. */
static void update_head(const RpOpArgs *args, const DeltaHead *h, int64_t n_tok, float *local) {
    const RpTensorView *y = &args->dst;
    DeltaStep           steps[RUN];
    StateBlock          state[RP_DELTA_MAX_DIM / LANES] = {0};
    for (int64_t t = 0; t < n_tok; t += RUN) {
        const int m = n_tok - t < RUN ? (int)(n_tok - t) : RUN;
        for (int i = 0; i < m; i++) prepare(&steps[i], args, h->head, t + i);
        for (int64_t j = h->begin, b = 0; j < h->end; j += h->lanes, b++) {
            const int lanes = h->end - j < h->lanes ? (int)(h->end - j) : h->lanes;
            update_columns(args, h->head, j, lanes, steps, t, m, &state[b], local + (j - h->begin) * y->ne[0]);
        }
    }
    for (int64_t t = n_tok; t < y->ne[2]; t++)
        memset(head_of(y, h->head, t) + h->begin, 0, (size_t)(h->end - h->begin) * sizeof(float));
}

CpuNeeds rp_needs_gated_delta(const RpOpArgs *args) {
    return (CpuNeeds){.phases = 1, .local = (size_t)(args->dst.ne[0] * args->dst.ne[0]) * sizeof(float)};
}

RpStatus rp_cpu_gated_delta(const RpOpArgs *args, RpKernelCtx *ctx) {
    int64_t n_tok = 0;
    RP_TRY(RP_CHECK(gated_delta, args));
    RP_TRY(rp_read_slots("gated_delta", &args->gated_delta.slots, &args->gated_delta.starts,
                         args->gated_delta.state.ne[1], &n_tok));
    const RpTensorView *slots = &args->gated_delta.slots, *starts = &args->gated_delta.starts;
    const int64_t       lanes = rp_slots_follow(slots, starts, n_tok) ? LANES : MAX_LANES;
    const int64_t       d = args->dst.ne[0], blocks = (d + lanes - 1) / lanes, items = blocks * args->dst.ne[1];
    const int64_t       end = items * (ctx->ith + 1) / ctx->nth;
    for (int64_t i = items * ctx->ith / ctx->nth, n; i < end; i += n) {
        const int64_t first = i % blocks, begin = first * lanes;
        n                 = blocks - first < end - i ? blocks - first : end - i;
        const DeltaHead h = {i / blocks, begin, begin + n * lanes < d ? begin + n * lanes : d, (int)lanes};
        update_head(args, &h, n_tok, ctx->local);
    }
    return RP_OK;
}
