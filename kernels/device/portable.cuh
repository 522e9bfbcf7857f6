/* portable.cuh - the differences between nvcc and the simulated device of sim/device, which compiles the same
 * kernels as host C++; kernels otherwise use plain CUDA. Rules for a kernel:
 *
 *   - shared memory is declared by RP_SHARED or RP_SHARED_DYNAMIC, and launches go through RP_LAUNCH;
 *   - warp collectives have explicit masks;
 *   - a .cu file keeps everything but its launchers in an anonymous namespace (tests/layering.sh checks this). */
#ifndef KERNELS_DEVICE_PORTABLE_CUH
#define KERNELS_DEVICE_PORTABLE_CUH

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#ifdef RP_CUDASIM
#define RP_SHARED(T, name, dims)                                                                                       \
    static char         name##_key_;                                                                                   \
    using name##_t_          = T dims;                                                                                 \
    name##_t_          &name = *(name##_t_ *)sim_shared(&name##_key_, #name, sizeof(name##_t_), alignof(name##_t_))
#define RP_SHARED_DYNAMIC(T, name) T *name = (T *)sim_shared_dyn()
#define RP_KERNEL(...)             sim_kernel(__VA_ARGS__, #__VA_ARGS__)
#define RP_NOINLINE                __attribute__((noinline))
#define RP_FUSED(Fold, v)          sim_fused<Fold>(v) /* may do a butterfly of shuffles in one step */
#else
#define RP_SHARED(T, name, dims) __shared__ T name dims
#define RP_SHARED_DYNAMIC(T, name)                                                                                     \
    extern __shared__ __align__(16) unsigned char rp_dynamic_shared[];                                                 \
    T                                            *name = (T *)rp_dynamic_shared
#define RP_KERNEL(...)    ((const void *)(__VA_ARGS__))
#define RP_FUSED(Fold, v) false
#ifndef RP_NOINLINE
#define RP_NOINLINE __noinline__
#endif
#endif

/* Programmatic dependent launch (PDL, sm_90 and later). A kernel launched with the attribute may begin while the
 * kernel before it still runs. Every kernel here follows two rules:
 *
 *   1. rp_pdl_launch_dependents() is its first instruction: the next kernel may begin as soon as all blocks of
 *      this one have begun and multiprocessors have room.
 *   2. rp_pdl_wait() comes before it reads or writes any memory but weights, which no kernel writes. It returns
 *      when the kernel before has ended and its writes are visible.
 *
 * Worked example, three kernels of a decode step; L = launch_dependents, W = returned from the wait:
 *
 *     attention   |L W..........................end|
 *     linear          |L prefetch weights, wait    |W product........end|
 *     gate_up             |L prefetch weights, wait                     |W ...
 *
 * Launch latency and weight prefetch overlap, results never: linear reads the result of attention after W.
 * Rule 2 binds a kernel with nothing to do as well. The wait of gate_up covers linear alone; because linear
 * waited for attention before it ended, attention has ended too. A kernel that skipped its wait would break this
 * chain for its successor. Launched without the attribute, or before sm_90, both functions have no effect: the
 * kernels run one after the other. */
#ifdef RP_CUDASIM
static inline void rp_pdl_launch_dependents(void) {}
static inline void rp_pdl_wait(void) { sim_pdl_wait(); }
static inline void rp_prefetch(const void *) {}
static inline void rp_prefetch_bytes(const void *p, int bytes) { sim_prefetch(p, bytes, __FILE__, __LINE__); }
#else
__device__ static inline void rp_pdl_launch_dependents(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ static inline void rp_pdl_wait(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/* Prefetches a cache line into L2. It serves PDL only, so it does nothing where there is none. */
__device__ static inline void rp_prefetch(const void *p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#else
    (void)p;
#endif
}
/* Prefetches `bytes` bytes into L2 by one instruction of one thread. Both ends are rounded down to multiples of 16. */
__device__ static inline void rp_prefetch_bytes(const void *p, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const unsigned long long from = (unsigned long long)p / 16 * 16,
                             end  = ((unsigned long long)p + (unsigned)bytes) / 16 * 16;
    if (end > from) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"((unsigned)(end - from)));
#else
    (void)p, (void)bytes;
#endif
}
#endif

/* First statement of every kernel that reads no weights ahead of the wait. */
__device__ static inline void rp_begin(void) {
    rp_pdl_launch_dependents();
    rp_pdl_wait();
}

/* Increments a counter and returns its value before; at `limit` it wraps to 0. Memory order acq_rel on the whole
 * device: one instruction instead of an atomic between two fences, which would be sequentially consistent and
 * dearer. */
#ifdef RP_CUDASIM
static inline unsigned rp_arrive(unsigned *counter, unsigned limit) {
    enum { ACQ_REL = 3 };
    return (unsigned)sim_atomic(counter, sizeof *counter, sim_rmw_atomicInc<unsigned>, limit, 0, ACQ_REL);
}
#else
__device__ static inline unsigned rp_arrive(unsigned *counter, unsigned limit) {
    unsigned old;
    asm volatile("atom.acq_rel.gpu.inc.u32 %0, [%1], %2;" : "=r"(old) : "l"(counter), "r"(limit) : "memory");
    return old;
}
#endif

/* Loads and stores of 16 bytes at an aligned address. rp_ldg16 uses the read-only path: no kernel may write that
 * memory meanwhile, which holds for weights. A token reads more of them than L2 holds, so they are the first to leave
 * it (.cs), before activations, the KV cache and the code of the kernels. The simulation goes word by word, since its
 * race checker does not see the copy of a structure. */
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
__device__ static inline uint4 rp_ldg16(const void *p) {
    uint4 v;
    asm("ld.global.cs.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}
__device__ static inline void rp_put16(void *p, const uint4 &v) { *(uint4 *)p = v; }
#endif

#endif
