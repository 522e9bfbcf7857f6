/* tile_f16.cuh - products of quantised weights with many columns by f16 products of tensor cores (mma.cuh). Both
 * factors are rounded to f16. A block computes ROWS x COLUMNS results, K elements along k at a time, its stage:
 *
 *     registers  raw weights of the next stage       one fragment pair a thread, loaded while this one is multiplied
 *     shared     a[ROWS][K] f16                      weights, dequantised once for all columns of the tile
 *                b[2][COLUMNS][K] f16                columns of this stage and of the next, copied asynchronously
 *     registers  acc[rows][columns] f32 of the warp
 *
 * scales  Row m of the weights is multiplied by a power of two 2^e[m], column c by 2^f[c]. They bring the largest
 *         element below 2^15: f16 neither overflows, nor loses elements above 2^-39 of the largest. The result is
 *         acc / 2^e / 2^f.
 * error   An element that is rounded to f16 is off by at most 2^-11 of itself. So |error| <= 2^-10 * sum |w x|, not
 *         counting the error of sums in f32; q8_act itself is off by up to 1/254 of the largest of 32 elements.
 * order   Step s is 64 elements: fragment s of types with two runs, blocks 2s and 2s+1 of others. The columns are
 *         stored in this order (prepare_kernel in kernels/tile_f16.cu). acc is the sum of products of depth 16, in
 *         ascending order. Neither the shape of the tile nor other columns change it: a column has the same bits in
 *         every product in tiles (I8). A GEMV has another order.
 * banks   rp_tile_chunk places 16 bytes so that ldmatrix reads eight rows from different banks, and a thread's stores
 *         go to different banks too. */
#ifndef KERNELS_DEVICE_TILE_F16_CUH
#define KERNELS_DEVICE_TILE_F16_CUH

#include "kernels/device/gemv.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/device/tile.cuh"

