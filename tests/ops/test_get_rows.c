/* The op get_rows: rows of ggml's golden files (tests/golden/quant), dequantised by gguf-py, are the reference
 * for every type; the fused scale is compared with the op scale, bit for bit. */
#include "tests/support/case.h"
#include "tests/support/fused.h"

Test(get_rows, fetches_rows_of_floats) {
    float          w[6]   = {1, 2, 3, 4, 5, 6}, y[8];
    int32_t        ids[4] = {2, 0, 0, 1};
    const RpOpArgs args   = {
          .dst = tensor(RP_F32, y, 2, 4, 1, 1), .src = {tensor(RP_F32, w, 2, 3, 1, 1), tensor(RP_I32, ids, 4, 1, 1, 1)}
    };
    run_variants(rp_cpu_get_rows, &args);
    cr_expect_arr_eq(y, ((float[]){5, 6, 1, 2, 1, 2, 3, 4}), sizeof y);
}

/* The rows of tests/golden/quant, quantised by ggml and dequantised by gguf-py. */
Test(get_rows, dequantises_every_weight_type_as_ggml_does) {
#define X(ID, ...) RP_##ID,
    static const RpDtype types[] = {RP_F16, RP_BF16, RP_QUANTS(X)};
#undef X
    enum { N = 512, ROWS = 4 };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char         name[64];
        const size_t bytes  = ROWS * rp_row_bytes(types[i], N);
        char        *blocks = malloc(bytes);
        float        want[N * ROWS], y[N * ROWS];
        int32_t      ids[ROWS] = {0, 1, 2, 3};
        snprintf(name, sizeof name, "quant/%s.bin", rp_dtype_name(types[i]));
        FILE *f = golden_open(name);
        cr_assert_eq(fread(blocks, 1, bytes, f), bytes, CASE(i));
        fclose(f);
        snprintf(name, sizeof name, "quant/%s.f32", rp_dtype_name(types[i]));
        f = golden_open(name);
        cr_assert_eq(fread(want, 1, sizeof want, f), sizeof want, CASE(i));
        fclose(f);
        const RpOpArgs args = {
            .dst = tensor(RP_F32, y, N, ROWS, 1, 1),
            .src = {tensor(types[i], blocks, N, ROWS, 1, 1), tensor(RP_I32, ids, ROWS, 1, 1, 1)}
        };
        run_variants(rp_cpu_get_rows, &args);
        for (int k = 0; k < N * ROWS; k++) /* one rounding */
            cr_assert(fabsf(y[k] - want[k]) <= 1.2e-7f * fabsf(want[k]), "%s: element %d is %.9g, not %.9g",
                      rp_dtype_name(types[i]), k, (double)y[k], (double)want[k]);
        free(blocks);
    }
}

static void unfused_scaled(Runner *run, const RpOpArgs *as) {
    run_op(run, rp_cpu_get_rows, as->dst, (RpOpParams){.get_rows = {.scale = 0.0f}}, as->get_rows.w, as->get_rows.ids);
    unfused_scale(run, as->dst, as->params->get_rows.scale);
}

Test(get_rows, scales_the_rows) {
    int32_t          ids[3] = {4, 0, 4};
    const RpOpParams p      = {.get_rows = {.scale = -7.25f}};
    for (int i = 0; i < N_QUANT_TYPES + 3; i++) {
        const RpDtype type =
            i < N_QUANT_TYPES ? quant_types[i] : (RpDtype[]){RP_F32, RP_F16, RP_BF16}[i - N_QUANT_TYPES];
        const int64_t  n    = 2 * rp_dtype_info(type)->block_elems;
        char          *w    = random_weights(type, n, 5, 20);
        float         *y    = malloc((size_t)n * 3 * sizeof *y);
        const RpOpArgs args = {
            .dst    = floats(y, n, 3),
            .src    = {VIEW(type, w, n, 5, 1, 1), VIEW(RP_I32, ids, 3, 1, 1, 1)},
            .params = &p,
        };
        check_fused(rp_cpu_get_rows, &args, unfused_scaled);
        free(w), free(y);
    }
}

Test(get_rows, refuses_an_id_outside_the_table) {
    float          w[6]   = {0}, y[4];
    int32_t        ids[2] = {1, 3};
    const RpOpArgs args   = {
          .dst = tensor(RP_F32, y, 2, 2, 1, 1), .src = {tensor(RP_F32, w, 2, 3, 1, 1), tensor(RP_I32, ids, 2, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_get_rows, &args, 1), RP_E_ARG, "get_rows: id 3 at 1, the table has 3 rows");
    ids[1] = -2;
    REFUSED(run_workers(rp_cpu_get_rows, &args, 1), RP_E_ARG, "get_rows: id -2 at 1");
}

Test(get_rows, gives_zeros_for_the_id_of_padding) {
    static const RpDtype types[] = {RP_F32, RP_BF16, RP_Q8_0, RP_Q4_K};
    int32_t              ids[4]  = {1, -1, 0, -1};
    const RpOpParams     p       = {.get_rows = {.scale = 3.0f}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        enum { N = 256 };
        char          *w    = random_weights(types[i], N, 2, 9);
        float         *y    = malloc((size_t)N * 4 * sizeof *y);
        const RpOpArgs args = {
            .dst    = floats(y, N, 4),
            .src    = {VIEW(types[i], w, N, 2, 1, 1), VIEW(RP_I32, ids, 4, 1, 1, 1)},
            .params = &p,
        };
        for (int k = 0; k < 4 * N; k++) y[k] = NAN;
        run_variants(rp_cpu_get_rows, &args);
        for (int k = 0; k < 4 * N; k++)
            cr_assert(ids[k / N] < 0 ? y[k] == 0.0f : isfinite(y[k]), "%s, element %d is %g", rp_dtype_name(types[i]),
                      k, (double)y[k]);
        free(w), free(y);
    }
}

Test(get_rows, without_ids_gives_all_rows) {
    for (int i = 0; i < N_QUANT_TYPES; i++) {
        const int64_t  n    = 2 * rp_dtype_info(quant_types[i])->block_elems;
        char          *w    = random_weights(quant_types[i], n, 3, 1);
        float         *y    = malloc((size_t)(3 * n) * sizeof *y), want[512];
        const RpOpArgs args = {.dst        = tensor(RP_F32, y, n, 3, 1, 1),
                               .get_rows.w = tensor(quant_types[i], w, n, 3, 1, 1)};
        run_variants(rp_cpu_get_rows, &args);
        for (int64_t r = 0; r < 3; r++) {
            rp_dequantize_row(quant_types[i], w + (size_t)r * rp_row_bytes(quant_types[i], n), n, want);
            cr_expect_arr_eq(y + r * n, want, (size_t)n * sizeof *y, CASE(i, r));
        }
        free(w), free(y);
    }
}
