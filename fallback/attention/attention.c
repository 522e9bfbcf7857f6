/* y[:,h,t] = sum_i softmax_i(scale * k[:,i,h/g] . q[:,t,h] + mask[i,t]) * v[:,i,h/g], over
 * max(0, pos[t]-window+1) <= i <= pos[t]
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
 * same time.
 *
 * In a cache of blocks a tile lies within one block, whose place the table has. Only tokens of one sequence share
 * tiles, and the positions alone decide about chunks and tiles. So a token has the same bits wherever its blocks lie,
 * and whatever other sequences run beside it. */
#include "fallback/attention/attention.h"
#include "fallback/attention/table.h"

#include "fallback/fused/fused.h"
#include "fallback/simd/float.h"
#include "fallback/simd/prefetch.h"
#include "fallback/soft_cap.h"

/* ---- one head of one token ---- */

/* The positions [from, end) that a token attends to. */
typedef struct KvRange {
    int64_t from, end;
} KvRange;

static KvTable table_of(const RpOpArgs *args) {
    const bool given = rp_is_present(&args->attention.table);
    return (KvTable){&args->attention.table, &args->attention.seq, given ? args->params->attention.block : 0};
}

/* Positions that a sequence can have. */
static int64_t context_of(const RpOpArgs *args) { return kv_context(table_of(args), args->attention.k.ne[1]); }

/* Without pos the tokens are the last ones of the context if the op is causal, else each of them is its last one. */
static int64_t position_of(const RpOpArgs *args, int64_t t) {
    const int64_t n_ctx = context_of(args);
    if (rp_is_present(&args->attention.pos)) return ((const int32_t *)args->attention.pos.data)[t];
    return args->params->attention.causal != 0 ? n_ctx - args->attention.q.ne[1] + t : n_ctx - 1;
}

static KvRange range_of(const RpOpArgs *args, int64_t t) {
    const int32_t window = args->params->attention.window;
    const int64_t pos = position_of(args, t), n_ctx = context_of(args);
    const int64_t end = pos < 0 ? 0 : pos + 1 < n_ctx ? pos + 1 : n_ctx;
    return (KvRange){window > 0 && end > window ? end - window : 0, end};
}

static int64_t first_chunk(KvRange r) { return r.from / ATTENTION_CHUNK; }

/* At least one: a padding token has one empty chunk. */
static int64_t n_chunks(KvRange r) { return r.end > r.from ? (r.end - 1) / ATTENTION_CHUNK - first_chunk(r) + 1 : 1; }

/* Bytes of q and acc in use: dim rounded up to 16 lanes. */
static size_t used_bytes(const RpOpArgs *args) {
    return (size_t)attention_dim(args->attention.q.ne[0]) * sizeof(float);
}

/* Copies q, with zeros up to whole lanes. */
static void start_head(const RpOpArgs *args, int64_t t, int64_t h, AttentionHead *head) {
    const RpTensorView *q = &args->attention.q, *mask = &args->attention.mask;
    head->mask = rp_is_present(mask) ? (const float *)rp_view_row(mask, t) : NULL;
    memset(head->q, 0, used_bytes(args));
    memcpy(head->q, (const char *)q->data + (size_t)t * q->nb[1] + (size_t)h * q->nb[2],
           (size_t)q->ne[0] * sizeof(float));
}

/* The empty state of a chunk. The first chunk of a head with a sink starts with that score, which has weight 1 and no
 * value. */
static void start_chunk(const RpOpArgs *args, int64_t h, bool first, AttentionHead *head) {
    memset(head->acc, 0, used_bytes(args));
    head->max = -INFINITY;
    head->sum = 0.0f;
    if (!first || !rp_is_present(&args->attention.sinks)) return;
    head->max = ((const float *)args->attention.sinks.data)[h];
    head->sum = 1.0f;
}

/* y = acc / sum. A q8_act result has all heads of a token in one row, and is quantised head by head. */
static void end_head(const RpOpArgs *args, int64_t t, int64_t h, const float *acc, float sum) {
    const RpTensorView *y        = &args->dst;
    const bool          quantize = y->dtype == RP_Q8_ACT;
    const int64_t       d        = args->attention.q.ne[0];
    const float         inverse  = sum == 0.0f ? 0.0f : 1.0f / sum;
    float               f32[RP_ATTENTION_MAX_DIM];
    float              *out = (float *)(void *)((char *)y->data + (size_t)h * y->nb[1] + (size_t)t * y->nb[2]);
    if (quantize) out = f32;
    for (int64_t i = 0; i < d; i++) out[i] = acc[i] * inverse;
    if (quantize) rp_quantize_range(out, d, rp_view_row(y, t), y->ne[0], h * d);
}

