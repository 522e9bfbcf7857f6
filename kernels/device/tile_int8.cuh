/* tile_int8.cuh - products of quantised weights with many q8_act columns by int8 products of tensor cores (mma.cuh). A
 * block computes ROWS x COLUMNS results, K elements along k at a time:
 *
 *     registers  raw weights and columns of the next stage        loaded while this one is multiplied
 *     shared     a[ROWS][K] int8, b[COLUMNS][K] int8              weights without their offset; columns
 *                scales and minima of a, scales and sums of b     one for each sub-block of 32, or of 16
 *     registers  acc[rows][columns] f32 of the warp
 *
 * order  A sub-block of 32 is one exact integer dot product. For sub-block s ascending, from acc = 0:
 *
 *            acc += (wscale[s] * xscale[s]) * dot[s]                      one fused multiply-add
 *            acc += wmin[s] * xsum[s]                                     types with minima
 *        of 16   acc += xscale[s] * (wscale[2s] * dot[2s] + wscale[2s+1] * dot[2s+1])
 *                acc += wmin[2s] * xsum[2s], then + wmin[2s+1] * xsum[2s+1]  types with minima
 *
 *        Neither the shape of the tile nor other columns change it: a column has the same bits in every product of at
 *        least RP_TUNING_TILE_COLUMNS columns (I8). A GEMV has another order.
 * banks  Rows of a and b are K bytes. Chunk c of 16 bytes of row r is stored as chunk c ^ (r & 7), so that ldmatrix
 *        reads eight rows from different banks. */
#ifndef KERNELS_DEVICE_TILE_INT8_CUH
#define KERNELS_DEVICE_TILE_INT8_CUH

#include "kernels/device/gemv.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/device/tile.cuh"

namespace {

enum { RP_TILE_PAD = 8 };
static_assert((int)RP_TUNING_TILE_COLUMNS == (int)RP_GEMV_COLUMNS + 1, "a GEMV reads the weights once");

/* Geometry: ROW_WARPS x COLUMN_WARPS warps. A warp has MT groups of 16 rows and NT groups of 8 columns. Groups of
 * columns take turns among the warps, so that a tile with few columns occupies all of them. */
template <int ROW_WARPS_, int COLUMN_WARPS_, int MT_, int NT_, int K_> struct TileShape {
    static constexpr int ROW_WARPS = ROW_WARPS_, COLUMN_WARPS = COLUMN_WARPS_, MT = MT_, NT = NT_, K = K_;
    static constexpr int ROWS = 16 * MT * ROW_WARPS, COLUMNS = 8 * NT * COLUMN_WARPS;
    static constexpr int THREADS = RP_WARP * ROW_WARPS * COLUMN_WARPS, SUBS = K / 32;
    static constexpr int RUNS = ROWS * SUBS / THREADS, CHUNKS = COLUMNS * K / 16 / THREADS,
                         SCALES = COLUMNS * SUBS / THREADS; /* of a thread in a stage */
    static_assert(ROWS * SUBS % THREADS == 0 && COLUMNS * K / 16 % THREADS == 0 && COLUMNS * SUBS % THREADS == 0,
                  "every thread loads as much as the others");
    static_assert(COLUMNS <= THREADS && K % 128 == 0, "a thread finds a column; a stage is half a block of K types");
};

typedef TileShape<4, 2, 2, 4, 128> LargeTile; /* 128 x 64 */
typedef TileShape<2, 4, 1, 2, 256> MidTile;   /* 32 x 64, for matrices with few rows */
typedef TileShape<2, 2, 1, 1, 512> SmallTile; /* 32 x 16, for few columns */
static_assert(LargeTile::ROWS == RP_INT8_LARGE_ROWS && LargeTile::COLUMNS == RP_INT8_COLUMNS &&
                  MidTile::ROWS == RP_INT8_ROWS && MidTile::COLUMNS == RP_INT8_COLUMNS &&
                  SmallTile::ROWS == RP_INT8_ROWS && SmallTile::COLUMNS == RP_INT8_SMALL_COLUMNS,
              "as in tile.cuh");

/* The elements of a sub-block of a type, whether it has minima, and the offset that the tile subtracts from its
 * quants. */
template <RpDtype T> struct TileType;
#define X(ID, name, sub, offset, has_min, ...)                                                                         \
    template <> struct TileType<RP_##ID> {                                                                             \
        static constexpr int      SUB = sub, UNROLL = SUB == 32 ? 4 : 2; /* limited by registers */                    \
        static constexpr bool     MINS   = has_min;                                                                    \
        static constexpr unsigned OFFSET = Blocks<RP_##ID>::HAS_MIN ? 0x01010101u * (offset) : 0u;                     \
    };
