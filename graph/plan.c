/* Liveness, in-place results and arena offsets. Everything is decided before anything is allocated (I3), and
 * the same graph always gives the same plan. Offsets come from a first-fit search: buffers in the order of
 * decreasing size, each at the lowest multiple of 64 bytes that no buffer placed before it and alive at the
 * same time covers. */
#include "graph/plan.h"

#include "base/argument.h"

#include "base/sized.h"
#include "graph/graph.h"

#include <stdlib.h>

enum { ALIGN = 64 };

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

void rp_plan_free(ExecPlan *plan) {
    if (plan == NULL) return;
    free(plan->steps);
    free(plan->states);
    free(plan->buffers);
    free(plan->buffer_of);
    free(plan);
}

/* A buffer is alive from the step that writes it to the last step that reads it or a view of it. Inputs are
 * alive from before the run to its end, and outputs until after it, so that the caller can access them.
 * Example with 4 steps:
 *
 *     node             step    -1   0   1   2   3   4
 *     x = input                 [====================]   written before the run, alive throughout
 *     a = rms_norm(x)     0         [====]               last read by step 1
 *     b = mul_mat(w, a)   1             [====]           last read by step 2
 *     c = silu(b)         2                 [====]       in place: uses the buffer of b
 *     d = mul_mat(v, c)   3                     [====]   output, alive after the run
 *
 *     buffers:  x [-1,4]   a [0,1]   b and c [1,3]   d [3,4]
 *
 * Lifetimes are inclusive, so the result of a step never shares bytes with a source of the same step, unless
 * the op works in place. Two buffers may share bytes if their lifetimes do not overlap: a and d above.
 *
 * Both arrays are indexed by node id. */
typedef struct Liveness {
    int *step_of;  /* the step that runs the node; -1 for leaves and views */
    int *last_use; /* valid for bases: the last step that accesses their memory, directly or through a view */
} Liveness;

static void measure(const ComputeGraph *g, int n_steps, Liveness *live) {
    int step = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const TensorNode *n  = g->nodes[i];
        const bool        in = n->kind == NODE_INPUT;
        live->step_of[i]     = node_is_kernel(n) ? step++ : -1;
        live->last_use[i]    = in ? n_steps : live->step_of[i];
        if (node_is_kernel(n)) {
            /* A step uses the memory of its sources, and a store that of its destination. */
            for (int s = 0; s < RP_MAX_SRC; s++)
                if (n->src[s] != NULL && live->last_use[n->src[s]->base->id] < live->step_of[i])
                    live->last_use[n->src[s]->base->id] = live->step_of[i];
            if (live->last_use[n->base->id] < live->step_of[i]) live->last_use[n->base->id] = live->step_of[i];
        }
        if (n->is_output) live->last_use[n->base->id] = n_steps;
    }
}

/* In-place ops read element i of every source before they write element i (I6). So a second source in the
 * same memory is safe only if it is the same view; another view could read an element that is overwritten
 * already. */
static bool shares_memory(const TensorNode *n, const TensorNode *base) {
    for (int s = 1; s < RP_MAX_SRC; s++)
        if (n->src[s] != NULL && n->src[s]->base == base && n->src[s] != n->from.unary.x) return true;
    return false;
}

/* True if the result of n may use the buffer of its first source x. The op must allow it, x must be the
 * whole buffer with the same dtype and size, and nothing may read that buffer later. Leaves are never
 * overwritten. */
static bool can_run_in_place(const TensorNode *n, const Liveness *live) {
    const TensorNode *x = n->from.unary.x;
    if (x == NULL || (rp_op_info(n->op)->flags & RP_FLAG_INPLACE) == 0) return false;
    const TensorNode *b = x->base;
    if (b->kind != NODE_OP || live->last_use[b->id] != live->step_of[n->id] || shares_memory(n, b)) return false;
    if (x->offset != 0 || x->view.dtype != n->view.dtype || !rp_view_is_contiguous(&x->view)) return false;
    return rp_view_extent_bytes(&b->view) == rp_view_extent_bytes(&n->view) && rp_view_is_contiguous(&b->view);
}

/* Creates a buffer for each base in the arena, or extends the lifetime of the buffer that a result is
 * computed into. */
