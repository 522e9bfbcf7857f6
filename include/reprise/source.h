/* source.h - custom ops whose CUDA kernel is source text, compiled at run time by NVRTC: no nvcc, no rebuild
 * (examples/moe_gate.c). NVRTC is a library of the CUDA toolkit and of the Python package nvidia-cuda-nvrtc.
 *
 *   static const char text[] = "__global__ void relu(RpArgs a) {\n"
 *                              "    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
 *                              "    const float *x = (const float *)a.unary.x.data;\n"
 *                              "    if (i < rp_elements(a.dst)) ((float *)a.dst.data)[i] = fmaxf(x[i], 0.0f);\n"
 *                              "}\n";
 *   static const RpCudaSource    source = {.text = text, .kernel = "relu", .grid = RP_GRID_ELEMENTS};
 *   static const RpOpDescription relu   = {.name = "relu", .n_required = 1, .n_sources = 1, .shape = relu_shape,
 *                                          .cpu = relu_cpu};
 *   TensorOp op;
 *   RP_TRY(rp_op_register_source(&relu, &source, &op));
 *
 * The kernel has one parameter, an RpArgs by value. These declarations stand in front of the text; views have the
 * members and the meaning of RpTensorView (tensor.h), with addresses of device memory:
 *
 *  struct RpView   { char *data; int dtype; long long ne[4]; long long nb[4]; };
 *  struct RpParams { float f[8]; int i[8]; };                         RpOpParams.custom of the node
 *  struct RpArgs   { RpView dst; RpView src[RP_MAX_SRC]; RpParams params; };
 *                    Sources have names too, as in RpOpArgs: unary.x; binary.a, binary.b. Absent: data NULL and ne 0.
 *  enum            { RP_F32, RP_F16, ... };                           dtypes
 *  long long rp_elements(const RpView &v);                            ne[0] * ne[1] * ne[2] * ne[3]
 *  long long rp_rows(const RpView &v);                                ne[1] * ne[2] * ne[3]
 *  char     *rp_row(const RpView &v, long long r);                    address of row r
 *  void      rp_wait();                                               for RP_SOURCE_WAITS, see below
 *  INFINITY, NAN                                                      as in <math.h>
 *
 * Sources are compiled when an executor with such an op is opened on a CUDA device, several at a time, never in a
 * run. Results are kept in XDG_CACHE_HOME/reprise or ~/.cache/reprise, unless the text or an option includes files
 * other than <...> of the toolkit; that folder may be deleted at any time. rp_executor_info().kernels says what was
 * done. Quantised weights lie on the device in planes (docs/cuda.md), so a shape rule should refuse quantised
 * types.
 */
#ifndef REPRISE_SOURCE_H
#define REPRISE_SOURCE_H

#include "reprise/extend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How blocks are laid out over the result if there is no launch rule. */
typedef enum RpSourceGrid {
    RP_GRID_NONE,     /* a launch rule is required */
    RP_GRID_ELEMENTS, /* one thread for each element: ceil(elements / block) blocks */
    RP_GRID_ROWS,     /* one block for each row */
} RpSourceGrid;

typedef struct RpSourceLaunch {
    unsigned grid[3], block[3], shared_bytes; /* as in CUDA; shared_bytes: dynamic shared memory */
} RpSourceLaunch;

/* Fills in *out, which the caller has set to one block of one thread. It may look at shapes and parameters only, so
 * that equal ones give equal launches (I5); data pointers may be NULL. On failure it sets *why to a static text. All
 * pointers are valid during the call. */
typedef RpStatus RpSourceRule(const RpOpArgs *args, RpSourceLaunch *out, const char **why);

enum {
    /* The kernel calls rp_wait() before it touches anything but weights, in every block. It may then start while the
     * kernel before it still runs (docs/cuda.md, programmatic dependent launch). */
    RP_SOURCE_WAITS       = 1,
    RP_SOURCE_MAX_OPTIONS = 32
};

typedef struct RpCudaSource {
    const char        *text;      /* CUDA C++ */
    const char        *file;      /* its name in messages of the compiler; NULL: "<op>.cu" */
    const char        *kernel;    /* name of the __global__ function, as C++ has it: "relu", "scale<4>" */
    const char *const *options;   /* of NVRTC, such as "-DTOP_K=4", "--use_fast_math"; [n_options] */
    RpSourceRule      *launch;    /* or NULL: by `grid` and `block` */
    int                n_options; /* at most RP_SOURCE_MAX_OPTIONS */
    RpSourceGrid       grid;
    unsigned           block;        /* threads of a block, at most 1024; 0: 256 */
    unsigned           shared_bytes; /* dynamic shared memory of a block, without a launch rule */
    unsigned           flags;        /* RP_SOURCE_WAITS */
    unsigned           unused;
} RpCudaSource;

/* As rp_op_register (extend.h), with source text for `cuda`, which must be NULL. `cpu` may be NULL: plans with this
 * op are then refused on the CPU, and rp_executor_verify has nothing to compare with. Also in builds without CUDA.
 * The structs are copied; their texts are borrowed for the life of the process. */
RP_API RP_NODISCARD RpStatus rp_op_register_source_sized(const RpOpDescription *description, size_t description_bytes,
                                                         const RpCudaSource *source, size_t source_bytes,
                                                         TensorOp *out);
RP_NODISCARD static inline RpStatus rp_op_register_source(const RpOpDescription *description,
                                                          const RpCudaSource *source, TensorOp *out) {
    return rp_op_register_source_sized(description, sizeof *description, source, sizeof *source, out);
}

/* Compiles a source for a compute capability, without a device, and keeps nothing. *log gets all errors and warnings
 * of the compiler, "" for none; the caller frees it. It is NULL if nothing was compiled. RP_E_ARG for errors in the
 * source, RP_E_NOT_AVAILABLE without NVRTC or in a build without CUDA. */
RP_API RP_NODISCARD RpStatus rp_cuda_source_compile_sized(const RpCudaSource *source, size_t source_bytes, int major,
                                                          int minor, char **log);
RP_NODISCARD static inline RpStatus rp_cuda_source_compile(const RpCudaSource *source, int major, int minor,
                                                           char **log) {
    return rp_cuda_source_compile_sized(source, sizeof *source, major, minor, log);
}

#ifdef __cplusplus
}
#endif
#endif