RP_QUANTS(X)
#undef X

/* Resident blocks on a multiprocessor, which limits registers. Large tiles in K types have one, because with two
 * registers spill. */
template <RpDtype T, class S> constexpr int rp_tile_resident() {
    return (int)Blocks<T>::RUNS == 2 && S::ROWS == RP_INT8_LARGE_ROWS ? 1 : 2;
}

/* The block's part of a product: rows [row, row + ROWS) of the matrix whose row 0 is row `first` of the tensor, fewer
 * where the matrix ends. Column c of the tile is x_at[c] bytes behind x, its results y_at[c] bytes behind y; these two
 * arrays are in shared memory. */
struct TileWork {
    Planes         planes;
    int64_t        first;
    int            row, rows, n;
    const char    *x;
    char          *y;
    const int64_t *x_at, *y_at;
    int            columns;

    __device__ const char *column(int c) const { return x + x_at[c]; }
    __device__ float      *result(int c) const { return (float *)(y + y_at[c]); }
};

/* Shared memory of a block. Entry i of sub-block s: scales[s][i], rows padded so that warps store to different
 * banks. */
template <RpDtype T, class S> struct TileShared {
    static constexpr int A_STRIDE = S::ROWS + RP_TILE_PAD, B_STRIDE = S::COLUMNS + RP_TILE_PAD;
    char                *a, *b;
    float               *a_scale, *a_min, *b_scale, *b_sum;
};

/* q - offset in each byte, as int8; bytes of 0 to 127, so nothing is borrowed. */
__device__ unsigned rp_tile_signed(unsigned q, unsigned offset) { return ((q | 0x80808080u) - offset) ^ 0x80808080u; }

/* Run g of a row, 32 elements, as a run of a fragment (quants.cuh). K types: runs j and j + 4 of a block of 8 are those
 * of fragment j, so a thread that multiplies one of them loads both. */
template <RpDtype T> struct TileRun {
    static constexpr bool PAIRS = Blocks<T>::RUNS == 2;
    int                   fragment;
    bool                  second; /* the second run of the fragment */
    __device__ explicit TileRun(int g) : fragment(PAIRS ? g / 8 * 4 + g % 4 : g), second(PAIRS && g % 8 >= 4) {}
};