namespace {

enum { RP_TILE_STEP = 2 * RP_RUN };
static_assert((int)RP_TUNING_TILE_COLUMNS == (int)RP_GEMV_COLUMNS + 1, "a GEMV reads the weights once");

/* Geometry: ROW_WARPS x COLUMN_WARPS warps. A warp has MT groups of 16 rows and NT groups of 8 columns. Pairs of groups
 * of columns take turns among the warps, so that a tile with few columns occupies all of them. */
template <int ROW_WARPS_, int COLUMN_WARPS_, int MT_, int NT_, int K_> struct TileShape {
    static constexpr int ROW_WARPS = ROW_WARPS_, COLUMN_WARPS = COLUMN_WARPS_, MT = MT_, NT = NT_, K = K_;
    static constexpr int ROWS = 16 * MT * ROW_WARPS, COLUMNS = 8 * NT * COLUMN_WARPS;
    static constexpr int THREADS = RP_WARP * ROW_WARPS * COLUMN_WARPS, STEPS = K / RP_TILE_STEP;
    static constexpr int ROW_BYTES = 2 * K, ROW_CHUNKS = K / 8,
                         CHUNKS = COLUMNS * ROW_CHUNKS / THREADS; /* of 16 bytes: of a row, of a thread */
    static constexpr bool SKIPS = NT < 8; /* pairs of groups of columns that the tile does not have */
    static_assert(NT % 2 == 0, "groups of columns are multiplied in pairs");
    static_assert(ROWS * STEPS == THREADS, "every thread dequantises a step of a row");
    static_assert(COLUMNS * ROW_CHUNKS % THREADS == 0 && THREADS % ROW_CHUNKS == 0,
                  "every thread copies as much, and the same part of each column");
    static_assert(RP_F16_ALIGN % K == 0, "columns are padded to whole stages");
};

typedef TileShape<2, 2, 4, 8, 64>  LargeTile; /* 128 x 128 */
typedef TileShape<2, 2, 2, 4, 128> MidTile;   /* 64 x 64, for matrices with few rows, or few columns of each expert */
typedef TileShape<2, 2, 1, 2, 256> SmallTile; /* 32 x 32, for few columns */
static_assert((int)LargeTile::ROWS == RP_F16_LARGE && (int)LargeTile::COLUMNS == RP_F16_LARGE &&
                  (int)MidTile::ROWS == RP_F16_MID && (int)MidTile::COLUMNS == RP_F16_MID &&
                  (int)SmallTile::ROWS == RP_F16_SMALL && (int)SmallTile::COLUMNS == RP_F16_SMALL,
              "as in tile.cuh");

/* Two floats rounded to f16, the first in the low half. */
__device__ unsigned rp_tile_pair(float low, float high) {
    const __half2 h = __floats2half2_rn(low, high);
    unsigned      w;
    memcpy(&w, &h, sizeof w);
    return w;
}

/* The power of two that brings elements of at most `bound` below 2^15, and its reciprocal. 1 for 0, infinity and NaN;
 * at most 2^100. */
struct TileFactor {
    float factor, inverse;
    __device__ explicit TileFactor(float bound) {
        const unsigned e = __float_as_uint(bound) >> 23;
        unsigned       f = e < 268 - 227 ? 227 : 268 - e; /* its exponent field: 127 + 14 - (e - 127) */
        if (bound == 0.0f || e >= 255) f = 127;
        factor = __uint_as_float(f << 23), inverse = __uint_as_float((254 - f) << 23);
    }
};

/* Offset in bytes of chunk c (16 bytes) of row r of a stage. A step has 8 chunks, 128 bytes: all banks. As rows and
 * steps have bits of their own, rp_tile_chunk(r, c ^ d) = rp_tile_chunk(r, c) ^ rp_tile_chunk(0, d). */
template <class S> __device__ int rp_tile_chunk(int r, int c) {
    return r * S::ROW_BYTES + (c ^ ((r ^ c / 8 * (8 / S::STEPS)) & 7)) * 16;
}

/* As rp_bytes, as the bits of a float. */
__device__ float rp_bytes_float(unsigned a, unsigned b, unsigned selector) {
#ifdef RP_CUDASIM
    return __uint_as_float(rp_bytes(a, b, selector));
#else
    float r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=f"(r) : "r"(a), "r"(b), "r"(selector));
    return r;
#endif
}

/* The block's part of a product: rows [row, row + ROWS) of the matrix whose row 0 is row `first` of the tensor, fewer
 * where the matrix ends. Entry i of the tile is column column(i). */
struct TileWork {
    Planes         planes;
    int64_t        first;
    int            row, rows, n;
    const int32_t *order;
    int            first_column, columns;

