/* attention of five and more tokens over an f16 cache with heads of 64 or 128: as attention.cu, with another order of
 * sums (attention_prefill.cuh). Position i is in tile i / 64, and tiles are divided into splits of consecutive tiles:
 *
 *     for 1024 positions, 8 tiles a split:    split 0: positions 0..511    split 1: positions 512..1023
 *
 * Each split is an online softmax of its own. With few tokens (split_kv) each split is a block, and the last-arriving
 * block merges the splits in ascending order. With many tokens a block computes the splits one after the other. The
 * number of a position and the length of the context alone decide in which split it is. A row of a matrix product does
 * not depend on the other rows, and a tile of which a row sees nothing leaves its state as it was. So a token has the
 * same bits in every chunk of at least RP_PREFILL_TOKENS tokens (I8), but not those of attention.cu.
 * geometry  blocks of 4 warps and 64 rows, grid (KV heads, splits or 1, blocks of rows); two blocks a multiprocessor
 * traffic   the keys and values in use once per block of rows; with split_kv the partial results of each split are
 *           written and read once, 4*(SIZE + 2) bytes per row
 * numerics  queries and weights as two f16 parts, sums in f32, ex2.approx; as q8_act the heads of a token are one row,
 *           quantised at the end */
#include "base/tuning.h"
#include "kernels/attention/attention_prefill.h"
#include "kernels/device/arrive.cuh"
#include "kernels/device/attention/attention_prefill.cuh"
#include "kernels/device/quantize.cuh"

