/* tensor.h - data types and the strided view that every kernel receives.
 *
 * A tensor has four dimensions, ne[0] the contiguous one (the order GGUF uses), and byte strides nb:
 *
 *     element (i0,i1,i2,i3) is at  data + i0*nb[0] + i1*nb[1] + i2*nb[2] + i3*nb[3]
 *
 * For block-quantised types ne[0] counts elements and is a whole number of blocks, and nb[0] is the size of one
 * block: a row is addressed by nb[1..3] only.
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

/* ID, printed name, elements a block, bytes a block, type number in GGUF files (-1: never in a file).
 *
 * Q8_ACT is a row of activations made ready for integer dot products. A row of n elements holds three arrays one
 * after the other: int8 quants[n], float scale[n/32], float sum[n/16], where element i is quants[i] * scale[i/32] and
 * sum[j] is the sum of elements 16j to 16j+15, so that a constant can be added to every weight of a group at no cost. */
#define RP_DTYPES(X)               \
    X(F32, "f32", 1, 4, 0)         \
    X(F16, "f16", 1, 2, 1)         \
    X(BF16, "bf16", 1, 2, 30)      \
    X(I32, "i32", 1, 4, 26)        \
    X(Q4_0, "q4_0", 32, 18, 2)     \
    X(Q4_1, "q4_1", 32, 20, 3)     \
    X(Q5_0, "q5_0", 32, 22, 6)     \
    X(Q5_1, "q5_1", 32, 24, 7)     \
    X(Q8_0, "q8_0", 32, 34, 8)     \
    X(Q4_K, "q4_k", 256, 144, 12)  \
    X(Q5_K, "q5_k", 256, 176, 13)  \
    X(Q6_K, "q6_k", 256, 210, 14)  \
    X(MXFP4, "mxfp4", 32, 17, 39)  \
    X(Q8_ACT, "q8_act", 32, 44, -1)

typedef enum RpDtype {
#define X(ID, name, elems, bytes, gguf) RP_##ID,
    RP_DTYPES(X)
#undef X
    RP_DTYPE_COUNT
} RpDtype;

typedef struct DtypeInfo {
    const char *name;
    int         block_elems;
    int         block_bytes;
    int         gguf_type;
} DtypeInfo;

/* NULL for a number that is no dtype. */
const DtypeInfo *rp_dtype_info(RpDtype dtype);

/* Printed name, "?" for a number that is no dtype. */
const char *rp_dtype_name(RpDtype dtype);

/* RP_E_DTYPE where the GGUF type number is not one of ours. */
RP_NODISCARD RpStatus rp_dtype_from_gguf(uint32_t gguf_type, RpDtype *out);

/* The ggml name of a GGUF type number, also of those this library does not read; NULL where nobody defined it. */
const char *rp_gguf_type_name(uint32_t gguf_type);

/* Bytes of a row of n elements; n must be a whole number of blocks. */
size_t rp_row_bytes(RpDtype dtype, int64_t n);

static inline bool rp_dtype_is_quant(RpDtype dtype) { return dtype >= RP_Q4_0 && dtype < RP_DTYPE_COUNT; }

typedef struct TensorView {
    void   *data;
    RpDtype dtype;
    int64_t ne[RP_MAX_DIMS];
    size_t  nb[RP_MAX_DIMS];
} TensorView;

/* A densely packed view: nb follow from dtype and ne. */
TensorView rp_view_contiguous(RpDtype dtype, const int64_t ne[RP_MAX_DIMS], void *data);

/* True when the strides are those of rp_view_contiguous. */
bool rp_view_is_contiguous(const TensorView *v);

/* Bytes from the first to one past the last byte that the view touches. */
size_t rp_view_extent_bytes(const TensorView *v);

static inline int64_t rp_view_rows(const TensorView *v) { return v->ne[1] * v->ne[2] * v->ne[3]; }
static inline int64_t rp_view_elems(const TensorView *v) { return v->ne[0] * rp_view_rows(v); }

/* Address of the row r, counted over dimensions 1 to 3. */
static inline void *rp_view_row(const TensorView *v, int64_t r) {
    const int64_t i1 = r % v->ne[1], i2 = r / v->ne[1] % v->ne[2], i3 = r / (v->ne[1] * v->ne[2]);
    return (char *)v->data + (size_t)i1 * v->nb[1] + (size_t)i2 * v->nb[2] + (size_t)i3 * v->nb[3];
}

#ifdef __cplusplus
}
#endif
#endif
