/* Attention over latent vectors, which are keys and values of all heads:
 *
 *     p[i]     = softmax_i(scale * (latent[:,i] . q[:,t,h] + key[:,i] . q_rope[:,t,h])) over i <= pos[t]
 *     y[:,t,h] = sum_i p[i] * latent[:,i]
 *
 * Online softmax and split-KV as in attention.c, with its kernels for a tile of positions: the scores of both parts are
 * computed one after the other and added. All heads read the same tile, so a work item takes as many as HEADS_AT_ONCE
 * through the positions, ATTENTION_HEADS of them at a time in each tile.
 *
 *     one token      phase 0 divides the pairs of a chunk and a block of heads, phase 1 merges the chunks of each head
 *     more tokens    one phase: the pairs of a token and a block of heads, each through all of its chunks */
#include "fallback/attention/attention.h"
#include "fallback/attention/table.h"

#include "base/limits.h"
#include "fallback/fused/fused.h"

enum { HEADS_AT_ONCE = 16 };

/* One work item's heads, in the memory of its worker. Vectors of a head, each of whole lanes:
 *     q [n], q_rope [r], acc [n], merged [n] */
typedef struct Heads {
    AttentionHead heads[HEADS_AT_ONCE];
    float        *q[HEADS_AT_ONCE], *q_rope[HEADS_AT_ONCE], *merged[HEADS_AT_ONCE];
    float         max[HEADS_AT_ONCE], sum[HEADS_AT_ONCE]; /* of merged */
    int64_t       t, first;                               /* token, first head */
    int           n;
} Heads;

static int64_t padded_n(const RpOpArgs *args) { return attention_dim(args->latent_attention.q.ne[0]); }
static int64_t padded_r(const RpOpArgs *args) { return attention_dim(args->latent_attention.q_rope.ne[0]); }
static int64_t n_tokens(const RpOpArgs *args) { return args->latent_attention.q.ne[1]; }
static int64_t n_heads(const RpOpArgs *args) { return args->latent_attention.q.ne[2]; }

static size_t local_bytes(const RpOpArgs *args) {
    return rp_align_bytes(sizeof(Heads)) +
           HEADS_AT_ONCE * (size_t)(3 * padded_n(args) + padded_r(args)) * sizeof(float);
}

/* Heads of a work item. One token is divided among more workers, so that its items have fewer. */
static int64_t heads_of_item(const RpOpArgs *args) { return n_tokens(args) == 1 ? ATTENTION_HEADS : HEADS_AT_ONCE; }

static int64_t items_of_token(const RpOpArgs *args) {
    return (n_heads(args) + heads_of_item(args) - 1) / heads_of_item(args);
}

static KvTable table_of(const RpOpArgs *args) {
    const bool given = rp_is_present(&args->latent_attention.table);
    return (KvTable){&args->latent_attention.table, &args->latent_attention.seq,
                     given ? args->params->latent_attention.block : 0};
}

/* Positions that a sequence can have. */
static int64_t context_of(const RpOpArgs *args) {
    return kv_context(table_of(args), args->latent_attention.latent.ne[1]);
}

/* The positions [0, end) that token t attends to. */
static int64_t end_of(const RpOpArgs *args, int64_t t) {
    const int64_t pos = ((const int32_t *)args->latent_attention.pos.data)[t], n_ctx = context_of(args);
    return pos < 0 ? 0 : pos + 1 < n_ctx ? pos + 1 : n_ctx;
}

/* At least one: a padding token has one empty chunk. */
static int64_t n_chunks(int64_t end) { return end > 0 ? (end - 1) / ATTENTION_CHUNK + 1 : 1; }

/* Copies a query, with zeros up to whole lanes. */
static void copy_query(const RpTensorView *q, int64_t t, int64_t h, int64_t padded, float *to) {
    memset(to, 0, (size_t)padded * sizeof *to);
    memcpy(to, (const char *)q->data + (size_t)t * q->nb[1] + (size_t)h * q->nb[2], (size_t)q->ne[0] * sizeof *to);
}

