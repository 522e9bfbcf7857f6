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
#include "fallback/quants/types.h"
#include "reprise/quants.h"

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
