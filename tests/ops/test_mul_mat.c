/* The op mul_mat, y[m,c] = sum over k of w[k,m] x[k,c].
 *
 * Reference: the sum in double over dequantised weights; errors are measured against the sum of |w x|. Beyond
 * that, bits must not depend on the variant, the number of workers, or the other columns (I8). */
#include "tests/support/blocks.h"

#include "fallback/products/repack.h"

/* Element i of a row of n in q8_act:  q[n] (int8) | scale[n/32] (f32) | sum[n/16] (f32). */
static double act(const char *row, int64_t n, int64_t i) {
    float scale;
    memcpy(&scale, row + n + 4 * (i / 32), sizeof scale);
    return (double)(int8_t)row[i] * (double)scale;
}

#ifdef RP_TEST_CUDA
enum { TILE_COLUMNS = 5 }; /* RP_TUNING_TILE_COLUMNS of the CUDA kernels */

/* Rounded to the 11 bits of an f16, with any exponent: tiles scale rows and columns by powers of two. */
static double f16_bits(float v) {
    int          e;
    const double m = frexp((double)v, &e);
    return ldexp(nearbyint(ldexp(m, 11)), e - 11);
}

/* The result y of tiles in f16: the sum in double over weights and columns that are rounded to f16. A weight halfway
 * between two f16 may be rounded the other way, as f32 sums of another order are (tile_f16.cuh): by 2^-11 of itself. A
 * sub-block has few different weights, so up to a tenth of a short row can be the same one: 5e-5 of the sum. */
static void check_rounded_on_the_device(const RpOpArgs *args, const float *y) {
    const RpDtype type = args->mul_mat.w.dtype;
    const int64_t rows = args->dst.ne[0], columns = args->mul_mat.x.ne[1], n = args->mul_mat.w.ne[0];
    float        *vals = malloc((size_t)n * 4);
    double       *x = malloc((size_t)(n * columns) * sizeof *x), *w = malloc((size_t)n * sizeof *w);
    for (int64_t c = 0; c < columns; c++) {
        const char *column = (const char *)args->mul_mat.x.data + (size_t)c * args->mul_mat.x.nb[1];
        for (int64_t i = 0; i < n; i++) x[n * c + i] = f16_bits((float)act(column, n, i));
    }
    for (int64_t m = 0; m < rows; m++) {
        rp_dequantize_row(type, (const char *)args->mul_mat.w.data + (size_t)m * rp_row_bytes(type, n), n, vals);
        for (int64_t i = 0; i < n; i++) w[i] = f16_bits(vals[i]);
        for (int64_t c = 0; c < columns; c++) {
            double want = 0.0, size = 0.0;
            for (int64_t i = 0; i < n; i++) want += w[i] * x[n * c + i], size += fabs(w[i] * x[n * c + i]);
            cr_assert(fabs((double)y[m + rows * c] - want) <= 5e-5 * size, "%s: (%d,%d) is %g, rounded factors give %g",
                      rp_dtype_name(type), (int)m, (int)c, (double)y[m + rows * c], want);
        }
    }
    free(vals), free(x), free(w);
}

/* On the device a column has the same bits alone and beside others (I8), and the same in every product by tiles: here
 * as one of TILE_COLUMNS columns, the others NaN. Of more than 16 columns every seventeenth is compared, which
 * has another place among 8. */