namespace {

enum {
    RP_PREFILL_TOKENS = 5, /* as RP_TUNING_TILE_COLUMNS: products of such chunks have another order of sums too */
    SPLIT_TILES       = 8, /* at least */
    MAX_SPLITS        = 64
};

struct Prefill {
    Attention a;
    int       split_tiles;
};

/* The positions that the rows of a block see. */
struct BlockRange {
    int from, end;         /* that any row sees */
    int all_from, all_end; /* that all rows see, if not empty */
};

/* Every warp computes it, two rows a lane. Missing rows limit nothing: they are the last row once more. */
__device__ BlockRange block_range(const Attention &a, int row0) {
    BlockRange r = {INT_MAX, 0, 0, INT_MAX};
    for (int row = row0 + lane_index(); row < row0 + PREFILL_ROWS && row < a.rows; row += RP_WARP) {
        const Seen s = seen_by(a, row);
        if (s.end > 0) r.from = min(r.from, s.from), r.end = max(r.end, s.end);
        r.all_from = max(r.all_from, s.from), r.all_end = min(r.all_end, s.end);
    }
    for (int lanes = 1; lanes < RP_WARP; lanes *= 2) {
        r.from     = min(r.from, __shfl_xor_sync(RP_ALL_LANES, r.from, lanes));
        r.end      = max(r.end, __shfl_xor_sync(RP_ALL_LANES, r.end, lanes));
        r.all_from = max(r.all_from, __shfl_xor_sync(RP_ALL_LANES, r.all_from, lanes));
        r.all_end  = min(r.all_end, __shfl_xor_sync(RP_ALL_LANES, r.all_end, lanes));
    }
    return r;
}

__device__ Range splits_of(const BlockRange &seen, int split_tiles) {
    if (seen.end <= seen.from) return {0, 0, 0, 1}; /* a split without tiles, whose sums are 0 */
    Range r;
    r.first_tile = seen.from / PREFILL_TILE;
    r.end_tile   = (seen.end + PREFILL_TILE - 1) / PREFILL_TILE;
    r.first      = r.first_tile / split_tiles;
    r.active     = (r.end_tile - 1) / split_tiles - r.first + 1;
    return r;
}

/* State shared by the warps of a block. */
template <int SIZE> struct PrefillBlock {
    char             *k, *v; /* shared memory */
    PrefillCopy<SIZE> keys, values;
    BlockRange        seen;
    KvRows            all_keys, all_values;

    __device__ PrefillBlock(char *memory, const KvRows &keys_, const KvRows &values_, const BlockRange &seen_)
        : k(memory), v(memory + PREFILL_TILE * SIZE * 2), keys(k, keys_), values(v, values_), seen(seen_),
          all_keys(keys_), all_values(values_) {}

    /* Tiles [tile, end). CAREFUL: infinities and NaNs are added apart. */
    template <bool CAREFUL> __device__ void compute(PrefillRows<SIZE> *rows, int tile, int end) const {
        rows->clear();
        if (tile < end) keys.start(tile * PREFILL_TILE);
        for (; tile < end; tile++) {
            const int first = tile * PREFILL_TILE;
            float     s[PrefillRows<SIZE>::N_TILES][4];
            rp_cp_async_wait<0>();
            __syncthreads(); /* keys are there; the values of the tile before have been added */
            values.start(first);
            rows->scores(k, s);
            if (CAREFUL) rows->mend(all_keys, first, s);
            if (first < seen.all_from || first + PREFILL_TILE > seen.all_end) rows->hide(first, s);
            rp_cp_async_wait<0>();
            __syncthreads(); /* values are there; keys have been multiplied */
            if (tile + 1 < end) keys.start(first + PREFILL_TILE);
            rows->weigh(s);
            if (CAREFUL) {
                take_out_specials<SIZE>(v);
                rows->add_specials(all_values, first, s);
                __syncthreads(); /* all threads have taken out theirs */
            }
            rows->add(v, s);
        }
    }

    /* Not inlined: its registers would be spilled. */
    RP_NOINLINE __device__ void compute_carefully(PrefillRows<SIZE> *rows, int tile, int end) const {
        compute<true>(rows, tile, end);
    }

    /* A split. If a result is not finite, all are computed again with care for infinities. Ends with a barrier. */
    __device__ void compute_split(PrefillRows<SIZE> *rows, const Range &range, int split, int split_tiles) const {
        const int tile = max(range.first_tile, split * split_tiles),
                  end  = min(range.end_tile, (split + 1) * split_tiles);
        int *bad       = (int *)k; /* of each warp */
        compute<false>(rows, tile, end);
        const int any = __any_sync(RP_ALL_LANES, !rows->is_finite());
        if (lane_index() == 0) bad[warp_index()] = any;
        __syncthreads();
        const int any_bad = bad[0] | bad[1] | bad[2] | bad[3];
        __syncthreads(); /* the next keys are copied to its place */
        if (any_bad != 0) {
            PrefillBlock<SIZE> block = *this; /* copies, since a call needs them in memory */
            PrefillRows<SIZE>  again = *rows;
            block.compute_carefully(&again, tile, end);
            *rows = again;
            __syncthreads();
        }
        rows->join_sums();
    }
};

/* 0, which the compiler does not know. An array at indices that depend on it stays in local memory. */
__device__ int unknown_zero() {
#ifdef RP_CUDASIM
    return 0;
#else
    int zero;
    asm volatile("mov.u32 %0, 0;" : "=r"(zero));
    return zero;
#endif
}

/* The sums over splits of the two rows of a lane. With more than one split the accumulators are kept in local memory,
 * because the tiles need the registers. */
template <int SIZE> struct PrefillWhole {
    enum { COLUMNS = SIZE / 8 };
    float maximum[2], sum[2], acc[COLUMNS * 4];

    __device__ PrefillWhole(const Attention &a, int64_t hk, int row0) {
        for (int h = 0; h < 2; h++) {
            maximum[h] = first_maximum(a, hk, row0 + PrefillRows<SIZE>::row_of(h));
            sum[h]     = first_sum(a);
        }
    }
    /* Adds a split, whose accumulators become those of all splits so far. */
    __device__ void add(PrefillRows<SIZE> *rows, bool first, bool last) {
        const int at = unknown_zero();
        if (first && last && maximum[0] == -INFINITY &&
            maximum[1] == -INFINITY) { /* no sinks: the factors are 0 and 1 */
            sum[0] = rows->sum[0], sum[1] = rows->sum[1];
            return;
        }
        float keep[2], take[2];
        for (int h = 0; h < 2; h++) {
            const float score = rows->score(h), after = fmaxf(maximum[h], score);
            keep[h] = rescale_factor(maximum[h], after), take[h] = rescale_factor(score, after);
            maximum[h] = after;
            sum[h]     = fmaf(take[h], rows->sum[h], sum[h] * keep[h]);
        }
#pragma unroll
        for (int i = 0; i < COLUMNS * 4; i++) {
            float &x = rows->acc[i / 4][i % 4];
            x        = fmaf(take[i % 4 / 2], x, (first ? 0.0f : acc[at + i]) * keep[i % 4 / 2]);
            if (!last) acc[at + i] = x;
        }
    }
};

/* x[row][SIZE] of the warp's rows, two neighbours of each at a time. */
template <int SIZE> __device__ void put_rows(const PrefillRows<SIZE> &rows, float *x) {
#pragma unroll
    for (int i = 0; i < 2 * PrefillRows<SIZE>::COLUMNS; i++) {
        const unsigned w[2] = {__float_as_uint(rows.acc[i / 2][i % 2 * 2]),
                               __float_as_uint(rows.acc[i / 2][i % 2 * 2 + 1])};
        store_words(x + rows.row_of(i % 2) * SIZE + i / 2 * 8 + 2 * lane_in_group(), w);
    }
}

/* The rows of x[row][SIZE] that the block has; zeros for others. */
template <int SIZE> __device__ void get_rows(const Attention &a, int row0, PrefillRows<SIZE> *rows, const float *x) {
#pragma unroll
    for (int i = 0; i < 2 * PrefillRows<SIZE>::COLUMNS; i++) {
        const int row  = rows->row_of(i % 2);
        float     v[2] = {0.0f, 0.0f};
        if (row0 + row < a.rows) load_floats(x + row * SIZE + i / 2 * 8 + 2 * lane_in_group(), v);
        rows->acc[i / 2][i % 2 * 2] = v[0], rows->acc[i / 2][i % 2 * 2 + 1] = v[1];
    }
}

/* Stores y of the warp's rows, the accumulators times `by`. A result of 0 has no sign: whether rows are rescaled may
 * depend on other rows, and a negative number that underflows is -0. */
template <int SIZE>
__device__ void store_rows(const Attention &a, int64_t hk, int row0, const PrefillRows<SIZE> &rows,
                           const float (&by)[2]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int  row = row0 + rows.row_of(h);
        const bool has = row < a.rows;
        const int  t = has ? row / a.per_kv : 0, head = (int)hk * a.per_kv + (has ? row % a.per_kv : 0);
        if (a.quantizes) {
            char *const to = rp_row(a.y, t);
#pragma unroll
            for (int b = 0; b < SIZE / RP_ACT_BLOCK; b++) {
                float v[8];
#pragma unroll
                for (int i = 0; i < 8; i++) v[i] = fmaf(rows.acc[4 * b + i / 2][2 * h + i % 2], by[h], 0.0f);
                rp_quantize_quad(v, to, (int)a.y.ne[0], head * (SIZE / RP_ACT_BLOCK) + b, has);
            }
        } else if (has) {
            float *const to = (float *)rp_row_at(a.y, head, t, 0) + 2 * lane_in_group();
#pragma unroll
            for (int c = 0; c < SIZE / 8; c++) {
                const unsigned w[2] = {__float_as_uint(fmaf(rows.acc[c][2 * h], by[h], 0.0f)),
                                       __float_as_uint(fmaf(rows.acc[c][2 * h + 1], by[h], 0.0f))};
                store_words(to + 8 * c, w);
            }
        }
    }
}