/* n positions from `at` on of the sequence of token t, of KV head hk. */
static AttentionTile tile_at(const RpOpArgs *args, int64_t t, int64_t hk, int64_t at, int64_t n) {
    const RpTensorView *k = &args->attention.k, *v = &args->attention.v;
    const int64_t       next = (at / ATTENTION_TILE + 1) * ATTENTION_TILE, row = kv_row(table_of(args), t, at);
    const bool          has_next = table_of(args).block == 0 || next < range_of(args, t).end;
    const int64_t       next_row = has_next ? kv_row(table_of(args), t, next) : row;
    const char         *keys     = (const char *)k->data + (size_t)hk * k->nb[2],
               *values           = (const char *)v->data + (size_t)hk * v->nb[2];
    return (AttentionTile){.k      = keys + (size_t)row * k->nb[1],
                           .v      = values + (size_t)row * v->nb[1],
                           .next_k = keys + (size_t)next_row * k->nb[1],
                           .next_v = values + (size_t)next_row * v->nb[1],
                           .k_row  = k->nb[1],
                           .v_row  = v->nb[1],
                           .dim    = k->ne[0],
                           .first  = at,
                           .n      = (int)n,
                           .scale  = args->params->attention.scale};
}

RP_BODY void cap_scores_body(float *p, int n, float cap) {
    for (int j = 0; j < n; j++) p[j] = rp_soft_cap(p[j], cap);
}
RP_VARIANTS(cap_scores, (float *p, int n, float cap), (p, n, cap))

static void add_mask(const AttentionTile *t) {
    for (int h = 0; h < t->n_heads && t->heads[h].mask != NULL; h++)
        for (int j = 0; j < t->heads[h].n; j++) t->heads[h].p[j] += t->heads[h].mask[t->first + j];
}

/* Scores and weights of n_heads heads from `heads` on. With kt_f32, each sees its first `n` positions. */
static void weigh_tile(AttentionTile *tile, AttentionHead *heads, int n_heads, const AttentionKernels *kernels) {
    const bool loaded = tile->kt_f32 != NULL;
    tile->heads       = heads;
    tile->n_heads     = n_heads;
    for (int h = 0; h < n_heads && !loaded; h++) heads[h].n = tile->n;
    (loaded ? kernels->whole_scores : kernels->scores)(tile);
    for (int h = 0; h < n_heads && kernels->cap != 0.0f; h++) cap_scores(heads[h].p, heads[h].n, kernels->cap);
    add_mask(tile);
    kernels->weights(tile);
}

static void add_tile_values(AttentionTile *tile, AttentionHead *heads, int n_heads, const AttentionKernels *kernels) {
    tile->heads   = heads;
    tile->n_heads = n_heads;
    (tile->kt_f32 != NULL ? kernels->whole_values : kernels->values)(tile);
}

static void attend_to_tile(AttentionTile *tile, AttentionHead *heads, int n_heads, const AttentionKernels *kernels) {
    weigh_tile(tile, heads, n_heads, kernels);
    add_tile_values(tile, heads, n_heads, kernels);
}

static int64_t heads_of_kv(const RpOpArgs *args) { return args->attention.q.ne[2] / args->attention.k.ne[2]; }

/* Chunk c of the range of token 0, by n_heads heads from head h on, which share their keys and values. */
static void attend(const RpOpArgs *args, KvRange range, int64_t c, int64_t h, int n_heads, AttentionHead *heads,
                   const AttentionKernels *kernels) {
    const int64_t first = (first_chunk(range) + c) * ATTENTION_CHUNK, last = first + ATTENTION_CHUNK;
    const int64_t from = first > range.from ? first : range.from, end = last < range.end ? last : range.end;
    for (int i = 0; i < n_heads; i++) start_chunk(args, h + i, c == 0, &heads[i]);
    for (int64_t i = from; i < end;) {
        const int64_t next = (i / ATTENTION_TILE + 1) * ATTENTION_TILE, stop = next < end ? next : end;
        AttentionTile tile = tile_at(args, 0, h / heads_of_kv(args), i, stop - i);
        attend_to_tile(&tile, heads, n_heads, kernels);
        i = stop;
    }
}

