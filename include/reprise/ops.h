/* ops.h - the one list of operations: name, sources, parameters, shape rule, flags and mathematics of each. The enum
 * TensorOp, the unions of parameters and sources, the table of the dumps and the kernel tables of every backend are
 * made from it (I7).
 *
 *   const RpOpParams p = {.rms_norm = {.eps = 1e-5f}};
 *   TensorNode *sources[2] = {x, w};
 *   TensorNode *y = rp_graph_op(g, RP_OP_RMS_NORM, &p, sources, 2);
 *
 * To add an op: a row below, fallback/<name>.c, kernels/<name>.cu and tests/ops/test_<name>.c; docs/add-an-op.md shows
 * it with an example.
 */
#ifndef REPRISE_OPS_H
#define REPRISE_OPS_H

#include "reprise/tensor.h"
#include "reprise/ops_training.h"

#include <stdbool.h>

#define RP_MAX_SRC 14

/* For ops without parameters: a struct needs a member. */
typedef struct RpNoParams {
    int32_t unused;
} RpNoParams;

typedef struct RpGetRowsParams {
    float scale; /* factor of the fetched rows; 0: none */
} RpGetRowsParams;

typedef struct RpBitsParams {
    RpDtype dtype; /* of the same size as that of the source */
} RpBitsParams;

/* Prologue of a fused product: what happens to its activation vector x, the column, before the product. */
typedef struct RpColumnParams {
    int32_t norm; /* 1: rms_norm with `eps` and the optional weight */
    float   eps;
    int32_t round; /* 1: then quantise to q8_act */
} RpColumnParams;

typedef struct RpRmsNormParams {
    float eps;
} RpRmsNormParams;

/* Which dimension of a product the optional positions limit. Attention uses both, so that the work of a token grows
 * with the positions in use and not with the context:
 *
 *     scores[i]  = k[:,i] . q             RP_BOUND_ROWS:  only i <= pos[t] are computed
 *     out        = sum_i p[i] * v[:,i]    RP_BOUND_INNER: only i <= pos[t] are summed */
typedef enum RpMulMatBound {
    RP_BOUND_NONE = 0,
    RP_BOUND_ROWS, /* rows m > pos[t] of the result are not computed: their contents mean nothing */
    RP_BOUND_INNER /* only k <= pos[t] enter the sum */
} RpMulMatBound;

typedef struct RpMulMatParams {
    RpMulMatBound bound;
} RpMulMatParams;

typedef enum RpRopeMode {
    RP_ROPE_NORM = 0, /* pairs (2i, 2i+1) */
    RP_ROPE_NEOX      /* pairs (i, i + n_dims/2) */
} RpRopeMode;

/* Rotary position embedding (Su et al. 2021, arXiv:2104.09864). Pair i is rotated by the angle
 *
 *     theta_i = pos * freq_scale * freq_base^(-2i/n_dims) / factor_i
 *
 * which YaRN (ext_factor != 0, yarn.h) mixes with the angle without |freq_scale|. With freq_base 0 the factors are the
 * frequencies themselves: theta_i = pos * freq_scale * factor_i. */
typedef struct RpRopeParams {
    RpRopeMode mode;
    int32_t    n_dims; /* rotated elements of a row, even, <= ne[0]; the others are copied */
    float      freq_base;
    float      freq_scale;           /* linear interpolation of positions: 1 / factor; 1: none */
    float      ext_factor;           /* weight of the YaRN mix; 0: no YaRN */
    float      attn_factor;          /* the rotated pair is multiplied by it */
    float      beta_fast, beta_slow; /* YaRN: turns over n_ctx_orig at the ends of the ramp */
    int32_t    n_ctx_orig;           /* YaRN: positions that the model was first trained for */
} RpRopeParams;

typedef struct RpSoftMaxParams {
    float   scale;
    int32_t window; /* sliding window: only the last `window` positions count; 0: all. Needs positions */
} RpSoftMaxParams;

