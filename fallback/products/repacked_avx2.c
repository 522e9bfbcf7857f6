/* Repacked weights (repack.h) times a column group for AVX2, without a panel, bit for bit as dot.h.
 *
 * A lane is a row, 16 rows are two registers (sides), and up to 4 columns are multiplied at a time, as in dot_avx2.c.
 * The products of a run of quads are added in 16 bits: VPMADDUBSW adds two to a lane. */
#include "fallback/products/blocks_x86.h"
#include "fallback/products/repack.h"

#ifdef RP_X86
#define INLINE INLINE_AVX2

enum { COLS = 4, SIDES = 2, LANES = 8, SIGNED = 128, FULL = 32767 };

/* What the sub-blocks of a k-step share. */
typedef struct Header {
    __m256 d[SIDES], min[SIDES];
} Header;

typedef void    HeaderOf(const char *block, Header *out);
typedef __m256i QuadOf(const char *block, int u, int j, int k, int side); /* j = u % 4, a constant once unrolled */
typedef __m256  ScaleOf(const char *block, const Header *h, int u, int side);

typedef struct RepackedType {
    HeaderOf *header; /* of a block; of types in blocks of 32 it is called for each sub-block */
    QuadOf   *quad;
    ScaleOf  *scale, *min;
    size_t    bytes; /* of a block of 16 rows */
    int       subs;  /* of a block */
    int       run;   /* quads whose products are added in 16 bits */
    int       raise; /* what quads of a type with offset 128 have been raised by; 0: they are signed */
    QuantForm form;
} RepackedType;

/* ---- types ---- */

INLINE __m256 eight_halves(const uint16_t *p) { return _mm256_cvtph_ps(load16(p)); }

INLINE __m256 eight_bytes(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)));
}

INLINE __m256 eight_signed(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)));
}

INLINE __m256i nibbles(const uint8_t *p, int high) {
    const __m256i v = load32(p);
    return _mm256_and_si256(high ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15));
}

/* Bits 2j and 2j + 1 of 32 bytes. */
INLINE __m256i two_bits(const uint8_t *p, int j) {
    return _mm256_and_si256(_mm256_srli_epi16(load32(p), 2 * j), _mm256_set1_epi8(3));
}

INLINE void repacked_header_q4_0(const char *block, Header *h) {
    const RepackedQ4_0 *b = (const void *)block;
    for (int s = 0; s < SIDES; s++) h->d[s] = eight_halves(b->d + LANES * s);
}
INLINE __m256i repacked_quad_q4_0(const char *block, int u, int j, int k, int side) {
    const RepackedQ4_0 *b = (const void *)block;
    (void)u, (void)j;
    return nibbles(b->q[k % 4][LANES * side], k >= 4);
}
INLINE __m256 scale_q4_0(const char *block, const Header *h, int u, int side) {
    (void)block, (void)u;
    return h->d[side];
}
#define min_q4_0 NULL

INLINE void repacked_header_q4_1(const char *block, Header *h) {
    const RepackedQ4_1 *b = (const void *)block;
    for (int s = 0; s < SIDES; s++) {
        h->d[s]   = eight_halves(b->d + LANES * s);
        h->min[s] = eight_halves(b->m + LANES * s);
    }
}
INLINE __m256i repacked_quad_q4_1(const char *block, int u, int j, int k, int side) {
    const RepackedQ4_1 *b = (const void *)block;
    (void)u, (void)j;
    return nibbles(b->q[k % 4][LANES * side], k >= 4);
}
#define scale_q4_1 scale_q4_0
INLINE __m256 min_q4_1(const char *block, const Header *h, int u, int side) {
    (void)block, (void)u;
    return h->min[side];
}

/* Quad k of a block of 32 with fifth bits. */
INLINE __m256i five_bits(const uint8_t *q, const uint8_t *high, int k) {
    const __m256i v  = load32(high);
    const __m256i up = k < 4 ? _mm256_slli_epi16(v, 4 - k) : _mm256_srli_epi16(v, k - 4);
    return _mm256_or_si256(nibbles(q, k >= 4), _mm256_and_si256(up, _mm256_set1_epi8(0x10)));
}

