/* The selective scan of Mamba-2 (ops/private.h), token after token, with u[j] = e * x[j]:
 *
 *     S[i,j] = g * S[i,j] + b[i] * u[j]
 *     y[j]   = (sum_i c[i] S[i,j] + d * x[j]) * z[j] / (1 + exp(-z[j]))
 *
 * Channels j of a head are independent. A worker has blocks of them, and takes the tokens one after the other, in one
 * pass over the block of S. The sum has two accumulators, which take even and odd i. So the bits depend neither on
 * blocks, workers and instruction sets nor on how a prompt is cut (I8).
 *
 * A prefill has blocks of LANES channels, whose part of S stays in the L1 cache from token to token. A decode reads S
 * from memory, so its blocks have MAX_LANES, which is a whole row of S in most models: memory is read in order. */
#include "fallback/recurrent/slots.h"
#include "fallback/recurrent/softplus.h"
#include "fallback/recurrent/strip.h"
#include "fallback/rows.h"
#include "fallback/simd/float.h"

enum { LANES = 32, MAX_LANES = 64 };

/* The input of one token to a block of channels. */
typedef struct ScanStep {
    const float *b, *c; /* [n] */
    const float *x, *z; /* [lanes] */
    float        e, g, d;
} ScanStep;

/* y[l] of the formula above, from the sums over even and odd i. */
RP_BODY float gated_sum(const ScanStep *step, int l, float even, float odd) {
    const float whole = fmaf(step->d, step->x[l], even + odd);
    return whole * (step->z[l] / (1.0f + rp_expf(-step->z[l])));
}

/* Any number of rows and lanes. `from` and `to` may be the same memory. */
RP_BODY void scan_lanes(const ScanStep *step, StateBlock from, StateBlock to, int64_t n, float *y, int lanes) {
    float sum[2][MAX_LANES] = {{0.0f}};
    for (int64_t i = 0; i < n; i++)
        for (int l = 0; l < lanes; l++) {
            const float before      = from.data != NULL ? step->g * from.data[i * from.row + l] : 0.0f;
            const float s           = fmaf(step->b[i], step->e * step->x[l], before);
            to.data[i * to.row + l] = s;
            sum[i % 2][l]           = fmaf(step->c[i], s, sum[i % 2][l]);
        }
    for (int l = 0; l < lanes; l++) y[l] = gated_sum(step, l, sum[0][l], sum[1][l]);
}

/* n is even, `lanes` a multiple of STRIP. */
RP_BODY void scan_strips(const ScanStep *step, StateBlock from, StateBlock to, int64_t n, float *y, int lanes) {
    float u[MAX_LANES], even[MAX_LANES] = {0.0f}, odd[MAX_LANES] = {0.0f};
    for (int l = 0; l < lanes; l++) u[l] = step->e * step->x[l];
    const StateStep pass = {.in = step->b, .out = step->c, .u = u, .even = even, .odd = odd, .g = step->g};
    rp_step_state(&pass, from, to, n, lanes);
    for (int l = 0; l < lanes; l++) y[l] = gated_sum(step, l, even[l], odd[l]);
}

RP_BODY void scan_body(const ScanStep *step, StateBlock from, StateBlock to, int64_t n, float *y, int lanes) {
    if (lanes % STRIP == 0 && n % 2 == 0 && from.data != NULL)
        scan_strips(step, from, to, n, y, lanes);
    else
        scan_lanes(step, from, to, n, y, lanes);
}
RP_VARIANTS(scan, (const ScanStep *step, StateBlock from, StateBlock to, int64_t n, float *y, int lanes),
            (step, from, to, n, y, lanes))

/* Row `row` of token t, as [n, rows, t]. */
static float *row_of(const RpTensorView *v, int64_t row, int64_t t) { return rp_view_row(v, row + v->ne[1] * t); }

static float of_head(const RpTensorView *v, int64_t head) { return ((const float *)v->data)[head]; }

/* Channels j and following of a head. */
static ScanStep step_of(const RpOpArgs *args, int64_t head, int64_t j, int64_t t) {
    const RpTensorView *b = &args->ssm_scan.b, *x = &args->ssm_scan.x;
    const int64_t       group = head * b->ne[1] / x->ne[1];
    const float        *dt    = rp_view_row(&args->ssm_scan.dt, t);
    const float         e     = rp_softplus(dt[head] + of_head(&args->ssm_scan.bias, head));
    return (ScanStep){.b = row_of(b, group, t),
                      .c = row_of(&args->ssm_scan.c, group, t),
                      .x = row_of(x, head, t) + j,
                      .z = row_of(&args->ssm_scan.z, head, t) + j,
                      .e = e,
                      .g = rp_expf(of_head(&args->ssm_scan.a, head) * e),
                      .d = of_head(&args->ssm_scan.d, head)};
}

/* Channels j to j + lanes - 1 of a head. A state that no slot keeps goes to `local`. */
static void scan_channels(const RpOpArgs *args, int64_t head, int64_t j, int lanes, int64_t n_tok, float *local) {
    const RpTensorView *state = &args->ssm_scan.state, *y = &args->dst;
    const int32_t      *slot = args->ssm_scan.slots.data;
    const int64_t       n = args->ssm_scan.b.ne[0], p = y->ne[0], at = head * n * p + j;
    StateBlock          from = {NULL, p};
    for (int64_t t = 0; t < n_tok; t++) {
        const int32_t before = rp_slot_before(&args->ssm_scan.slots, &args->ssm_scan.starts, t);
        if (before != SLOT_FOLLOWS)
            from = (StateBlock){before >= 0 ? (float *)rp_view_row(state, before) + at : NULL, p};
        StateBlock to = {local, lanes};
        if (slot[1 + t] >= 0) to = (StateBlock){(float *)rp_view_row(state, slot[1 + t]) + at, p};
        const ScanStep step = step_of(args, head, j, t);
        scan(&step, from, to, n, row_of(y, head, t) + j, lanes);
        from = to;
    }
    for (int64_t t = n_tok; t < y->ne[2]; t++) memset(row_of(y, head, t) + j, 0, (size_t)lanes * sizeof(float));
}

CpuNeeds rp_needs_ssm_scan(const RpOpArgs *args) {
    return (CpuNeeds){.phases = 1, .local = (size_t)args->ssm_scan.b.ne[0] * MAX_LANES * sizeof(float)};
}

RpStatus rp_cpu_ssm_scan(const RpOpArgs *args, RpKernelCtx *ctx) {
    int64_t n_tok = 0;
    RP_TRY(RP_CHECK(ssm_scan, args));
    RP_TRY(
        rp_read_slots("ssm_scan", &args->ssm_scan.slots, &args->ssm_scan.starts, args->ssm_scan.state.ne[1], &n_tok));
    const int64_t lanes = rp_slots_follow(&args->ssm_scan.slots, &args->ssm_scan.starts, n_tok) ? LANES : MAX_LANES;
    const int64_t p = args->dst.ne[0], blocks = (p + lanes - 1) / lanes, items = blocks * args->dst.ne[1];
    for (int64_t i = items * ctx->ith / ctx->nth; i < items * (ctx->ith + 1) / ctx->nth; i++) {
        const int64_t j = i % blocks * lanes;
        scan_channels(args, i / blocks, j, (int)(p - j < lanes ? p - j : lanes), n_tok, ctx->local);
    }
    return RP_OK;
}
