// sim_cuda.h - lets g++ and clang++ compile .cu kernel sources as host C++ (-x c++ -include sim_cuda.h).
//
// Types, enums and prototypes come from the toolkit's own headers in host mode. This file adds what nvcc supplies
// itself: qualifiers, built-in variables, device intrinsics. A kernel becomes a plain function:
//
//     __global__ void k(float *y)   ->  void k(float *y), called once by the fiber of each CUDA thread
//     threadIdx.x                   ->  global variable, rewritten at every fiber switch
//     RP_SHARED(float, s, [64])     ->  reference to memory that sim_shared() keeps per block
//     __shfl_xor_sync(m, v, 1)      ->  sim_warp(...): the fiber yields until all lanes of m have arrived
//     __syncthreads()               ->  sim_bar(...): the fiber yields until all live threads have arrived
//
// Not simulated: speed, registers, bank conflicts, the memory model of a real device (execution is sequentially
// consistent; sim_race.cpp checks fences and atomics instead), and the rounding of fast intrinsics such as __expf.
#ifndef CUDA_SIM_H
#define CUDA_SIM_H
#define RP_CUDASIM 1

// The toolkit's host_defines.h keeps these definitions if they come first. A raw __shared__ must not compile: a host
// variable would be shared by all blocks and threads.
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ K_SIM_error_use_K_SHARED_macro

#include <cmath>
#include <cstdint>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <tuple>
#include <type_traits>
#include <utility>

// ---- built-in variables ---------------------------------------------------
// Plain variables, rewritten at every fiber switch. Macros would also replace the member in cfg.gridDim.
extern uint3 threadIdx, blockIdx;
extern dim3  blockDim, gridDim;
#undef warpSize
#define warpSize 32

// ---- services of the simulation ----------------------------------------------
// Collectives of a warp; SIM_R*: __reduce_*_sync. SIM_FSUM is a sum by five shuffles in one step.
enum SimOp {
    SIM_SYNC,
    SIM_BALLOT,
    SIM_ANY,
    SIM_ALL,
    SIM_IDX,
    SIM_UP,
    SIM_DOWN,
    SIM_XOR,
    SIM_RADD,
    SIM_RMIN,
    SIM_RMAX,
    SIM_RAND,
    SIM_ROR,
    SIM_RXOR,
    SIM_MATCH,
    SIM_MMA,
    SIM_LDMATRIX,
    SIM_FOLD
};
// arg: source lane, distance, or 1 for a signed minimum or maximum; width: lanes of a shuffle segment.
uint64_t sim_warp(SimOp op, unsigned mask, uint64_t v, int arg, int width, const char *file, int line);
bool     sim_bug(int number); // whether SIM_BUG selects this planted bug (tests/planted_bugs/kernels.sh)
int      sim_bar(int op, int pred, const char *file, int line); // op 0 plain 1 count 2 and 3 or
void     sim_grid_sync(const char *file, int line);
void     sim_spin(const char *file, int line); // body of a spin-wait loop: the others run first
void    *sim_shared(const void *key, const char *name, size_t bytes, size_t align);
void    *sim_shared_dyn(void);
void     sim_fence(void);
void     sim_pdl_wait(void);
void     sim_prefetch(const void *p, int bytes, const char *file, int line); // into L2
void     sim_cp_async(void *dst, const void *src, int bytes, const char *file, int line);
void     sim_cp_commit(void);
void     sim_cp_wait(int keep);
enum SimMma { SIM_MMA_F16, SIM_MMA_BF16, SIM_MMA_S8 };
void sim_mma(SimMma kind, void *d, const uint32_t *a, const uint32_t *b, const char *file, int line); // d += a * b
void sim_ldmatrix(uint32_t *r, int n, bool transposed, const void *row, const char *file, int line);
// Every atomic goes through one read-modify-write function; fn computes the new value.
typedef uint64_t (*SimRmw)(uint64_t old, uint64_t a, uint64_t b);
uint64_t          sim_atomic(void *p, int bytes, SimRmw fn, uint64_t a, uint64_t b,
                             int order); // order: 0 relaxed 1 acq 2 rel 3 acq_rel
[[noreturn]] void sim_trap(const char *what, const char *file, int line);

// Default arguments that name the caller's file and line in diagnostics.
#define SIM_AT const char *f_ = __builtin_FILE(), int l_ = __builtin_LINE()