static void check_alone_on_the_device(RpOpArgs args) {
    const int64_t rows = args.dst.ne[0], n = args.mul_mat.x.ne[1], k = args.mul_mat.w.ne[0];
    const size_t  bytes = rp_view_extent_bytes(&args.dst), column = args.mul_mat.x.nb[1];
    const bool    tiles  = args.mul_mat.x.dtype == RP_Q8_ACT && n >= TILE_COLUMNS;
    const int64_t beside = tiles ? TILE_COLUMNS : 1;
    char *before = calloc(1, bytes), *together = malloc(bytes), *alone = malloc(bytes), *from = args.mul_mat.x.data,
         *columns = malloc((size_t)beside * column);
    sim_sched(0, 1);
    args.dst.data = together;
    OK(cuda_run(rp_cpu_mul_mat, &args, before));
    if (tiles && cuda_tile == RP_PREFILL_F16) check_rounded_on_the_device(&args, (const float *)(const void *)together);
    args.dst       = tensor(RP_F32, alone, rows, beside, 1, 1);
    args.mul_mat.x = tensor(args.mul_mat.x.dtype, columns, k, beside, 1, 1);
    for (int64_t c = 0; c<n; c += n> 16 ? 17 : 1) {
        const int64_t at = 3 * c % beside;
        memset(columns, 0xff, (size_t)beside * column);
        memcpy(columns + (size_t)at * column, from + (size_t)c * column, column);
        OK(cuda_run(rp_cpu_mul_mat, &args, before));
        cr_assert_arr_eq(alone + (size_t)(at * rows) * 4, together + (size_t)(c * rows) * 4, (size_t)rows * 4,
                         "%s: column %d beside other columns on the device", rp_dtype_name(args.mul_mat.w.dtype),
                         (int)c);
    }
    free(before), free(together), free(alone), free(columns);
}
#else
static void check_alone_on_the_device(RpOpArgs args) { (void)args; }
#endif

/* Columns quantised to q8_act: against the sum in double, alone and together. Frees w and x. */
static void check_products(RpDtype type, int64_t n, int64_t rows, int64_t columns, char *w, float *x) {
    float           *vals = malloc((size_t)n * 4);
    char            *q    = quantize_columns(x, n, columns);
    const size_t     n_y  = (size_t)(rows * columns);
    float           *y = malloc(n_y * 4), *alone = malloc((size_t)rows * 4);
    const RpOpParams p    = {.mul_mat = {.bound = RP_BOUND_NONE}};
    RpOpArgs         args = {
                .dst    = tensor(RP_F32, y, rows, columns, 1, 1),
                .src    = {tensor(type, w, n, rows, 1, 1), tensor(RP_Q8_ACT, q, n, columns, 1, 1)},
                .params = &p
    };
    run_variants(rp_cpu_mul_mat, &args);
    check_alone_on_the_device(args);
    for (int64_t m = 0; m < rows; m++) {
        rp_dequantize_row(type, w + (size_t)m * rp_row_bytes(type, n), n, vals);
        for (int64_t c = 0; c < columns; c++) {
            double want = 0.0, size = 0.0;
            for (int64_t i = 0; i < n; i++) {
                const double term = (double)vals[i] * act(q + (size_t)c * rp_row_bytes(RP_Q8_ACT, n), n, i);
                want += term, size += fabs(term);
            }
            cr_assert(fabs((double)y[m + rows * c] - want) <= 3e-6 * size,
                      "%s [%d,%d], %d columns: (%d,%d) is %g, not %g", rp_dtype_name(type), (int)n, (int)rows,
                      (int)columns, (int)m, (int)c, (double)y[m + rows * c], want);
        }
    }
    for (int64_t c = 0; c < columns; c++) {
        args.dst       = tensor(RP_F32, alone, rows, 1, 1, 1);
        args.mul_mat.x = tensor(RP_Q8_ACT, q + (size_t)c * rp_row_bytes(RP_Q8_ACT, n), n, 1, 1, 1);
        run_variants(rp_cpu_mul_mat, &args);
        cr_assert_arr_eq(alone, y + rows * c, (size_t)rows * 4, "%s: column %d alone gives other bits",
                         rp_dtype_name(type), (int)c);
    }
    free(w), free(x), free(vals), free(q), free(y), free(alone);
}

static void check_quantized(RpDtype type, int64_t n, int64_t rows, int64_t columns) {
    check_products(type, n, rows, columns, random_blocks(type, n, rows, 20), random_floats((size_t)(n * columns), 21));
}

#ifndef RP_TEST_CUDA
/* run_variants compares repacked rows with those of the file, where the type has the layout. */
static void check_repacked(RpDtype type, int64_t n, int64_t rows, int64_t columns) {
    const int before = repacked_sources;
    check_quantized(type, n, rows, columns);
    cr_assert(repacked_sources > before, "%s [%d,%d] was not repacked", rp_dtype_name(type), (int)n, (int)rows);
}

