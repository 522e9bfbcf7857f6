/* ops.h - the one list of operations. To add an op:
 *
 *   1. a row below, and a params struct above it if it has parameters
 *   2. a shape rule in graph/shape.c, if none fits
 *   3. fallback/<name>.c    RpStatus rp_cpu_<name>(const OpArgs *, KernelCtx *)
 *      kernels/<name>.cu    RpStatus rp_cuda_<name>(const OpArgs *, KernelCtx *)
 *   4. tests/test_<name>.c  Test(<name>, ...): a behaviour and a refusal
 *
 * A missing kernel is a link error; a missing test fails the layout test.
 */
#ifndef REPRISE_OPS_H
#define REPRISE_OPS_H

#include "reprise/tensor.h"

#include <stdbool.h>

#define RP_MAX_SRC 14

typedef struct NoParams {
    int32_t unused;
} NoParams;

typedef struct GetRowsParams {
    float scale; /* times this; 0: as they are */
} GetRowsParams;

typedef struct BitsParams {
    RpDtype dtype; /* of the same size as the source's */
} BitsParams;

/* What a fused product does with its f32 column before the product. */
typedef struct ColumnParams {
    int32_t norm;  /* 1: first through rms_norm with `eps` and the optional weight */
    float   eps;
    int32_t round; /* 1: then rounded to q8_act */
} ColumnParams;

typedef struct RmsNormParams {
    float eps;
} RmsNormParams;

/* Which part of a product the optional positions bound; attention uses both, so that the work of a token grows
 * with the positions in use and not with the context. */
typedef enum MulMatBound {
    RP_BOUND_NONE = 0,
    RP_BOUND_ROWS, /* rows m > pos[t] of the result are left unwritten */
    RP_BOUND_INNER /* only k <= pos[t] enter the sum */
} MulMatBound;

typedef struct MulMatParams {
    MulMatBound bound;
} MulMatParams;

typedef enum RopeMode {
    RP_ROPE_NORM = 0, /* pairs (2i, 2i+1) */
    RP_ROPE_NEOX      /* pairs (i, i + n_dims/2) */
} RopeMode;

typedef struct RopeParams {
    RopeMode mode;
    int32_t  n_dims;      /* rotated dimensions, the rest is copied; even, <= ne[0] */
    float    freq_base;   /* theta_i = pos * freq_scale * freq_base^(-2i/n_dims) / factor_i */
    float    freq_scale;  /* linear interpolation: 1/factor; 1 for none */
    float    ext_factor;  /* YaRN mix, 0 for none */
    float    attn_factor; /* magnitude of the rotation */
    float    beta_fast, beta_slow;
    int32_t  n_ctx_orig;  /* context of the training run, for YaRN */
} RopeParams;

typedef struct SoftMaxParams {
    float   scale;
    int32_t window; /* attend to the last `window` positions, 0 for all; needs positions */
} SoftMaxParams;

typedef enum GeluKind {
    RP_GELU_TANH = 0, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    RP_GELU_ERF       /* 0.5 x (1 + erf(x / sqrt 2)) */
} GeluKind;

typedef struct GeluParams {
    GeluKind kind;
} GeluParams;

typedef struct ScaleParams {
    float scale, bias;
} ScaleParams;

typedef struct CopyParams {
    RpDtype dtype; /* of the result, where there is no destination */
} CopyParams;

typedef struct ViewParams {
    int64_t ne[RP_MAX_DIMS];
    size_t  nb[RP_MAX_DIMS]; /* nb[0] is taken from the source */
    size_t  offset;          /* bytes */
} ViewParams;

typedef struct ReshapeParams {
    int64_t ne[RP_MAX_DIMS];
} ReshapeParams;

typedef struct PermuteParams {
    int32_t axis[RP_MAX_DIMS]; /* dimension i of the source becomes dimension axis[i] of the result */
} PermuteParams;

typedef struct AttentionParams {
    float   scale;
    int32_t window; /* as in SoftMaxParams */
    RpDtype dtype;  /* of the result: f32 [d,h,t], or q8_act [d*h,t] */
} AttentionParams;

typedef struct SwigluOaiParams {
    float alpha, limit;
} SwigluOaiParams;

typedef struct TopKParams {
    int32_t k;            /* chosen of a row */
    int32_t n_group;      /* 0 or 1: no groups; else the row is cut into so many groups of one size, */
    int32_t n_group_used; /* and only the so many groups whose two best add up to most take part */
} TopKParams;