// Collectives and atomics carry any value of up to 8 bytes as the low bytes of a uint64_t.
template <class T> static inline uint64_t sim_bits(T v) {
    static_assert(sizeof(T) <= 8, "<=8 bytes");
    uint64_t u = 0;
    __builtin_memcpy(&u, &v, sizeof v);
    return u;
}
template <class T> static inline T sim_unbits(uint64_t u) {
    T v;
    __builtin_memcpy(&v, &u, sizeof v);
    return v;
}

// With SIM_FUSED in the environment: does v = fold(v, that of lane ^ 16), then of lane ^ 8, 4, 2, 1, by one collective
// of the warp instead of five shuffles. Whole models take a third of the time.
typedef uint64_t (*SimFold)(uint64_t a, uint64_t b);
bool                                              sim_fused_bits(SimFold fold, uint64_t *v, const char *file, int line);
template <class Fold, class T> static inline bool sim_fused(T &v, SIM_AT) {
    uint64_t   bits = sim_bits(v);
    const bool done = sim_fused_bits(
        [](uint64_t a, uint64_t b) { return sim_bits(Fold::fold(sim_unbits<T>(a), sim_unbits<T>(b))); }, &bits, f_, l_);
    if (done) v = sim_unbits<T>(bits);
    return done;
}

// ---- barriers and warp collectives ----------------------------------------
static inline void     __syncthreads(SIM_AT) { sim_bar(0, 0, f_, l_); }
static inline int      __syncthreads_count(int p, SIM_AT) { return sim_bar(1, p, f_, l_); }
static inline int      __syncthreads_and(int p, SIM_AT) { return sim_bar(2, p, f_, l_); }
static inline int      __syncthreads_or(int p, SIM_AT) { return sim_bar(3, p, f_, l_); }
static inline void     __syncwarp(unsigned m = 0xffffffffu, SIM_AT) { sim_warp(SIM_SYNC, m, 0, 0, 32, f_, l_); }
static inline unsigned __ballot_sync(unsigned m, int p, SIM_AT) {
    return (unsigned)sim_warp(SIM_BALLOT, m, p != 0, 0, 32, f_, l_);
}
static inline int __any_sync(unsigned m, int p, SIM_AT) { return (int)sim_warp(SIM_ANY, m, p != 0, 0, 32, f_, l_); }
static inline int __all_sync(unsigned m, int p, SIM_AT) { return (int)sim_warp(SIM_ALL, m, p != 0, 0, 32, f_, l_); }
template <class T> static inline T __shfl_sync(unsigned m, T v, int src, int w = 32, SIM_AT) {
    return sim_unbits<T>(sim_warp(SIM_IDX, m, sim_bits(v), src, w, f_, l_));
}
template <class T> static inline T __shfl_up_sync(unsigned m, T v, unsigned d, int w = 32, SIM_AT) {
    return sim_unbits<T>(sim_warp(SIM_UP, m, sim_bits(v), (int)d, w, f_, l_));
}
template <class T> static inline T __shfl_down_sync(unsigned m, T v, unsigned d, int w = 32, SIM_AT) {
    return sim_unbits<T>(sim_warp(SIM_DOWN, m, sim_bits(v), (int)d, w, f_, l_));
}
template <class T> static inline T __shfl_xor_sync(unsigned m, T v, int x, int w = 32, SIM_AT) {
    return sim_unbits<T>(sim_warp(SIM_XOR, m, sim_bits(v), x, w, f_, l_));
}
template <class T> static inline unsigned __match_any_sync(unsigned m, T v, SIM_AT) {
    return (unsigned)sim_warp(SIM_MATCH, m, sim_bits(v), 0, 32, f_, l_);
}
#define SIM_RED(name, op, T)                                                                                           \
    static inline T name(unsigned m, T v, SIM_AT) {                                                                    \
        return (T)sim_warp(op, m, (uint64_t)(int64_t)v, sizeof(T) == 4 && T(-1) < T(0), 32, f_, l_);                   \
    }
