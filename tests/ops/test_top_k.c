/* The op top_k: ids of the k largest of a row, largest first; ties go to the lower index, NaN is below
 * everything; optionally from the best n_group_used groups of experts only. The reference counts for every
 * element how many precede it. */
#include "tests/support/kernel_test.h"

static void choose(const float *x, const float *bias, int n, int n_tok, RpTopKParams p, int32_t *ids) {
    const RpOpParams params = {.top_k = p};
    RpOpArgs         args   = {.dst    = tensor(RP_I32, ids, p.k, n_tok, 1, 1),
                               .src    = {tensor(RP_F32, (void *)(uintptr_t)x, n, n_tok, 1, 1)},
                               .params = &params};
    if (bias != NULL) args.top_k.bias = tensor(RP_F32, (void *)(uintptr_t)bias, n, 1, 1, 1);
    run_variants(rp_cpu_top_k, &args);
}

/* Number of elements that precede element i: larger ones, and equal ones with a lower index. */
static int rank_of(const float *x, const float *bias, int n, int i) {
    int rank = 0;
    for (int j = 0; j < n; j++) {
        const float a = x[j] + bias[j], b = x[i] + bias[i];
        if (a > b || (a == b && j < i)) rank++;
    }
    return rank;
}

Test(top_k, finds_the_largest_in_order) {
    enum { N = 67, TOK = 9 };
    float *x = random_floats(N * TOK, 1), *bias = random_floats(N, 2);
    for (int k = 1; k <= N; k += 11) {
        int32_t ids[N * TOK];
        for (int with_bias = 0; with_bias < 2; with_bias++) {
            static const float none[N];
            choose(x, with_bias ? bias : NULL, N, TOK, (RpTopKParams){.k = k}, ids);
            for (int t = 0; t < TOK; t++)
                for (int j = 0; j < k; j++)
                    cr_assert_eq(rank_of(x + N * t, with_bias ? bias : none, N, ids[j + k * t]), j,
                                 "k %d, token %d: id %d is not number %d", k, t, ids[j + k * t], j);
        }
    }
    free(x), free(bias);
}

