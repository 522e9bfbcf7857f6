/* nvrtc.cuh - what the kernels' texts need under NVRTC, which has no headers: it comes before them. A kernel becomes a
 * device function, which an entry of constant arguments calls (executor/cuda/special.c):
 *
 *     extern "C" RP_ENTRY(256, 3) rp_special(const RpAddresses in) {
 *         const unsigned long long w[] = {in.a[0], 14ull, 4096ull, ..., in.a[1]};      // 8-byte words of the arguments
 *         rp_call(gate_up_kernel<QuantForm<RP_Q4_K>>, w);
 *     } */
typedef signed char    int8_t;
typedef short          int16_t;
typedef int            int32_t;
typedef long           int64_t;
typedef unsigned char  uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int   uint32_t;
typedef unsigned long  uint64_t, uintptr_t;
typedef long           intptr_t, ptrdiff_t;

#define UINT32_C(x)    x##u
#define UINT64_C(x)    x##ul
#define INT_MAX        0x7fffffff
#define INT32_MAX      0x7fffffff
#define INT64_MAX      0x7fffffffffffffffl
#define UINT32_MAX     0xffffffffu
#define INFINITY       __int_as_float(0x7f800000)
#define NAN            __int_as_float(0x7fffffff)
#define FLT_MAX        3.402823466e38f
#define offsetof(T, m) __INTADDR__(&((T *)0)->m)
#define _Static_assert static_assert
#define RP_ENTRY(t, n) __attribute__((global)) __attribute__((launch_bounds(t, n))) void
#undef __global__
#undef __launch_bounds__
#undef __grid_constant__
#define RP_INTERNAL                           /* as in the build of the library */
#define RP_CONSTANT_ARGUMENTS                 /* no kernel parameters to refer to */
#define RP_NOINLINE           __forceinline__ /* arguments by reference would lie in memory */
#define __global__            __device__ __forceinline__
#define __launch_bounds__(...)
#define __grid_constant__

namespace std {
template <class A, class B> struct is_same { static constexpr bool value = false; };
template <class A> struct is_same<A, A> { static constexpr bool value = true; };
template <class A, class B> constexpr bool is_same_v = is_same<A, B>::value;
template <bool C, class A, class B> struct conditional { typedef A type; };
template <class A, class B> struct conditional<false, A, B> { typedef B type; };
template <bool C, class A, class B> using conditional_t = typename conditional<C, A, B>::type;
} // namespace std

/* The launchers use these; they are not compiled to code. */
extern "C" cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *, const void *, void **);
extern "C" const char *cudaGetErrorString(cudaError_t);
__device__ void        cudaGraphSetConditional(unsigned long long, unsigned);

/* Functions of cuda_fp16.h and cuda_bf16.h, by the instructions that they are. A pair has the first element in the low
 * half. */
struct __half {
    unsigned short bits;
};
struct __half2 {
    unsigned bits;
};
struct __nv_bfloat162 {
    unsigned bits;
};
__device__ static __forceinline__ __half         __ushort_as_half(unsigned short b) { return {b}; }
__device__ static __forceinline__ unsigned short __half_as_ushort(__half h) { return h.bits; }
__device__ static __forceinline__ float          __half2float(__half h) {
             float f;
             asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h.bits));
             return f;
}
__device__ static __forceinline__ __half __float2half_rn(float f) {
    __half h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(f));
    return h;
}
__device__ static __forceinline__ __half2 __floats2half2_rn(float low, float high) {
    return {(unsigned)__float2half_rn(low).bits | (unsigned)__float2half_rn(high).bits << 16};
}
__device__ static __forceinline__ __half2 __hsub2(__half2 a, __half2 b) {
    __half2 d;
    asm("sub.f16x2 %0, %1, %2;" : "=r"(d.bits) : "r"(a.bits), "r"(b.bits));
    return d;
}
__device__ static __forceinline__ __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
    __nv_bfloat162 d = {0};
#if __CUDA_ARCH__ >= 800 /* older devices have no bf16 in tensor cores: nothing calls it there */
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d.bits) : "f"(high), "f"(low));
#endif
    return d;
}

/* a or b, word by word: a reference to one of them would keep both in memory. */
template <class T> __device__ __forceinline__ T rp_select(bool first, const T &a, const T &b) {
    enum { WORDS = sizeof(T) / sizeof(unsigned long long) };
    static_assert(WORDS * sizeof(unsigned long long) == sizeof(T), "whole words");
    unsigned long long words[3][WORDS];
    T                  chosen;
    memcpy(words[0], &a, sizeof a);
    memcpy(words[1], &b, sizeof b);
#pragma unroll
    for (int i = 0; i < WORDS; i++) words[2][i] = first ? words[0][i] : words[1][i];
    memcpy(&chosen, words[2], sizeof chosen);
    return chosen;
}

/* Calls a kernel with each argument made from the words at one of the addresses. */
template <class T> __device__ __forceinline__ T rp_argument(const unsigned long long *words) {
    T argument;
    memcpy(&argument, words, sizeof argument);
    return argument;
}
template <class... P, class... W> __device__ __forceinline__ void rp_call(void (*kernel)(P...), W... words) {
    kernel(rp_argument<P>(words)...);
}
