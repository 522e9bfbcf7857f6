/* The graphs of a trainer. GRAPH_STEP, for parameters p, with what a run changes in capitals:
 *
 *     TOKENS, POS -> decoder of the model (model/arch.h) -> x, logits = w x
 *     losses = cross_entropy(logits, TARGETS), or linear_cross_entropy(x, w, TARGETS) if the logits are many
 *     loss   = sum(losses) * FACTOR + mean over the layers with experts of o.aux_loss * aux_loss(router)
 *     g[p]   = gradient of loss with respect to p, by rp_graph_backward
 *     norm   = sqrt(sum of all g^2) + 0 * loss, which is not finite if the loss is not
 *     p, m, v = adamw(clip(g[p], norm), RATE, STEP), unless the norm is not finite
 *
 * FACTOR is 1 / targets of the step. The router's choices and probabilities of a token count by REAL: 0 for
 * padding, else tokens / tokens that are not padding, so that means over all tokens are means over those.
 * The decoder is the one that decodes, with states for weights. No pass runs: the backward nodes read nearly all
 * that a pattern would fuse, and there is nothing to quantise. */
#include "train/trainer.h"

#include "model/arch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LOGITS = 64 << 20, CHUNK = 16 << 20, MIN_ROWS = 256 };

typedef struct Build {
    RpTrainer     *t;
    TrainGraphKind kind;
    Builder        b;
    ArchTraining   training;
    TensorNode   **grads;                /* [n_params] */
    TensorNode    *losses, *loss, *norm; /* losses [n_tok], loss [1] */
    TensorNode   **outputs;
    int            n_outputs;
} Build;

static TensorNode *op(Build *u, TensorOp id, const RpOpParams *p, TensorNode *const src[], int n) {
    return rp_graph_op(u->b.g, id, p, src, n);
}

static TensorNode *scalar(Build *u, const char *name, RpDtype dtype) {
    return rp_graph_input(u->b.g, name, dtype, (int64_t[]){1, 1, 1, 1});
}

/* A further state of parameter i. */
static TensorNode *state_of(Build *u, int i, const char *what) {
    const RpGgufTensor *t = u->training.params[i].tensor;
    char                name[160];
    snprintf(name, sizeof name, "%s.%.*s", what, (int)(t->name.len < 127 ? t->name.len : 127), t->name.ptr);
    return rp_graph_state(u->b.g, name, RP_F32, t->view.ne);
}

/* A buffer of n floats for each token. */
static TensorNode *buffer(Build *u, int64_t n) {
    const RpOpParams p = {.fill = {.ne = {n, u->b.n_tok, 1, 1}}};
    return rp_graph_op(u->b.g, RP_OP_FILL, &p, NULL, 0);
}

/* The losses [n_tok]. Logits of more than MAX_LOGITS bytes are never held at once: CHUNK bytes of them are. */
static TensorNode *losses_of(Build *u, const ArchOutput *of, TensorNode *targets) {
    const int64_t n_tok = u->b.n_tok, n_vocab = u->b.m->token_embd->view.ne[1], room = CHUNK / 4 / n_tok;
    const bool    floats = u->t->adapter == NULL && u->t->o.compute == RP_F32; /* the output matrix is f32 */
    if (n_vocab * n_tok * 4 <= MAX_LOGITS || !floats)
        return op(u, RP_OP_CROSS_ENTROPY, NULL, (TensorNode *const[]){rp_arch_logits(&u->b, of), targets}, 2);
    const int64_t    rows = room / MIN_ROWS < 1 ? MIN_ROWS : room / MIN_ROWS * MIN_ROWS;
    const RpOpParams p    = {.linear_cross_entropy = {.scale = of->scale}};
    return op(u, RP_OP_LINEAR_CROSS_ENTROPY, &p,
              (TensorNode *const[]){of->x, of->w, targets, buffer(u, RP_LINEAR_STATS), buffer(u, rows)}, 5);
}

/* sum(losses) * factor: one float */
static TensorNode *mean_loss(Build *u) {
    const RpOpParams one    = {.repeat_backward = {.ne = {1, 1, 1, 1}}};
    TensorNode      *scaled = rp_mul(u->b.g, u->losses, scalar(u, "factor", RP_F32));
    return op(u, RP_OP_REPEAT_BACKWARD, &one, (TensorNode *const[]){scaled}, 1);
}

/* Load and auxiliary loss of each layer with experts. They are outputs, and enter the loss unless its factor is
 * 0. */
