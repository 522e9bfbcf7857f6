/* y[:,h,t] = sum_i softmax_i(scale * k[:,i,h/g] . q[:,t,h]) * v[:,i,h/g], max(0, pos[t]-window+1) <= i <= pos[t]
 *
 * Online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867): one pass over the KV cache in tiles of positions,
 * with a running maximum. A tile of scores s[j] and values v[j] updates the state (max, sum, acc[dim]) of a head:
 *
 *     max'    = the largest of max, s[0], s[1], ...
 *     rescale = exp(max - max'),   p[j] = exp(s[j] - max')
 *     sum'    = sum * rescale + p[0] + p[1] + ...
 *     acc'    = acc * rescale + p[0] v[0] + p[1] v[1] + ...
 *
 * and y = acc / sum. Example, scores 1 and 3 in the first tile, 5 in the second:
 *
 *     tile 1   max 3   p 0.135, 1                   sum 1.135                          acc 0.135 v0 + v1
 *     tile 2   max 5   rescale exp(3 - 5) = 0.135   sum 1.135 * 0.135 + 1 = 1.154      acc 0.018 v0 + 0.135 v1 + v2
 *     y = acc / 1.154 = 0.016 v0 + 0.117 v1 + 0.867 v2, the softmax of 1, 3, 5
 *
 * Split-KV: the context is cut into chunks of ATTENTION_CHUNK positions, each chunk into tiles of ATTENTION_TILE,
 * both counted from position 0. Each chunk starts with an empty state, and states are merged in the order of the
 * chunks. So a token has the same bits (I8) whether one worker takes all its chunks (prefill) or workers share them
 * (decode). Within a tile, dot products and sums of p have 16 lanes that are reduced pairwise, and values are added
 * in the order of positions, with fma, in all variants alike. Query heads that share a key head take a tile at the
 * same time. */
#include "fallback/attention.h"

#include "fallback/float.h"
#include "fallback/fused.h"

/* Converts 16 elements of a row of the KV cache, from element i on. */
typedef void Convert(const char *row, int64_t i, float *y);

RP_BODY void convert_f16(const char *row, int64_t i, float *y) {
    const uint16_t *x = (const uint16_t *)(const void *)row + i;
    for (int l = 0; l < ATTENTION_LANES; l++) y[l] = rp_f16_to_f32(x[l]);
}

RP_BODY void convert_q8_0(const char *row, int64_t i, float *y) {
    const BlockQ8_0 *b = (const BlockQ8_0 *)(const void *)row + i / 32;
    for (int l = 0; l < ATTENTION_LANES; l++) y[l] = (float)b->qs[i % 32 + l] * rp_f16_to_f32(b->d);
}

/* The same, with zeros after the end of the row (f16 only: rows of q8_0 are whole blocks). */
RP_BODY void load_row(const char *row, int64_t i, int64_t dim, Convert *convert, float *y) {
    if (convert == convert_q8_0 || i + ATTENTION_LANES <= dim) {
        convert(row, i, y);
        return;
    }
    uint16_t rest[ATTENTION_LANES] = {0};
    memcpy(rest, (const uint16_t *)(const void *)row + i, (size_t)(dim - i) * sizeof rest[0]);
    convert((const char *)rest, 0, y);
}

/* The upper half of the lanes is added to the lower half until one is left. Overwrites s. */
RP_BODY float reduce16(float *s) {
    for (int n = ATTENTION_LANES / 2; n > 0; n /= 2)
        for (int l = 0; l < n; l++) s[l] += s[l + n];
    return s[0];
}

RP_BODY void scores_body(const AttentionTile *t, Convert *convert) {
    for (int h = 0; h < t->n_heads; h++)
        for (int j = 0; j < t->n; j++) {
            float dot[ATTENTION_LANES] = {0.0f};
            for (int64_t i = 0; i < t->dim; i += ATTENTION_LANES) {
                float k[ATTENTION_LANES];
                load_row(t->k + (size_t)j * t->k_row, i, t->dim, convert, k);
                for (int l = 0; l < ATTENTION_LANES; l++) dot[l] = fmaf(t->heads[h].q[i + l], k[l], dot[l]);
            }
            t->heads[h].p[j] = t->scale * reduce16(dot);
        }
}

