/* step_run.h - a model that runs step by step, so that any node can be read:
 *
 *     step 0         the prompt, all its tokens as the columns of one graph
 *     step 1, 2, ... a decode step each, of the token that the step before gave the largest logit
 *
 * Each step is a run of its own graph, of which the first n steps of the plan have run. */
#ifndef CLI_PROVENANCE_STEP_RUN_H
#define CLI_PROVENANCE_STEP_RUN_H

#include "reprise/reprise.h"

typedef struct StepRunOptions {
    int32_t     n_prompt, n_decode; /* tokens of the prompt; decode steps */
    int32_t     n_threads;
    RpDtype     kv_type;
    RpCpuIsa    isa;    /* of the CPU kernels, while this run computes */
    const char *passes; /* to switch off; NULL: REPRISE_PASSES */
    const char *device; /* NULL: REPRISE_DEVICE */
    bool        require_cuda;
} StepRunOptions;

typedef struct StepGraph {
    ComputeGraph *graph;
    ExecPlan     *plan;
    RpExecutor   *exec;
} StepGraph;

typedef struct StepRun {
    const RpModel   *model;
    StepRunOptions   o;
    StepGraph        prompt, decode; /* decode: empty without decode steps */
    const StepGraph *now;            /* of the step that runs */
    int32_t          n_past;         /* tokens of the steps before */
    int              n_done;         /* steps of the plan that have run */
} StepRun;

/* The model is borrowed. RP_E_ARG for tokens that do not fit the model's context; errors of graph, plan and executor.
 * The caller closes *r, also after a failure. */
RP_NODISCARD RpStatus cli_step_run_open(StepRun *r, const RpModel *m, const StepRunOptions *o);
void                  cli_step_run_close(StepRun *r);

/* Begins the next step: n tokens, those of the prompt or one. Nothing of it has run then. */
void cli_step_run_begin(StepRun *r, const int32_t *tokens, int32_t n);

/* Runs the step until `end` steps of its plan have run; nothing if they have. */
RP_NODISCARD RpStatus cli_step_run_to(StepRun *r, int end);

/* Ends the step: runs what is left, and writes the token of the largest logit to *next. */
RP_NODISCARD RpStatus cli_step_run_end(StepRun *r, int32_t *next);

/* Steps of the plan of the step that runs. */
int cli_step_run_n(const StepRun *r);

/* The tokens of -p or --ids; if both are NULL 8 pseudo-random ones, always the same. RP_E_ARG names a bad id, an empty
 * list or too many tokens; RP_E_UNSUPPORTED for a text and a model without tokenizer. The caller frees *out. */
RP_NODISCARD RpStatus cli_step_tokens(const RpModel *m, const char *path, const char *prompt, const char *ids,
                                      RpTokenList *out);

#endif