INLINE void repacked_header_q5_0(const char *block, Header *h) {
    const RepackedQ5_0 *b = (const void *)block;
    for (int s = 0; s < SIDES; s++) h->d[s] = eight_halves(b->d + LANES * s);
}
INLINE __m256i repacked_quad_q5_0(const char *block, int u, int j, int k, int side) {
    const RepackedQ5_0 *b = (const void *)block;
    (void)u, (void)j;
    return five_bits(b->q[k % 4][LANES * side], b->high[LANES * side], k);
}
#define scale_q5_0 scale_q4_0
#define min_q5_0   NULL

INLINE void repacked_header_q5_1(const char *block, Header *h) {
    const RepackedQ5_1 *b = (const void *)block;
    for (int s = 0; s < SIDES; s++) {
        h->d[s]   = eight_halves(b->d + LANES * s);
        h->min[s] = eight_halves(b->m + LANES * s);
    }
}
INLINE __m256i repacked_quad_q5_1(const char *block, int u, int j, int k, int side) {
    const RepackedQ5_1 *b = (const void *)block;
    (void)u, (void)j;
    return five_bits(b->q[k % 4][LANES * side], b->high[LANES * side], k);
}
#define scale_q5_1 scale_q4_0
#define min_q5_1   min_q4_1

INLINE void repacked_header_q8_0(const char *block, Header *h) {
    const RepackedQ8_0 *b = (const void *)block;
    for (int s = 0; s < SIDES; s++) h->d[s] = eight_halves(b->d + LANES * s);
}
INLINE __m256i repacked_quad_q8_0(const char *block, int u, int j, int k, int side) {
    const RepackedQ8_0 *b = (const void *)block;
    (void)u, (void)j;
    return load32(b->q[k][LANES * side]);
}
#define scale_q8_0 scale_q4_0
#define min_q8_0   NULL

INLINE void repacked_header_q4_k(const char *block, Header *h) {
    const RepackedQ4_K *b = (const void *)block;
    for (int s = 0; s < SIDES; s++) {
        h->d[s]   = eight_halves(b->d + LANES * s);
        h->min[s] = _mm256_xor_ps(eight_halves(b->dmin + LANES * s), _mm256_set1_ps(-0.0f));
    }
}
INLINE __m256i repacked_quad_q4_k(const char *block, int u, int j, int k, int side) {
    const RepackedQ4_K *b = (const void *)block;
    return nibbles(b->q[u / 2][k][LANES * side], j % 2);
}
INLINE __m256 scale_q4_k(const char *block, const Header *h, int u, int side) {
    const RepackedQ4_K *b = (const void *)block;
    return _mm256_mul_ps(h->d[side], eight_bytes(b->scale[u] + LANES * side));
}
INLINE __m256 min_q4_k(const char *block, const Header *h, int u, int side) {
    const RepackedQ4_K *b = (const void *)block;
    return _mm256_mul_ps(h->min[side], eight_bytes(b->min[u] + LANES * side));
}

