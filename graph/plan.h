/* plan.h - the inside of an ExecPlan, for the executors and the dumps. */
#ifndef GRAPH_PLAN_H
#define GRAPH_PLAN_H

#include "reprise/executor.h"
#include "reprise/kernel.h"

#include "graph/op_table.h"

/* Where a tensor lies. */
typedef enum PlanSpace {
    SPACE_ARENA,  /* offset into the arena */
    SPACE_WEIGHT, /* the weight's own memory */
    SPACE_STATE   /* state number `state`, offset into it */
} PlanSpace;

typedef struct PlanRef {
    PlanSpace space;
    int       state;
    size_t    offset;
} PlanRef;

typedef struct PlanStep {
    TensorOp          op;
    OpArgs            args; /* data is NULL but for weights: the executor fills it in */
    PlanRef           dst, src[RP_MAX_SRC];
    const TensorNode *node;
} PlanStep;

typedef struct PlanState {
    const TensorNode *node;
    size_t            bytes;
} PlanState;

/* One stretch of arena and the steps during which it is taken. */
typedef struct PlanBuffer {
    const TensorNode *node; /* whose result lies here first */
    size_t            offset, bytes;
    int               first_step, last_step; /* -1: from before the run; n_steps: until after it */
} PlanBuffer;

struct ExecPlan {
    const ComputeGraph *graph;
    PlanStep           *steps;
    int                 n_steps;
    PlanState          *states;
    int                 n_states;
    PlanBuffer         *buffers;
    int                 n_buffers;
    int                *buffer_of; /* by node id: its buffer, -1 for weights and states */
    PlanMemory          memory;
};

/* Where a node's data lies. */
PlanRef rp_plan_ref(const ExecPlan *plan, const TensorNode *node);

/* Bytes that step i reads and writes if every source and result moves once. */
size_t rp_plan_step_bytes(const ExecPlan *plan, int i);

/* Whether step i writes to its source s beside its result. */
bool rp_plan_step_writes(const ExecPlan *plan, int i, int s);

/* True where the node's memory still holds its result when a run has ended. */
bool rp_plan_keeps(const ExecPlan *plan, const TensorNode *node);

#endif