typedef struct RouteParams {
    bool  soft_max;  /* the chosen values through a softmax among themselves; */
    bool  normalize; /* divided by their sum, or by 2^-14 where that is more; */
    bool  unused[2]; /* no padding: parameters are compared */
    float scale;     /* times this */
} RouteParams;

typedef struct LinearParams {
    ColumnParams column;
    float        scale;     /* of the sum with the bias; 1 for none */
    int32_t      post_norm; /* 1: the result through rms_norm with `post_eps` before the residual is added */
    float        post_eps;
} LinearParams;

typedef enum GateKind { RP_GATE_SILU = 0, RP_GATE_GELU_TANH, RP_GATE_GELU_ERF, RP_GATE_OAI } GateKind;

typedef struct GateUpParams {
    ColumnParams column;
    GateKind     kind;
    float        alpha, limit; /* of RP_GATE_OAI, as in SwigluOaiParams */
    RpDtype      dtype;        /* of the result: f32 or q8_act */
} GateUpParams;

typedef enum HeadNorm { RP_HEAD_NORM_NONE = 0, RP_HEAD_NORM_EACH, RP_HEAD_NORM_WHOLE } HeadNorm;

typedef struct QkvParams {
    ColumnParams column;
    int32_t      head_dim;
    HeadNorm     norm; /* of queries and keys before they are turned: of each head, or of all heads as one row */
    float        norm_eps;
    RopeParams   rope;
} QkvParams;

typedef enum RouterKind { RP_ROUTER_LOGITS = 0, RP_ROUTER_SOFT_MAX, RP_ROUTER_SIGMOID } RouterKind;

typedef struct RouterParams {
    ColumnParams column;
    RouterKind   kind; /* from logits to what is chosen from */
    float        soft_max_scale;
    TopKParams   top_k;
    RouteParams  route;
} RouterParams;

typedef struct ExpertsDownParams {
    float scale; /* of the sum; 1 for none */
} ExpertsDownParams;

enum {
    RP_FLAG_INPLACE    = 1 << 0, /* the result may take src0's memory when it has src0's dtype and shape */
    RP_FLAG_VIEW       = 1 << 1, /* costs nothing: the result is src0's memory seen otherwise */
    RP_FLAG_WRITES_DST = 1 << 2, /* where src1 is given, the result is src1's memory */
    RP_FLAG_FUSED      = 1 << 3, /* made by passes only */
    RP_FLAG_WRITES     = 8       /* from this bit on: the sources that are written to beside the result */
};
#define RP_WRITES(source) (1 << (RP_FLAG_WRITES + (source)))

/* Sources in [brackets] are optional and then NULL. t counts tokens, h heads. Every op leaves its sources unchanged,
 * but for those marked WRITES_DST.
 *
 *    ID        name       min max sources, params    shape rule  flags */
