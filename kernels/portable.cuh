/* portable.cuh - what differs between nvcc and the simulation of tests/cudasim; kernels otherwise use plain
 * CUDA.
 *
 * Shared memory is declared by RP_SHARED and RP_SHARED_DYNAMIC only, kernels are launched by RP_LAUNCH
 * only, and warps use the collectives with explicit masks. What is passed to a kernel by value has a type
 * whose name no other file uses: templates over it would otherwise be one. */
#ifndef KERNELS_PORTABLE_CUH
#define KERNELS_PORTABLE_CUH

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#ifdef RP_CUDASIM
#define RP_SHARED(T, name, dims)                                                                             \
    static char         name##_key_;                                                                         \
    using name##_t_ = T dims;                                                                                \
    name##_t_ &name = *(name##_t_ *)sim_shared(&name##_key_, #name, sizeof(name##_t_), alignof(name##_t_))
#define RP_SHARED_DYNAMIC(T, name) T *name = (T *)sim_shared_dyn()
#define RP_KERNEL(...)             sim_kernel(__VA_ARGS__, #__VA_ARGS__)
#define RP_NOINLINE                __attribute__((noinline))
#else
#define RP_SHARED(T, name, dims) __shared__ T name dims
#define RP_SHARED_DYNAMIC(T, name)                                                                           \
    extern __shared__ __align__(16) unsigned char rp_dynamic_shared[];                                       \
    T                                            *name = (T *)rp_dynamic_shared
#define RP_KERNEL(...) ((const void *)(__VA_ARGS__))
#define RP_NOINLINE    __noinline__
#endif

/* Programmatic dependent launch (sm_90 and later): kernels that are launched so may begin while the one before still runs.
 * Every kernel lets the next begin at once, and waits until all before it have ended, and what they wrote is seen, before it
 * reads or writes anything but weights. It waits even where it has nothing to do: the next counts on it. Without the launch
 * attribute, or on older devices, neither does anything. */
#ifdef RP_CUDASIM
static inline void rp_let_next_begin(void) {}
static inline void rp_wait_for_earlier(void) { sim_pdl_wait(); }
static inline void rp_prefetch(const void *) {}
#else
__device__ static inline void rp_let_next_begin(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ static inline void rp_wait_for_earlier(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/* Into L2; only where there is something to wait for meanwhile. */
__device__ static inline void rp_prefetch(const void *p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#else
    (void)p;
#endif
}
#endif

/* What a kernel begins with that reads no weights before. */
__device__ static inline void rp_begin(void) {
    rp_let_next_begin();
    rp_wait_for_earlier();
}

/* Sixteen bytes at an aligned address; rp_ldg16: of memory that nobody writes meanwhile. The simulation goes
 * word by word, as its checker does not see the copy of a structure. */
#ifdef RP_CUDASIM
static inline uint4 rp_get16(const void *p) {
    const unsigned *w = (const unsigned *)p;
    if ((uintptr_t)p % 16 != 0) sim_trap("16 bytes at an address that is not aligned", __FILE__, __LINE__);
    return make_uint4(w[0], w[1], w[2], w[3]);
}
static inline uint4 rp_ldg16(const void *p) { return rp_get16(p); }
static inline void  rp_put16(void *p, const uint4 &v) {
     unsigned *w = (unsigned *)p;
     if ((uintptr_t)p % 16 != 0) sim_trap("16 bytes at an address that is not aligned", __FILE__, __LINE__);
    w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
}
#else
__device__ static inline uint4 rp_get16(const void *p) { return *(const uint4 *)p; }
__device__ static inline uint4 rp_ldg16(const void *p) { return __ldg((const uint4 *)p); }
__device__ static inline void  rp_put16(void *p, const uint4 &v) { *(uint4 *)p = v; }
#endif

#endif
