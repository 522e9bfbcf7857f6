/* repack.h - repacked weights: a copy of a matrix in which 16 rows are interleaved (REPRISE_REPACK).
 *
 * The quants of a block of 16 rows lie as in a panel (dot.h), four consecutive k of a row in a 32-bit lane, so kernels
 * need not transpose. Quants of 2 to 6 bits keep their bits:
 *
 *     q[i]        32-bit lane of row r = four bytes; each has the low bits of one k, and the high bits of another
 *     scales      as in the blocks of the file, one for each row; scales of fewer than 8 bits become bytes
 *
 * Types whose elements have at most 16 values (RP_FEW_VALUES in fallback/quants/expand.h) have a nibble for each
 * element, an index to the values, whatever they have in the file: a kernel looks it up with a byte shuffle, and not in
 * a codebook of hundreds of entries.
 *
 *     file        row 0: block 0, block 1, ... | row 1: block 0, ... | ...
 *     repacked    rows 0-15: block 0 of 16 rows, block 1 of 16 rows, ... | rows 16-31: ...
 *
 * A view of repacked weights has the type of the file. Its strides tell: nb[0] is a block of 16 rows, nb[1] a sixteenth
 * of all blocks of 16 rows. So data + m * nb[1] is the address of row m, if m is a multiple of 16. */
#ifndef FALLBACK_PRODUCTS_REPACK_H
#define FALLBACK_PRODUCTS_REPACK_H

#include "base/repack.h"
#include "fallback/products/dot.h"

/* clang-format off */
/* X(ID, name): the types that have a repacked layout. */
#define RP_REPACKED(X)                                                                                                 \
    X(Q4_0, q4_0) X(Q4_1, q4_1) X(Q5_0, q5_0) X(Q5_1, q5_1) X(Q8_0, q8_0) X(Q4_K, q4_k) X(Q5_K, q5_k) X(Q6_K, q6_k)    \
    X(Q2_K, q2_k) X(MXFP4, mxfp4) X(IQ4_NL, iq4_nl)                                                                    \
    RP_REPACKED_VALUES(X)                                                                                              \
    RP_REPACKED_TERNARY(X)

/* Types in blocks of 256 whose elements have at most 16 values. The rows of IQ4_XS have the indices of values. */
#define RP_REPACKED_VALUES(X) X(IQ4_XS, iq4_xs) RP_REPACKED_CODED(X)
#define RP_REPACKED_CODED(X)                                                                                           \
    X(Q3_K, q3_k) X(IQ3_S, iq3_s) X(IQ3_XXS, iq3_xxs) X(IQ2_XXS, iq2_xxs) X(IQ2_XS, iq2_xs) X(IQ2_S, iq2_s)            \
    X(IQ1_S, iq1_s) X(IQ1_M, iq1_m)

/* Types in blocks of 256 with one scale, an f16 `d`, and values from -1 to 2. */
#define RP_REPACKED_TERNARY(X)                                                                                         \
    X(TQ1_0, tq1_0)                                                                                                    \
    X(TQ2_0, tq2_0)
/* clang-format on */

enum {
    RP_REPACKED_MAX_N = 32768, /* longer rows are not repacked: the packed column of a GEMV is on the stack */
    RP_FEW_COLS       = 4      /* columns of repacked rows that a kernel multiplies in one pass */
};

/* Quad k of 32 elements: the low nibbles of q[k] for k < 4, the high ones of q[k - 4] for others. */
typedef struct RepackedQ4_0 {
    uint16_t d[RP_PANEL_ROWS];
    uint8_t  q[4][RP_PANEL_ROWS][RP_QUAD];
} RepackedQ4_0;
typedef RepackedQ4_0 RepackedIQ4_NL;

/* d is the scale of the integer form, 2^(e - 128), as bfloat16. */
typedef RepackedQ4_0 RepackedMXFP4;

typedef struct RepackedQ4_1 {
    uint16_t d[RP_PANEL_ROWS], m[RP_PANEL_ROWS];
    uint8_t  q[4][RP_PANEL_ROWS][RP_QUAD];
} RepackedQ4_1;

/* As Q4_0 and Q4_1, and bit k of the bytes of `high` is the fifth bit of quad k. */
typedef struct RepackedQ5_0 {
    uint16_t d[RP_PANEL_ROWS];
    uint8_t  q[4][RP_PANEL_ROWS][RP_QUAD], high[RP_PANEL_ROWS][RP_QUAD];
} RepackedQ5_0;

