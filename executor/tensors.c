/* Inputs and outputs in memory of others, and results as tensors for others. A bound tensor takes the place of a whole
 * buffer of the plan, so every step that reads or writes the buffer, also through a view or in place, gets the new
 * address:
 *
 *     arena     [ x ][ a ][ b and y ]         x: an input; y: an output, computed in place of b
 *     tensors     |          |
 *                 memory     memory of others: step i reads and writes there */
#include "executor/backend.h"

#include "base/argument.h"
#include "base/format.h"

#include <stdlib.h>
#include <string.h>

enum { GPU_ALIGN = 64 }; /* that of buffers in an arena */

void rp_executor_close_tensors(RpExecutor *e) {
    for (int i = 0; e->tensors != NULL && i < e->plan->n_buffers; i++) rp_external_free(e->tensors[i]);
    free(e->tensors);
    rp_external_free(e->arena_tensor);
}

/* "input 'x'", "output 'y' of silu" */
static const char *describe(const TensorNode *node, char *text, size_t size) {
    if (rp_node_is_output(node))
        snprintf(text, size, "output '%.60s' of %s", rp_node_name(node), rp_node_op_name(node));
    else
        snprintf(text, size, "%s '%.60s'", rp_node_op_name(node), rp_node_name(node));
    return text;
}

/* Sets *ref to the whole buffer of an input or output. */
static RpStatus find_buffer(const RpExecutor *e, const TensorNode *node, PlanRef *ref) {
    const bool own = rp_plan_keeps(e->plan, node);
    if (own) *ref = rp_plan_ref(e->plan, node);
    if (!own || ref->space != SPACE_ARENA || (strcmp(rp_node_op_name(node), "input") != 0 && !rp_node_is_output(node)))
        return rp_fail(RP_E_ARG, "'%s' is neither an input nor an output in memory of the executor",
                       rp_node_name(node));
    return RP_OK;
}

static RpStatus check_whole(const RpExecutor *e, const TensorNode *node, PlanRef ref) {
    const PlanBuffer  *b = &e->plan->buffers[ref.buffer];
    const RpTensorView v = rp_node_view(node);
    char               text[128], shape[96];
    if (ref.offset == b->offset && rp_view_is_contiguous(&v) && rp_view_extent_bytes(&v) == b->bytes) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED,
                   "%s %s is a part of '%s', or another order of its elements: no tensor can be bound",
                   describe(node, text, sizeof text), rp_format_shape(&v, shape, sizeof shape), rp_node_name(b->node));
}

static RpStatus check_tensor(const RpExecutor *e, const TensorNode *node, const RpExternalTensor *t) {
    const RpTensorView v = rp_node_view(node);
    char               what[128], mine[96], theirs[96];
    RP_TRY(rp_external_fits(t, describe(node, what, sizeof what), &v));
    rp_format_shape(&v, mine, sizeof mine);
    rp_format_shape(&t->view, theirs, sizeof theirs);
    if (!rp_view_is_contiguous(&t->view))
        return rp_fail(RP_E_SHAPE, "%s %s: external tensor '%s' %s is not contiguous", what, mine, t->name, theirs);
    if (strcmp(t->device, e->info.device) != 0)
        return rp_fail(RP_E_ARG, "%s %s of an executor on %s: external tensor '%s' %s is memory of %s", what, mine,
                       e->info.device, t->name, theirs, t->device);
    if (strcmp(t->device, "cpu") != 0 && (uintptr_t)t->view.data % GPU_ALIGN != 0)
        return rp_fail(RP_E_ARG, "%s %s: the address of external tensor '%s' %s is not a multiple of %d", what, mine,
                       t->name, theirs, (int)GPU_ALIGN);
    if (rp_node_is_output(node) && t->read_only)
        return rp_fail(RP_E_ARG, "%s %s: external tensor '%s' %s is for reading only", what, mine, t->name, theirs);
    return RP_OK;
}

/* ---- overlaps: a plan takes buffers for separate memory ---- */

static bool hits(const RpExternalTensor *t, const void *memory, size_t bytes) {
    return memory != NULL && rp_ranges_overlap(t->view.data, rp_view_extent_bytes(&t->view), memory, bytes);
}

