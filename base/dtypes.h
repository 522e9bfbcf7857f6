/* dtypes.h - what the library knows of a quantised weight type, beyond the public row in RP_DTYPES (tensor.h): its
 * integer form and the device planes. Kernels for the CPU and for CUDA take every constant of a type from here.
 *
 * How to add a type: docs/add-a-type.md. */
#ifndef BASE_DTYPES_H
#define BASE_DTYPES_H

#include "reprise/tensor.h"

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>

/* Every type dequantises to the integer form: element i = scale[i/sub] * (q[i] - offset) + min[i/sub], with `sub`
 * the elements of a sub-block. One row for each type, in three lists. Dispatch, tables of functions, names of file
 * types and lists in the tests are made from these rows:
 *
 *     X(ID, name, sub, offset, has_min, top, from, end, file_type, output, fields)
 *
 *     offset     subtracted from every q; 128 for signed quants, which are raised to 0..255
 *     has_min    each sub-block has a minimum; without, min is 0
 *     top        the largest q, which bounds the sums of kernels that add in 16 bits
 *     from, end  the bytes [from, end) of a block hold quants, the others hold scales; of each part of a block, where
 *                it consists of several blocks of ggml (rp_block_parts)
 *     file_type  the number in general.file_type of llama.cpp (llama_ftype) for a file of this type
 *     output     the type of the output matrix of such a file
 *     fields     FIELD(field, at, bytes) for each device plane, in their order: bytes [at, at + bytes) of a block, for
 *                some types after its bits were rearranged (kernels/planes.c). FIELD is defined where the table is
 *                used. The largest field comes first, so that every plane is aligned for its field. */
/* clang-format off */
#define RP_DIRECT_QUANTS(X)                                                                                               \
    X(Q4_0,  q4_0,  32,   8, false,  15,  2,  18,  2, Q6_K, FIELD(qs, 2, 16) FIELD(d, 0, 2))                              \
    X(Q4_1,  q4_1,  32,   0, true,   15,  4,  20,  3, Q6_K, FIELD(qs, 4, 16) FIELD(dm, 0, 4))                             \
    X(Q5_0,  q5_0,  32,  16, false,  31,  2,  22,  8, Q6_K, FIELD(qs, 6, 16) FIELD(qh, 2, 4) FIELD(d, 0, 2))              \
    X(Q5_1,  q5_1,  32,   0, true,   31,  4,  24,  9, Q6_K, FIELD(qs, 8, 16) FIELD(qh, 4, 4) FIELD(dm, 0, 4))             \
    X(Q8_0,  q8_0,  32, 128, false, 255,  2,  34,  7, Q8_0, FIELD(q0, 2, 16) FIELD(q1, 18, 16) FIELD(d, 0, 2))            \
    X(Q4_K,  q4_k,  32,   0, true,   15, 16, 144, 14, Q6_K, FIELD(q0, 0, 64) FIELD(q1, 64, 64) FIELD(head, 128, 16))      \
    X(Q5_K,  q5_k,  32,   0, true,   31, 16, 176, 16, Q6_K, FIELD(q0, 0, 64) FIELD(q1, 64, 64) FIELD(qh, 128, 32)         \
                                                            FIELD(head, 160, 16))                                         \
    X(Q6_K,  q6_k,  16,  32, false,  63,  0, 192, 18, Q6_K, FIELD(q0, 0, 64) FIELD(q1, 64, 64) FIELD(q2, 128, 64)         \
                                                            FIELD(scales, 192, 16) FIELD(d, 208, 2))                      \
    X(MXFP4, mxfp4, 32,  12, false,  24,  1,  17, 38, Q8_0, FIELD(qs, 1, 16) FIELD(e, 0, 1))

/* Types all of whose CPU kernels are made from expand_<name> (fallback/quants/expand.h). Quants with offset 128 are
 * signed. */
#define RP_GENERIC_QUANTS(X)                                                                                              \
    X(TQ1_0,   tq1_0,   32, 128, false, 129,  0,  52, 36, Q6_K, FIELD(qs, 0, 48) FIELD(qh, 48, 4) FIELD(d, 52, 2))