Test(mul_mat, repacked_rows_have_the_bits_of_the_file) {
    for (int i = 0; i < N_QUANT_TYPES; i++) {
        const int64_t block = rp_dtype_info(quant_types[i])->block_elems;
        if (rp_repacked_bytes(quant_types[i]) == 0) continue;
        for (int columns = 1; columns <= 9; columns++) {
            check_repacked(quant_types[i], block, 16, columns);
            check_repacked(quant_types[i], 3 * block, 48, columns); /* three blocks of 32 do not fill a k-step of 128 */
        }
        check_repacked(quant_types[i], 2048 + 2 * block, 112, 1); /* more panels than workers */
        check_repacked(quant_types[i], 2048 + 2 * block, 32, 8);
        check_repacked(quant_types[i], 1024, 32, 16);
        check_repacked(quant_types[i], 3 * block, 32, 29); /* three groups of eight columns, and one of five */
        check_repacked(quant_types[i], 512, 32, 35);       /* too many columns for one pass */
    }
    check_repacked(RP_Q6_K, RP_REPACKED_MAX_N, 16, 1);
    check_repacked(RP_Q4_0, RP_REPACKED_MAX_N, 16, 3);
}

Test(mul_mat, only_whole_groups_of_short_enough_rows_can_be_repacked) {
    const RpTensorView fits = tensor(RP_Q4_K, NULL, 512, 32, 1, 1), few = tensor(RP_Q4_K, NULL, 512, 24, 1, 1);
    const RpTensorView longer = tensor(RP_Q4_K, NULL, RP_REPACKED_MAX_N + 256, 16, 1, 1);
    const RpTensorView other = tensor(RP_NVFP4, NULL, 512, 32, 1, 1), floats = tensor(RP_F16, NULL, 512, 32, 1, 1);
    cr_assert(rp_can_repack(&fits) && !rp_can_repack(&few) && !rp_can_repack(&longer) && !rp_can_repack(&other) &&
              !rp_can_repack(&floats));
    const RpTensorView copy = rp_repacked_view(&fits, NULL);
    cr_assert(rp_is_repacked(&copy) && !rp_is_repacked(&fits) && !rp_can_repack(&copy));
    cr_assert_eq(16 * copy.nb[1], 2 * rp_repacked_bytes(RP_Q4_K));
}
#endif

Test(mul_mat, multiplies_every_quantised_type_with_integer_dot_products) {
    for (int i = 0; i < N_QUANT_TYPES; i++) {
        const int64_t block = rp_dtype_info(quant_types[i])->block_elems;
        check_quantized(quant_types[i], block, 3, 2);
        check_quantized(quant_types[i], 3 * block, 13, 6);       /* three blocks of 32 do not fill a k-step of 128 */
        check_quantized(quant_types[i], 4096 + 2 * block, 3, 3); /* rows of many k-steps */
    }
    check_quantized(RP_Q4_0, 33 * 1024, 3, 4);
    check_quantized(RP_Q6_K, 33 * 1024, 2, 1);
    check_quantized(RP_Q8_0, 64, 1100, 3);
}

#ifdef RP_TEST_CUDA
/* Every size of a tile, with rows, columns and k that do not fill the last one; columns that are not aligned to 16
 * bytes, which single blocks of 32 give. */
static void check_tiles(RpPrefillTile kind) {
    cuda_tile = kind;
    for (int i = kind == RP_PREFILL_F16 ? 0 : TYPES_EACH - 1; i < N_QUANT_TYPES; i += TYPES_EACH) {
        const RpDtype type  = quant_types[i];
        const int64_t block = rp_dtype_info(type)->block_elems;
        const int     k     = i % 9; /* further numbers of columns would be other tiles */
        check_quantized(type, block == 32 ? 35 * 32 : 768, 37, 7);
        check_quantized(type, block == 32 ? 9 * 32 : 512, 35, 66 - 2 * k);
        cuda_n_sm = 1; /* the largest tiles for few rows */
        check_quantized(type, block == 32 ? 5 * 32 : 256, kind == RP_PREFILL_F16 ? 195 : 131,
                        kind == RP_PREFILL_F16 ? 67 + k : 19 + 6 * k);
        cuda_n_sm = 0;
    }
    cuda_tile = RP_PREFILL_F16;
}

Test(mul_mat, int8_tiles_multiply_every_quantised_type) { check_tiles(RP_PREFILL_INT8); }
Test(mul_mat, f16_tiles_multiply_every_quantised_type) { check_tiles(RP_PREFILL_F16); }
#endif

