#include "tests/blocks.h"

/* Element i of a q8_act row, as tensor.h has it. */
static double act(const char *row, int64_t n, int64_t i) {
    float scale;
    memcpy(&scale, row + n + 4 * (i / 32), sizeof scale);
    return (double)(int8_t)row[i] * (double)scale;
}

#ifdef RP_TEST_CUDA
/* The device's sum of a column is the same beside other columns and alone (I8). */
static void check_alone_on_the_device(OpArgs args) {
    const int64_t rows = args.dst.ne[0], n = args.src[1].ne[1];
    const size_t  bytes  = rp_view_extent_bytes(&args.dst);
    char         *before = calloc(1, bytes), *together = malloc(bytes), *alone = malloc(bytes);
    sim_sched(0, 1);
    args.dst.data = together;
    OK(cuda_run(rp_cpu_mul_mat, &args, before));
    args.dst   = packed(RP_F32, alone, rows, 1, 1, 1);
    char *from = args.src[1].data;
    for (int64_t c = 0; c < n; c++) {
        args.src[1] =
            packed(args.src[1].dtype, from + (size_t)c * args.src[1].nb[1], args.src[0].ne[0], 1, 1, 1);
        OK(cuda_run(rp_cpu_mul_mat, &args, before));
        cr_assert_arr_eq(alone, together + (size_t)(c * rows) * 4, (size_t)rows * 4,
                         "%s: column %d alone on the device", rp_dtype_name(args.src[0].dtype), (int)c);
    }
    free(before), free(together), free(alone);
}
#else
static void check_alone_on_the_device(OpArgs args) { (void)args; }
#endif

/* Frees w and x. */
static void check_products(RpDtype type, int64_t n, int64_t rows, int64_t columns, char *w, float *x) {
    float         *wide = malloc((size_t)n * 4);
    char          *q    = quantised_columns(x, n, columns);
    const size_t   n_y  = (size_t)(rows * columns);
    float         *y = malloc(n_y * 4), *alone = malloc((size_t)rows * 4);
    const OpParams p    = {.mul_mat = {.bound = RP_BOUND_NONE}};
    OpArgs         args = {
                .dst    = packed(RP_F32, y, rows, columns, 1, 1),
                .src    = {packed(type, w, n, rows, 1, 1), packed(RP_Q8_ACT, q, n, columns, 1, 1)},
                .params = &p
    };
    run_everywhere(rp_cpu_mul_mat, &args);
    check_alone_on_the_device(args);
    for (int64_t m = 0; m < rows; m++) {
        rp_dequantize_row(type, w + (size_t)m * rp_row_bytes(type, n), n, wide);
        for (int64_t c = 0; c < columns; c++) {
            double want = 0.0, size = 0.0;
            for (int64_t i = 0; i < n; i++) {
                const double term = (double)wide[i] * act(q + (size_t)c * rp_row_bytes(RP_Q8_ACT, n), n, i);
                want += term, size += fabs(term);
            }
            cr_assert(fabs((double)y[m + rows * c] - want) <= 3e-6 * size,
                      "%s [%d,%d], %d columns: (%d,%d) is %g, not %g", rp_dtype_name(type), (int)n, (int)rows,
                      (int)columns, (int)m, (int)c, (double)y[m + rows * c], want);
        }
    }
    for (int64_t c = 0; c < columns; c++) {
        args.dst    = packed(RP_F32, alone, rows, 1, 1, 1);
        args.src[1] = packed(RP_Q8_ACT, q + (size_t)c * rp_row_bytes(RP_Q8_ACT, n), n, 1, 1, 1);
        run_everywhere(rp_cpu_mul_mat, &args);
        cr_assert_arr_eq(alone, y + rows * c, (size_t)rows * 4, "%s: column %d alone gives other bits",
                         rp_dtype_name(type), (int)c);
    }
    free(w), free(x), free(wide), free(q), free(y), free(alone);
}

