/* The memory of an executor: states, addresses of the arguments of each step, and access to results. Addresses are
 * computed at open and at each bind, never during a run (I3, I4). */
#include "executor/plugin.h"

#include "base/argument.h"

#include <stdlib.h>
#include <string.h>

/* ---- states ----
 *
 * A session has one plan per chunk length. Their executors share what does not depend on the length:
 *
 *     owner: 256 tokens         has threads or device, weights, arena, states
 *       ^      ^      ^
 *      64     16  ..  1 token   has args; uses states of the same name, and the arena if it is large enough
 *
 * So all lengths read and write the same KV caches. Only one of these executors runs at a time. States that the owner
 * lacks, such as the cache of an MTP layer, come from the executor given as RpExecutorOptions.share. */

int rp_executor_find_state(const ExecPlan *plan, const TensorNode *node) {
    for (int i = 0; i < plan->n_states; i++)
        if (strcmp(rp_node_name(plan->states[i].node), rp_node_name(node)) == 0) return i;
    return -1;
}

/* Takes state i of e from an executor that has one of its name. */
static RpStatus borrow_state(RpExecutor *e, int i, const RpExecutor *from, bool *found) {
    const TensorNode *node = e->plan->states[i].node;
    const int         k    = from != NULL ? rp_executor_find_state(from->plan, node) : -1;
    *found                 = k >= 0;
    if (k < 0) return RP_OK;
    const RpTensorView mine = rp_node_view(node), theirs = rp_node_view(from->plan->states[k].node);
    if (mine.dtype != theirs.dtype || memcmp(mine.ne, theirs.ne, sizeof mine.ne) != 0)
        return rp_fail(RP_E_SHAPE, "state '%s' has another shape in the executor to share with", rp_node_name(node));
    e->states[i] = e->default_states[i] = from->default_states[k];
    return RP_OK;
}

RpStatus rp_executor_open_states(RpExecutor *e) {
    const ExecPlan *plan = e->plan;
    e->states            = calloc((size_t)plan->n_states + 1, sizeof *e->states);
    e->default_states    = calloc((size_t)plan->n_states + 1, sizeof *e->default_states);
    e->allocated_state   = calloc((size_t)plan->n_states + 1, sizeof *e->allocated_state);
    if (e->states == NULL || e->default_states == NULL || e->allocated_state == NULL)
        return rp_fail(RP_E_NOMEM, "out of memory for an executor");
    for (int i = 0; i < plan->n_states; i++) {
        const PlanState *s = &plan->states[i];
        bool             found;
        RP_TRY(borrow_state(e, i, e->lender, &found));
        if (!found && e->owner != e) RP_TRY(borrow_state(e, i, e->owner, &found));
        if (found) continue;
        RP_TRY(e->backend->new_state(e, s->bytes, rp_node_name(s->node), &e->default_states[i]));
        e->states[i]          = e->default_states[i];
        e->allocated_state[i] = true;
    }
    return RP_OK;
}

void rp_executor_close_states(RpExecutor *e) {
    for (int i = 0; e->allocated_state != NULL && i < e->plan->n_states; i++)
        if (e->allocated_state[i]) e->backend->free_state(e, e->default_states[i]);
    free(e->states);
    free(e->default_states);
    free(e->allocated_state);
}

/* ---- addresses ----
 *
 *     arena     e->arena + offset, or the tensor that is bound to the buffer + offset in the buffer
 *     state i   e->states[i] + offset        bound states, else e->default_states[i]
 *     weight    its address in plan e->weights + offset */

void *rp_executor_address(const RpExecutor *e, PlanRef ref) {
    if (ref.space == SPACE_STATE) return (char *)e->states[ref.state] + ref.offset;
    const RpExternalTensor *bound = rp_executor_bound(e, ref);
    if (bound == NULL) return e->arena + ref.offset;
    return (char *)bound->view.data + (ref.offset - e->plan->buffers[ref.buffer].offset);
}

/* Absent sources have ne 0 and no address. */
static RpStatus fill_source(RpExecutor *e, const PlanStep *s, const PlanStep *weights, int k, WeightAddress *address,
                            RpOpArgs *args) {
    const PlanRef ref = s->src[k];
    if (s->args.src[k].ne[0] <= 0) return RP_OK;
    if (ref.space != SPACE_WEIGHT) {
        args->src[k].data = rp_executor_address(e, ref);
        return RP_OK;
    }
    char *base = address(e, weights->args.src[k].data);
    if (base == NULL)
        return rp_fail(RP_E_STATE, "%s: source %d is not a weight of the bound plan", rp_node_name(s->node), k);
    args->src[k].data = base + weights->src[k].offset;
    return RP_OK;
}

/* Zeros behind dtype, so that launches with equal views have equal arguments (executor/cuda/special.c). */
static void clear_gap(RpTensorView *v) {
    const size_t at = offsetof(RpTensorView, dtype) + sizeof v->dtype;
    memset((char *)v + at, 0, offsetof(RpTensorView, ne) - at);
}

