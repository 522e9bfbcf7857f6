/* cuda_run.h - the CUDA kernel of an op on copies of what the CPU kernel had, for comparison. */
#ifndef TESTS_CUDA_RUN_H
#define TESTS_CUDA_RUN_H

#include "tests/golden.h"

#include "tests/cudasim/sim.h"

#include <cuda_runtime_api.h>
#include <math.h>

static inline TensorOp op_of(OpKernel *cpu) {
    int op = 0;
    while (rp_cpu_kernels[op] != cpu) op++;
    return (TensorOp)op;
}

/* Scratch memory is zero before the first launch: the second must do with what the first has left in it. */
static inline RpStatus launch_twice(TensorOp op, const OpArgs *on, const void *before) {
    KernelCtx    ctx   = {.scratch_bytes = rp_cuda_scratch_bytes(op, on, NULL)};
    const size_t bytes = rp_view_span_bytes(&on->dst);
    cr_assert_eq(cudaMalloc(&ctx.scratch, ctx.scratch_bytes + 16), cudaSuccess);
    cr_assert_eq(cudaMemset(ctx.scratch, 0, ctx.scratch_bytes + 16), cudaSuccess);
    RpStatus st = rp_cuda_kernels[op](on, &ctx);
    if (ctx.scratch_bytes > 0 && st == RP_OK) {
        cr_assert_eq(cudaMemcpy(on->dst.data, before, bytes, cudaMemcpyHostToDevice), cudaSuccess);
        st = rp_cuda_kernels[op](on, &ctx);
    }
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
    cr_assert_eq(cudaFree(ctx.scratch), cudaSuccess);
    return st;
}

/* The view's memory on the device; `at` what another view of the same host memory has there already. */
static inline void *to_device(const TensorView *v, const void *contents) {
    void        *p     = NULL;
    const size_t bytes = rp_view_span_bytes(v);
    cr_assert_eq(cudaMalloc(&p, bytes), cudaSuccess);
    cr_assert_eq(cudaMemcpy(p, contents, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return p;
}

/* Quantised weights lie in planes on the device. */
static inline bool takes_planes(OpKernel *cpu, const TensorView *w) {
    return rp_dtype_is_quant(w->dtype) && w->dtype != RP_Q8_ACT &&
           (cpu == rp_cpu_mul_mat || cpu == rp_cpu_mul_mat_id || cpu == rp_cpu_get_rows);
}

static inline void *weight_to_device(const TensorView *w) {
    void *planes = malloc(rp_view_span_bytes(w));
    OK(rp_cuda_pack(w, planes));
    void *device = to_device(w, planes);
    free(planes);
    return device;
}

/* One run; the result is copied over the host's dst. `before` is what dst held before the op. */
static inline RpStatus cuda_run(OpKernel *cpu, const OpArgs *args, const void *before) {
    OpArgs on   = *args;
    on.dst.data = to_device(&args->dst, before);
    for (int i = 0; i < RP_MAX_SRC; i++) {
        if (!rp_has_src(args, i)) continue;
        if (i == 0 && takes_planes(cpu, &args->src[0])) {
            on.src[0].data = weight_to_device(&args->src[0]);
            continue;
        }
        on.src[i].data =
            args->src[i].data == args->dst.data ? on.dst.data : to_device(&args->src[i], args->src[i].data);
    }
    const RpStatus st = launch_twice(op_of(cpu), &on, before);
    if (st == RP_OK)
        cr_assert_eq(
            cudaMemcpy(args->dst.data, on.dst.data, rp_view_span_bytes(&args->dst), cudaMemcpyDeviceToHost),
            cudaSuccess);
    for (int i = 0; i < RP_MAX_SRC; i++)
        if (rp_has_src(args, i) && on.src[i].data != on.dst.data)
            cr_assert_eq(cudaFree(on.src[i].data), cudaSuccess);
    cr_assert_eq(cudaFree(on.dst.data), cudaSuccess);
    return st;
}

/* Floats within `tolerance` of the largest of the CPU's result, and the same NaN; anything else bit for bit.
 */
static inline void expect_as_cpu(const char *op, const TensorView *y, const char *cuda, const char *cpu,
                                 double tolerance) {
    const size_t bytes = rp_view_span_bytes(y);
    if (y->dtype != RP_F32) {
        cr_assert_arr_eq(cuda, cpu, bytes, "%s: the CUDA kernel gives other bytes", op);
        return;
    }
    const float *a = (const float *)(const void *)cuda, *b = (const float *)(const void *)cpu;
    double       top = 0.0;
    for (size_t i = 0; i < bytes / 4; i++)
        if (isfinite(b[i]) && memcmp(&b[i], "\x55\x55\x55\x55", 4) != 0) top = fmax(top, fabs((double)b[i]));
    for (size_t i = 0; i < bytes / 4; i++) {
        if (memcmp(&a[i], &b[i], 4) == 0 || (isnan(a[i]) && isnan(b[i]))) continue;
        cr_assert(fabs((double)a[i] - (double)b[i]) <= tolerance * top,
                  "%s: element %zu is %.9g, on the CPU %.9g", op, i, (double)a[i], (double)b[i]);
    }
}

/* Forward, reversed and random orders of the threads; `result` is what the CPU kernel left in dst. */
static inline void cuda_run_everywhere(const char *op, OpKernel *cpu, const OpArgs *args,
                                       const void *before) {
    const size_t bytes  = rp_view_span_bytes(&args->dst);
    char        *result = malloc(bytes), *first = NULL;
    memcpy(result, args->dst.data, bytes);
    for (int order = 0; order < 3; order++) {
        sim_sched(order, 1);
        memcpy(args->dst.data, before, bytes); /* an op in place reads it */
        OK(cuda_run(cpu, args, before));
        expect_as_cpu(op, &args->dst, args->dst.data, result, 2e-5);
        if (first == NULL) first = memcpy(malloc(bytes), args->dst.data, bytes);
        cr_assert_arr_eq(args->dst.data, first, bytes, "%s: the order of the threads shows in the result",
                         op);
    }
    memcpy(args->dst.data, result, bytes);
    free(result);
    free(first);
}

#endif