static void check_quantised(RpDtype type, int64_t n, int64_t rows, int64_t columns) {
    check_products(type, n, rows, columns, random_blocks(type, n, rows, 20),
                   random_floats((size_t)(n * columns), 21));
}

Test(mul_mat, of_every_weight_type_in_integers) {
    for (int i = 0; i < N_QUANTISED; i++) {
        const int64_t block = rp_dtype_info(quantised[i])->block_elems;
        check_quantised(quantised[i], block, 3, 2);
        check_quantised(quantised[i], 3 * block, 13,
                        6); /* an odd number of blocks of 32 ends in half a span */
        check_quantised(quantised[i], 4096 + 2 * block, 3, 5); /* longer than one piece */
    }
    check_quantised(RP_Q4_0, 33 * 1024, 3, 5);
    check_quantised(RP_Q6_K, 33 * 1024, 2, 1);
    check_quantised(RP_Q8_0, 64, 1100, 3);
}

#ifndef RP_TEST_CUDA
/* The ways of fallback/tiles.c: rows unpacked in stretches for up to 32 columns, whole panels for more; a last panel that
 * is not full; the largest number of columns that goes one way and the smallest that goes the other. */
Test(mul_mat, of_many_rows_and_columns) {
    for (int i = 0; i < N_QUANTISED; i++) {
        const int64_t block = rp_dtype_info(quantised[i])->block_elems;
        check_quantised(quantised[i], (block == 32 ? 21 : 3) * block, 37, 8);
    }
    check_quantised(RP_Q5_1, 64, 19, 35);
    check_quantised(RP_Q6_K, 512, 19, 34);
    check_quantised(RP_Q4_0, 256, 33, 32);
    check_quantised(RP_Q4_0, 256, 33, 33);
#ifndef __SANITIZE_THREAD__ /* minutes */
    check_quantised(RP_Q4_1, 2048, 150, 33); /* more rows than are unpacked at a time */
#endif
}

/* Prefetching changes no bit, and no kernel reads what it prefetches: the last rows end where the memory ends. */
Test(mul_mat, with_every_prefetch) {
    const CpuPrefetch before = rp_cpu_prefetch();
    const CpuPrefetch all[]  = {
         {RP_PREFETCH_NONE, 0    },
         {RP_PREFETCH_L1,   4096 },
         {RP_PREFETCH_L2,   0    },
         {RP_PREFETCH_L2,   65536}
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        OK(rp_cpu_prefetch_set(all[i]));
        for (int64_t columns = 1; columns <= 40; columns += 13) check_quantised(RP_Q4_K, 512, 21, columns);
    }
    OK(rp_cpu_prefetch_set(before));
    REFUSED(rp_cpu_prefetch_set((CpuPrefetch){RP_PREFETCH_L2, 100}), RP_E_ARG, "multiple of 64");
    REFUSED(rp_cpu_prefetch_set((CpuPrefetch){RP_PREFETCH_L1, -64}), RP_E_ARG, "-64 bytes");
    REFUSED(rp_cpu_prefetch_set((CpuPrefetch){(CpuPrefetchHint)7, 64}), RP_E_ARG, "prefetch 7");
}
#endif