#define RP_KERNEL_OPS(OP)                                                                                        \
    /* y[:,t] = scale * w[:,ids[t]], as f32; src w [n, rows], ids i32 [t] */                                     \
    OP(GET_ROWS, get_rows, 2, 2, GetRowsParams, get_rows, 0)                                                          \
    /* y[r,:] = x[r,:] * rsqrt(mean(x[r,:]^2) + eps) * w[:]; src x, [w f32 [n]] */                               \
    OP(RMS_NORM, rms_norm, 1, 2, RmsNormParams, rms_norm, RP_FLAG_INPLACE)                                       \
    /* y[m,t,h,b] = sum_k w[k,m,h/g,b/g'] * x[k,t,h,b]; src w [k,m,..], x [k,t,..], [pos i32 [t]] */             \
    OP(MUL_MAT, mul_mat, 2, 3, MulMatParams, mul_mat, 0)                                                         \
    /* pairs of x[:,h,t] turned by the angle theta_i(pos[t]); src x [n,h,t], pos i32 [t], [factors f32 [n_dims/2]]; \
     * pos < 0 (no token) turns by 0 */                                                                          \
    OP(ROPE, rope, 2, 3, RopeParams, rope, RP_FLAG_INPLACE)                                                      \
    /* y[:,t,h] = softmax(scale * x[:,t,h] + mask[:,t]); src x [n,t,h], [mask f32|f16 [n,t]], [pos i32 [t]],     \
     * [sinks f32 [h]]: exp(sinks[h]) joins the sum of the exponentials; with pos only max(0, pos[t]-window+1) <= i <= pos[t] take part; those before get 0, those after are       \
     * left unwritten */                                                                                         \
    OP(SOFT_MAX, soft_max, 1, 4, SoftMaxParams, soft_max, RP_FLAG_INPLACE)                                       \
    /* y = x / (1 + exp(-x)) */                                                                                  \
    OP(SILU, silu, 1, 1, NoParams, unary, RP_FLAG_INPLACE)                                                       \
    /* y = 1 / (1 + exp(-x)) */                                                                                  \
    OP(SIGMOID, sigmoid, 1, 1, NoParams, unary, RP_FLAG_INPLACE)                                                 \
    /* y = g / (1 + exp(-alpha g)) * (u + 1), g = min(gate, limit), u = clamp(up, -limit, limit); src gate, up */ \
    OP(SWIGLU_OAI, swiglu_oai, 2, 2, SwigluOaiParams, swiglu_oai, RP_FLAG_INPLACE)                               \
    /* y = x * Phi(x), by the formula of `kind` */                                                               \
    OP(GELU, gelu, 1, 1, GeluParams, unary, RP_FLAG_INPLACE)                                                     \
    /* y = a * b; each dimension of b divides a's and repeats */                                                 \
    OP(MUL, mul, 2, 2, NoParams, binary, RP_FLAG_INPLACE)                                                        \
    /* y = a + b; likewise */                                                                                    \
    OP(ADD, add, 2, 2, NoParams, binary, RP_FLAG_INPLACE)                                                        \
    /* y = scale * x + bias */                                                                                   \
    OP(SCALE, scale, 1, 1, ScaleParams, unary, RP_FLAG_INPLACE)                                                  \
    /* y = x converted and packed; or, with a destination, d[:,pos[t]] = x[:,t] and y is d;                      \
     * src x, [d], [pos i32 [t]]; rows with pos < 0 are not stored */                                            \
    OP(COPY, copy, 1, 3, CopyParams, copy, RP_FLAG_WRITES_DST)                                                   \
    /* the indices of the k largest of x[:,t] + bias[:], largest first; of equals the lower index, NaN below    \
     * everything; src x f32 [n,t], [bias f32 [n]]; y i32 [k,t] */                                               \
    OP(TOP_K, top_k, 1, 2, TopKParams, top_k, 0)                                                                 \
    /* weights of the chosen experts: probs[ids[:,t],t], then what the parameters say;                           \
     * src probs f32 [n,t], ids i32 [k,t]; y f32 [k,t] */                                                        \
    OP(ROUTE, route, 2, 2, RouteParams, route, 0)                                                                \
    /* y[:,j,t] = w[:,:,ids[j,t]] * x[:,j,t], as mul_mat; 0 where the id is no expert;                           \
     * src w [n,m,experts], x [n,1|k,t], ids i32 [k,t]; y [m,k,t] */                                             \
    OP(MUL_MAT_ID, mul_mat_id, 3, 3, NoParams, mul_mat_id, 0)                                                    \
    /* y[:,j,t] = x[:,j,t] + b[:,ids[j,t]], nothing added where the id is no expert;                             \
     * src x f32 [m,k,t], b f32 [m,experts], ids i32 [k,t] */                                                    \
    OP(ADD_ID, add_id, 3, 3, NoParams, add_id, RP_FLAG_INPLACE)                                                  \
    /* y[:,t] = sum_j w[j,t] * x[:,j,t], in the order of j; src x f32 [n,k,t], w f32 [k,t]; y [n,t] */           \
    OP(COMBINE, combine, 2, 2, NoParams, combine, 0)                                                             \
    /* the next token (sampler.h) from its logits into the step state (step.h), which is the result;                \
     * src logits f32 [n], state i32 [s], scratch f32 [2n], whose contents mean nothing */                       \
    OP(SAMPLE, sample, 3, 3, NoParams, sample, RP_FLAG_WRITES_DST)                                               \
    /* Products of one token with what stands around them. c = column(x): x f32 [n] through rms_norm with [norm      \
     * f32 [n]], then rounded to q8_act, as ColumnParams say; x q8_act as it is.                                      \
     * y = post_norm(scale * (w c + bias)) + residual; src w [n,m], x, [norm], [bias f32 [m]], [residual f32 [m]],    \
     * [post_norm f32 [m]]; y [m] */                                                                                  \
    OP(LINEAR, linear, 2, 6, LinearParams, linear, RP_FLAG_FUSED)                                                     \
    /* y = act(gate c + bias) * (up c + bias), or the form of `kind`; src gate and up [n,m] or [n,m,experts], x,      \
     * [norm], [ids i32 [k]], [bias of gate], [bias of up], f32 [m] or [m,experts]; y [m], with ids [m,k] */          \
    OP(GATE_UP, gate_up, 3, 7, GateUpParams, gate_up, RP_FLAG_FUSED)                                                  \
    /* Queries, keys and values of one token: y = rope(norm(wq c + bias)) as [d,h]; rope(norm(wk c + bias)) and       \
     * wv c + bias go to row pos of the caches. src wq, wk, wv [n,rows], x, pos i32 [1], k and v caches [rows,n_ctx], \
     * [norm of x], [biases of q, k, v], [norms of q and k: f32 [d], or [rows] if whole], [rope factors] */           \
    OP(QKV, qkv, 7, 14, QkvParams, qkv, RP_FLAG_FUSED | RP_WRITES(5) | RP_WRITES(6))                                  \
    /* A token's experts and their weights: i32 [k,2], ids as top_k gives them from the probabilities w c + bias,     \
     * then the bits of the f32 that route gives; src w [n,experts], x, [norm], [bias], [bias of the choice] */       \
    OP(ROUTER, router, 2, 5, RouterParams, router, RP_FLAG_FUSED)                                                     \
    /* y = scale * sum_j weights[j] (w[:,:,ids[j]] x[:,j] + bias[:,ids[j]]) + residual, in the order of j;            \
     * src w [n,m,experts], x f32 or q8_act [n,k], ids i32 [k], weights f32 [k], [bias f32 [m,experts]],              \
     * [residual f32 [m]]; y [m] */                                                                                   \
    OP(EXPERTS_DOWN, experts_down, 4, 6, ExpertsDownParams, experts_down, RP_FLAG_FUSED)                              \
    /* y = x as q8_act: scale = max|x| / 127 over 32 elements, quants = round(x / scale) */                      \
    OP(QUANTIZE, quantize, 1, 1, NoParams, quantize, RP_FLAG_FUSED)                                              \
    /* y[:,h,t] = sum_i softmax_i(scale * k[:,i,h/g] . q[:,t,h]) * v[:,i,h/g] over                               \
     * max(0, pos[t]-window+1) <= i <= pos[t]; src q f32 [d,t,h], k and v f16 or q8_0 [d,n,hkv], pos i32 [t],     \
     * [sinks f32 [h]], as in soft_max; as q8_act the heads of a token are one row */                            \
    OP(ATTENTION, attention, 4, 5, AttentionParams, attention, 0)

