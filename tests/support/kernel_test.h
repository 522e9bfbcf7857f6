/* kernel_test.h - runs a kernel in every variant, and checks that all give the same bits.
 *
 *     run_variants(kernel, args)
 *       for each instruction set of this CPU       plain, avx2, avx512-vnni, neon, ...
 *         for 1, 2, 3 and 7 workers                run_workers: phase by phase, worker by worker
 *         slow builds: 1 and one of the others     has_turn
 *       the same with repacked weights, where the kernel reads them
 *       with RP_TEST_CUDA: the CUDA kernel         cuda_run.h: simulated or real device, within a tolerance of the best
 *                                                  variant with one worker; the suite of the CPU compares the others
 *
 * The result is left in dst. The test then compares it with a reference of its own: a formula in double, or a golden
 * file of another implementation. */
#ifndef TESTS_KERNEL_TEST_H
#define TESTS_KERNEL_TEST_H

#include "tests/support/side_memory.h"

#include "base/repack.h"
#include "fallback/quants/quants.h"

#include <math.h>

#ifdef RP_TEST_CUDA
#include "tests/support/cuda_run.h"
#endif

#define NE(...) ((int64_t[RP_MAX_DIMS]){__VA_ARGS__})

/* A contiguous view of `data`. */
static inline RpTensorView tensor(RpDtype dtype, void *data, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
    return rp_view_contiguous(dtype, NE(n0, n1, n2, n3), data);
}

/* Uniform in [-1, 1), by splitmix64. */
static inline float random_float(uint64_t *seed) {
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z          = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z          = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (float)((z ^ z >> 31) >> 40) * 0x1p-23f - 1.0f;
}