/* The block of split `split` of few tokens: partial results to scratch memory. Returns whether it was the last to
 * arrive, which leaves y in out[row][SIZE]. */
template <int SIZE>
__device__ bool arrive_and_merge(const Attention &a, const PrefillRows<SIZE> &rows, const Range &range, int64_t hk,
                                 int row0, int split, float *out, float *scales) {
    float *const to = partials_of(a, split, PREFILL_ROWS, SIZE);
    put_rows<SIZE>(rows, to);
    if (lane_in_group() == 0)
        for (int h = 0; h < 2; h++) {
            to[PREFILL_ROWS * SIZE + rows.row_of(h)]                = rows.score(h);
            to[PREFILL_ROWS * SIZE + PREFILL_ROWS + rows.row_of(h)] = rows.sum[h];
        }
    if (!rp_arrives_last(&a.counters[blockIdx.x * gridDim.z + blockIdx.z], (unsigned)range.active)) return false;
    merge_splits<SIZE, PREFILL_ROWS / GROUP>(a, range, hk, row0, scales, out);
    __syncthreads();
    return true;
}

/* Dynamic shared memory: keys and values of a tile, later the results [64][SIZE] f32; then the low parts of the queries
 * [64][SIZE] f16, later the scales of the splits. 48 KB for heads of 128. */
