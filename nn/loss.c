/* Functions of nn.h for training: losses and the optimiser. Each runs one op of the same name; aux_loss runs two.
 *
 *     cross_entropy   torch.nn.functional.cross_entropy with reduction='none', ignore_index=-1
 *     aux_loss        load balancing of Switch Transformers (Fedus et al. 2021, arXiv:2101.03961, equations 4 to 6),
 *                     without the factor alpha
 *     adamw_step      torch.optim.AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101)
 *     grad_norm, grad_clip   torch.nn.utils.clip_grad_norm_ in two calls: the norm of all tensors, then the scaling */
#include "nn/call.h"

_Static_assert((int)RP_NN_GRAD_NORM_FLOATS == (int)RP_GRAD_NORM_FLOATS, "the size of sums in nn.h");

/* RP_E_ARG for more rows than a grid can have blocks: on a GPU one block computes a row. *empty: no element. */
static RpStatus rows_of(const char *function, int64_t rows, int64_t columns, bool *empty) {
    RP_TRY(rp_nn_sizes(function, rows, columns, empty));
    if (rows <= INT32_MAX) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: %lld rows: must be at most %d", function, (long long)rows, INT32_MAX);
}

RpStatus rp_nn_call_cross_entropy(const NnCall *call, const float *logits, const int32_t *targets, float *losses,
                                  float *log_probs, int64_t rows, int32_t vocab) {
    bool empty;
    RP_TRY(rows_of("cross_entropy", rows, vocab, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("cross_entropy", logits);
    RP_NN_NOT_NULL("cross_entropy", targets);
    RP_NN_NOT_NULL("cross_entropy", losses);
    const RpOpParams none = {0};
    RpOpArgs         args = {
                .dst           = rp_nn_view(RP_F32, losses, rows, 1, 1),
                .cross_entropy = {.x       = rp_nn_view(RP_F32, logits, vocab, rows, 1),
                                  .targets = rp_nn_view(RP_I32, targets, rows, 1, 1)},
                .params        = &none
    };
    if (log_probs != NULL) args.cross_entropy.log_probs = rp_nn_view(RP_F32, log_probs, vocab, rows, 1);
    return rp_nn_run(call, RP_OP_CROSS_ENTROPY, &args);
}

RpStatus rp_nn_call_cross_entropy_backward(const NnCall *call, const float *logits, const int32_t *targets,
                                           const float *dlosses, float *dlogits, int64_t rows, int32_t vocab) {
    bool empty;
    RP_TRY(rows_of("cross_entropy_backward", rows, vocab, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("cross_entropy_backward", logits);
    RP_NN_NOT_NULL("cross_entropy_backward", targets);
    RP_NN_NOT_NULL("cross_entropy_backward", dlosses);
    RP_NN_NOT_NULL("cross_entropy_backward", dlogits);
    const RpOpParams none = {0};
    const RpOpArgs   args = {
          .dst    = rp_nn_view(RP_F32, dlogits, vocab, rows, 1),
          .src    = {rp_nn_view(RP_F32, logits, vocab, rows, 1), rp_nn_view(RP_I32, targets, rows, 1, 1),
                     rp_nn_view(RP_F32, dlosses, rows, 1, 1)},
          .params = &none
    };
    return rp_nn_run(call, RP_OP_CROSS_ENTROPY_BACKWARD, &args);
}

/* load[e] = share of the k * tokens ids that are e. */
static RpStatus expert_load(const NnCall *call, const int32_t *ids, float *load, int64_t tokens, int32_t experts,
                            int32_t k) {
    const RpOpParams p    = {.expert_load = {.experts = experts}};
    const RpOpArgs   args = {.dst             = rp_nn_view(RP_F32, load, experts, 1, 1),
                             .expert_load.ids = rp_nn_view(RP_I32, ids, k, tokens, 1),
                             .params          = &p};
    return rp_nn_run(call, RP_OP_EXPERT_LOAD, &args);
}

/* load is counted first, then the loss reads it. Both ops run in order, on the host and on a stream. */
RpStatus rp_nn_call_aux_loss(const NnCall *call, const float *probs, const int32_t *ids, float *load, float *loss,
                             int64_t tokens, int32_t experts, int32_t k) {
    bool empty;
    RP_TRY(rp_nn_sizes("aux_loss", tokens, experts, &empty));
    if (k < 1) return rp_fail(RP_E_ARG, "aux_loss: k = %d: must be at least 1", k);
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("aux_loss", probs);
    RP_NN_NOT_NULL("aux_loss", ids);
    RP_NN_NOT_NULL("aux_loss", load);
    RP_NN_NOT_NULL("aux_loss", loss);
    RP_TRY(rp_nn_sizes("aux_loss", tokens, k, &empty));
    RP_TRY(expert_load(call, ids, load, tokens, experts, k));
    const RpOpParams none = {0};
    const RpOpArgs   args = {
          .dst    = rp_nn_view(RP_F32, loss, 1, 1, 1),
          .src    = {rp_nn_view(RP_F32, probs, experts, tokens, 1), rp_nn_view(RP_F32, load, experts, 1, 1)},
          .params = &none
    };
    return rp_nn_run(call, RP_OP_AUX_LOSS, &args);
}

/* The ids are counted, and a count has no gradient. So only the probabilities have one, and the gradient needs load
 * instead of ids. */
RpStatus rp_nn_call_aux_loss_backward(const NnCall *call, const float *load, const float *dloss, float *dprobs,
                                      int64_t tokens, int32_t experts) {
    bool empty;
    RP_TRY(rows_of("aux_loss_backward", tokens, experts, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("aux_loss_backward", load);
    RP_NN_NOT_NULL("aux_loss_backward", dloss);
    RP_NN_NOT_NULL("aux_loss_backward", dprobs);
    const RpOpParams p    = {.aux_loss_backward = {.tokens = (int32_t)tokens}};
    const RpOpArgs   args = {
          .dst    = rp_nn_view(RP_F32, dprobs, experts, tokens, 1),
          .src    = {rp_nn_view(RP_F32, load, experts, 1, 1), rp_nn_view(RP_F32, dloss, 1, 1, 1)},
          .params = &p
    };
    return rp_nn_run(call, RP_OP_AUX_LOSS_BACKWARD, &args);
}

/* In place: the op writes param, which is its source and its result, and the sources m and v. */
RpStatus rp_nn_call_adamw_step(const NnCall *call, float *param, const float *grad, float *m, float *v, int64_t n,
                               float lr, float beta1, float beta2, float eps, float weight_decay, int32_t step) {
    bool empty;
    RP_TRY(rp_nn_sizes("adamw_step", 1, n, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("adamw_step", param);
    RP_NN_NOT_NULL("adamw_step", grad);
    RP_NN_NOT_NULL("adamw_step", m);
    RP_NN_NOT_NULL("adamw_step", v);
    const RpOpParams p = {
        .adamw = {beta1, beta2, eps, weight_decay, lr, step}
    };
    const RpTensorView y    = rp_nn_view(RP_F32, param, n, 1, 1);
    const RpOpArgs     args = {
            .dst    = y,
            .adamw  = {.grad  = rp_nn_view(RP_F32, grad, n, 1, 1),
                       .param = y,
                       .m     = rp_nn_view(RP_F32, m, n, 1, 1),
                       .v     = rp_nn_view(RP_F32, v, n, 1, 1)},
            .params = &p
    };
    return rp_nn_run(call, RP_OP_ADAMW, &args);
}

/* `sums` is read and written: sums[1..] carry the sum of squares from tensor to tensor. With `first` an empty tensor
 * is not skipped, because it must still set the norm to 0. */
RpStatus rp_nn_call_grad_norm(const NnCall *call, const float *grad, float *sums, int64_t n, int32_t first) {
    bool empty;
    RP_TRY(rp_nn_sizes("grad_norm", 1, n, &empty));
    if (empty && first == 0) return RP_OK;
    if (!empty) RP_NN_NOT_NULL("grad_norm", grad);
    RP_NN_NOT_NULL("grad_norm", sums);
    const RpOpParams   p    = {.grad_norm = {.first = first != 0}};
    const RpTensorView y    = rp_nn_view(RP_F32, sums, RP_GRAD_NORM_FLOATS, 1, 1);
    const RpOpArgs     args = {
            .dst    = y,
            .src    = {rp_nn_view(RP_F32, grad, n, 1, 1), y},
            .params = &p,
    };
    return rp_nn_run(call, RP_OP_GRAD_NORM, &args);
}

/* In place. The kernel reads norm[0] itself, so that the host need not wait for the norm of a device. */
RpStatus rp_nn_call_grad_clip(const NnCall *call, float *grad, const float *norm, int64_t n, float max_norm) {
    bool empty;
    RP_TRY(rp_nn_sizes("grad_clip", 1, n, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("grad_clip", grad);
    RP_NN_NOT_NULL("grad_clip", norm);
    const RpOpParams   p    = {.grad_clip = {.max_norm = max_norm}};
    const RpTensorView y    = rp_nn_view(RP_F32, grad, n, 1, 1);
    const RpOpArgs     args = {
            .dst    = y,
            .src    = {y, rp_nn_view(RP_F32, norm, 1, 1, 1)},
            .params = &p,
    };
    return rp_nn_run(call, RP_OP_GRAD_CLIP, &args);
}
