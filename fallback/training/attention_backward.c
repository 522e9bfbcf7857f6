/* The gradient of attention (ops.h) without a matrix of all scores, by the scheme of FlashAttention-2 (Dao 2023,
 * arXiv:2307.08691, algorithm 2). A unit is a key head of a batch entry with the query heads that share it; units are
 * divided among the workers. It goes over tiles of 48 queries and 48 keys twice:
 *
 *     1.  S = Q K^T                      top and sum of exponentials of each row, updated from tile to tile
 *         delta = dO . O
 *     2.  S = Q K^T,  P = exp(scale S - top) / sum,  dV += P^T dO
 *         dP = dO V^T,  dS = scale P (dP - delta),   dK += dS^T Q,  dQ += dS K
 *
 * Keys and values of a tile are transposed, so that a SIMD lane is a key in S and dP, and an element of a head in dQ,
 * dK and dV. Every result is one chain of fma: dQ in the order of the keys, dK and dV in the order of heads and
 * queries. Neither workers nor instruction set change it (I8). The keys that a query sees are a range of each tile.
 * A sink is a score without a value: it is in the first top and sum of its rows. */
#include "fallback/training/dots.h"
#include "fallback/training/log_sum.h"
#include "fallback/training/product.h"

#include "ops/rules.h"
#include "ops/training/attention_backward.h"

#include <math.h>
#include <stdalign.h>
#include <string.h>

enum { TILE = 48 };

/* A row of a tile: scores s become probabilities, dp becomes the gradient of the unscaled scores. */
RP_BODY void probabilities_body(float *s, float *dp, int64_t n, float scale, float top, float inverse, float delta) {
    for (int64_t j = 0; j < n; j++) {
        s[j]  = rp_expf(scale * s[j] - top) * inverse;
        dp[j] = scale * s[j] * (dp[j] - delta);
    }
}
RP_VARIANTS(probabilities, (float *s, float *dp, int64_t n, float scale, float top, float inverse, float delta),
            (s, dp, n, scale, top, inverse, delta))

RP_BODY void scaled_body(float *s, int64_t n, float scale) {
    for (int64_t j = 0; j < n; j++) s[j] *= scale;
}
RP_VARIANTS(scaled, (float *s, int64_t n, float scale), (s, n, scale))

typedef float Tile[TILE * TILE];

/* A key head of a batch entry, and the memory of its tiles. */
typedef struct Unit {
    const RpOpArgs *args;
    int64_t         batch, key_head, group, n_q, n_k, ahead;
    int             d;
    float           scale;
    float          *top, *inverse, *delta; /* [heads * n_q] of the batch entry */
    float          *of_sink;               /* [heads * n_q], or NULL */
    float          *keys, *values;         /* [d][TILE], transposed */
    float          *s, *ds;                /* [TILE][TILE] */
} Unit;

/* Queries [t, t + n_q) of a head and keys [i, i + n_k). */
typedef struct Block {
    int64_t head, t, i;
    int     n_q, n_k;
} Block;

/* Row i1 of i2 of the unit's batch entry. */
static float *row_of(const RpTensorView *v, const Unit *u, int64_t i1, int64_t i2) {
    return (float *)(void *)((char *)v->data + (size_t)i1 * v->nb[1] + (size_t)i2 * v->nb[2] +
                             (size_t)u->batch * v->nb[3]);
}

static int64_t floats(size_t bytes) { return (int64_t)(bytes / sizeof(float)); }

/* Keys [from, end) of a block. */
typedef struct Range {
    int from, end;
} Range;

/* Key i as one of the block: 0 to n_k. */
static int in_block(const Block *b, int64_t i) { return i < b->i ? 0 : i - b->i < b->n_k ? (int)(i - b->i) : b->n_k; }

/* The keys of the block that row t of it sees. */
static Range visible(const Unit *u, const Block *b, int t) {
    const RpAttentionBackwardParams *p    = &u->args->params->attention_backward;
    const int64_t                    end  = p->causal != 0 ? b->t + t + u->ahead + 1 : u->n_k;
    const int64_t                    from = p->window > 0 && end > p->window ? end - p->window : 0;
    return (Range){in_block(b, from), in_block(b, end)};
}

static void transpose(const RpTensorView *v, const Unit *u, int64_t first, int n, float *to) {
    if (n < TILE) memset(to, 0, (size_t)u->d * TILE * sizeof *to);
    for (int i = 0; i < n; i++) {
        const float *row = row_of(v, u, first + i, u->key_head);
        for (int c = 0; c < u->d; c++) to[c * TILE + i] = row[c];
    }
}