static bool hits_weight(const RpExecutor *e, const RpExternalTensor *t) {
    for (int i = 0; i < e->plan->n_steps; i++) {
        const PlanStep *s = &e->plan->steps[i], *w = &e->weights->steps[i];
        for (int k = 0; k < RP_MAX_SRC; k++)
            if (s->src[k].space == SPACE_WEIGHT && s->args.src[k].ne[0] > 0 &&
                hits(t, (const char *)w->args.src[k].data + w->src[k].offset, rp_view_extent_bytes(&w->args.src[k])))
                return true;
    }
    return false;
}

static bool hits_own(const RpExecutor *e, const RpExternalTensor *t) {
    if (hits(t, e->arena, e->plan->memory.arena)) return true;
    for (int i = 0; i < e->plan->n_states; i++)
        if (hits(t, e->states[i], e->plan->states[i].bytes)) return true;
    return false;
}

/* Whether a step writes the buffer. */
static bool is_written(const RpExecutor *e, int buffer) { return e->plan->buffers[buffer].first_step >= 0; }

static RpStatus check_overlap(const RpExecutor *e, const TensorNode *node, int buffer, const RpExternalTensor *t) {
    char        what[128], mine[96];
    const char *other = NULL;
    if (hits_own(e, t)) other = "the executor";
    if (is_written(e, buffer) && strcmp(t->device, "cpu") == 0 && hits_weight(e, t)) other = "a weight";
    for (int i = 0; i < e->plan->n_buffers && e->tensors != NULL; i++) {
        const RpExternalTensor *b = e->tensors[i];
        if (b == NULL || i == buffer || (!is_written(e, buffer) && !is_written(e, i))) continue;
        if (hits(t, b->view.data, rp_view_extent_bytes(&b->view))) other = rp_node_name(e->plan->buffers[i].node);
    }
    if (other == NULL) return RP_OK;
    describe(node, what, sizeof what);
    return rp_fail(RP_E_ARG, "%s: external tensor '%s' %s overlaps the memory of %s", what, t->name,
                   rp_format_shape(&t->view, mine, sizeof mine), other);
}

/* ---- binding ---- */

static void put(RpExecutor *e, int buffer, RpExternalTensor *t) {
    e->n_tensors += (t != NULL) - (e->tensors[buffer] != NULL);
    e->tensors[buffer] = t;
}

RpStatus rp_executor_tensor_bind(RpExecutor *e, const TensorNode *node, RpExternalTensor *t) {
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(node, "node");

    PlanRef ref;
    RP_TRY(find_buffer(e, node, &ref));
    if (t != NULL) {
        RP_TRY(check_whole(e, node, ref));
        RP_TRY(check_tensor(e, node, t));
        RP_TRY(check_overlap(e, node, ref.buffer, t));
    }
    if (e->tensors == NULL) e->tensors = calloc((size_t)e->plan->n_buffers + 1, sizeof(RpExternalTensor *));
    if (e->tensors == NULL) return rp_fail(RP_E_NOMEM, "out of memory for bound tensors");
    RpExternalTensor *before = e->tensors[ref.buffer];
    put(e, ref.buffer, t);
    const RpStatus st = e->backend->rebind(e, e->weights);
    if (st != RP_OK) {
        put(e, ref.buffer, before);
        return rp_executor_roll_back(e, e->weights, st);
    }
    if (t != NULL) (void)rp_external_hold(t);
    rp_external_free(before);
    return RP_OK;
}

/* ---- results for others ---- */

static void let_go(void *user) { rp_external_free(user); }

RpStatus rp_executor_tensor(RpExecutor *e, const TensorNode *node, RpExternalTensor **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(e, "exec");
    RP_NOT_NULL(node, "node");

    PlanRef ref;
    char    what[128];
    RP_TRY(find_buffer(e, node, &ref));
    RpExternalTensor *owner = rp_executor_bound(e, ref) != NULL ? rp_executor_bound(e, ref) : e->arena_tensor;
    if (owner == NULL)
        return rp_fail(RP_E_UNSUPPORTED, "%s: its memory on %s belongs to the executor: bind a tensor to it",
                       describe(node, what, sizeof what), e->info.device);
    RpExternalMemory m = {.name    = rp_node_name(node),
                          .view    = rp_node_view(node),
                          .device  = owner->device,
                          .release = let_go,
                          .user    = rp_external_hold(owner),
                          .flags   = owner->read_only ? RP_EXTERNAL_READ_ONLY : 0};
    m.view.data        = rp_executor_address(e, ref);
    return rp_external_new(&m, out);
}
