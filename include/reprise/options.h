/* options.h - everything that the environment can set, one row each: name, default, help. `reprise --help` prints them.
 *
 *   printf("%s=%s  %s\n", rp_option_name(RP_OPT_THREADS), rp_option(RP_OPT_THREADS), rp_option_help(RP_OPT_THREADS));
 *
 * The library reads an option when it needs it: at rp_executor_open, or when CPU kernels are chosen. A value that it
 * does not understand fails the call that needs it (RP_E_ARG); it is never ignored (I10, I11).
 */
#ifndef REPRISE_OPTIONS_H
#define REPRISE_OPTIONS_H

#include "reprise/status.h"

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

/* X(ID, environment variable, default, help) */
#define RP_OPTIONS(X)                                                                                                  \
    X(DEVICE, "REPRISE_DEVICE", "auto", "auto (CUDA where there is a device), cpu, cuda or cuda:N")                    \
    X(MODE, "REPRISE_MODE", "auto", "launch mode on a GPU: auto, eager, replay or loop")                               \
    X(THREADS, "REPRISE_THREADS", "0", "worker threads of the CPU interpreter, 0: one per core")                       \
    X(ISA, "REPRISE_ISA", "auto", "instruction set of the CPU kernels: " RP_ISA_NAMES)                                 \
    X(PREFETCH, "REPRISE_PREFETCH", "auto",                                                                            \
      "software prefetch of weights on the CPU: auto (measured at the first open), none, l1, l2, l1:BYTES or "         \
      "l2:BYTES")                                                                                                      \
    X(SPIN_US, "REPRISE_SPIN_US", "50", "microseconds that a waiting worker spins before it sleeps")                   \
    X(BLAS, "REPRISE_BLAS", "auto",                                                                                    \
      "GPU products of many columns: auto (cuBLASLt if present), off, or the path of the library")                     \
    X(PDL, "REPRISE_PDL", "auto",                                                                                      \
      "programmatic dependent launch in captured graphs: auto (compute capability 9.0 and later) or off")              \
    X(MODEL, "REPRISE_MODEL", "", "model file of the program if -m is not given")                                      \
    X(PASSES, "REPRISE_PASSES", "", "graph passes to switch off, such as -attention,-quantize")                        \
    X(UNUSED_TENSORS, "REPRISE_UNUSED_TENSORS", "refuse",                                                              \
      "a model file with tensors that its architecture does not use: refuse it, or ignore them")                       \
    X(NVRTC, "REPRISE_NVRTC", "auto",                                                                                  \
      "compiler of kernels given as source text: auto (NVRTC if present), off, or the path of the library")            \
    X(TUNE, "REPRISE_TUNE", "auto",                                                                                    \
      "constants of a GPU: auto (measured at the first open and kept on the disk), force (measured now) or off")       \
    X(SPECIALIZE, "REPRISE_SPECIALIZE", "auto",                                                                        \
      "GPU kernels of decode steps compiled at open for the shapes of the model: auto (where NVRTC is present), "      \
      "force (on a simulated "                                                                                         \
      "GPU too) or off")                                                                                               \
    X(CODE_CACHE_MB, "REPRISE_CODE_CACHE_MB", "256",                                                                   \
      "megabytes of compiled GPU kernels kept on the disk, those used last; 0: none")                                  \
    X(REPACK, "REPRISE_REPACK", "",                                                                                    \
      "copy of the weights with interleaved rows for the CPU, made at open: on, off, auto (if it is faster and "       \
      "fits) or codebook (auto, for IQ1, IQ2, IQ3 and TQ1); default: auto where many requests run at a time and "      \
      "with --lookup and --draft, else codebook")                                                                      \
    X(TRACE, "REPRISE_TRACE", "",                                                                                      \
      "file for a trace of all runs, steps and nodes, for ui.perfetto.dev; JSON lines if it ends in .jsonl")           \
    X(BACKEND_DIR, "REPRISE_BACKEND_DIR", "",                                                                          \
      "folder of backends (NAME.so) that are chosen by name; default: lib/reprise/backends of the installation")       \
    X(PLUGINS, "REPRISE_PLUGINS", "",                                                                                  \
      "shared objects that the program loads before a command, as with --plugin: paths with a colon between them")     \
    X(WATCHDOG, "REPRISE_WATCHDOG", "0",                                                                               \
      "seconds without progress after which a run on a GPU fails and names the node that did not end; 0: none")

typedef enum RpOption {
#define X(ID, name, value, help) RP_OPT_##ID,
    RP_OPTIONS(X)
#undef X
        RP_OPT_COUNT
} RpOption;

/* The value in the environment, or the default if it is not set or empty. Never NULL; "" for no option. A value of the
 * environment is getenv's memory: copy it before anything changes the environment. */
RP_API const char *rp_option(RpOption option);

/* The columns of the table, in static storage; "" for no option. */
RP_API const char *rp_option_name(RpOption option);
RP_API const char *rp_option_default(RpOption option);
RP_API const char *rp_option_help(RpOption option);

#ifdef __cplusplus
}
#endif
#endif