/* The part of the next stage that a thread has in registers. */
template <RpDtype T, class S> struct TileStage {
    static constexpr int    PARTS = 32 / TileType<T>::SUB; /* minima of a run, and sums of the columns */
    typename Blocks<T>::Raw raw[S::RUNS];
    uint4                   q[S::CHUNKS];
    float                   scale[S::SCALES], sum[S::SCALES][PARTS];

    /* Run i of the thread: row idx / SUBS of the tile, run idx % SUBS of the stage. */
    __device__ static int index(int i) { return (int)threadIdx.x + i * S::THREADS; }

    __device__ void load(const TileWork &w, int k0) {
        const int n_runs = w.n / RP_RUN;
#pragma unroll
        for (int i = 0; i < S::RUNS; i++) {
            const int     m = w.row + index(i) / S::SUBS, g = k0 / RP_RUN + index(i) % S::SUBS;
            const int64_t row = w.first + (m < w.rows ? m : w.rows - 1);
            raw[i]            = Blocks<T>::load(Blocks<T>::row(w.planes, row * (w.n / QuantType<T>::FRAG)),
                                                (unsigned)TileRun<T>(g < n_runs ? g : n_runs - 1).fragment);
        }
        load_columns(w, k0);
    }

    /* Word j of sum block k < 2 of a run, four int8. */
    __device__ static unsigned quants(const FragmentOf<T> &v, bool second, int k, int j) {
        constexpr int  LAST = 2 * Blocks<T>::RUNS - 2;
        const unsigned q    = (unsigned)(second ? v.q[LAST + k][j] : v.q[k][j]);
        if (Blocks<T>::MINUS) return rp_tile_signed(q, (unsigned)v.minus[k][j]);
        const bool     high  = (int)Blocks<T>::FIRST == 16 ? k == 1 : (int)Blocks<T>::SECOND == 16 && second;
        const unsigned small = high ? q >> 4 & 0x0f0f0f0fu : q;
        return TileType<T>::OFFSET == 0 ? small : rp_tile_signed(small, TileType<T>::OFFSET);
    }

    /* Their scale. */
    __device__ static float scale_of(const FragmentOf<T> &v, bool second, int k) {
        constexpr int LAST = 2 * Blocks<T>::RUNS - 2;
        const float   s    = second ? v.scale[Blocks<T>::RUNS - 1] : v.scale[0];
        if (Blocks<T>::SUB_SCALES) return s * (float)(second ? v.sub[LAST + k] : v.sub[k]);
        return s * (float)((int)Blocks<T>::FIRST * (second ? (int)Blocks<T>::SECOND : 1));
    }

    __device__ static float min_of(const FragmentOf<T> &v, bool second, int k) {
        constexpr int LAST = 2 * Blocks<T>::RUNS - 2;
        if (Blocks<T>::SUB_MINS) return second ? v.sub_min[LAST + k] : v.sub_min[k];
        return second ? v.min[Blocks<T>::RUNS - 1] : v.min[0];
    }

    __device__ void load_columns(const TileWork &w, int k0) {
        const int used = (w.columns + 7) / 8 * 8; /* groups of 8 that are multiplied */
#pragma unroll
        for (int i = 0; i < S::CHUNKS; i++) {
            const int c = index(i) / (S::K / 16), at = k0 + 16 * (index(i) % (S::K / 16));
            q[i] = make_uint4(0, 0, 0, 0);
            if (c >= used || at >= w.n) continue;
            const char *p = w.column(c) + at;
            if ((uintptr_t)p % 16 == 0) {
                q[i] = rp_get16(p);
            } else {
                const unsigned *v = (const unsigned *)p;
                q[i]              = make_uint4(v[0], v[1], v[2], v[3]);
            }
        }
#pragma unroll
        for (int i = 0; i < S::SCALES; i++) {
            const int c = index(i) / S::SUBS, s = k0 / 32 + index(i) % S::SUBS;
            scale[i] = 0.0f;
            for (int p = 0; p < PARTS; p++) sum[i][p] = 0.0f;
            if (c >= used || s >= w.n / 32) continue;
            const float *scales = (const float *)(w.column(c) + w.n), *sums = scales + w.n / 32;
            scale[i] = scales[s];
            if (!TileType<T>::MINS) continue;
            if (PARTS == 1)
                sum[i][0] = sums[2 * s] + sums[2 * s + 1];
            else
                for (int p = 0; p < PARTS; p++) sum[i][p] = sums[2 * s + p];
        }
    }

    __device__ void store(const TileWork &w, const TileShared<T, S> &to, int k0) const {
        constexpr int SUM_BLOCKS = TileType<T>::SUB / RP_SUM_BLOCK; /* of a sub-block */
#pragma unroll
        for (int i = 0; i < S::RUNS; i++) {
            const int           row = index(i) / S::SUBS, run = index(i) % S::SUBS, g = k0 / RP_RUN + run;
            const bool          valid = g < w.n / RP_RUN; /* past the end of the rows scales are 0 */
            const TileRun<T>    at(g);
            const FragmentOf<T> v = Blocks<T>::dequantize(raw[i], typename Blocks<T>::Lane(at.fragment));
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const int chunk = 2 * run + k;
                unsigned  q[4];
                for (int j = 0; j < 4; j++) q[j] = quants(v, at.second, k, j);
                rp_put16(to.a + row * S::K + (chunk ^ (row & 7)) * 16, make_uint4(q[0], q[1], q[2], q[3]));
                if (chunk % SUM_BLOCKS != 0) continue;
                const int to_sub   = chunk / SUM_BLOCKS * to.A_STRIDE + row;
                to.a_scale[to_sub] = valid ? scale_of(v, at.second, k) : 0.0f;
                if (TileType<T>::MINS) to.a_min[to_sub] = valid ? min_of(v, at.second, k) : 0.0f;
            }
        }
#pragma unroll
        for (int i = 0; i < S::CHUNKS; i++) {
            const int c = index(i) / (S::K / 16), at = index(i) % (S::K / 16);
            rp_put16(to.b + c * S::K + (at ^ (c & 7)) * 16, q[i]);
        }
#pragma unroll
        for (int i = 0; i < S::SCALES; i++) {
            const int at   = index(i) % S::SUBS * to.B_STRIDE + index(i) / S::SUBS;
            to.b_scale[at] = scale[i];
            if (!TileType<T>::MINS) continue;
            const int first = index(i) % S::SUBS * PARTS * to.B_STRIDE + index(i) / S::SUBS;
            for (int p = 0; p < PARTS; p++) to.b_sum[first + p * to.B_STRIDE] = sum[i][p];
        }
    }
};

