/* counts.h - `reprise-sim bench counts`: the arguments of the command and the call that counts. reprise-sim has the
 * implementation sim/counts/counts_plan.c; in every other program counts_none.c reports that it cannot count. */
#ifndef CLI_COUNTS_H
#define CLI_COUNTS_H

#include "reprise/reprise.h"

typedef struct CountsArgs {
    const char     *model, *preset;  /* one of them, the other is NULL */
    const char     *type;            /* of a preset's weights; NULL: Q8_0 */
    const char     *passes, *kv;     /* as in RpSessionOptions, and cli_kv_type */
    RpSamplerParams sampler;         /* of the decode step */
    bool            decode, prefill; /* which steps are counted */
    int32_t         pos;             /* of the token of the decode step */
    int32_t         chunk;           /* tokens of the prefill chunk, the first of a prompt */
    int32_t         replies;      /* in place of both: a step of an engine with this number of replies, each at pos */
    int32_t         sms;          /* multiprocessors of the GPU that grids are planned for; 0: those of an H100 */
    int32_t         capability;   /* 10 * major + minor of the GPU; 0: 90 */
    int32_t         blocks;       /* most blocks of a grid that are executed; 0: all */
    bool            no_registers; /* ptxas is not run */
    bool            specialized;  /* count the decode kernels that NVRTC makes for the constants of their launches */
    bool            files;        /* print the instructions of each source file too */
    bool            json;
} CountsArgs;

/* Counts the kernels of the steps and prints them to stdout. */
RP_NODISCARD RpStatus cli_counts_run(const RpModel *m, const CountsArgs *args);

/* RP_E_NOT_AVAILABLE, with what to do, if this program cannot count. */
RP_NODISCARD RpStatus cli_counts_available(void);

#endif
