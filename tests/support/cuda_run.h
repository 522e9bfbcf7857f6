/* cuda_run.h - runs the CUDA kernel of an op on copies of the CPU kernel's operands and compares the results.
 *
 *     host operands -> cudaMalloc, cudaMemcpy; quantised weights repacked into planes (rp_cuda_repack)
 *       -> launch, twice if the op uses scratch memory -> copy back -> compare with the CPU (expect_as_cpu)
 *
 * Tolerances: f32 by op (tolerance_of), of the largest result; q8_act quants may differ by 1 in 1 % of the elements;
 * ids and bytes are equal. With the simulated device this is done in every thread order, each as if the device had
 * another number of multiprocessors and other measured constants (RpCudaTuning), and all must agree bit for bit: a few
 * blocks that take turns compute what many do. */
#ifndef TESTS_CUDA_RUN_H
#define TESTS_CUDA_RUN_H

#include "tests/support/case.h"
#include "tests/support/side_memory.h"

#include "base/tuning.h"
#include "fallback/quants/quants.h"

#include "sim/device/sim.h"

#include <cuda_runtime_api.h>
#include <math.h>

/* The multiprocessors that launchers are told. A test may fix them; 0: those of an H100, then 1 and 3, where the bits
 * do not depend on them. */
static int cuda_n_sm;

/* The constants of a device that is measured, other ones in each thread order. */
static int cuda_order;

/* How tiles are computed. The bits depend on it, so a test runs for each. */
static RpPrefillTile cuda_tile = RP_PREFILL_F16;

static inline RpCudaTuning cuda_tuning(void) {
    static const int grid_percent[] = {RP_TUNING_GRID, 200, 50}, early_bytes[] = {RP_TUNING_EARLY, 0, 4096},
                     split_tokens[] = {RP_TUNING_SPLIT_TOKENS, 0, 1000};
    RpCudaTuning t                  = rp_tuning_defaults(cuda_n_sm);
    t.grid_percent                  = grid_percent[cuda_order];
    t.early_bytes                   = early_bytes[cuda_order];
    t.split_tokens                  = split_tokens[cuda_order];
    t.prefill_tile                  = cuda_tile;
    return t;
}

/* Only the front of the scratch memory is zero before the first launch. The second launch must work with what
 * the first left there: counters of arrivals must be zero again. */
static inline RpStatus launch_twice(RpOpKernel *cpu, const RpOpArgs *on, const RpOpArgs *host, const void *before) {
    const TensorOp     op     = op_of_kernel(cpu);
    const RpCudaTuning tuning = cuda_tuning();
    RpKernelCtx        ctx    = {.overlap = true, .constant = ~0u, .tuning = &tuning};
    ctx.scratch_bytes         = rp_cuda_scratch_bytes(op, on, &ctx);
    const size_t bytes        = rp_view_extent_bytes(&on->dst);
    cr_assert_eq(cudaMalloc(&ctx.scratch, ctx.scratch_bytes + 16), cudaSuccess);
    const size_t zeros = ctx.scratch_bytes < RP_SCRATCH_ZEROS ? ctx.scratch_bytes : RP_SCRATCH_ZEROS;
    cr_assert_eq(cudaMemset(ctx.scratch, 0, zeros), cudaSuccess); /* the rest stays uninitialised */
    RpStatus st = rp_cuda_kernel(op)(on, &ctx);
    if (ctx.scratch_bytes > 0 && st == RP_OK) {
        cr_assert_eq(cudaMemcpy(on->dst.data, before, bytes, cudaMemcpyHostToDevice), cudaSuccess);
        for (int i = 0; i < RP_MAX_SRC; i++)
            if (writes_source(cpu, host, i))
                cr_assert_eq(cudaMemcpy(on->src[i].data, host->src[i].data, rp_view_extent_bytes(&on->src[i]),
                                        cudaMemcpyHostToDevice),
                             cudaSuccess, CASE(i));
        st = rp_cuda_kernel(op)(on, &ctx);
    }
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
    cr_assert_eq(cudaFree(ctx.scratch), cudaSuccess);
    return st;
}