#define RP_VIEW_OPS(OP)                                                                                          \
    /* ne, nb and offset as given; must lie within x's memory */                                                 \
    OP(VIEW, view, 1, 1, ViewParams, view, RP_FLAG_VIEW)                                                         \
    /* the same elements in another shape; x packed */                                                           \
    OP(RESHAPE, reshape, 1, 1, ReshapeParams, reshape, RP_FLAG_VIEW)                                             \
    /* dimensions reordered */                                                                                   \
    OP(PERMUTE, permute, 1, 1, PermuteParams, permute, RP_FLAG_VIEW)                                             \
    /* dimensions 0 and 1 swapped */                                                                             \
    OP(TRANSPOSE, transpose, 1, 1, NoParams, transpose, RP_FLAG_VIEW)                                            \
    /* the same memory as another dtype of the same size */                                                      \
    OP(BITS, bits, 1, 1, BitsParams, bits, RP_FLAG_VIEW)                                                         \
    /* x's memory after the node in src1 has written to it */                                                    \
    OP(AFTER, after, 2, 2, NoParams, after, RP_FLAG_VIEW | RP_FLAG_FUSED)

#define RP_OPS(OP) RP_KERNEL_OPS(OP) RP_VIEW_OPS(OP)

typedef enum TensorOp {
#define OP(ID, name, min_src, max_src, Params, shape, flags) RP_OP_##ID,
    RP_OPS(OP)
#undef OP
    RP_OP_COUNT /* from here on: ops of extend.h */
} TensorOp;

/* Of an op of extend.h. */
typedef struct CustomParams {
    float   f[8];
    int32_t i[8];
} CustomParams;

/* One typed member an op: params.rms_norm.eps, never an index. */
typedef union OpParams {
    CustomParams custom;
#define OP(ID, name, min_src, max_src, Params, shape, flags) Params name;
    RP_OPS(OP)
#undef OP
} OpParams;

#endif
