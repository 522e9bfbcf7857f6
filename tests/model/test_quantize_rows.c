/* rp_quantize_row against ggml (tests/golden/pack.f32, pack.txt): the same blocks for the simple types, and no
 * larger squared error for the others, whose quantisers search. */
#include "tests/support/case.h"
#include "tests/support/kernel_test.h"

#include "base/dtypes.h"
#include "base/quantize.h"

enum { ROWS = 12, N = 256 };

#define X(ID, ...) RP_##ID,
static const RpDtype quantized[] = {RP_QUANTS(X)};
#undef X
enum { N_QUANTIZED = sizeof quantized / sizeof quantized[0] };

static float *golden_rows(void) {
    FILE  *f = golden_open("pack.f32");
    float *x = malloc(ROWS * N * sizeof *x);
    cr_assert_eq(fread(x, sizeof *x, ROWS * N, f), (size_t)(ROWS * N));
    fclose(f);
    return x;
}

static RpDtype type_of(const char *name) {
    for (int i = 0; i < RP_DTYPE_COUNT; i++)
        if (strcmp(rp_dtype_name((RpDtype)i), name) == 0) return (RpDtype)i;
    cr_assert(false, "%s is no type", name);
    return RP_F32;
}

/* Quantises all rows; returns the squared error. */
static double quantize_all(RpDtype type, const float *x, uint8_t *blocks) {
    float  back[N];
    double error = 0.0;
    for (int r = 0; r < ROWS; r++) {
        uint8_t *row = blocks + (size_t)r * rp_row_bytes(type, N);
        OK(rp_quantize_row(type, x + N * r, N, row));
        rp_dequantize_row(type, row, N, back);
        for (int i = 0; i < N; i++) error += pow((double)back[i] - (double)x[N * r + i], 2.0);
    }
    return error;
}

Test(quantize_rows, has_no_larger_error_than_ggml) {
    float         *x    = golden_rows();
    char          *line = NULL;
    size_t         size = 0;
    static uint8_t blocks[ROWS * N * 4];
    int            n = 0;
    FILE          *f = golden_open("pack.txt");
    for (const char *text; (text = golden_line(f, &line, &size)) != NULL; n++) {
        char   name[16];
        double theirs;
        int    at;
        cr_assert_eq(sscanf(text, "%15s %lf %n", name, &theirs, &at), 2, "%s", text);
        const RpDtype type = type_of(name);
        const double  ours = quantize_all(type, x, blocks);
        cr_log_info("%s: squared error %.6g, ggml %.6g", name, ours, theirs);
        cr_expect_leq(ours, theirs * 1.000001, "%s: %g, ggml %g", name, ours, theirs);
        if (text[at] == '-') continue;
        for (size_t i = 0; i < ROWS * rp_row_bytes(type, N); i++) {
            unsigned want;
            cr_assert_eq(sscanf(text + at + 2 * i, "%2x", &want), 1, CASE(i));
            cr_assert_eq(blocks[i], want, "%s: byte %zu is %02x, ggml has %02x", name, i, blocks[i], want);
        }
    }
    cr_expect_eq(n, N_QUANTIZED, "every type of RP_QUANTS is in pack.txt");
    fclose(f);
    free(line), free(x);
}

static float *golden_importance(void) {
    FILE  *f = golden_open("imatrix.f32");
    float *w = malloc(N * sizeof *w);
    cr_assert_eq(fread(w, sizeof *w, N, f), (size_t)N);
    fclose(f);
    return w;
}

/* Sum over the rows of sum w (y - x)^2 / sum w x^2, as tools/golden/golden_imatrix.py has it. `given`: what the
 * quantiser is told. */
