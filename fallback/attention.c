/* y[:,h,t] = sum_i softmax_i(scale * k[:,i,h/g] . q[:,t,h]) * v[:,i,h/g], max(0, pos[t]-window+1) <= i <=
 * pos[t]
 *
 * One pass over the cache with a running maximum (Milakov and Gimelshein 2018, arXiv:1805.02867), in chunks and
 * in them tiles of positions that are counted from position 0. Dot products and sums of a tile are added in 16
 * lanes and then as a tree, values in the order of their positions, all with fused multiply-adds, in all
 * variants alike; each chunk starts anew, and what they give is added in their order. So a token's result is
 * the same alone, when workers share its chunks, and within a prefill, where one worker takes it. Query heads
 * that share keys and values take a tile together. */
#include "fallback/attention.h"

#include "fallback/float.h"
#include "fallback/fused.h"

/* 16 elements from element i of a row. */
typedef void Widen(const char *row, int64_t i, float *y);

RP_BODY void widen_f16(const char *row, int64_t i, float *y) {
    const uint16_t *x = (const uint16_t *)(const void *)row + i;
    for (int l = 0; l < ATTENTION_LANES; l++) y[l] = rp_f16_to_f32(x[l]);
}

RP_BODY void widen_q8_0(const char *row, int64_t i, float *y) {
    const BlockQ8_0 *b = (const BlockQ8_0 *)(const void *)row + i / 32;
    for (int l = 0; l < ATTENTION_LANES; l++) y[l] = (float)b->qs[i % 32 + l] * rp_f16_to_f32(b->d);
}

/* 16 elements from element i of a row; past its end zeros. */
RP_BODY void load_row(const char *row, int64_t i, int64_t dim, Widen *widen, float *y) {
    if (widen == widen_q8_0 || i + ATTENTION_LANES <= dim) {
        widen(row, i, y);
        return;
    }
    uint16_t rest[ATTENTION_LANES] = {0}; /* rows of q8_0 are whole blocks */
    memcpy(rest, (const uint16_t *)(const void *)row + i, (size_t)(dim - i) * sizeof rest[0]);
    widen((const char *)rest, 0, y);
}

RP_BODY float tree_sum(float *s) {
    for (int n = ATTENTION_LANES / 2; n > 0; n /= 2)
        for (int l = 0; l < n; l++) s[l] += s[l + n];
    return s[0];
}

RP_BODY void scores_body(const AttentionTile *t, Widen *widen) {
    for (int h = 0; h < t->n_heads; h++)
        for (int j = 0; j < t->n; j++) {
            float dot[ATTENTION_LANES] = {0.0f};
            for (int64_t i = 0; i < t->dim; i += ATTENTION_LANES) {
                float k[ATTENTION_LANES];
                load_row(t->k + (size_t)j * t->k_row, i, t->dim, widen, k);
                for (int l = 0; l < ATTENTION_LANES; l++) dot[l] = fmaf(t->heads[h].q[i + l], k[l], dot[l]);
            }
            t->heads[h].p[j] = t->scale * tree_sum(dot);
        }
}

RP_BODY void values_body(const AttentionTile *t, Widen *widen) {
    for (int h = 0; h < t->n_heads; h++)
        for (int64_t i = 0; i < t->dim; i += ATTENTION_LANES) {
            float *acc = t->heads[h].acc + i;
            for (int l = 0; l < ATTENTION_LANES; l++) acc[l] *= t->heads[h].keep;
            for (int j = 0; j < t->n; j++) {
                float v[ATTENTION_LANES];
                load_row(t->v + (size_t)j * t->v_row, i, t->dim, widen, v);
                for (int l = 0; l < ATTENTION_LANES; l++) acc[l] = fmaf(v[l], t->heads[h].p[j], acc[l]);
            }
        }
}

static void scores_f16_plain(const AttentionTile *t) { scores_body(t, widen_f16); }
static void values_f16_plain(const AttentionTile *t) { values_body(t, widen_f16); }
static void scores_q8_0_plain(const AttentionTile *t) { scores_body(t, widen_q8_0); }
static void values_q8_0_plain(const AttentionTile *t) { values_body(t, widen_q8_0); }

