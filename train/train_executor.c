/* The executor of a graph, with the addresses of its inputs and outputs. */
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>

void rp_trainer_close_graph(TrainGraph *g) {
    rp_executor_free(g->exec);
    rp_plan_free(g->plan);
    rp_graph_free(g->graph);
    free(g->loads);
    free(g->aux);
    *g = (TrainGraph){0};
}

static void *data_of(const TrainGraph *g, const char *name) {
    const TensorNode *node = rp_graph_find(g->graph, name);
    return node != NULL ? rp_executor_data(g->exec, node) : NULL;
}

/* The outputs of the layers with experts. */
static RpStatus find_routers(const RpTrainer *t, TrainGraph *g) {
    const int n_layer = rp_model_info(t->model)->n_layer;
    g->loads          = calloc((size_t)n_layer, sizeof *g->loads);
    g->aux            = calloc((size_t)n_layer, sizeof *g->aux);
    if (g->loads == NULL || g->aux == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a trainer");
    for (int i = 0; i < n_layer; i++) {
        char name[64];
        if (!t->routed[i]) continue;
        snprintf(name, sizeof name, "blk.%d.expert_load", i);
        g->loads[i] = data_of(g, name);
        snprintf(name, sizeof name, "blk.%d.aux_loss", i);
        g->aux[i] = data_of(g, name);
    }
    return RP_OK;
}

RpStatus rp_trainer_open_graph(RpTrainer *t, TrainGraphKind kind) {
    TrainGraph             *g = &t->graphs[kind];
    const RpExecutorOptions o = {.n_threads     = t->o.n_threads,
                                 .share         = kind != GRAPH_STEP ? t->graphs[GRAPH_STEP].exec : NULL,
                                 .device        = t->o.device,
                                 .require_cuda  = t->o.require_cuda,
                                 .require_graph = t->o.require_graph,
                                 .mode          = t->o.mode};
    if (g->exec != NULL) return RP_OK;
    RP_TRY(rp_executor_open(g->plan, &o, &g->exec));
    g->tokens  = data_of(g, "tokens");
    g->targets = data_of(g, "targets");
    g->pos     = data_of(g, "pos");
    g->factor  = data_of(g, "factor");
    g->real    = data_of(g, "real");
    g->rate    = data_of(g, "lr");
    g->step    = data_of(g, "step");
    g->losses  = data_of(g, "losses");
    g->norm    = data_of(g, "grad_norm");
    g->weights = data_of(g, "weight_norm");
    return kind != GRAPH_EVALUATE ? find_routers(t, g) : RP_OK;
}