SIM_RED(__reduce_add_sync, SIM_RADD, unsigned)
SIM_RED(__reduce_add_sync, SIM_RADD, int)
SIM_RED(__reduce_min_sync, SIM_RMIN, unsigned)
SIM_RED(__reduce_min_sync, SIM_RMIN, int)
SIM_RED(__reduce_max_sync, SIM_RMAX, unsigned)
SIM_RED(__reduce_max_sync, SIM_RMAX, int)
SIM_RED(__reduce_and_sync, SIM_RAND, unsigned)
SIM_RED(__reduce_or_sync, SIM_ROR, unsigned)
SIM_RED(__reduce_xor_sync, SIM_RXOR, unsigned)

// ---- memory ----------------------------------------------------------------
// All scopes are one fence; cache hints have no effect. __nanosleep is the place where a spin loop yields.
static inline void                    __threadfence(void) { sim_fence(); }
static inline void                    __threadfence_block(void) { sim_fence(); }
static inline void                    __threadfence_system(void) { sim_fence(); }
static inline void                    __nanosleep(unsigned, SIM_AT) { sim_spin(f_, l_); }
template <class T> static inline T    __ldg(const T *p) { return *p; }
template <class T> static inline T    __ldcg(const T *p) { return *p; }
template <class T> static inline T    __ldca(const T *p) { return *p; }
template <class T> static inline T    __ldcs(const T *p) { return *p; }
template <class T> static inline void __stcg(T *p, T v) { *p = v; }
template <class T> static inline void __stcs(T *p, T v) { *p = v; }
template <class T> static inline void __stwt(T *p, T v) { *p = v; }