/* How many heads from h on, before `end`, share a key head and so a tile: at most ATTENTION_HEADS. */
static int heads_per_tile(const RpOpArgs *args, int64_t h, int64_t end) {
    const int64_t per_key_head = heads_of_kv(args);
    int64_t       n            = (h / per_key_head + 1) * per_key_head - h;
    if (n > end - h) n = end - h;
    return (int)(n < ATTENTION_HEADS ? n : ATTENTION_HEADS);
}

/* ---- many tokens: a work item is a block of tokens and the query heads of one KV head ----
 *
 * Each tile of keys and values is converted to f32 once for all queries of the block. A query that does not attend to
 * the whole tile, such as one on the diagonal, uses the kernels of a single token:
 *
 *     positions  0..31   32..63   64..95        tokens at 60, 64 and 100
 *     query 60   whole   part     -
 *     query 64   whole   whole    part
 *     query 100  whole   whole    whole     ... */

enum {
    BLOCK_QUERIES    = 64,        /* at most: their vectors must stay in L2 */
    BLOCK_FLOATS_F32 = 64 * 1024, /* queries with f32 keys: more of them, since a tile has twice as many bytes */
    WHOLE_QUERIES    = 16,        /* fewer do not repay the conversion of a tile */
    GROUPS_AT_ONCE   = 8          /* of ATTENTION_HEADS queries */
};

typedef struct Query {
    KvRange range;
    int64_t t, h;
    float  *acc; /* merged state of the chunks so far, with max and sum */
    float   max, sum;
} Query;

/* One work item, in the memory of its worker. */
typedef struct Block {
    AttentionHead *heads; /* state of each query in the present chunk */
    Query         *queries;
    float         *kt_f32, *v_f32;
    int64_t        from, end; /* of the positions that any of them attends to */
    int            n;
} Block;

/* Tokens in a block: fewer if there would be less than two blocks for each worker. */
static int64_t block_tokens(const RpOpArgs *args, int nth) {
    const RpTensorView *k     = &args->attention.k;
    const int64_t       heads = heads_of_kv(args), n_tokens = args->attention.q.ne[1], n_kv = k->ne[2] * k->ne[3];
    const int64_t       most = k->dtype == RP_F32 ? BLOCK_FLOATS_F32 / attention_dim(k->ne[0]) : BLOCK_QUERIES;
    int64_t             n    = heads < most ? most / heads : 1;
    while (n > 1 && (n_tokens + n - 1) / n * n_kv < 2 * nth) n /= 2;
    return n;
}

static size_t floats_of_block(const RpOpArgs *args, int64_t n_queries) {
    return (size_t)(3 * n_queries + 2 * ATTENTION_TILE) * (size_t)attention_dim(args->attention.q.ne[0]);
}

static size_t block_bytes(const RpOpArgs *args) {
    const int64_t n = block_tokens(args, 1) * heads_of_kv(args);
    return rp_align_bytes((size_t)n * sizeof(AttentionHead)) + rp_align_bytes((size_t)n * sizeof(Query)) +
           floats_of_block(args, n) * sizeof(float);
}

/* Tokens t0 to t1 - 1, of one sequence, and the query heads of KV head hk. */
static Block start_block(const RpOpArgs *args, char *memory, int64_t t0, int64_t t1, int64_t hk) {
    const int64_t heads = heads_of_kv(args), n = (t1 - t0) * heads, padded = attention_dim(args->attention.q.ne[0]);
    Block         b = {.heads = (AttentionHead *)(void *)memory, .from = INT64_MAX};
    memory += rp_align_bytes((size_t)n * sizeof(AttentionHead));
    b.queries = (Query *)(void *)memory;
    b.kt_f32  = (float *)(void *)(memory + rp_align_bytes((size_t)n * sizeof(Query)));
    b.v_f32   = b.kt_f32 + ATTENTION_TILE * padded;
    float *at = b.v_f32 + ATTENTION_TILE * padded;
    for (int64_t t = t0; t < t1; t++)
        for (int64_t h = hk * heads; h < (hk + 1) * heads; h++, b.n++, at += 3 * padded) {
            const KvRange r  = range_of(args, t); /* of padding it is empty */
            b.queries[b.n]   = (Query){.range = r, .t = t, .h = h, .acc = at + 2 * padded};
            b.end            = r.end > b.end ? r.end : b.end;
            b.from           = r.from < r.end && r.from < b.from ? r.from : b.from;
            b.heads[b.n].q   = at;
            b.heads[b.n].acc = at + padded;
            start_head(args, t, h, &b.heads[b.n]);
        }
    return b;
}

