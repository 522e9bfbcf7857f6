/* fake_cublaslt.h - what tests may ask of the library in cuBLASLt's place, by the environment and by dlsym.
 */
#ifndef FAKE_CUBLASLT_H
#define FAKE_CUBLASLT_H

/* FAKE_CUBLASLT: "create", "version", "describe", "choose" or "matmul": that fails always; "matmul:N": the
 * Nth product does, counted from when it was set; "nothing": a product succeeds without launching. */
#define FAKE_VARIABLE "FAKE_CUBLASLT"

/* extern "C" in the library: */
typedef struct FakeStats {
    long live;               /* handles, descriptors, layouts, preferences */
    long products, in_parts; /* calls; those of two kernels, over the workspace */
    long choices;            /* calls of the heuristic */
} FakeStats;
typedef FakeStats FakeStatsCall(void); /* fake_stats */

#endif