template <class T> using sim_id = typename std::enable_if<true, T>::type; // no deduction from this argument
#define SIM_ATOMIC(name, expr)                                                                                         \
    template <class T> static uint64_t sim_rmw_##name(uint64_t o_, uint64_t a_, uint64_t b_) {                         \
        T o = sim_unbits<T>(o_), a = sim_unbits<T>(a_), b = sim_unbits<T>(b_);                                         \
        (void)o;                                                                                                       \
        (void)a;                                                                                                       \
        (void)b;                                                                                                       \
        return sim_bits<T>(expr);                                                                                      \
    }                                                                                                                  \
    template <class T> static inline T name(T *p, sim_id<T> v) {                                                       \
        return sim_unbits<T>(sim_atomic((void *)p, sizeof(T), sim_rmw_##name<T>, sim_bits<T>(v), 0, 0));               \
    }
SIM_ATOMIC(atomicAdd, T(o + a))
SIM_ATOMIC(atomicSub, T(o - a))
SIM_ATOMIC(atomicMax, o > a ? o : a)
SIM_ATOMIC(atomicMin, o < a ? o : a)
SIM_ATOMIC(atomicExch, a)
SIM_ATOMIC(atomicAnd, T(o &a))
SIM_ATOMIC(atomicOr, T(o | a))
SIM_ATOMIC(atomicXor, T(o ^ a))
SIM_ATOMIC(atomicInc, o >= a ? T(0) : T(o + 1))
SIM_ATOMIC(atomicDec, (o == 0 || o > a) ? a : T(o - 1))
static inline uint64_t             sim_rmw_cas(uint64_t o, uint64_t c, uint64_t v) { return o == c ? v : o; }
template <class T> static inline T atomicCAS(T *p, sim_id<T> c, sim_id<T> v) {
    return sim_unbits<T>(sim_atomic((void *)p, sizeof(T), sim_rmw_cas, sim_bits<T>(c), sim_bits<T>(v), 0));
}
static inline uint64_t sim_rmw_load(uint64_t o, uint64_t, uint64_t) { return o; }
static inline uint64_t sim_rmw_store(uint64_t, uint64_t a, uint64_t) { return a; }

// ---- arithmetic ------------------------------------------------------------
static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += (int)(int8_t)(a >> 8 * i) * (int)(int8_t)(b >> 8 * i);
    return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++) c += (uint8_t)(a >> 8 * i) * (uint8_t)(b >> 8 * i);
    return c;
}
static inline int      __popc(unsigned x) { return __builtin_popcount(x); }
static inline int      __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int      __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int      __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __brev(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1u) << (31 - i);
    return r;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    uint64_t v = (uint64_t)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        unsigned n = s >> 4 * i;
        uint8_t  x = (uint8_t)(v >> 8 * (n & 7));
        if (n & 8) x = (int8_t)x < 0 ? 0xff : 0;
        r |= (unsigned)x << 8 * i;
    }
    return r;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) {
    return (unsigned)(((uint64_t)hi << 32 | lo) << (s & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) {
    return (unsigned)(((uint64_t)hi << 32 | lo) >> (s & 31));
}
static inline int __vsubss4(int a, int b) {
    int r = 0;
    for (int i = 0; i < 4; i++) {
        int v = (int8_t)(a >> 8 * i) - (int8_t)(b >> 8 * i);
        v     = v > 127 ? 127 : v < -128 ? -128 : v;
        r |= (v & 0xff) << 8 * i;
    }
    return r;
}
static inline int      __float_as_int(float f) { return sim_unbits<int>(sim_bits(f)); }
static inline unsigned __float_as_uint(float f) { return sim_unbits<unsigned>(sim_bits(f)); }
static inline float    __int_as_float(int i) { return sim_unbits<float>(sim_bits(i)); }
static inline float    __uint_as_float(unsigned i) { return sim_unbits<float>(sim_bits(i)); }
static inline int      __float2int_rn(float f) { return (int)lrintf(f); }
static inline int      __float2int_rz(float f) { return (int)f; }
static inline float    __int2float_rn(int i) { return (float)i; }
static inline float    rsqrtf(float x) { return 1.0f / sqrtf(x); }
// Macros, because glibc declares extern functions of these names.
#define __expf(x)    expf(x)
#define __logf(x)    logf(x)
#define __sinf(x)    sinf(x)
#define __cosf(x)    cosf(x)
#define __powf(x, y) powf(x, y)
static inline float                __fdividef(float a, float b) { return a / b; }
static inline float                __frcp_rn(float a) { return 1.0f / a; }
static inline float                __fsqrt_rn(float a) { return sqrtf(a); }
static inline float                __frsqrt_rn(float a) { return 1.0f / sqrtf(a); }
static inline float                __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float                __fmul_rn(float a, float b) { return a * b; }
static inline float                __fadd_rn(float a, float b) { return a + b; }
static inline float                __fsub_rn(float a, float b) { return a - b; }
static inline float                __saturatef(float a) { return a < 0 ? 0 : a > 1 ? 1 : a; }
template <class T> static inline T max(T a, sim_id<T> b) { return a > b ? a : b; }
template <class T> static inline T min(T a, sim_id<T> b) { return a < b ? a : b; }
static inline float                max(float a, float b) { return fmaxf(a, b); }
static inline float                min(float a, float b) { return fminf(a, b); }

// ---- fp16/bf16: only what the toolkit headers leave out in host mode ---------
// One rounding, as on the device: the product of two halves is exact in double, and their sum nearly so.
static inline __half __hfma(__half a, __half b, __half c) {
    return __double2half((double)__half2float(a) * __half2float(b) + __half2float(c));
}
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    return __halves2half2(__hfma(__low2half(a), __low2half(b), __low2half(c)),
                          __hfma(__high2half(a), __high2half(b), __high2half(c)));
}
static inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return __double2bfloat16((double)__bfloat162float(a) * __bfloat162float(b) + __bfloat162float(c));
}
static inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
    return __halves2bfloat162(__hfma(__low2bfloat16(a), __low2bfloat16(b), __low2bfloat16(c)),
                              __hfma(__high2bfloat16(a), __high2bfloat16(b), __high2bfloat16(c)));
}

// ---- graphs, device side ---------------------------------------------------
void cudaGraphSetConditional(cudaGraphConditionalHandle h, unsigned value);

// ---- kernel registry -------------------------------------------------------
// The real runtime reads a kernel's parameter sizes from the fat binary; here they come from its C++ type. A thunk
// restores the types: it calls fn with *(P *)args[i] for each parameter of type P.
typedef void (*SimThunk)(const void *fn, void **args);
const void *sim_register(const void *fn, const char *name, SimThunk thunk, const size_t *sizes, int n);
template <class... P> struct SimKernel {
    template <size_t... I> static void call(const void *fn, void **a, std::index_sequence<I...>) {
        ((void (*)(P...))fn)(*(typename std::decay<P>::type *)a[I]...);
    }
    static void thunk(const void *fn, void **a) { call(fn, a, std::index_sequence_for<P...>()); }
};
template <class... P> static inline const void *sim_kernel(void (*k)(P...), const char *name) {
    static const size_t sz[] = {sizeof(P)..., 0};
    return sim_register((const void *)k, name, SimKernel<P...>::thunk, sz, (int)sizeof...(P));
}
#endif