typedef struct RepackedQ5_1 {
    uint16_t d[RP_PANEL_ROWS], m[RP_PANEL_ROWS];
    uint8_t  q[4][RP_PANEL_ROWS][RP_QUAD], high[RP_PANEL_ROWS][RP_QUAD];
} RepackedQ5_1;

typedef struct RepackedQ8_0 {
    uint16_t d[RP_PANEL_ROWS];
    int8_t   q[8][RP_PANEL_ROWS][RP_QUAD];
} RepackedQ8_0;

/* Quad k of sub-block u: the low (u even) or high nibbles of q[u / 2][k]. */
typedef struct RepackedQ4_K {
    uint16_t d[RP_PANEL_ROWS], dmin[RP_PANEL_ROWS];
    uint8_t  scale[8][RP_PANEL_ROWS], min[8][RP_PANEL_ROWS];
    uint8_t  q[4][8][RP_PANEL_ROWS][RP_QUAD];
} RepackedQ4_K;

/* Quad k of sub-block u: the low (u even) or high nibbles of low[u / 2][k], and above them bit u % 4 + 4 * (k % 2) of
 * high[u / 4][k / 2]. */
typedef struct RepackedQ5_K {
    uint16_t d[RP_PANEL_ROWS], dmin[RP_PANEL_ROWS];
    uint8_t  scale[8][RP_PANEL_ROWS], min[8][RP_PANEL_ROWS];
    uint8_t  low[4][8][RP_PANEL_ROWS][RP_QUAD], high[2][4][RP_PANEL_ROWS][RP_QUAD];
} RepackedQ5_K;

/* Quad k of sub-block u: the low (u even) or high nibbles of low[u / 2][k], and above them bits 2 * (u % 4) and
 * 2 * (u % 4) + 1 of high[u / 4][k]. */
typedef struct RepackedQ6_K {
    uint16_t d[RP_PANEL_ROWS];
    int8_t   scale[16][RP_PANEL_ROWS];
    uint8_t  low[8][4][RP_PANEL_ROWS][RP_QUAD], high[4][4][RP_PANEL_ROWS][RP_QUAD];
} RepackedQ6_K;

/* Quad k of sub-block u: bits 2 * (u % 4) and 2 * (u % 4) + 1 of q[u / 4][k]. A byte of `scale` is as in the file. */
typedef struct RepackedQ2_K {
    uint16_t d[RP_PANEL_ROWS], dmin[RP_PANEL_ROWS];
    uint8_t  scale[16][RP_PANEL_ROWS];
    uint8_t  q[4][4][RP_PANEL_ROWS][RP_QUAD];
} RepackedQ2_K;

/* Quad k of sub-block u: the low (u even) or high nibbles of q[u / 2][k]. */
#define X(ID, name)                                                                                                    \
    typedef struct Repacked##ID {                                                                                      \
        uint16_t d[RP_PANEL_ROWS];                                                                                     \
        int8_t   scale[RP_##ID##_ELEMS / RP_##ID##_SUB][RP_PANEL_ROWS];                                                \
        uint8_t  q[RP_##ID##_ELEMS / RP_##ID##_SUB / 2][RP_##ID##_SUB / RP_QUAD][RP_PANEL_ROWS][RP_QUAD];              \
    } Repacked##ID;
RP_REPACKED_VALUES(X)
#undef X

/* Quad k of sub-block u: bits 2 * (u % 4) and 2 * (u % 4) + 1 of q[u / 4][k], the elements plus 1. */
typedef struct RepackedTernary {
    uint16_t d[RP_PANEL_ROWS];
    uint8_t  q[2][8][RP_PANEL_ROWS][RP_QUAD];
} RepackedTernary;
#define X(ID, name) typedef RepackedTernary Repacked##ID;
RP_REPACKED_TERNARY(X)
#undef X

/* Bytes of a block of 16 rows; 0 for a type without a repacked layout. A multiple of 32. */
size_t rp_repacked_bytes(RpDtype dtype);

/* Whether w is a view of repacked weights. */
bool rp_is_repacked(const RpTensorView *w);

/* Rows are divided between workers in multiples of it: 16 for repacked weights, else 1. */
static inline int64_t rp_row_unit(const RpTensorView *w) { return rp_is_repacked(w) ? RP_PANEL_ROWS : 1; }

/* A boundary between rows, down to a multiple of rp_row_unit(w). */
static inline int64_t rp_whole_rows(const RpTensorView *w, int64_t row) { return row - row % rp_row_unit(w); }

#endif
