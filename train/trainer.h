/* trainer.h - the inside of an RpTrainer: its graphs, which share their states. With accumulate = 4:
 *
 *     micro-batch 0   FIRST      sum  = gradients
 *     1, 2            MORE       sum += gradients
 *     3               STEP       clip(sum + gradients), AdamW            accumulate = 1: this one alone
 *                     EVALUATE   forward pass only */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "reprise/train.h"

#include "model/gguf/gguf_write.h"
#include "model/model.h"
#include "train/lock.h"

/* A checkpoint that is replaced stays under its name and this. */
#define TRAIN_KEPT ".1"

typedef enum TrainGraphKind {
    GRAPH_STEP, /* the owner of the states */
    GRAPH_FIRST,
    GRAPH_MORE,
    GRAPH_EVALUATE,
    N_GRAPHS
} TrainGraphKind;

/* A tensor that is trained, and its states in GRAPH_STEP. */
typedef struct TrainParam {
    const RpGgufTensor *tensor;
    const TensorNode   *weight, *m, *v;
    char                name[128];
    int64_t             n; /* elements */
} TrainParam;

typedef struct TrainGraph {
    ComputeGraph *graph;
    ExecPlan     *plan;
    RpExecutor   *exec;
    int32_t      *tokens, *targets, *pos, *step; /* inputs; NULL where the graph has none of the name */
    float        *factor, *rate, *real;
    const float  *losses, *norm, *weights; /* outputs; weights: the norm of the new weights, if they may overflow */
    const float **loads, **aux;            /* [n_layer], NULL for a dense layer; the array is NULL in GRAPH_EVALUATE */
} TrainGraph;

typedef struct TrainAdapter TrainAdapter;

/* The states of a parameter in a checkpoint: its weights, AdamW's mean of gradients and of their squares. */
typedef enum TrainState { STATE_WEIGHT, STATE_MEAN, STATE_SQUARES } TrainState;

struct RpTrainer {
    const RpModel *model;
    TrainAdapter  *adapter; /* what is trained with lora_rank; else NULL */
    RpGgufFile    *origin;  /* the adapter with which it begins, or NULL */
    RpTrainOptions o;       /* with the defaults */
    TrainGraph     graphs[N_GRAPHS];
    TrainParam    *params;
    int            n_params, n_routed; /* n_routed: layers with experts */
    int64_t        step;
    float         *loads;     /* [n_layer][n_expert]; NULL in a dense model */
    bool          *routed;    /* [n_layer] */
    float         *buffer;    /* of the largest parameter */
    uint64_t      *base_sums; /* with an adapter: checksums of the model's tensors, once they are needed; else NULL */
    TrainLock     *lock;      /* of RpTrainOptions.checkpoint; or NULL */
};

/* The options with their defaults, checked. */
RP_NODISCARD RpStatus rp_trainer_options(const RpModel *m, const RpTrainOptions *options, RpTrainOptions *out);

/* Describes the matrices that are trained with lora_rank. */
RP_NODISCARD RpStatus rp_trainer_plan_adapter(RpTrainer *t);
void                  rp_trainer_free_adapter(TrainAdapter *a);

/* [*n] pairs of matrices; NULL without lora_rank. */
const AdapterPair *rp_trainer_pairs(const RpTrainer *t, int *n);

/* The values x [t->params[i].n] with which matrix i of a new adapter begins. */
void rp_trainer_begin_matrix(const RpTrainer *t, int i, float *x);

/* The file with which the trainer begins: the model's, or that of an adapter; NULL for a new adapter. */
const RpGgufFile *rp_trainer_origin(const RpTrainer *t);

/* Graph and plan of one kind. GRAPH_STEP fills in t->params and t->routed. */
RP_NODISCARD RpStatus rp_trainer_plan_graph(RpTrainer *t, TrainGraphKind kind);

/* The executor, which shares with that of GRAPH_STEP, and the addresses of inputs and outputs. Nothing happens if
 * it is open. */
RP_NODISCARD RpStatus rp_trainer_open_graph(RpTrainer *t, TrainGraphKind kind);
void                  rp_trainer_close_graph(TrainGraph *g);

/* The model's weights, and of a checkpoint m, v and the number of steps, into the states. */
RP_NODISCARD RpStatus rp_trainer_restore(RpTrainer *t);

/* Fills in t->base_sums. */
RP_NODISCARD RpStatus rp_trainer_sum_base(RpTrainer *t);

/* "", "train.m." or "train.v.": before the name of the parameter it is the name of the tensor. */
const char *rp_trainer_prefix(TrainState state);

/* `status` if one of the values x [p->n] is not finite, or is a negative mean of squares: names tensor, element and
 * value. */
RP_NODISCARD RpStatus rp_trainer_check_state(const char *path, const TrainParam *p, TrainState state, const float *x,
                                             RpStatus status);

/* RP_E_ARG if the name of the previous checkpoint (FILE.1) exists and is no file, because each save but the first would
 * fail. */
RP_NODISCARD RpStatus rp_trainer_check_kept(const char *path);

/* The options as keys of a checkpoint. */
void rp_trainer_put_options(const RpTrainOptions *o, GgufWriter *w);

/* RP_E_ARG if an option is not that of the checkpoint with which the trainer begins, and the bits would differ. */
RP_NODISCARD RpStatus rp_trainer_compare_options(const RpTrainer *t);

/* Index of the first of n floats that is NaN or infinite; n: none. */
int64_t rp_trainer_not_finite(const float *x, int64_t n);

#endif