static double weighted_error(RpDtype type, const float *x, const float *w, const float *given) {
    static uint8_t row[N * 4];
    double         sum = 0.0;
    float          back[N];
    for (int r = 0; r < ROWS; r++) {
        double error = 0.0, norm = 0.0;
        OK(rp_quantize_row_weighted(type, x + N * r, given, N, row));
        rp_dequantize_row(type, row, N, back);
        for (int i = 0; i < N; i++) {
            error += (double)w[i] * pow((double)back[i] - (double)x[N * r + i], 2.0);
            norm += (double)w[i] * pow((double)x[N * r + i], 2.0);
        }
        sum += norm > 0.0 ? error / norm : 0.0;
    }
    return sum;
}

Test(quantize_rows, has_hardly_a_larger_weighted_error_than_ggml) {
    float *x = golden_rows(), *w = golden_importance();
    char  *line = NULL;
    size_t size = 0;
    int    n    = 0;
    FILE  *f    = golden_open("imatrix.txt");
    for (const char *text; (text = golden_line(f, &line, &size)) != NULL; n++) {
        char   name[16];
        double theirs;
        cr_assert_eq(sscanf(text, "%15s %lf", name, &theirs), 2, "%s", text);
        const RpDtype type = type_of(name);
        const double  ours = weighted_error(type, x, w, w), without = weighted_error(type, x, w, NULL);
        cr_log_info("%s: weighted error %.6g, ggml %.6g, without importance %.6g", name, ours, theirs, without);
        cr_expect_leq(ours, theirs * 1.02, "%s: %g, ggml %g", name, ours, theirs);
        cr_expect_lt(ours, without, "%s: %g, without importance %g", name, ours, without);
    }
    cr_expect_eq(n, 18, "all types with a weighted search");
    fclose(f);
    free(line), free(x), free(w);
}

/* Only ratios of importances count, as far as f32 has them, and none is as good as 0 everywhere. */
Test(quantize_rows, takes_the_ratios_of_importances) {
    float *x = golden_rows(), *w = golden_importance(), scaled[N], zeros[N] = {0};
    for (int t = 0; t < N_QUANTIZED; t++) {
        uint8_t a[N * 4] = {0}, b[N * 4] = {0};
        for (int power = -100; power <= 100; power += 200) {
            for (int i = 0; i < N; i++) scaled[i] = ldexpf(w[i], power);
            OK(rp_quantize_row_weighted(quantized[t], x, w, N, a));
            OK(rp_quantize_row_weighted(quantized[t], x, scaled, N, b));
            cr_expect_arr_eq(a, b, sizeof a, "%s, times 2^%d", rp_dtype_name(quantized[t]), power);
        }
        OK(rp_quantize_row_weighted(quantized[t], x, zeros, N, a));
    }
    free(x), free(w);
}

Test(quantize_rows, keeps_float_values) {
    const float   x[4] = {1.0f, -0.5f, INFINITY, 65504.0f};
    float         back[4];
    uint8_t       out[16];
    const RpDtype types[] = {RP_F32, RP_F16, RP_BF16};
    for (int i = 0; i < 3; i++) {
        OK(rp_quantize_row(types[i], x, 3, out));
        rp_dequantize_row(types[i], out, 3, back);
        cr_expect_arr_eq(back, x, 3 * sizeof *x, CASE(i));
    }
}

/* Scales so small that their inverse is infinite. */
Test(quantize_rows, keeps_tiny_values_near_zero) {
    static const float top[] = {1e-45f, 1e-40f, 3e-38f, 1e-36f};
    float              x[256], back[256];
    static uint8_t     row[256 * 4];
    for (size_t k = 0; k < sizeof top / sizeof top[0]; k++)
        for (int t = 0; t < N_QUANTIZED; t++) {
            const RpDtype type = quantized[t];
            for (int i = 0; i < 256; i++) x[i] = i % 3 == 0 ? 0.0f : (i % 2 == 0 ? top[k] : -top[k]);
            OK(rp_quantize_row(type, x, 256, row));
            rp_dequantize_row(type, row, 256, back);
            for (int i = 0; i < 256; i++)
                cr_assert(fabsf(back[i]) < 1e-35f, "%s: %g became %g", rp_dtype_name(type), (double)x[i],
                          (double)back[i]);
        }
}

