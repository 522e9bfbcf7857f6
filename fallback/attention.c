/* y[:,h,t] = sum_i softmax_i(scale * k[:,i,h/g] . q[:,t,h]) * v[:,i,h/g], max(0, pos[t]-window+1) <= i <=
 * pos[t]
 *
 * One pass over the cache with a running maximum (Milakov and Gimelshein 2018, arXiv:1805.02867), in tiles of
 * positions that are counted from position 0: so a token's result is the same alone and within a prefill. Dot
 * products and sums of a tile are added in 16 lanes and then as a tree, values in the order of their positions,
 * all with fused multiply-adds, in all variants alike. Query heads that share keys and values take a tile
 * together. */
#include "fallback/attention.h"

#include "fallback/float.h"
#include "fallback/part.h"

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
#if defined(RP_X86)
RP_TARGET_AVX2 static void scores_f16_avx2(const AttentionTile *t) { scores_body(t, widen_f16); }
RP_TARGET_AVX2 static void values_f16_avx2(const AttentionTile *t) { values_body(t, widen_f16); }
RP_TARGET_AVX2 static void scores_q8_0_avx2(const AttentionTile *t) { scores_body(t, widen_q8_0); }
RP_TARGET_AVX2 static void values_q8_0_avx2(const AttentionTile *t) { values_body(t, widen_q8_0); }
#endif

static AttentionKernels kernels_of(RpDtype type) {
    const bool q8_0 = type == RP_Q8_0;
#if defined(RP_X86)
    const CpuIsa isa = rp_cpu_isa();
    if (isa == RP_ISA_AVX512_VNNI) return rp_attention_avx512(type);
    if (isa == RP_ISA_AVX2)
        return q8_0 ? (AttentionKernels){scores_q8_0_avx2, values_q8_0_avx2}
                    : (AttentionKernels){scores_f16_avx2, values_f16_avx2};
#elif defined(__aarch64__)
    if (rp_cpu_isa() != RP_ISA_PLAIN) return rp_attention_neon(type);
#endif
    return q8_0 ? (AttentionKernels){scores_q8_0_plain, values_q8_0_plain}
                : (AttentionKernels){scores_f16_plain, values_f16_plain};
}