/* Quants of the largest magnitude, all of one sign, against columns of one sign: no sum may saturate. */
Test(mul_mat, of_the_largest_quants) {
    enum { ROWS = 5, COLUMNS = 5, N = 768 };
    static const struct {
        RpDtype type;
        size_t  from, to; /* of a block */
        uint8_t fill;
    } of[] = {
        {RP_Q4_0,  2, 18,  0xff},
        {RP_Q4_0,  2, 18,  0   },
        {RP_Q4_1,  4, 20,  0xff},
        {RP_Q5_0,  2, 22,  0xff},
        {RP_Q5_0,  2, 22,  0   },
        {RP_Q5_1,  4, 24,  0xff},
        {RP_Q8_0,  2, 34,  0x80},
        {RP_Q8_0,  2, 34,  0x7f},
        {RP_Q4_K,  4, 144, 0xff},
        {RP_Q5_K,  4, 176, 0xff},
        {RP_Q6_K,  0, 192, 0xff},
        {RP_Q6_K,  0, 192, 0   },
        {RP_MXFP4, 1, 17,  0x77},
        {RP_MXFP4, 1, 17,  0xff}
    };
    for (size_t k = 0; k < sizeof of / sizeof of[0]; k++)
        for (int sign = -1; sign <= 1; sign += 2) {
            char        *w     = random_blocks(of[k].type, N, ROWS, 20);
            float       *x     = random_floats(N * COLUMNS, 21);
            const size_t block = (size_t)rp_dtype_info(of[k].type)->block_bytes;
            for (size_t i = 0; i < ROWS * rp_row_bytes(of[k].type, N); i += block)
                memset(w + i + of[k].from, of[k].fill, of[k].to - of[k].from);
            for (int i = 0; i < N * COLUMNS; i++) x[i] = (float)sign * 0.5f;
            check_products(of[k].type, N, ROWS, COLUMNS, w, x);
        }
}

/* Every variant gives NaN where the first one does, and the same bits elsewhere. */
static void expect_variants_agree(const OpArgs *args, const char *what) {
    const size_t n     = rp_view_extent_bytes(&args->dst) / 4;
    const CpuIsa best  = rp_cpu_isa();
    float       *first = NULL, *y = args->dst.data;
    for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
        if (rp_cpu_isa_set((CpuIsa)isa) != RP_OK) continue;
        OK(run_workers(rp_cpu_mul_mat, args, 1));
        for (size_t i = 0; i < n; i++)
            if (isnan(y[i])) y[i] = NAN;
        if (first == NULL) first = memcpy(malloc(n * 4), y, n * 4);
        cr_assert_arr_eq(y, first, n * 4, "%s with %s gives other bits", what, rp_cpu_isa_name((CpuIsa)isa));
    }
    OK(rp_cpu_isa_set(best));
    free(first);
}

/* Infinite and NaN scales: every half of some blocks, by their bytes. */
static void spoil(RpDtype type, char *w, size_t bytes) {
    static const uint16_t odd[]       = {0x7c00, 0xfc00, 0x7e00, 0x8000};
    static const uint8_t  exponents[] = {1, 0, 255, 2}; /* below normal numbers, and the largest */
    const DtypeInfo      *info        = rp_dtype_info(type);
    const size_t          block = (size_t)info->block_bytes, at = type == RP_Q6_K ? 208 : 0;
    for (size_t b = 1, k = 0; b < bytes / block; b += 3, k++) {
        if (type == RP_MXFP4)
            w[b * block] = (char)exponents[k % 4];
        else
            memcpy(w + b * block + at, &odd[k % 4], sizeof odd[0]);
    }
}

Test(mul_mat, of_every_number_of_blocks_and_rows_in_all_variants_alike) {
    enum { ROWS = 18, COLS = 10 };
    for (int i = 0; i < N_QUANTISED; i++)
        for (int64_t blocks = 1; blocks <= 9; blocks++)
            for (int64_t rows = 1; rows <= ROWS; rows = rows == 6 ? 15 : rows + 1) {
                const int64_t  n = blocks * rp_dtype_info(quantised[i])->block_elems;
                char          *w = random_blocks(quantised[i], n, rows, (uint64_t)(40 + blocks));
                float         *x = random_floats((size_t)(n * COLS), 41), y[ROWS * COLS];
                const OpParams p = {.mul_mat = {.bound = RP_BOUND_NONE}};
                x[n]             = INFINITY;
                char *q          = quantised_columns(x, n, COLS);
                for (int spoilt = 0; spoilt < 2; spoilt++)
                    for (int64_t columns = 1; columns <= COLS; columns++) {
                        const OpArgs args = {
                            .dst    = packed(RP_F32, y, rows, columns, 1, 1),
                            .src    = {packed(quantised[i], w, n, rows, 1, 1),
                                       packed(RP_Q8_ACT, q, n, columns, 1, 1)},
                            .params = &p
                        };
                        if (spoilt) spoil(quantised[i], w, (size_t)rows * rp_row_bytes(quantised[i], n));
                        expect_variants_agree(&args, rp_dtype_name(quantised[i]));
                    }
                free(w), free(x), free(q);
            }
}

