/* blocks.h - random weights of every type, and activations quantised by the CPU's op quantize. */
#ifndef TESTS_BLOCKS_H
#define TESTS_BLOCKS_H

#include "tests/support/kernel_test.h"

#include "base/dtypes.h"

#define X(ID, ...) RP_##ID,
static const RpDtype quant_types[] = {RP_QUANTS(X)};
#undef X
enum { N_QUANT_TYPES = sizeof quant_types / sizeof quant_types[0] };

/* In builds that check each access, a case has one type of every TYPES_EACH; the next case begins at another type. The
 * suites that run from PTX check the accesses with all types. */
#ifdef SIM_RACE
enum { TYPES_EACH = 3 };
#else
enum { TYPES_EACH = 1 };
#endif

/* Position in bytes of the f16 scale in a block, or in each part of it: of its field d, else 0. The f16 minimum follows
 * it if the type has minima. MXFP4 and NVFP4 have neither, and the scale of IQ1_M is not in one place. */
static inline int scale_at(RpDtype type) {
#define FIELD(field, at, bytes) strcmp(#field, "d") == 0 ? (at):
#define X(ID, name, sub, offset, has_min, top, from, end, file_type, output, fields)                                   \
    if (type == RP_##ID) return fields 0;
    RP_QUANTS(X)
#undef X
#undef FIELD
    return 0;
}

static inline bool has_min(RpDtype type) {
#define X(ID, name, sub, offset, has_min, ...) || (has_min && type == RP_##ID)
    return false RP_QUANTS(X);
#undef X
}

/* Blocks of random bytes; only the f16 scales and minima are given values around 0.01, so that results are finite.
 * Every quant and every 6-bit scale occurs. */
static inline char *random_blocks(RpDtype type, int64_t n, int64_t rows, uint64_t seed) {
    const size_t bytes      = (size_t)rows * rp_row_bytes(type, n);
    const size_t block      = (size_t)(rp_dtype_info(type)->block_bytes / rp_block_parts(type));
    const bool   half_scale = type != RP_MXFP4 && type != RP_NVFP4 && type != RP_IQ1_M;
    char        *p          = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) p[i] = (char)(int)(random_float(&seed) * 128.0f);
    for (size_t i = 0; i < bytes; i += block)
        for (int k = 0; k < 1 + has_min(type) && half_scale; k++) {
            /* the quants of IQ4 are large, in IQ4_XS multiplied by up to 32: about 0.002 and 0.0005, else 0.01 */
            const int      least = type == RP_IQ4_NL ? 0x1800 : type == RP_IQ4_XS ? 0x1000 : 0x2000;
            const uint16_t half  = (uint16_t)(least + (int)(random_float(&seed) * 1000.0f));
            memcpy(p + i + scale_at(type) + 2 * k, &half, sizeof half);
        }
    for (size_t i = 0; i < bytes && type == RP_IQ1_M; i += block) /* its f16 scale is the high nibbles of four words */
        for (int k = 0; k < 4; k++) {
            char *byte = p + i + 49 + 2 * k;
            *byte      = (char)((*byte & 15) | (k < 3 ? 4 * k : 2) << 4);
        }
    for (size_t i = 0; i < bytes && type == RP_MXFP4; i += block)
        p[i] = (char)(118 + (int)(random_float(&seed) * 5.0f)); /* powers of two about 2^-9 */
    for (size_t i = 0; i < bytes && type == RP_NVFP4; i += block)
        for (int k = 0; k < 4; k++) p[i + (size_t)k] = (char)((uint8_t)p[i + (size_t)k] % 20); /* up to 0.023 */
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
    const RpOpArgs args = {.dst = tensor(RP_Q8_ACT, y, n, columns, 1, 1), .src = {tensor(RP_F32, x, n, columns, 1, 1)}};
    OK(run_workers(rp_cpu_quantize, &args, 1));
    return y;
}

#endif