static inline float *random_floats(size_t n, uint64_t seed) {
    float *x = malloc((n + 16) * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = random_float(&seed);
    return x;
}

/* Runs the kernel with nth workers, which take turns in each of its phases; returns the first failure.
 *     memory: shared, up to a multiple of 64 | local of worker 0 | local of worker 1 | ... */
static inline RpStatus run_workers(RpOpKernel *kernel, const RpOpArgs *args, int nth) {
    const CpuNeeds needs  = rp_cpu_needs(op_of_kernel(kernel), args);
    const size_t   local  = (needs.local + 63) / 64 * 64;
    char          *memory = aligned_alloc(64, (needs.shared + 63) / 64 * 64 + local * (size_t)nth + 64);
    char          *first  = memory + (needs.shared + 63) / 64 * 64;
    RpStatus       st     = RP_OK;
    for (int phase = 0; phase < needs.phases; phase++)
        for (int ith = 0; ith < nth && st == RP_OK; ith++) {
            RpKernelCtx ctx = {
                .ith = ith, .nth = nth, .phase = phase, .shared = memory, .local = first + local * (size_t)ith};
            st = kernel(args, &ctx);
        }
    free(memory);
    return st;
}

/* The variants that are run. */
#ifdef RP_TEST_CUDA
enum { ONLY_BEST_ISA = true, N_WORKERS = 1, N_REPACKED_WORKERS = 1 };
#else
enum { ONLY_BEST_ISA = false, N_WORKERS = 4, N_REPACKED_WORKERS = 2 };
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(RP_TEST_SLOW)
enum { WORKERS_IN_TURN = true };
#else
enum { WORKERS_IN_TURN = false };
#endif

/* Whether the variant is run with the number of workers that has this index: slow builds run 1 worker, and one of the
 * other numbers, another one for each instruction set and each call. REPRISE_TEST_EVERY_WORKERS: all of them. */
static inline bool has_turn(int isa, int index) {
    static int turn;
    if (!WORKERS_IN_TURN || index == 0) return true;
    if (index == 1) turn++;
    return index == 1 + (isa + turn) % 3 || getenv("REPRISE_TEST_EVERY_WORKERS") != NULL;
}

/* Chooses the variant; false if it is not run. */
static inline bool choose_isa(int isa, RpCpuIsa best) {
    return !(ONLY_BEST_ISA && (RpCpuIsa)isa != best) && rp_cpu_isa_set((RpCpuIsa)isa) == RP_OK;
}

/* Runs the kernel in every variant with repacked weights (base/repack.h), if it can read any of its sources so: the
 * same bits as `want`. Returns the number of repacked sources. */
static inline int run_repacked(RpOpKernel *kernel, const RpOpArgs *args, const char *want, const char *before,
                               const SideMemory *beside, const SideMemory *after) {
    const size_t   bytes              = rp_view_extent_bytes(&args->dst);
    const RpCpuIsa best               = rp_cpu_isa();
    RpOpArgs       copy               = *args;
    char          *memory[RP_MAX_SRC] = {NULL};
    int            n                  = 0;
    for (int k = 0; k < RP_MAX_SRC; k++) {
        if (!rp_cpu_can_repack(op_of_kernel(kernel), args, k)) continue;
        const int64_t groups = rp_view_rows(&args->src[k]) / RP_REPACKED_ROWS;
        RpTensorView *to     = &copy.src[k];
        *to                  = rp_repacked_view(&args->src[k], NULL);
        memory[k]            = malloc((size_t)rp_view_rows(to) * to->nb[1] + 64);
        to->data = memory[k] + (64 - (uintptr_t)memory[k] % 64); /* the end of the copy is the end of the memory */
        rp_repack(&args->src[k], to, 0, groups / 2);
        rp_repack(&args->src[k], to, groups / 2, groups);
        n++;
    }
    for (int isa = 0; isa < RP_ISA_COUNT && n > 0; isa++) {
        if (!choose_isa(isa, best)) continue;
        static const int workers[] = {1, 3};
        for (int w = 0; w < N_REPACKED_WORKERS; w++) {
            memcpy(args->dst.data, before, bytes);
            side_restore(beside, args);
            OK(run_workers(kernel, &copy, workers[w]));
            side_expect(after, args, rp_cpu_isa_name((RpCpuIsa)isa));
            cr_assert_arr_eq(args->dst.data, want, bytes, "%s with %d workers and repacked weights gives other bits",
                             rp_cpu_isa_name((RpCpuIsa)isa), workers[w]);
        }
    }
    for (int k = 0; k < RP_MAX_SRC; k++) free(memory[k]);
    return n;
}

/* Repacked sources of all calls of run_variants in this process. */
static int repacked_sources;

/* Runs the kernel in every variant; all must give the same bits (I8) in dst and in the sources that the op
 * writes to. Before each run dst is filled with 0x55, or restored if it is also a source. */
static inline void run_variants(RpOpKernel *kernel, const RpOpArgs *args) {
    OK(rp_cpu_isa_check()); /* of REPRISE_ISA */
    const size_t bytes   = rp_view_extent_bytes(&args->dst);
    bool         inplace = false;
    for (int i = 0; i < RP_MAX_SRC; i++) inplace = inplace || args->dst.data == args->src[i].data;
    char          *first = NULL, *before = malloc(bytes);
    SideMemory     beside = side_save(kernel, args), after = {0};
    const RpCpuIsa best = rp_cpu_isa();
    memcpy(before, args->dst.data, bytes);
    if (!inplace) memset(before, 0x55, bytes);
    for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
        if (!choose_isa(isa, best)) continue;
        static const int workers[] = {1, 2, 3, 7};
        for (int w = 0; w < N_WORKERS; w++) {
            if (!has_turn(isa, w)) continue;
            memcpy(args->dst.data, before, bytes);
            side_restore(&beside, args);
            OK(run_workers(kernel, args, workers[w]));
            if (first == NULL) after = side_save(kernel, args);
            side_expect(&after, args, rp_cpu_isa_name((RpCpuIsa)isa));
            if (first == NULL) first = memcpy(malloc(bytes), args->dst.data, bytes);
            cr_assert_arr_eq(args->dst.data, first, bytes, "%s with %d workers gives other bits",
                             rp_cpu_isa_name((RpCpuIsa)isa), workers[w]);
        }
    }
    OK(rp_cpu_isa_set(best));
    repacked_sources += run_repacked(kernel, args, first, before, &beside, &after);
    OK(rp_cpu_isa_set(best));
#ifdef RP_TEST_CUDA
    cuda_run_orders(RP_TEST_CUDA, kernel, args, before, &beside);
#endif
    side_free(&beside), side_free(&after);
    free(first);
    free(before);
}

/* Relative error, or absolute for values below 1. */
static inline void expect_near(const float *got, const double *want, size_t n, double tolerance) {
    for (size_t i = 0; i < n; i++)
        cr_assert(fabs((double)got[i] - want[i]) <= tolerance * fmax(1.0, fabs(want[i])),
                  "element %zu is %.9g, not %.9g", i, (double)got[i], want[i]);
}

#endif
