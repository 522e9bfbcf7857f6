/* Three types of weights, registered from outside of the library.
 *
 *     nf4        quantiles of the normal distribution, times the largest magnitude of a block (QLoRA, Dettmers et al.
 *                2023, arXiv:2305.14314, appendix E)
 *     ternary    -1, 0 or 1 times a scale (BitNet b1.58, Ma et al. 2024, arXiv:2402.17764)
 *     fp8_e4m3   8-bit floats without infinities (OCP 8-bit Floating Point Specification, 2023)
 *
 * main multiplies a random matrix in each type by two columns, and compares with the same matrix in f32. The same file
 * makes a plugin for the program:
 *
 *     cc -shared -fPIC -O2 -DDTYPES_PLUGIN examples/dtypes.c -o dtypes.so
 *     reprise quantize model-f16.gguf model-nf4.gguf --type nf4 --plugin ./dtypes.so
 *     reprise generate -m model-nf4.gguf --plugin ./dtypes.so -p "Once upon a time" */
#ifdef DTYPES_PLUGIN
#include "reprise/plugin.h"
#else
#include "reprise/executor.h"
#include "reprise/extend.h"
#include "reprise/quants.h"
#endif

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- nf4 ---- */

/* Element 2k is the high half of code[k], as in bitsandbytes. */
typedef struct BlockNf4 {
    float   largest; /* magnitude */
    uint8_t code[32];
} BlockNf4;

enum { NF4_ELEMS = 64, NF4_ZERO = 7 };

static const float nf4_values[16] = {-1.0f,
                                     -0.6961928009986877f,
                                     -0.5250730514526367f,
                                     -0.39491748809814453f,
                                     -0.28444138169288635f,
                                     -0.18477343022823334f,
                                     -0.09105003625154495f,
                                     0.0f,
                                     0.07958029955625534f,
                                     0.16093020141124725f,
                                     0.24611230194568634f,
                                     0.33791524171829224f,
                                     0.44070982933044434f,
                                     0.5626170039176941f,
                                     0.7229568362236023f,
                                     1.0f};

static void nf4_block(const BlockNf4 *b, float *out) {
    for (int k = 0; k < NF4_ELEMS / 2; k++) {
        out[2 * k]     = b->largest * nf4_values[b->code[k] >> 4];
        out[2 * k + 1] = b->largest * nf4_values[b->code[k] & 15];
    }
}

/* Blocks lie at any address, so they are copied. */
static void nf4_dequantize(const void *row, int64_t n, float *out, void *user) {
    BlockNf4 b;
    (void)user;
    for (int64_t i = 0; i < n / NF4_ELEMS; i++) {
        memcpy(&b, (const char *)row + (size_t)i * sizeof b, sizeof b);
        nf4_block(&b, out + i * NF4_ELEMS);
    }
}

/* The nearest value; of two, the lower one. */
static unsigned nf4_code(float x) {
    unsigned code = 0;
    while (code < 15 && x > 0.5f * (nf4_values[code] + nf4_values[code + 1])) code++;
    return code;
}

static RpStatus nf4_quantize(const float *x, const float *importance, int64_t n, void *row, void *user) {
    (void)importance, (void)user; /* the scale leaves no choice */
    for (int64_t i = 0; i < n / NF4_ELEMS; i++, x += NF4_ELEMS) {
        BlockNf4 b = {0};
        for (int k = 0; k < NF4_ELEMS; k++) {
            if (!isfinite(x[k])) return RP_E_ARG;
            if (fabsf(x[k]) > b.largest) b.largest = fabsf(x[k]);
        }
        for (int k = 0; k < NF4_ELEMS; k++) {
            const unsigned code = b.largest > 0.0f ? nf4_code(x[k] / b.largest) : NF4_ZERO;
            b.code[k / 2] |= (uint8_t)(k % 2 == 0 ? code << 4 : code);
        }
        memcpy((char *)row + (size_t)i * sizeof b, &b, sizeof b);
    }
    return RP_OK;
}