/* How many queries from i on, at most ATTENTION_HEADS, attend to the positions of the tile at `first` from its start
 * on, to at least `least` of them. Sets how many. */
static int attending(const Block *b, int i, int64_t first, int64_t least) {
    int n = 0;
    for (; n < ATTENTION_HEADS && i + n < b->n; n++) {
        const KvRange r    = b->queries[i + n].range;
        const int64_t sees = r.end - first;
        if (r.from > first || sees < least) break;
        b->heads[i + n].n = (int)(sees < ATTENTION_TILE ? sees : ATTENTION_TILE);
    }
    return n;
}

/* Computes the queries from i on of one token, which attends to a part of the tile at `first`, and returns how many. */
static int attend_to_part(const RpOpArgs *args, Block *b, int i, int64_t hk, int64_t first,
                          const AttentionKernels *kernels) {
    const KvRange r    = b->queries[i].range;
    const int64_t last = first + ATTENTION_TILE, from = r.from > first ? r.from : first;
    const int64_t end = r.end < last ? r.end : last;
    int           n   = 1;
    while (n < ATTENTION_HEADS && i + n < b->n && b->queries[i + n].t == b->queries[i].t) n++;
    if (from < end) {
        AttentionTile some = tile_at(args, b->queries[i].t, hk, from, end - from);
        attend_to_tile(&some, &b->heads[i], n, kernels);
    }
    return n;
}

/* Prefetches rows from to end - 1 of the `left` rows of the tile behind `t` into L2. */
static void prefetch_next_tile(const RpOpArgs *args, const AttentionTile *t, int64_t left, int from, int end) {
    const size_t bytes = attention_bytes(args->attention.k.dtype, t->dim);
    for (int j = from; j < end && j < left; j++)
        for (size_t at = 0; at < bytes; at += RP_CACHE_LINE) {
            __builtin_prefetch(t->next_k + (size_t)j * t->k_row + at, 0, 2);
            __builtin_prefetch(t->next_v + (size_t)j * t->v_row + at, 0, 2);
        }
}

/* Computes the queries from i on that attend to the tile in kt_f32 and v_f32, and returns how many. All of them use the
 * keys first and then the values, so that L1 holds only one of the two at a time. */
static int attend_to_loaded(Block *b, int i, AttentionTile *tile, const AttentionKernels *kernels) {
    int count[GROUPS_AT_ONCE], n = 0, at = i;
    for (; n < GROUPS_AT_ONCE && (count[n] = attending(b, at, tile->first, 1)) > 0; at += count[n++])
        weigh_tile(tile, &b->heads[at], count[n], kernels);
    at = i;
    for (int g = 0; g < n; at += count[g++]) add_tile_values(tile, &b->heads[at], count[g], kernels);
    return at - i;
}

static void block_to_tile(const RpOpArgs *args, Block *b, int64_t hk, int64_t first, const AttentionKernels *kernels) {
    const int64_t left = context_of(args) - first;
    if (first >= b->end || first + ATTENTION_TILE <= b->from) return; /* a table need not have it */
    AttentionTile tile = tile_at(args, b->queries[0].t, hk, first, left < ATTENTION_TILE ? left : ATTENTION_TILE);
    const bool    load = kernels->load != NULL && b->n >= WHOLE_QUERIES;
    for (int i = 0; i < b->n;) {
        const int before = i;
        int       n      = attending(b, i, first, load ? 1 : ATTENTION_TILE);
        if (n > 0 && load && tile.kt_f32 == NULL) {
            tile.kt_f32 = b->kt_f32;
            tile.v_f32  = b->v_f32;
            kernels->load(&tile);
        }
        if (n == 0)
            n = attend_to_part(args, b, i, hk, first, kernels);
        else if (load)
            n = attend_to_loaded(b, i, &tile, kernels);
        else
            attend_to_tile(&tile, &b->heads[i], n, kernels);
        i += n;
        if (load)
            prefetch_next_tile(args, &tile, left - ATTENTION_TILE, ATTENTION_TILE * before / b->n,
                               ATTENTION_TILE * i / b->n);
    }
}

