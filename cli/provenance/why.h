/* why.h - everything that is known about a node of a graph: what it computes, where its value lies, which nodes of the
 * model code it stands for, which passes changed it, which weights it reads, what it reads and what reads it. */
#ifndef CLI_PROVENANCE_WHY_H
#define CLI_PROVENANCE_WHY_H

#include "reprise/reprise.h"

typedef struct Why {
    const RpModel      *model; /* that made the graph */
    const ComputeGraph *graph;
    const ExecPlan     *plan; /* of the graph */
    bool                hash; /* read the weights and add their checksums */
} Why;

/* Writes lines of text, or one JSON object without a line break. */
void cli_why_text(const Why *w, const TensorNode *n, FILE *out);
void cli_why_json(const Why *w, const TensorNode *n, FILE *out);

#endif
