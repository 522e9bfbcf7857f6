/* train.h - train a model. Forward pass, backward pass, clipping and AdamW are one graph (docs/training.md): it
 * is planned and captured when the trainer is opened, and every step is one run of it.
 *
 *   RpTrainer *t;
 *   const RpTrainOptions options = {.batch = 16, .seq = 256, .n_steps = 1000, .lr = 3e-3f, .warmup = 50};
 *   RP_TRY(rp_trainer_open(model, &options, &t));
 *   while (rp_trainer_n_steps(t) < 1000) {
 *       RpTrainResult r;
 *       RP_TRY(rp_trainer_step(t, tokens, &r));         // int32 [accumulate][batch][seq + 1]
 *   }
 *   RP_TRY(rp_trainer_save(t, "checkpoint.gguf"));
 *   rp_trainer_free(t);
 *
 * The weights are f32 states of the trainer. The model, from which they are read when it is opened, must outlive
 * it and is not changed. Same model, options and tokens: same bits, for any number of threads and after a save
 * and a resume. The bits of CPU and GPU differ.
 * One thread at a time may use a trainer.
 */
#ifndef REPRISE_TRAIN_H
#define REPRISE_TRAIN_H

#include "reprise/executor.h"
#include "reprise/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RpTrainer RpTrainer;

/* The learning rate after the warm-up: `lr` in all steps, or lowered from `lr` to `lr_end` by half a period of a
 * cosine. */
typedef enum RpTrainSchedule { RP_TRAIN_CONSTANT, RP_TRAIN_COSINE } RpTrainSchedule;

/* With lora_rank = r an adapter is trained (LoRA, Hu et al. 2021): y = w x + lora_alpha / r * b (a x) for each matrix w
 * [n,m] of the layers, except routers and experts, with a [n,r] and b [r,m] in f32. The weights of the model stay as
 * they are stored, quantised or not. a begins with random numbers of `seed`, b with zeros. rp_trainer_save and
 * rp_trainer_export then write the adapter alone, in the format of llama.cpp, for rp_model_add_adapter and
 * rp_merge_adapters. */
typedef struct RpTrainOptions {
    int32_t         batch, seq; /* sequences of a micro-batch, tokens of a sequence; 0: 16, the training context */
    int32_t         accumulate; /* micro-batches of a step, whose gradients are added; 0: 1 */
    int32_t         n_steps;    /* steps of the schedule; RP_TRAIN_COSINE needs more than `warmup` */
    float           lr;         /* largest learning rate; 0: 1e-3 */
    float           lr_end;     /* from step n_steps on, with RP_TRAIN_COSINE */
    RpTrainSchedule schedule;
    int32_t         warmup;            /* steps in which the rate rises linearly: lr * step / warmup */
    float           beta1, beta2, eps; /* of AdamW; 0: 0.9, 0.999, 1e-8 */
    float           weight_decay;      /* of matrices; vectors (norms, biases) do not decay */
    float           max_norm;          /* of all gradients together; 0: 1; infinity: no clipping */
    float           aux_loss;          /* factor of the loss that balances the load of experts (RpTrainResult) */
    /* Compute the activations of a layer again in the backward pass, instead of keeping them: less memory, more time,
     * the same bits. */
    bool recompute;
    /* RP_F32, or RP_BF16: products except those of routers read the weights rounded to bf16. Weights, optimiser,
     * gradients, activations and sums stay f32. Not with lora_rank. */
    RpDtype compute;
    int32_t lora_rank;  /* 0: all parameters are trained; else only an adapter of this rank (above) */
    float   lora_alpha; /* the factor of the adapter is lora_alpha / lora_rank; 0: lora_rank, so the factor is 1 */
    /* Seed of the random numbers of a new adapter. A caller may also choose sequences by it: a checkpoint keeps it, and
     * a resume compares it. */
    uint64_t    seed;
    int         n_threads; /* this and the next four as in RpExecutorOptions */
    const char *device;    /* borrowed for the call */
    bool        require_cuda, require_graph;
    RpExecMode  mode;
    bool        change_options; /* a checkpoint resumes even with other options than those before it */
    /* With lora_rank: begin with this adapter, or resume this checkpoint of one. Borrowed for the call; NULL: a new
     * adapter. */
    const char *adapter;
    /* Path of the checkpoints, which no other trainer of any process may write until this one is freed
     * (docs/training.md). Borrowed for the call; NULL: rp_trainer_save alone locks. */
    const char *checkpoint;
} RpTrainOptions;

/* Bytes that a trainer would allocate. Not included: scratch memory of kernels, and a copy of the largest tensor
 * on the host. */
typedef struct RpTrainMemory {
    size_t weights, optimizer; /* the parameters in f32; two f32 for each of them */
    size_t gradients;          /* of all parameters; with `accumulate` also their sums */
    size_t activations;        /* the rest of the arena: results of the forward pass that the backward pass reads */
    size_t total;
} RpTrainMemory;

typedef struct RpTrainResult {
    int64_t step;      /* steps so far, this one included */
    double  loss;      /* mean cross entropy of the targets in nats, before the update */
    double  aux_loss;  /* experts * sum_e load[e] * mean probability[e], mean over the layers; 1: balanced; 0: dense */
    double  grad_norm; /* before clipping */
    double  lr;
    int64_t n_targets; /* tokens that were learned: all but the first of each sequence, without -1 */
} RpTrainResult;

/* Plans the trainer without allocating its memory; `options` may be NULL. Errors as rp_trainer_open, but memory
 * and device are not checked. */
RP_API RP_NODISCARD RpStatus        rp_trainer_memory_sized(const RpModel *m, const RpTrainOptions *options,
                                                            size_t options_bytes, RpTrainMemory *out, size_t out_bytes);
