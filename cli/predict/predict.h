/* predict.h - predicted time of a decode step on a GPU, from counts of its kernels (`reprise-sim bench counts --json`)
 * and data sheets. No GPU is involved. docs/gpu-model.md has the formulas, their sources and how well they agree with
 * published measurements.
 *
 *   kernel    max(memory - hidden, issue, tensor, flight, atomics) + serial   KernelTime
 *   token     sum over kernels of launches * (kernel + gap)                   TokenTime
 *
 * `hidden` is the time of those weights that a kernel reads while the kernel before it still runs. */
#ifndef CLI_PREDICT_PREDICT_H
#define CLI_PREDICT_PREDICT_H

#include "reprise/reprise.h"

typedef struct Gpu {
    const char *name, *title;
    int         sms, max_warps, max_blocks, shared_kb; /* the last three: of an SM */
    int         int_lanes, float_lanes, double_lanes;  /* results a clock of an SM */
    double      clock_ghz, gb_s;                       /* boost clock; DRAM bandwidth */
    double      latency_ns, l2_ns;                     /* of a load that misses the caches, and of one from L2 */
    double      tensor_f16, tensor_s8; /* dense, 10^12 operations a second, a multiply-add is 2; f16 with f32 sums */
    double      mma_share;             /* share of these that the instruction mma reaches */
    bool        pdl;
} Gpu;

extern const Gpu cli_gpus[];
extern const int cli_n_gpus;

/* RP_E_ARG, with the known names, for another name. */
RP_NODISCARD RpStatus cli_gpu_find(const char *name, const Gpu **out);

/* The sums over all blocks of one launch. */
typedef struct KernelCounts {
    char   name[64], node[64];
    double blocks, launches;
    double sms; /* multiprocessors that the grid was planned for; 0: it does not depend on them */
    int    threads, registers, shared_bytes; /* of a block */
    double instructions;                     /* of warps, all classes; the next four are classes */
    double ints, dots, floats, doubles;      /* dots: int8 dot products */
    double tensor_f16, tensor_s8;            /* multiply-adds of mma */
    double dram_bytes;                       /* weights and KV cache */
    double early_bytes;                      /* of weights that are prefetched before griddepcontrol.wait */
    double activation_bytes, warp_flight;    /* warp_flight: bytes of one warp's loads in flight */
    double barriers, atomics;                /* barriers: summed over blocks; atomics: with collisions in a warp */
} KernelCounts;

typedef struct StepCounts {
    char          name[64], preset[64]; /* name: of the file, without .json */
    int           position, n_kernels;
    KernelCounts *kernels; /* cli_counts_free */
} StepCounts;

/* Reads the output of `bench counts --phase decode --json`. RP_E_IO; RP_E_FORMAT, naming file, kernel and member. */
RP_NODISCARD RpStatus cli_counts_read(const char *path, StepCounts *out);
void                  cli_counts_free(StepCounts *c);

#define BOUNDS(X) X(memory) X(issue) X(tensor) X(flight) X(atomics)
typedef enum Bound {
#define X(name) BOUND_##name,
    BOUNDS(X)
#undef X
        N_BOUNDS
} Bound;
extern const char *const cli_bound_names[N_BOUNDS];

typedef struct KernelTime {
    double limit[N_BOUNDS], serial, total; /* microseconds of one launch, without the gap before it */
    double hidden;                         /* reading early bytes while the kernel before ends; not in `limit` */
    Bound  bound;                          /* the largest limit */
} KernelTime;

typedef struct TokenTime {
    double us, without_pdl_us; /* with the gaps of programmatic dependent launch, where the GPU has it, and without */
    double bytes;              /* of weights and KV cache */
} TokenTime;

/* Kernel i of a step. The kernel before it hides the time of its early bytes. */
KernelTime cli_kernel_time(const Gpu *gpu, const StepCounts *c, int i);
TokenTime  cli_token_time(const Gpu *gpu, const StepCounts *c);

/* `reprise bench launches --predict`: `path` is a file of counts or a folder of such files. gpu, preset NULL: all. */
RP_NODISCARD RpStatus cli_predict(const char *path, const char *gpu, const char *preset, bool json);

#endif
