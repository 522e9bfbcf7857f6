/* mma_kernels.h - kernels for the test of kernels/device/mma.cuh. Each function registers its kernel and returns the
 * handle to launch. */
#ifndef TESTS_CUDASIM_MMA_KERNELS_H
#define TESTS_CUDASIM_MMA_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif
/* (const void *a, const void *b, void *d, int depth): d = a * b in tiles of 16 x 8, blocks of 32 threads, grid (columns
 * of d / 8, rows of d / 16). a has rows, b columns of `depth` elements, a multiple of 16 (s8: 32); d has rows of f32
 * (s8: int32) and begins with the values to add to. */
const void *mma_test_f16(void);
const void *mma_test_bf16(void);
const void *mma_test_s8(void);
/* The same in f16 for a with columns of contiguous elements and b with rows of them. */
const void *mma_test_f16_trans(void);
/* (const void *a, const void *b, void *d, int depth), f16: each with one error. */
const void *mma_test_without_a_lane(void);
const void *mma_test_misaligned(void);
const void *mma_test_without_a_wait(void);
#ifdef __cplusplus
}
#endif

#endif