/* Types that have their own loads for GEMV on x86, and the types of RP_GENERIC_QUANTS, which do not. The types of
 * RP_DIRECT_QUANTS have loads for each instruction set. */
#define RP_SEARCHED_QUANTS(X)                                                                                             \
    X(IQ4_NL,  iq4_nl,  32, 128, false, 241,  2,  18, 25, Q6_K, FIELD(qs, 2, 16) FIELD(d, 0, 2))                          \
    X(IQ4_XS,  iq4_xs,  32, 128, false, 241,  8, 136, 30, Q6_K, FIELD(q0, 8, 64) FIELD(q1, 72, 64) FIELD(head, 0, 8))     \
    X(Q2_K,    q2_k,    16,   0, true,    3, 16,  80, 10, Q6_K, FIELD(qs, 16, 64) FIELD(scales, 0, 16) FIELD(d, 80, 4))   \
    X(Q3_K,    q3_k,    16, 128, false, 131,  0,  96, 11, Q6_K, FIELD(qs, 32, 64) FIELD(high, 0, 32) FIELD(scales, 96, 12)\
                                                                  FIELD(d, 108, 2))                                       \
    X(TQ2_0,   tq2_0,   32, 128, false, 130,  0,  64, 37, Q6_K, FIELD(qs, 0, 64) FIELD(d, 64, 2))                         \
    X(NVFP4,   nvfp4,   16, 128, false, 140,  4,  36, 39, Q6_K, FIELD(q0, 0, 64) FIELD(q1, 64, 64) FIELD(d, 128, 16))     \
    X(Q1_0,    q1_0,    32, 128, false, 129,  2,  18, 40, Q6_K, FIELD(qs, 4, 32) FIELD(d, 0, 4))                          \
    X(Q2_0,    q2_0,    32, 128, false, 130,  2,  18, 41, Q6_K, FIELD(qs, 8, 64) FIELD(d, 0, 8))                          \
    RP_GENERIC_QUANTS(X)

/* The same, of types whose quants are entries of a codebook (fallback/quants/codebook_fit.h). */
#define RP_CODEBOOK_QUANTS(X)                                                                                             \
    X(IQ3_S,   iq3_s,   32, 128, false, 143,  2, 106, 26, Q6_K, FIELD(qs, 2, 64) FIELD(signs, 74, 32) FIELD(qh, 66, 8)    \
                                                                  FIELD(scales, 106, 4) FIELD(d, 0, 2))                   \
    X(IQ3_XXS, iq3_xxs, 32, 128, false, 190,  2,  98, 23, Q5_K, FIELD(qs, 2, 64) FIELD(signs, 66, 32) FIELD(d, 0, 2))     \
    X(IQ2_XXS, iq2_xxs, 32, 128, false, 171,  2,  66, 19, Q5_K, FIELD(qs, 2, 64) FIELD(d, 0, 2))                          \
    X(IQ2_XS,  iq2_xs,  16, 128, false, 171,  2,  66, 20, Q5_K, FIELD(qs, 2, 64) FIELD(scales, 66, 8) FIELD(d, 0, 2))     \
    X(IQ2_S,   iq2_s,   16, 128, false, 171,  2,  74, 28, Q5_K, FIELD(qs, 2, 32) FIELD(signs, 34, 32) FIELD(qh, 66, 8)    \
                                                                  FIELD(scales, 74, 8) FIELD(d, 0, 2))                    \
    X(IQ1_S,   iq1_s,   32, 128, false, 137,  2,  50, 24, Q5_K, FIELD(qs, 2, 32) FIELD(qh, 34, 16) FIELD(d, 0, 2))        \
    X(IQ1_M,   iq1_m,   16, 128, false, 137,  0,  48, 31, Q5_K, FIELD(qs, 0, 32) FIELD(qh, 32, 16) FIELD(scales, 48, 8))
/* clang-format on */

#define RP_EXPANDED_QUANTS(X) RP_SEARCHED_QUANTS(X) RP_CODEBOOK_QUANTS(X)
#define RP_QUANTS(X)          RP_DIRECT_QUANTS(X) RP_EXPANDED_QUANTS(X)