/* to[t][i] = rows of `v` times the columns of `with`, keys or values; row 0 begins at `from`. */
static void scores(const Unit *u, const Block *b, const float *from, size_t stride, const float *with, float *to) {
    const Product p = {.a     = from,
                       .b     = with,
                       .c     = to,
                       .a_row = floats(stride),
                       .a_col = 1,
                       .b_row = TILE,
                       .c_row = TILE,
                       .m     = b->n_q,
                       .n     = TILE,
                       .k     = u->d};
    memset(to, 0, sizeof(Tile));
    product(&p);
}

/* Pass 1: top and, in `inverse`, the sum of the exponentials relative to it. */
static void statistics(const Unit *u, const Block *b) {
    const RpTensorView *q = &u->args->attention_backward.q;
    scores(u, b, row_of(q, u, b->t, b->head), q->nb[1], u->keys, u->s);
    for (int t = 0; t < b->n_q; t++) {
        const Range   seen = visible(u, b, t);
        const int64_t row = b->head * u->n_q + b->t + t, n = seen.end - seen.from;
        float        *s = u->s + t * TILE + seen.from, top;
        double        sum;
        scaled(s, n, u->scale);
        largest(s, n, &top);
        if (top < u->top[row]) top = u->top[row];
        exponentials(s, n, top, &sum);
        if (u->inverse[row] != 0.0f) sum += (double)(u->inverse[row] * rp_expf(u->top[row] - top));
        u->top[row] = top, u->inverse[row] = (float)sum;
    }
}

/* c += a^T b, rows of c are keys: a is a tile, b has the rows of the queries. */
static void add_to_keys(const Unit *u, const Block *b, const float *a, const float *with, size_t stride,
                        const RpTensorView *to) {
    const Product p = {.a     = a,
                       .b     = with,
                       .c     = row_of(to, u, b->i, u->key_head),
                       .a_row = 1,
                       .a_col = TILE,
                       .b_row = floats(stride),
                       .c_row = floats(to->nb[1]),
                       .m     = b->n_k,
                       .n     = u->d,
                       .k     = b->n_q};
    product(&p);
}

/* Zeros outside the range. */
static void hide(float *row, Range seen) {
    memset(row, 0, (size_t)seen.from * sizeof *row);
    memset(row + seen.end, 0, (size_t)(TILE - seen.end) * sizeof *row);
}

/* Pass 2. */
static void gradients(const Unit *u, const Block *b) {
    const RpOpArgs     *args = u->args;
    const RpTensorView *q = &args->attention_backward.q, *k = &args->attention_backward.k,
                       *dy = &args->attention_backward.dy, *dq = &args->dst;
    const float *of_q = row_of(q, u, b->t, b->head), *of_dy = row_of(dy, u, b->head, b->t);
    scores(u, b, of_q, q->nb[1], u->keys, u->s);
    scores(u, b, of_dy, dy->nb[2], u->values, u->ds);
    for (int t = 0; t < b->n_q; t++) {
        const int64_t row  = b->head * u->n_q + b->t + t;
        const Range   seen = visible(u, b, t);
        float        *s = u->s + t * TILE, *ds = u->ds + t * TILE;
        probabilities(s + seen.from, ds + seen.from, seen.end - seen.from, u->scale, u->top[row], u->inverse[row],
                      u->delta[row]);
        hide(s, seen), hide(ds, seen);
    }
    add_to_keys(u, b, u->s, of_dy, dy->nb[2], &args->attention_backward.dv);
    add_to_keys(u, b, u->ds, of_q, q->nb[1], &args->attention_backward.dk);
    const Product p = {.a     = u->ds,
                       .b     = row_of(k, u, b->i, u->key_head),
                       .c     = row_of(dq, u, b->t, b->head),
                       .a_row = TILE,
                       .a_col = 1,
                       .b_row = floats(k->nb[1]),
                       .c_row = floats(dq->nb[1]),
                       .m     = b->n_q,
                       .n     = u->d,
                       .k     = b->n_k};
    product(&p);
}