RP_BODY void values_body(const AttentionTile *t, Convert *convert) {
    for (int h = 0; h < t->n_heads; h++)
        for (int64_t i = 0; i < t->dim; i += ATTENTION_LANES) {
            float *acc = t->heads[h].acc + i;
            for (int l = 0; l < ATTENTION_LANES; l++) acc[l] *= t->heads[h].rescale;
            for (int j = 0; j < t->n; j++) {
                float v[ATTENTION_LANES];
                load_row(t->v + (size_t)j * t->v_row, i, t->dim, convert, v);
                for (int l = 0; l < ATTENTION_LANES; l++) acc[l] = fmaf(v[l], t->heads[h].p[j], acc[l]);
            }
        }
}

static void scores_f16_plain(const AttentionTile *t) { scores_body(t, convert_f16); }
static void values_f16_plain(const AttentionTile *t) { values_body(t, convert_f16); }
static void scores_q8_0_plain(const AttentionTile *t) { scores_body(t, convert_q8_0); }
static void values_q8_0_plain(const AttentionTile *t) { values_body(t, convert_q8_0); }

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

/* Maps the bits of a float to an integer in the same order, and back: compilers vectorise the maximum of integers,
 * but not that of floats, whose NaNs must be kept. */
RP_BODY int32_t in_order(uint32_t bits) {
    return (int32_t)(bits ^ ((bits & 0x80000000u) != 0 ? 0x7fffffffu : 0u));
}

/* The largest of a tile's scores and `max`; NaN if one of them is NaN. */
RP_BODY float largest(const float *p, float max) {
    int32_t  most = in_order(rp_f32_to_bits(max));
    uint32_t nan  = (uint32_t)(max != max);
    for (int j = 0; j < ATTENTION_TILE; j++) {
        const uint32_t bits = rp_f32_to_bits(p[j]);
        const int32_t  at   = in_order(bits);
        most                = at > most ? at : most;
        nan |= (uint32_t)((bits & 0x7fffffffu) > 0x7f800000u);
    }
    return nan != 0 ? NAN : rp_bits_to_f32((uint32_t)in_order((uint32_t)most));
}

/* The update of max, rescale and sum above; p turns from scores into weights. Scores of missing positions are
 * -infinity, weight 0. `base` is the new maximum, or 0 while all scores are -infinity: their difference would be
 * NaN. */
RP_BODY void weights_body(AttentionHead *head, int n) {
    float s[ATTENTION_LANES] = {0.0f};
    for (int j = n; j < ATTENTION_TILE; j++) head->p[j] = -INFINITY;
    const float max = largest(head->p, head->max), base = max == -INFINITY ? 0.0f : max;
    for (int j = 0; j < ATTENTION_TILE; j++) head->p[j] = rp_expf(head->p[j] - base);
    for (int j = 0; j < ATTENTION_TILE; j += ATTENTION_LANES)
        for (int l = 0; l < ATTENTION_LANES; l++) s[l] += head->p[j + l];
    head->rescale = rp_expf(head->max - base);
    head->sum     = fmaf(head->sum, head->rescale, reduce16(s));
    head->max     = max;
}
RP_VARIANTS(weights, (AttentionHead * head, int n), (head, n))

/* Merges the state of the next chunk into (acc, max, sum): the update above, with a chunk in place of a tile. */
RP_BODY void merge_chunk_body(float *acc, float *max, float *sum, const float *chunk, float chunk_max,
                              float chunk_sum, int64_t dim) {
    const float high    = chunk_max > *max || chunk_max != chunk_max ? chunk_max : *max;
    const float base    = high == -INFINITY ? 0.0f : high;
    const float rescale = rp_expf(*max - base), chunk_rescale = rp_expf(chunk_max - base);
    for (int64_t i = 0; i < dim; i++) acc[i] = fmaf(chunk[i], chunk_rescale, acc[i] * rescale);
    *sum = fmaf(chunk_sum, chunk_rescale, *sum * rescale);
    *max = high;
}
RP_VARIANTS(merge_chunk,
            (float *acc, float *max, float *sum, const float *chunk, float chunk_max, float chunk_sum,
             int64_t dim),
            (acc, max, sum, chunk, chunk_max, chunk_sum, dim))

/* ---- one head of one token ---- */

/* The positions [from, end) that a token attends to. */
typedef struct KvRange {
    int64_t from, end;
} KvRange;

static KvRange range_of(const OpArgs *args, int64_t t) {
    const int32_t window = args->params->attention.window;
    const int64_t pos = ((const int32_t *)args->src[3].data)[t], n_ctx = args->src[1].ne[1];
    const int64_t end = pos + 1 < n_ctx ? pos + 1 : n_ctx;
    return (KvRange){window > 0 && end > window ? end - window : 0, end};
}

