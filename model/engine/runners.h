/* runners.h - the runners of an engine and of its draft model: one for each number of tokens, shortest first. On a GPU
 * the bits of a column follow from the kind of its plan (RpColumns), so an engine has a set of runners for each kind
 * there. */
#ifndef MODEL_ENGINE_RUNNERS_H
#define MODEL_ENGINE_RUNNERS_H

#include "model/runner.h"

enum { MAX_SEQ = 64, ENGINE_RUNNERS = 32, SHORT_STEP = 16 };

/* Runners [first, end) of an array. */
typedef struct RunnerSet {
    int first, end;
} RunnerSet;

/* The shapes of a set. */
typedef struct RunnerShapes {
    int32_t   first, last; /* tokens: 1, 2, 3, 4, 6, 8, 12, 16, 32, ..., from `first` on, and `last` */
    RpColumns columns;
} RunnerShapes;

/* Plans the runners of a set behind the *n of the array. */
RP_NODISCARD RpStatus rp_engine_plan_runners(const RpModel *m, const RpModelGraphOptions *shape, RunnerShapes shapes,
                                             const char *passes, Runner *runners, int *n);

/* Opens n planned runners. The longest shares with options->share, or allocates the arena; the others share with it. */
RP_NODISCARD RpStatus rp_engine_open_runners(const RpModel *m, const RpExecutorOptions *options, Runner *runners,
                                             int n);

/* Writes the blocks of a sequence to its row of the tables, and its window blocks from first_window on. A runner has no
 * table that none of its layers reads. */
void rp_engine_put_blocks(const Runner *r, int32_t row, const int32_t *blocks, const int32_t *windows,
                          int32_t first_window, int32_t n_blocks);

/* The shortest runner of a set that has n_tok tokens or more, or its last one. */
int rp_engine_find_runner(const Runner *runners, RunnerSet set, int32_t n_tok);

#endif
