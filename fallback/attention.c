/* y[:,h,t] = sum_i softmax_i(scale * k[:,i,h/g] . q[:,t,h]) * v[:,i,h/g], max(0, pos[t]-window+1) <= i <=
 * pos[t]
 *
 * One pass over the cache with a running maximum (Milakov and Gimelshein 2018, arXiv:1805.02867), in tiles of
 * positions that are counted from position 0: so a token's result is the same alone and within a prefill. Dot
 * products are summed in 16 lanes and then as a tree, in all variants alike. */
#include "fallback/float.h"
#include "fallback/part.h"
#include "fallback/quants.h"

#if defined(RP_X86)
#include <immintrin.h>
#endif

enum { LANES = 16, TILE = 32, MAX_DIM = RP_ATTENTION_MAX_DIM, MAX_VECS = MAX_DIM / LANES };

typedef float  Vec __attribute__((vector_size(LANES * sizeof(float))));
typedef int8_t Bytes __attribute__((vector_size(LANES)));

/* 16 elements from element i of a row. */
typedef void Widen(const char *row, int64_t i, Vec *y);

RP_BODY const uint16_t *halves(const char *row, int64_t i) { return (const uint16_t *)(const void *)row + i; }

RP_BODY void widen_plain(const char *row, int64_t i, Vec *y) {
    const uint16_t *x = halves(row, i);
    for (int l = 0; l < LANES; l++) (*y)[l] = rp_f16_to_f32(x[l]);
}

#if defined(RP_X86)
RP_TARGET_AVX2 RP_BODY void widen_avx2(const char *row, int64_t i, Vec *y) {
    const uint16_t *x    = halves(row, i);
    const __m256    low  = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x));
    const __m256    high = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + 8)));
    memcpy(y, &low, sizeof low);
    memcpy((char *)y + sizeof low, &high, sizeof high);
}

RP_TARGET_AVX512 RP_BODY void widen_avx512(const char *row, int64_t i, Vec *y) {
    const uint16_t *x   = halves(row, i);
    const __m512    all = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)x));
    memcpy(y, &all, sizeof all);
}
#endif

RP_BODY void widen_q8_0(const char *row, int64_t i, Vec *y) {
    const BlockQ8_0 *b = (const BlockQ8_0 *)(const void *)row + i / 32;
    Bytes            q;
    memcpy(&q, b->qs + i % 32, sizeof q);
    *y = __builtin_convertvector(q, Vec) * rp_f16_to_f32(b->d);
}

typedef struct Head {
    const char *k, *v; /* row 0 of the head */
    size_t      k_row, v_row;
    Vec         q[MAX_VECS], acc[MAX_VECS];
    int64_t     dim;
    float       top, sum;
} Head;

/* 16 elements from element i of a row; past its end zeros. */
RP_BODY void load_row(const char *row, int64_t i, int64_t dim, Widen *widen, Vec *y) {
    if (widen == widen_q8_0 || i + LANES <= dim) {
        widen(row, i, y);
        return;
    }
    uint16_t rest[LANES] = {0}; /* rows of q8_0 are whole blocks */
    memcpy(rest, halves(row, i), (size_t)(dim - i) * sizeof rest[0]);
    widen((const char *)rest, 0, y);
}

RP_BODY float tree_sum(const Vec *v) {
    float s[LANES];
    memcpy(s, v, sizeof s);
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int l = 0; l < n; l++) s[l] += s[l + n];
    return s[0];
}

RP_BODY void attend_tile_body(Head *head, int64_t from, int64_t end, float scale, Widen *widen) {
    float     p[TILE];
    float     top = head->top;
    const int n = (int)(end - from), n_vecs = (int)((head->dim + LANES - 1) / LANES);
    for (int j = 0; j < n; j++) {
        const char *row = head->k + (size_t)(from + j) * head->k_row;
        Vec         dot = {0};
        for (int c = 0; c < n_vecs; c++) {
            Vec k;
            load_row(row, (int64_t)c * LANES, head->dim, widen, &k);
            dot += head->q[c] * k;
        }
        p[j] = scale * tree_sum(&dot);
        if (p[j] > top || p[j] != p[j]) top = p[j];
    }
    if (top == -INFINITY) return;
    for (int j = n; j < TILE; j++) p[j] = -INFINITY;
    for (int j = 0; j < TILE; j++) p[j] = rp_expf(p[j] - top);
    const float keep     = rp_expf(head->top - top);
    float       tile_sum = 0.0f;
    for (int j = 0; j < n; j++) tile_sum += p[j];
    head->sum = head->sum * keep + tile_sum;
    head->top = top;
    for (int c = 0; c < n_vecs; c++) {
        Vec acc = head->acc[c] * keep;
        for (int j = 0; j < n; j++) {
            Vec v;
            load_row(head->v + (size_t)(from + j) * head->v_row, (int64_t)c * LANES, head->dim, widen, &v);
            acc += v * p[j];
        }
        head->acc[c] = acc;
    }
}