static int64_t first_chunk(KvRange r) { return r.from / ATTENTION_CHUNK; }

/* At least one: a padding token has one empty chunk. */
static int64_t n_chunks(KvRange r) {
    return r.end > r.from ? (r.end - 1) / ATTENTION_CHUNK - first_chunk(r) + 1 : 1;
}

/* Bytes of q and acc in use: dim rounded up to 16 lanes. */
static size_t used_bytes(const OpArgs *args) {
    return (size_t)(args->src[0].ne[0] + ATTENTION_LANES - 1) / ATTENTION_LANES * ATTENTION_LANES *
           sizeof(float);
}

/* Copies q, with zeros up to whole lanes. */
static void start_head(const OpArgs *args, int64_t t, int64_t h, AttentionHead *head) {
    const TensorView *q = &args->src[0];
    memset(head->q, 0, used_bytes(args));
    memcpy(head->q, (const char *)q->data + (size_t)t * q->nb[1] + (size_t)h * q->nb[2],
           (size_t)q->ne[0] * sizeof(float));
}

/* The empty state of a chunk. The first chunk of a head with a sink starts with that score, which has weight 1 and no
 * value. */
static void start_chunk(const OpArgs *args, int64_t h, bool first, AttentionHead *head) {
    memset(head->acc, 0, used_bytes(args));
    head->max = -INFINITY;
    head->sum = 0.0f;
    if (!first || !rp_has_src(args, 4)) return;
    head->max = ((const float *)args->src[4].data)[h];
    head->sum = 1.0f;
}

/* y = acc / sum. A q8_act result has all heads of a token in one row, and is quantised head by head. */
static void end_head(const OpArgs *args, int64_t t, int64_t h, const float *acc, float sum) {
    const TensorView *y        = &args->dst;
    const bool        quantize = y->dtype == RP_Q8_ACT;
    const int64_t     d        = args->src[0].ne[0];
    const float       inverse  = sum == 0.0f ? 0.0f : 1.0f / sum;
    float             f32[RP_ATTENTION_MAX_DIM];
    float            *out = (float *)(void *)((char *)y->data + (size_t)h * y->nb[1] + (size_t)t * y->nb[2]);
    if (quantize) out = f32;
    for (int64_t i = 0; i < d; i++) out[i] = acc[i] * inverse;
    if (quantize) rp_quantize_range(out, d, rp_view_row(y, t), y->ne[0], h * d);
}