/* The largest of a tile's scores and `top`; NaN if there is one. */
RP_BODY float largest(const float *p, float top) {
    float    m[ATTENTION_LANES];
    uint32_t nan = 0;
    for (int l = 0; l < ATTENTION_LANES; l++) m[l] = top;
    for (int j = 0; j < ATTENTION_TILE; j += ATTENTION_LANES)
        for (int l = 0; l < ATTENTION_LANES; l++) m[l] = p[j + l] > m[l] ? p[j + l] : m[l];
    for (int j = 0; j < ATTENTION_TILE; j++) nan |= (uint32_t)(p[j] != p[j]);
    for (int n = ATTENTION_LANES / 2; n > 0; n /= 2)
        for (int l = 0; l < n; l++) m[l] = m[l + n] > m[l] ? m[l + n] : m[l];
    return nan ? NAN : m[0];
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

static void start_head(const OpArgs *args, int64_t t, int64_t h, AttentionHead *head) {
    const TensorView *q    = &args->src[0];
    const size_t      used = (size_t)(q->ne[0] + ATTENTION_LANES - 1) / ATTENTION_LANES * ATTENTION_LANES;
    memset(head->acc, 0, used * sizeof(float));
    memset(head->q, 0, used * sizeof(float));
    memcpy(head->q, (const char *)q->data + (size_t)t * q->nb[1] + (size_t)h * q->nb[2],
           (size_t)q->ne[0] * sizeof(float));
    head->top = -INFINITY;
    head->sum = 0.0f;
    if (!rp_has_src(args, 4)) return;
    head->top = ((const float *)args->src[4].data)[h]; /* a sink: one more score, with no value */
    head->sum = 1.0f;
}

/* A rounded result has the heads of a token in one row. */
static void end_head(const OpArgs *args, int64_t t, int64_t h, const AttentionHead *head) {
    const TensorView *y       = &args->dst;
    const bool        round   = y->dtype == RP_Q8_ACT;
    const int64_t     d       = args->src[0].ne[0];
    const float       inverse = head->sum == 0.0f ? 0.0f : 1.0f / head->sum;
    float             unrounded[RP_ATTENTION_MAX_DIM];
    float            *out = (float *)(void *)((char *)y->data + (size_t)h * y->nb[1] + (size_t)t * y->nb[2]);
    if (round) out = unrounded;
    for (int64_t i = 0; i < d; i++) out[i] = head->acc[i] * inverse;
    if (round) rp_quantize_part(out, d, rp_view_row(y, t), y->ne[0], h * d);
}

/* n_heads heads from head h on, which share their keys and values. */
static void attend(const OpArgs *args, int64_t t, int64_t h, int n_heads, const AttentionKernels *kernels) {
    const TensorView *q = &args->src[0], *k = &args->src[1], *v = &args->src[2];
    const int32_t     window = args->params->attention.window;
    const int64_t     pos = ((const int32_t *)args->src[3].data)[t], hk = h / (q->ne[2] / k->ne[2]);
    const int64_t     end  = pos + 1 < k->ne[1] ? pos + 1 : k->ne[1];
    const int64_t     from = window > 0 && end > window ? end - window : 0;
    AttentionHead     heads[ATTENTION_HEADS];
    AttentionTile     tile = {.k_row   = k->nb[1],
                              .v_row   = v->nb[1],
                              .dim     = q->ne[0],
                              .heads   = heads,
                              .n_heads = n_heads,
                              .scale   = args->params->attention.scale};
    for (int i = 0; i < n_heads; i++) start_head(args, t, h + i, &heads[i]);
    for (int64_t i = from; i < end; i += tile.n) {
        const int64_t next = (i / ATTENTION_TILE + 1) * ATTENTION_TILE;
        tile.n             = (int)((next < end ? next : end) - i);
        tile.k             = (const char *)k->data + (size_t)hk * k->nb[2] + (size_t)i * k->nb[1];
        tile.v             = (const char *)v->data + (size_t)hk * v->nb[2] + (size_t)i * v->nb[1];
        kernels->scores(&tile);
        for (int j = 0; j < n_heads; j++) weights(&heads[j], tile.n);
        kernels->values(&tile);
    }
    for (int i = 0; i < n_heads; i++) end_head(args, t, h + i, &heads[i]);
}

static void attend_heads(const OpArgs *args, int64_t t, int64_t first, int64_t end,
                         const AttentionKernels *kernels) {
    const int64_t group = args->src[0].ne[2] / args->src[1].ne[2];
    for (int64_t h = first; h < end;) {
        int64_t n = (h / group + 1) * group - h; /* that share keys and values */
        if (n > end - h) n = end - h;
        if (n > ATTENTION_HEADS) n = ATTENTION_HEADS;
        attend(args, t, h, (int)n, kernels);
        h += n;
    }
}

RpStatus rp_cpu_attention(const OpArgs *args, KernelCtx *ctx) {
    const TensorView *q = &args->src[0];
    RP_TRY(rp_check_attention(args));
    const int64_t          n_heads = q->ne[2];
    const AttentionKernels kernels = kernels_of(args->src[1].dtype);
    if (q->ne[1] == 1)
        attend_heads(args, 0, n_heads * ctx->ith / ctx->nth, n_heads * (ctx->ith + 1) / ctx->nth, &kernels);
    else /* later tokens attend to more, so they are dealt out rather than cut into runs */
        for (int64_t t = ctx->ith; t < q->ne[1]; t += ctx->nth) attend_heads(args, t, 0, n_heads, &kernels);
    return RP_OK;
}