Test(top_k, breaks_ties_by_the_lower_index) {
    const float x[8] = {1, 3, 2, 3, 3, 1, 2, 0};
    int32_t     ids[8];
    choose(x, NULL, 8, 1, (RpTopKParams){.k = 8}, ids);
    cr_expect_arr_eq(ids, ((int32_t[]){1, 3, 4, 2, 6, 0, 5, 7}), sizeof ids);
    const float same[8] = {0.0f, -0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    choose(same, NULL, 8, 1, (RpTopKParams){.k = 3}, ids);
    cr_expect_arr_eq(ids, ((int32_t[]){0, 1, 2}), 3 * sizeof *ids);
}

Test(top_k, counts_nan_as_less_than_everything) {
    const float x[6] = {NAN, -INFINITY, 2, NAN, 5, NAN};
    int32_t     ids[6];
    choose(x, NULL, 6, 1, (RpTopKParams){.k = 6}, ids);
    cr_expect_arr_eq(ids, ((int32_t[]){4, 2, 1, 0, 3, 5}), sizeof ids);
}

Test(top_k, selects_from_the_best_groups_only) {
    /* the two best of each group of three add up to 9, 11, 10 and 13 */
    const float x[12] = {9, 0, 0, 6, 5, 0, 8, 2, 1, 5, 6, 7};
    int32_t     ids[3];
    choose(x, NULL, 12, 1, (RpTopKParams){.k = 3, .n_group = 4, .n_group_used = 1}, ids);
    cr_expect_arr_eq(ids, ((int32_t[]){11, 10, 9}), sizeof ids);
    choose(x, NULL, 12, 1, (RpTopKParams){.k = 3, .n_group = 4, .n_group_used = 3}, ids);
    cr_expect_arr_eq(ids, ((int32_t[]){6, 11, 3}), sizeof ids);
    const float y[4] = {1, 2, 2, 1};
    choose(y, NULL, 4, 1, (RpTopKParams){.k = 2, .n_group = 2, .n_group_used = 1}, ids);
    cr_expect_arr_eq(ids, ((int32_t[]){1, 0}), 2 * sizeof *ids, "equal groups: the lower one");
}

/* Numbers that a model file can put into the bias: the sum of +inf and -inf is NaN, which counts as -inf, so that the
 * order of the groups stays total and all k ids are written. */
Test(top_k, orders_groups_of_infinities_and_nan) {
    const float  inf = INFINITY;
    RpTopKParams one = {.k = 2, .n_group = 3, .n_group_used = 1}, two = {.k = 3, .n_group = 3, .n_group_used = 2};
    const float  x[][6] = {
         {5,    0,    inf,  -inf, 7,   0   },
         {inf,  -inf, inf,  -inf, inf, -inf},
         {NAN,  NAN,  NAN,  NAN,  NAN, NAN },
         {-inf, -inf, -inf, -inf, 1,   NAN },
         {2,    2,    2,    2,    2,   2   },
         {inf,  inf,  inf,  -inf, NAN, inf },
    };
    const int32_t best_of_one[][2] = {
        {4, 5},
        {0, 1},
        {0, 1},
        {0, 1},
        {0, 1},
        {0, 1}
    };
    const int32_t best_of_two[][3] = {
        {4, 0, 1},
        {0, 2, 1},
        {0, 1, 2},
        {0, 1, 2},
        {0, 1, 2},
        {0, 1, 2}
    };
    for (int i = 0; i < 6; i++) {
        int32_t ids[3] = {-1, -1, -1};
        choose(x[i], NULL, 6, 1, one, ids);
        cr_expect_arr_eq(ids, best_of_one[i], sizeof best_of_one[i], "row %d: %d %d", i, ids[0], ids[1]);
        choose(x[i], NULL, 6, 1, two, ids);
        cr_expect_arr_eq(ids, best_of_two[i], sizeof best_of_two[i], "row %d: %d %d %d", i, ids[0], ids[1], ids[2]);
    }
}

/* k = 1 of rows that do not fit into shared memory. */
Test(top_k, chooses_the_largest_of_a_long_row) {
    enum { N = 20011 };
    float  *x = malloc(3 * N * sizeof *x);
    int32_t ids[3];
    for (int i = 0; i < N; i++) {
        x[i]         = i % 1000 == 999 ? 5.0f : i % 7 == 3 ? NAN : -(float)i;
        x[N + i]     = i == N - 1 ? -1e30f : i % 2 == 0 ? NAN : -INFINITY;
        x[2 * N + i] = NAN;
    }
    choose(x, NULL, N, 3, (RpTopKParams){.k = 1}, ids);
    cr_expect_eq(ids[0], 999, "the lowest index among equals");
    cr_expect_eq(ids[1], N - 1);
    cr_expect_eq(ids[2], 0);
    free(x);
}

Test(top_k, refuses_k_larger_than_the_row) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = rp_graph_input(g, "x", RP_F32, NE(8, 1, 1, 1));
    TensorNode   *y = rp_top_k(g, x, NULL, &(RpTopKParams){.k = 9});
    REFUSED(rp_graph_finish(g, &y, 1), RP_E_ARG, "k must be from 1 to the row's length");
    rp_graph_free(g);
    g = rp_graph_new();
    x = rp_graph_input(g, "x", RP_F32, NE(8, 1, 1, 1));
    y = rp_top_k(g, x, NULL, &(RpTopKParams){.k = 3, .n_group = 4, .n_group_used = 1});
    REFUSED(rp_graph_finish(g, &y, 1), RP_E_ARG, "k must not exceed the number of experts in the groups used");
    rp_graph_free(g);
    float            data[8];
    const RpOpParams p    = {.top_k = {.k = 9}};
    const RpOpArgs   args = {
          .dst = tensor(RP_I32, data, 8, 1, 1, 1), .src = {tensor(RP_F32, data, 8, 1, 1, 1)}, .params = &p};
    REFUSED(run_workers(rp_cpu_top_k, &args, 1), RP_E_SHAPE,
            "top_k: k = 9 must be from 1 to the length of a row: x f32 [8], result i32 [8]");
}
