/* nvrtc.h - CUDA C++ source text to machine code, by NVRTC. The library is opened by dlopen and never linked. Nothing
 * here needs a device.
 *
 *     RpNvrtc   *n;
 *     CudaBinary b;
 *     RP_TRY(rp_nvrtc_open(path, &n));
 *     RpStatus st = rp_nvrtc_target(n, 9, 0, &target);               // sm_90
 *     if (st == RP_OK) st = rp_nvrtc_compile(n, &code, target, &b, NULL);
 *     rp_cuda_binary_free(&b);
 *     rp_nvrtc_close(n);
 *
 * A program is  prelude, "#line 1" with the file's name, text,  so that messages have the line numbers of `text`. */
#ifndef EXECUTOR_CUDA_NVRTC_H
#define EXECUTOR_CUDA_NVRTC_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct RpNvrtc RpNvrtc;

/* One kernel of one program. All texts are borrowed. */
typedef struct CudaCode {
    const char        *owner;   /* begins errors: "moe_gate" */
    const char        *file;    /* in messages of the compiler: "moe_gate.cu" */
    const char        *prelude; /* declarations in front of the text */
    const char        *text;    /* of the file */
    const char        *kernel;  /* name as C++ has it: "gate", "n::gate<4>" */
    const char *const *options; /* further options of the compiler */
    int                n_options;
    bool               complete; /* includes no files, whatever its comments look like */
} CudaCode;

/* The target of a compilation: a cubin for this architecture, or PTX that the driver translates for a newer device. */
typedef struct CudaTarget {
    int  architecture; /* 10 * major + minor */
    bool is_virtual;   /* compute_XX instead of sm_XX: there is no cubin */
} CudaTarget;

/* The result: one allocation, freed by rp_cuda_binary_free. */
typedef struct CudaBinary {
    char       *memory; /* cubin, ptx, symbol, one after the other; aligned as malloc does */
    const char *cubin;  /* NULL for a virtual architecture */
    const char *ptx;    /* terminated */
    const char *symbol; /* the kernel's name in the code */
    size_t      cubin_bytes, ptx_bytes, symbol_bytes; /* with the terminators */
} CudaBinary;

void rp_cuda_binary_free(CudaBinary *b);

/* `path`: of the library, "" to search for it. RP_E_NOT_AVAILABLE with the reason. */
RP_NODISCARD RpStatus rp_nvrtc_open(const char *path, RpNvrtc **out);
void                  rp_nvrtc_close(RpNvrtc *n);      /* NULL is allowed */
const char           *rp_nvrtc_name(const RpNvrtc *n); /* "NVRTC 13.0" */

/* Chooses for a device of that compute capability, with A the architectures that this NVRTC knows:
 *
 *     the largest a in A with a <= device and the same major number     sm_a: a cubin runs on later minor numbers
 *     else the largest a in A with a <= device                          compute_a: the driver translates the PTX
 *     else                                                              RP_E_NOT_AVAILABLE */
RP_NODISCARD RpStatus rp_nvrtc_target(const RpNvrtc *n, int major, int minor, CudaTarget *out);

/* Compiles. Any number of threads may compile at once. RP_E_ARG for errors in the source: the text begins with owner
 * and the first message of the compiler, "moe_gate: moe_gate.cu(12): error: ...". `log`, or NULL, gets everything
 * that the compiler printed, to be freed; also after a failure, "" if it printed nothing. */
RP_NODISCARD RpStatus rp_nvrtc_compile(const RpNvrtc *n, const CudaCode *code, CudaTarget target, CudaBinary *out,
                                       char **log);

/* Everything that the result depends on, as one text with zeros between its parts; the caller frees it. NULL without
 * memory. */
char *rp_nvrtc_key(const RpNvrtc *n, const CudaCode *code, CudaTarget target, size_t *bytes);

/* Whether the program includes files that rp_nvrtc_key does not know: its result must not be kept. */
bool rp_cuda_code_includes_files(const CudaCode *code);

#endif