static void balance(Build *u, int n_routed) {
    const ModelConfig *c     = &u->b.m->config;
    const RpOpParams   p     = {.expert_load = {.experts = c->experts.n}};
    const float        share = u->t->o.aux_loss / (float)n_routed / (float)u->t->o.accumulate;
    if (n_routed == 0) return;
    TensorNode *real = rp_graph_input(u->b.g, "real", RP_F32, (int64_t[]){u->b.n_tok, 1, 1, 1});
    for (u->b.layer = 0; u->b.layer < c->n_layer; u->b.layer++) {
        const ArchRouter *r = &u->training.routers[u->b.layer];
        if (r->ids == NULL) continue;
        rp_graph_set_layer(u->b.g, u->b.layer);
        TensorNode *load           = op(u, RP_OP_EXPERT_LOAD, &p, (TensorNode *const[]){r->ids, real}, 2);
        TensorNode *probs          = rp_mul(u->b.g, r->probs, rp_reshape(u->b.g, real, 1, u->b.n_tok, 1, 1));
        TensorNode *aux            = op(u, RP_OP_AUX_LOSS, NULL, (TensorNode *const[]){probs, load}, 2);
        u->outputs[u->n_outputs++] = rp_arch_name_node(&u->b, load, "expert_load");
        u->outputs[u->n_outputs++] = rp_arch_name_node(&u->b, aux, "aux_loss");
        if (u->t->o.aux_loss > 0.0f) u->loss = rp_add(u->b.g, u->loss, rp_scale(u->b.g, aux, share, 0.0f));
    }
    u->b.layer = -1;
    rp_graph_set_layer(u->b.g, -1);
}