static AttentionKernels kernels_of(RpDtype type) {
    const bool q8_0 = type == RP_Q8_0;
#if defined(RP_X86)
    const CpuIsa isa = rp_cpu_isa();
    if (isa == RP_ISA_AVX512_VNNI) return rp_attention_avx512(type);
    if (isa == RP_ISA_AVX2) return rp_attention_avx2(type);
#elif defined(__aarch64__)
    if (rp_cpu_isa() != RP_ISA_PLAIN) return rp_attention_neon(type);
#endif
    return q8_0 ? (AttentionKernels){scores_q8_0_plain, values_q8_0_plain}
                : (AttentionKernels){scores_f16_plain, values_f16_plain};
}

/* Words in the order of the floats that they are made of, and back: compilers vectorise the largest of them. */
RP_BODY int32_t in_order(uint32_t bits) {
    return (int32_t)(bits ^ ((bits & 0x80000000u) != 0 ? 0x7fffffffu : 0u));
}

/* The largest of a tile's scores and `top`; NaN if there is one. */
RP_BODY float largest(const float *p, float top) {
    int32_t  most = in_order(rp_f32_to_bits(top));
    uint32_t nan  = (uint32_t)(top != top);
    for (int j = 0; j < ATTENTION_TILE; j++) {
        const uint32_t bits = rp_f32_to_bits(p[j]);
        const int32_t  at   = in_order(bits);
        most                = at > most ? at : most;
        nan |= (uint32_t)((bits & 0x7fffffffu) > 0x7f800000u);
    }
    return nan != 0 ? NAN : rp_bits_to_f32((uint32_t)in_order((uint32_t)most));
}

/* Scores to weights, and the head's running maximum and sum. */
RP_BODY void weights_body(AttentionHead *head, int n) {
    float s[ATTENTION_LANES] = {0.0f};
    for (int j = n; j < ATTENTION_TILE; j++) head->p[j] = -INFINITY;
    const float top = largest(head->p, head->top), base = top == -INFINITY ? 0.0f : top;
    for (int j = 0; j < ATTENTION_TILE; j++) head->p[j] = rp_expf(head->p[j] - base);
    for (int j = 0; j < ATTENTION_TILE; j += ATTENTION_LANES)
        for (int l = 0; l < ATTENTION_LANES; l++) s[l] += head->p[j + l];
    head->keep = rp_expf(head->top - base);
    head->sum  = fmaf(head->sum, head->keep, tree_sum(s));
    head->top  = top;
}
RP_VARIANTS(weights, (AttentionHead * head, int n), (head, n))

/* What a head has of the chunks before, and one more; as weights_body, of whole chunks. */
RP_BODY void add_part_body(float *acc, float *top, float *sum, const float *more, float more_top,
                           float more_sum, int64_t dim) {
    const float high = more_top > *top || more_top != more_top ? more_top : *top;
    const float base = high == -INFINITY ? 0.0f : high;
    const float keep = rp_expf(*top - base), add = rp_expf(more_top - base);
    for (int64_t i = 0; i < dim; i++) acc[i] = fmaf(more[i], add, acc[i] * keep);
    *sum = fmaf(more_sum, add, *sum * keep);
    *top = high;
}
RP_VARIANTS(add_part,
            (float *acc, float *top, float *sum, const float *more, float more_top, float more_sum,
             int64_t dim),
            (acc, top, sum, more, more_top, more_sum, dim))

/* ---- one token ---- */

/* The positions that a token attends to. */
typedef struct Reach {
    int64_t from, end;
} Reach;

static Reach reach_of(const OpArgs *args, int64_t t) {
    const int32_t window = args->params->attention.window;
    const int64_t pos = ((const int32_t *)args->src[3].data)[t], n_ctx = args->src[1].ne[1];
    const int64_t end = pos + 1 < n_ctx ? pos + 1 : n_ctx;
    return (Reach){window > 0 && end > window ? end - window : 0, end};
}

static int64_t first_chunk(Reach r) { return r.from / ATTENTION_CHUNK; }

/* At least one, which may be empty. */
static int64_t n_chunks(Reach r) {
    return r.end > r.from ? (r.end - 1) / ATTENTION_CHUNK - first_chunk(r) + 1 : 1;
}

/* Of a head's vectors: whole lanes. */
static size_t used_bytes(const OpArgs *args) {
    return (size_t)(args->src[0].ne[0] + ATTENTION_LANES - 1) / ATTENTION_LANES * ATTENTION_LANES *
           sizeof(float);
}

