/* Functions of nn.h that compute each row by itself, and the mixture of experts.
 *
 *     softmax   torch.softmax(x, -1); the largest element is subtracted first, so exp does not overflow
 *     rmsnorm   torch.nn.functional.rms_norm (Zhang and Sennrich 2019, arXiv:1910.07467)
 *     topk      torch.topk, with a defined order among equals: the op top_k gives indices, the op route their values
 *     route     softmax or sigmoid, then top_k, then route
 *     combine   the weighted sum of the results of a token's experts, in the order of j
 *
 * A function of several ops runs them on the same stream; each reads the output of the one before in the caller's
 * memory. */
#include "nn/call.h"

/* RP_E_ARG for more rows than a grid can have blocks: on a GPU one block computes a row. *empty: no element. */
static RpStatus rows(const char *function, int64_t batch, int64_t dim, bool *empty) {
    RP_TRY(rp_nn_sizes(function, batch, dim, empty));
    if (batch <= INT32_MAX) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: %lld rows: must be at most %d", function, (long long)batch, INT32_MAX);
}

/* RP_E_ARG unless k elements of n can be chosen. */
static RpStatus choice(const char *function, int32_t k, int32_t n) {
    if (k >= 1 && k <= n) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: k = %d of %d: must be from 1 to all", function, k, n);
}

RpStatus rp_nn_call_softmax(const NnCall *call, const float *x, float *y, int64_t batch, int32_t dim) {
    bool empty;
    RP_TRY(rows("softmax", batch, dim, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("softmax", x);
    RP_NN_NOT_NULL("softmax", y);
    const RpOpParams p    = {.soft_max = {.scale = 1.0f}};
    const RpOpArgs   args = {
          .dst = rp_nn_view(RP_F32, y, dim, batch, 1), .soft_max.x = rp_nn_view(RP_F32, x, dim, batch, 1), .params = &p};
    return rp_nn_run(call, RP_OP_SOFT_MAX, &args);
}

RpStatus rp_nn_call_rmsnorm(const NnCall *call, const float *x, const float *weight, float *y, int64_t batch,
                            int32_t dim, float eps) {
    bool empty;
    RP_TRY(rows("rmsnorm", batch, dim, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("rmsnorm", x);
    RP_NN_NOT_NULL("rmsnorm", y);
    const RpOpParams p    = {.rms_norm = {.eps = eps}};
    RpOpArgs         args = {
                .dst = rp_nn_view(RP_F32, y, dim, batch, 1), .rms_norm.x = rp_nn_view(RP_F32, x, dim, batch, 1), .params = &p};
    if (weight != NULL) args.rms_norm.w = rp_nn_view(RP_F32, weight, dim, 1, 1);
    return rp_nn_run(call, RP_OP_RMS_NORM, &args);
}

/* ids[t,:] = indices of the k largest of x[t,:], largest first. */
static RpStatus select_largest(const NnCall *call, const float *x, int32_t *ids, int64_t batch, int32_t dim,
                               int32_t k) {
    const RpOpParams p    = {.top_k = {.k = k}};
    const RpOpArgs   args = {
          .dst = rp_nn_view(RP_I32, ids, k, batch, 1), .top_k.x = rp_nn_view(RP_F32, x, dim, batch, 1), .params = &p};
    return rp_nn_run(call, RP_OP_TOP_K, &args);
}

/* values[t,j] = x[t,ids[t,j]], divided by their sum if `normalize`. */
static RpStatus values_of(const NnCall *call, const float *x, const int32_t *ids, float *values, int64_t batch,
                          int32_t dim, int32_t k, bool normalize) {
    const RpOpParams p = {
        .route = {.normalize = normalize, .scale = 1.0f}
    };
    const RpOpArgs args = {
        .dst    = rp_nn_view(RP_F32, values, k, batch, 1),
        .src    = {rp_nn_view(RP_F32, x, dim, batch, 1), rp_nn_view(RP_I32, ids, k, batch, 1)},
        .params = &p
    };
    return rp_nn_run(call, RP_OP_ROUTE, &args);
}

RpStatus rp_nn_call_topk(const NnCall *call, const float *x, float *values, int32_t *indices, int64_t batch,
                         int32_t dim, int32_t k) {
    bool empty;
    RP_TRY(rows("topk", batch, dim, &empty));
    if (empty) return RP_OK;
    RP_TRY(choice("topk", k, dim));
    RP_NN_NOT_NULL("topk", x);
    RP_NN_NOT_NULL("topk", indices);
    RP_TRY(select_largest(call, x, indices, batch, dim, k));
    return values != NULL ? values_of(call, x, indices, values, batch, dim, k, false) : RP_OK;
}

/* Softmax over the experts (Mixtral, Qwen), or a sigmoid of each logit (DeepSeek-V3). */
static RpStatus probabilities(const NnCall *call, const float *logits, float *probs, int64_t tokens, int32_t experts,
                              bool sigmoid) {
    if (!sigmoid) return rp_nn_call_softmax(call, logits, probs, tokens, experts);
    const RpOpParams none = {0};
    const RpOpArgs   args = {.dst     = rp_nn_view(RP_F32, probs, experts, tokens, 1),
                             .unary.x = rp_nn_view(RP_F32, logits, experts, tokens, 1),
                             .params  = &none};
    return rp_nn_run(call, RP_OP_SIGMOID, &args);
}

RpStatus rp_nn_call_route(const NnCall *call, const float *logits, float *probs, int32_t *ids, float *weights,
                          int64_t tokens, int32_t experts, int32_t k, int32_t sigmoid, int32_t normalize) {
    bool empty;
    RP_TRY(rows("route", tokens, experts, &empty));
    if (empty) return RP_OK;
    RP_TRY(choice("route", k, experts));
    RP_NN_NOT_NULL("route", logits);
    RP_NN_NOT_NULL("route", probs);
    RP_NN_NOT_NULL("route", ids);
    RP_NN_NOT_NULL("route", weights);
    RP_TRY(probabilities(call, logits, probs, tokens, experts, sigmoid != 0));
    RP_TRY(select_largest(call, probs, ids, tokens, experts, k));
    return values_of(call, probs, ids, weights, tokens, experts, k, normalize != 0);
}

RpStatus rp_nn_call_combine(const NnCall *call, const float *x, const float *weights, float *y, int64_t tokens,
                            int32_t k, int32_t dim) {
    bool empty;
    RP_TRY(rows("combine", tokens, dim, &empty));
    if (k < 1) return rp_fail(RP_E_ARG, "combine: k = %d: must be at least 1", k);
    RP_TRY(rp_nn_sizes("combine", tokens * dim, k, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("combine", x);
    RP_NN_NOT_NULL("combine", weights);
    RP_NN_NOT_NULL("combine", y);
    const RpOpParams none = {0};
    const RpOpArgs   args = {
          .dst    = rp_nn_view(RP_F32, y, dim, tokens, 1),
          .src    = {rp_nn_view(RP_F32, x, dim, k, tokens), rp_nn_view(RP_F32, weights, k, tokens, 1)},
          .params = &none
    };
    return rp_nn_run(call, RP_OP_COMBINE, &args);
}