static void find_buffers(ExecPlan *plan, const Liveness *live) {
    const ComputeGraph *g = plan->graph;
    for (int i = 0; i < g->n_nodes; i++) {
        const TensorNode *n = g->nodes[i];
        plan->buffer_of[i]  = -1;
        if (n->base != n) {
            plan->buffer_of[i] = plan->buffer_of[n->base->id];
            continue;
        }
        if (n->kind != NODE_INPUT && !node_is_kernel(n)) continue;
        const size_t bytes = rp_view_extent_bytes(&n->view);
        plan->memory.unshared += aligned(bytes);
        if (n->kind == NODE_OP && can_run_in_place(n, live)) {
            const int   b      = plan->buffer_of[n->from.unary.x->base->id];
            PlanBuffer *buffer = &plan->buffers[b];
            plan->buffer_of[i] = b;
            buffer->last_step  = live->last_use[i];
            continue;
        }
        plan->buffer_of[i] = plan->n_buffers;
        plan->buffers[plan->n_buffers++] =
            (PlanBuffer){.node = n, .bytes = bytes, .first_step = live->step_of[i], .last_step = live->last_use[i]};
    }
}

/* Decreasing size; ties in the order of creation, since qsort is not stable and the plan must be
 * deterministic. */
static int by_size(const void *a, const void *b) {
    const PlanBuffer *const *x = a, *const *y = b;
    if ((*x)->bytes != (*y)->bytes) return (*x)->bytes < (*y)->bytes ? 1 : -1;
    return *x < *y ? -1 : 1;
}

static int by_offset(const void *a, const void *b) {
    const PlanBuffer *const *x = a, *const *y = b;
    if ((*x)->offset != (*y)->offset) return (*x)->offset < (*y)->offset ? -1 : 1;
    return *x < *y ? -1 : 1;
}

static bool alive_together(const PlanBuffer *a, const PlanBuffer *b) {
    return a->first_step <= b->last_step && b->first_step <= a->last_step;
}

/* First fit. `near` holds the placed buffers that are alive together with the next one, sorted by offset.
 * The loop walks through them until the gap before near[j] is large enough; `offset` is the largest end of
 * those it has passed.
 *
 *     arena   | near[0] |  gap  | near[1]       | gap         | near[2] | free ...
 *                         ^ too small             ^ fits: offset */
static RpStatus place_buffers(ExecPlan *plan) {
    const size_t n     = (size_t)plan->n_buffers;
    PlanBuffer **order = malloc((2 * n + 1) * sizeof(PlanBuffer *)), **near = order != NULL ? order + n : NULL;
    if (order == NULL) return rp_fail(RP_E_NOMEM, "out of memory while planning %d buffers", plan->n_buffers);
    for (size_t i = 0; i < n; i++) order[i] = &plan->buffers[i];
    qsort(order, n, sizeof *order, by_size);
    for (size_t i = 0; i < n; i++) {
        size_t n_near = 0, offset = 0;
        for (size_t j = 0; j < i; j++)
            if (alive_together(order[i], order[j])) near[n_near++] = order[j];
        qsort(near, n_near, sizeof *near, by_offset);
        for (size_t j = 0; j < n_near; j++) {
            if (near[j]->offset >= offset + order[i]->bytes) break;
            const size_t end = aligned(near[j]->offset + near[j]->bytes);
            if (end > offset) offset = end;
        }
        order[i]->offset = offset;
        if (aligned(offset + order[i]->bytes) > plan->memory.arena)
            plan->memory.arena = aligned(offset + order[i]->bytes);
    }
    free(order);
    return RP_OK;
}

/* Collects the states, and the bytes of states and weights. */
static void find_leaves(ExecPlan *plan) {
    for (int i = 0; i < plan->graph->n_nodes; i++) {
        const TensorNode *n     = plan->graph->nodes[i];
        const size_t      bytes = rp_view_extent_bytes(&n->view);
        if (n->kind == NODE_WEIGHT) /* without the gaps of a view */
            plan->memory.weights += rp_row_bytes(n->view.dtype, n->view.ne[0]) * (size_t)rp_view_rows(&n->view);
        if (n->kind != NODE_STATE) continue;
        plan->states[plan->n_states++] = (PlanState){.node = n, .bytes = bytes};
        plan->memory.state += aligned(bytes);
    }
}

PlanRef rp_plan_ref(const ExecPlan *plan, const TensorNode *node) {
    const TensorNode *b = node->base;
    if (b->kind == NODE_WEIGHT) return (PlanRef){.space = SPACE_WEIGHT, .offset = node->offset};
    if (b->kind != NODE_STATE) {
        const int buffer = plan->buffer_of[b->id];
        return (PlanRef){.space = SPACE_ARENA, .buffer = buffer, .offset = plan->buffers[buffer].offset + node->offset};
    }
    int state = 0;
    while (plan->states[state].node != b) state++;
    return (PlanRef){.space = SPACE_STATE, .state = state, .offset = node->offset};
}

bool rp_plan_keeps(const ExecPlan *plan, const TensorNode *node) {
    const TensorNode *b = node->base;
    if (node->graph != plan->graph || node->id < 0) return false;
    if (b->kind != NODE_OP) return true;
    return b->is_output || plan->buffers[plan->buffer_of[b->id]].last_step >= plan->n_steps;
}

