/* private.h - the ops that programs do not name: passes make the fused ones, rp_graph_backward makes the gradients.
 * Their rows have the columns of reprise/ops.h, but no number: they are numbered in the order of the rows. Rows may be
 * added, moved and removed, because nothing here is part of the ABI. reprise/ops.h includes this file where RP_INTERNAL
 * is defined.
 *
 * An op that programs are to name moves to reprise/ops.h, with the next number there (docs/add-an-op.md). */
#ifndef OPS_PRIVATE_H
#define OPS_PRIVATE_H

#include "reprise/op_params.h"

/* Prologue of a fused product: what happens to its activation vector x, the column, before the product. */
typedef struct RpColumnParams {
    int32_t norm; /* 1: rms_norm with `eps` and the optional weight */
    float   eps;
    int32_t round; /* 1: then quantise to q8_act */
} RpColumnParams;

/* Activation of op linear. */
typedef enum RpLinearAct {
    RP_LINEAR_ACT_NONE = 0,
    RP_LINEAR_ACT_SILU,
    RP_LINEAR_ACT_GELU_TANH,
    RP_LINEAR_ACT_GELU_ERF,
    RP_LINEAR_ACT_RELU_SQR
} RpLinearAct;

/* xIELU (Huang and Schlag 2024, arXiv:2411.13010), see op xielu. */
typedef struct RpXieluParams {
    float positive, negative, beta, eps;
} RpXieluParams;

/* Epilogue of op linear: y = factor * (sum_norm(post_norm(act(scale * (w c + bias))) + residual) + sum_residual). */
typedef struct RpLinearParams {
    RpColumnParams column;
    float          scale; /* 1: none */
    RpLinearAct    act;
    int32_t        post_norm; /* 1: rms_norm with `post_eps` before the residual is added */
    float          post_eps;
    int32_t        sum_norm; /* 1: rms_norm with `sum_eps` of the sum with the residual; needs post_norm */
    float          sum_eps;
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
    int32_t        gates;      /* 1: wq has a gate behind each query head */
    int32_t        value_norm; /* 1: values are normed as well, without weights; with a norm of each head */
} RpQkvParams;

typedef struct RpProjectionsParams {
    RpColumnParams column; /* with round only quantised weights read the quantised column */
} RpProjectionsParams;

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
    float   scale;     /* factor of the sum; 1: none */
    int32_t post_norm; /* 1: rms_norm of the result with `post_eps` */
    float   post_eps;
} RpExpertsDownParams;

typedef struct RpGatedParams {
    int32_t norm; /* 1: rms_norm of x with `eps` and the optional weight */
    int32_t silu; /* 1: the factor is silu(z), 0: sigmoid(z) */
    float   eps;
} RpGatedParams;

typedef struct RpCausalConvParams {
    int32_t silu; /* 1: y = silu of the sums; 0: the sums */
} RpCausalConvParams;

typedef struct RpGatedDeltaParams {
    float   eps;
    int32_t grouped; /* heads of v that have one key head are adjacent */
} RpGatedDeltaParams;

typedef struct RpTemperatureParams {
    float   scale;
    int32_t length;
} RpTemperatureParams;

typedef struct RpLatentAttentionParams {
    float   scale; /* of the scores */
    RpDtype dtype; /* of the result: RP_F32 or RP_Q8_ACT */
    int32_t block; /* as in RpAttentionParams */
} RpLatentAttentionParams;

typedef struct RpLatentParams {
    int32_t      round; /* 1: the first elements of each head are quantised to q8_act before the product with k_b */
    float        eps;   /* of the norm */
    RpRopeParams rope;
} RpLatentParams;

typedef struct RpLayerNormParams {
    float eps;
} RpLayerNormParams;

typedef struct RpSoftCapParams {
    float scale;
} RpSoftCapParams;

typedef struct RpAuxLossBackwardParams {
    int32_t tokens; /* columns of the result */
} RpAuxLossBackwardParams;

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

/* The members of RpColumnParams, for lists of parameters. */
#define RP_COLUMN_FIELDS column.norm, column.eps, column.round

/* clang-format off */
/* The notation of the comments is that of reprise/ops.h. dx is the gradient of the loss with respect to x; dy is the
 * gradient with respect to y, the result of the op that is differentiated. */