static void attend_tile_plain(Head *h, int64_t from, int64_t end, float scale) {
    attend_tile_body(h, from, end, scale, widen_plain);
}
#if defined(RP_X86)
RP_TARGET_AVX2 static void attend_tile_avx2(Head *h, int64_t from, int64_t end, float scale) {
    attend_tile_body(h, from, end, scale, widen_avx2);
}
RP_TARGET_AVX512 static void attend_tile_avx512(Head *h, int64_t from, int64_t end, float scale) {
    attend_tile_body(h, from, end, scale, widen_avx512);
}
#endif

RP_BODY void attend_q8_0_body(Head *h, int64_t from, int64_t end, float scale) {
    attend_tile_body(h, from, end, scale, widen_q8_0);
}
RP_VARIANTS(attend_q8_0, (Head * h, int64_t from, int64_t end, float scale), (h, from, end, scale))

typedef void AttendTile(Head *h, int64_t from, int64_t end, float scale);

static AttendTile *tile_function(RpDtype type) {
    if (type == RP_Q8_0) return attend_q8_0;
#if defined(RP_X86)
    const CpuIsa isa = rp_cpu_isa();
    if (isa == RP_ISA_AVX512_VNNI) return attend_tile_avx512;
    if (isa == RP_ISA_AVX2) return attend_tile_avx2;
#endif
    return attend_tile_plain;
}

static void attend(const OpArgs *args, int64_t t, int64_t h, AttendTile *tile) {
    const TensorView *q = &args->src[0], *k = &args->src[1], *v = &args->src[2], *y = &args->dst;
    const int32_t     window = args->params->attention.window;
    const int64_t pos = ((const int32_t *)args->src[3].data)[t], hk = h / (q->ne[2] / k->ne[2]), d = q->ne[0];
    const int64_t end  = pos + 1 < k->ne[1] ? pos + 1 : k->ne[1];
    const int64_t from = window > 0 && end > window ? end - window : 0;
    Head          head = {.k     = (const char *)k->data + (size_t)hk * k->nb[2],
                          .v     = (const char *)v->data + (size_t)hk * v->nb[2],
                          .k_row = k->nb[1],
                          .v_row = v->nb[1],
                          .dim   = d,
                          .top   = -INFINITY};
    if (rp_has_src(args, 4)) { /* a sink: one more score, with no value */
        head.top = ((const float *)args->src[4].data)[h];
        head.sum = 1.0f;
    }
    memcpy(head.q, (const char *)q->data + (size_t)t * q->nb[1] + (size_t)h * q->nb[2],
           (size_t)d * sizeof(float));
    for (int64_t i = from; i < end;) {
        const int64_t next = (i / TILE + 1) * TILE < end ? (i / TILE + 1) * TILE : end;
        tile(&head, i, next, args->params->attention.scale);
        i = next;
    }
    const float  inverse = head.sum == 0.0f ? 0.0f : 1.0f / head.sum;
    float        rounded[MAX_DIM];
    const bool   round = y->dtype == RP_Q8_ACT; /* then the heads of a token are one row */
    float       *out   = (float *)(void *)((char *)y->data + (size_t)h * y->nb[1] + (size_t)t * y->nb[2]);
    const float *acc   = (const float *)(const void *)head.acc;
    if (round) out = rounded;
    for (int64_t i = 0; i < d; i++) out[i] = acc[i] * inverse;
    if (round) rp_quantize_part(out, d, rp_view_row(y, t), y->ne[0], h * d);
}

RpStatus rp_cpu_attention(const OpArgs *args, KernelCtx *ctx) {
    const TensorView *q = &args->src[0];
    RP_TRY(rp_check_attention(args));
    /* Item t*H + h: later tokens attend to more, so they are dealt out rather than cut into runs. */
    const int64_t n_heads = q->ne[2], n_items = n_heads * q->ne[1];
    AttendTile   *tile = tile_function(args->src[1].dtype);
    if (q->ne[1] == 1)
        for (int64_t i = n_items * ctx->ith / ctx->nth; i < n_items * (ctx->ith + 1) / ctx->nth; i++)
            attend(args, 0, i, tile);
    else
        for (int64_t t = ctx->ith; t < q->ne[1]; t += ctx->nth)
            for (int64_t h = 0; h < n_heads; h++) attend(args, t, h, tile);
    return RP_OK;
}