static RpStatus backward(Build *u) {
    TensorNode **params = calloc((size_t)u->training.n_params, sizeof(TensorNode *));
    if (params == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a training graph");
    for (int i = 0; i < u->training.n_params; i++) params[i] = u->training.params[i].state;
    rp_graph_set_recompute(u->b.g, u->t->o.recompute);
    const RpStatus st = rp_graph_backward(u->b.g, u->loss, params, u->training.n_params, u->grads);
    free(params);
    return st;
}

/* GRAPH_FIRST and GRAPH_MORE: the sums of gradients. */
static void add_up(Build *u) {
    for (int i = 0; i < u->training.n_params; i++) {
        TensorNode *sum = state_of(u, i, "grad");
        TensorNode *g   = u->kind == GRAPH_FIRST ? u->grads[i] : rp_add(u->b.g, sum, u->grads[i]);
        (void)rp_store(u->b.g, g, sum, NULL);
    }
}

/* Matrices decay; biases of experts [m, experts] are vectors. */
static bool decays(const RpGgufTensor *t) {
    static const char bias[] = ".bias";
    const size_t      n      = sizeof bias - 1;
    return t->view.ne[1] > 1 && !(t->name.len >= n && memcmp(t->name.ptr + t->name.len - n, bias, n) == 0);
}

/* The norm of all gradients, or of all weights: the state of grad_norm after the last of them, plus 0 * loss,
 * which is not finite if the loss is not. */
static TensorNode *norm_of(Build *u, TensorNode *const *x, const char *name, const char *sums_name) {
    TensorNode *sums = rp_graph_state(u->b.g, sums_name, RP_F32, (int64_t[]){RP_GRAD_NORM_FLOATS, 1, 1, 1});
    for (int i = 0; i < u->training.n_params; i++) {
        const RpOpParams p = {.grad_norm = {.first = i == 0}};
        sums               = op(u, RP_OP_GRAD_NORM, &p, (TensorNode *const[]){x[i], sums}, 2);
    }
    const RpViewParams first = {
        .ne = {1, 1, 1, 1},
        .nb = {0, 4, 4, 4},
    };
    TensorNode *none = rp_scale(u->b.g, u->loss, 0.0f, 0.0f);
    return rp_node_set_name(rp_add(u->b.g, none, rp_view(u->b.g, sums, &first)), name);
}

/* Whether an update could make a finite weight infinite. AdamW moves a weight by at most lr * |m| / sqrt(v),
 * without bias corrections, and |m| / sqrt(v) <= (1 - beta1) / sqrt((1 - beta2) (1 - beta1^2 / beta2)) by the
 * inequality of Cauchy and Schwarz; the decay multiplies it by 1 - lr * weight_decay. */
static bool may_overflow(const RpTrainOptions *o) {
    const float lr = fmaxf(o->lr, o->lr_end);
    return lr > 1e20f || lr * o->weight_decay > 2.0f || o->beta1 * o->beta1 >= o->beta2;
}

static void optimise(Build *u) {
    const RpTrainOptions *o = &u->t->o;
    if (o->accumulate > 1)
        for (int i = 0; i < u->training.n_params; i++)
            u->grads[i] = rp_add(u->b.g, state_of(u, i, "grad"), u->grads[i]);
    u->norm          = norm_of(u, u->grads, "grad_norm", "grad_norm_sums");
    TensorNode *rate = scalar(u, "lr", RP_F32), *step = scalar(u, "step", RP_I32);
    for (int i = 0; i < u->training.n_params; i++) {
        const ArchParam *param = &u->training.params[i];
        const RpOpParams clip  = {.grad_clip = {.max_norm = o->max_norm}};
        const RpOpParams adamw = {
            .adamw = {.beta1        = o->beta1,
                      .beta2        = o->beta2,
                      .eps          = o->eps,
                      .weight_decay = decays(param->tensor) ? o->weight_decay : 0.0f}
        };
        TensorNode *g = u->grads[i];
        if (isfinite(o->max_norm)) g = op(u, RP_OP_GRAD_CLIP, &clip, (TensorNode *const[]){g, u->norm}, 2);
        u->grads[i] =
            op(u, RP_OP_ADAMW, &adamw,
               (TensorNode *const[]){g, param->state, state_of(u, i, "m"), state_of(u, i, "v"), rate, step, u->norm},
               7); /* from here on the new weights */
    }
    u->outputs[u->n_outputs++] = u->norm;
    if (may_overflow(o)) u->outputs[u->n_outputs++] = norm_of(u, u->grads, "weight_norm", "weight_norm_sums");
}

static RpStatus build(Build *u) {
    const RpTrainOptions *o        = &u->t->o;
    const ArchOutput      output   = rp_arch_training(&u->b);
    int                   n_routed = 0;
    TensorNode *targets = rp_graph_input(u->b.g, "targets", RP_I32, (int64_t[]){(int64_t)o->batch * o->seq, 1, 1, 1});
    u->losses           = losses_of(u, &output, targets);
    u->outputs[u->n_outputs++] = rp_node_set_name(u->losses, "losses");
    if (u->kind != GRAPH_EVALUATE) {
        for (int i = 0; i < u->b.m->config.n_layer; i++) n_routed += u->training.routers[i].ids != NULL;
        u->loss = mean_loss(u);
        balance(u, n_routed);
        if (u->loss != NULL) RP_TRY(backward(u)); /* else rp_graph_finish reports the error */
        if (u->loss != NULL) (u->kind == GRAPH_STEP ? optimise : add_up)(u);
    }
    RP_TRY(rp_graph_finish(u->b.g, u->outputs, u->n_outputs));
    return rp_plan_new(u->b.g, &u->t->graphs[u->kind].plan);
}

/* Fills in the parameters and routed layers of the trainer. */
static RpStatus list_params(const Build *u) {
    RpTrainer *t = u->t;
    t->params    = calloc((size_t)u->training.n_params, sizeof *t->params);
    t->routed    = calloc((size_t)u->b.m->config.n_layer, sizeof *t->routed);
    if (t->params == NULL || t->routed == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a trainer");
    t->n_params = u->training.n_params;
    for (int i = 0; i < t->n_params; i++) {
        const RpGgufTensor *tensor = u->training.params[i].tensor;
        TrainParam         *p      = &t->params[i];
        char                name[160];
        *p = (TrainParam){.tensor = tensor, .n = rp_view_elems(&tensor->view)};
        snprintf(p->name, sizeof p->name, "%s", rp_node_name(u->training.params[i].state));
        p->weight = u->training.params[i].state;
        snprintf(name, sizeof name, "m.%s", p->name);
        p->m = rp_graph_find(u->b.g, name);
        snprintf(name, sizeof name, "v.%s", p->name);
        p->v = rp_graph_find(u->b.g, name);
    }
    for (int i = 0; i < u->b.m->config.n_layer; i++) {
        t->routed[i] = u->training.routers[i].ids != NULL;
        t->n_routed += t->routed[i];
    }
    return RP_OK;
}

RpStatus rp_trainer_plan_graph(RpTrainer *t, TrainGraphKind kind) {
    const ModelConfig *c = &t->model->config;
    int                n_pairs;
    const AdapterPair *pairs = rp_trainer_pairs(t, &n_pairs);
    const size_t       all   = pairs != NULL ? 2 * (size_t)n_pairs : (size_t)rp_gguf_n_tensors(t->model->file);
    Build              u     = {.t = t, .kind = kind};
    if (t->graphs[kind].plan != NULL) return RP_OK;
    t->graphs[kind].graph = rp_graph_new();
    u.b          = (Builder){.m = t->model, .g = t->graphs[kind].graph, .n_tok = t->o.batch * t->o.seq, .layer = -1};
    u.training   = (ArchTraining){.n_seq   = t->o.batch,
                                  .compute = t->o.compute,
                                  .pairs   = pairs,
                                  .n_pairs = n_pairs,
                                  .params  = calloc(all, sizeof *u.training.params),
                                  .routers = calloc((size_t)c->n_layer, sizeof *u.training.routers)};
    u.b.training = &u.training;
    u.grads      = calloc(all, sizeof(TensorNode *));
    u.outputs    = calloc(2 * (size_t)c->n_layer + 3, sizeof(TensorNode *));
    RpStatus   st;
    const bool room = u.b.g != NULL && u.training.params != NULL && u.training.routers != NULL && u.grads != NULL &&
                      u.outputs != NULL;
    st = room ? build(&u) : rp_fail(RP_E_NOMEM, "out of memory for a training graph");
    if (st == RP_OK && kind == GRAPH_STEP) st = list_params(&u);
    free(u.training.params);
    free(u.training.routers);
    free(u.grads);
    free(u.outputs);
    if (st != RP_OK) rp_trainer_close_graph(&t->graphs[kind]);
    return st;
}