RP_NODISCARD static inline RpStatus rp_trainer_memory(const RpModel *m, const RpTrainOptions *options,
                                                      RpTrainMemory *out) {
    return rp_trainer_memory_sized(m, options, sizeof *options, out, sizeof *out);
}

/* `options` may be NULL for the defaults. The caller frees *out, before the model; on failure it is NULL.
 * Quantised weights are dequantised. A model that rp_trainer_save wrote resumes: with the same options the next
 * steps have the bits that they would have had without the interruption.
 * RP_E_ARG names an option that is out of range, or one that differs from that of the checkpoint and would change
 * the bits, with both values (unless change_options is set); or a tensor with NaN or infinity; RP_E_UNSUPPORTED names
 * an option, or an op without a gradient rule (docs/training.md); RP_E_FORMAT for a damaged checkpoint, which names a
 * tensor with another checksum or a moment that no training makes; RP_E_ARG, RP_E_SHAPE or RP_E_FORMAT for a checkpoint
 * of an adapter whose base is not this model, with the tensor and what differs; RP_E_STATE names the process that
 * writes `checkpoint`; RP_E_NOMEM if the memory of RpTrainMemory exceeds the free memory of the device, with the
 * figures: nothing is allocated then; otherwise as rp_executor_open. */
RP_API RP_NODISCARD RpStatus        rp_trainer_open_sized(const RpModel *m, const RpTrainOptions *options,
                                                          size_t options_bytes, RpTrainer **out);
RP_NODISCARD static inline RpStatus rp_trainer_open(const RpModel *m, const RpTrainOptions *options, RpTrainer **out) {
    return rp_trainer_open_sized(m, options, sizeof *options, out);
}
RP_API void rp_trainer_free(RpTrainer *t); /* NULL is allowed */

/* One step on tokens [accumulate][batch][seq + 1]: each token but the last of a sequence predicts the next one.
 * -1 marks padding, which is not learned: put it at the end of a sequence. `result` may be NULL. Nothing is
 * allocated. RP_E_ARG names a token that is outside of the vocabulary, or says that all are padding. RP_E_ARG
 * also if the loss or a gradient is NaN or infinite, with the step and the first such tensor; the weights are
 * then those before the step, and looking for the tensor may allocate. An update with an absurd rate (above 1e20) that
 * makes a weight NaN or infinite is RP_E_ARG too, and names the tensor; the weights are then lost: resume from a
 * checkpoint. Other errors as rp_executor_run. No error counts as a step. */
RP_API RP_NODISCARD RpStatus        rp_trainer_step_sized(RpTrainer *t, const int32_t *tokens, RpTrainResult *result,
                                                          size_t result_bytes);
RP_NODISCARD static inline RpStatus rp_trainer_step(RpTrainer *t, const int32_t *tokens, RpTrainResult *result) {
    return rp_trainer_step_sized(t, tokens, result, sizeof *result);
}

/* The mean cross entropy over the targets of tokens [n_seq][seq + 1], by the forward pass alone. Errors as
 * rp_trainer_step, but a loss that is not finite is a result. */
RP_API RP_NODISCARD RpStatus rp_trainer_evaluate(RpTrainer *t, const int32_t *tokens, size_t n_seq, double *loss);

/* The share of the choices of the last step that fell on each expert of a layer: [n_expert], owned by the trainer,
 * sum 1. Zeros before the first step; NULL for a layer without experts. */
RP_API const float *rp_trainer_expert_load(const RpTrainer *t, int layer);

/* Writes a checkpoint: a GGUF file of the model in f32 with its metadata, which rp_model_open opens like any
 * other, with tensors "train.m.<name>" and "train.v.<name>", keys train.step and "train.<option>", and checksums
 * (docs/training.md). The file appears under `path` as a whole (file.h). A checkpoint that stood there and is not
 * damaged stays as "<path>.1"; any other file is replaced. RP_E_ARG for a path that is not a regular file, and for a
 * file that this trainer has opened, except the checkpoint with which the training began.
 * RP_E_STATE if another trainer writes checkpoints to `path` (RpTrainOptions.checkpoint), with its process; or if a
 * weight or a moment is one that could not be read again, such as NaN, with tensor and element. RP_E_IO, RP_E_CUDA,
 * RP_E_NOMEM. After any error the file that stood there is as it was. */
RP_API RP_NODISCARD RpStatus rp_trainer_save(RpTrainer *t, const char *path);

/* Writes the model alone, in a type of rp_requantize; NULL: F32. Types other than F32 take a temporary f32 file beside
 * `path`. An adapter gets checksums and names its base. RP_E_ARG if `path` is a file with which the training began,
 * also a checkpoint; other errors as rp_trainer_save, without a lock, and rp_requantize. */
RP_API RP_NODISCARD RpStatus rp_trainer_export(RpTrainer *t, const char *path, const char *type);

RP_API int64_t rp_trainer_n_steps(const RpTrainer *t); /* made so far, also before a resume */

/* Device and launch mode of the step. Its texts are owned by the trainer. */
RP_API void                  rp_trainer_info_sized(const RpTrainer *t, RpExecutorInfo *out, size_t out_bytes);
static inline RpExecutorInfo rp_trainer_info(const RpTrainer *t) {
    RpExecutorInfo info;
    rp_trainer_info_sized(t, &info, sizeof info);
    return info;
}

/* The plan of a step (with `accumulate`: of its last micro-batch), for reports. Borrowed: owned by the trainer. */
RP_API const ExecPlan *rp_trainer_plan(const RpTrainer *t);

#ifdef __cplusplus
}
#endif
#endif
