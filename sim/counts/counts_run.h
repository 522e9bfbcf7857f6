/* counts_run.h - counting the launches of a plan: memory for its tensors, one call a launch, then a table (C and
 * C++). */
#ifndef TESTS_PTX_COUNTS_RUN_H
#define TESTS_PTX_COUNTS_RUN_H
#include "reprise/kernel.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum CountsMemory { COUNTS_WEIGHTS, COUNTS_CACHE, COUNTS_ACTIVATIONS, COUNTS_COUNTERS } CountsMemory;

typedef struct CountsTitle {
    const char *model, *preset; /* one of them, the other is NULL */
    const char *phase;
    int         position, sms; /* sms: multiprocessors that grids were planned for */
} CountsTitle;

typedef struct CountsRun CountsRun;

/* blocks: the most of a grid that are executed, 0: all. */
CountsRun *counts_open(unsigned blocks, bool registers);
void       counts_close(CountsRun *r);
/* From now on the kernels are those that NVRTC makes for the constants of each launch (executor/cuda/special.h), where
 * there are such. RP_E_NOT_AVAILABLE without NVRTC. */
RpStatus counts_specialize(CountsRun *r);

/* Memory that reads as zeros. Pages that nobody writes take none: 8 GB of weights are only addresses. NULL: there is no
 * such range. It belongs to the run. */
void *counts_memory(CountsRun *r, CountsMemory holds, size_t bytes);

/* Executes and counts a launch. The second launch of the same kernel with the same grid and the same arguments, apart
 * from addresses, is only added to the number of launches of the first: layers of one shape cost the same. sms: the
 * multiprocessors that the grid was planned for, 0 if it does not depend on them. */
void counts_launch(CountsRun *r, const RpKernelLaunch *l, const char *op, const char *node, int sms);

/* counts_special.c: the PTX of a specialised kernel, to be freed, and the n words of its argument. NULL if the shipped
 * kernel is launched; RP_E_ARG and the like are printed to stderr. */
typedef bool CountsIsAddress(uint64_t word);
RpStatus     counts_special_open(void);
char        *counts_special_ptx(const RpKernelLaunch *l, const char *op, int min_blocks, CountsIsAddress *is_address,
                                uint64_t words[512], unsigned *n);

void counts_print_json(const CountsRun *r, const CountsTitle *title, FILE *out);
/* files: also the instructions of each source file. RP_E_NOMEM. */
RpStatus counts_print_text(const CountsRun *r, const CountsTitle *title, bool files, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
