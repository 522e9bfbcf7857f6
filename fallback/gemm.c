/* y[j,i,s] = alpha * sum_k a[k,i,s] * b[j,k,s] + beta * c[j,i,s], a row-major product of f32 matrices. The loops
 * of BLIS (Van Zee, van de Geijn 2015), from outside:
 *
 *     unit      BLOCK_ROWS x BLOCK_COLS results, which one worker computes
 *     slice     SLICE terms k. This part of b is packed in panels of PANEL columns: [panel][k][column]
 *     strip     STRIP rows of a, packed: [row][k], or [k][row] where the terms of a row are apart in memory
 *     tile      strip times panel, summed in registers
 *
 * One row is multiplied without them (one_row), since each element of b is used once.
 *
 * The sum of a slice is one chain of fma in the order of k; slices are added in order, y = fma(alpha, sum, y),
 * beginning with beta * c. Neither instruction set nor number of workers changes that order (I8). */
#include "fallback/gemm.h"
#include "fallback/simd/simd.h"

#include <math.h>
#include <stdalign.h>
#include <string.h>

#if defined(RP_X86)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { BLOCK_ROWS = RP_GEMM_ROWS, BLOCK_COLS = RP_GEMM_COLS, SLICE = RP_GEMM_TERMS, STRIP = RP_GEMM_STRIP };
enum { PANEL = 32, PANELS = BLOCK_COLS / PANEL };
enum { CACHE_LINE = 16 /* floats */ };

/* tile[r][j] = sum of a(r,k) * b[k][j] over k < n, at least for r < rows; a(r,k) is a[r * SLICE + k], or in
 * `turned` functions a[k * STRIP + r]. Rows of b are `stride` floats long. */
typedef void TileFunction(const float *a, const float *b, int64_t stride, int64_t n, int rows, float *tile);

RP_BODY void plain_tile(const float *a, int along_r, int along_k, const float *b, int64_t stride, int64_t n, int rows,
                        float *tile) {
    memset(tile, 0, STRIP * PANEL * sizeof *tile);
    for (int r = 0; r < rows; r++)
        for (int64_t k = 0; k < n; k++)
            for (int j = 0; j < PANEL; j++)
                tile[r * PANEL + j] = fmaf(a[r * along_r + k * along_k], b[k * stride + j], tile[r * PANEL + j]);
}
static void tile_plain(const float *a, const float *b, int64_t stride, int64_t n, int rows, float *tile) {
    plain_tile(a, SLICE, 1, b, stride, n, rows, tile);
}
static void tile_plain_turned(const float *a, const float *b, int64_t stride, int64_t n, int rows, float *tile) {
    plain_tile(a, 1, STRIP, b, stride, n, rows, tile);
}

/* Sub-tiles of rows x vectors whose accumulators fill the registers. */
#define TILES(isa, ...) TILE(isa, SLICE, 1, __VA_ARGS__) TILE(isa##_turned, 1, STRIP, __VA_ARGS__)
#define TILE(isa, ALONG_R, ALONG_K, target, Vector, LANES, ROWS, VECTORS, zero, load, spread, fma, store)              \
    target static void tile_##isa(const float *a, const float *b, int64_t stride, int64_t n, int rows, float *tile) {  \
        for (int r0 = 0; r0 < rows; r0 += ROWS)                                                                        \
            for (int j0 = 0; j0 < PANEL; j0 += VECTORS * LANES) {                                                      \
                Vector sum[ROWS][VECTORS];                                                                             \
                for (int r = 0; r < ROWS; r++)                                                                         \
                    for (int v = 0; v < VECTORS; v++) sum[r][v] = zero;                                                \
                for (int64_t k = 0; k < n; k++) {                                                                      \
                    Vector of_b[VECTORS];                                                                              \
                    for (int v = 0; v < VECTORS; v++) of_b[v] = load(b + k * stride + j0 + v * LANES);                 \
                    for (int r = 0; r < ROWS; r++) {                                                                   \
                        const Vector of_a = spread(a[(r0 + r) * ALONG_R + k * ALONG_K]);                               \
                        for (int v = 0; v < VECTORS; v++) sum[r][v] = fma(of_a, of_b[v], sum[r][v]);                   \
                    }                                                                                                  \
                }                                                                                                      \
                for (int r = 0; r < ROWS; r++)                                                                         \
                    for (int v = 0; v < VECTORS; v++) store(tile + (r0 + r) * PANEL + j0 + v * LANES, sum[r][v]);      \
            }                                                                                                          \
    }