typedef enum RpGeluKind {
    RP_GELU_TANH = 0, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    RP_GELU_ERF       /* 0.5 x (1 + erf(x / sqrt 2)) */
} RpGeluKind;

typedef struct RpGeluParams {
    RpGeluKind kind;
} RpGeluParams;

typedef struct RpScaleParams {
    float scale, bias;
} RpScaleParams;

typedef struct RpCopyParams {
    RpDtype dtype; /* of the result, if there is no destination */
} RpCopyParams;

typedef struct RpViewParams {
    int64_t ne[RP_MAX_DIMS];
    size_t  nb[RP_MAX_DIMS]; /* byte strides; nb[0] is ignored, that of the source holds */
    size_t  offset;          /* bytes from the beginning of the source */
} RpViewParams;

typedef struct RpReshapeParams {
    int64_t ne[RP_MAX_DIMS];
} RpReshapeParams;

typedef struct RpPermuteParams {
    int32_t axis[RP_MAX_DIMS]; /* dimension i of the source becomes dimension axis[i] of the result */
} RpPermuteParams;

typedef struct RpAttentionParams {
    float   scale;
    int32_t window; /* as in RpSoftMaxParams */
    RpDtype dtype;  /* of the result: RP_F32 [d,h,t], or RP_Q8_ACT [d*h,t] */
    int32_t causal; /* not 0: without pos, the tokens are the last t of the n_ctx positions; 0: each sees all of them */
} RpAttentionParams;

typedef struct RpSwigluOaiParams {
    float alpha, limit;
} RpSwigluOaiParams;

/* As in RpSamplerParams (sampler.h). */
typedef struct RpSampleRowsParams {
    float   temperature; /* 0: the token with the highest logit */
    int32_t top_k;
    float   top_p, min_p;
} RpSampleRowsParams;

typedef struct RpTopKParams {
    int32_t k;            /* how many of a row are selected */
    int32_t n_group;      /* 0 or 1: no groups; else the row is divided into n_group groups of equal size */
    int32_t n_group_used; /* select only from the n_group_used groups with the largest sum of their two best values
                             (DeepSeek-V3, arXiv:2412.19437, 2.1.2) */
} RpTopKParams;

/* Applied in this order to the values of the selected experts. */
typedef struct RpRouteParams {
    bool  soft_max;  /* softmax over the selected values */
    bool  normalize; /* divide by max(their sum, 2^-14) */
    bool  unused[2]; /* explicit padding, because parameters are compared with memcmp */
    float scale;     /* factor */
} RpRouteParams;

/* Epilogue of op linear: y = post_norm(scale * (w c + bias)) + residual. */
typedef struct RpLinearParams {
    RpColumnParams column;
    float          scale;     /* 1: none */
    int32_t        post_norm; /* 1: rms_norm with `post_eps` before the residual is added */
    float          post_eps;
} RpLinearParams;

/* act(gate) * up with act = silu, gelu by tanh or gelu by erf; or the form of op swiglu_oai. */
typedef enum RpGateKind { RP_GATE_SILU = 0, RP_GATE_GELU_TANH, RP_GATE_GELU_ERF, RP_GATE_OAI } RpGateKind;

typedef struct RpGateUpParams {
    RpColumnParams column;
    RpGateKind     kind;
    float          alpha, limit; /* for RP_GATE_OAI, as in RpSwigluOaiParams */
    RpDtype        dtype;        /* of the result: RP_F32 or RP_Q8_ACT */
} RpGateUpParams;

/* RMSNorm of queries and keys before the rotation: none, of each head, or of all heads as one row. */
typedef enum RpHeadNorm { RP_HEAD_NORM_NONE = 0, RP_HEAD_NORM_EACH, RP_HEAD_NORM_WHOLE } RpHeadNorm;

