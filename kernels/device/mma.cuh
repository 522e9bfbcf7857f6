/* mma.cuh - products of small matrices by tensor cores, the loads that feed them, and asynchronous copies to shared
 * memory. All 32 lanes of a warp call mma and ldmatrix together. kernels/device/portable.cuh explains the two forms.
 *
 * Matrix fragments: which elements of a matrix a lane holds (PTX ISA, "Matrix Fragments for mma.m16n8k16" and
 * "... for mma.m16n8k32"). d is 16 x 8, a is 16 x k, b is k x 8; k = 16 for f16 and bf16, 32 for s8. A register holds
 * E = 2 or 4 elements, the first one in its lowest bits. With g = lane / 4 and t = lane % 4:
 *
 *     element e of a[i]     row g + 8*(i%2)        column E*t + e + 4*E*(i/2)
 *     element e of b[i]     row E*t + e + 4*E*i    column g
 *     d[i]                  row g + 8*(i/2)        column 2*t + i%2
 *
 * Worked example, f16, lane 6 (g = 1, t = 2):
 *
 *     a[0] = A[1][4..5]     a[1] = A[9][4..5]     a[2] = A[1][12..13]     a[3] = A[9][12..13]
 *     b[0] = B[4..5][1]     b[1] = B[12..13][1]   d = D[1][4], D[1][5], D[9][4], D[9][5]
 *
 * A register holds neighbours in a row of a, but in a column of b. So a is read from memory whose rows are contiguous,
 * b from memory whose columns are. The _trans loads read the opposite order.
 *
 * Sums. d of f16 and bf16 is f32: tensor cores add exact products in an order of their own and may cut off bits below
 * those of the largest one. The simulated device and the interpreter of sim/ptx add c and the products in ascending k
 * in double and round once. Results of a GPU therefore differ in their last bits, but a GPU always gives the same ones.
 * s8 is exact, modulo 2^32.
 *
 * Before sm_80 the f16 product is two of depth 8, s8 is four of 8 x 8 x 16, bf16 is computed in f32 with 32 shuffles
 * (slow), and copies are not asynchronous. */
#ifndef KERNELS_DEVICE_MMA_CUH
#define KERNELS_DEVICE_MMA_CUH

#include "kernels/device/portable.cuh"

#ifdef RP_CUDASIM
static inline void rp_mma_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], SIM_AT) {
    sim_mma(SIM_MMA_F16, d, a, b, f_, l_);
}
static inline void rp_mma_f16_first(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], SIM_AT) {
    for (int i = 0; i < 4; i++) d[i] = 0.0f;
    sim_mma(SIM_MMA_F16, d, a, b, f_, l_);
}
static inline void rp_mma_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], SIM_AT) {
    sim_mma(SIM_MMA_BF16, d, a, b, f_, l_);
}
static inline void rp_mma_s8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], SIM_AT) {
    sim_mma(SIM_MMA_S8, d, a, b, f_, l_);
}
static inline void rp_mma_s8_first(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], SIM_AT) {
    for (int i = 0; i < 4; i++) d[i] = 0;
    sim_mma(SIM_MMA_S8, d, a, b, f_, l_);
}
static inline void rp_ldmatrix_x4(unsigned (&r)[4], const void *shared_row, SIM_AT) {
    sim_ldmatrix(r, 4, false, shared_row, f_, l_);
}
static inline void rp_ldmatrix_x4_trans(unsigned (&r)[4], const void *shared_row, SIM_AT) {
    sim_ldmatrix(r, 4, true, shared_row, f_, l_);
}
static inline void rp_ldmatrix_x2(unsigned (&r)[2], const void *shared_row, SIM_AT) {
    sim_ldmatrix(r, 2, false, shared_row, f_, l_);
}
static inline void rp_ldmatrix_x2_trans(unsigned (&r)[2], const void *shared_row, SIM_AT) {
    sim_ldmatrix(r, 2, true, shared_row, f_, l_);
}
static inline void rp_cp_async16(void *shared, const void *global, SIM_AT) { sim_cp_async(shared, global, 16, f_, l_); }
static inline void rp_cp_async_commit(void) { sim_cp_commit(); }
template <int N> static inline void rp_cp_async_wait(void) { sim_cp_wait(N); }
#else