template <int SIZE> __global__ void __launch_bounds__(ATTN_THREADS, 2) prefill_kernel(Prefill p) {
    rp_begin();
    RP_SHARED_DYNAMIC(char, memory);
    const Attention &a   = p.a;
    const int64_t    hk  = blockIdx.x;
    float *const     out = (float *)memory;
    /* Blocks start in this order: the last rows of a prompt see the most positions. */
    const int        row0     = (int)(gridDim.z - 1 - blockIdx.z) * PREFILL_ROWS;
    const BlockRange seen     = block_range(a, row0);
    const Range      range    = splits_of(seen, p.split_tiles);
    const bool       split_kv = a.split_kv && range.active > 1;
    const int first = split_kv ? (int)blockIdx.y : range.first, end = split_kv ? first + 1 : range.first + range.active;
    /* Splits without tiles end here. A single active split needs no merging: the first block stores its result. For
     * tokens without positions one block remains too, to write their zeros. */
    if (split_kv ? range.rank(first, a.splits) >= range.active : blockIdx.y > 0) return;
    const KvRows k = {(const char *)a.k.data + hk * a.k.nb[2], (unsigned)a.k.nb[1], seen.from, seen.end, SIZE, true},
                 v = {(const char *)a.v.data + hk * a.v.nb[2], (unsigned)a.v.nb[1], seen.from, seen.end, SIZE, true};
    const PrefillBlock<SIZE> block(memory, k, v, seen);
    PrefillRows<SIZE>        rows(a, hk, row0, (unsigned *)memory + PREFILL_TILE * SIZE);
    PrefillWhole<SIZE>       whole(a, hk, row0);
    int                      split = first;
    do {
        block.compute_split(&rows, range, split, p.split_tiles);
        if (split_kv) break;
        whole.add(&rows, split == first, split + 1 == end);
    } while (++split < end);
    float by[2] = {1.0f, 1.0f};
    if (split_kv) {
        if (!arrive_and_merge<SIZE>(a, rows, range, hk, row0, first, out, out + PREFILL_ROWS * SIZE)) return;
        get_rows<SIZE>(a, row0, &rows, out);
    } else {
        by[0] = inverse_of(whole.sum[0]), by[1] = inverse_of(whole.sum[1]);
    }
    store_rows<SIZE>(a, hk, row0, rows, by);
}

/* ---- geometry, from shapes and the number of multiprocessors only ---- */

struct PrefillGrid : AttentionSplits {
    int64_t split_tiles;
};

/* split_kv, which does not change the bits, looks at the number of tokens; the others must not (I8). */
PrefillGrid geometry(const RpOpArgs *args, const RpKernelCtx *ctx) {
    const RpTensorView *q = &args->attention.q, *k = &args->attention.k;
    const int64_t       rows = q->ne[2] / k->ne[2] * q->ne[1], tiles = rp_blocks(k->ne[1], PREFILL_TILE);
    PrefillGrid         s = {};
    s.row_blocks          = rp_blocks(rows, PREFILL_ROWS);
    s.split_tiles         = rp_blocks(tiles, MAX_SPLITS);
    if (s.split_tiles < SPLIT_TILES) s.split_tiles = SPLIT_TILES;
    s.splits = rp_blocks(tiles, s.split_tiles);
    choose_split_kv(&s, args, ctx, PREFILL_ROWS, q->ne[0]);
    return s;
}

bool is_multiple(const RpTensorView &v, size_t of) { return ((uintptr_t)v.data | v.nb[1] | v.nb[2]) % of == 0; }

template <int SIZE> RpStatus launch(const Prefill &p, const PrefillGrid &s, RpKernelCtx *ctx) {
    const LaunchShape shape = {dim3((unsigned)p.a.k.ne[2], s.split_kv ? (unsigned)s.splits : 1, (unsigned)s.row_blocks),
                               dim3(ATTN_THREADS), 6 * PREFILL_TILE * SIZE};
    static_assert(MAX_SPLITS * GROUP * 4 * 4 <= 2 * PREFILL_TILE * SIZE,
                  "the scales of splits take the place of queries");
    return RP_LAUNCH("attention", ctx, shape, prefill_kernel<SIZE>, p);
}

} // namespace

extern "C" bool rp_cuda_takes_attention_prefill(const RpOpArgs *args) {
    const RpTensorView &q = args->attention.q, &k = args->attention.k, &v = args->attention.v;
    return q.ne[1] >= RP_PREFILL_TOKENS && k.dtype == RP_F16 && !rp_is_present(&args->attention.cap) &&
           (q.ne[0] == 64 || q.ne[0] == 128) && k.ne[0] == q.ne[0] && v.ne[0] == q.ne[0] &&
           args->params->attention.scale > 0.0f && is_multiple(q, 8) && is_multiple(k, 16) && is_multiple(v, 16) &&
           (args->dst.dtype == RP_Q8_ACT || is_multiple(args->dst, 16));
}

extern "C" size_t rp_cuda_attention_prefill_scratch(const RpOpArgs *args, const RpKernelCtx *ctx) {
    return geometry(args, ctx).scratch;
}

extern "C" RpStatus rp_cuda_attention_prefill(const RpOpArgs *args, RpKernelCtx *ctx) {
    const PrefillGrid s = geometry(args, ctx);
    Prefill           p = {};
    RP_TRY(attention_of(args, ctx, s, &p.a));
    p.a.aligned   = true;
    p.split_tiles = (int)s.split_tiles;
    return p.a.q.ne[0] == 64 ? launch<64>(p, s, ctx) : launch<128>(p, s, ctx);
}
