/* blocks.h - random weights of every type, and activations quantised by the CPU's op quantize. */
#ifndef TESTS_BLOCKS_H
#define TESTS_BLOCKS_H

#include "tests/kernel_test.h"

static const RpDtype quant_types[] = {RP_Q4_0, RP_Q4_1, RP_Q5_0, RP_Q5_1, RP_Q8_0,
                                      RP_Q4_K, RP_Q5_K, RP_Q6_K, RP_MXFP4};
enum { N_QUANT_TYPES = sizeof quant_types / sizeof quant_types[0] };

/* Blocks of random bytes; only the f16 scales and minima (at byte offsets at[0], at[1] of a block) are given
 * values around 0.01, so that results are finite. Every quant and every 6-bit scale occurs. */
static inline char *random_blocks(RpDtype type, int64_t n, int64_t rows, uint64_t seed) {
    static const struct {
        RpDtype type;
        int     at[2];
    } scales[] = {
        {RP_Q4_0, {0, -1}  },
        {RP_Q4_1, {0, 2}   },
        {RP_Q5_0, {0, -1}  },
        {RP_Q5_1, {0, 2}   },
        {RP_Q8_0, {0, -1}  },
        {RP_Q4_K, {0, 2}   },
        {RP_Q5_K, {0, 2}   },
        {RP_Q6_K, {208, -1}}
    };
    const size_t bytes = (size_t)rows * rp_row_bytes(type, n),
                 block = (size_t)rp_dtype_info(type)->block_bytes;
    char *p            = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) p[i] = (char)(int)(random_float(&seed) * 128.0f);
    for (size_t i = 0; i < bytes; i += block)
        for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++)
            for (int k = 0; k < 2 && scales[s].type == type; k++) {
                const uint16_t half =
                    (uint16_t)(0x2000 + (int)(random_float(&seed) * 1000.0f)); /* about 0.01 */
                if (scales[s].at[k] >= 0) memcpy(p + i + scales[s].at[k], &half, sizeof half);
            }
    for (size_t i = 0; i < bytes && type == RP_MXFP4; i += block)
        p[i] = (char)(118 + (int)(random_float(&seed) * 5.0f)); /* powers of two about 2^-9 */
    return p;
}

/* Weights of any type; float types by conversion from f32. */
static inline char *random_weights(RpDtype type, int64_t n, int64_t rows, uint64_t seed) {
    if (rp_dtype_is_quant(type)) return random_blocks(type, n, rows, seed);
    const size_t   n_w  = (size_t)(n * rows);
    float         *data = random_floats(n_w, seed);
    char          *w    = malloc(n_w * 4);
    const RpOpArgs to   = {.dst = tensor(type, w, (int64_t)n_w, 1, 1, 1),
                           .src = {tensor(RP_F32, data, (int64_t)n_w, 1, 1, 1)}};
    OK(run_workers(rp_cpu_copy, &to, 1));
    free(data);
    return w;
}

/* n x columns floats as q8_act; the caller frees. */
static inline char *quantize_columns(float *x, int64_t n, int64_t columns) {
    char          *y    = malloc((size_t)columns * rp_row_bytes(RP_Q8_ACT, n));
    const RpOpArgs args = {.dst = tensor(RP_Q8_ACT, y, n, columns, 1, 1),
                           .src = {tensor(RP_F32, x, n, columns, 1, 1)}};
    OK(run_workers(rp_cpu_quantize, &args, 1));
    return y;
}

#endif