RpStatus rp_executor_fill_args(RpExecutor *e, WeightAddress *address) {
    const ExecPlan *plan = e->plan;
    if (e->args == NULL) e->args = calloc((size_t)plan->n_steps + 1, sizeof *e->args);
    if (e->args == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d steps", plan->n_steps);
    /* Step i of e->weights has the same op and shapes: rp_executor_weights_bind has checked it. */
    for (int i = 0; i < plan->n_steps; i++) {
        const PlanStep *s = &plan->steps[i];
        e->args[i]        = s->args;
        clear_gap(&e->args[i].dst);
        for (int k = 0; k < RP_MAX_SRC; k++) clear_gap(&e->args[i].src[k]);
        e->args[i].dst.data = rp_executor_address(e, s->dst);
        for (int k = 0; k < RP_MAX_SRC; k++) RP_TRY(fill_source(e, s, &e->weights->steps[i], k, address, &e->args[i]));
    }
    return RP_OK;
}

/* ---- access to results ---- */

/* *memory is the address of byte `offset` of a node whose value outlasts a run. Memory of other nodes is reused, so
 * access is refused. */
static RpStatus kept_memory(const RpExecutor *e, const TensorNode *node, size_t offset, size_t bytes, char **memory) {
    const PlanRef      none = {.space = SPACE_WEIGHT};
    const PlanRef      ref  = rp_plan_keeps(e->plan, node) ? rp_plan_ref(e->plan, node) : none;
    const RpTensorView view = rp_node_view(node);
    const size_t       all  = rp_view_extent_bytes(&view);
    if (ref.space == SPACE_WEIGHT)
        return rp_fail(RP_E_ARG, "'%s': must be an input, an output or a state", rp_node_name(node));
    if (offset > all || bytes > all - offset)
        return rp_fail(RP_E_ARG, "'%s': %zu bytes from byte %zu on: must be inside of its %zu bytes",
                       rp_node_name(node), bytes, offset, all);
    *memory = (char *)rp_executor_address(e, ref) + offset;
    return RP_OK;
}

RpStatus rp_executor_get_at(RpExecutor *e, const TensorNode *node, size_t offset, void *out, size_t bytes) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(node, "node");
    RP_NOT_NULL(out, "out");

    char *memory = NULL;
    RP_TRY(kept_memory(e, node, offset, bytes, &memory));
    return bytes > 0 ? e->backend->copy(e, out, memory, bytes, true) : RP_OK;
}

RpStatus rp_executor_get(RpExecutor *e, const TensorNode *node, void *out, size_t bytes) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(node, "node");
    RP_NOT_NULL(out, "out");

    return rp_executor_get_at(e, node, 0, out, bytes);
}

/* Whether a step writes to memory of the arena between `from` and `to`, as its result or in addition to it. */
static bool writes_between(const ExecPlan *plan, int step, size_t from, size_t to) {
    const PlanStep *s = &plan->steps[step];
    for (int k = -1; k < RP_MAX_SRC; k++) {
        if (k >= 0 && !rp_plan_step_writes(plan, step, k)) continue;
        const PlanRef       ref  = k < 0 ? s->dst : s->src[k];
        const RpTensorView *view = k < 0 ? &s->args.dst : &s->args.src[k];
        if (ref.space == SPACE_ARENA && ref.offset < to && from < ref.offset + rp_view_extent_bytes(view)) return true;
    }
    return false;
}

/* RP_E_STATE unless the memory of the node has its value now. */
static RpStatus check_has_value(const RpExecutor *e, const TensorNode *node, const RpNodePlace *p) {
    if (p->step >= e->n_done)
        return rp_fail(RP_E_STATE, "'%s' is computed by step %d: %d steps have run", rp_node_name(node), p->step,
                       e->n_done);
    for (int i = p->step + 1; i < e->n_done && p->step >= 0; i++)
        if (strcmp(p->space, "arena") == 0 && writes_between(e->plan, i, p->offset, p->offset + p->bytes))
            return rp_fail(RP_E_STATE, "'%s' is computed by step %d: step %d, '%s', has reused its memory",
                           rp_node_name(node), p->step, i, rp_node_name(e->plan->steps[i].node));
    return RP_OK;
}

RpStatus rp_executor_read(RpExecutor *e, const TensorNode *node, void *out, size_t bytes) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(node, "node");
    RP_NOT_NULL(out, "out");

    RpNodePlace p;
    RP_TRY(rp_plan_place(e->plan, node, &p));
    if (strcmp(p.space, "weight") == 0)
        return rp_fail(RP_E_ARG, "'%s' is a weight: its values are those of the model file", rp_node_name(node));
    if (bytes > p.bytes)
        return rp_fail(RP_E_ARG, "'%s': %zu bytes: must be at most %zu", rp_node_name(node), bytes, p.bytes);
    RP_TRY(check_has_value(e, node, &p));
    return e->backend->copy(e, out, rp_executor_address(e, rp_plan_ref(e->plan, node)), bytes, true);
}

RpStatus rp_executor_set_at(RpExecutor *e, const TensorNode *node, size_t offset, const void *data, size_t bytes) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(node, "node");
    RP_NOT_NULL(data, "data");

    char *memory = NULL;
    RP_TRY(kept_memory(e, node, offset, bytes, &memory));
    return bytes > 0 ? e->backend->copy(e, memory, data, bytes, false) : RP_OK;
}

RpStatus rp_executor_set(RpExecutor *e, const TensorNode *node, const void *data, size_t bytes) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(node, "node");
    RP_NOT_NULL(data, "data");

    return rp_executor_set_at(e, node, 0, data, bytes);
}

RpStatus rp_executor_put_step(RpExecutor *e, const void *step) {
    if (step == NULL) return RP_OK;
    const RpTensorView v = rp_node_view(e->step);
    return rp_executor_set(e, e->step, step, rp_view_extent_bytes(&v));
}

RpStatus rp_executor_roll_back(RpExecutor *e, const ExecPlan *weights, RpStatus st) {
    char text[512];
    snprintf(text, sizeof text, "%s", rp_last_error());
    const RpStatus again = e->backend->rebind(e, weights); /* if it fails, the next run tries again */
    (void)again;
    return rp_fail(st, "%s", text);
}
