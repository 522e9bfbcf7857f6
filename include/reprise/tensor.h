/* tensor.h - data types and the strided view that every kernel receives.
 *
 * A tensor has four dimensions ne, counted in elements, and four strides nb, counted in bytes. Dimension 0 is the
 * innermost one, as in ggml and GGUF:
 *
 *     address(i0,i1,i2,i3) = data + i0*nb[0] + i1*nb[1] + i2*nb[2] + i3*nb[3]
 *
 * For block-quantised types ne[0] is a whole number of blocks and nb[0] is the size of one block: single elements
 * have no address, and rows are addressed by nb[1..3] only.
 *
 *   const int64_t ne[RP_MAX_DIMS] = {n_embd, n_tok, 1, 1};
 *   RpTensorView  v               = rp_view_contiguous(RP_F32, ne, memory);
 *   float        *token_2         = (float *)rp_view_row(&v, 2);
 */
#ifndef REPRISE_TENSOR_H
#define REPRISE_TENSOR_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RP_MAX_DIMS 4

/* X(ID, printed name, elements per block, bytes per block, type number in GGUF files or -1 for none). The ID is the
 * name in ggml. The rows from Q4_0 on are block types. A new row follows the last one, because programs are compiled
 * with the numbers of the rows. Internal facts about block types: base/dtypes.h.
 *
 * Q8_ACT holds quantised activations, the second operand of integer dot products. It never occurs in a file. A row of
 * n elements is three arrays, one after the other (44 bytes per 32 elements):
 *
 *     row: quants[n] int8, scale[n/32] f32, sum[n/16] f32
 *     x[i]   = quants[i] * scale[i/32]
 *     sum[j] = x[16j] + ... + x[16j+15]
 *
 * The sums of 16 elements (sum blocks) make the minimum of a weight block cheap: with w[i] = d*q[i] + m the dot
 * product over a sum block j is d * dot(q, x) + m * sum[j]. */
#define RP_DTYPES(X)                                                                                                   \
    X(F32, "f32", 1, 4, 0)                                                                                             \
    X(F16, "f16", 1, 2, 1)                                                                                             \
    X(BF16, "bf16", 1, 2, 30)                                                                                          \
    X(I32, "i32", 1, 4, 26)                                                                                            \
    X(Q4_0, "q4_0", 32, 18, 2)                                                                                         \
    X(Q4_1, "q4_1", 32, 20, 3)                                                                                         \
    X(Q5_0, "q5_0", 32, 22, 6)                                                                                         \
    X(Q5_1, "q5_1", 32, 24, 7)                                                                                         \
    X(Q8_0, "q8_0", 32, 34, 8)                                                                                         \
    X(Q4_K, "q4_k", 256, 144, 12)                                                                                      \
    X(Q5_K, "q5_k", 256, 176, 13)                                                                                      \
    X(Q6_K, "q6_k", 256, 210, 14)                                                                                      \
    X(MXFP4, "mxfp4", 32, 17, 39)                                                                                      \
    X(Q8_ACT, "q8_act", 32, 44, -1)                                                                                    \
    X(IQ4_NL, "iq4_nl", 32, 18, 20)                                                                                    \
    X(IQ4_XS, "iq4_xs", 256, 136, 23)                                                                                  \
    X(Q2_K, "q2_k", 256, 84, 10)                                                                                       \
    X(Q3_K, "q3_k", 256, 110, 11)                                                                                      \
    X(IQ3_S, "iq3_s", 256, 110, 21)                                                                                    \
    X(IQ3_XXS, "iq3_xxs", 256, 98, 18)                                                                                 \
    X(IQ2_XXS, "iq2_xxs", 256, 66, 16)                                                                                 \
    X(IQ2_XS, "iq2_xs", 256, 74, 17)                                                                                   \
    X(IQ2_S, "iq2_s", 256, 82, 22)                                                                                     \
    X(IQ1_S, "iq1_s", 256, 50, 19)                                                                                     \
    X(IQ1_M, "iq1_m", 256, 56, 29)                                                                                     \
    X(TQ1_0, "tq1_0", 256, 54, 34)                                                                                     \
    X(TQ2_0, "tq2_0", 256, 66, 35)                                                                                     \
    X(NVFP4, "nvfp4", 256, 144, 40)                                                                                    \
    X(Q1_0, "q1_0", 256, 36, 41)                                                                                       \
    X(Q2_0, "q2_0", 256, 72, 42)