static bool in_chunk(KvRange r, int64_t c) { return c >= first_chunk(r) && c < first_chunk(r) + n_chunks(r); }

static void end_chunk(const RpOpArgs *args, Query *q, int64_t c, const AttentionHead *head) {
    if (c > first_chunk(q->range)) {
        rp_attention_merge(q->acc, &q->max, &q->sum, head->acc, head->max, head->sum, args->attention.q.ne[0]);
        return;
    }
    memcpy(q->acc, head->acc, used_bytes(args));
    q->max = head->max;
    q->sum = head->sum;
}

static void run_block(const RpOpArgs *args, Block *b, int64_t hk, const AttentionKernels *kernels) {
    int64_t c0 = first_chunk(b->queries[0].range), c1 = c0;
    for (int i = 0; i < b->n; i++) {
        const int64_t first = first_chunk(b->queries[i].range), end = first + n_chunks(b->queries[i].range);
        c0 = first < c0 ? first : c0;
        c1 = end > c1 ? end : c1;
    }
    for (int64_t c = c0; c < c1; c++) {
        for (int i = 0; i < b->n; i++)
            if (in_chunk(b->queries[i].range, c))
                start_chunk(args, b->queries[i].h, c == first_chunk(b->queries[i].range), &b->heads[i]);
        for (int64_t at = c * ATTENTION_CHUNK; at < (c + 1) * ATTENTION_CHUNK; at += ATTENTION_TILE)
            block_to_tile(args, b, hk, at, kernels);
        for (int i = 0; i < b->n; i++)
            if (in_chunk(b->queries[i].range, c)) end_chunk(args, &b->queries[i], c, &b->heads[i]);
    }
    for (int i = 0; i < b->n; i++)
        end_head(args, b->queries[i].t, b->queries[i].h, b->queries[i].acc, b->queries[i].sum);
}

/* Sequence b of a batch. */
static RpOpArgs sequence(const RpOpArgs *args, int64_t b) {
    RpOpArgs one = *args;
    for (int i = 0; i < 4; i++) {
        RpTensorView *v = (RpTensorView *[]){&one.dst, &one.attention.q, &one.attention.k, &one.attention.v}[i];
        v->data         = (char *)v->data + (size_t)b * v->nb[3];
        v->ne[3]        = 1;
    }
    return one;
}

static void many_tokens(const RpOpArgs *args, const RpKernelCtx *ctx, const AttentionKernels *kernels) {
    const int64_t n_tokens = args->attention.q.ne[1], n_kv = args->attention.k.ne[2],
                  each  = block_tokens(args, ctx->nth);
    const int64_t items = (n_tokens + each - 1) / each * n_kv;
    for (int64_t i = ctx->ith; i < items * args->attention.q.ne[3]; i += ctx->nth) {
        const RpOpArgs one = sequence(args, i / items);
        const int64_t  t0 = i % items / n_kv * each, t1 = t0 + each < n_tokens ? t0 + each : n_tokens;
        for (int64_t t = t0, end; t < t1; t = end) {
            for (end = t + 1; end < t1 && kv_sequence(table_of(&one), end) == kv_sequence(table_of(&one), t);) end++;
            Block b = start_block(&one, ctx->local, t, end, i % n_kv);
            run_block(&one, &b, i % n_kv, kernels);
        }
    }
}

/* ---- one token ----
 *
 * Phase 0 divides its (chunk, head) pairs among the workers: all chunks of the heads of one KV head, then those of the
 * next, so that keys and values are read in the order of memory. Phase 1 divides its heads and merges their chunks.
 * With a single chunk, phase 0 already writes y. */

/* The partial result of chunk c and head h in shared memory, f32: max, sum, 14 unused, acc[dim]. */
static int64_t partial_floats(const RpOpArgs *args) { return ATTENTION_LANES + args->attention.q.ne[0]; }