static void check_float(RpDtype type, int64_t n, int64_t rows, int64_t columns, int64_t heads_w,
                        int64_t heads) {
    const size_t n_w = (size_t)(n * rows * heads_w), n_x = (size_t)(n * columns * heads),
                 n_y = (size_t)(rows * columns * heads);
    float *x = random_floats(n_x, 22), *data = random_floats(n_w, 23), *wide = malloc(n_w * 4),
          *y         = malloc(n_y * 4);
    char          *w = rp_dtype_is_quant(type) ? random_blocks(type, n, rows * heads_w, 24) : malloc(n_w * 4);
    const OpParams p = {.mul_mat = {.bound = RP_BOUND_NONE}};
    if (!rp_dtype_is_quant(type)) {
        const OpArgs to = {.dst = packed(type, w, (int64_t)n_w, 1, 1, 1),
                           .src = {packed(RP_F32, data, (int64_t)n_w, 1, 1, 1)}};
        OK(run_workers(rp_cpu_copy, &to, 1));
    }
    for (int64_t r = 0; r < rows * heads_w; r++)
        rp_dequantize_row(type, w + (size_t)r * rp_row_bytes(type, n), n, wide + r * n);
    const OpArgs args = {
        .dst    = packed(RP_F32, y, rows, columns, heads, 1),
        .src    = {packed(type, w, n, rows, heads_w, 1), packed(RP_F32, x, n, columns, heads, 1)},
        .params = &p
    };
    run_everywhere(rp_cpu_mul_mat, &args);
    if (heads == 1) check_alone_on_the_device(args);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t c = 0; c < columns; c++)
            for (int64_t m = 0; m < rows; m++) {
                double want = 0.0, size = 0.0;
                for (int64_t i = 0; i < n; i++) {
                    const double term = (double)wide[i + n * (m + rows * (h / (heads / heads_w)))] *
                                        (double)x[i + n * (c + columns * h)];
                    want += term, size += fabs(term);
                }
                const double got = (double)y[m + rows * (c + columns * h)];
                cr_assert(fabs(got - want) <= 2e-6 * size, "%s: %g, not %g", rp_dtype_name(type), got, want);
            }
    free(x), free(data), free(wide), free(y), free(w);
}

Test(mul_mat, of_float_weights) {
    const RpDtype types[] = {RP_F32, RP_F16, RP_BF16};
    for (int i = 0; i < 3; i++) {
        check_float(types[i], 1, 1, 1, 1, 1);
        check_float(types[i], 77, 9, 6, 1, 1);
        check_float(types[i], 4100, 3, 5, 1, 1);
        check_float(types[i], 64, 5, 3, 2, 6); /* heads that share weights */
        check_float(types[i], 1032, 5, 9, 1, 1);
    }
}

Test(mul_mat, of_quantised_weights_with_unrounded_columns) {
    for (int i = 0; i < N_QUANTISED; i++) check_float(quantised[i], 512, 7, 5, 1, 1);
}