#if defined(RP_X86)
TILES(avx2, RP_TARGET_AVX2, __m256, 8, 6, 2, _mm256_setzero_ps(), _mm256_loadu_ps, _mm256_set1_ps, _mm256_fmadd_ps,
      _mm256_storeu_ps)
TILES(avx512_few, RP_TARGET_AVX512, __m512, 16, 4, 2, _mm512_setzero_ps(), _mm512_loadu_ps, _mm512_set1_ps,
      _mm512_fmadd_ps, _mm512_storeu_ps)
TILES(avx512, RP_TARGET_AVX512, __m512, 16, 12, 2, _mm512_setzero_ps(), _mm512_loadu_ps, _mm512_set1_ps,
      _mm512_fmadd_ps, _mm512_storeu_ps)
#elif defined(__aarch64__)
RP_BODY float32x4_t multiply_add(float32x4_t x, float32x4_t y, float32x4_t sum) { return vfmaq_f32(sum, x, y); }
TILES(neon, , float32x4_t, 4, 6, 4, vdupq_n_f32(0.0f), vld1q_f32, vdupq_n_f32, multiply_add, vst1q_f32)
#endif

static TileFunction *tile_function(int64_t rows, bool turned) {
#if defined(RP_X86)
    const RpCpuIsa isa = rp_cpu_isa();
    if (isa == RP_ISA_AVX512_VNNI && rows > 4) return turned ? tile_avx512_turned : tile_avx512;
    if (isa == RP_ISA_AVX512_VNNI) return turned ? tile_avx512_few_turned : tile_avx512_few;
    if (isa == RP_ISA_AVX2) return turned ? tile_avx2_turned : tile_avx2;
#elif defined(__aarch64__)
    if (rp_cpu_isa() != RP_ISA_PLAIN) return turned ? tile_neon_turned : tile_neon;
#endif
    (void)rows;
    return turned ? tile_plain_turned : tile_plain;
}

/* y = fma(alpha, tile, keep * from) for rows x columns; from NULL: 0 is kept. */
typedef struct Merge {
    float        alpha, keep;
    const float *from;
    float       *y;
    int64_t      from_stride, y_stride; /* floats */
    int          rows, columns;
} Merge;

RP_BODY void merge_body(const Merge *m, const float *tile) {
    for (int r = 0; r < m->rows; r++) {
        float *y = m->y + r * m->y_stride;
        if (m->from == NULL)
            for (int j = 0; j < m->columns; j++) y[j] = fmaf(m->alpha, tile[r * PANEL + j], 0.0f);
        else {
            const float *from = m->from + r * m->from_stride;
            for (int j = 0; j < m->columns; j++) y[j] = fmaf(m->alpha, tile[r * PANEL + j], m->keep * from[j]);
        }
    }
}
RP_VARIANTS(merge, (const Merge *m, const float *tile), (m, tile))

static int smaller(int64_t a, int b) { return a < b ? (int)a : b; }

static int64_t floats(size_t bytes) { return (int64_t)(bytes / sizeof(float)); }

/* Columns [0, columns) and terms [0, n) of matrix b, from `at` on: panels[column / PANEL][k][column % PANEL], with
 * zeros past the last column. */
