/* special.h - the program of one specialised kernel (special_text.c). */
#ifndef EXECUTOR_CUDA_SPECIAL_H
#define EXECUTOR_CUDA_SPECIAL_H

#include "executor/cuda/cuda.h"
#include "executor/cuda/nvrtc.h"

#define SPECIAL_ENTRY "rp_special"

/* Seconds for the compilation of a plan's kernels: 60. The simulated device sets no limit. */
extern double rp_special_seconds;

/* Writes file and entry of kernel `k`, to be freed by the caller, and the file's name, "gate_up.cu". `op`: of its step.
 * RP_E_NOT_AVAILABLE without the kernel's name or text. */
RP_NODISCARD RpStatus rp_special_text(const SpecialKernel *k, const char *op, const RpKernelInstance *instance,
                                      int min_blocks, char **text, char file[64]);

/* The program with that text, which is borrowed as `owner` and `file` are. */
CudaCode rp_special_code(const char *owner, const char *file, const char *text);

/* The arguments of a launch as words, each argument from a word of its own on. False if there are too many. */
bool rp_special_cut(const RpKernelLaunch *l, uint64_t words[SPECIAL_MAX_WORDS], unsigned *n_words);

/* 8-byte words of one argument. */
static inline unsigned rp_special_words(size_t bytes) { return (unsigned)((bytes + 7) / 8); }

#endif
