/* op_params.h - the parameters of the ops of ops.h, which includes this file: one struct per op. The formulas stand
 * beside the rows of ops.h.
 *
 *   const RpOpParams p = {.soft_max = {.scale = 0.125f}};
 */
#ifndef REPRISE_OP_PARAMS_H
#define REPRISE_OP_PARAMS_H

#include "reprise/tensor.h"

#include <stdbool.h>

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

typedef struct RpRmsNormParams {
    float eps;
} RpRmsNormParams;

/* The dimension of a product that the optional positions limit. Attention uses both, so that the work of a token grows
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
 * which YaRN (ext_factor != 0, arXiv:2309.00071) mixes with the angle without |freq_scale|. With freq_base 0 the
 * factors are the frequencies themselves: theta_i = pos * freq_scale * factor_i. */
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
    int32_t block;  /* with a table: positions of a block of the cache, a multiple of 32; else 0 */
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

typedef struct RpExpertLoadParams {
    int32_t experts;
} RpExpertLoadParams;

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

typedef struct RpFillParams {
    int64_t ne[RP_MAX_DIMS]; /* of the result */
    float   value;
    int32_t unused; /* explicit padding, because parameters are compared with memcmp */
} RpFillParams;

typedef struct RpLinearCrossEntropyParams {
    float scale; /* factor of the logits; 0: none */
} RpLinearCrossEntropyParams;

/* Floats of a column in the statistics of op linear_cross_entropy: the largest logit, the sum of exp(logit - largest),
 * the target's logit. */
enum { RP_LINEAR_STATS = 3 };

/* Parameters of a custom op (extend.h): its kernels decide what they mean. */
typedef struct RpCustomParams {
    float   f[8];
    int32_t i[8];
} RpCustomParams;

#endif