typedef struct RpQkvParams {
    RpColumnParams column;
    int32_t        head_dim;
    RpHeadNorm     norm;
    float          norm_eps;
    RpRopeParams   rope;
} RpQkvParams;

/* Which function of the router's logits the experts are selected by. */
typedef enum RpRouterKind { RP_ROUTER_LOGITS = 0, RP_ROUTER_SOFT_MAX, RP_ROUTER_SIGMOID } RpRouterKind;

typedef struct RpRouterParams {
    RpColumnParams column;
    RpRouterKind   kind;
    float          soft_max_scale; /* for RP_ROUTER_SOFT_MAX */
    RpTopKParams   top_k;
    RpRouteParams  route;
    int32_t        quantize; /* the result has the column too, as q8_act; the products of the experts read it */
} RpRouterParams;

typedef struct RpExpertsDownParams {
    float scale; /* factor of the sum; 1: none */
} RpExpertsDownParams;

typedef struct RpExpertLoadParams {
    int32_t experts;
} RpExpertLoadParams;

typedef struct RpAuxLossBackwardParams {
    int32_t tokens; /* columns of the result */
} RpAuxLossBackwardParams;

/* The state of op grad_norm, f32 [RP_GRAD_NORM_FLOATS]:
 *
 *     norm | sum of squares: high, low | unused | sum of squares of each part of the last tensor: high, low, ...
 *
 * A sum is the sum of two floats, about 46 bits. */
enum { RP_GRAD_NORM_PARTS = 512, RP_GRAD_NORM_FLOATS = 4 + 2 * RP_GRAD_NORM_PARTS };

typedef struct RpGradNormParams {
    int32_t first; /* 1: the sum begins with this tensor; 0: it goes on */
} RpGradNormParams;

typedef struct RpGradClipParams {
    float max_norm;
} RpGradClipParams;

typedef struct RpAdamwParams {
    float   beta1, beta2, eps, weight_decay;
    float   lr;   /* where the source lr is absent */
    int32_t step; /* where the source step is absent; from 1 */
} RpAdamwParams;

typedef struct RpGemmParams {
    float alpha, beta;
} RpGemmParams;

typedef struct RpSoftMaxBackwardParams {
    float scale; /* that of the op soft_max */
} RpSoftMaxBackwardParams;

typedef struct RpAttentionBackwardParams {
    float   scale;
    int32_t window; /* as in RpSoftMaxParams */
    int32_t causal; /* not 0: the queries are the last of the keys' positions */
} RpAttentionBackwardParams;

typedef struct RpGetRowsBackwardParams {
    int32_t rows;  /* of the table */
    float   scale; /* as in RpGetRowsParams */
} RpGetRowsBackwardParams;

typedef struct RpRepeatBackwardParams {
    int64_t ne[RP_MAX_DIMS]; /* of the result */
} RpRepeatBackwardParams;

typedef struct RpMulMatIdBackwardParams {
    int32_t experts; /* of the weights */
} RpMulMatIdBackwardParams;

typedef struct RpFillParams {
    int64_t ne[RP_MAX_DIMS]; /* of the result */
    float   value;
    int32_t unused; /* explicit padding, because parameters are compared with memcmp */
} RpFillParams;

enum {
    RP_FLAG_INPLACE    = 1 << 0, /* the result may take the memory of source 0 if it has its dtype and shape (I6) */
    RP_FLAG_VIEW       = 1 << 1, /* computes nothing: the result is the memory of source 0 */
    RP_FLAG_WRITES_DST = 1 << 2, /* if source RP_STORE_TARGET is given, the result is its memory */
    RP_FLAG_FUSED      = 1 << 3, /* made by passes only */
    RP_FLAG_WRITES     = 8       /* bits 8 and up: bit 8+i means that the op also writes to source i */
};
#define RP_WRITES(source) (1 << (RP_FLAG_WRITES + (source)))
enum { RP_STORE_TARGET = 1 };