#define RP_PRIVATE_OPS(OP, OP_VIEW)                                                                                    \
    /* Fused products of one token. c = column(x) is their prologue (RpColumnParams): rms_norm with [norm],            \
     * then quantisation to q8_act; an x of type q8_act is used as it is.                                              \
     *                                                                                                                 \
     * y = factor * (sum_norm(post_norm(act(scale * (w c + bias))) + residual) + sum_residual)                         \
     * src w [n,m], x [n], [norm [n]], [bias [m]], [residual [m]], [post_norm [m]], [factor [m] or [1]],               \
     * [sum_norm [m]], [sum_residual [m]]; y [m] */                                                                    \
    OP(-, LINEAR, linear, 2, (w, x, norm, bias, residual, post_norm, factor, sum_norm, sum_residual), RpLinearParams,  \
       (RP_COLUMN_FIELDS, scale, act, post_norm, post_eps, sum_norm, sum_eps), RP_FLAG_FUSED)                          \
    /* y = act(gate c + gate_bias) * (up c + up_bias), or the form of RpGateKind                                       \
     * src gate and up [n,m], or [n,m,experts] with ids, x, [norm], [ids i32 [k]],                                     \
     * [gate_bias], [up_bias], both [m] or [m,experts]; y [m] or [m,k]                                                 \
     * src with ids [shared_gate] and [shared_up] [n,m], of an expert that every token uses; y [m,k+1], its row last */\
    OP(-, GATE_UP, gate_up, 3, (gate, up, x, norm, ids, gate_bias, up_bias, shared_gate, shared_up), RpGateUpParams,   \
       (RP_COLUMN_FIELDS, kind, alpha, limit, dtype), RP_FLAG_FUSED)                                                   \
    /* y = rope(norm(wq c + bq)); k_cache[:,pos,:] = rope(norm(wk c + bk)); v_cache[:,pos,:] = wv c + bv               \
     * src wq [n,rows], x, pos i32 [1], [wk and wv [n,rows], k_cache and v_cache [d,n_ctx,heads]], [norm] of x,        \
     * [bq], [bk], [bv], [q_norm], [k_norm], both [d] or [rows] for all heads, [factors] as in rope, [rows i32 [1]],   \
     * the row of the caches instead of pos; y [d,h]                                                                   \
     * without wk, wv and caches: the queries alone, of a layer that attends to the caches of another one              \
     * rope.n_dims 0: without rotation                                                                                 \
     * gates 1: the heads of wq and bq are query 0, gate 0, query 1, gate 1, ...; y [d,2h] has the queries, then the   \
     * gates, which are sums without norm and rotation                                                                 \
     * value_norm 1: v_cache[:,pos,:] = norm(wv c + bv), of each head, without weights */                              \
    OP(-, QKV, qkv, 3, (wq, x, pos, wk, wv, k_cache, v_cache, norm, bq, bk, bv, q_norm, k_norm, factors, rows),        \
       RpQkvParams, (RP_COLUMN_FIELDS, head_dim, norm, norm_eps, RP_ROPE_FIELDS(rope.), gates, value_norm),            \
       RP_FLAG_FUSED |                                                                                                 \
       RP_WRITES(RP_SOURCE(qkv, k_cache)) | RP_WRITES(RP_SOURCE(qkv, v_cache)))                                        \
    /* y = wa c, then wb c, wc c and wd c behind it; with round float weights read c before its quantisation           \
     * src wa [n,a], wb [n,b], x [n], [norm [n]], [wc [n,c]], [wd [n,d]]; y [a+b+c+d] */                               \
    OP(-, PROJECTIONS, projections, 3, (wa, wb, x, norm, wc, wd), RpProjectionsParams, (RP_COLUMN_FIELDS),             \
       RP_FLAG_FUSED)                                                                                                  \
    /* y[:,0] = ids that top_k selects from f(w c + bias), f by RpRouterKind; y[:,1] = their weights by route,         \
     * as the bits of f32; with open y[0,2] = sigmoid(open c), as bits, then zeros; with quantize then c as q8_act, in \
     * words, then zeros                                                                                               \
     * src w [n,experts], x, [norm], [bias], [select_bias], which only the selection adds, [open [n]], the gate of a   \
     * shared expert; y i32 [k,2], with open two rows more, with quantize ceil(11 n / 32 / k) more */                  \
    OP(-, ROUTER, router, 2, (w, x, norm, bias, select_bias, open), RpRouterParams, (RP_COLUMN_FIELDS, kind,           \
       soft_max_scale, top_k.k, top_k.n_group, top_k.n_group_used, route.soft_max, route.normalize, route.unused,      \
       route.scale, quantize), RP_FLAG_FUSED)                                                                          \
    /* y = scale * sum_j weights[j] (w[:,:,ids[j]] x[:,j] + bias[:,ids[j]]) + residual, in the order of j              \
     * src w [n,m,experts], x f32 or q8_act [n,k], ids i32 [k], weights [k], [bias [m,experts]],                       \
     * [residual [m]]; y [m]                                                                                           \
     * src [shared [n,m]], of an expert that every token uses: x [n,k+1] has its column last, and y has the addend     \
     * open * shared x[:,k] + residual; [open [1]], 1 if absent                                                        \
     * src [scales [experts]]: weights[j] * scales[ids[j]] instead of weights[j]                                       \
     * post_norm 1, with src [post_norm [m]]: y = rms_norm of the above, before the residual */                        \
    OP(-, EXPERTS_DOWN, experts_down, 4, (w, x, ids, weights, bias, residual, shared, open, scales, post_norm),        \
       RpExpertsDownParams, (scale, post_norm, post_eps), RP_FLAG_FUSED)                                               \
    /* y[t] = 1 + scale * ln(1 + floor(pos[t] / length)), the factor of queries by which Ministral 3 keeps attention   \
     * sharp in long contexts; 1 for a negative position                                                               \
     * src pos i32 [t]; y [1,1,t] */                                                                                   \
    OP(-, TEMPERATURE, temperature, 1, (pos), RpTemperatureParams, (scale, length), 0)                                 \
    /* y = cap * tanh(scale * x / cap); src x, cap [1]; y as x */                                                      \
    OP(-, SOFT_CAP, soft_cap, 2, (x, cap), RpSoftCapParams, (scale), RP_FLAG_INPLACE)                                  \
    /* Attention over latent vectors, which are keys and values of all heads (DeepSeek-V2, arXiv:2405.04434):          \
     *     p = softmax_i(scale * (latent[:,i] . q[:,t,h] + key[:,i] . q_rope[:,t,h])) over i <= pos[t]                 \
     *     y[:,t,h] = sum_i p[i] * latent[:,i]                                                                         \
     * src q [n,t,h], latent f16 [n,n_ctx], key f16 [r,n_ctx], pos i32 [t], q_rope [r,t,h], [table] and [seq] as in    \
     * attention; y f32 or q8_act [n,t,h] */                                                                           \
    OP(-, LATENT_ATTENTION, latent_attention, 5, (q, latent, key, pos, q_rope, table, seq), RpLatentAttentionParams,   \
       (scale, dtype, block), 0)                                                                                       \
    /* Computes the query of latent attention for one token, and stores its latent vector and its key:                 \
     *     y = k_b[:,:,h] q[0..d,h] of each head h, then rope(q[d..d+r,h]) of each head                                \
     *     latent[:,pos] = rms_norm(kv[0..n]);  key[:,pos] = rope(kv[n..n+r])                                          \
     * src k_b [d,n,h], q [d+r,h], kv [n+r], pos i32 [1], latent f16 [n,n_ctx] and key f16 [r,n_ctx], both written,    \
     * [norm [n]], [factors] as in rope, [rows i32 [1]], the row of the caches instead of pos; y [(n+r)*h] */          \
    OP(-, LATENT, latent, 6, (k_b, q, kv, pos, latent, key, norm, factors, rows), RpLatentParams,                      \
       (round, eps, RP_ROPE_FIELDS(rope.)), RP_FLAG_FUSED | RP_WRITES(RP_SOURCE(latent, latent)) |                     \
       RP_WRITES(RP_SOURCE(latent, key)))                                                                              \
    /* y = norm(x) * silu(z), or x * sigmoid(z), by RpGatedParams                                                      \
     * src x, z of the shape of x, or its elements without gaps, [w [n]], of the norm */                               \
    OP(-, GATED, gated, 2, (x, z, w), RpGatedParams, (norm, silu, eps), RP_FLAG_FUSED | RP_FLAG_INPLACE)               \
    /* y = x as q8_act (tensor.h): per 32 elements scale = max|x| / 127, quants = round(x / scale) */                  \
    OP(-, QUANTIZE, quantize, 1, (x), RpNoParams, (unused), RP_FLAG_FUSED)                                             \
    /* the memory of x after the node `writer` has written to it: gives readers of a store an order */                 \
    OP_VIEW(-, AFTER, after, 2, (x, writer), RpNoParams, (unused), RP_FLAG_VIEW | RP_FLAG_FUSED)                       \
    /* ---- recurrent layers ----                                                                                      \
     * Their state is a matrix whose rows are slots. slots i32 [1+t]: the state before the first token is in slot      \
     * slots[0], or zeros if that is -1; the state after token t goes to slot slots[1+t], or nowhere if that is -1.    \
     * Tokens behind the last one with a slot are padding: y is 0 there. slots[0] may be among the others.             \
     * With starts i32 [t] there are several sequences, and slots[0] means nothing: token t is the first one after the \
     * state in slot starts[t], or after zeros if that is -1; it follows token t-1 if that is -2. No token writes to a \
     * slot that another sequence starts from. */                   \
    /* y[c,t] = open[c,t] * f(bias[c] + sum_j w[j,c] * gate[c,t-n+1+j] * x[c,t-n+1+j]), f(x) = silu(x) or x; columns   \
     * before the first token are those of the window, oldest first, with their gates                                  \
     * src x [c,t], w [n,c], window [c*(n-1),slots], which is written, slots, [bias [c]], [starts], [gate [c,t]] and   \
     * [open [c,t]], 1 if absent; y [c,t] */                                                                           \
    OP(-, CAUSAL_CONV, causal_conv, 4, (x, w, window, slots, bias, starts, gate, open), RpCausalConvParams, (silu),    \
       RP_WRITES(RP_SOURCE(causal_conv, window)))                                                                      \
    /* The gated delta rule (Yang et al. 2024, arXiv:2412.06464), token after token, with a state S[i,j] of each head: \
     *     k' = k / sqrt(sum k^2 + eps),  q' = q / sqrt((sum q^2 + eps) * d)                                           \
     *     g = exp(a * log(1 + exp(alpha + dt))),  b = 1 / (1 + exp(-beta))                                            \
     *     u[j] = b * (v[j] - g * sum_i k'[i] S[i,j]);  S[i,j] = g * S[i,j] + k'[i] * u[j];  y[j] = sum_i q'[i] S[i,j] \
     * src q and k [d,hk,t], v [d,h,t], alpha and beta [n0,n1,t] with n0 * n1 = h, a and dt [h], state [d*d*h,slots]   \
     * of S[h][i][j], which is written, slots, [starts]; y [d,h,t]. Head h has the key head h % hk, or with `grouped`  \
     * h*hk/h. */                                                                                                      \
    OP(-, GATED_DELTA, gated_delta, 9, (q, k, v, alpha, beta, a, dt, state, slots, starts), RpGatedDeltaParams,        \
       (eps, grouped), RP_WRITES(RP_SOURCE(gated_delta, state)))                                                       \
    /* The selective scan of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060), token after token, with a state S[i,j] of    \
     * each head:                                                                                                      \
     *     e = log(1 + exp(dt + bias)),  g = exp(a * e)                                                                \
     *     S[i,j] = g * S[i,j] + b[i] * e * x[j];  y[j] = (sum_i c[i] S[i,j] + d * x[j]) * z[j] / (1 + exp(-z[j]))     \
     * src x and z [p,h,t], dt [h,t], b and c [n,groups,t], a, d and bias [h], state [n*p*h,slots] of S[h][i][j],      \
     * which is written, slots, [starts]; y [p,h,t]. Head k has the b and c of group k*groups/h. */                    \
    OP(-, SSM_SCAN, ssm_scan, 10, (x, z, dt, b, c, a, d, bias, state, slots, starts), RpNoParams, (unused),            \
       RP_WRITES(RP_SOURCE(ssm_scan, state)))                                                                          \
    /* y = max(x, 0)^2 */                                                                                              \
    OP(-, RELU_SQR, relu_sqr, 1, (x), RpNoParams, (unused), RP_FLAG_INPLACE)                                           \
    /* y = positive * x^2 + beta * x above 0, else negative * (exp(min(x, eps)) - 1 - x) + beta * x; eps < 0 */        \
    OP(-, XIELU, xielu, 1, (x), RpXieluParams, (positive, negative, beta, eps), RP_FLAG_INPLACE)                       \
    /* y[r,:] = (x[r,:] - mean(x[r,:])) * rsqrt(var(x[r,:]) + eps) * w[:] + b[:]                                       \
     * src x, [w [n]], [b [n]] */                                                                                      \
    OP(-, LAYER_NORM, layer_norm, 1, (x, w, b), RpLayerNormParams, (eps), RP_FLAG_INPLACE)                             \
    /* ---- training: gradients ---- */                                                                                \
    /* dx = dy * s * (1 + x * (1 - s)), s = 1 / (1 + exp(-x))                                                          \
     * src dy, x of one shape; y = dx */                                                                               \
    OP(-, SILU_BACKWARD, silu_backward, 2, (dy, x), RpNoParams, (unused), RP_FLAG_INPLACE)                             \
    /* dx = dy * (Phi(x) + x * Phi'(x)), by the formula of RpGeluKind                                                  \
     * src dy, x of one shape; y = dx */                                                                               \
    OP(-, GELU_BACKWARD, gelu_backward, 2, (dy, x), RpGeluParams, (kind), RP_FLAG_INPLACE)                             \
    /* g = min(gate, limit), u = clamp(up, -limit, limit), s = 1 / (1 + exp(-alpha g))                                 \
     * dgate = dy * (u + 1) * s * (1 + alpha * g * (1 - s)), 0 where gate > limit                                      \
     * dup = dy * g * s, 0 where |up| > limit                                                                          \
     * src dy, gate, up, dup of one shape; dup is written; y = dgate */                                                \
    OP(-, SWIGLU_OAI_BACKWARD, swiglu_oai_backward, 4, (dy, gate, up, dup), RpSwigluOaiParams, (alpha, limit),         \
       RP_FLAG_INPLACE | RP_WRITES(RP_SOURCE(swiglu_oai_backward, dup)))                                               \
    /* dx[:,r] = scale * y[:,r] * (dy[:,r] - sum_i dy[i,r] * y[i,r])                                                   \
     * src dy, y of one shape; y = dx */                                                                               \
    OP(-, SOFT_MAX_BACKWARD, soft_max_backward, 2, (dy, y), RpSoftMaxBackwardParams, (scale), RP_FLAG_INPLACE)         \
    /* rstd[r] = 1 / sqrt(mean(x[:,r]^2) + eps)                                                                        \
     * dx[:,r] = rstd[r] * w * dy[:,r] - x[:,r] * rstd[r]^3 / n * sum_i dy[i,r] * w[i] * x[i,r]                        \
     * dw[i]   = sum_r dy[i,r] * x[i,r] * rstd[r]                                                                      \
     * src dy and x [n,r], contiguous, [w [n]], [dw [n]], [rstd [r]], for dw; dw and rstd are written; y = dx */       \
    OP(-, RMS_NORM_BACKWARD, rms_norm_backward, 2, (dy, x, w, dw, rstd), RpRmsNormParams, (eps),                       \
       RP_WRITES(RP_SOURCE(rms_norm_backward, dw)) | RP_WRITES(RP_SOURCE(rms_norm_backward, rstd)))                    \
    /* Gradients of y[:,h,t] = sum_i p[i] v[:,i,h/g], p = softmax_i(scale * k[:,i,h/g] . q[:,t,h]), over the i that op \
     * attention without pos sees, with window, causal and sinks as there.                                             \
     * p is computed again, in tiles, from statistics of each row (Dao 2023, arXiv:2307.08691):                        \
     *     delta = dy . y,  ds[i] = p[i] * (dy . v[:,i] - delta)                                                       \
     *     dv[:,i] = sum p[i] dy,  dq = scale * sum_i ds[i] k[:,i],  dk[:,i] = scale * sum ds[i] q;  sums over t and g \
     *     dsinks[h] = sum over t and b of of_sink,  of_sink = -exp(sinks[h]) / (sum of exponentials) * delta          \
     * src dy [d,h,t,b], q [d,t,h,b], k and v [d,i,h/g,b], y [d,h,t,b], dk and dv like k, which are written; stats     \
     * [3*t*h*b]: largest score, 1 / sum of exponentials, delta; [sinks [h]]: stats [4*t*h*b], with of_sink; y = dq */ \
    OP(-, ATTENTION_BACKWARD, attention_backward, 8, (dy, q, k, v, y, dk, dv, stats, sinks),                           \
       RpAttentionBackwardParams, (scale, window, causal), RP_WRITES(RP_SOURCE(attention_backward, dk)) |              \
       RP_WRITES(RP_SOURCE(attention_backward, dv)) | RP_WRITES(RP_SOURCE(attention_backward, stats)))                 \
    /* dw[:,r] = scale * sum of dy[:,t] over the t with ids[t] = r, in the order of t; other ids count for none        \
     * src dy [n,t], ids i32 [t]; y = dw [n,rows] */                                                                   \
    OP(-, GET_ROWS_BACKWARD, get_rows_backward, 2, (dy, ids), RpGetRowsBackwardParams, (rows, scale), 0)               \
    /* dx[:,j,t] = weights[j,t] * dy[:,t];  dweights[j,t] = sum_i dy[i,t] * x[i,j,t]                                   \
     * src dy [n,t], x [n,k,t], weights [k,t], dweights [k,t], which is written; y = dx */                             \
    OP(-, COMBINE_BACKWARD, combine_backward, 4, (dy, x, weights, dweights), RpNoParams, (unused),                     \
       RP_WRITES(RP_SOURCE(combine_backward, dweights)))                                                               \
    /* dprobs[ids[j,t],t] = gradient of route with respect to the probability of choice j; 0 where nothing was chosen  \
     * src dy [k,t], probs [n,t], ids i32 [k,t]; y = dprobs */                                                         \
    OP(-, ROUTE_BACKWARD, route_backward, 3, (dy, probs, ids), RpRouteParams, (soft_max, normalize, unused, scale), 0) \
    /* Sum over what mul and add repeat: y[i0,i1,i2,i3] = sum of dy at i0 + a0 ne[0], i1 + a1 ne[1], ...               \
     * src dy, whose dimensions are multiples of ne; y [ne] */                                                         \
    OP(-, REPEAT_BACKWARD, repeat_backward, 1, (dy), RpRepeatBackwardParams, (ne), 0)                                  \
    /* dw[:,:,e] = sum of x[:,j,t] dy[:,j,t]^T over the j,t with ids[j,t] = e, in the order of j + k*t; other ids      \
     * count for none                                                                                                  \
     * src x [n,k,t], or [n,1,t] for one column per token, dy [m,k,t], ids i32 [k,t]; y = dw [n,m,experts] */          \
    OP(-, MUL_MAT_ID_BACKWARD, mul_mat_id_backward, 3, (x, dy, ids), RpMulMatIdBackwardParams, (experts), 0)           \
    /* y[:,j,t] = w[:,:,ids[j,t]]^T * x[:,j,t], 0 if the id is not in 0..experts-1: dx of mul_mat_id, from dy          \
     * src w [n,m,experts], x [m,k,t], ids i32 [k,t]; y [n,k,t] */                                                     \
    OP(-, MUL_MAT_ID_TRANSPOSED, mul_mat_id_transposed, 3, (w, x, ids), RpNoParams, (unused), 0)                       \
    /* dx[i,t] = (softmax_i(x[:,t]) - (i = targets[t])) * dy[t], 0 where the target is -1                              \
     * src x [n,t], targets i32 [t], dy [t]; y = dx */                                                                 \
    OP(-, CROSS_ENTROPY_BACKWARD, cross_entropy_backward, 3, (x, targets, dy), RpNoParams, (unused), RP_FLAG_INPLACE)  \
    /* d[i,t] = scale * (softmax_i(l[:,t]) - (i = targets[t])) * dy[t], 0 where the target is -1, n rows at a time     \
     * dx[:,t] = sum_i d[i,t] w[:,i], chunk by chunk;  dw[:,i] = sum_t d[i,t] x[:,t]                                   \
     * src dy [t], then x, w, targets and stats as of linear_cross_entropy, chunk [n,t], [dw [k,vocab]]; chunk and dw  \
     * are written; y = dx [k,t] */                                                                                    \
    OP(-, LINEAR_CROSS_ENTROPY_BACKWARD, linear_cross_entropy_backward, 6, (dy, x, w, targets, stats, chunk, dw),      \
       RpLinearCrossEntropyParams, (scale), RP_WRITES(RP_SOURCE(linear_cross_entropy_backward, chunk)) |               \
       RP_WRITES(RP_SOURCE(linear_cross_entropy_backward, dw)))                                                        \
    /* dprobs[e,t] = experts * load[e] / tokens * dy                                                                   \
     * src load [experts], dy [1]; y = dprobs [experts,tokens] */                                                      \
    OP(-, AUX_LOSS_BACKWARD, aux_loss_backward, 2, (load, dy), RpAuxLossBackwardParams, (tokens), 0)
/* clang-format on */

#endif