static void pack_panels(const RpTensorView *b, const float *at, int64_t n, int columns,
                        float (*panels)[SLICE * PANEL]) {
    const int64_t along_j = floats(b->nb[0]), along_k = floats(b->nb[1]);
    if (columns % PANEL != 0) memset(panels[columns / PANEL], 0, sizeof *panels);
    if (along_j == 1)
        for (int64_t k = 0; k < n; k++) {
            const float *from = at + k * along_k;
            int          j    = 0;
            for (; j + PANEL <= columns; j += PANEL)
                memcpy(panels[j / PANEL] + k * PANEL, from + j, PANEL * sizeof *from);
            for (int r = j; r < columns; r++) panels[j / PANEL][k * PANEL + r - j] = from[r];
        }
    else
        for (int j = 0; j < columns; j++)
            for (int64_t k = 0; k < n; k++) panels[j / PANEL][k * PANEL + j % PANEL] = at[j * along_j + k * along_k];
}

/* Rows [0, rows) and terms [0, n) of matrix a, from `at` on: strip[row][SLICE]. The rows behind them, which come
 * next, are prefetched. */
static void pack_strip(const RpTensorView *a, const float *at, int64_t n, int rows, int more, float *strip) {
    const int64_t along_i = floats(a->nb[1]);
    for (int r = 0; r < rows; r++) memcpy(strip + r * SLICE, at + r * along_i, (size_t)n * sizeof *strip);
    for (int r = rows; r < rows + more; r++)
        for (int64_t k = 0; k < n; k += CACHE_LINE) __builtin_prefetch(at + r * along_i + k);
}

typedef float Strip[STRIP * SLICE];

/* Rows [0, rows) and terms [0, n) of a matrix whose terms are apart, from `at` on:
 * strips[row / STRIP][k][row % STRIP]. All strips at once, so that rows that are neighbours in
 * memory are read together. */
static void pack_turned(const RpTensorView *a, const float *at, int64_t n, int rows, Strip *strips) {
    const int64_t along_k = floats(a->nb[0]), along_i = floats(a->nb[1]);
    for (int64_t k = 0; k < n; k++) {
        const float *from = at + k * along_k;
        int          r    = 0;
        for (; along_i == 1 && r + STRIP <= rows; r += STRIP)
            memcpy(strips[r / STRIP] + k * STRIP, from + r, STRIP * sizeof *from);
        for (; r < rows; r++) strips[r / STRIP][k * STRIP + r % STRIP] = from[r * along_i];
    }
}

/* Results [i0, i1) x [j0, j1) of batch s. */
typedef struct Unit {
    int64_t i0, i1, j0, j1, s;
} Unit;

static const float *element(const RpTensorView *v, int64_t i0, int64_t i1, int64_t s) {
    return (const float *)(const void *)((const char *)v->data + (size_t)i0 * v->nb[0] + (size_t)i1 * v->nb[1] +
                                         (size_t)s * v->nb[2]);
}

/* The sum of a slice is added to beta * c (the first slice) or to the sum of the slices before it. */
static Merge merge_at(const RpOpArgs *args, const Unit *u, int64_t k0, int64_t i, int64_t j) {
    const RpGemmParams *p = &args->params->gemm;
    const RpTensorView *c = &args->gemm.c, *y = &args->dst;
    Merge               m = {.alpha = p->alpha, .keep = 1.0f};
    m.y                   = (float *)(void *)((char *)y->data + (size_t)i * y->nb[1] + (size_t)u->s * y->nb[2]) + j;
    m.y_stride            = floats(y->nb[1]);
    m.from                = m.y;
    m.from_stride         = m.y_stride;
    m.rows                = smaller(u->i1 - i, STRIP);
    m.columns             = smaller(u->j1 - j, PANEL);
    if (k0 > 0) return m;
    m.keep        = p->beta;
    m.from        = p->beta != 0.0f && rp_is_present(c) ? element(c, j, i, u->s) : NULL;
    m.from_stride = floats(c->nb[1]);
    return m;
}

/* Each element of b is used once for every strip: with a single one, whole panels are read where they are. */
static bool is_packed(const RpTensorView *b, const Unit *u) {
    return u->i1 - u->i0 > STRIP || b->nb[0] != sizeof(float) || (u->j1 - u->j0) % PANEL != 0;
}