/* Parameters that several ops have. */
#define RP_COLUMN_FIELDS column.norm, column.eps, column.round
#define RP_ROPE_FIELDS(of)                                                                                            \
    of mode, of n_dims, of freq_base, of freq_scale, of ext_factor, of attn_factor, of beta_fast, of beta_slow,       \
        of n_ctx_orig

typedef struct RpLinearCrossEntropyParams {
    float scale; /* factor of the logits; 0: none */
} RpLinearCrossEntropyParams;

/* Floats of a column in the statistics of op linear_cross_entropy: the largest logit, the sum of exp(logit - largest), the
 * target's logit. */
enum { RP_LINEAR_STATS = 3 };

/* The table of ops, with the mathematics above each row:
 *
 *     OP(ID, name, required, (sources), params struct, (parameters), shape rule, flags)
 *
 * `required` of the sources must be given; the others, in [brackets] in the comments, are optional: an absent one is
 * NULL. Kernels, shape rules, passes and dumps use the names: args->rms_norm.w is source w of op rms_norm, and
 * RP_SOURCE(rms_norm, w) its number. The list of parameters names every member of the params struct, in order; dumps
 * print them, except those named `unused`.
 *
 * x[:,t] is column t of x; shapes list the innermost dimension first. t counts tokens, h heads, g query heads per key
 * head. The type is f32 if none is given. Ops do not change their sources, except WRITES_DST and RP_WRITES. */