/* Calls f for all blocks with visible keys, keys outside, then heads, then queries. */
static void for_blocks(const Unit *u, bool with_values, void f(const Unit *u, const Block *b)) {
    for (int64_t i = 0; i < u->n_k; i += TILE) {
        Block         b      = {.i = i, .n_k = u->n_k - i < TILE ? (int)(u->n_k - i) : TILE};
        const bool    causal = u->args->params->attention_backward.causal != 0;
        const int64_t first  = causal && i > u->ahead ? (i - u->ahead) / TILE * TILE : 0;
        const int64_t window = u->args->params->attention_backward.window,
                      past   = causal && window > 0 ? i + b.n_k + window - u->ahead - 1 : u->n_q,
                      end    = past < u->n_q ? past : u->n_q; /* whose windows have left the tile */
        transpose(&u->args->attention_backward.k, u, i, b.n_k, u->keys);
        if (with_values) transpose(&u->args->attention_backward.v, u, i, b.n_k, u->values);
        for (b.head = u->key_head * u->group; b.head < (u->key_head + 1) * u->group; b.head++)
            for (b.t = first; b.t < end; b.t += TILE) {
                b.n_q = u->n_q - b.t < TILE ? (int)(u->n_q - b.t) : TILE;
                f(u, &b);
            }
    }
}

static float sink_of(const Unit *u, int64_t h) { return ((const float *)u->args->attention_backward.sinks.data)[h]; }

/* 1 / sum, and the row's part of the gradient of its sink, which has no value: p (0 - delta). */
static void end_row(const Unit *u, int64_t row, int64_t h) {
    u->inverse[row] = u->inverse[row] != 0.0f ? 1.0f / u->inverse[row] : 0.0f;
    if (u->of_sink == NULL) return;
    const float sink = sink_of(u, h), p = sink == -INFINITY ? 0.0f : rp_expf(sink - u->top[row]) * u->inverse[row];
    u->of_sink[row] = -p * u->delta[row];
}

/* Initialises the rows before pass 1 (`end` false), and finishes them after it. */
static void prepare_rows(const Unit *u, bool end) {
    const RpTensorView *y = &u->args->attention_backward.y, *dy = &u->args->attention_backward.dy;
    for (int64_t h = u->key_head * u->group; h < (u->key_head + 1) * u->group; h++)
        for (int64_t t = 0; t < u->n_q; t++) {
            const int64_t row = h * u->n_q + t;
            if (end) {
                end_row(u, row, h);
                continue;
            }
            u->top[row]     = u->of_sink != NULL ? sink_of(u, h) : -INFINITY;
            u->inverse[row] = u->top[row] == -INFINITY ? 0.0f : 1.0f;
            u->delta[row]   = (float)rp_dot(row_of(dy, u, h, t), row_of(y, u, h, t), u->d);
            memset(row_of(&u->args->dst, u, t, h), 0, (size_t)u->d * sizeof(float));
        }
    for (int64_t i = 0; i < u->n_k && !end; i++) {
        memset(row_of(&u->args->attention_backward.dk, u, i, u->key_head), 0, (size_t)u->d * sizeof(float));
        memset(row_of(&u->args->attention_backward.dv, u, i, u->key_head), 0, (size_t)u->d * sizeof(float));
    }
}

static void compute(Unit *u) {
    alignas(64) float keys[RP_ATTENTION_MAX_DIM * TILE], values[RP_ATTENTION_MAX_DIM * TILE];
    alignas(64) Tile  s, ds;
    u->keys = keys, u->values = values, u->s = s, u->ds = ds;
    prepare_rows(u, false);
    for_blocks(u, false, statistics);
    prepare_rows(u, true);
    for_blocks(u, true, gradients);
}

RpStatus rp_cpu_attention_backward(const RpOpArgs *args, RpKernelCtx *ctx) {
    const RpTensorView *q = &args->attention_backward.q, *k = &args->attention_backward.k;
    RP_TRY(RP_CHECK(attention_backward, args));
    const int64_t units = k->ne[2] * k->ne[3], rows = rp_view_rows(q);
    for (int64_t i = units * ctx->ith / ctx->nth; i < units * (ctx->ith + 1) / ctx->nth; i++) {
        Unit u    = {.args     = args,
                     .batch    = i / k->ne[2],
                     .key_head = i % k->ne[2],
                     .group    = q->ne[2] / k->ne[2],
                     .n_q      = q->ne[1],
                     .n_k      = k->ne[1],
                     .ahead    = rp_attention_ahead(args),
                     .d        = (int)q->ne[0],
                     .scale    = args->params->attention_backward.scale};
        u.top     = (float *)args->attention_backward.stats.data + u.batch * u.n_q * q->ne[2];
        u.inverse = u.top + rows, u.delta = u.inverse + rows;
        u.of_sink = rp_is_present(&args->attention_backward.sinks) ? u.delta + rows : NULL;
        compute(&u);
    }
    return RP_OK;
}
