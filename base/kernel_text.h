/* kernel_text.h - the kernels of the library as text, for NVRTC (executor/cuda/special.c). The build makes it from the
 * .cu files and their headers (cmake/kernel_text.cmake). A program is the headers of one file in their order, its text,
 * and an entry. */
#ifndef BASE_KERNEL_TEXT_H
#define BASE_KERNEL_TEXT_H

typedef struct KernelText {
    const char        *file;    /* "gate_up"; NULL ends the list */
    const char        *text;    /* without the launchers */
    const char *const *headers; /* texts; kernels/device/nvrtc.cuh is the first, NULL ends them */
} KernelText;

extern const KernelText rp_kernel_texts[];

#endif
