/* Traffic of a plan, and a plan as text or JSON. Traffic counts each source and result of a step once, with
 * the whole context in use: the bytes that measured times of memory-bound steps are compared with. */
#include "graph/columns.h"

#include "base/argument.h"
#include "base/repack.h"
#include "graph/graph.h"
#include "graph/plan.h"
#include "reprise/text.h"

#include <string.h>

/* The ids that select which matrices of source s are read; NULL if all of the source is read. */
static const TensorNode *ids_of_experts(const TensorNode *n, int s) {
    const TensorNode *source = n->src[s];
    if (n->op == RP_OP_MUL_MAT_ID && source == n->from.mul_mat_id.w) return n->from.mul_mat_id.ids;
    if (n->op == RP_OP_EXPERTS_DOWN && source == n->from.experts_down.w) return n->from.experts_down.ids;
    if (n->op != RP_OP_GATE_UP) return NULL;
    return source == n->from.gate_up.gate || source == n->from.gate_up.up ? n->from.gate_up.ids : NULL;
}

/* True for the caches that a fused op stores into. Sources that other ops write to count in full. */
static bool is_cache(const TensorNode *n, int s) {
    return node_writes(n, s) && (rp_op_info(n->op)->flags & RP_FLAG_FUSED) != 0;
}

/* Bytes that a source contributes: only the rows that get_rows fetches, only the matrices of chosen experts. */
static size_t source_bytes(const TensorNode *n, int s) {
    const RpTensorView *v   = &n->src[s]->view;
    const size_t        row = rp_row_bytes(v->dtype, v->ne[0]);
    const TensorNode   *ids = ids_of_experts(n, s);
    if (n->op == RP_OP_GET_ROWS && s == RP_SOURCE(get_rows, w)) return row * (size_t)n->view.ne[1];
    if (n->op == RP_OP_COPY && s == RP_SOURCE(copy, to))
        return 0;                   /* the destination of a store is counted as the result */
    if (is_cache(n, s)) return row; /* one row of a KV cache */
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

void rp_plan_step_traffic(const ExecPlan *plan, int i, size_t *read, size_t *written) {
    const TensorNode *n = plan->steps[i].node;
    *read               = 0;
    *written            = result_bytes(n);
    for (int s = 0; s < RP_MAX_SRC; s++)
        if (n->src[s] != NULL) *(rp_plan_step_writes(plan, i, s) ? written : read) += source_bytes(n, s);
}

const TensorNode *rp_plan_step_node(const ExecPlan *plan, int i) {
    if (plan == NULL) return NULL;
    return i >= 0 && i < plan->n_steps ? plan->steps[i].node : NULL;
}

size_t rp_plan_traffic_bytes(const ExecPlan *plan) {
    if (plan == NULL) return 0;
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

/* The cells of one step. */
typedef struct StepRow {
    char step[16], layer[16], shape[96], bytes[24], moved[24], place[128];
} StepRow;

enum { STEP_COLUMNS = 8 };

static void format_step(const ExecPlan *plan, int i, StepRow *r, const char *cells[STEP_COLUMNS]) {
    const PlanStep   *s = &plan->steps[i];
    const TensorNode *n = s->node;
    snprintf(r->step, sizeof r->step, "%d", i);
    snprintf(r->layer, sizeof r->layer, n->layer >= 0 ? "%d" : "-", n->layer);
    snprintf(r->bytes, sizeof r->bytes, "%zu", result_bytes(n));
    snprintf(r->moved, sizeof r->moved, "%zu", step_bytes(n));
    format_place(plan, s, r->place, sizeof r->place);
    const char *row[STEP_COLUMNS] = {r->step,
                                     r->layer,
                                     rp_op_info(s->op)->name,
                                     n->name,
                                     rp_format_shape(&n->view, r->shape, sizeof r->shape),
                                     r->bytes,
                                     r->moved,
                                     r->place};
    memcpy(cells, row, sizeof row);
}

static void dump_steps(const ExecPlan *plan, FILE *out) {
    const char *cells[STEP_COLUMNS] = {"step", "layer", "op", "name", "result", "bytes", "moved", "at"};
    Columns     columns             = {.right = "rrlllrrl"};
    StepRow     row;
    columns_measure(&columns, cells);
    for (int i = 0; i < plan->n_steps; i++) {
        const char *measured[STEP_COLUMNS];
        format_step(plan, i, &row, measured);
        columns_measure(&columns, measured);
    }
    columns_print(&columns, cells, out);
    fputc('\n', out);
    for (int i = 0; i < plan->n_steps; i++) {
        format_step(plan, i, &row, cells);
        columns_print(&columns, cells, out);
        fputc('\n', out);
    }
}

static void dump_text(const ExecPlan *plan, FILE *out) {
    dump_steps(plan, out);
    const RpPlanMemory m      = plan->memory;
    const size_t       copies = rp_plan_repack_bytes(plan, NULL);
    fprintf(out, "\n%d steps in %d buffers, %zu bytes moved by a run over the whole context\n", plan->n_steps,
            plan->n_buffers, rp_plan_traffic_bytes(plan));
    fprintf(out, "arena   %14zu bytes (%zu without reuse)\n", m.arena, m.unshared);
    fprintf(out, "state   %14zu bytes\n", m.state);
    fprintf(out, "weights %14zu bytes\n", m.weights);
    if (copies > 0) fprintf(out, "copies  %14zu bytes, of all weights that can be repacked (--repack on)\n", copies);
}

static void dump_json(const ExecPlan *plan, FILE *out) {
    const RpPlanMemory m = plan->memory;
    fprintf(out,
            "{\"n_steps\":%d,\"arena_bytes\":%zu,\"arena_bytes_without_reuse\":%zu,\"state_bytes\":%zu,"
            "\"weight_bytes\":%zu,\"repack_bytes\":%zu,\"traffic_bytes\":%zu,\"steps\":[",
            plan->n_steps, m.arena, m.unshared, m.state, m.weights, rp_plan_repack_bytes(plan, NULL),
            rp_plan_traffic_bytes(plan));
    for (int i = 0; i < plan->n_steps; i++) {
        const PlanStep *s = &plan->steps[i];
        fprintf(out, "%s\n{\"step\":%d,\"node\":%d,\"layer\":%d,\"op\":\"%s\",\"name\":", i > 0 ? "," : "", i,
                s->node->id, s->node->layer, rp_op_info(s->op)->name);
        rp_put_json_string(s->node->name, strlen(s->node->name), out);
        fprintf(out, ",\"space\":\"%s\",\"offset\":%zu,\"bytes\":%zu,\"moved_bytes\":%zu}",
                s->dst.space == SPACE_STATE ? "state" : "arena", s->dst.offset, result_bytes(s->node),
                step_bytes(s->node));
    }
    fprintf(out, "\n]}\n");
}

RpStatus rp_plan_dump(const ExecPlan *plan, RpDumpFormat format, FILE *out) {
    RP_NOT_NULL(plan, "plan");
    RP_NOT_NULL(out, "out");

    if (format != RP_DUMP_TEXT && format != RP_DUMP_JSON)
        return rp_fail(RP_E_ARG, "dump format %d of a plan, must be RP_DUMP_TEXT or RP_DUMP_JSON", (int)format);
    if (format == RP_DUMP_JSON)
        dump_json(plan, out);
    else
        dump_text(plan, out);
    return ferror(out) ? rp_fail(RP_E_IO, "the plan could not be written") : RP_OK;
}