/* Device memory for the view, filled with `contents`. */
static inline void *to_device(const RpTensorView *v, const void *contents) {
    void        *p     = NULL;
    const size_t bytes = rp_view_extent_bytes(v);
    cr_assert_eq(cudaMalloc(&p, bytes), cudaSuccess);
    cr_assert_eq(cudaMemcpy(p, contents, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return p;
}

/* Whether source i is a weight that the kernel reads in planes: the first sources of a product, if quantised. */
static inline bool takes_planes(RpOpKernel *cpu, const RpTensorView *w, int i) {
    const bool one = cpu == rp_cpu_mul_mat || cpu == rp_cpu_mul_mat_id || cpu == rp_cpu_get_rows ||
                     cpu == rp_cpu_linear || cpu == rp_cpu_router || cpu == rp_cpu_experts_down || cpu == rp_cpu_latent;
    const bool shared =
        (cpu == rp_cpu_gate_up && (i == RP_SOURCE(gate_up, shared_gate) || i == RP_SOURCE(gate_up, shared_up))) ||
        (cpu == rp_cpu_experts_down && i == RP_SOURCE(experts_down, shared));
    if (shared) return rp_dtype_is_quant(w->dtype);
    if (cpu == rp_cpu_projections) return (i < 2 || i > 3) && rp_dtype_is_quant(w->dtype) && w->dtype != RP_Q8_ACT;
    const bool of_qkv =
        cpu == rp_cpu_qkv && (i == 0 || i == RP_SOURCE(qkv, wk) || i == RP_SOURCE(qkv, wv)); /* queries, keys, values */
    if (of_qkv) return rp_dtype_is_quant(w->dtype);
    const int n = one ? 1 : cpu == rp_cpu_gate_up ? 2 : 0;
    return i < n && rp_dtype_is_quant(w->dtype) && w->dtype != RP_Q8_ACT;
}

static inline void *weight_to_device(const RpTensorView *w) {
    void *planes = malloc(rp_view_extent_bytes(w));
    OK(rp_cuda_repack(w, planes));
    void *device = to_device(w, planes);
    free(planes);
    return device;
}

/* One run. Results are copied to the host's operands. `before`: contents of dst before the op. */
static inline RpStatus cuda_run(RpOpKernel *cpu, const RpOpArgs *args, const void *before) {
    RpOpArgs on = *args;
    on.dst.data = to_device(&args->dst, before);
    for (int i = 0; i < RP_MAX_SRC; i++) {
        if (!rp_is_present(&args->src[i])) continue;
        if (takes_planes(cpu, &args->src[i], i)) {
            on.src[i].data = weight_to_device(&args->src[i]);
            continue;
        }
        on.src[i].data =
            args->src[i].data == args->dst.data ? on.dst.data : to_device(&args->src[i], args->src[i].data);
    }
    const RpStatus st = launch_twice(cpu, &on, args, before);
    if (st == RP_OK)
        cr_assert_eq(cudaMemcpy(args->dst.data, on.dst.data, rp_view_extent_bytes(&args->dst), cudaMemcpyDeviceToHost),
                     cudaSuccess);
    for (int i = 0; i < RP_MAX_SRC; i++) {
        if (!rp_is_present(&args->src[i]) || on.src[i].data == on.dst.data) continue;
        if (st == RP_OK && writes_source(cpu, args, i))
            cr_assert_eq(cudaMemcpy(args->src[i].data, on.src[i].data, rp_view_extent_bytes(&args->src[i]),
                                    cudaMemcpyDeviceToHost),
                         cudaSuccess, CASE(i));
        cr_assert_eq(cudaFree(on.src[i].data), cudaSuccess, CASE(i));
    }
    cr_assert_eq(cudaFree(on.dst.data), cudaSuccess);
    return st;
}

/* The largest finite magnitude, without elements that still hold the fill pattern. */
static inline double largest(const float *x, size_t n) {
    double top = 0.0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]) && memcmp(&x[i], "\x55\x55\x55\x55", 4) != 0) top = fmax(top, fabs((double)x[i]));
    return top;
}

static inline void expect_floats(const char *op, const float *a, const float *b, size_t n, double tolerance) {
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&a[i], &b[i], 4) == 0 || (isnan(a[i]) && isnan(b[i]))) continue;
        cr_assert(fabs((double)a[i] - (double)b[i]) <= tolerance, "%s: element %zu is %.9g, on the CPU %.9g", op, i,
                  (double)a[i], (double)b[i]);
    }
}

static inline const float *scales_of(const char *row, int64_t n) { return (const float *)(const void *)(row + n); }

/* A row of n elements in q8_act:  q[n] (int8) | scale[n/32] (f32) | sum[n/16] (f32). Scales are compared as
 * floats; up to 1 % of the quants may be off by one; each sum must be that of the row's quants. */
