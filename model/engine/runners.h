/* runners.h - the runners of an engine and of its draft model: one for each number of tokens, shortest first. */
#ifndef MODEL_ENGINE_RUNNERS_H
#define MODEL_ENGINE_RUNNERS_H

#include "model/runner.h"

enum { MAX_SEQ = 64, ENGINE_RUNNERS = 20 };

/* Plans the runners of shapes 1, 2, 3, 4, 6, 8, ... and `step` tokens. *n counts them. */
RP_NODISCARD RpStatus rp_engine_plan_runners(const RpModel *m, const RpModelGraphOptions *shape, int32_t step,
                                             const char *passes, Runner *runners, int *n);

/* Opens n planned runners. The longest allocates the arena, and the others share it. */
RP_NODISCARD RpStatus rp_engine_open_runners(const RpModel *m, const RpExecutorOptions *options, Runner *runners,
                                             int n);

/* The shortest of n runners that has n_tok tokens or more. */
int rp_engine_find_runner(const Runner *runners, int n, int32_t n_tok);

#endif
