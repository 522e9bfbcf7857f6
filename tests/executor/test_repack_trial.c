/* The choice of repacked weights (executor/repack_trial.h) from recorded and from made-up times. */
#include "tests/support/golden.h"

#include "executor/repack_trial.h"

enum { N = RP_REPACK_TIMES };

/* GB/s of the file and the copy with 1 column, then with 4: medians of runs with AVX-512 on 2 cores of an AMD EPYC
 * (Zen 4) beside compilers and tests, 2026-11-25, with the prefetches l2:8192 and l2:4096. */
static const double busy[][N] = {
    {20.6, 17.5, 9.8,  17.1},
    {16.9, 19.4, 9.8,  16.3},
    {12.7, 17.1, 7.6,  14.9},
    {21.2, 19.9, 10.0, 18.2},
    {21.0, 17.4, 9.9,  17.0},
    {14.5, 19.5, 10.0, 17.7},
    {4.9,  10.9, 3.1,  7.6 },
    {15.2, 15.7, 9.6,  13.6},
    {21.0, 20.7, 10.1, 18.2},
    {21.1, 18.2, 9.5,  17.6},
    {18.3, 17.3, 12.3, 20.6},
    {19.8, 17.5, 14.7, 18.9},
};

static bool gains(const double *gb_s) {
    double seconds[N];
    for (int i = 0; i < N; i++) seconds[i] = 1.0 / gb_s[i];
    return rp_repack_gains(seconds, 1);
}

Test(repack_trial, is_the_same_in_every_run_on_a_busy_machine) {
    for (size_t i = 0; i < sizeof busy / sizeof busy[0]; i++) cr_expect(gains(busy[i]), "run %zu", i);
}

Test(repack_trial, needs_a_gain_of_both_and_no_large_loss_with_one_column) {
    const struct {
        double gb_s[N];
        bool   gains;
    } cases[] = {
        {{10, 10, 10, 10},   false},
        {{10, 10, 10, 10.4}, false},
        {{10, 10, 10, 10.6}, true },
        {{10, 12, 10, 9},    true },
        {{10, 6.1, 10, 20},  true },
        {{10, 5.9, 10, 20},  false},
        {{10, 20, 10, 5},    false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(gains(cases[i].gb_s), cases[i].gains, "case %zu", i);
    cr_expect(!(rp_repack_gains((const double[N]){0}, 1)), "a clock that stands still");
}

/* In each of the first two the mean time would choose otherwise, in the third the time of all rounds together. */
Test(repack_trial, is_chosen_by_the_median_of_ratios) {
    const double one_long[]  = {2, 2, 4, 2, 2, 90, 4, 90, 2, 2, 4, 2};
    const double one_short[] = {2, 2, 4, 4, 90, 2, 90, 4, 2, 2, 4, 4};
    const double slower[]    = {20, 20, 40, 40, 20, 20, 40, 40, 2, 2, 4, 2, 2, 2, 4, 2, 2, 2, 4, 2};
    cr_expect(rp_repack_gains(one_long, 3));
    cr_expect(!rp_repack_gains(one_short, 3));
    cr_expect(rp_repack_gains(slower, 5));
}

/* The measurement itself: whatever it finds, it finds once for an instruction set. */
Test(repack_trial, is_measured_once_for_a_type) {
    const size_t       row     = rp_row_bytes(RP_Q4_K, 512);
    char              *rows    = calloc(64, row);
    const RpTensorView w       = rp_view_contiguous(RP_Q4_K, (int64_t[RP_MAX_DIMS]){512, 64, 1, 1}, rows);
    const RpTensorView nowhere = rp_view_contiguous(RP_Q4_K, (int64_t[RP_MAX_DIMS]){512, 64, 1, 1}, NULL);
    bool               first, again;
    cr_assert_not_null(rows);
    OK(rp_repack_try(&w, &first));
    OK(rp_repack_try(&nowhere, &again)); /* reads no weights */
    cr_expect_eq(first, again);
    free(rows);
}
