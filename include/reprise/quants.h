/* quants.h - rows of floats to the block types of model files, and back.
 *
 *   uint8_t blocks[18];
 *   rp_quantize_row(RP_Q4_0, x, 32, blocks);       // 32 floats in 18 bytes
 *   rp_dequantize_row(RP_Q4_0, blocks, 32, y);      // y is near x
 */
#ifndef REPRISE_QUANTS_H
#define REPRISE_QUANTS_H

#include "reprise/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A row of n elements as rp_row_bytes(dtype, n) bytes of the type; n is a whole number of blocks. The simple types are
 * rounded as the format's reference does; of the K types the scales are searched for the least squared error.
 * RP_E_DTYPE for types that are no weights, RP_E_SHAPE where n is not whole blocks, RP_E_ARG where x has NaN or
 * infinity, which no block type holds (f32, f16 and bf16 do). */
RP_NODISCARD RpStatus rp_quantize_row(RpDtype dtype, const float *x, int64_t n, void *out);

/* A row of n elements of any float or weight type, widened to f32; n is a whole number of blocks. */
void rp_dequantize_row(RpDtype dtype, const void *row, int64_t n, float *out);

#ifdef __cplusplus
}
#endif
#endif
