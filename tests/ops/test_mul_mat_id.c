/* The op mul_mat_id, y[:,j,t] = w[ids[j,t]] x[:,j or 0,t]: each result must have the bits of mul_mat with the
 * matrix of its expert (I8). An id that names no expert gives zeros. */
#include "tests/support/blocks.h"
#include "tests/support/case.h"

#include "fallback/products/repack.h"

#include <sys/mman.h>

enum { E = 6, MAX_ROWS = 48, K = 3 };

/* per_id: x has one row per id and token, not one per token. quantized: x is q8_act. */
static void check(RpDtype type, int64_t n, int64_t rows, int64_t n_tok, bool per_id, bool quantized) {
    const int64_t n_x = n_tok * (per_id ? K : 1), n_y = rows * K * n_tok;
    char         *w = random_weights(type, n, rows * E, 30);
    float        *x = random_floats((size_t)(n * n_x), 31), *y = malloc((size_t)n_y * 4), want[MAX_ROWS];
    char         *columns = quantized ? quantize_columns(x, n, n_x) : (char *)x;
    const RpDtype type_x  = quantized ? RP_Q8_ACT : RP_F32;
    int32_t      *ids     = malloc((size_t)(K * n_tok) * sizeof *ids);
    for (int i = 0; i < K * n_tok; i++) ids[i] = (i * 7 + i / 4) % (E + 1); /* id E names no expert; some ids repeat */
    const RpOpArgs args = {
        .dst = tensor(RP_F32, y, rows, K, n_tok, 1),
        .src = {tensor(type, w, n, rows, E, 1), tensor(type_x, columns, n, per_id ? K : 1, n_tok, 1),
                tensor(RP_I32, ids, K, n_tok, 1, 1)}
    };
    run_variants(rp_cpu_mul_mat_id, &args);
    for (int64_t t = 0; t < n_tok; t++)
        for (int j = 0; j < K; j++) {
            const int32_t    id  = ids[j + K * t];
            const int64_t    col = per_id ? j + K * t : t;
            const RpOpParams p   = {.mul_mat = {.bound = RP_BOUND_NONE}};
            const RpOpArgs   one = {
                  .dst    = tensor(RP_F32, want, rows, 1, 1, 1),
                  .src    = {tensor(type, w + (size_t)(id * rows) * rp_row_bytes(type, n), n, rows, 1, 1),
                             tensor(type_x, columns + (size_t)col * rp_row_bytes(type_x, n), n, 1, 1, 1)},
                  .params = &p
            };
            memset(want, 0, sizeof want);
            if (id < E) OK(run_workers(rp_cpu_mul_mat, &one, 1));
            cr_assert_arr_eq(y + rows * (j + K * t), want, (size_t)rows * sizeof *want,
                             "%s: token %d, id %d (expert %d)", rp_dtype_name(type), (int)t, j, id);
        }
    if (quantized) free(columns);
    free(w), free(x), free(y), free(ids);
}

static void check_all(int64_t n_tok, bool per_id) {
    for (int i = 0; i < N_QUANT_TYPES; i++) {
        const int64_t block = rp_dtype_info(quant_types[i])->block_elems;
        check(quant_types[i], 3 * block, 13, n_tok, per_id, true);
        check(quant_types[i], 3 * block, 13, n_tok, per_id, false);
    }
    check(RP_F32, 77, 13, n_tok, per_id, false);
    check(RP_F16, 77, 13, n_tok, per_id, false);
    check(RP_BF16, 77, 13, n_tok, per_id, false);
}

Test(mul_mat_id, gives_the_bits_of_mul_mat_for_one_token) { check_all(1, false), check_all(1, true); }
Test(mul_mat_id, gives_the_bits_of_mul_mat_for_many_tokens) { check_all(9, false), check_all(9, true); }

#ifndef RP_TEST_CUDA
Test(mul_mat_id, repacked_experts_have_the_bits_of_the_file) { /* run_variants compares them */
    for (int i = 0; i < N_QUANT_TYPES; i++) {
        const int64_t block  = rp_dtype_info(quant_types[i])->block_elems;
        const int     before = repacked_sources, n = rp_repacked_bytes(quant_types[i]) > 0 ? 2 : 0;
        check(quant_types[i], 3 * block, MAX_ROWS, 1, true, true);
        check(quant_types[i], 3 * block, MAX_ROWS, 9, false, true);
        cr_assert_eq(repacked_sources - before, n, "%s: %d repacked sources", rp_dtype_name(quant_types[i]),
                     repacked_sources - before);
    }
}
#endif