#ifndef RP_TEST_CUDA
/* Both paths of the CPU GEMM: up to 32 columns are multiplied with a few sub-blocks of 16 rows at a time, more
 * columns with whole packed panels. Also a last panel that is not full, and the numbers of columns around the
 * threshold. */
Test(mul_mat, multiplies_many_rows_and_columns) {
    for (int i = 0; i < N_QUANT_TYPES; i++) {
        const int64_t block = rp_dtype_info(quant_types[i])->block_elems;
        check_quantized(quant_types[i], (block == 32 ? 21 : 3) * block, 37, 8);
    }
    check_quantized(RP_Q5_1, 64, 19, 35);
    check_quantized(RP_Q6_K, 512, 19, 34);
    check_quantized(RP_Q4_0, 256, 33, 32);
    check_quantized(RP_Q4_0, 256, 33, 33);
#ifndef __SANITIZE_THREAD__                  /* takes minutes */
    check_quantized(RP_Q4_1, 2048, 150, 33); /* more rows than panels are packed at a time */
#endif
}

/* Prefetches past the end of the weights must be harmless, whatever the hint and the distance. */
Test(mul_mat, works_with_every_prefetch_setting) {
    const RpCpuPrefetch before = rp_cpu_prefetch();
    const RpCpuPrefetch all[]  = {
         {RP_PREFETCH_NONE, 0    },
         {RP_PREFETCH_L1,   4096 },
         {RP_PREFETCH_L2,   0    },
         {RP_PREFETCH_L2,   65536}
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        OK(rp_cpu_prefetch_set(all[i]));
        for (int64_t columns = 1; columns <= 40; columns += 13) check_quantized(RP_Q4_K, 512, 21, columns);
    }
    OK(rp_cpu_prefetch_set(before));
    REFUSED(rp_cpu_prefetch_set((RpCpuPrefetch){RP_PREFETCH_L2, 100}), RP_E_ARG,
            "prefetch hint 2, distance 100 bytes: must be a multiple of 64 below 1048576");
    REFUSED(rp_cpu_prefetch_set((RpCpuPrefetch){RP_PREFETCH_L1, -64}), RP_E_ARG, "-64 bytes");
    REFUSED(rp_cpu_prefetch_set((RpCpuPrefetch){(RpCpuPrefetchHint)7, 64}), RP_E_ARG, "hint 7");
}
#endif

/* Quants of the largest magnitude and one sign, times columns of one sign: no 16-bit sum may saturate. */
Test(mul_mat, does_not_saturate_with_the_largest_quants) {
    enum { N = 768 };
    static const int64_t sizes[][2] = {
        {5,  5}, /* rows and columns that need a panel of the CPU */
        {16, 2}  /* and that need none */
    };
    static const struct {
        RpDtype type;
        size_t  from, end; /* bytes of the quants in a part of a block */
    } types[] = {
#define X(ID, name, sub, offset, has_min, top, from, end, ...) {RP_##ID, from, end},
        RP_DIRECT_QUANTS(X) RP_SEARCHED_QUANTS(X) /* the bytes of the others are indices, which have no largest */
#undef X
    };
    enum { N_TYPES = sizeof types / sizeof types[0] };
    /* nibbles and bytes: 0 and the largest; the smallest and the largest int8; 0x77 is the largest MXFP4 value */
    static const uint8_t fills[] = {0, 0xff, 0x80, 0x7f, 0x77};
    for (size_t k = 0; k < 2 * N_TYPES * sizeof fills; k++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const int64_t rows = sizes[k % 2][0], columns = sizes[k % 2][1];
            const size_t  of = k / 2 / sizeof fills, from = types[of].from;
            const RpDtype type = types[of].type;
            const size_t  part = (size_t)(rp_dtype_info(type)->block_bytes / rp_block_parts(type));
            char         *w    = random_blocks(type, N, rows, 20);
            float        *x    = random_floats((size_t)(N * columns), 21);
            for (size_t i = 0; i < (size_t)rows * rp_row_bytes(type, N); i += part)
                memset(w + i + from, fills[k / 2 % sizeof fills], types[of].end - from);
            for (int i = 0; i < N * columns; i++) x[i] = (float)sign * 0.5f;
            check_products(type, N, rows, columns, w, x);
        }
}