/* Types of GGUF files that can be listed but not computed with: X(ggml name, elements and bytes per block, type
 * number). Numbers without a row belong to types that ggml has withdrawn. */
#define RP_FOREIGN_TYPES(X)                                                                                            \
    X(Q8_1, 32, 36, 9)                                                                                                 \
    X(Q8_K, 256, 292, 15)                                                                                              \
    X(I8, 1, 1, 24)                                                                                                    \
    X(I16, 1, 2, 25)                                                                                                   \
    X(I64, 1, 8, 27)                                                                                                   \
    X(F64, 1, 8, 28)

typedef enum RpDtype {
#define X(ID, name, elems, bytes, gguf) RP_##ID,
    RP_DTYPES(X)
#undef X
        RP_DTYPE_COUNT,
    RP_DTYPE_CUSTOM = 1024 /* numbers from here on are those of rp_dtype_register (extend.h) */
} RpDtype;

typedef struct RpDtypeInfo {
    const char *name;        /* static storage */
    int         block_elems; /* 1 for plain numbers */
    int         block_bytes;
    int         gguf_type; /* -1: never in a file */
} RpDtypeInfo;

/* The row of the table above or of a registered type, in static storage; NULL for a number that is no dtype. */
RP_API const RpDtypeInfo *rp_dtype_info(RpDtype dtype);

/* Printed name in static storage; "?" for a number that is no dtype. */
RP_API const char *rp_dtype_name(RpDtype dtype);

/* RP_E_DTYPE, with the ggml name, for a GGUF type number that this library does not compute with and that no registered
 * type has. */
RP_API RP_NODISCARD RpStatus rp_dtype_from_gguf(uint32_t gguf_type, RpDtype *out);

/* The ggml name of a GGUF type number ("IQ2_XS"), also of types that this library cannot read, and the name of a
 * registered type with that number. NULL for other numbers. Static storage. */
RP_API const char *rp_gguf_type_name(uint32_t gguf_type);

/* Bytes of a contiguous row of n elements, a whole number of blocks. 0 for no dtype or a negative n. */
RP_API size_t rp_row_bytes(RpDtype dtype, int64_t n);

/* True for every block type of the table above, RP_Q8_ACT included; false for registered types. */
static inline bool rp_dtype_is_quant(RpDtype dtype) { return dtype >= RP_Q4_0 && dtype < RP_DTYPE_COUNT; }

/* Borrows its memory. */
typedef struct RpTensorView {
    void   *data;
    RpDtype dtype;
    int64_t ne[RP_MAX_DIMS]; /* elements */
    size_t  nb[RP_MAX_DIMS]; /* byte strides */
} RpTensorView;

/* A view without gaps: nb[0] = bytes of a block, nb[1] = bytes of a row, nb[i] = nb[i-1] * ne[i-1]. Copies `ne` and
 * borrows `data`, which may be NULL. No dtype gives a view without elements. */
RP_API RpTensorView rp_view_contiguous(RpDtype dtype, const int64_t ne[RP_MAX_DIMS], void *data);

/* True when the strides are those of rp_view_contiguous; the stride of a dimension of size 1 does not matter. */
RP_API bool rp_view_is_contiguous(const RpTensorView *v);

/* Bytes from the first to one past the last byte that the view touches; 0 if a dimension is 0. */
RP_API size_t rp_view_extent_bytes(const RpTensorView *v);

/* Number of rows (dimensions 1 to 3) and of elements. */
static inline int64_t rp_view_rows(const RpTensorView *v) { return v->ne[1] * v->ne[2] * v->ne[3]; }
static inline int64_t rp_view_elems(const RpTensorView *v) { return v->ne[0] * rp_view_rows(v); }

/* Address of row r = i1 + ne[1] * (i2 + ne[2] * i3). */
static inline void *rp_view_row(const RpTensorView *v, int64_t r) {
    const int64_t i1 = r % v->ne[1], i2 = r / v->ne[1] % v->ne[2], i3 = r / (v->ne[1] * v->ne[2]);
    return (char *)v->data + (size_t)i1 * v->nb[1] + (size_t)i2 * v->nb[2] + (size_t)i3 * v->nb[3];
}

#ifdef __cplusplus
}
#endif
#endif
