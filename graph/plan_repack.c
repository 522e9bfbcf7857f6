/* Bytes of the repacked copies of the weights of a plan (base/repack.h). */
#include "base/repack.h"
#include "graph/graph.h"
#include "graph/plan.h"

#include <string.h>

/* The operands of a step by their shapes; weights have their data. */
static RpOpArgs args_of(const TensorNode *n) {
    RpOpArgs args = {.dst = n->view, .params = &n->params};
    for (int s = 0; s < RP_MAX_SRC; s++)
        if (n->src[s] != NULL) args.src[s] = n->src[s]->view;
    return args;
}

static bool can_repack(const ExecPlan *plan, int i, int s) {
    const TensorNode *n = plan->steps[i].node;
    if (n->src[s] == NULL || n->src[s]->kind != NODE_WEIGHT) return false;
    const RpOpArgs args = args_of(n);
    return rp_cpu_can_repack(plan->steps[i].op, &args, s);
}

static bool same_weight(const TensorNode *a, const TensorNode *b) {
    const RpTensorView *v = &a->view, *w = &b->view;
    return a == b || (v->data != NULL && v->data == w->data && v->dtype == w->dtype &&
                      memcmp(v->ne, w->ne, sizeof v->ne) == 0 && memcmp(v->nb, w->nb, sizeof v->nb) == 0);
}

/* Whether a source before source `end` of the steps is this weight and can be repacked as well. */
static bool is_repacked(const ExecPlan *plan, const TensorNode *w, int end) {
    for (int at = 0; at < end; at++) {
        const int i = at / RP_MAX_SRC, s = at % RP_MAX_SRC;
        if (plan->steps[i].node->src[s] == NULL) continue;
        if (same_weight(plan->steps[i].node->src[s], w) && can_repack(plan, i, s)) return true;
    }
    return false;
}

size_t rp_plan_repack_bytes(const ExecPlan *plan, const ExecPlan *beside) {
    size_t bytes = 0;
    for (int at = 0; at < plan->n_steps * RP_MAX_SRC; at++) {
        const int i = at / RP_MAX_SRC, s = at % RP_MAX_SRC;
        if (!can_repack(plan, i, s)) continue;
        const TensorNode *w = plan->steps[i].node->src[s];
        if (is_repacked(plan, w, at) || (beside != NULL && is_repacked(beside, w, beside->n_steps * RP_MAX_SRC)))
            continue;
        bytes += rp_repacked_copy_bytes(&w->view);
    }
    return bytes;
}