/* The heads of item `item` of token t. */
static Heads *start(const RpOpArgs *args, char *memory, int64_t t, int64_t item) {
    Heads        *b = (Heads *)(void *)memory;
    float        *v = (float *)(void *)(memory + rp_align_bytes(sizeof(Heads)));
    const int64_t n = padded_n(args), r = padded_r(args), left = n_heads(args) - item * heads_of_item(args);
    b->t     = t;
    b->first = item * heads_of_item(args);
    b->n     = (int)(left < heads_of_item(args) ? left : heads_of_item(args));
    for (int h = 0; h < b->n; h++, v += 3 * n + r) {
        b->q[h] = v, b->heads[h].acc = v + n, b->merged[h] = v + 2 * n, b->q_rope[h] = v + 3 * n;
        b->heads[h].mask = NULL;
        copy_query(&args->latent_attention.q, t, b->first + h, n, b->q[h]);
        copy_query(&args->latent_attention.q_rope, t, b->first + h, r, b->q_rope[h]);
    }
    return b;
}

/* n positions of a cache from `at` on, where a tile begins, of the sequence of token t. */
static AttentionTile tile_of(const RpOpArgs *args, const RpTensorView *cache, int64_t t, int64_t at, int64_t n) {
    const int64_t next      = at + ATTENTION_TILE < end_of(args, t) ? at + ATTENTION_TILE : at;
    const char   *rows      = (const char *)cache->data + (size_t)kv_row(table_of(args), t, at) * cache->nb[1];
    const char   *following = (const char *)cache->data + (size_t)kv_row(table_of(args), t, next) * cache->nb[1];
    return (AttentionTile){.k      = rows,
                           .v      = rows,
                           .next_k = following,
                           .next_v = following,
                           .k_row  = cache->nb[1],
                           .v_row  = cache->nb[1],
                           .dim    = cache->ne[0],
                           .first  = at,
                           .n      = (int)n,
                           .scale  = args->params->latent_attention.scale};
}

/* Positions [at, at + n) of a tile, by heads [h, h + count) of the item. */
static void attend_to_tile(const RpOpArgs *args, Heads *b, int h, int count, int64_t at, int64_t n,
                           const AttentionKernels *kernels) {
    AttentionTile latent = tile_of(args, &args->latent_attention.latent, b->t, at, n),
                  key    = tile_of(args, &args->latent_attention.key, b->t, at, n);
    float rotated[ATTENTION_HEADS][ATTENTION_TILE];
    latent.heads = key.heads = &b->heads[h];
    latent.n_heads = key.n_heads = count;
    for (int i = 0; i < count; i++) b->heads[h + i].n = (int)n, b->heads[h + i].q = b->q_rope[h + i];
    kernels->scores(&key);
    for (int i = 0; i < count; i++) {
        memcpy(rotated[i], b->heads[h + i].p, sizeof rotated[i]);
        b->heads[h + i].q = b->q[h + i];
    }
    kernels->scores(&latent);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < (int)n; j++) b->heads[h + i].p[j] += rotated[i][j];
    kernels->weights(&latent);
    kernels->values(&latent);
}

/* Chunk c of the positions [0, end). */
static void attend(const RpOpArgs *args, Heads *b, int64_t end, int64_t c, const AttentionKernels *kernels) {
    const int64_t last = (c + 1) * ATTENTION_CHUNK < end ? (c + 1) * ATTENTION_CHUNK : end;
    for (int h = 0; h < b->n; h++) {
        memset(b->heads[h].acc, 0, (size_t)padded_n(args) * sizeof(float));
        b->heads[h].max = -INFINITY;
        b->heads[h].sum = 0.0f;
    }
    for (int64_t at = c * ATTENTION_CHUNK; at < last; at += ATTENTION_TILE) {
        const int64_t n = last - at < ATTENTION_TILE ? last - at : ATTENTION_TILE;
        for (int h = 0; h < b->n; h += ATTENTION_HEADS)
            attend_to_tile(args, b, h, b->n - h < ATTENTION_HEADS ? b->n - h : ATTENTION_HEADS, at, n, kernels);
    }
}

/* y = acc / sum. */
static void store(const RpOpArgs *args, int64_t t, int64_t h, float *acc, float sum) {
    const RpTensorView *y       = &args->dst;
    const int64_t       n       = y->ne[0];
    const float         inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    char               *row     = (char *)y->data + (size_t)t * y->nb[1] + (size_t)h * y->nb[2];
    float              *out     = y->dtype == RP_F32 ? (float *)(void *)row : acc;
    for (int64_t i = 0; i < n; i++) out[i] = acc[i] * inverse;
    if (y->dtype == RP_Q8_ACT) rp_quantize_range(out, n, row, n, 0);
}

