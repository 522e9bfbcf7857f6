/* quants.h - block-quantised weights: the block layouts of GGUF files, and the integer form they share.
 *
 * Every type dequantises to element i = scale[i/16] * (q[i] - offset) + min[i/16], q in 0..255.
 * So a dot product with int8 activations is one integer dot product plus, for types with minima,
 * min times a sum of activations (the sums of q8_act). No type needs arithmetic of its own.
 *
 * Words: a block is what the file stores together, 32 elements or a super-block of 256 (K types, IQ types).
 * A sub-block shares one scale: 32 elements, or 16. A sum block is 16 elements with one activation sum. */
#ifndef FALLBACK_QUANTS_QUANTS_H
#define FALLBACK_QUANTS_QUANTS_H

#include "base/dtypes.h"
#include "base/kernels.h"
#include "base/limits.h"
#include "fallback/quants/types/iq1.h"
#include "fallback/quants/types/iq2.h"
#include "fallback/quants/types/iq3.h"
#include "fallback/quants/types/iq4.h"
#include "fallback/quants/types/q2_k.h"
#include "fallback/quants/types/q3_k.h"
#include "fallback/quants/types/tq1_0.h"
#include "fallback/quants/types/tq2_0.h"
#include "reprise/quants.h"

/* d, m and dmin are IEEE half floats. Blocks of 32 put element i into the low nibble of qs[i] and element i + 16
 * into its high nibble. */

/* x[i] = d * (q[i] - 8) */
typedef struct BlockQ4_0 {
    uint16_t d;
    uint8_t  qs[16];
} BlockQ4_0;

/* x[i] = d * q[i] + m */
typedef struct BlockQ4_1 {
    uint16_t d, m;
    uint8_t  qs[16];
} BlockQ4_1;

/* x[i] = d * (q[i] - 16) */
typedef struct BlockQ5_0 {
    uint16_t d;
    uint8_t  qh[4]; /* bit i of the little-endian word: fifth bit of element i */
    uint8_t  qs[16];
} BlockQ5_0;

/* x[i] = d * q[i] + m */
typedef struct BlockQ5_1 {
    uint16_t d, m;
    uint8_t  qh[4];
    uint8_t  qs[16];
} BlockQ5_1;

/* x[i] = d * qs[i] */
typedef struct BlockQ8_0 {
    uint16_t d;
    int8_t   qs[32];
} BlockQ8_0;

/* x[i] = d * sc[j] * q[i] - dmin * m[j] for sub-block j = i / 32 of 8. Byte qs[32p + i] holds two sub-blocks:
 * element i of sub-block 2p in the low nibble, element i of sub-block 2p + 1 in the high one. scales[] holds sc and
 * m in 6 bits each:
 *
 *     byte j       (0..3)   bits 0-5 sc[j]     bits 6-7 high bits of sc[j+4]
 *     byte 4 + j   (0..3)   bits 0-5 m[j]      bits 6-7 high bits of m[j+4]
 *     byte 8 + j   (0..3)   low nibble: low bits of sc[j+4], high nibble: low bits of m[j+4] */
typedef struct BlockQ4_K {
    uint16_t d, dmin;
    uint8_t  scales[12];
    uint8_t  qs[128];
} BlockQ4_K;

/* As Q4_K, with a fifth bit. */
typedef struct BlockQ5_K {
    uint16_t d, dmin;
    uint8_t  scales[12];
    uint8_t  qh[32]; /* bit j of byte i: fifth bit of element i of sub-block j */
    uint8_t  qs[128];
} BlockQ5_K;

/* x[i] = d * scales[i/16] * (q[i] - 32). Half h of the block, 128 elements, is 64 bytes of ql and 32 of qh:
 *
 *     elements 128h + i       i in 0..31   ql[64h + i]      low nibble    qh[32h + i] bits 0-1
 *     elements 128h + 32 + i               ql[64h + 32 + i] low nibble    qh[32h + i] bits 2-3
 *     elements 128h + 64 + i               ql[64h + i]      high nibble   qh[32h + i] bits 4-5
 *     elements 128h + 96 + i               ql[64h + 32 + i] high nibble   qh[32h + i] bits 6-7 */
typedef struct BlockQ6_K {
    uint8_t  ql[128];
    uint8_t  qh[64];
    int8_t   scales[16];
    uint16_t d;
} BlockQ6_K;

/* x[i] = 2^(e - 127) * value[q[i]], the 4-bit floats 0 0.5 1 1.5 2 3 4 6 and their negatives (OCP Microscaling
 * 1.0). To be integers they are doubled and raised by 12; the scale of the integer form is 2^(e - 128). */
typedef struct BlockMXFP4 {
    uint8_t e;
    uint8_t qs[16];
} BlockMXFP4;

#define X(ID, name, ...)                                                                                               \
    static_assert(sizeof(Block##ID) == RP_##ID##_BYTES, #name ": the struct is as long as a block of the file");
RP_QUANTS(X)
#undef X

/* The columns of RP_QUANTS (base/dtypes.h) that products need. */
typedef struct QuantForm {
    int  sub_elems; /* elements of a sub-block: 32 or 16 */
    int  offset;    /* subtracted from every q */
    bool has_min;
    int  top; /* largest q */
} QuantForm;

/* The QuantForm of a type of the table, as a constant initialiser. */
#define RP_QUANT_FORM(ID)                                                                                              \
    { RP_##ID##_SUB, RP_##ID##_OFFSET, RP_##ID##_HAS_MIN, RP_##ID##_TOP }

/* NULL for types that are not block-quantised weights. */
const QuantForm *rp_quant_form(RpDtype dtype);

/* Dequantises n elements (whole blocks) to the integer form: q[n], scale[n/16], min[n/16]. min is 0 for types that
 * have none. */
typedef void DequantizeFunction(const void *blocks, int64_t n, uint8_t *q, float *scale, float *min);

/* The function of the instruction set in use (rp_cpu_isa); NULL for types that are not block-quantised weights. */
DequantizeFunction *rp_dequantize_function(RpDtype dtype);

#endif