static inline void expect_q8_act(const char *op, const char *a, const char *b, int64_t n, double tolerance) {
    const int8_t *qa = (const int8_t *)a, *qb = (const int8_t *)b;
    const float  *scale = scales_of(a, n), *sum = scale + n / 32;
    int64_t       off = 0;
    expect_floats(op, scale, scales_of(b, n), (size_t)n / 32, tolerance);
    for (int64_t i = 0; i < n; i++) {
        cr_assert(abs(qa[i] - qb[i]) <= 1, "%s: quant %d is %d, on the CPU %d", op, (int)i, qa[i], qb[i]);
        off += qa[i] != qb[i];
    }
    cr_assert(100 * off <= n, "%s: %d of %d quants are off", op, (int)off, (int)n);
    for (int64_t i = 0; i < n; i += 16) {
        int total = 0;
        for (int k = 0; k < 16; k++) total += qa[i + k];
        const float want = scale[i / 32] * (float)total;
        cr_assert(memcmp(&sum[i / 16], &want, 4) == 0 || isnan(want), "%s: sum %d is %.9g, its quants give %.9g", op,
                  (int)(i / 16), (double)sum[i / 16], (double)want);
    }
}

/* Values stored as f16 or q8_0 may differ by one rounding step. */
static inline void expect_stored(const char *op, const RpTensorView *v, const char *a, const char *b) {
    const int64_t n = v->ne[0];
    float        *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    for (int64_t r = 0; r < rp_view_rows(v); r++) {
        const size_t at = (size_t)((char *)rp_view_row(v, r) - (char *)v->data);
        if (memcmp(a + at, b + at, rp_row_bytes(v->dtype, n)) == 0) continue;
        rp_dequantize_row(v->dtype, a + at, n, x), rp_dequantize_row(v->dtype, b + at, n, y);
        for (int64_t i = 0; i < n; i++) {
            if (x[i] == y[i] || (isnan(x[i]) && isnan(y[i]))) continue;
            double step = fmax(fabs((double)y[i]), 1e-4) * 0x1p-10;
            for (int64_t k = i / 32 * 32; k < i / 32 * 32 + 32 && v->dtype == RP_Q8_0; k++)
                step = fmax(step, 1.01 * fabs((double)y[k]) / 127.0);
            cr_assert(fabs((double)x[i] - (double)y[i]) <= step, "%s: element %d of row %d is %.9g, on the CPU %.9g",
                      op, (int)i, (int)r, (double)x[i], (double)y[i]);
        }
    }
    free(x), free(y);
}

/* f32: within `tolerance` of the CPU's largest result, with NaN at the same places. q8_act: expect_q8_act; for the op
 * quantize equal quants, scales and sums; any NaN equals any other, as their bits depend on the processor. A router's
 * result is ids and a column, compared bit for bit, and weights and the gate of a shared expert, compared as floats.
 * Anything else: bit for bit. */
static inline void expect_as_cpu(const char *op, const RpOpArgs *args, const char *cuda, const char *cpu,
                                 double tolerance) {
    const RpTensorView *y     = &args->dst;
    const size_t        bytes = rp_view_extent_bytes(y);
    const float        *a = (const float *)(const void *)cuda, *b = (const float *)(const void *)cpu;
    double              top = 0.0;
    if (y->dtype == RP_F32) {
        expect_floats(op, a, b, bytes / 4, tolerance * largest(b, bytes / 4));
    } else if (strcmp(op, "router") == 0) {
        const size_t k = (size_t)y->ne[0], before = (rp_is_present(&args->router.open) ? 4 : 2) * k;
        cr_assert_arr_eq(cuda, cpu, 4 * k, "%s: the CUDA kernel selects other experts", op);
        expect_floats(op, a + k, b + k, before - k, tolerance * largest(b + k, before - k));
        cr_assert_arr_eq(cuda + 4 * before, cpu + 4 * before, bytes - 4 * before, "%s: another quantised column", op);
    } else if (y->dtype == RP_Q8_ACT && strcmp(op, "quantize") == 0) {
        for (int64_t r = 0; r < rp_view_rows(y); r++) {
            const char   *of_cuda = cuda + (size_t)r * y->nb[1], *of_cpu = cpu + (size_t)r * y->nb[1];
            const int64_t n = y->ne[0];
            cr_assert_arr_eq(of_cuda, of_cpu, (size_t)n, "%s: other quants in row %d", op, (int)r);
            expect_floats(op, scales_of(of_cuda, n), scales_of(of_cpu, n), (size_t)(n / 32 + n / 16), 0.0);
        }
    } else if (y->dtype == RP_Q8_ACT) {
        for (int64_t r = 0; r < rp_view_rows(y); r++)
            top = fmax(top, largest(scales_of(cpu + (size_t)r * y->nb[1], y->ne[0]), (size_t)y->ne[0] / 32));
        for (int64_t r = 0; r < rp_view_rows(y); r++)
            expect_q8_act(op, cuda + (size_t)r * y->nb[1], cpu + (size_t)r * y->nb[1], y->ne[0], tolerance * top);
    } else {
        cr_assert_arr_eq(cuda, cpu, bytes, "%s: the CUDA kernel gives other bytes", op);
    }
}