#ifndef RP_TEST_CUDA
/* Every variant gives NaN at the same elements, and the same bits elsewhere. */
static void expect_variants_agree(const RpOpArgs *args, const char *what) {
    const size_t   n     = rp_view_extent_bytes(&args->dst) / 4;
    const RpCpuIsa best  = rp_cpu_isa();
    float         *first = NULL, *y = args->dst.data;
    for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
        if (rp_cpu_isa_set((RpCpuIsa)isa) != RP_OK) continue;
        OK(run_workers(rp_cpu_mul_mat, args, 1));
        for (size_t i = 0; i < n; i++)
            if (isnan(y[i])) y[i] = NAN;
        if (first == NULL) first = memcpy(malloc(n * 4), y, n * 4);
        cr_assert_arr_eq(y, first, n * 4, "%s with %s gives other bits", what, rp_cpu_isa_name((RpCpuIsa)isa));
    }
    OK(rp_cpu_isa_set(best));
    free(first);
}

/* Sets scales of every third block to infinity, -infinity, NaN and -0 in turn. */
static void corrupt_scales(RpDtype type, char *w, size_t bytes) {
    static const uint16_t odd[]       = {0x7c00, 0xfc00, 0x7e00, 0x8000};
    static const uint8_t  exponents[] = {1, 0, 255, 2};     /* the smallest ones, and the largest */
    static const uint8_t  nvfp4[]     = {1, 127, 126, 255}; /* the smallest scale, 0, the largest ones */
    const RpDtypeInfo    *info        = rp_dtype_info(type);
    const size_t          block = (size_t)info->block_bytes, at = (size_t)scale_at(type);
    for (size_t b = 1, k = 0; b < bytes / block; b += 3, k++) {
        if (type == RP_MXFP4)
            w[b * block] = (char)exponents[k % 4];
        else if (type == RP_NVFP4)
            w[b * block] = (char)nvfp4[k % 4];
        else
            memcpy(w + b * block + at, &odd[k % 4], sizeof odd[0]);
    }
}

/* Slow builds meet each number of columns with each number of rows and with each of blocks; other builds all three
 * together, which takes half a minute with the address sanitizer and two minutes in qemu. */
#if defined(__SANITIZE_ADDRESS__) || defined(RP_TEST_SLOW)
enum { COLUMNS_STEP = 3 };
#else
enum { COLUMNS_STEP = 1 };
#endif

Test(mul_mat, all_variants_agree_for_every_number_of_blocks_and_rows) {
    enum { ROWS = 18, COLS = 10 };
    for (int i = 0; i < N_QUANT_TYPES; i++)
        for (int64_t blocks = 1; blocks <= 9; blocks++)
            for (int64_t rows = 1; rows <= ROWS; rows = rows == 6 ? 15 : rows + 1) {
                const int64_t    n = blocks * rp_dtype_info(quant_types[i])->block_elems;
                char            *w = random_blocks(quant_types[i], n, rows, (uint64_t)(40 + blocks));
                float           *x = random_floats((size_t)(n * COLS), 41), y[ROWS * COLS];
                const RpOpParams p = {.mul_mat = {.bound = RP_BOUND_NONE}};
                x[n]               = INFINITY;
                char *q            = quantize_columns(x, n, COLS);
                for (int corrupt = 0; corrupt < 2; corrupt++)
                    for (int64_t columns = 1 + (blocks + rows) % COLUMNS_STEP; columns <= COLS;
                         columns += COLUMNS_STEP) {
                        const RpOpArgs args = {
                            .dst = tensor(RP_F32, y, rows, columns, 1, 1),
                            .src = {tensor(quant_types[i], w, n, rows, 1, 1), tensor(RP_Q8_ACT, q, n, columns, 1, 1)},
                            .params = &p
                        };
                        if (corrupt) corrupt_scales(quant_types[i], w, (size_t)rows * rp_row_bytes(quant_types[i], n));
                        expect_variants_agree(&args, rp_dtype_name(quant_types[i]));
                    }
                free(w), free(x), free(q);
            }
}