static void start_head(const OpArgs *args, int64_t t, int64_t h, AttentionHead *head) {
    const TensorView *q = &args->src[0];
    memset(head->q, 0, used_bytes(args));
    memcpy(head->q, (const char *)q->data + (size_t)t * q->nb[1] + (size_t)h * q->nb[2],
           (size_t)q->ne[0] * sizeof(float));
}

static void start_chunk(const OpArgs *args, int64_t h, bool first, AttentionHead *head) {
    memset(head->acc, 0, used_bytes(args));
    head->top = -INFINITY;
    head->sum = 0.0f;
    if (!first || !rp_has_src(args, 4)) return;
    head->top = ((const float *)args->src[4].data)[h]; /* a sink: one more score, with no value */
    head->sum = 1.0f;
}

/* A rounded result has the heads of a token in one row. */
static void end_head(const OpArgs *args, int64_t t, int64_t h, const float *acc, float sum) {
    const TensorView *y       = &args->dst;
    const bool        round   = y->dtype == RP_Q8_ACT;
    const int64_t     d       = args->src[0].ne[0];
    const float       inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    float             unrounded[RP_ATTENTION_MAX_DIM];
    float            *out = (float *)(void *)((char *)y->data + (size_t)h * y->nb[1] + (size_t)t * y->nb[2]);
    if (round) out = unrounded;
    for (int64_t i = 0; i < d; i++) out[i] = acc[i] * inverse;
    if (round) rp_quantize_range(out, d, rp_view_row(y, t), y->ne[0], h * d);
}

/* Chunk c of the reach, by n_heads heads from head h on, which share their keys and values. */
static void attend(const OpArgs *args, Reach reach, int64_t c, int64_t h, int n_heads, AttentionHead *heads,
                   const AttentionKernels *kernels) {
    const TensorView *q = &args->src[0], *k = &args->src[1], *v = &args->src[2];
    const int64_t     first = (first_chunk(reach) + c) * ATTENTION_CHUNK, last = first + ATTENTION_CHUNK;
    const int64_t from = first > reach.from ? first : reach.from, end = last < reach.end ? last : reach.end;
    const int64_t hk   = h / (q->ne[2] / k->ne[2]);
    AttentionTile tile = {.k_row   = k->nb[1],
                          .v_row   = v->nb[1],
                          .dim     = q->ne[0],
                          .heads   = heads,
                          .n_heads = n_heads,
                          .scale   = args->params->attention.scale};
    for (int i = 0; i < n_heads; i++) start_chunk(args, h + i, c == 0, &heads[i]);
    for (int64_t i = from; i < end; i += tile.n) {
        const int64_t next = (i / ATTENTION_TILE + 1) * ATTENTION_TILE;
        tile.n             = (int)((next < end ? next : end) - i);
        tile.k             = (const char *)k->data + (size_t)hk * k->nb[2] + (size_t)i * k->nb[1];
        tile.v             = (const char *)v->data + (size_t)hk * v->nb[2] + (size_t)i * v->nb[1];
        kernels->scores(&tile);
        for (int j = 0; j < n_heads; j++) weights(&heads[j], tile.n);
        kernels->values(&tile);
    }
}

/* How many heads from h on, before `end`, take a tile together. */
static int heads_together(const OpArgs *args, int64_t h, int64_t end) {
    const int64_t group = args->src[0].ne[2] / args->src[1].ne[2];
    int64_t       n     = (h / group + 1) * group - h;
    if (n > end - h) n = end - h;
    return (int)(n < ATTENTION_HEADS ? n : ATTENTION_HEADS);
}

/* ---- of many tokens each is one worker's ---- */

static void whole_token(const OpArgs *args, int64_t t, const AttentionKernels *kernels) {
    const Reach   reach   = reach_of(args, t);
    const int64_t n_heads = args->src[0].ne[2], dim = args->src[0].ne[0];
    float         acc[ATTENTION_HEADS][RP_ATTENTION_MAX_DIM], top[ATTENTION_HEADS], sum[ATTENTION_HEADS];
    AttentionHead heads[ATTENTION_HEADS];
    for (int64_t h = 0; h < n_heads;) {
        const int n = heads_together(args, h, n_heads);
        for (int i = 0; i < n; i++) start_head(args, t, h + i, &heads[i]);
        for (int64_t c = 0; c < n_chunks(reach); c++) {
            attend(args, reach, c, h, n, heads, kernels);
            for (int i = 0; i < n; i++) {
                if (c > 0) {
                    add_part(acc[i], &top[i], &sum[i], heads[i].acc, heads[i].top, heads[i].sum, dim);
                    continue;
                }
                memcpy(acc[i], heads[i].acc, (size_t)dim * sizeof(float));
                top[i] = heads[i].top;
                sum[i] = heads[i].sum;
            }
        }
        for (int i = 0; i < n; i++) end_head(args, t, h + i, acc[i], sum[i]);
        h += n;
    }
}