/* The largest difference from the CPU, as a share of the largest result. 0: the kernel rounds as the CPU's does, in the
 * same order. 1e-6: nvcc contracts a product and a sum into fma, or the kernel uses an approximate exp. Larger: sums in
 * another order, or of many terms. */
static inline double tolerance_of(const char *op, const RpOpArgs *args) {
    static const char *const        exact[] = {"adamw",    "add",         "add_id",   "aux_loss_backward", "combine",
                                               "copy",     "expert_load", "get_rows", "grad_clip",         "mul",
                                               "quantize", "rms_norm",    "top_k"},
                             *const close[] = {"aux_loss",  "cross_entropy", "cross_entropy_backward",
                                               "grad_norm", "experts_down",  "gelu",
                                               "linear",    "mul_mat_id",    "qkv",
                                               "rope",      "scale",         "sigmoid",
                                               "silu",      "soft_max",      "swiglu_oai"};
    if (strcmp(op, "linear") == 0 && args->params->linear.act != RP_LINEAR_ACT_NONE)
        return 4e-6; /* of the product and of the act */
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (strcmp(op, exact[i]) == 0) return 0.0;
    for (size_t i = 0; i < sizeof close / sizeof *close; i++)
        if (strcmp(op, close[i]) == 0) return 1e-6;
    return 2e-5;
}

/* Tiles in f16 round both factors, each element by at most 2^-11 of itself. Errors of results near 0 are compared with
 * the largest result. */
static inline bool in_f16_tiles(const char *op, const RpOpArgs *args) {
    if (args->src[1].dtype != RP_Q8_ACT || cuda_tile != RP_PREFILL_F16) return false;
    if (strcmp(op, "mul_mat_id") == 0) return args->mul_mat_id.ids.ne[1] >= 5;
    return strcmp(op, "mul_mat") == 0 && args->mul_mat.x.ne[1] >= 5 && args->mul_mat.x.ne[2] == 1;
}

/* The number of splits of the KV cache, and so the order of sums, follows from the number of multiprocessors. */
static inline bool splits_by_device(const char *op) {
    return strcmp(op, "attention") == 0 || strcmp(op, "latent_attention") == 0;
}

/* The forward order, then the reversed and the random one in turn. REPRISE_TEST_EVERY_ORDER: all three. */
static inline bool is_wanted_order(int order, unsigned turn) {
    return order == SIM_FIRST_ORDER || order == 1 + (int)(turn % 2) || getenv("REPRISE_TEST_EVERY_ORDER") != NULL;
}

/* Runs in forward, reversed or random thread order. dst and the written sources keep the CPU's results. `before` and
 * `beside`: their contents before the op. */
static inline void cuda_run_orders(const char *op, RpOpKernel *cpu, const RpOpArgs *args, const void *before,
                                   const SideMemory *beside) {
    const size_t    bytes  = rp_view_extent_bytes(&args->dst);
    char           *result = memcpy(malloc(bytes), args->dst.data, bytes), *first = NULL;
    SideMemory      stored = side_save(cpu, args), first_stored = {0};
    const int       fixed_n_sm = cuda_n_sm;
    static unsigned turn;
    turn++;
    for (int order = SIM_FIRST_ORDER; order < 3; order++) {
        static const int n_sm[] = {0, 1, 3};
        if (!is_wanted_order(order, turn)) continue;
        if (fixed_n_sm == 0 && !splits_by_device(op)) cuda_n_sm = n_sm[order];
        cuda_order = order;
        sim_sched(order, 1);
        memcpy(args->dst.data, before, bytes); /* an op in place reads it */
        side_restore(beside, args);
        OK(cuda_run(cpu, args, before));
        expect_as_cpu(op, args, args->dst.data, result, in_f16_tiles(op, args) ? 0x1p-10 : tolerance_of(op, args));
        for (int i = 0; i < RP_MAX_SRC; i++)
            if (stored.bytes[i] != NULL) expect_stored(op, &args->src[i], args->src[i].data, stored.bytes[i]);
        if (first == NULL) {
            first        = memcpy(malloc(bytes), args->dst.data, bytes);
            first_stored = side_save(cpu, args);
        }
        cr_assert_arr_eq(args->dst.data, first, bytes,
                         "%s: the result depends on the thread order or on constants of the device", op);
        side_expect(&first_stored, args, "another thread order");
    }
    cuda_n_sm  = fixed_n_sm;
    cuda_order = 0;
    memcpy(args->dst.data, result, bytes);
    side_restore(&stored, args);
    side_free(&stored), side_free(&first_stored);
    free(result);
    free(first);
}

#endif