#ifdef RP_TEST_CUDA
Test(mul_mat_id, multiplies_many_tokens_in_int8_tiles) {
    cuda_tile = RP_PREFILL_INT8;
    for (int i = 0; i < N_QUANT_TYPES; i++)
        check(quant_types[i], 3 * rp_dtype_info(quant_types[i])->block_elems, 13, 9, i % 2 == 0, true);
    check(RP_Q8_0, 64, 13, 100, false, true);
    cuda_tile = RP_PREFILL_F16;
}
#endif

/* Many columns for every expert, in groups that are not all full. */
Test(mul_mat_id, gives_the_bits_of_mul_mat_for_a_long_prefill) {
    check(RP_Q8_0, 64, 13, 700, false, true);
    check(RP_F32, 20, 13, 700, true, false);
}

#ifndef RP_TEST_CUDA
/* Weights of experts that no token chose are not read: this is what makes a mixture of experts cheap. */
Test(mul_mat_id, reads_only_the_chosen_experts) {
    enum { N = 4096, N_ROWS = 16, N_EXPERT = 5, CHOSEN = 2 };
    const size_t bytes = N_ROWS * rp_row_bytes(RP_NVFP4, N); /* 9 pages of 4096 bytes; a type that is not repacked */
    char        *w     = mmap(NULL, bytes * N_EXPERT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq((void *)w, MAP_FAILED);
    char *chosen = random_weights(RP_NVFP4, N, N_ROWS, 33);
    memcpy(w + CHOSEN * bytes, chosen, bytes);
    for (int e = 0; e < N_EXPERT; e++)
        if (e != CHOSEN) cr_assert_eq(mprotect(w + (size_t)e * bytes, bytes, PROT_NONE), 0, CASE(e));
    for (int64_t n_tok = 1; n_tok <= 70; n_tok = n_tok < 4 ? n_tok + 1 : 3 * n_tok) {
        float  *x = random_floats((size_t)(N * n_tok), 34), *y = malloc((size_t)(N_ROWS * n_tok) * 4);
        char   *columns = quantize_columns(x, N, n_tok);
        int32_t ids[70];
        for (int i = 0; i < 70; i++) ids[i] = CHOSEN;
        const RpOpArgs args = {
            .dst = tensor(RP_F32, y, N_ROWS, 1, n_tok, 1),
            .src = {tensor(RP_NVFP4, w, N, N_ROWS, N_EXPERT, 1), tensor(RP_Q8_ACT, columns, N, 1, n_tok, 1),
                    tensor(RP_I32, ids, 1, n_tok, 1, 1)}
        };
        run_variants(rp_cpu_mul_mat_id, &args);
        free(x), free(y), free(columns);
    }
    munmap(w, bytes * N_EXPERT);
    free(chosen);
}
#endif

Test(mul_mat_id, refuses_shapes_that_do_not_fit) {
    static float w[256], x[64], y[64];
    int32_t      ids[4] = {0};
    RpOpArgs     args   = {
              .dst = tensor(RP_F32, y, 4, 2, 1, 1),
              .src = {tensor(RP_F32, w, 8, 4, 3, 1), tensor(RP_F32, x, 6, 1, 1, 1), tensor(RP_I32, ids, 2, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_mul_mat_id, &args, 1), RP_E_SHAPE,
            "mul_mat_id: rows of w and x must have one length: w f32 [8,4,3], x f32 [6], ids i32 [2], result "
            "f32 [4,2]");
    args.mul_mat_id.x = tensor(RP_F32, x, 8, 1, 1, 1), args.mul_mat_id.ids = tensor(RP_I32, ids, 3, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_mul_mat_id, &args, 1), RP_E_SHAPE,
            "mul_mat_id: ids must be i32 [2]: w f32 [8,4,3], x f32 [8], ids i32 [3], result f32 [4,2]");
    ComputeGraph *g = rp_graph_new();
    TensorNode *a = rp_graph_input(g, "w", RP_F32, NE(8, 4, 3, 1)), *b = rp_graph_input(g, "x", RP_F32, NE(8, 3, 1, 1)),
               *c = rp_graph_input(g, "ids", RP_I32, NE(2, 1, 1, 1)), *d = rp_mul_mat_id(g, a, b, c);
    REFUSED(rp_graph_finish(g, &d, 1), RP_E_SHAPE, "one row per token, or one per id");
    rp_graph_free(g);
}