static float nf4_dot(const void *row, const float *x, int64_t n, void *user) {
    BlockNf4 b;
    float    all = 0.0f;
    (void)user;
    for (int64_t i = 0; i < n / NF4_ELEMS; i++, x += NF4_ELEMS) {
        float sum[2] = {0.0f, 0.0f};
        memcpy(&b, (const char *)row + (size_t)i * sizeof b, sizeof b);
        for (int k = 0; k < NF4_ELEMS / 2; k++) {
            sum[0] += nf4_values[b.code[k] >> 4] * x[2 * k];
            sum[1] += nf4_values[b.code[k] & 15] * x[2 * k + 1];
        }
        all += b.largest * (sum[0] + sum[1]);
    }
    return all;
}

static bool nf4_validate(const void *block, void *user) {
    BlockNf4 b;
    (void)user;
    memcpy(&b, block, sizeof b);
    return isfinite(b.largest) && b.largest >= 0.0f;
}

/* ---- ternary ---- */

/* Digit q of element 5k + j, from 0 to 2 for -1 to 1, is the factor of 3^j in digits[k]. */
typedef struct BlockTernary {
    uint8_t scale[4]; /* f32: a block has 17 bytes, and no padding */
    uint8_t digits[13];
} BlockTernary;

enum { TERNARY_ELEMS = 64, TERNARY_MOST = 242 };

static float ternary_scale(const BlockTernary *b) {
    float d;
    memcpy(&d, b->scale, sizeof d);
    return d;
}

static void ternary_quants(const BlockTernary *b, float *q) {
    for (int i = 0; i < TERNARY_ELEMS;) {
        unsigned digits = b->digits[i / 5];
        do {
            q[i++] = (float)(digits % 3) - 1.0f;
            digits /= 3;
        } while (i % 5 != 0 && i < TERNARY_ELEMS);
    }
}

static void ternary_dequantize(const void *row, int64_t n, float *out, void *user) {
    const BlockTernary *b = row;
    (void)user;
    for (int64_t i = 0; i < n / TERNARY_ELEMS; i++, out += TERNARY_ELEMS) {
        ternary_quants(b + i, out);
        for (int k = 0; k < TERNARY_ELEMS; k++) out[k] *= ternary_scale(b + i);
    }
}

/* Quants from the mean magnitude, as in the paper; then the scale with the smallest weighted squared error. */
static void ternary_fit(const float *x, const float *importance, BlockTernary *b) {
    float mean = 0.0f, product = 0.0f, square = 0.0f, d = 0.0f;
    for (int k = 0; k < TERNARY_ELEMS; k++) mean += fabsf(x[k]) / TERNARY_ELEMS;
    memset(b, 0, sizeof *b);
    for (int k = TERNARY_ELEMS - 1; k >= 0; k--) {
        const float w = importance != NULL ? importance[k] : 1.0f;
        const int   q = x[k] > 0.5f * mean ? 1 : x[k] < -0.5f * mean ? -1 : 0;
        product += w * x[k] * (float)q;
        square += w * (float)(q * q);
        b->digits[k / 5] = (uint8_t)(3 * b->digits[k / 5] + q + 1);
    }
    if (square > 0.0f) d = product / square;
    memcpy(b->scale, &d, sizeof d);
}

static RpStatus ternary_quantize(const float *x, const float *importance, int64_t n, void *row, void *user) {
    BlockTernary *b = row;
    (void)user;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return RP_E_ARG;
    for (int64_t i = 0; i < n / TERNARY_ELEMS; i++)
        ternary_fit(x + i * TERNARY_ELEMS, importance != NULL ? importance + i * TERNARY_ELEMS : NULL, b + i);
    return RP_OK;
}

static float ternary_dot(const void *row, const float *x, int64_t n, void *user) {
    const BlockTernary *b   = row;
    float               all = 0.0f, q[TERNARY_ELEMS];
    (void)user;
    for (int64_t i = 0; i < n / TERNARY_ELEMS; i++, x += TERNARY_ELEMS) {
        float sum = 0.0f;
        ternary_quants(b + i, q);
        for (int k = 0; k < TERNARY_ELEMS; k++) sum += q[k] * x[k];
        all += ternary_scale(b + i) * sum;
    }
    return all;
}

static bool ternary_validate(const void *block, void *user) {
    const BlockTernary *b  = block;
    bool                ok = isfinite(ternary_scale(b));
    (void)user;
    for (int k = 0; k < 13; k++) ok = ok && b->digits[k] <= TERNARY_MOST;
    return ok;
}