/* Attention's two products: scores up to pos[t], then values, transposed, weighted by scores up to pos[t]. */
Test(mul_mat, keeps_to_the_positions) {
    enum { D = 20, CTX = 30, T = 3, H = 4, HKV = 2 };
    float *kf = random_floats(D * CTX * HKV, 25), *q = random_floats(D * T * H, 26),
          *s = random_floats(CTX * T * H, 27), scores[CTX * T * H], sum[D * T * H];
    uint16_t     k[D * CTX * HKV];
    int32_t      pos[T] = {4, -1, 29};
    const OpArgs to     = {.dst = packed(RP_F16, k, D * CTX * HKV, 1, 1, 1),
                           .src = {packed(RP_F32, kf, D * CTX * HKV, 1, 1, 1)}};
    OK(run_workers(rp_cpu_copy, &to, 1));
    rp_dequantize_row(RP_F16, k, D * CTX * HKV, kf);
    TensorView cache = {
        k, RP_F16, {D, CTX,         HKV,   1                },
          {2, 2 * D * HKV, 2 * D, 2 * D * HKV * CTX}
    };
    const OpParams rows  = {.mul_mat = {.bound = RP_BOUND_ROWS}},
                   inner = {.mul_mat = {.bound = RP_BOUND_INNER}};
    OpArgs args          = {
                 .dst    = packed(RP_F32, scores, CTX, T, H, 1),
                 .src    = {cache, packed(RP_F32, q, D, T, H, 1), packed(RP_I32, pos, T, 1, 1, 1)},
                 .params = &rows
    };
    run_everywhere(rp_cpu_mul_mat, &args);
    float untouched;
    memset(&untouched, 0x55, sizeof untouched);
    for (int h = 0; h < H; h++)
        for (int t = 0; t < T; t++)
            for (int i = 0; i < CTX; i++) {
                double want = 0.0;
                for (int d = 0; d < D; d++)
                    want += (double)kf[d + D * (h / 2 + HKV * i)] * (double)q[d + D * (t + T * h)];
                if (i > pos[t]) want = (double)untouched;
                cr_assert(fabs((double)scores[i + CTX * (t + T * h)] - want) <= 1e-5 * fmax(1.0, fabs(want)),
                          "head %d, token %d, row %d", h, t, i);
            }
    cache = (TensorView){
        k, RP_F16, {CTX,         D, HKV,   1                },
          {2 * D * HKV, 2, 2 * D, 2 * D * HKV * CTX}
    };
    for (int i = 0; i < CTX * T * H; i++)
        if (i % CTX > pos[i / CTX % T]) s[i] = NAN; /* what lies behind must not be read */
    args = (OpArgs){
        .dst    = packed(RP_F32, sum, D, T, H, 1),
        .src    = {cache, packed(RP_F32, s, CTX, T, H, 1), packed(RP_I32, pos, T, 1, 1, 1)},
        .params = &inner
    };
    run_everywhere(rp_cpu_mul_mat, &args);
    for (int h = 0; h < H; h++)
        for (int t = 0; t < T; t++)
            for (int d = 0; d < D; d++) {
                double want = 0.0;
                for (int i = 0; i <= pos[t]; i++)
                    want += (double)kf[d + D * (h / 2 + HKV * i)] * (double)s[i + CTX * (t + T * h)];
                cr_assert(fabs((double)sum[d + D * (t + T * h)] - want) <= 1e-5,
                          "head %d, token %d, element %d", h, t, d);
            }
    free(kf), free(q), free(s);
}

Test(mul_mat, refuses_what_does_not_fit) {
    static float w[64], x[64], y[64];
    OpArgs       args = {
              .dst = packed(RP_F32, y, 4, 2, 1, 1),
              .src = {packed(RP_F32, w, 8, 4, 1, 1), packed(RP_F32, x, 6, 2, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_mul_mat, &args, 1), RP_E_SHAPE,
            "mul_mat: weights [8,4,1,1] and x [6,2,1,1] do not fit");
    args.src[1] = packed(RP_F16, x, 8, 2, 1, 1);
    REFUSED(run_workers(rp_cpu_mul_mat, &args, 1), RP_E_DTYPE,
            "mul_mat: weights f32, x f16, result f32: no kernel for this");
    args.src[1] = packed(RP_Q8_ACT, x, 32, 2, 1, 1);
    REFUSED(run_workers(rp_cpu_mul_mat, &args, 1), RP_E_DTYPE, "mul_mat: weights f32, x q8_act");
}
