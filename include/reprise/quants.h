/* quants.h - quantise rows of f32 to the types of model files, and dequantise them. A row is a sequence of blocks; each
 * block stores small integers and the scales (and minima) that turn them back into numbers.
 *
 *   float x[32], y[32];
 *   uint8_t blocks[18];
 *   RP_TRY(rp_quantize_row(RP_Q4_0, x, 32, blocks));       // 32 floats become 18 bytes
 *   rp_dequantize_row(RP_Q4_0, blocks, 32, y);             // y is near x
 */
#ifndef REPRISE_QUANTS_H
#define REPRISE_QUANTS_H

#include "reprise/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Quantises x[0..n) to rp_row_bytes(dtype, n) bytes at `out`; also converts to f16 and bf16. Blocks of 32 are rounded
 * as in ggml's reference; for the K types the scales with the smallest squared error are searched. RP_E_DTYPE for a
 * type that weights cannot have (i32, q8_act), RP_E_SHAPE if n is not a whole number of blocks, RP_E_ARG for a negative
 * n. Block types also refuse with RP_E_ARG, naming the element, NaN, infinity, and values so large that an f16 scale or
 * minimum would be infinite (from 65520 on for q4_1, 8.3e6 for q8_0, 2.7e8 for q6_k); f32, f16 and bf16 are only
 * converted. A registered type (extend.h) refuses what its function refuses; RP_E_DTYPE if it has none. After a failure
 * the contents of `out` are undefined. */
RP_API RP_NODISCARD RpStatus rp_quantize_row(RpDtype dtype, const float *x, int64_t n, void *out);

/* Dequantises n elements to f32, a whole number of blocks. dtype: f32, f16, bf16, any block type except q8_act, or a
 * registered type; for any other type all elements of `out` become NaN. */
RP_API void rp_dequantize_row(RpDtype dtype, const void *row, int64_t n, float *out);

#ifdef __cplusplus
}
#endif
#endif