#define RP_KERNEL_OPS(OP)                                                                                              \
    /* y[:,t] = scale * w[:,ids[t]], dequantised to f32; without ids all rows: y[:,t] = scale * w[:,t]                 \
     * src w [n,rows], [ids i32 [t]]; y [n,t] */                                                                       \
    OP(GET_ROWS, get_rows, 1, (w, ids), RpGetRowsParams, (scale), get_rows, 0)                                         \
    /* y[r,:] = x[r,:] * rsqrt(mean(x[r,:]^2) + eps) * w[:]                                                            \
     * src x, [w [n]] */                                                                                               \
    OP(RMS_NORM, rms_norm, 1, (x, w), RpRmsNormParams, (eps), rms_norm, RP_FLAG_INPLACE)                               \
    /* y[m,t,h,b] = sum_k w[k,m,h/g,b/g'] * x[k,t,h,b]                                                                 \
     * src w [k,m,..] of a weight type, x [k,t,..] f32 or q8_act, [pos i32 [t]]; y [m,t,..] */                         \
    OP(MUL_MAT, mul_mat, 2, (w, x, pos), RpMulMatParams, (bound), mul_mat, 0)                                          \
    /* pairs of x[:,h,t] rotated by theta_i(pos[t]), the rest copied; pos < 0 (padding) rotates by 0                   \
     * src x [n,h,t], pos i32 [t], [factors [n_dims/2]], of the frequencies */                                         \
    OP(ROPE, rope, 2, (x, pos, factors), RpRopeParams, (RP_ROPE_FIELDS()), rope, RP_FLAG_INPLACE)                      \
    /* y[:,t,h] = softmax(scale * x[:,t,h] + mask[:,t])                                                                \
     * With pos, only i in first..pos[t] take part, first = max(0, pos[t]-window+1): y[i] is 0 for i < first           \
     * and not written for i > pos[t]. exp(sinks[h]) is added to the sum of the exponentials.                          \
     * src x [n,t,h], [mask f32 or f16 [n,t]], [pos i32 [t]], [sinks [h]] */                                           \
    OP(SOFT_MAX, soft_max, 1, (x, mask, pos, sinks), RpSoftMaxParams, (scale, window), soft_max, RP_FLAG_INPLACE)      \
    /* y = x / (1 + exp(-x)) */                                                                                        \
    OP(SILU, silu, 1, (x), RpNoParams, (unused), unary, RP_FLAG_INPLACE)                                               \
    /* y = 1 / (1 + exp(-x)) */                                                                                        \
    OP(SIGMOID, sigmoid, 1, (x), RpNoParams, (unused), unary, RP_FLAG_INPLACE)                                         \
    /* y = g / (1 + exp(-alpha g)) * (u + 1), g = min(gate, limit), u = clamp(up, -limit, limit)                       \
     * src gate, up */                                                                                                 \
    OP(SWIGLU_OAI, swiglu_oai, 2, (gate, up), RpSwigluOaiParams, (alpha, limit), swiglu_oai, RP_FLAG_INPLACE)          \
    /* y = x * Phi(x), Phi the normal distribution function, by the formula of RpGeluKind */                           \
    OP(GELU, gelu, 1, (x), RpGeluParams, (kind), unary, RP_FLAG_INPLACE)                                               \
    /* y = a * b; each dimension of b divides that of a and repeats */                                                 \
    OP(MUL, mul, 2, (a, b), RpNoParams, (unused), binary, RP_FLAG_INPLACE)                                             \
    /* y = a + b; b repeats as in mul */                                                                               \
    OP(ADD, add, 2, (a, b), RpNoParams, (unused), binary, RP_FLAG_INPLACE)                                             \
    /* y = scale * x + bias */                                                                                         \
    OP(SCALE, scale, 1, (x), RpScaleParams, (scale, bias), unary, RP_FLAG_INPLACE)                                     \
    /* y = x converted, contiguous; or a store: to[:,pos[t]] = x[:,t], rows with pos < 0 skipped; y is `to`            \
     * src x, [to], [pos i32 [t]] */                                                                                   \
    OP(COPY, copy, 1, (x, to, pos), RpCopyParams, (dtype), copy, RP_FLAG_WRITES_DST)                                   \
    /* y[:,t] = indices of the k largest of x[:,t] + bias[:], largest first; among equals the lower index              \
     * first, NaN below everything                                                                                     \
     * src x [n,t], [bias [n]]; y i32 [k,t] */                                                                         \
    OP(TOP_K, top_k, 1, (x, bias), RpTopKParams, (k, n_group, n_group_used), top_k, 0)                                 \
    /* weights of the selected experts: probs[ids[:,t],t], then RpRouteParams                                          \
     * src probs [n,t], ids i32 [k,t]; y [k,t] */                                                                      \
    OP(ROUTE, route, 2, (probs, ids), RpRouteParams, (soft_max, normalize, unused, scale), route, 0)                   \
    /* y[:,j,t] = w[:,:,ids[j,t]] * x[:,j,t] as in mul_mat, 0 if the id is not in 0..experts-1                         \
     * src w [n,m,experts], x [n,k,t], or [n,1,t] for one column per token, ids i32 [k,t]; y [m,k,t] */                \
    OP(MUL_MAT_ID, mul_mat_id, 3, (w, x, ids), RpNoParams, (unused), mul_mat_id, 0)                                    \
    /* y[:,j,t] = x[:,j,t] + b[:,ids[j,t]], or x[:,j,t] if the id is not in 0..experts-1                               \
     * src x [m,k,t], b [m,experts], ids i32 [k,t] */                                                                  \
    OP(ADD_ID, add_id, 3, (x, b, ids), RpNoParams, (unused), add_id, RP_FLAG_INPLACE)                                  \
    /* y[:,t] = sum_j weights[j,t] * x[:,j,t], summed in the order of j                                                \
     * src x [n,k,t], weights [k,t]; y [n,t] */                                                                        \
    OP(COMBINE, combine, 2, (x, weights), RpNoParams, (unused), combine, 0)                                            \
    /* samples the next token (sampler.h) from its logits into the step state (step.h), which is the result            \
     * src logits [n], state i32 [words], scratch [2n], whose contents mean nothing; kernels also take [..,t] of each */ \
    OP(SAMPLE, sample, 3, (logits, state, scratch), RpNoParams, (unused), sample, RP_FLAG_WRITES_DST)                  \
    /* Fused products of one token. c = column(x) is their prologue (RpColumnParams): rms_norm with [norm],            \
     * then quantisation to q8_act; an x of type q8_act is used as it is.                                              \
     *                                                                                                                 \
     * y = post_norm(scale * (w c + bias)) + residual                                                                  \
     * src w [n,m], x [n], [norm [n]], [bias [m]], [residual [m]], [post_norm [m]]; y [m] */                           \
    OP(LINEAR, linear, 2, (w, x, norm, bias, residual, post_norm), RpLinearParams,                                     \
       (RP_COLUMN_FIELDS, scale, post_norm, post_eps), linear, RP_FLAG_FUSED)                                          \
    /* y = act(gate c + gate_bias) * (up c + up_bias), or the form of RpGateKind                                       \
     * src gate and up [n,m], or [n,m,experts] with ids, x, [norm], [ids i32 [k]],                                     \
     * [gate_bias], [up_bias], both [m] or [m,experts]; y [m] or [m,k] */                                              \
    OP(GATE_UP, gate_up, 3, (gate, up, x, norm, ids, gate_bias, up_bias), RpGateUpParams,                              \
       (RP_COLUMN_FIELDS, kind, alpha, limit, dtype), gate_up, RP_FLAG_FUSED)                                          \
    /* y = rope(norm(wq c + bq)); k_cache[:,pos] = rope(norm(wk c + bk)); v_cache[:,pos] = wv c + bv                   \
     * src wq, wk, wv [n,rows], x, pos i32 [1], k_cache and v_cache [rows,n_ctx], [norm] of x, [bq], [bk], [bv],       \
     * [q_norm], [k_norm], both [d] or [rows] for all heads, [factors] as in rope; y [d,h] */                          \
    OP(QKV, qkv, 7, (wq, wk, wv, x, pos, k_cache, v_cache, norm, bq, bk, bv, q_norm, k_norm, factors), RpQkvParams,    \
       (RP_COLUMN_FIELDS, head_dim, norm, norm_eps, RP_ROPE_FIELDS(rope.)), qkv,                                       \
       RP_FLAG_FUSED | RP_WRITES(RP_SOURCE(qkv, k_cache)) | RP_WRITES(RP_SOURCE(qkv, v_cache)))                        \
    /* y[:,0] = ids that top_k selects from f(w c + bias), f by RpRouterKind; y[:,1] = their weights by route,         \
     * as the bits of f32; with quantize y[:,2..] = c as q8_act, in words, then zeros                                  \
     * src w [n,experts], x, [norm], [bias], [select_bias], which only the selection adds;                             \
     * y i32 [k,2], with quantize [k, 2 + ceil(11 n / 32 / k)] */                                                      \
    OP(ROUTER, router, 2, (w, x, norm, bias, select_bias), RpRouterParams,                                             \
       (RP_COLUMN_FIELDS, kind, soft_max_scale, top_k.k, top_k.n_group, top_k.n_group_used, route.soft_max,            \
        route.normalize, route.unused, route.scale, quantize), router, RP_FLAG_FUSED)                                  \
    /* y = scale * sum_j weights[j] (w[:,:,ids[j]] x[:,j] + bias[:,ids[j]]) + residual, in the order of j              \
     * src w [n,m,experts], x f32 or q8_act [n,k], ids i32 [k], weights [k], [bias [m,experts]],                       \
     * [residual [m]]; y [m] */                                                                                        \
    OP(EXPERTS_DOWN, experts_down, 4, (w, x, ids, weights, bias, residual), RpExpertsDownParams, (scale),              \
       experts_down, RP_FLAG_FUSED)                                                                                    \
    /* y = x as q8_act (tensor.h): per 32 elements scale = max|x| / 127, quants = round(x / scale) */                  \
    OP(QUANTIZE, quantize, 1, (x), RpNoParams, (unused), quantize, RP_FLAG_FUSED)                                      \
    /* y[:,h,t,b] = sum_i softmax_i(scale * k[:,i,h/g,b] . q[:,t,h,b] + mask[i,t]) * v[:,i,h/g,b]                      \
     * over max(0, pos[t]-window+1) <= i <= pos[t], with sinks as in soft_max; 0 if a token sees nothing               \
     * src q [d,t,h,b], k and v f16, q8_0 or f32 [d,n_ctx,h/g,b], pos i32 [t], [sinks [h]], [mask [n_ctx,t]]           \
     * Only with f32: b > 1, a mask, and no pos (RpAttentionParams.causal).                                            \
     * y [d,h,t,b], or q8_act [d*h,t] (not with f32), in which the heads of a token are one row */                     \
    OP(ATTENTION, attention, 3, (q, k, v, pos, sinks, mask), RpAttentionParams, (scale, window, dtype, causal),        \
       attention, 0)                                                                                                   \
    /* y[t] = a token sampled from logits[:,t] as sample does it, with number 0 of the random numbers of seeds[:,t];   \
     * -1 if every logit is NaN or -inf                                                                                \
     * src logits [n,t], seeds i32 [2,t] (the low word of each first), scratch [2n+16,t], whose contents mean nothing  \
     * y i32 [t] */                                                                                                    \
    OP(SAMPLE_ROWS, sample_rows, 3, (logits, seeds, scratch), RpSampleRowsParams, (temperature, top_k, top_p, min_p),  \
       sample_rows, 0)                                                                                                 \
    /* ---- training: ops_training.h ---- */                                                                           \
    RP_TRAINING_OPS(OP)