static void compute(const RpOpArgs *args, const Unit *u) {
    const RpTensorView *a = &args->gemm.a, *b = &args->gemm.b;
    const int64_t       n_k    = args->params->gemm.alpha != 0.0f ? a->ne[0] : 0;
    const bool          packed = is_packed(b, u), turned = a->nb[0] != sizeof(float);
    TileFunction       *tile_of = tile_function(u->i1 - u->i0, turned);
    alignas(64) float   panels[PANELS][SLICE * PANEL], tile[STRIP * PANEL];
    alignas(64) Strip   strips[BLOCK_ROWS / STRIP];
    /* rows past the last one are multiplied too */
    memset(strips, 0, turned ? (size_t)(u->i1 - u->i0 + STRIP - 1) / STRIP * sizeof *strips : sizeof *strips);
    for (int64_t k0 = 0; k0 == 0 || k0 < n_k; k0 += SLICE) {
        const int64_t n    = smaller(n_k - k0, SLICE);
        const float  *from = n > 0 ? element(b, u->j0, k0, u->s) : NULL;
        if (n > 0 && packed) pack_panels(b, from, n, (int)(u->j1 - u->j0), panels);
        if (n > 0 && turned) pack_turned(a, element(a, k0, u->i0, u->s), n, (int)(u->i1 - u->i0), strips);
        for (int64_t i = u->i0; i < u->i1; i += STRIP) {
            const int rows  = smaller(u->i1 - i, STRIP);
            float    *strip = strips[turned ? (i - u->i0) / STRIP : 0];
            if (n > 0 && !turned)
                pack_strip(a, element(a, k0, i, u->s), n, rows, smaller(u->i1 - i - rows, STRIP), strip);
            for (int64_t j = 0; j < u->j1 - u->j0; j += PANEL) {
                const Merge m = merge_at(args, u, k0, i, u->j0 + j);
                if (packed || n == 0)
                    tile_of(strip, panels[j / PANEL], PANEL, n, rows, tile);
                else
                    tile_of(strip, from + j, floats(b->nb[1]), n, rows, tile);
                merge(&m, tile);
            }
        }
    }
}

/* Rows of a unit: BLOCK_ROWS or fewer, so that units have about the same size and the workers about the same
 * number of them. */
static int64_t unit_rows(int64_t m, int64_t others, int nth) {
    int64_t down = (m + BLOCK_ROWS - 1) / BLOCK_ROWS;
    while (others * down % nth != 0 && others * down < 4 * (int64_t)nth && down * STRIP < m) down++;
    return (m + down * STRIP - 1) / (down * STRIP) * STRIP;
}

/* ---- one row: b is read once, in the order of memory ---- */

enum { ROW_COLS = 2048, AT_ONCE = 4 };

/* sums[j] += a[0] b[0][j], then a[1] b[1][j], ... Prefetches the rows behind them. */
RP_BODY void add_rows_body(const float *a, const float *restrict b, int64_t stride, int columns, float *restrict sums) {
    const float terms[AT_ONCE] = {a[0], a[1], a[2], a[3]};
    int         j              = 0;
    for (; j + CACHE_LINE <= columns; j += CACHE_LINE) {
        for (int k = AT_ONCE; k < 2 * AT_ONCE; k++) __builtin_prefetch(b + k * stride + j, 0, 2);
        for (int l = j; l < j + CACHE_LINE; l++)
            for (int k = 0; k < AT_ONCE; k++) sums[l] = fmaf(terms[k], b[k * stride + l], sums[l]);
    }
    for (; j < columns; j++)
        for (int k = 0; k < AT_ONCE; k++) sums[j] = fmaf(terms[k], b[k * stride + j], sums[j]);
}
RP_VARIANTS(add_rows, (const float *a, const float *b, int64_t stride, int columns, float *sums),
            (a, b, stride, columns, sums))

RP_BODY void add_row_body(float a, const float *b, int columns, float *sums) {
    for (int j = 0; j < columns; j++) sums[j] = fmaf(a, b[j], sums[j]);
}
RP_VARIANTS(add_row, (float a, const float *b, int columns, float *sums), (a, b, columns, sums))