static float *partial_at(const RpOpArgs *args, const RpKernelCtx *ctx, int64_t c, int64_t h) {
    return (float *)ctx->shared + (c * args->attention.q.ne[2] + h) * partial_floats(args);
}

static void chunks_of_token(const RpOpArgs *args, const RpKernelCtx *ctx, KvRange range,
                            const AttentionKernels *kernels) {
    const int64_t      n_heads = args->attention.q.ne[2], total = n_chunks(range) * n_heads;
    const int64_t      per_kv = heads_of_kv(args), of_kv = n_chunks(range) * per_kv;
    const int64_t      last = total * (ctx->ith + 1) / ctx->nth;
    AttentionHead      heads[ATTENTION_HEADS];
    _Alignas(64) float vectors[ATTENTION_HEADS][2][RP_ATTENTION_MAX_DIM];
    for (int i = 0; i < ATTENTION_HEADS; i++) heads[i].q = vectors[i][0], heads[i].acc = vectors[i][1];
    for (int64_t at = total * ctx->ith / ctx->nth; at < last;) {
        const int64_t c = at % of_kv / per_kv, h = at / of_kv * per_kv + at % per_kv, left = h + (last - at);
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
            memcpy(partial + ATTENTION_LANES, heads[i].acc, (size_t)args->attention.q.ne[0] * sizeof(float));
        }
        at += n;
    }
}

static void merge_chunks(const RpOpArgs *args, const RpKernelCtx *ctx, KvRange range) {
    const int64_t n_heads = args->attention.q.ne[2], end = n_heads * (ctx->ith + 1) / ctx->nth;
    for (int64_t h = n_heads * ctx->ith / ctx->nth; h < end && n_chunks(range) > 1; h++) {
        float *all = partial_at(args, ctx, 0, h);
        for (int64_t c = 1; c < n_chunks(range); c++) {
            const float *chunk = partial_at(args, ctx, c, h);
            rp_attention_merge(all + ATTENTION_LANES, &all[0], &all[1], chunk + ATTENTION_LANES, chunk[0], chunk[1],
                               args->attention.q.ne[0]);
        }
        end_head(args, 0, h, all + ATTENTION_LANES, all[1]);
    }
}

/* One token of one sequence is divided by chunks. */
static bool has_many_tokens(const RpOpArgs *args) { return args->attention.q.ne[1] * args->attention.q.ne[3] > 1; }

CpuNeeds rp_needs_attention(const RpOpArgs *args) {
    const int64_t chunks = (context_of(args) + ATTENTION_CHUNK - 1) / ATTENTION_CHUNK;
    if (has_many_tokens(args)) return (CpuNeeds){.phases = 1, .local = block_bytes(args)};
    if (chunks == 1) return (CpuNeeds){.phases = 1};
    return (CpuNeeds){.phases = 2,
                      .shared = (size_t)(chunks * args->attention.q.ne[2] * partial_floats(args)) * sizeof(float)};
}

/* Checks the blocks that the tokens read. Where a token follows the one before it in its sequence, only its new
 * positions are checked. */
static RpStatus check_table(const RpOpArgs *args) {
    const KvTable k      = table_of(args);
    KvRange       before = {0, 0};
    for (int64_t t = 0; t < args->attention.q.ne[1] && k.block != 0; t++) {
        const KvRange r       = range_of(args, t);
        const bool    follows = t > 0 && kv_sequence(k, t) == kv_sequence(k, t - 1) && r.from >= before.from;
        RP_TRY(kv_check("attention", k, args->attention.k.ne[1], t,
                        follows && before.end > r.from ? before.end : r.from, r.end));
        before = r;
    }
    return RP_OK;
}

RpStatus rp_cpu_attention(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(attention, args));
    RP_TRY(check_table(args));
    AttentionKernels kernels = rp_attention_kernels(args->attention.k.dtype);
    if (rp_is_present(&args->attention.cap)) kernels.cap = *(const float *)args->attention.cap.data;
    if (has_many_tokens(args))
        many_tokens(args, ctx, &kernels);
    else if (ctx->phase == 0)
        chunks_of_token(args, ctx, range_of(args, 0), &kernels);
    else
        merge_chunks(args, ctx, range_of(args, 0));
    return RP_OK;
}
