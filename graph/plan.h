/* plan.h - the internals of ExecPlan, for the executors and the dumps. A plan holds no addresses, only
 * references:
 *
 *     SPACE_ARENA    arena of the executor + offset
 *     SPACE_STATE    memory of states[state] + offset
 *     SPACE_WEIGHT   memory of the weight (on a device: its copy) + offset
 *
 * So several executors and several sets of states can use one plan. */
#ifndef GRAPH_PLAN_H
#define GRAPH_PLAN_H

#include "base/kernels.h"
#include "reprise/executor.h"

#include "base/op_table.h"

typedef enum PlanSpace { SPACE_ARENA, SPACE_WEIGHT, SPACE_STATE } PlanSpace;

typedef struct PlanRef {
    PlanSpace space;
    int       state;  /* index into ExecPlan.states, for SPACE_STATE */
    int       buffer; /* index into ExecPlan.buffers, for SPACE_ARENA */
    size_t    offset; /* bytes */
} PlanRef;

typedef struct PlanStep {
    TensorOp          op;
    RpOpArgs          args; /* data is NULL except for weights; the executor fills in addresses in its copy */
    PlanRef           dst, src[RP_MAX_SRC];
    const TensorNode *node;
} PlanStep;

typedef struct PlanState {
    const TensorNode *node;
    size_t            bytes;
} PlanState;

/* A range of the arena and its lifetime. Several results share a buffer if they are computed in place. */
typedef struct PlanBuffer {
    const TensorNode *node; /* the first node whose result lies here */
    size_t            offset, bytes;
    int               first_step, last_step; /* both inclusive; -1: before the run, n_steps: after the run */
} PlanBuffer;

struct ExecPlan {
    const ComputeGraph *graph;
    PlanStep           *steps;
    int                 n_steps;
    PlanState          *states;
    int                 n_states;
    PlanBuffer         *buffers;
    int                 n_buffers;
    int                *buffer_of; /* by node id; -1 for weights, states and their views */
    RpPlanMemory        memory;
};

/* The reference to the first byte of a node of the graph. */
PlanRef rp_plan_ref(const ExecPlan *plan, const TensorNode *node);

/* Bytes that step i reads and writes if each source and result is transferred once. */
size_t rp_plan_step_bytes(const ExecPlan *plan, int i);

/* The same, apart. */
void rp_plan_step_traffic(const ExecPlan *plan, int i, size_t *read, size_t *written);

/* True if step i writes to its source s besides its result (RP_WRITES). */
bool rp_plan_step_writes(const ExecPlan *plan, int i, int s);

/* True if the node still has its value after a run: an input, output, state or weight, or a view of one. False for
 * nodes that were taken out of the graph, and for those of another one. */
bool rp_plan_keeps(const ExecPlan *plan, const TensorNode *node);

#endif