/* The state of chunk c of the range for heads h to h + n_heads, which share a key head. */
static void attend(const OpArgs *args, KvRange range, int64_t c, int64_t h, int n_heads, AttentionHead *heads,
                   const AttentionKernels *kernels) {
    const TensorView *q = &args->src[0], *k = &args->src[1], *v = &args->src[2];
    const int64_t     first = (first_chunk(range) + c) * ATTENTION_CHUNK, last = first + ATTENTION_CHUNK;
    const int64_t from = first > range.from ? first : range.from, end = last < range.end ? last : range.end;
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

/* How many heads from h on, before `end`, share a key head and so a tile: at most ATTENTION_HEADS. */
static int heads_per_tile(const OpArgs *args, int64_t h, int64_t end) {
    const int64_t per_key_head = args->src[0].ne[2] / args->src[1].ne[2];
    int64_t       n            = (h / per_key_head + 1) * per_key_head - h;
    if (n > end - h) n = end - h;
    return (int)(n < ATTENTION_HEADS ? n : ATTENTION_HEADS);
}

/* ---- several tokens: one worker per token ---- */

static void whole_token(const OpArgs *args, int64_t t, const AttentionKernels *kernels) {
    const KvRange range   = range_of(args, t);
    const int64_t n_heads = args->src[0].ne[2], dim = args->src[0].ne[0];
    float         acc[ATTENTION_HEADS][RP_ATTENTION_MAX_DIM], max[ATTENTION_HEADS], sum[ATTENTION_HEADS];
    AttentionHead heads[ATTENTION_HEADS];
    for (int64_t h = 0; h < n_heads;) {
        const int n = heads_per_tile(args, h, n_heads);
        for (int i = 0; i < n; i++) start_head(args, t, h + i, &heads[i]);
        for (int64_t c = 0; c < n_chunks(range); c++) {
            attend(args, range, c, h, n, heads, kernels);
            for (int i = 0; i < n; i++) {
                if (c > 0) {
                    merge_chunk(acc[i], &max[i], &sum[i], heads[i].acc, heads[i].max, heads[i].sum, dim);
                    continue;
                }
                memcpy(acc[i], heads[i].acc, (size_t)dim * sizeof(float));
                max[i] = heads[i].max;
                sum[i] = heads[i].sum;
            }
        }
        for (int i = 0; i < n; i++) end_head(args, t, h + i, acc[i], sum[i]);
        h += n;
    }
}

/* ---- one token ----
 *
 * Phase 0 divides its (chunk, head) pairs among the workers, phase 1 divides its heads and merges their chunks.
 * With a single chunk, phase 0 already writes y. */

/* The partial result of chunk c and head h in shared memory, f32: max, sum, 14 unused, acc[dim]. */
static int64_t partial_floats(const OpArgs *args) { return ATTENTION_LANES + args->src[0].ne[0]; }

static float *partial_at(const OpArgs *args, const KernelCtx *ctx, int64_t c, int64_t h) {
    return (float *)ctx->shared + (c * args->src[0].ne[2] + h) * partial_floats(args);
}

static void chunks_of_token(const OpArgs *args, const KernelCtx *ctx, KvRange range,
                            const AttentionKernels *kernels) {
    const int64_t n_heads = args->src[0].ne[2], total = n_chunks(range) * n_heads;
    const int64_t last = total * (ctx->ith + 1) / ctx->nth;
    AttentionHead heads[ATTENTION_HEADS];
    for (int64_t at = total * ctx->ith / ctx->nth; at < last;) {
        const int64_t c = at / n_heads, h = at % n_heads, left = h + (last - at);
        const int     n = heads_per_tile(args, h, left < n_heads ? left : n_heads);
        for (int i = 0; i < n; i++) start_head(args, 0, h + i, &heads[i]);
        attend(args, range, c, h, n, heads, kernels);
        for (int i = 0; i < n; i++) {
            if (total == n_heads) {
                end_head(args, 0, h + i, heads[i].acc, heads[i].sum);
                continue;
            }
            float *partial = partial_at(args, ctx, c, h + i);
            partial[0]     = heads[i].max;
            partial[1]     = heads[i].sum;
            memcpy(partial + ATTENTION_LANES, heads[i].acc, (size_t)args->src[0].ne[0] * sizeof(float));
        }
        at += n;
    }
}

static void merge_chunks(const OpArgs *args, const KernelCtx *ctx, KvRange range) {
    const int64_t n_heads = args->src[0].ne[2], end = n_heads * (ctx->ith + 1) / ctx->nth;
    for (int64_t h = n_heads * ctx->ith / ctx->nth; h < end && n_chunks(range) > 1; h++) {
        float *all = partial_at(args, ctx, 0, h);
        for (int64_t c = 1; c < n_chunks(range); c++) {
            const float *chunk = partial_at(args, ctx, c, h);
            merge_chunk(all + ATTENTION_LANES, &all[0], &all[1], chunk + ATTENTION_LANES, chunk[0], chunk[1],
                        args->src[0].ne[0]);
        }
        end_head(args, 0, h, all + ATTENTION_LANES, all[1]);
    }
}

CpuNeeds rp_needs_attention(const OpArgs *args) {
    const int64_t chunks = (args->src[1].ne[1] + ATTENTION_CHUNK - 1) / ATTENTION_CHUNK;
    if (args->src[0].ne[1] > 1 || chunks == 1) return (CpuNeeds){.phases = 1};
    return (CpuNeeds){.phases = 2,
                      .shared = (size_t)(chunks * args->src[0].ne[2] * partial_floats(args)) * sizeof(float)};
}

RpStatus rp_cpu_attention(const OpArgs *args, KernelCtx *ctx) {
    const TensorView *q = &args->src[0];
    RP_TRY(rp_check_attention(args));
    const AttentionKernels kernels = kernels_of(args->src[1].dtype);
    for (int64_t t = ctx->ith; t < q->ne[1] && q->ne[1] > 1; t += ctx->nth) whole_token(args, t, &kernels);
    if (q->ne[1] > 1) return RP_OK;
    if (ctx->phase == 0)
        chunks_of_token(args, ctx, range_of(args, 0), &kernels);
    else
        merge_chunks(args, ctx, range_of(args, 0));
    return RP_OK;
}
