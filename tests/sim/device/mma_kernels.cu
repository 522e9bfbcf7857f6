/* Kernels for the test of kernels/device/mma.cuh: see mma_kernels.h. A warp computes a tile of 16 x 8; a step of 32
 * bytes along the depth goes through shared memory, while the copy of the next one is under way:
 *
 *     a_tile[16 rows][32 bytes]    b_tile[8 columns][32 bytes]
 *     transposed (f16):            a_tile[k = 16][16 rows of a]    b_tile[k = 16][8 columns of b] */
#include "tests/sim/device/mma_kernels.h"

#include "kernels/device/mma.cuh"

namespace {
enum { STEP = 32, A_BYTES = 16 * STEP, B_BYTES = 8 * STEP };
enum Errors { NONE, LANE, ALIGNMENT, WAIT };

struct F16 {
    typedef float Sum;
    enum { BYTES = 2, TRANS = 0 };
    __device__ static void mma(Sum (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { rp_mma_f16(d, a, b); }
};
struct F16Trans : F16 {
    enum { TRANS = 1 };
};
struct Bf16 : F16 {
    __device__ static void mma(Sum (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { rp_mma_bf16(d, a, b); }
};
struct S8 {
    typedef int Sum;
    enum { BYTES = 1, TRANS = 0 };
    __device__ static void mma(Sum (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { rp_mma_s8(d, a, b); }
};

/* Begins the copy of step s: 16 bytes by each lane for a, by each lane of the first half for b. */
template <class T> __device__ void copy(char *a_tile, char *b_tile, const char *a, const char *b, int depth, int s) {
    const int lane = (int)threadIdx.x, half = lane % 2 * 16, row = lane / 2;
    const int m = (int)gridDim.y * 16, n = (int)gridDim.x * 8, y = (int)blockIdx.y, x = (int)blockIdx.x;
    if (T::TRANS) {
        const int k = 16 * s;
        rp_cp_async16(a_tile + 16 * lane, a + ((size_t)(k + row) * m + 16 * y) * T::BYTES + half);
        if (lane < 16) rp_cp_async16(b_tile + 16 * lane, b + ((size_t)(k + lane) * n + 8 * x) * T::BYTES);
    } else {
        rp_cp_async16(a_tile + 16 * lane, a + (size_t)(16 * y + row) * depth * T::BYTES + STEP * s + half);
        if (lane < 16)
            rp_cp_async16(b_tile + 16 * lane, b + (size_t)(8 * x + row) * depth * T::BYTES + STEP * s + half);
    }
    rp_cp_async_commit();
}
template <class T, int ERROR>
__device__ void multiply(typename T::Sum (&d)[4], const char *a_tile, const char *b_tile) {
    const int lane = (int)threadIdx.x, matrix = lane / 8, row = lane % 8;
    unsigned  a[4], b[2];
    if (T::TRANS) {
        rp_ldmatrix_x4_trans(a, a_tile + (matrix / 2 * 8 + row) * 32 + matrix % 2 * 16);
        rp_ldmatrix_x2_trans(b, b_tile + lane % 16 * 16);
    } else {
        rp_ldmatrix_x4(a, a_tile + lane % 16 * STEP + lane / 16 * 16 + (ERROR == ALIGNMENT ? 2 : 0));
        rp_ldmatrix_x2(b, b_tile + row * STEP + matrix % 2 * 16);
    }
    if (ERROR != LANE || lane != 7) T::mma(d, a, b);
}
template <class T, int ERROR> __global__ void mma_test_kernel(const void *a, const void *b, void *d, int depth) {
    RP_SHARED(uint4, tile, [2 * (A_BYTES + B_BYTES) / 16]);
    char     *shared  = (char *)tile;
    const int n_steps = depth * T::BYTES / STEP, g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    rp_begin();
    typename T::Sum *rows   = (typename T::Sum *)d + ((size_t)blockIdx.y * 16 * gridDim.x + blockIdx.x) * 8, sum[4];
    const size_t     stride = (size_t)gridDim.x * 8;
    for (int i = 0; i < 4; i++) sum[i] = rows[(g + i / 2 * 8) * stride + 2 * t + i % 2];
    copy<T>(shared, shared + A_BYTES, (const char *)a, (const char *)b, depth, 0);
    for (int s = 0; s < n_steps; s++) {
        char *now = shared + s % 2 * (A_BYTES + B_BYTES), *next = shared + (s + 1) % 2 * (A_BYTES + B_BYTES);
        if (s + 1 < n_steps) {
            copy<T>(next, next + A_BYTES, (const char *)a, (const char *)b, depth, s + 1);
            if (ERROR != WAIT) rp_cp_async_wait<1>();
        } else if (ERROR != WAIT)
            rp_cp_async_wait<0>();
        __syncthreads();
        multiply<T, ERROR>(sum, now, now + A_BYTES);
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) rows[(g + i / 2 * 8) * stride + 2 * t + i % 2] = sum[i];
}
} // namespace

extern "C" const void *mma_test_f16(void) { return RP_KERNEL(mma_test_kernel<F16, NONE>); }
extern "C" const void *mma_test_bf16(void) { return RP_KERNEL(mma_test_kernel<Bf16, NONE>); }
extern "C" const void *mma_test_s8(void) { return RP_KERNEL(mma_test_kernel<S8, NONE>); }
extern "C" const void *mma_test_f16_trans(void) { return RP_KERNEL(mma_test_kernel<F16Trans, NONE>); }
extern "C" const void *mma_test_without_a_lane(void) { return RP_KERNEL(mma_test_kernel<F16, LANE>); }
extern "C" const void *mma_test_misaligned(void) { return RP_KERNEL(mma_test_kernel<F16, ALIGNMENT>); }
extern "C" const void *mma_test_without_a_wait(void) { return RP_KERNEL(mma_test_kernel<F16, WAIT>); }
