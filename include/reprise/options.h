/* options.h - everything that the environment can set, one row each: name, default, help.
 *
 * Each call below reads the environment, once where the library starts to use it (opening an executor, choosing
 * kernels); printed by `reprise --help`. A value that is not understood is an error of the call
 * that needs it, never ignored.
 */
#ifndef REPRISE_OPTIONS_H
#define REPRISE_OPTIONS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__x86_64__)
#define RP_ISA_NAMES "auto, plain, avx2 or avx512-vnni"
#elif defined(__aarch64__)
#define RP_ISA_NAMES "auto, plain, neon or neon-dotprod"
#else
#define RP_ISA_NAMES "auto or plain"
#endif

#define RP_OPTIONS(X)                                                                            \
    X(DEVICE, "REPRISE_DEVICE", "auto", "auto (CUDA where there is a device), cpu, cuda or cuda:N") \
    X(MODE, "REPRISE_MODE", "auto", "how a device is launched: auto, eager, replay or loop")     \
    X(THREADS, "REPRISE_THREADS", "0", "worker threads of the CPU interpreter, 0: one a core")   \
    X(ISA, "REPRISE_ISA", "auto", "CPU kernels: " RP_ISA_NAMES)                                   \
    X(PREFETCH, "REPRISE_PREFETCH", "auto", "prefetch of weights on the CPU: auto (measured at the first open), none, l1, l2 or l2:BYTES") \
    X(SPIN_US, "REPRISE_SPIN_US", "20", "microseconds a worker spins before it parks")          \
    X(BLAS, "REPRISE_BLAS", "auto", "products of long chunks: auto (cuBLASLt where there is one), off, or a library's path") \
    X(PDL, "REPRISE_PDL", "auto", "kernels of a graph begin while those before them end: auto (devices of 9.0 and later) or off") \
    X(MODEL, "REPRISE_MODEL", "", "the program's model where -m is not given")                   \
    X(PASSES, "REPRISE_PASSES", "", "graph passes to switch off, such as -attention,-quantize")

typedef enum RpOption {
#define X(ID, name, value, help) RP_OPT_##ID,
    RP_OPTIONS(X)
#undef X
    RP_OPT_COUNT
} RpOption;

/* The value of an option: the environment's, or its default. Never NULL; owned by the library. */
const char *rp_option(RpOption option);

const char *rp_option_name(RpOption option);
const char *rp_option_default(RpOption option);
const char *rp_option_help(RpOption option);

#ifdef __cplusplus
}
#endif
#endif
