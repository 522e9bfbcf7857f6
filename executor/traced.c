/* Steps while somebody listens (base/trace/trace.h):
 *
 *     run start (unless the caller is in one)   step start   node start, node end, ...   step end   run end */
#include "executor/backend.h"

static void tell_start(const TracedNodes *t, RpTraceEvent *e) {
    if (t->unlocked)
        rp_trace_start_unlocked(e, t->opened);
    else
        rp_trace_start(e);
}

static void tell_stop(const TracedNodes *t, RpTraceEvent *e) {
    if (t->unlocked)
        rp_trace_stop_unlocked(e, t->opened);
    else
        rp_trace_stop(e);
}

void rp_traced_start(TracedNodes *t, int i) {
    if (t == NULL) return;
    const ExecPlan   *plan = t->e->plan;
    const TensorNode *node = plan->steps[i].node;
    RpStepLaunch      l    = {0};
    t->event               = (RpTraceEvent){.kind   = RP_TRACE_NODE,
                                            .name   = rp_node_name(node),
                                            .op     = rp_node_op_name(node),
                                            .layer  = rp_node_layer(node),
                                            .index  = i,
                                            .device = t->e->info.device,
                                            .mode   = t->mode,
                                            .node   = node,
                                            .plan   = plan};
    rp_plan_step_traffic(plan, i, &t->event.bytes_read, &t->event.bytes_written);
    if (t->e->backend->launch(t->e, i, &l) == RP_OK) t->event.n_launches = l.n_kernels;
    tell_start(t, &t->event);
}

void rp_traced_end(TracedNodes *t, RpStatus st) {
    if (t == NULL) return;
    t->event.status = st;
    tell_stop(t, &t->event);
    t->bytes_read += t->event.bytes_read;
    t->bytes_written += t->event.bytes_written;
    t->n_launches += t->event.n_launches;
}

void rp_traced_next(TracedNodes *t, RpStatus st) {
    rp_traced_end(t, st);
    if (t != NULL && st == RP_OK && t->event.index + 1 < t->end) rp_traced_start(t, t->event.index + 1);
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

/* The step has started. */
static RpStatus step(RpTraceEvent *event, TracedNodes *nodes, const StepPart *part, StepBody *body, void *arg) {
    RpExecutor *e     = nodes->e;
    e->nodes          = nodes;
    event->status     = body(e, arg);
    e->nodes          = NULL;
    event->n_launches = e->n_launches + nodes->n_launches;
    e->n_launches     = 0;
    if (part->whole && nodes->event.index < 0) add_traffic(e->plan, event);
    event->bytes_read += nodes->bytes_read;
    event->bytes_written += nodes->bytes_written;
    tell_stop(nodes, event);
    return event->status;
}

RpStatus rp_executor_traced(RpExecutor *e, const StepPart *part, StepBody *body, void *arg) {
    const StepPart all   = {.run = "run", .name = "step", .end = e->plan->n_steps, .whole = true};
    const StepPart p     = part != NULL ? *part : all;
    TracedNodes    nodes = {.e = e, .end = p.end, .unlocked = p.calls_back, .event = {.index = -1}};
    RpTraceRun     run   = {0};
    RpStatus       st;
    nodes.mode = p.whole ? rp_executor_info(e).mode : RP_MODE_EAGER; /* a part is launched node by node */
    if (nodes.mode == RP_MODE_LOOP && e->reply.active && e->reply.held) nodes.mode = RP_MODE_REPLAY;
    RpTraceEvent event = {.kind   = RP_TRACE_STEP,
                          .name   = p.name,
                          .op     = "",
                          .layer  = -1,
                          .index  = p.first,
                          .n      = p.end - p.first,
                          .device = e->info.device,
                          .mode   = nodes.mode,
                          .plan   = e->plan};
    if (!rp_trace_in_run()) run = rp_trace_run(p.run, 0);
    if (p.calls_back) {
        st = rp_trace_enter_unlocked(&event, &nodes.opened) ? step(&event, &nodes, &p, body, arg) : body(e, arg);
    } else if (rp_trace_enter()) {
        rp_trace_start(&event);
        st = step(&event, &nodes, &p, body, arg);
        rp_trace_leave();
    } else {
        st = body(e, arg);
    }
    return rp_trace_run_end(&run, st);
}

RpStatus rp_executor_step_with_calls(RpExecutor *e, StepBody *body, void *arg) {
    const StepPart all = {.run = "run", .name = "step", .end = e->plan->n_steps, .calls_back = true, .whole = true};
    return rp_executor_step(e, &all, body, arg);
}

bool rp_traced_call(const RpExecutor *e) {
    const bool before = rp_trace_mute(true);
    if (e->nodes == NULL) (void)rp_trace_mute(before);
    return before;
}