/* GEMV on x86 prepares 16384 elements of the column at a time, and uses them for 256 rows. */
Test(mul_mat, all_variants_agree_for_more_elements_and_rows_than_are_prepared_at_once) {
    static const int64_t shapes[][2] = {
        {16384,       3  },
        {16384 + 768, 6  },
        {16384 + 96,  5  },
        {256,         261}
    }; /* n, rows */
    for (int i = 0; i < N_QUANT_TYPES * 4; i++) {
        const RpDtype type = quant_types[i / 4];
        const int64_t n = shapes[i % 4][0], rows = shapes[i % 4][1];
        if (n % rp_dtype_info(type)->block_elems != 0) continue;
        char            *w    = random_blocks(type, n, rows, 42);
        float           *x    = random_floats((size_t)n, 43), y[261];
        const RpOpParams p    = {.mul_mat = {.bound = RP_BOUND_NONE}};
        char            *q    = quantize_columns(x, n, 1);
        const RpOpArgs   args = {
              .dst    = tensor(RP_F32, y, rows, 1, 1, 1),
              .src    = {tensor(type, w, n, rows, 1, 1), tensor(RP_Q8_ACT, q, n, 1, 1, 1)},
              .params = &p
        };
        expect_variants_agree(&args, rp_dtype_name(type));
        free(w), free(x), free(q);
    }
}
#endif

/* f32 columns, with any weights: against the sum in double. heads_w: weight matrices that `heads` heads share. */
static void check_float(RpDtype type, int64_t n, int64_t rows, int64_t columns, int64_t heads_w, int64_t heads) {
    const size_t n_w = (size_t)(n * rows * heads_w), n_x = (size_t)(n * columns * heads),
                 n_y = (size_t)(rows * columns * heads);
    float *x = random_floats(n_x, 22), *data = random_floats(n_w, 23), *values = malloc(n_w * 4), *y = malloc(n_y * 4);
    char  *w           = rp_dtype_is_quant(type) ? random_blocks(type, n, rows * heads_w, 24) : malloc(n_w * 4);
    const RpOpParams p = {.mul_mat = {.bound = RP_BOUND_NONE}};
    if (!rp_dtype_is_quant(type)) {
        const RpOpArgs to = {.dst = tensor(type, w, (int64_t)n_w, 1, 1, 1),
                             .src = {tensor(RP_F32, data, (int64_t)n_w, 1, 1, 1)}};
        OK(run_workers(rp_cpu_copy, &to, 1));
    }
    for (int64_t r = 0; r < rows * heads_w; r++)
        rp_dequantize_row(type, w + (size_t)r * rp_row_bytes(type, n), n, values + r * n);
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, y, rows, columns, heads, 1),
        .src    = {tensor(type, w, n, rows, heads_w, 1), tensor(RP_F32, x, n, columns, heads, 1)},
        .params = &p
    };
    run_variants(rp_cpu_mul_mat, &args);
    if (heads == 1) check_alone_on_the_device(args);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t c = 0; c < columns; c++)
            for (int64_t m = 0; m < rows; m++) {
                double want = 0.0, size = 0.0;
                for (int64_t i = 0; i < n; i++) {
                    const double term = (double)values[i + n * (m + rows * (h / (heads / heads_w)))] *
                                        (double)x[i + n * (c + columns * h)];
                    want += term, size += fabs(term);
                }
                const double got = (double)y[m + rows * (c + columns * h)];
                cr_assert(fabs(got - want) <= 2e-6 * size, "%s: %g, not %g", rp_dtype_name(type), got, want);
            }
    free(x), free(data), free(values), free(y), free(w);
}

Test(mul_mat, multiplies_float_weights) {
    const RpDtype types[] = {RP_F32, RP_F16, RP_BF16};
    for (int i = 0; i < 3; i++) {
        check_float(types[i], 1, 1, 1, 1, 1);
        check_float(types[i], 77, 9, 6, 1, 1);
        check_float(types[i], 4100, 3, 5, 1, 1);
        check_float(types[i], 64, 5, 3, 2, 6); /* three heads share a weight matrix */
        check_float(types[i], 1032, 5, 9, 1, 1);
    }
}

Test(mul_mat, multiplies_quantised_weights_by_f32_columns) {
    for (int i = 0; i < N_QUANT_TYPES; i++) check_float(quant_types[i], 512, 7, 5, 1, 1);
}