/* ---- fp8_e4m3 ---- */

/* s eeee mmm:  (-1)^s 2^(e-7) (1 + m/8), or (-1)^s 2^-6 m/8 for e = 0; NaN for e = 15 with m = 7. */
static float fp8_value(unsigned code) {
    const int   e = code >> 3 & 15, m = code & 7;
    const float v = (code & 127) == 127 ? NAN : e == 0 ? ldexpf((float)m, -9) : ldexpf((float)(8 + m), e - 10);
    return (code & 128) != 0 ? -v : v;
}

/* To nearest, ties to even. Magnitudes above 448, the largest, become 448. */
static uint8_t fp8_code(float x) {
    const unsigned sign = signbit(x) ? 128 : 0;
    const float    size = fabsf(x);
    int            e;
    if (isnan(x)) return (uint8_t)(sign | 127);
    if (size >= 448.0f) return (uint8_t)(sign | 126);
    frexpf(size, &e);           /* size = f 2^e with f in [1/2, 1), so that the unit of the last bit is 2^(e-4) */
    if (size < 0x1p-6f) e = -5; /* subnormal: the unit is 2^-9 */
    const int q = (int)nearbyintf(ldexpf(size, 4 - e)); /* 8 to 16, subnormal 0 to 8: 16 carries into the exponent */
    return (uint8_t)(sign + 8u * (unsigned)(e + 5) + (unsigned)q);
}

static void fp8_dequantize(const void *row, int64_t n, float *out, void *user) {
    const uint8_t *code   = row;
    const float   *values = user;
    for (int64_t i = 0; i < n; i++) out[i] = values[code[i]];
}

static RpStatus fp8_quantize(const float *x, const float *importance, int64_t n, void *row, void *user) {
    uint8_t *code = row;
    (void)importance, (void)user;
    for (int64_t i = 0; i < n; i++) code[i] = fp8_code(x[i]);
    return RP_OK;
}

/* Element i is added to sum i % 8: the order is that of the elements, whatever the compiler makes of it. */
static float fp8_dot(const void *row, const float *x, int64_t n, void *user) {
    const uint8_t *code   = row;
    const float   *values = user;
    float          sum[8] = {0.0f};
    for (int64_t i = 0; i < n; i++) sum[i % 8] += values[code[i]] * x[i];
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

/* ---- registration ---- */

static float fp8_values[256]; /* handed to the functions as `user` */

/* Numbers in GGUF files must not be those of ggml, which counts up from 0. */
static const RpDtypeDescription nf4      = {.name        = "nf4",
                                            .block_elems = NF4_ELEMS,
                                            .block_bytes = sizeof(BlockNf4),
                                            .gguf_type   = 20001,
                                            .dequantize  = nf4_dequantize,
                                            .quantize    = nf4_quantize,
                                            .dot         = nf4_dot,
                                            .validate    = nf4_validate};
static const RpDtypeDescription ternary  = {.name        = "ternary",
                                            .block_elems = TERNARY_ELEMS,
                                            .block_bytes = sizeof(BlockTernary),
                                            .gguf_type   = 20002,
                                            .dequantize  = ternary_dequantize,
                                            .quantize    = ternary_quantize,
                                            .dot         = ternary_dot,
                                            .validate    = ternary_validate};
static const RpDtypeDescription fp8_e4m3 = {.name        = "fp8_e4m3",
                                            .block_elems = 1,
                                            .block_bytes = 1,
                                            .gguf_type   = 20003,
                                            .dequantize  = fp8_dequantize,
                                            .quantize    = fp8_quantize,
                                            .dot         = fp8_dot,
                                            .user        = fp8_values};

enum { N_TYPES = 3 };

static const RpDtypeDescription *const descriptions[N_TYPES] = {&nf4, &ternary, &fp8_e4m3};

#ifdef DTYPES_PLUGIN

RP_API RpStatus rp_plugin(const RpPluginHost *host);

RpStatus rp_plugin(const RpPluginHost *host) {
    RpDtype type;
    for (unsigned code = 0; code < 256; code++) fp8_values[code] = fp8_value(code);
    for (int i = 0; i < N_TYPES; i++) RP_TRY(host->dtype_register(descriptions[i], sizeof *descriptions[i], &type));
    return RP_OK;
}

#else

static RpStatus register_types(RpDtype types[N_TYPES]) {
    for (unsigned code = 0; code < 256; code++) fp8_values[code] = fp8_value(code);
    for (int i = 0; i < N_TYPES; i++) RP_TRY(rp_dtype_register(descriptions[i], &types[i]));
    return RP_OK;
}

/* ---- a product in each type ---- */

enum { ROWS = 96, INNER = 256, COLUMNS = 2 };

/* Near to normally distributed: the sum of 12 uniform numbers. */
static void fill(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        x[i] = -6.0f;
        for (int k = 0; k < 12; k++) x[i] += (float)rand() / (float)RAND_MAX;
    }
}