/* d += a * b, in f16, bf16 and s8. */
__device__ static inline void rp_mma_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    for (int half = 0; half < 2; half++) /* k = 0 to 7, then 8 to 15 */
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#endif
}

/* d = a * b, in f16. */
__device__ static inline void rp_mma_f16_first(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
#else
    for (int i = 0; i < 4; i++) d[i] = 0.0f;
    rp_mma_f16(d, a, b);
#endif
}

/* Adds the products of the low and of the high halves, which are bf16. */
__device__ static inline float rp_mma_bf16_pair(float d, unsigned a, unsigned b) {
    d = fmaf(__uint_as_float(a << 16), __uint_as_float(b << 16), d);
    return fmaf(__uint_as_float(a & 0xffff0000u), __uint_as_float(b & 0xffff0000u), d);
}
__device__ static inline void rp_mma_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    const int lane = (int)threadIdx.x % 32, row = lane / 4 * 4, column = lane % 4 * 8; /* first lanes that hold them */
    for (int half = 0; half < 2; half++)                                               /* k = 0 to 7, then 8 to 15 */
        for (int t = 0; t < 4; t++) {
            const unsigned upper = __shfl_sync(0xffffffffu, a[2 * half], row + t);
            const unsigned lower = __shfl_sync(0xffffffffu, a[2 * half + 1], row + t);
            for (int j = 0; j < 2; j++) {
                const unsigned w = __shfl_sync(0xffffffffu, b[half], column + 4 * j + t);
                d[j]             = rp_mma_bf16_pair(d[j], upper, w);
                d[2 + j]         = rp_mma_bf16_pair(d[2 + j], lower, w);
            }
        }
#endif
}

__device__ static inline void rp_mma_s8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    for (int i = 0; i < 4; i++) /* rows 8*(i%2) on, k = 16*(i/2) on */
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+r"(d[i % 2 * 2]), "+r"(d[i % 2 * 2 + 1])
                     : "r"(a[i]), "r"(b[i / 2]));
#endif
}

/* d = a * b, in s8. */
__device__ static inline void rp_mma_s8_first(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0));
#else
    for (int i = 0; i < 4; i++) d[i] = 0;
    rp_mma_s8(d, a, b);
#endif
}

/* Loads 4 (2) matrices of 8 x 8 elements of 16 bits from shared memory; element pairs of s8 count as one. Lane l passes
 * the address of row l%8 of matrix l/8, 16 bytes and aligned to them. The lanes 16 to 31 of x2 repeat the addresses of
 * lanes 0 to 15. Lane l gets in r[i] of matrix i
 *
 *     elements [l/4][2*(l%4)], [l/4][2*(l%4) + 1]          _trans: [2*(l%4)][l/4], [2*(l%4) + 1][l/4]
 *
 * Eight rows that lie in different banks are read at once: 16 bytes times 8 are all 32 banks. */
__device__ static inline void rp_ldmatrix_x4(unsigned (&r)[4], const void *shared_row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(shared_row))
                 : "memory");
}
__device__ static inline void rp_ldmatrix_x4_trans(unsigned (&r)[4], const void *shared_row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(shared_row))
                 : "memory");
}
__device__ static inline void rp_ldmatrix_x2(unsigned (&r)[2], const void *shared_row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"((unsigned)__cvta_generic_to_shared(shared_row))
                 : "memory");
}
__device__ static inline void rp_ldmatrix_x2_trans(unsigned (&r)[2], const void *shared_row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"((unsigned)__cvta_generic_to_shared(shared_row))
                 : "memory");
}

/* Copies 16 bytes, aligned to them, past L1 and without registers. The copies of a lane up to a commit are a group.
 * rp_cp_async_wait<N> returns when all groups of this lane but the last N have landed; a barrier then shows them to the
 * other lanes:
 *
 *     copy tile 0, commit
 *     for i: copy tile i+1, commit; wait<1>; __syncthreads; use tile i; __syncthreads */
__device__ static inline void rp_cp_async16(void *shared, const void *global) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
                 "l"(global)
                 : "memory");
#else
    *(uint4 *)shared = *(const uint4 *)global;
#endif
}
__device__ static inline void rp_cp_async_commit(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int N> __device__ static inline void rp_cp_async_wait(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}
#endif

#endif