/* Terms [k0, k0 + n) of the results of u. */
static void sum_slice(const RpOpArgs *args, const Unit *u, int64_t k0, int64_t n, float *sums) {
    const RpTensorView *a = &args->gemm.a, *b = &args->gemm.b;
    const int           columns = (int)(u->j1 - u->j0);
    float               terms[SLICE];
    memset(sums, 0, (size_t)columns * sizeof *sums);
    for (int64_t k = 0; k < n; k++) terms[k] = *element(a, k0 + k, 0, u->s);
    int64_t k = 0;
    for (; k + AT_ONCE <= n; k += AT_ONCE)
        add_rows(terms + k, element(b, u->j0, k0 + k, u->s), floats(b->nb[1]), columns, sums);
    for (; k < n; k++) add_row(terms[k], element(b, u->j0, k0 + k, u->s), columns, sums);
}

/* Matrix s. The workers share its columns, whole cache lines each. */
static void one_row(const RpOpArgs *args, const RpKernelCtx *ctx, int64_t s) {
    const int64_t     n = args->dst.ne[0], lines = (n + CACHE_LINE - 1) / CACHE_LINE;
    const int64_t     n_k = args->params->gemm.alpha != 0.0f ? args->gemm.a.ne[0] : 0;
    const int64_t     end = lines * (ctx->ith + 1) / ctx->nth * CACHE_LINE;
    alignas(64) float sums[ROW_COLS];
    for (int64_t j = lines * ctx->ith / ctx->nth * CACHE_LINE; j < end && j < n; j += ROW_COLS) {
        const int64_t most = end < n ? end - j : n - j;
        const Unit    u    = {.i1 = 1, .j0 = j, .j1 = j + smaller(most, ROW_COLS), .s = s};
        for (int64_t k0 = 0; k0 == 0 || k0 < n_k; k0 += SLICE) {
            Merge m   = merge_at(args, &u, k0, 0, j);
            m.columns = (int)(u.j1 - u.j0);
            sum_slice(args, &u, k0, smaller(n_k - k0, SLICE), sums);
            merge(&m, sums);
        }
    }
}

RpStatus rp_cpu_gemm(const RpOpArgs *args, RpKernelCtx *ctx) {
    RP_TRY(RP_CHECK(gemm, args));
    if (args->dst.ne[1] == 1 && args->gemm.b.nb[0] == sizeof(float)) {
        for (int64_t s = 0; s < args->dst.ne[2]; s++) one_row(args, ctx, s);
        return RP_OK;
    }
    const int64_t n = args->dst.ne[0], m = args->dst.ne[1];
    const int64_t across = (n + BLOCK_COLS - 1) / BLOCK_COLS;
    const int64_t rows = unit_rows(m, across * args->dst.ne[2], ctx->nth), down = (m + rows - 1) / rows;
    const int64_t units = across * down * args->dst.ne[2];
    for (int64_t i = units * ctx->ith / ctx->nth; i < units * (ctx->ith + 1) / ctx->nth; i++) {
        const int64_t row = i / across % down * rows, column = i % across * BLOCK_COLS;
        const Unit    u = {.i0 = row,
                           .i1 = row + smaller(m - row, (int)rows),
                           .j0 = column,
                           .j1 = column + smaller(n - column, BLOCK_COLS),
                           .s  = i / (across * down)};
        compute(args, &u);
    }
    return RP_OK;
}

void rp_gemm_block(const float *a, int64_t row, int64_t term, const RpTensorView *b, bool add, const RpTensorView *y) {
    const RpOpParams p = {
        .gemm = {.alpha = 1.0f, .beta = add ? 1.0f : 0.0f}
    };
    RpOpArgs args = {
        .dst    = *y,
        .src    = {{.dtype = RP_F32}, *b, *y},
        .params = &p,
    };
    args.gemm.a.data  = (void *)(uintptr_t)a;
    args.gemm.a.ne[0] = b->ne[1], args.gemm.a.ne[1] = y->ne[1];
    args.gemm.a.nb[0] = (size_t)term * sizeof *a, args.gemm.a.nb[1] = (size_t)row * sizeof *a;
    compute(&args, &(Unit){.i1 = y->ne[1], .j1 = y->ne[0]});
}