/* y [ROWS,COLUMNS] = w x, by a graph. */
static RpStatus multiply(const RpTensorView *w, const float *x, float *y) {
    ComputeGraph *g    = rp_graph_new();
    ExecPlan     *plan = NULL;
    RpExecutor   *exec = NULL;
    TensorNode   *in   = rp_graph_input(g, "x", RP_F32, (int64_t[]){INNER, COLUMNS, 1, 1});
    TensorNode   *out  = rp_mul_mat(g, rp_graph_weight(g, "w", w), in);
    RpStatus      st   = rp_graph_finish(g, &out, 1);
    if (st == RP_OK) st = rp_graph_optimize(g, "");
    if (st == RP_OK) st = rp_plan_new(g, &plan);
    if (st == RP_OK) st = rp_executor_open(plan, &(RpExecutorOptions){.device = "cpu"}, &exec);
    if (st == RP_OK) {
        memcpy(rp_executor_data(exec, in), x, INNER * COLUMNS * sizeof *x);
        st = rp_executor_run(exec);
    }
    if (st == RP_OK) memcpy(y, rp_executor_data(exec, out), ROWS * COLUMNS * sizeof *y);
    rp_executor_free(exec);
    rp_plan_free(plan);
    rp_graph_free(g);
    return st;
}

/* |got - want| / |want| of vectors. */
static double error_of(const float *got, const float *want, size_t n) {
    double error = 0.0, size = 0.0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    return sqrt(error / size);
}

static RpStatus compare(RpDtype type, const float *w, const float *x, double *error) {
    static float   wide[ROWS * INNER], want[ROWS * COLUMNS], y[ROWS * COLUMNS];
    static uint8_t blocks[4 * ROWS * INNER]; /* no type takes more */
    const int64_t  ne[RP_MAX_DIMS] = {INNER, ROWS, 1, 1};
    const size_t   row             = rp_row_bytes(type, INNER);
    for (int r = 0; r < ROWS; r++) {
        RP_TRY(rp_quantize_row(type, w + r * INNER, INNER, blocks + (size_t)r * row));
        rp_dequantize_row(type, blocks + (size_t)r * row, INNER, wide + r * INNER);
    }
    const RpTensorView narrow = rp_view_contiguous(type, ne, blocks), f32 = rp_view_contiguous(RP_F32, ne, wide);
    RP_TRY(multiply(&narrow, x, y));
    RP_TRY(multiply(&f32, x, want));
    *error = error_of(wide, w, ROWS * INNER);
    printf("%-9s %.3f bits a weight, error of the weights %.3f, of the product %.0e\n", rp_dtype_name(type),
           8.0 * (double)row / INNER, *error, error_of(y, want, ROWS * COLUMNS));
    return error_of(y, want, ROWS * COLUMNS) < 1e-6 ? RP_OK : rp_fail(RP_E_STATE, "the product is another one");
}

int main(void) {
    static const double most[N_TYPES] = {0.1, 0.5, 0.03};
    static float        w[ROWS * INNER], x[INNER * COLUMNS];
    RpDtype             types[N_TYPES];
    bool                good = true;
    RpStatus            st   = register_types(types);
    fill(w, ROWS * INNER);
    fill(x, INNER * COLUMNS);
    for (int i = 0; i < N_TYPES && st == RP_OK; i++) {
        double error = 1.0;
        st           = compare(types[i], w, x, &error);
        good         = good && error < most[i];
    }
    if (st != RP_OK) fprintf(stderr, "%s\n", rp_last_error());
    return st != RP_OK || !good;
}

#endif
