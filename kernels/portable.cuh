/* portable.cuh - what differs between nvcc and the simulation of tests/cudasim; kernels otherwise use plain
 * CUDA.
 *
 * Shared memory is declared by RP_SHARED and RP_SHARED_DYNAMIC only, kernels are launched by rp_cuda_launch
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
#else
#define RP_SHARED(T, name, dims) __shared__ T name dims
#define RP_SHARED_DYNAMIC(T, name)                                                                           \
    extern __shared__ __align__(16) unsigned char rp_dynamic_shared[];                                       \
    T                                            *name = (T *)rp_dynamic_shared
#define RP_KERNEL(...) ((const void *)(__VA_ARGS__))
#endif

#endif
