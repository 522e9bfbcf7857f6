/* Traffic of a plan, and a plan as text or JSON. Traffic counts each source and result of a step once, with
 * the whole context in use: the bytes that measured times of memory-bound steps are compared with. */
#include "graph/graph.h"
#include "graph/json.h"
#include "graph/plan.h"

/* The ids that select which matrices of source s are read; NULL if all of the source is read. */
static const TensorNode *ids_of_experts(const TensorNode *n, int s) {
    const TensorNode *source = n->src[s];
    if (n->op == RP_OP_MUL_MAT_ID && source == n->from.mul_mat_id.w) return n->from.mul_mat_id.ids;
    if (n->op == RP_OP_EXPERTS_DOWN && source == n->from.experts_down.w) return n->from.experts_down.ids;
    if (n->op != RP_OP_GATE_UP) return NULL;
    return source == n->from.gate_up.gate || source == n->from.gate_up.up ? n->from.gate_up.ids : NULL;
}

/* True for the caches that a fused op stores into. `sample` also reads the step state, which counts in full. */
static bool is_only_written(const TensorNode *n, int s) { return node_writes(n, s) && n->op != RP_OP_SAMPLE; }

/* Bytes that a source contributes: only the rows that get_rows fetches, only the matrices of chosen experts. */
static size_t source_bytes(const TensorNode *n, int s) {
    const RpTensorView *v   = &n->src[s]->view;
    const size_t        row = rp_row_bytes(v->dtype, v->ne[0]);
    const TensorNode   *ids = ids_of_experts(n, s);
    if (n->op == RP_OP_GET_ROWS && s == RP_SOURCE(get_rows, w))
        return row * (size_t)n->from.get_rows.ids->view.ne[0];
    if (n->op == RP_OP_COPY && s == RP_SOURCE(copy, to))
        return 0;                          /* the destination of a store is counted as the result */
    if (is_only_written(n, s)) return row; /* one row of a KV cache */
    if (ids != NULL) return row * (size_t)(v->ne[1] * rp_view_elems(&ids->view));
    return row * (size_t)rp_view_rows(v);
}

/* A store into a state writes as many rows as its source has, not all of the state. */
static size_t result_bytes(const TensorNode *n) {
    const RpTensorView *v = n->op == RP_OP_COPY && n->from.copy.to != NULL ? &n->from.copy.x->view : &n->view;
    return rp_row_bytes(n->view.dtype, v->ne[0]) * (size_t)rp_view_rows(v);
}

static size_t step_bytes(const TensorNode *n) {
    size_t bytes = result_bytes(n);
    for (int s = 0; s < RP_MAX_SRC; s++)
        if (n->src[s] != NULL) bytes += source_bytes(n, s);
    return bytes;
}

size_t rp_plan_step_bytes(const ExecPlan *plan, int i) { return step_bytes(plan->steps[i].node); }

const TensorNode *rp_plan_step_node(const ExecPlan *plan, int i) {
    return i >= 0 && i < plan->n_steps ? plan->steps[i].node : NULL;
}

size_t rp_plan_traffic_bytes(const ExecPlan *plan) {
    size_t bytes = 0;
    for (int i = 0; i < plan->n_steps; i++) bytes += step_bytes(plan->steps[i].node);
    return bytes;
}

/* "blk.0.k+0" for a state, "1024" for an offset in the arena, "1024 in place" for a result in the buffer
 * of its source. */
static void format_place(const ExecPlan *plan, const PlanStep *s, char *buf, size_t size) {
    if (s->dst.space == SPACE_STATE) {
        snprintf(buf, size, "%s+%zu", plan->states[s->dst.state].node->name, s->dst.offset);
        return;
    }
    const PlanBuffer *b        = &plan->buffers[plan->buffer_of[s->node->id]];
    const bool        in_place = b->node != s->node->base;
    snprintf(buf, size, "%zu%s", s->dst.offset, in_place ? " in place" : "");
}

static void dump_text(const ExecPlan *plan, FILE *out) {
    fprintf(out, "%5s %5s  %-10s %-28s %-28s %12s %12s  %s\n", "step", "layer", "op", "name", "result",
            "bytes", "moved", "at");
    for (int i = 0; i < plan->n_steps; i++) {
        const PlanStep *s = &plan->steps[i];
        char            shape[96], place[128], layer[16] = "-";
        format_place(plan, s, place, sizeof place);
        if (s->node->layer >= 0) snprintf(layer, sizeof layer, "%d", s->node->layer);
        fprintf(out, "%5d %5s  %-10s %-28s %-28s %12zu %12zu  %s\n", i, layer, rp_op_info(s->op)->name,
                s->node->name, rp_format_shape(&s->node->view, shape, sizeof shape), result_bytes(s->node),
                step_bytes(s->node), place);
    }
    const RpPlanMemory m = plan->memory;
    fprintf(out, "\n%d steps in %d buffers, %zu bytes moved by a run over the whole context\n", plan->n_steps,
            plan->n_buffers, rp_plan_traffic_bytes(plan));
    fprintf(out, "arena   %14zu bytes (%zu without reuse)\n", m.arena, m.unshared);
    fprintf(out, "state   %14zu bytes\n", m.state);
    fprintf(out, "weights %14zu bytes\n", m.weights);
}

static void dump_json(const ExecPlan *plan, FILE *out) {
    const RpPlanMemory m = plan->memory;
    fprintf(out,
            "{\"n_steps\":%d,\"arena_bytes\":%zu,\"arena_bytes_without_reuse\":%zu,\"state_bytes\":%zu,"
            "\"weight_bytes\":%zu,\"traffic_bytes\":%zu,\"steps\":[",
            plan->n_steps, m.arena, m.unshared, m.state, m.weights, rp_plan_traffic_bytes(plan));
    for (int i = 0; i < plan->n_steps; i++) {
        const PlanStep *s = &plan->steps[i];
        fprintf(out, "%s\n{\"step\":%d,\"node\":%d,\"layer\":%d,\"op\":\"%s\",\"name\":", i > 0 ? "," : "", i,
                s->node->id, s->node->layer, rp_op_info(s->op)->name);
        rp_json_string(out, s->node->name);
        fprintf(out, ",\"space\":\"%s\",\"offset\":%zu,\"bytes\":%zu,\"moved_bytes\":%zu}",
                s->dst.space == SPACE_STATE ? "state" : "arena", s->dst.offset, result_bytes(s->node),
                step_bytes(s->node));
    }
    fprintf(out, "\n]}\n");
}

RpStatus rp_plan_dump(const ExecPlan *plan, RpDumpFormat format, FILE *out) {
    if (format == RP_DUMP_DOT) return rp_fail(RP_E_ARG, "a plan is printed as text or JSON");
    if (format == RP_DUMP_JSON)
        dump_json(plan, out);
    else
        dump_text(plan, out);
    return ferror(out) ? rp_fail(RP_E_IO, "the plan could not be written") : RP_OK;
}
