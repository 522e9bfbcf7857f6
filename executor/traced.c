/* Steps while somebody listens (base/trace/trace.h):
 *
 *     run start (unless the caller is in one)   step start   node start, node end, ...   step end   run end */
#include "executor/backend.h"

static void start_node(TracedNodes *t, int i) {
    const ExecPlan   *plan = t->e->plan;
    const TensorNode *node = plan->steps[i].node;
    RpStepLaunch      l    = {0};
    t->event               = (RpTraceEvent){.kind   = RP_TRACE_NODE,
                                            .name   = rp_node_name(node),
                                            .op     = rp_node_op_name(node),
                                            .layer  = rp_node_layer(node),
                                            .index  = i,
                                            .device = t->e->info.device,
                                            .mode   = t->e->info.mode,
                                            .node   = node,
                                            .plan   = plan};
    rp_plan_step_traffic(plan, i, &t->event.bytes_read, &t->event.bytes_written);
    if (t->e->backend->launch(t->e, i, &l) == RP_OK) t->event.n_launches = l.n_kernels;
    rp_trace_start(&t->event);
}

void rp_traced_first(TracedNodes *t) {
    if (t->e->plan->n_steps > 0) start_node(t, 0);
}

void rp_traced_next(TracedNodes *t, RpStatus st) {
    t->event.status = st;
    rp_trace_stop(&t->event);
    t->bytes_read += t->event.bytes_read;
    t->bytes_written += t->event.bytes_written;
    t->n_launches += t->event.n_launches;
    if (st == RP_OK && t->event.index + 1 < t->e->plan->n_steps) start_node(t, t->event.index + 1);
}

/* A graph has no nodes that the host sees: all of the plan counts. */
static void add_traffic(const ExecPlan *plan, RpTraceEvent *step) {
    for (int i = 0; i < plan->n_steps; i++) {
        size_t read, written;
        rp_plan_step_traffic(plan, i, &read, &written);
        step->bytes_read += read;
        step->bytes_written += written;
    }
}

static RpStatus step(RpExecutor *e, StepBody *body, void *arg) {
    TracedNodes  nodes = {.e = e, .event = {.index = -1}};
    RpTraceEvent event = {.kind   = RP_TRACE_STEP,
                          .name   = "step",
                          .op     = "",
                          .layer  = -1,
                          .n      = e->plan->n_steps,
                          .device = e->info.device,
                          .mode   = rp_executor_info(e).mode,
                          .plan   = e->plan};
    rp_trace_start(&event);
    e->nodes         = &nodes;
    event.status     = body(e, arg);
    e->nodes         = NULL;
    event.n_launches = e->n_launches + nodes.n_launches;
    e->n_launches    = 0;
    if (nodes.event.index >= 0) {
        event.bytes_read    = nodes.bytes_read;
        event.bytes_written = nodes.bytes_written;
    } else {
        add_traffic(e->plan, &event);
    }
    rp_trace_stop(&event);
    return event.status;
}

RpStatus rp_executor_traced(RpExecutor *e, StepBody *body, void *arg) {
    RpTraceRun run = {0};
    RpStatus   st;
    if (!rp_trace_in_run()) run = rp_trace_run("run", 0);
    if (rp_trace_enter()) {
        st = step(e, body, arg);
        rp_trace_leave();
    } else {
        st = body(e, arg);
    }
    return rp_trace_run_end(&run, st);
}