/* RP_<type>_ELEMS and RP_<type>_BYTES of a block, for every data type. */
enum {
#define X(ID, name, elems, bytes, gguf) RP_##ID##_ELEMS = elems, RP_##ID##_BYTES = bytes,
    RP_DTYPES(X)
#undef X
};

/* RP_<type>_SUB, RP_<type>_OFFSET, RP_<type>_HAS_MIN and RP_<type>_TOP, for quantised weights. */
enum {
#define X(ID, name, sub, offset, has_min, top, ...)                                                                    \
    RP_##ID##_SUB = sub, RP_##ID##_OFFSET = offset, RP_##ID##_HAS_MIN = has_min, RP_##ID##_TOP = top,
    RP_QUANTS(X)
#undef X
};

/* How many blocks of ggml make up one block of this type. Several ggml blocks of 64 or 128 elements form one block of
 * 256, so that kernels have only two block lengths. Rows of such types are whole blocks of 256. */
static inline int rp_block_parts(RpDtype dtype) {
    return dtype == RP_NVFP4 || dtype == RP_Q2_0 ? 4 : dtype == RP_Q1_0 ? 2 : 1;
}

enum { RP_SUM_BLOCK = 16 }; /* activations with one entry of `sum` in q8_act */

/* Planes<type>: a block with its fields in the order of the planes. Field g of block b of B is at
 *
 *     planes + B * offsetof(Planes<type>, g) + b * (bytes of g)
 *
 * Each member has the alignment that loads from its plane need, up to 16 bytes. So if the compiler inserted padding,
 * `end` would not be at the block's size, and a plane would not be aligned. */
#define FIELD(field, at, bytes) alignas((bytes) % 16 == 0 ? 16 : (bytes) & -(bytes)) uint8_t field[bytes];
#define X(ID, name, sub, offset, has_min, top, from, end_, file_type, output, fields)                                  \
    typedef struct Planes##ID {                                                                                        \
        fields uint8_t end;                                                                                            \
    } Planes##ID;                                                                                                      \
    static_assert(offsetof(Planes##ID, end) == RP_##ID##_BYTES,                                                        \
                  #name ": the fields are the whole block, and their planes are aligned");
RP_QUANTS(X)
#undef X
#undef FIELD

/* Assumptions that all kernels make about a type. Narrower ones stand next to the code that makes them. */
#define X(ID, name, sub, offset, has_min, top, from, end, ...)                                                         \
    static_assert(RP_##ID##_ELEMS == 32 || RP_##ID##_ELEMS == 256, #name ": blocks of 32 or 256");                     \
    static_assert((sub) == 32 || ((sub) == RP_SUM_BLOCK && RP_##ID##_ELEMS == 256),                                    \
                  #name ": sub-blocks of 32, or of 16 in blocks of 256");                                              \
    static_assert((offset) == 0 || !(has_min), #name ": an offset or minima, not both");                               \
    static_assert((offset) <= (top) && (top) <= 255, #name ": q are unsigned 8-bit integers");                         \
    static_assert((from) < (end) && (end) <= RP_##ID##_BYTES, #name ": a block contains its quants");                  \
    static_assert(RP_##ID >= RP_Q4_0 && RP_##ID != RP_Q8_ACT, #name ": a block type of weights");
RP_QUANTS(X)
#undef X

#define X(...) +1
enum { RP_N_QUANTS = RP_QUANTS(X) };
#undef X
static_assert(RP_N_QUANTS == RP_DTYPE_COUNT - RP_Q4_0 - 1,
              "every block type of RP_DTYPES but q8_act has a row in RP_QUANTS");

/* The KV cache is f16 or q8_0. A q8_0 block is quantised, stored and loaded by 32 lanes or 32 elements at a time. */
static_assert(RP_Q8_0_ELEMS == 32 && RP_Q8_0_BYTES == 2 + 32, "q8_0: f16 d, then 32 quants");

static_assert((int)RP_Q8_ACT_ELEMS == 32 && (int)RP_Q8_ACT_BYTES == 32 + 4 + 32 / (int)RP_SUM_BLOCK * 4,
              "q8_act: 32 quants, a scale, and a sum for each sum block");

#endif