/* The warp's results: acc[i][j][e] is element e of d (mma.cuh) for row group i and column group j. */
template <RpDtype T, class S> struct TileSums {
    float acc[S::MT][S::NT][4];

    __device__ static int row_of(int i) { return ((int)threadIdx.x / RP_WARP % S::ROW_WARPS * S::MT + i) * 16; }
    __device__ static int column_of(int j) {
        return (j * S::COLUMN_WARPS + (int)threadIdx.x / RP_WARP / S::ROW_WARPS) * 8;
    }

    /* Adds sub-block s of the stage: 32 elements of every row and column. */
    __device__ void add(const TileWork &w, const TileShared<T, S> &from, int s) {
        constexpr int PARTS = 32 / TileType<T>::SUB; /* scales of a row */
        const int     lane = (int)threadIdx.x % RP_WARP, g = lane / 4, t = lane % 4;
        unsigned      a[S::MT][4];
        float         scale[S::MT][PARTS][2], min[S::MT][PARTS][2];
#pragma unroll
        for (int i = 0; i < S::MT; i++) {
            const int row = row_of(i) + lane % 16, at = row_of(i) + g;
            rp_ldmatrix_x4(a[i], from.a + row * S::K + ((2 * s + lane / 16) ^ (row & 7)) * 16);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                for (int p = 0; p < PARTS; p++) {
                    const int entry = (PARTS * s + p) * from.A_STRIDE + at + 8 * h;
                    scale[i][p][h]  = from.a_scale[entry];
                    min[i][p][h]    = TileType<T>::MINS ? from.a_min[entry] : 0.0f;
                }
            }
        }
#pragma unroll
        for (int j = 0; j < S::NT; j++) {
            const int c = column_of(j);
            if (c >= w.columns) continue;
            unsigned b[2];
            float    x_scale[2], x_sum[PARTS][2];
            rp_ldmatrix_x2(b, from.b + (c + lane % 8) * S::K + ((2 * s + lane / 8 % 2) ^ (lane % 8)) * 16);
            for (int h = 0; h < 2; h++) {
                x_scale[h] = from.b_scale[s * from.B_STRIDE + c + 2 * t + h];
                for (int p = 0; p < PARTS; p++)
                    x_sum[p][h] =
                        TileType<T>::MINS ? from.b_sum[(PARTS * s + p) * from.B_STRIDE + c + 2 * t + h] : 0.0f;
            }
#pragma unroll
            for (int i = 0; i < S::MT; i++) {
                multiply(acc[i][j], a[i], b, scale[i], x_scale);
                for (int p = 0; p < PARTS && TileType<T>::MINS; p++)
                    for (int e = 0; e < 4; e++) acc[i][j][e] = fmaf(min[i][p][e / 2], x_sum[p][e % 2], acc[i][j][e]);
            }
        }
    }

    /* Sub-blocks of 32. */
    __device__ static void multiply(float (&to)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                    const float (&scale)[1][2], const float (&x_scale)[2]) {
        int dot[4];
        rp_mma_s8_first(dot, a, b);
        for (int e = 0; e < 4; e++) to[e] = fmaf(scale[0][e / 2] * x_scale[e % 2], (float)dot[e], to[e]);
    }

    /* Two sub-blocks of 16: one product with the other half of b set to zero each. */
    __device__ static void multiply(float (&to)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                    const float (&scale)[2][2], const float (&x_scale)[2]) {
        int            low[4], high[4];
        const unsigned b_low[2] = {b[0], 0}, b_high[2] = {0, b[1]};
        rp_mma_s8_first(low, a, b_low);
        rp_mma_s8_first(high, a, b_high);
        for (int e = 0; e < 4; e++) {
            const float both = fmaf(scale[1][e / 2], (float)high[e], __fmul_rn(scale[0][e / 2], (float)low[e]));
            to[e]            = fmaf(x_scale[e % 2], both, to[e]);
        }
    }

    __device__ void put(const TileWork &w) const {
        const int lane = (int)threadIdx.x % RP_WARP;
        for (int i = 0; i < S::MT; i++)
            for (int j = 0; j < S::NT; j++)
                for (int e = 0; e < 4; e++) {
                    const int m = w.row + row_of(i) + lane / 4 + 8 * (e / 2);
                    const int c = column_of(j) + 2 * (lane % 4) + e % 2;
                    if (m < w.rows && c < w.columns) w.result(c)[m] = acc[i][j][e];
                }
    }
};

