/* fp8.h - weights in FP8 (e4m3: sign, 4 bits of exponent with bias 7, 3 bits of mantissa; S.1111.111 is NaN, there
 * is no infinity) with the scales of their blocks:  w[r][c] = q[r][c] * scale[r / rows][c / columns], rounded to
 * bf16, nearest even. */
#ifndef MODEL_HF_FP8_H
#define MODEL_HF_FP8_H

#include "model/hf/safetensors.h"

typedef struct Fp8Blocks {
    uint32_t rows,
        columns; /* of weight_block_size; 0: config.json has none, and there is one scale, or one for each row */
} Fp8Blocks;

/* Writes the elements of a matrix to `out`. `scale` may be NULL: 1. RP_E_SHAPE if the shape of the scales does not
 * follow from that of the weight, RP_E_UNSUPPORTED for their type; `path` and the names of the tensors are in the
 * text. */
RP_NODISCARD RpStatus rp_fp8_to_bf16(const char *path, const SafeTensor *weight, const SafeTensor *scale,
                                     Fp8Blocks blocks, void *out);

/* One number. */
float rp_fp8_value(unsigned char bits);

#endif
