/* nvtx_tool.h - what nvtx_tool.c has counted: its variable nvtx_seen. */
#ifndef TESTS_SIM_EXECUTOR_NVTX_TOOL_H
#define TESTS_SIM_EXECUTOR_NVTX_TOOL_H

typedef struct NvtxSeen {
    int      n_domains, n_categories, wrong, depth;
    int      n[4]; /* ranges by category: 1 runs, 2 steps, 3 nodes */
    unsigned open[16];
    char     latest[64];
} NvtxSeen;

extern NvtxSeen nvtx_seen;

#endif