static void many_tokens(const RpOpArgs *args, const RpKernelCtx *ctx, const AttentionKernels *kernels) {
    const int64_t items = items_of_token(args);
    for (int64_t i = ctx->ith; i < items * n_tokens(args); i += ctx->nth) {
        Heads        *b   = start(args, ctx->local, i / items, i % items);
        const int64_t end = end_of(args, b->t);
        for (int64_t c = 0; c < n_chunks(end); c++) {
            attend(args, b, end, c, kernels);
            for (int h = 0; h < b->n; h++) {
                AttentionHead *head = &b->heads[h];
                if (c > 0) {
                    rp_attention_merge(b->merged[h], &b->max[h], &b->sum[h], head->acc, head->max, head->sum,
                                       args->dst.ne[0]);
                    continue;
                }
                memcpy(b->merged[h], head->acc, (size_t)args->dst.ne[0] * sizeof(float));
                b->max[h] = head->max, b->sum[h] = head->sum;
            }
        }
        for (int h = 0; h < b->n; h++) store(args, b->t, b->first + h, b->merged[h], b->sum[h]);
    }
}

/* ---- one token ---- */

/* The partial result of chunk c and head h in shared memory, f32: max, sum, 14 unused, acc[n]. */
static float *partial_at(const RpOpArgs *args, const RpKernelCtx *ctx, int64_t c, int64_t h) {
    return (float *)ctx->shared + (c * n_heads(args) + h) * (ATTENTION_LANES + padded_n(args));
}

static void chunks_of_token(const RpOpArgs *args, const RpKernelCtx *ctx, const AttentionKernels *kernels) {
    const int64_t end = end_of(args, 0), chunks = n_chunks(end), items = items_of_token(args) * chunks;
    for (int64_t i = items * ctx->ith / ctx->nth; i < items * (ctx->ith + 1) / ctx->nth; i++) {
        const int64_t c = i / items_of_token(args);
        Heads        *b = start(args, ctx->local, 0, i % items_of_token(args));
        attend(args, b, end, c, kernels);
        for (int h = 0; h < b->n; h++) {
            const AttentionHead *head = &b->heads[h];
            if (chunks == 1) {
                store(args, 0, b->first + h, head->acc, head->sum);
                continue;
            }
            float *partial = partial_at(args, ctx, c, b->first + h);
            partial[0]     = head->max;
            partial[1]     = head->sum;
            memcpy(partial + ATTENTION_LANES, head->acc, (size_t)args->dst.ne[0] * sizeof(float));
        }
    }
}

static void merge_chunks(const RpOpArgs *args, const RpKernelCtx *ctx) {
    const int64_t chunks = n_chunks(end_of(args, 0)), heads = n_heads(args);
    for (int64_t h = heads * ctx->ith / ctx->nth; h < heads * (ctx->ith + 1) / ctx->nth && chunks > 1; h++) {
        float *all = partial_at(args, ctx, 0, h);
        for (int64_t c = 1; c < chunks; c++) {
            const float *chunk = partial_at(args, ctx, c, h);
            rp_attention_merge(all + ATTENTION_LANES, &all[0], &all[1], chunk + ATTENTION_LANES, chunk[0], chunk[1],
                               args->dst.ne[0]);
        }
        store(args, 0, h, all + ATTENTION_LANES, all[1]);
    }
}

CpuNeeds rp_needs_latent_attention(const RpOpArgs *args) {
    const int64_t chunks = n_chunks(context_of(args));
    const bool    merges = n_tokens(args) == 1 && chunks > 1;
    const size_t  floats = (size_t)(chunks * n_heads(args) * (ATTENTION_LANES + padded_n(args)));
    return (CpuNeeds){
        .phases = merges ? 2 : 1, .shared = merges ? floats * sizeof(float) : 0, .local = local_bytes(args)};
}

RpStatus rp_cpu_latent_attention(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(latent_attention, args));
    for (int64_t t = 0; t < n_tokens(args); t++)
        RP_TRY(
            kv_check("latent_attention", table_of(args), args->latent_attention.latent.ne[1], t, 0, end_of(args, t)));
    const AttentionKernels kernels = rp_attention_kernels(RP_F16);
    if (n_tokens(args) > 1)
        many_tokens(args, ctx, &kernels);
    else if (ctx->phase == 0)
        chunks_of_token(args, ctx, &kernels);
    else
        merge_chunks(args, ctx);
    return RP_OK;
}