    /* The last column stands for those past it. */
    __device__ int column(int i) const {
        const int at = first_column + (i < columns ? i : columns - 1);
        return order != nullptr ? order[at] : at;
    }
};

/* Column c of the result, of all columns in order. */
__device__ float *rp_tile_result(const RpTensorView &y, int c) {
    return (float *)rp_row_at(y, c % (int)y.ne[1], c / (int)y.ne[1], 0);
}

/* A step of a row: one fragment of two runs, or two of one. Values of sum block k (quants.cuh) of fragment i. */
template <RpDtype T> struct TileStep {
    typedef Blocks<T>    B;
    static constexpr int FRAGS = 2 / (int)B::RUNS, BLOCKS = 2 * (int)B::RUNS; /* sum blocks of a fragment */
    typename B::Raw      raw[FRAGS];

    /* Fragments past the end of the row repeat its last one. */
    __device__ static unsigned fragment(int step, int i, int n) {
        const int f = step * FRAGS + i, end = n / (int)QuantType<T>::FRAG;
        return (unsigned)(f < end ? f : end - 1);
    }
    __device__ void load(const typename B::Row &row, int step, int n) {
#pragma unroll
        for (int i = 0; i < FRAGS; i++) raw[i] = B::load(row, fragment(step, i, n));
    }

    /* Factors of 16 that save a shift in a GEMV are undone: quants are shifted, scales multiplied. */
    __device__ static bool shifted(int k) {
        return ((int)B::FIRST == 16 && k % 2 == 1) || ((int)B::SECOND == 16 && k >= 2);
    }
    __device__ static float scale_of(const FragmentOf<T> &v, int k) {
        if (B::SUB_SCALES) return v.scale[k / 2] * (float)v.sub[k];
        return v.scale[k / 2] * (float)((int)B::FIRST * (k >= 2 ? (int)B::SECOND : 1));
    }

    __device__ static float min_of(const FragmentOf<T> &v, int k) { return B::SUB_MINS ? v.sub_min[k] : v.min[k / 2]; }

    /* No element of the fragment is larger: a quant is a byte. */
    __device__ static float bound(const FragmentOf<T> &v) {
        float most = 0.0f;
        for (int k = 0; k < BLOCKS; k++) {
            const float b = fmaf(fabsf(scale_of(v, k)), 256.0f, fabsf(min_of(v, k)));
            most          = b > most || b != b ? b : most;
        }
        return most;
    }

    /* A byte becomes a float by one rp_bytes, in the mantissa: BASE + q, exactly. Unsigned quants are below 128 and
     * signed ones q + 128. Then scale * (BASE + q) + (min - BASE * scale) is one multiply-add. Its second term is exact
     * with 11 bits of a scale and no minimum; else it is off by 2^-17 of the scale, 1/64 of the rounding to f16. With
     * scales of more bits (SUB_SCALES) BASE is subtracted first. */
    static constexpr bool     WIDE   = B::SIGNED || B::MINUS;
    static constexpr float    BASE   = WIDE ? 32768.0f + 128.0f : 128.0f;
    static constexpr unsigned PREFIX = WIDE ? 0x47000000u : 0x43000000u, SELECT = WIDE ? 0x7404u : 0x7044u,
                              SHIFT = WIDE ? 4 : 8;
    __device__ static float offset_of(float scale, float min) {
        return B::SUB_MINS ? min : B::SUB_SCALES ? 0.0f : fmaf(scale, -BASE, min);
    }

    /* The four elements of a word of quants. */
    __device__ static uint2 four(unsigned q, unsigned minus, float scale, float offset) {
        const unsigned bytes = B::MINUS ? (q | 0x80808080u) - minus : B::SIGNED ? q ^ 0x80808080u : q;
        float          w[4];
        for (int b = 0; b < 4; b++) {
            const float value = rp_bytes_float(bytes, PREFIX, SELECT | (unsigned)b << SHIFT);
            w[b]              = B::SUB_MINS     ? fmaf(scale, value - BASE, offset)
                                : B::SUB_SCALES ? scale * (value - BASE)
                                                : fmaf(scale, value, offset);
        }
        return make_uint2(rp_tile_pair(w[0], w[1]), rp_tile_pair(w[2], w[3]));
    }

    /* Stores the step as f16, its elements times `factor`, as step `to` of row r of a; zeros past the end of the
     * row. */
    template <class S> __device__ void store(char *a, int r, int to, int step, int n, float factor) const {
#pragma unroll
        for (int i = 0; i < FRAGS; i++) {
            const unsigned      f     = fragment(step, i, n);
            const bool          valid = (step * FRAGS + i) * (int)QuantType<T>::FRAG < n;
            const FragmentOf<T> v     = B::dequantize(raw[i], typename B::Lane((int)f));
#pragma unroll
            for (int k = 0; k < BLOCKS; k++) {
                const float scale  = valid ? scale_of(v, k) * factor : 0.0f,
                            offset = valid ? offset_of(scale, min_of(v, k) * factor) : 0.0f;
                uint2 w[4];
                for (int j = 0; j < 4; j++) {
                    const unsigned q = (unsigned)v.q[k][j] >> (shifted(k) ? 4 : 0);
                    w[j]             = four(q, B::MINUS ? (unsigned)v.minus[k][j] : 0u, scale, offset);
                }
                const int chunk = to * 8 + (i * BLOCKS + k) * 2;
                rp_put16(a + rp_tile_chunk<S>(r, chunk), make_uint4(w[0].x, w[0].y, w[1].x, w[1].y));
                rp_put16(a + rp_tile_chunk<S>(r, chunk + 1), make_uint4(w[2].x, w[2].y, w[3].x, w[3].y));
            }
        }
    }
};

/* The factor of the thread's row: the scales of all its blocks, which the STEPS threads of the row share. */
template <RpDtype T, class S> __device__ TileFactor rp_tile_row_factor(const typename Blocks<T>::Row &row, int n) {
    float most = 0.0f;
#pragma unroll 2
    for (int f = (int)threadIdx.x % S::STEPS; f < n / (int)QuantType<T>::FRAG; f += S::STEPS) {
        const float b =
            TileStep<T>::bound(Blocks<T>::dequantize(Blocks<T>::load(row, (unsigned)f), typename Blocks<T>::Lane(f)));
        most = b > most || b != b ? b : most;
    }
    for (int lanes = S::STEPS / 2; lanes > 0; lanes /= 2) {
        const float b = __shfl_xor_sync(RP_ALL_LANES, most, lanes);
        most          = b > most || b != b ? b : most;
    }
    return TileFactor(most);
}

/* The thread's part of the copies of columns: 16 bytes at the same place of CHUNKS columns. */
template <class S> struct TileCopies {
    const uint4 *columns;
    unsigned     from[S::CHUNKS];

    __device__ static int column(int i) { return (int)threadIdx.x / S::ROW_CHUNKS + i * (S::THREADS / S::ROW_CHUNKS); }
    __device__ static int chunk() { return (int)threadIdx.x % S::ROW_CHUNKS; }

    __device__ TileCopies(const TileWork &w, const TileColumns &x) : columns((const uint4 *)x.data) {
#pragma unroll
        for (int i = 0; i < S::CHUNKS; i++)
            from[i] = (unsigned)(w.column(column(i)) / x.shared) * (unsigned)(x.stride / 8) + (unsigned)chunk();
    }
    /* Stage k0 to b. Pairs of groups of 8 columns that are not multiplied are left out. */
    __device__ void start(const TileWork &w, char *b, int k0) const {
        const uint4 *at   = columns + k0 / 8;
        const int    used = S::SKIPS ? (w.columns + 15) / 16 * 16 : S::COLUMNS;
#pragma unroll
        for (int i = 0; i < S::CHUNKS; i++)
            if (!S::SKIPS || column(i) < used) rp_cp_async16(b + rp_tile_chunk<S>(column(i), chunk()), at + from[i]);
        rp_cp_async_commit();
    }
};

/* The warp's results: acc[i][j][e] is element e of d (mma.cuh) for row group i and column group j. */
template <class S> struct TileSums {
    float acc[S::MT][S::NT][4];

    __device__ static int row_of(int i) { return ((int)threadIdx.x / RP_WARP % S::ROW_WARPS * S::MT + i) * 16; }
    __device__ static int column_of(int j) {
        return (j / 2 * S::COLUMN_WARPS + (int)threadIdx.x / RP_WARP / S::ROW_WARPS) * 16 + j % 2 * 8;
    }

    /* Adds 16 elements of every row and column: chunks c and c + 1 of the stage, c even. a and b are the lane's places
     * in the first row group and the first pair of column groups: chunk 0 of row lane % 16 for lanes below 16, chunk 1
     * for others; chunk lane / 8 % 2 of column lane % 8 + lane / 16 * 8. */
    __device__ void add(const TileWork &w, const char *a, const char *b, int a_at, int b_at, int c) {
        unsigned v[S::MT][4];
#pragma unroll
        for (int i = 0; i < S::MT; i++)
            rp_ldmatrix_x4(v[i], a + (a_at ^ rp_tile_chunk<S>(0, c)) + 16 * i * S::ROW_BYTES);
#pragma unroll
        for (int j = 0; j < S::NT; j += 2) {
            if (S::SKIPS && column_of(j) >= w.columns) continue;
            unsigned x[4];
            rp_ldmatrix_x4(x, b + (b_at ^ rp_tile_chunk<S>(0, c)) + 8 * j * S::COLUMN_WARPS * S::ROW_BYTES);
            const unsigned left[2] = {x[0], x[1]}, right[2] = {x[2], x[3]};
#pragma unroll
            for (int i = 0; i < S::MT; i++) rp_mma_f16(acc[i][j], v[i], left);
#pragma unroll
            for (int i = 0; i < S::MT; i++) rp_mma_f16(acc[i][j + 1], v[i], right);
        }
    }

    /* inverse: 2^-e of each row. */
    __device__ void put(const TileWork &w, const TileColumns &x, const RpTensorView &y, const float *inverse) const {
        const int lane = (int)threadIdx.x % RP_WARP;
#pragma unroll
        for (int j = 0; j < S::NT; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int c = column_of(j) + 2 * (lane % 4) + e;
                if (c >= w.columns) continue;
                const int   column = w.column(c);
                const float scale  = x.inverse[column / x.shared];
                float      *to     = rp_tile_result(y, column);
#pragma unroll
                for (int i = 0; i < S::MT; i++)
                    for (int h = 0; h < 2; h++) {
                        const int r = row_of(i) + lane / 4 + 8 * h, m = w.row + r;
                        if (m < w.rows) to[m] = acc[i][j][2 * h + e] * inverse[r] * scale;
                    }
            }
    }
};

/* The product of a block. Every thread calls it. The scales of the rows are read ahead of the columns, which the kernel
 * before writes. */
template <RpDtype T, class S>
__device__ void rp_tile_product(const TileWork &w, const TileColumns &x, const RpTensorView &y) {
    RP_SHARED(uint4, a_memory, [S::ROWS * S::K / 8]);
    RP_SHARED(uint4, b_memory, [2 * S::COLUMNS * S::K / 8]);
    char                         *a = (char *)a_memory, *b = (char *)b_memory;
    const int                     r = (int)threadIdx.x / S::STEPS, step = (int)threadIdx.x % S::STEPS;
    const int                     m   = w.row + r < w.rows ? w.row + r : w.rows - 1;
    const typename Blocks<T>::Row row = Blocks<T>::row(w.planes, (w.first + m) * (w.n / (int)QuantType<T>::FRAG));
    const TileFactor              e   = rp_tile_row_factor<T, S>(row, w.n);
    TileStep<T>                   next;
    TileSums<S>                   sums = {};
    next.load(row, step, w.n);
    const int lane = (int)threadIdx.x % RP_WARP;
    const int a_at = rp_tile_chunk<S>(sums.row_of(0) + lane % 16, lane / 16);
    const int b_at = rp_tile_chunk<S>(sums.column_of(0) + lane / 16 * 8 + lane % 8, lane / 8 % 2);
    rp_pdl_wait();
    const TileCopies<S> copies(w, x);
    copies.start(w, b, 0);
    int half = 0;
    for (int k0 = 0; k0 < w.n; k0 += S::K) {
        const int s = k0 / RP_TILE_STEP + step;
        if (k0 > 0) __syncthreads(); /* all warps have multiplied the stage before */
        next.template store<S>(a, r, step, s, w.n, e.factor);
        rp_cp_async_wait<0>();
        __syncthreads();
        const char *now = b + half * (S::COLUMNS * S::ROW_BYTES);
        half ^= 1;
        if (k0 + S::K < w.n) {
            copies.start(w, b + half * (S::COLUMNS * S::ROW_BYTES), k0 + S::K);
            next.load(row, s + S::STEPS, w.n);
        }
#pragma unroll
        for (int c = 0; c < S::ROW_CHUNKS; c += 2) sums.add(w, a, now, a_at, b_at, c);
    }
    float *inverse = (float *)a_memory;
    __syncthreads();
    if (step == 0) inverse[r] = e.inverse;
    __syncthreads();
    sums.put(w, x, y, inverse);
}

/* Results of no expert. */
template <class S> __device__ void rp_tile_zeros(const TileWork &w, const RpTensorView &y) {
    for (int i = (int)threadIdx.x; i < S::ROWS * w.columns; i += S::THREADS)
        if (w.row + i % S::ROWS < w.rows) rp_tile_result(y, w.column(i / S::ROWS))[w.row + i % S::ROWS] = 0.0f;
}

} // namespace
#endif
