/* fake_cublaslt.h - how tests control and observe the library that stands in for cuBLASLt: failures by an environment
 * variable, counters by dlsym. */
#ifndef FAKE_CUBLASLT_H
#define FAKE_CUBLASLT_H

/* FAKE_CUBLASLT names what fails: "create", "version", "describe", "choose" or "matmul" always; "matmul:N" the
 * Nth product since the variable was set. With "nothing" a product succeeds without launching anything. */
#define FAKE_VARIABLE "FAKE_CUBLASLT"

/* extern "C" in the library: */
typedef struct FakeStats {
    long live;                    /* handles, descriptors, layouts, preferences */
    long products, via_workspace; /* calls; those that launch two kernels, the first into the workspace */
    long choices;                 /* calls of the heuristic */
} FakeStats;
typedef FakeStats FakeStatsCall(void); /* fake_stats */

#endif
