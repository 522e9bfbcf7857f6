/* walk.h - compares two runs node by node, over the same tokens. */
#ifndef CLI_DIVERGE_WALK_H
#define CLI_DIVERGE_WALK_H

#include "cli/diverge/compare.h"
#include "cli/diverge/other.h"
#include "cli/terminal/progress.h"

/* The walk ends after the first step with a node that differs. Its nodes stay for the report. */
typedef struct Divergence {
    StepRun         *a;               /* borrowed */
    Other           *b;               /* borrowed */
    const char      *name_a, *name_b; /* descriptions; borrowed */
    float            tolerance;       /* a node differs if max |a - b| / max |a| is above it; 0: if any bit differs */
    Progress        *progress;
    int32_t          n_prompt, step; /* the step of the report: the one that differs, or the last */
    RpTokenList      tokens;         /* of all steps that were run: the prompt, then one of each step */
    WalkList         list;           /* nodes of A in this step */
    NodeDifference  *d;              /* of each, by index */
    NodeDifference   worst;
    LogitsDifference logits;
    int              first;                             /* index of the first node that differs; -1: none */
    long             n_compared, n_equal;               /* nodes of all steps; equal: in every bit */
    long             n_only_a, n_only_b, n_other_shape; /* left out; only_b -1: not known */
} Divergence;

/* Runs both sides; `prompt` are the tokens. The fields up to `progress` are the caller's. RP_E_ARG if no node could be
 * compared, RP_E_CANCELLED. The caller frees with cli_walk_free, also after a failure. */
RP_NODISCARD RpStatus cli_walk(Divergence *w, const RpTokenList *prompt);
void                  cli_walk_free(Divergence *w);

/* Runs A alone and writes a recording. */
RP_NODISCARD RpStatus cli_walk_record(StepRun *a, const RecordingHead *head, const RpTokenList *prompt, FILE *out);

/* The node that ends a layer: of those compared, the one that the model code built last. -1: none. */
int cli_walk_end_of_layer(const Divergence *w, int layer);

#endif