INLINE void repacked_header_q5_k(const char *block, Header *h) {
    const RepackedQ5_K *b = (const void *)block;
    for (int s = 0; s < SIDES; s++) {
        h->d[s]   = eight_halves(b->d + LANES * s);
        h->min[s] = _mm256_xor_ps(eight_halves(b->dmin + LANES * s), _mm256_set1_ps(-0.0f));
    }
}
INLINE __m256i repacked_quad_q5_k(const char *block, int u, int j, int k, int side) {
    const RepackedQ5_K *b    = (const void *)block;
    const int           bit  = j + 4 * (k % 2);
    const __m256i       high = load32(b->high[u / 4][k / 2][LANES * side]);
    const __m256i       up   = bit < 4 ? _mm256_slli_epi16(high, 4 - bit) : _mm256_srli_epi16(high, bit - 4);
    return _mm256_or_si256(nibbles(b->low[u / 2][k][LANES * side], j % 2),
                           _mm256_and_si256(up, _mm256_set1_epi8(0x10)));
}
INLINE __m256 scale_q5_k(const char *block, const Header *h, int u, int side) {
    const RepackedQ5_K *b = (const void *)block;
    return _mm256_mul_ps(h->d[side], eight_bytes(b->scale[u] + LANES * side));
}
INLINE __m256 min_q5_k(const char *block, const Header *h, int u, int side) {
    const RepackedQ5_K *b = (const void *)block;
    return _mm256_mul_ps(h->min[side], eight_bytes(b->min[u] + LANES * side));
}

INLINE void repacked_header_q6_k(const char *block, Header *h) {
    const RepackedQ6_K *b = (const void *)block;
    for (int s = 0; s < SIDES; s++) h->d[s] = eight_halves(b->d + LANES * s);
}
INLINE __m256i repacked_quad_q6_k(const char *block, int u, int j, int k, int side) {
    const RepackedQ6_K *b    = (const void *)block;
    const __m256i       high = load32(b->high[u / 4][k][LANES * side]);
    const __m256i       up   = j < 2 ? _mm256_slli_epi16(high, 4 - 2 * j) : _mm256_srli_epi16(high, 2 * j - 4);
    return _mm256_or_si256(nibbles(b->low[u / 2][k][LANES * side], j % 2),
                           _mm256_and_si256(up, _mm256_set1_epi8(0x30)));
}
INLINE __m256 scale_q6_k(const char *block, const Header *h, int u, int side) {
    const RepackedQ6_K *b = (const void *)block;
    return _mm256_mul_ps(h->d[side], eight_signed(b->scale[u] + LANES * side));
}
#define min_q6_k NULL

INLINE void repacked_header_q2_k(const char *block, Header *h) {
    const RepackedQ2_K *b = (const void *)block;
    for (int s = 0; s < SIDES; s++) {
        h->d[s]   = eight_halves(b->d + LANES * s);
        h->min[s] = _mm256_xor_ps(eight_halves(b->dmin + LANES * s), _mm256_set1_ps(-0.0f));
    }
}
INLINE __m256i repacked_quad_q2_k(const char *block, int u, int j, int k, int side) {
    return two_bits(((const RepackedQ2_K *)(const void *)block)->q[u / 4][k][LANES * side], j);
}
INLINE __m256i eight_of_q2_k(const char *block, int u, int side) {
    const RepackedQ2_K *b = (const void *)block;
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(b->scale[u] + LANES * side)));
}
INLINE __m256 scale_q2_k(const char *block, const Header *h, int u, int side) {
    const __m256i low = _mm256_and_si256(eight_of_q2_k(block, u, side), _mm256_set1_epi32(15));
    return _mm256_mul_ps(h->d[side], _mm256_cvtepi32_ps(low));
}
INLINE __m256 min_q2_k(const char *block, const Header *h, int u, int side) {
    const __m256i high = _mm256_srli_epi32(eight_of_q2_k(block, u, side), 4);
    return _mm256_mul_ps(h->min[side], _mm256_cvtepi32_ps(high));
}

/* The values of 32 nibbles, plus `raise`. */
INLINE __m256i value_quad(const uint8_t *p, int high, const int8_t *values, int raise) {
    const __m256i table = _mm256_broadcastsi128_si256(load16(values));
    return _mm256_shuffle_epi8(_mm256_add_epi8(table, _mm256_set1_epi8((char)raise)), nibbles(p, high));
}

