/* The op add_id, y[:,j,t] = x[:,j,t] + b[:,ids[j,t]], against the sum in double. An id outside of b adds nothing. */
#include "tests/support/kernel_test.h"

Test(add_id, adds_the_row_of_each_id) {
    enum { N = 37, K = 3, TOK = 4, E = 5 };
    float  *x = random_floats(N * K * TOK, 1), *b = random_floats(N * E, 2), y[N * K * TOK];
    int32_t ids[K * TOK] = {0, 1, 2, 4, 4, 4, 3, -1, 0, E, 1, 2};
    double  want[N * K * TOK];
    for (int r = 0; r < K * TOK; r++)
        for (int i = 0; i < N; i++)
            want[i + N * r] = (double)x[i + N * r] + (ids[r] >= 0 && ids[r] < E ? (double)b[i + N * ids[r]] : 0.0);
    RpOpArgs args = {
        .dst = tensor(RP_F32, y, N, K, TOK, 1),
        .src = {tensor(RP_F32, x, N, K, TOK, 1), tensor(RP_F32, b, N, E, 1, 1), tensor(RP_I32, ids, K, TOK, 1, 1)}
    };
    run_variants(rp_cpu_add_id, &args);
    expect_near(y, want, N * K * TOK, 1e-6);
    args.dst.data = x;
    run_variants(rp_cpu_add_id, &args);
    expect_near(x, want, N * K * TOK, 1e-6);
    free(x), free(b);
}

Test(add_id, refuses_rows_of_another_length) {
    float    x[8];
    int32_t  ids[2] = {0, 0};
    RpOpArgs args   = {
          .dst = tensor(RP_F32, x, 4, 2, 1, 1),
          .src = {tensor(RP_F32, x, 4, 2, 1, 1), tensor(RP_F32, x, 3, 2, 1, 1), tensor(RP_I32, ids, 2, 1, 1, 1)}
    };
    REFUSED(run_workers(rp_cpu_add_id, &args, 1), RP_E_SHAPE,
            "add_id: rows of x and b must have one length: x f32 [4,2], b f32 [3,2], ids i32 [2], result f32 "
            "[4,2]");
    args.add_id.b = tensor(RP_F32, x, 4, 2, 1, 1), args.add_id.ids = tensor(RP_I32, ids, 1, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_add_id, &args, 1), RP_E_SHAPE,
            "add_id: ids must be i32 [2]: x f32 [4,2], b f32 [4,2], ids i32 [1], result f32 [4,2]");
}