/* ---- the heads and chunks of one token are dealt out; then the heads, for which chunks are added ---- */

/* Floats of what a chunk gives a head: its maximum, its sum, and from the 16th on its values. */
static int64_t part_floats(const OpArgs *args) { return ATTENTION_LANES + args->src[0].ne[0]; }

static float *part_at(const OpArgs *args, const KernelCtx *ctx, int64_t c, int64_t h) {
    return (float *)ctx->shared + (c * args->src[0].ne[2] + h) * part_floats(args);
}

static void chunks_of_token(const OpArgs *args, const KernelCtx *ctx, Reach reach,
                            const AttentionKernels *kernels) {
    const int64_t n_heads = args->src[0].ne[2], total = n_chunks(reach) * n_heads;
    const int64_t last = total * (ctx->ith + 1) / ctx->nth;
    AttentionHead heads[ATTENTION_HEADS];
    for (int64_t at = total * ctx->ith / ctx->nth; at < last;) {
        const int64_t c = at / n_heads, h = at % n_heads, left = h + (last - at);
        const int     n = heads_together(args, h, left < n_heads ? left : n_heads);
        for (int i = 0; i < n; i++) start_head(args, 0, h + i, &heads[i]);
        attend(args, reach, c, h, n, heads, kernels);
        for (int i = 0; i < n; i++) {
            if (total == n_heads) {
                end_head(args, 0, h + i, heads[i].acc, heads[i].sum);
                continue;
            }
            float *part = part_at(args, ctx, c, h + i);
            part[0]     = heads[i].top;
            part[1]     = heads[i].sum;
            memcpy(part + ATTENTION_LANES, heads[i].acc, (size_t)args->src[0].ne[0] * sizeof(float));
        }
        at += n;
    }
}

static void add_chunks(const OpArgs *args, const KernelCtx *ctx, Reach reach) {
    const int64_t n_heads = args->src[0].ne[2], end = n_heads * (ctx->ith + 1) / ctx->nth;
    for (int64_t h = n_heads * ctx->ith / ctx->nth; h < end && n_chunks(reach) > 1; h++) {
        float *all = part_at(args, ctx, 0, h);
        for (int64_t c = 1; c < n_chunks(reach); c++) {
            const float *more = part_at(args, ctx, c, h);
            add_part(all + ATTENTION_LANES, &all[0], &all[1], more + ATTENTION_LANES, more[0], more[1],
                     args->src[0].ne[0]);
        }
        end_head(args, 0, h, all + ATTENTION_LANES, all[1]);
    }
}

CpuNeeds rp_needs_attention(const OpArgs *args) {
    const int64_t chunks = (args->src[1].ne[1] + ATTENTION_CHUNK - 1) / ATTENTION_CHUNK;
    if (args->src[0].ne[1] > 1 || chunks == 1) return (CpuNeeds){.phases = 1};
    return (CpuNeeds){.phases = 2,
                      .shared = (size_t)(chunks * args->src[0].ne[2] * part_floats(args)) * sizeof(float)};
}

RpStatus rp_cpu_attention(const OpArgs *args, KernelCtx *ctx) {
    const TensorView *q = &args->src[0];
    RP_TRY(rp_check_attention(args));
    const AttentionKernels kernels = kernels_of(args->src[1].dtype);
    for (int64_t t = ctx->ith; t < q->ne[1] && q->ne[1] > 1; t += ctx->nth) whole_token(args, t, &kernels);
    if (q->ne[1] > 1) return RP_OK;
    if (ctx->phase == 0)
        chunks_of_token(args, ctx, reach_of(args, 0), &kernels);
    else
        add_chunks(args, ctx, reach_of(args, 0));
    return RP_OK;
}