bool rp_plan_step_writes(const ExecPlan *plan, int i, int s) {
    const TensorNode *n = plan->steps[i].node;
    return node_writes(n, s) && !(s == 1 && node_is_store(n));
}

/* The step that computes the node, or the node that it views; -1 for a leaf. */
static int step_of(const ExecPlan *plan, const TensorNode *node) {
    int step = 0;
    while (node_is_view(node)) node = node->op == RP_OP_AFTER ? node->from.after.writer : node->from.unary.x;
    while (step < plan->n_steps && plan->steps[step].node != node) step++;
    return step < plan->n_steps ? step : -1;
}

RpStatus rp_plan_place_sized(const ExecPlan *plan, const TensorNode *node, RpNodePlace *out, size_t out_bytes) {
    static const char *const spaces[] = {[SPACE_ARENA] = "arena", [SPACE_WEIGHT] = "weight", [SPACE_STATE] = "state"};
    RP_NOT_NULL(plan, "plan");
    RP_NOT_NULL(node, "node");
    RP_NOT_NULL(out, "out");

    if (node->graph != plan->graph || node->id < 0)
        return rp_fail(RP_E_ARG, "'%s' is not a node of the graph of this plan", node->name);
    const PlanRef ref = rp_plan_ref(plan, node);
    RpNodePlace   p   = {.space  = spaces[ref.space],
                         .base   = node->base,
                         .offset = ref.offset,
                         .bytes  = rp_view_extent_bytes(&node->view),
                         .step   = step_of(plan, node)};
    if (ref.space == SPACE_ARENA) {
        const PlanBuffer *b = &plan->buffers[plan->buffer_of[node->base->id]];
        p.first_step        = b->first_step;
        p.last_step         = b->last_step;
        p.in_place          = b->node != node->base;
    }
    rp_sized_out(out, out_bytes, &p, sizeof p);
    return RP_OK;
}

static void make_steps(ExecPlan *plan) {
    for (int i = 0, step = 0; i < plan->graph->n_nodes; i++) {
        const TensorNode *n = plan->graph->nodes[i];
        if (!node_is_kernel(n)) continue;
        PlanStep *s = &plan->steps[step++];
        *s          = (PlanStep){
                     .op = n->op, .node = n, .args = {.dst = n->view, .params = &n->params}
        };
        s->dst = rp_plan_ref(plan, n);
        for (int k = 0; k < RP_MAX_SRC; k++)
            if (n->src[k] != NULL) {
                s->args.src[k] = n->src[k]->view;
                s->src[k]      = rp_plan_ref(plan, n->src[k]);
                if (s->src[k].space == SPACE_WEIGHT) s->args.src[k].data = n->src[k]->base->view.data;
            }
    }
}

RpStatus rp_plan_new(const ComputeGraph *g, ExecPlan **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(g, "g");

    if (!g->finished) return rp_fail(RP_E_STATE, "a graph must be finished before it is planned");
    const size_t n    = (size_t)g->n_nodes;
    ExecPlan    *plan = calloc(1, sizeof *plan);
    Liveness     live = {malloc(n * sizeof(int)), malloc(n * sizeof(int))};
    RpStatus     st   = RP_E_NOMEM;
    if (plan != NULL) {
        plan->graph   = g;
        plan->n_steps = plan->memory.n_steps = rp_graph_n_steps(g);
        plan->steps                          = calloc((size_t)plan->n_steps, sizeof *plan->steps);
        plan->states                         = calloc(n, sizeof *plan->states);
        plan->buffers                        = calloc(n, sizeof *plan->buffers);
        plan->buffer_of                      = calloc(n, sizeof *plan->buffer_of);
    }
    if (plan == NULL || live.step_of == NULL || live.last_use == NULL || plan->steps == NULL || plan->states == NULL ||
        plan->buffers == NULL || plan->buffer_of == NULL) {
        st = rp_fail(RP_E_NOMEM, "out of memory while planning %d nodes", g->n_nodes);
    } else {
        measure(g, plan->n_steps, &live);
        find_buffers(plan, &live);
        st = place_buffers(plan);
    }
    if (st == RP_OK) {
        find_leaves(plan);
        make_steps(plan);
        *out = plan;
    } else {
        rp_plan_free(plan);
    }
    free(live.step_of);
    free(live.last_use);
    return st;
}

void rp_plan_memory_sized(const ExecPlan *plan, RpPlanMemory *out, size_t out_bytes) {
    rp_sized_out(out, out_bytes, plan != NULL ? &plan->memory : NULL, sizeof plan->memory);
}