/* The product of a block. Every thread calls it; x_at and y_at are written before a barrier. */
template <RpDtype T, class S> __device__ void rp_tile_product(const TileWork &w) {
    constexpr int            SCALES = S::K / TileType<T>::SUB;
    typedef TileShared<T, S> Shared;
    RP_SHARED(uint4, a, [S::ROWS * S::K / 16]);
    RP_SHARED(uint4, b, [S::COLUMNS * S::K / 16]);
    RP_SHARED(float, a_scale, [SCALES * Shared::A_STRIDE]);
    RP_SHARED(float, a_min, [TileType<T>::MINS ? SCALES * Shared::A_STRIDE : 1]);
    RP_SHARED(float, b_scale, [S::SUBS * Shared::B_STRIDE]);
    RP_SHARED(float, b_sum, [TileType<T>::MINS ? SCALES * Shared::B_STRIDE : 1]);
    const Shared    shared = {(char *)a, (char *)b, a_scale, a_min, b_scale, b_sum};
    TileStage<T, S> stage;
    TileSums<T, S>  sums = {};
    stage.load(w, 0);
    for (int k0 = 0; k0 < w.n; k0 += S::K) {
        if (k0 > 0) __syncthreads(); /* all warps have multiplied the stage before */
        stage.store(w, shared, k0);
        __syncthreads();
        if (k0 + S::K < w.n) stage.load(w, k0 + S::K);
#pragma unroll(TileType <T>::UNROLL)
        for (int s = 0; s < S::SUBS; s++) sums.add(w, shared, s);
    }
    sums.put(w);
}

/* Results of no expert. */
template <class S> __device__ void rp_tile_zeros(const TileWork &w) {
    for (int i = (int)threadIdx.x; i < S::ROWS * w.columns; i += S::THREADS)
        if (w.row + i % S::ROWS < w.rows) w.result(i / S::ROWS)[w.row + i % S::ROWS] = 0.0f;
}

} // namespace
#endif