/* Views: no kernel runs. */
#define RP_VIEW_OPS(OP)                                                                                                \
    /* ne, nb and offset as given; must lie within the memory of x */                                                  \
    OP(VIEW, view, 1, (x), RpViewParams, (ne, nb, offset), view, RP_FLAG_VIEW)                                         \
    /* the same elements in another shape; x is contiguous */                                                          \
    OP(RESHAPE, reshape, 1, (x), RpReshapeParams, (ne), reshape, RP_FLAG_VIEW)                                         \
    /* dimensions reordered */                                                                                         \
    OP(PERMUTE, permute, 1, (x), RpPermuteParams, (axis), permute, RP_FLAG_VIEW)                                       \
    /* dimensions 0 and 1 swapped */                                                                                   \
    OP(TRANSPOSE, transpose, 1, (x), RpNoParams, (unused), transpose, RP_FLAG_VIEW)                                    \
    /* the same memory as another dtype of the same size */                                                            \
    OP(BITS, bits, 1, (x), RpBitsParams, (dtype), bits, RP_FLAG_VIEW)                                                  \
    /* the memory of x after the node `writer` has written to it: gives readers of a store an order */                 \
    OP(AFTER, after, 2, (x, writer), RpNoParams, (unused), after, RP_FLAG_VIEW | RP_FLAG_FUSED)

#define RP_OPS(OP) RP_KERNEL_OPS(OP) RP_VIEW_OPS(OP)

typedef enum TensorOp {
#define OP(ID, name, required, sources, Params, fields, shape, flags) RP_OP_##ID,
    RP_OPS(OP)
#undef OP
    RP_OP_COUNT /* from here on: ops of extend.h */
} TensorOp;

/* Parameters of a custom op (extend.h): its kernels decide what they mean. */
typedef struct RpCustomParams {
    float   f[8];
    int32_t i[8];
} RpCustomParams;

/* One typed member per op: params->rms_norm.eps. */
typedef union RpOpParams {
    RpCustomParams custom;
#define OP(ID, name, required, sources, Params, fields, shape, flags) Params name;
    RP_OPS(OP)
#undef OP
} RpOpParams;

#endif
