/* other.h - side B of a comparison: a model that runs beside A, a recording, or a folder with arrays of NumPy. */
#ifndef CLI_DIVERGE_OTHER_H
#define CLI_DIVERGE_OTHER_H

#include "cli/diverge/recording.h"
#include "cli/diverge/walk_list.h"
#include "cli/provenance/step_run.h"

/* One of run, recording and folder; all borrowed. Files of a folder: NAME.npy, or NAME:OP.npy for a built node that is
 * not the last one of its name; those of decode step N in the folder step-N. */
typedef struct Other {
    StepRun         *run;
    const Recording *recording;
    const char      *folder;
    int32_t          step;
    /* of a run: */
    WalkList    list;
    bool       *wanted; /* by item: A will ask for it, and has not yet */
    NodeValues *saved;  /* by item: of those that have been passed, because A computes them later */
    int         cursor; /* items before it have been computed */
    int         n_found;
} Other;

/* Begins a step of which A computes the nodes `a`. RP_E_NOMEM. */
RP_NODISCARD RpStatus cli_other_begin(Other *o, int32_t step, const int32_t *tokens, int32_t n, const WalkList *a);

/* The values of a node of A, f32 or i32; *found is false if B does not have it. The caller frees *out with
 * cli_values_free. Nodes may be asked for in any order, each once. Errors of the run or the file. */
RP_NODISCARD RpStatus cli_other_read(Other *o, const WalkNode *a, NodeValues *out, bool *found);

/* Ends the step. *n_only: nodes that B has and A has not; -1: not known, of a folder. */
RP_NODISCARD RpStatus cli_other_end(Other *o, int *n_only);

void cli_other_close(Other *o);

#endif