INLINE void repacked_header_mxfp4(const char *block, Header *h) {
    const RepackedMXFP4 *b = (const void *)block;
    for (int s = 0; s < SIDES; s++)
        h->d[s] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(b->d + LANES * s)), 16));
}
INLINE __m256i repacked_quad_mxfp4(const char *block, int u, int j, int k, int side) {
    const RepackedMXFP4 *b = (const void *)block;
    (void)u, (void)j;
    return value_quad(b->q[k % 4][LANES * side], k >= 4, (const int8_t *)rp_mxfp4_values, 0);
}
#define scale_mxfp4 scale_q4_0
#define min_mxfp4   NULL

INLINE void    repacked_header_iq4_nl(const char *block, Header *h) { repacked_header_q4_0(block, h); }
INLINE __m256i repacked_quad_iq4_nl(const char *block, int u, int j, int k, int side) {
    const RepackedIQ4_NL *b = (const void *)block;
    (void)u, (void)j;
    return value_quad(b->q[k % 4][LANES * side], k >= 4, rp_iq4_values, 0);
}
#define scale_iq4_nl scale_q4_0
#define min_iq4_nl   NULL

/* A power of two, so that the correction of a column, which is -128 times its sum, is divided by a shift. Raised quads
 * are not negative; quads of more than 7 bits stay signed, since two products of them do not fit in 16 bits. */
#define RAISE_OF(top) ((top) <= 130 ? 1 : (top) <= 131 ? 4 : (top) <= 143 ? 16 : (top) <= 190 ? 64 : 0)
#define RAISE(ID)     ((int)RP_##ID##_OFFSET != SIGNED ? 0 : RAISE_OF(RP_##ID##_TOP))

