/* tune_bench.h - what the constants of a device are measured with (tune.c): three captured chains of real kernels over
 * weights that no cache holds.
 *
 *     products     layers of attention output, gate and up, down; then an output matrix: one token, Q4_K
 *     attention    chunks of 16 and 64 tokens at the end of a long context, f16
 *     token        one token: attention at the end of the same context, then the products of a layer, for each layer
 *
 * Their sizes follow from the L2 cache alone. All memory is zeroed or filled with one small number: the time of a
 * product does not depend on its values. */
#ifndef EXECUTOR_CUDA_TUNE_BENCH_H
#define EXECUTOR_CUDA_TUNE_BENCH_H

#include "executor/cuda/cuda.h"

typedef enum TuneChain { TUNE_PRODUCTS = 0, TUNE_ATTENTION, TUNE_TOKEN, TUNE_CHAINS } TuneChain;

enum { TUNE_LAYERS = 2, TUNE_STEPS = 4 * TUNE_LAYERS, TUNE_FEW_TOKENS = 16, TUNE_TOKENS = 64 };

/* One launcher call. */
typedef struct TuneStep {
    TensorOp   op;
    RpOpArgs   args;
    RpOpParams params;
    unsigned   constant; /* as in RpKernelCtx */
} TuneStep;

typedef struct TuneBench {
    CudaDevice *d;
    int64_t     n; /* elements of a row */
    char       *memory;
    size_t      bytes, used; /* of memory */
    TuneStep    steps[TUNE_CHAINS][TUNE_STEPS];
    int         n_steps[TUNE_CHAINS];
    void       *scratch;
    size_t      scratch_bytes;
    cudaEvent_t begin, end;
    bool        pdl; /* the chains are captured with programmatic dependent launch */
} TuneBench;

/* Allocates and fills the memory, and loads the kernels. `most_tokens` is the largest split_tokens that will be
 * measured; `pdl` asks for programmatic dependent launch, which b->pdl has if every kernel was compiled for it. The
 * caller closes *b, after a failure too. RP_E_UNSUPPORTED for a device whose L2 cache is unknown or too large,
 * RP_E_NOMEM with less than twice the memory free; RP_E_CUDA. */
RP_NODISCARD RpStatus rp_tune_bench_open(CudaDevice *d, size_t l2_bytes, int most_tokens, bool pdl, TuneBench *b);
void                  rp_tune_bench_close(TuneBench *b);

/* Captures and instantiates a chain as it runs with these constants. The caller owns *out. */
RP_NODISCARD RpStatus rp_tune_bench_record(TuneBench *b, TuneChain chain, const RpCudaTuning *tuning,
                                           cudaGraphExec_t *out);

/* Microseconds of a run of the chain, the mean of a few; the caller repeats the call for a median. */
RP_NODISCARD RpStatus rp_tune_bench_time(TuneBench *b, cudaGraphExec_t chain, double *us);

#endif