/* The inverse of the scale is infinite here. The conversion of infinity to an integer is not defined: it gives 0 on
 * x86, -1 on AArch64. */
Test(quantize_rows, gives_tiny_values_the_quant_0) {
    float   x[32] = {1e-37f, -1e-37f, 1e-38f};
    uint8_t block[34];
    OK(rp_quantize_row(RP_Q8_0, x, 32, block));
    for (int i = 0; i < 34; i++) cr_expect_eq(block[i], 0, "byte %d is %d", i, block[i]);
}

static bool is_codebook(RpDtype dtype) {
#define X(ID, ...) || dtype == RP_##ID
    return false RP_CODEBOOK_QUANTS(X);
#undef X
}

/* Finite values that need a scale or a minimum above 65504, the largest f16. Every type but MXFP4 and NVFP4, whose
 * largest value is 2688, has an f16 scale; the one magnitude of Q1_0 is the mean. Most codebooks have no 0: two
 * large values among zeros become smaller, so that the zeros do. */
Test(quantize_rows, refuses_values_too_large_for_their_scales) {
    static const float large[] = {3e38f, -3e38f, 1e10f};
    float              x[512]  = {0}, back[512];
    static uint8_t     row[512 * 4];
    for (int t = 0; t < N_QUANTIZED; t++) {
        const RpDtype type = quantized[t];
        if (type == RP_MXFP4) continue;
        for (size_t k = 0; k < sizeof large / sizeof large[0]; k++) {
            x[300] = large[k];
            char text[120];
            snprintf(text, sizeof text, "element 300 of a row, %g, is too large for the scales of %s", (double)large[k],
                     rp_dtype_name(type));
            REFUSED(rp_quantize_row(type, x, 512, row), RP_E_ARG, text);
        }
        const float most = type == RP_NVFP4 ? 2600.0f : 40000.0f, want = type == RP_Q1_0 ? 625.0f : most;
        x[300] = most, x[301] = -most;
        OK(rp_quantize_row(type, x, 512, row));
        rp_dequantize_row(type, row, 512, back);
        const float bound = is_codebook(type) ? want / 2.0f : want / 10.0f;
        cr_expect(fabsf(back[300] - want) < bound, "%s: %g", rp_dtype_name(type), (double)back[300]);
        x[301] = 0.0f;
    }
    x[300] = 3e38f;
    OK(rp_quantize_row(RP_MXFP4, x, 512, row));
    rp_dequantize_row(RP_MXFP4, row, 512, back);
    cr_expect(isfinite(back[300]));
}

Test(quantize_rows, types_of_no_weight_dequantise_to_nan) {
    const int32_t ids[64] = {0};
    const RpDtype types[] = {RP_I32, RP_Q8_ACT, RP_DTYPE_COUNT, (RpDtype)-1};
    for (int t = 0; t < 4; t++) {
        float out[32] = {0};
        rp_dequantize_row(types[t], ids, 32, out);
        for (int i = 0; i < 32; i++) cr_expect(isnan(out[i]), "%s: element %d", rp_dtype_name(types[t]), i);
    }
}

Test(quantize_rows, refuses_values_that_blocks_cannot_hold) {
    float   x[64] = {0};
    uint8_t out[64];
    REFUSED(rp_quantize_row(RP_Q4_0, x, 33, out), RP_E_SHAPE,
            "a row of 33 elements: must be a whole number of q4_0 blocks of 32");
    REFUSED(rp_quantize_row(RP_F32, x, -1, out), RP_E_ARG, "rp_quantize_row: -1 elements: must be at least 0");
    REFUSED(rp_quantize_row(RP_I32, x, 32, out), RP_E_DTYPE, "rows of i32 cannot be quantised");
    x[40] = NAN;
    REFUSED(rp_quantize_row(RP_Q8_0, x, 64, out), RP_E_ARG, "element 40 of a row is not finite: q8_0");
}