#define X(ID, name)                                                                                                    \
    INLINE void repacked_header_##name(const char *block, Header *h) {                                                 \
        const Repacked##ID *b = (const void *)block;                                                                   \
        for (int s = 0; s < SIDES; s++)                                                                                \
            h->d[s] = _mm256_mul_ps(eight_halves(b->d + LANES * s), _mm256_set1_ps(unit_##name));                      \
    }                                                                                                                  \
    INLINE __m256i repacked_quad_##name(const char *block, int u, int j, int k, int side) {                            \
        const Repacked##ID *b = (const void *)block;                                                                   \
        return value_quad(b->q[u / 2][k][LANES * side], j % 2, values_##name, RAISE(ID));                              \
    }                                                                                                                  \
    INLINE __m256 scale_##name(const char *block, const Header *h, int u, int side) {                                  \
        const Repacked##ID *b = (const void *)block;                                                                   \
        return _mm256_mul_ps(h->d[side], eight_signed(b->scale[u] + LANES * side));                                    \
    }                                                                                                                  \
    enum { min_##name = 0 };
RP_REPACKED_VALUES(X)
#undef X

#define X(ID, name)                                                                                                    \
    INLINE void repacked_header_##name(const char *block, Header *h) {                                                 \
        for (int s = 0; s < SIDES; s++)                                                                                \
            h->d[s] = eight_halves(((const Repacked##ID *)(const void *)block)->d + LANES * s);                        \
    }                                                                                                                  \
    INLINE __m256i repacked_quad_##name(const char *block, int u, int j, int k, int side) {                            \
        return two_bits(((const Repacked##ID *)(const void *)block)->q[u / 4][k][LANES * side], j);                    \
    }
RP_REPACKED_TERNARY(X)
#undef X
#define scale_tq1_0 scale_q4_0
#define scale_tq2_0 scale_q4_0
#define min_tq1_0   NULL
#define min_tq2_0   NULL

/* Quads that can be added in 16 bits, two products a lane and quad: of 4 bits all 8, 15 * 127 * 16 = 30480; of Q6_K
 * two, 63 * 127 * 4 = 32004; of signed Q8_0 one, 128 * 127 * 2 = 32512. */
#define LARGEST(ID)                                                                                                    \
    ((int)RP_##ID##_OFFSET != SIGNED ? RP_##ID##_TOP : RAISE(ID) > 0 ? RP_##ID##_TOP - 128 + RAISE(ID) : 128)
#define RUN(ID)                                                                                                        \
    (LARGEST(ID) * 127 * 2 * (RP_##ID##_SUB / RP_QUAD) <= FULL ? RP_##ID##_SUB / RP_QUAD                               \
     : LARGEST(ID) * 127 * 2 * 2 <= FULL                       ? 2                                                     \
                                                               : 1)
#define X(ID, name) static_assert(LARGEST(ID) * 127 * 2 * RUN(ID) <= FULL, #name ": a run fits in 16 bits");
RP_REPACKED(X)
#undef X

/* ---- products ---- */

/* Keeps a header in memory, where its uses are operands of one instruction. In registers it would leave too few for
 * the sums, whose chains of additions would go through memory. */
INLINE void in_memory(Header *h) { __asm__("" : "+m"(*h)); }

/* Keeps loads from p behind the code before. */
INLINE const char *after(const char *p) {
    __asm__ volatile("" : "+r"(p));
    return p;
}

INLINE __m256i quad_products(const RepackedType *t, __m256i w, __m256i x) {
    if (t->form.offset == SIGNED && t->raise == 0)
        return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
}

/* 16-bit sums of all quads of sub-block u, whose run is the whole sub-block, into run[c][s]. */
INLINE void run_of_quads(const RepackedType *t, const char *block, int u, int j, const char *x, int n_cols,
                         __m256i run[COLS][SIDES]) {
#pragma GCC unroll 8
    for (int k = 0; k < t->run; k++) {
        const __m256i w0 = t->quad(block, u, j, k, 0), w1 = t->quad(block, u, j, k, 1);
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            const __m256i xq = _mm256_set1_epi32(word32(x + c * t->form.sub_elems + RP_QUAD * k));
            const __m256i a = quad_products(t, w0, xq), b = quad_products(t, w1, xq);
            run[c][0] = k == 0 ? a : add16(run[c][0], a);
            run[c][1] = k == 0 ? b : add16(run[c][1], b);
        }
    }
}

/* Adds runs of one or two quads to 32-bit sums column by column: the 16-bit sums of all columns would not fit in the
 * registers beside them. */
INLINE void short_runs(const RepackedType *t, const char *block, int u, int j, const char *x, int n_cols,
                       __m256i sum[COLS][SIDES]) {
#pragma GCC unroll 8
    for (int k = 0; k < t->form.sub_elems / RP_QUAD; k += t->run) {
        __m256i w[2][SIDES];
#pragma GCC unroll 4
        for (int i = 0; i < SIDES * t->run; i++)
            w[i / SIDES][i % SIDES] = t->quad(block, u, j, k + i / SIDES, i % SIDES);
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            const char   *xk = x + c * t->form.sub_elems + RP_QUAD * k;
            const __m256i x0 = _mm256_set1_epi32(word32(xk));
#pragma GCC unroll 2
            for (int s = 0; s < SIDES; s++) {
                __m256i v = quad_products(t, w[0][s], x0);
                if (t->run == 2) v = add16(v, quad_products(t, w[1][s], _mm256_set1_epi32(word32(xk + RP_QUAD))));
                v         = _mm256_madd_epi16(v, _mm256_set1_epi16(1));
                sum[c][s] = k == 0 ? v : add32(sum[c][s], v);
            }
        }
    }
}

/* Dot products of sub-block u: 32-bit, lane r of sum[c][s] is row 8s + r. */
INLINE void sub_sums(const RepackedType *t, const char *block, int u, int j, const char *x, int n_cols,
                     __m256i sum[COLS][SIDES]) {
    if (t->run <= 2) {
        short_runs(t, block, u, j, x, n_cols, sum);
        return;
    }
    run_of_quads(t, block, u, j, x, n_cols, sum);
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++)
#pragma GCC unroll 2
        for (int s = 0; s < SIDES; s++) sum[c][s] = _mm256_madd_epi16(sum[c][s], _mm256_set1_epi16(1));
}

/* raise = 128 >> shift. */
INLINE int shift_of(int raise) { return raise == 64 ? 1 : raise == 16 ? 3 : raise == 4 ? 5 : 7; }

/* Sub-block u of a block times n_cols columns from x on. x_scale has the columns' scales, x_extra their sums or
 * corrections (dot.h). acc[c] is the accumulator of column c. */
INLINE void add_sub(const RepackedType *t, const char *block, const Header *h, int u, int j, const char *x,
                    const float *x_scale, const float *x_extra, int n_cols, float (*acc)[RP_PANEL_ROWS]) {
    __m256i sum[COLS][SIDES];
    sub_sums(t, block, u, j, x, n_cols, sum);
    Header own;
    if (t->subs == 1) t->header(after(block), &own), h = &own;
    __m256 scale[SIDES], min[SIDES];
#pragma GCC unroll 2
    for (int s = 0; s < SIDES; s++) {
        scale[s] = t->scale(block, h, u, s);
        min[s]   = t->form.has_min ? t->min(block, h, u, s) : scale[s];
    }
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        const __m256 extra = _mm256_broadcast_ss(x_extra + c), dx = _mm256_broadcast_ss(x_scale + c);
#pragma GCC unroll 2
        for (int s = 0; s < SIDES; s++) {
            __m256i total = sum[c][s];
            if (t->raise > 0) /* -128 times the sum, to -raise times it */
                total = _mm256_add_epi32(total, _mm256_srai_epi32(_mm256_castps_si256(extra), shift_of(t->raise)));
            else if (!t->form.has_min && t->form.offset != SIGNED)
                total = _mm256_add_epi32(total, _mm256_castps_si256(extra));
            __m256 p = _mm256_fmadd_ps(_mm256_mul_ps(scale[s], dx), _mm256_cvtepi32_ps(total),
                                       _mm256_load_ps(acc[c] + LANES * s));
            if (t->form.has_min) p = _mm256_fmadd_ps(min[s], extra, p);
            _mm256_store_ps(acc[c] + LANES * s, p);
        }
    }
}

/* Columns c to c + n_cols of a group of `all` columns. */
INLINE void columns(const RepackedType *t, const char *blocks, const char *group, int all, int c, int n_cols,
                    int64_t n_subs, const PrefetchStream *ahead, TileAccs *accs) {
    const size_t of_group = rp_group_sub_bytes(&t->form, all);
    for (int64_t u = 0; u < n_subs; u += RP_KSTEP_SUBS) {
        const char *first = blocks + (size_t)(u / t->subs) * t->bytes;
        const int   step  = t->subs > 1 ? (int)(u % t->subs) : 0;
        Header      h;
        if (t->subs > 1) t->header(first, &h);
        if (t->subs > 1) in_memory(&h);
#pragma GCC unroll 4
        for (int j = 0; j < RP_KSTEP_SUBS; j++) {
            const char  *block = t->subs > 1 ? first : first + (size_t)j * t->bytes;
            const char  *x     = group + (size_t)(u + j) * of_group;
            const float *scale = (const float *)(const void *)(x + all * t->form.sub_elems) + c;
            if (t->subs == 1 && u + j >= n_subs) break;
            if (c == 0) rp_prefetch_subs(ahead, u + j, 1);
            add_sub(t, block, &h, step + j, j, x + c * t->form.sub_elems, scale, scale + all, n_cols, &accs->acc[j][c]);
            stored(accs->acc[j]);
        }
    }
}

/* Constant numbers of columns, so that the loops over columns unroll and their sums stay in registers. */
INLINE void all_columns(const RepackedType *t, const char *blocks, const char *group, int n_cols, int64_t n_subs,
                        const PrefetchStream *ahead, TileAccs *accs) {
    int c = 0;
    for (; c + COLS <= n_cols; c += COLS) columns(t, blocks, group, n_cols, c, COLS, n_subs, ahead, accs);
    if (n_cols - c == 3)
        columns(t, blocks, group, n_cols, c, 3, n_subs, ahead, accs);
    else if (n_cols - c == 2)
        columns(t, blocks, group, n_cols, c, 2, n_subs, ahead, accs);
    else if (n_cols - c == 1)
        columns(t, blocks, group, n_cols, c, 1, n_subs, ahead, accs);
}

/* ---- panels ---- */

/* Sub-block u of a block, to its place `to` in a panel. */
INLINE void unpack_sub(const RepackedType *t, const char *block, const Header *h, int u, int j, char *to) {
    float *scale = (float *)(void *)(to + RP_PANEL_ROWS * t->form.sub_elems);
#pragma GCC unroll 8
    for (int k = 0; k < t->form.sub_elems / RP_QUAD; k++)
        for (int s = 0; s < SIDES; s++) {
            const __m256i q = _mm256_sub_epi8(t->quad(block, u, j, k, s), _mm256_set1_epi8((char)t->raise));
            _mm256_store_si256((void *)(to + RP_QUAD * (RP_PANEL_ROWS * k + LANES * s)), q);
        }
    for (int s = 0; s < SIDES; s++) {
        _mm256_store_ps(scale + LANES * s, t->scale(block, h, u, s));
        if (t->form.has_min) _mm256_store_ps(scale + RP_PANEL_ROWS + LANES * s, t->min(block, h, u, s));
    }
}

#include "fallback/products/repacked_unpack.h"

/* Two functions a type, so that the fields of RepackedType are compile-time constants. */
#define TYPE(ID, name)                                                                                                 \
    {                                                                                                                  \
        repacked_header_##name, repacked_quad_##name, scale_##name, min_##name, sizeof(Repacked##ID),                  \
            RP_##ID##_ELEMS / RP_##ID##_SUB, RUN(ID), RAISE(ID), RP_QUANT_FORM(ID)                                     \
    }
#define FUNCTIONS(ID, name)                                                                                            \
    RP_TARGET_AVX2 static void tile_##name(const char *blocks, const char *group, int n_cols, int64_t n_subs,          \
                                           const PrefetchStream *ahead, TileAccs *accs) {                              \
        const RepackedType t = TYPE(ID, name);                                                                         \
        all_columns(&t, blocks, group, n_cols, n_subs, ahead, accs);                                                   \
    }                                                                                                                  \
    RP_TARGET_AVX2 static void unpack_##name(const char *blocks, int64_t n, const PrefetchStream *ahead,               \
                                             char *panel) {                                                            \
        const RepackedType t = TYPE(ID, name);                                                                         \
        unpack(&t, blocks, rp_n_subs(&t.form, n), ahead, panel);                                                       \
    }
RP_REPACKED(FUNCTIONS)
#undef FUNCTIONS

void rp_repacked_avx2(RpDtype dtype, const char *blocks, const char *group, int n_cols, int64_t n_subs,
                      const PrefetchStream *ahead, TileAccs *accs) {
    typedef void Tile(const char *blocks, const char *group, int n_cols, int64_t n_subs, const PrefetchStream *ahead,
                      TileAccs *accs);
#define ENTRY(ID, name) [RP_##ID]            = tile_##name,
    static Tile *const table[RP_DTYPE_COUNT] = {RP_REPACKED(ENTRY)};
#undef ENTRY
    rp_begin_accs(accs, n_cols);
    table[dtype](blocks, group, n_cols, n_subs, ahead, accs);
}

void rp_unpack_panel_avx2(RpDtype dtype, const char *blocks, int64_t n, const PrefetchStream *ahead, char *panel) {
    typedef void Unpack(const char *blocks, int64_t n, const PrefetchStream *ahead, char *panel);
#define ENTRY(ID, name) [RP_##ID]              = unpack_##name,
    static Unpack *const table[RP_DTYPE_COUNT] = {RP_REPACKED(ENTRY)};
#undef ENTRY
    table[dtype](blocks, n, ahead, panel);
}
#endif