/* The two products of unfused attention. Scores are computed up to pos[t] (RP_BOUND_ROWS); the transposed values are
 * multiplied by scores up to pos[t] (RP_BOUND_INNER). Elements past it are neither written nor read. */
Test(mul_mat, computes_only_up_to_the_position_of_each_token) {
    enum { D = 20, CTX = 30, T = 3, H = 4, HKV = 2 };
    float *kf = random_floats(D * CTX * HKV, 25), *q = random_floats(D * T * H, 26),
          *s = random_floats(CTX * T * H, 27), scores[CTX * T * H], sum[D * T * H];
    uint16_t       k[D * CTX * HKV];
    int32_t        pos[T] = {4, -1, 29};
    const RpOpArgs to     = {.dst = tensor(RP_F16, k, D * CTX * HKV, 1, 1, 1),
                             .src = {tensor(RP_F32, kf, D * CTX * HKV, 1, 1, 1)}};
    OK(run_workers(rp_cpu_copy, &to, 1));
    rp_dequantize_row(RP_F16, k, D * CTX * HKV, kf);
    RpTensorView cache = {
        k, RP_F16, {D, CTX,         HKV,   1                },
          {2, 2 * D * HKV, 2 * D, 2 * D * HKV * CTX}
    };
    const RpOpParams rows = {.mul_mat = {.bound = RP_BOUND_ROWS}}, inner = {.mul_mat = {.bound = RP_BOUND_INNER}};
    RpOpArgs         args = {
                .dst    = tensor(RP_F32, scores, CTX, T, H, 1),
                .src    = {cache, tensor(RP_F32, q, D, T, H, 1), tensor(RP_I32, pos, T, 1, 1, 1)},
                .params = &rows
    };
    run_variants(rp_cpu_mul_mat, &args);
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
    cache = (RpTensorView){
        k, RP_F16, {CTX,         D, HKV,   1                },
          {2 * D * HKV, 2, 2 * D, 2 * D * HKV * CTX}
    };
    for (int i = 0; i < CTX * T * H; i++)
        if (i % CTX > pos[i / CTX % T]) s[i] = NAN; /* must not be read */
    args = (RpOpArgs){
        .dst    = tensor(RP_F32, sum, D, T, H, 1),
        .src    = {cache, tensor(RP_F32, s, CTX, T, H, 1), tensor(RP_I32, pos, T, 1, 1, 1)},
        .params = &inner
    };
    run_variants(rp_cpu_mul_mat, &args);
    for (int h = 0; h < H; h++)
        for (int t = 0; t < T; t++)
            for (int d = 0; d < D; d++) {
                double want = 0.0;
                for (int i = 0; i <= pos[t]; i++)
                    want += (double)kf[d + D * (h / 2 + HKV * i)] * (double)s[i + CTX * (t + T * h)];
                cr_assert(fabs((double)sum[d + D * (t + T * h)] - want) <= 1e-5, "head %d, token %d, element %d", h, t,
                          d);
            }
    free(kf), free(q), free(s);
}

Test(mul_mat, refuses_shapes_and_types_that_do_not_fit) {
    static float w[64], x[64], y[64];
    RpOpArgs     args = {
            .dst = tensor(RP_F32, y, 4, 2, 1, 1), .src = {tensor(RP_F32, w, 8, 4, 1, 1), tensor(RP_F32, x, 6, 2, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_mul_mat, &args, 1), RP_E_SHAPE,
            "mul_mat: rows of w and x must have one length: w f32 [8,4], x f32 [6,2], result f32 [4,2]");
    args.mul_mat.x = tensor(RP_F16, x, 8, 2, 1, 1);
    REFUSED(run_workers(rp_cpu_mul_mat, &args, 1), RP_E_DTYPE,
            "mul_mat: x must be f32 or q8_act: w f32 [8,4], x f16 [8,2], result f32 [4,2]");
    args.mul_mat.x = tensor(RP_Q8_ACT, x, 32, 2, 1, 1);
    REFUSED(run_workers(rp_cpu_mul_mat, &args, 1), RP_E_DTYPE,
            "mul_mat: w must be quantised where x is q8_act: w f32 [8,4], x q8_act [32,2], result f32 [4,2]");
}
