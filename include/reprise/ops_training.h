/* ops_training.h - the rows of ops.h for training: losses, the optimiser, and the gradients of ops. ops.h includes
 * this file; its columns and the notation of its comments are described there.
 *
 *   TensorNode *sources[2] = {dy, x}; // dy is the gradient of the loss with respect to silu(x)
 *   TensorNode *dx = rp_graph_op(g, RP_OP_SILU_BACKWARD, NULL, sources, 2);
 */
#ifndef REPRISE_OPS_TRAINING_H
#define REPRISE_OPS_TRAINING_H

#define RP_TRAINING_OPS(OP)                                                                                            \
    /* ---- training: losses and the optimiser. dx is the gradient of the loss with respect to x. ---- */              \
    /* y[t] = log(sum_i exp(x[i,t])) - x[targets[t],t], 0 where the target is -1                                       \
     * log_probs[i,t] = x[i,t] - log(sum_i exp(x[i,t])), also where the target is -1                                   \
     * src x [n,t], targets i32 [t], [log_probs [n,t]], which is written; y [t] */                                     \
    OP(CROSS_ENTROPY, cross_entropy, 2, (x, targets, log_probs), RpNoParams, (unused), cross_entropy,                  \
       RP_WRITES(RP_SOURCE(cross_entropy, log_probs)))                                                                 \
    /* dx[i,t] = (softmax_i(x[:,t]) - (i = targets[t])) * dy[t], 0 where the target is -1                              \
     * src x [n,t], targets i32 [t], dy [t]; y = dx */                                                                 \
    OP(CROSS_ENTROPY_BACKWARD, cross_entropy_backward, 3, (x, targets, dy), RpNoParams, (unused),                      \
       cross_entropy_backward, RP_FLAG_INPLACE)                                                                        \
    /* y[e] = sum of weights[t] over the j,t with ids[j,t] = e / (k * t), the load of each expert. Ids that are no     \
     * expert count for none; without weights each id counts 1                                                         \
     * src ids i32 [k,t], [weights [t]]; y [experts] */                                                                \
    OP(EXPERT_LOAD, expert_load, 1, (ids, weights), RpExpertLoadParams, (experts), expert_load, 0)                     \
    /* y = experts * sum_e load[e] * mean_t probs[e,t]                                                                 \
     * src probs [experts,t], load [experts]; y [1] */                                                                 \
    OP(AUX_LOSS, aux_loss, 2, (probs, load), RpNoParams, (unused), aux_loss, 0)                                        \
    /* dprobs[e,t] = experts * load[e] / tokens * dy                                                                   \
     * src load [experts], dy [1]; y = dprobs [experts,tokens] */                                                      \
    OP(AUX_LOSS_BACKWARD, aux_loss_backward, 2, (load, dy), RpAuxLossBackwardParams, (tokens), aux_loss_backward, 0)   \
    /* sums[0] = sqrt(sum of x^2) of this tensor and those since the one with `first`                                  \
     * src x, contiguous, sums [RP_GRAD_NORM_FLOATS]; y is sums */                                                     \
    OP(GRAD_NORM, grad_norm, 2, (x, sums), RpGradNormParams, (first), grad_norm, RP_FLAG_WRITES_DST)                   \
    /* y = min(1, max_norm / (norm[0] + 1e-6)) * x; a NaN norm makes all of it NaN                                     \
     * src x, contiguous, norm [1 or more], such as the sums of grad_norm */                                           \
    OP(GRAD_CLIP, grad_clip, 2, (x, norm), RpGradClipParams, (max_norm), grad_clip, RP_FLAG_INPLACE)                   \
    /* A step of AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101), in the order of torch.optim.AdamW:              \
     *     param = (1 - lr * weight_decay) * param                                                                     \
     *     m     = m + (1 - beta1) * (grad - m)                                                                        \
     *     v     = beta2 * v + (1 - beta2) * grad^2                                                                    \
     *     param = param - lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)                          \
     * src grad, param, m, v, contiguous and of one shape, [lr [1]], [step i32 [1]], from 1, [norm [1 or more]]; y is  \
     * param. m and v are written too. Nothing changes if norm[0] is NaN or infinite. In a graph lr and step must be   \
     * given: they change from step to step (I4). */                                                                   \
    OP(ADAMW, adamw, 4, (grad, param, m, v, lr, step, norm), RpAdamwParams, (beta1, beta2, eps, weight_decay, lr, step),     \
       adamw, RP_FLAG_WRITES_DST | RP_WRITES(RP_SOURCE(adamw, m)) | RP_WRITES(RP_SOURCE(adamw, v)))                    \
    /* y[j,i,s] = alpha * sum_k a[k,i,s] * b[j,k,s] + beta * c[j,i,s]: GEMM of BLAS, row-major                         \
     * src a [k,m,batch] and b [n,k,batch], each with adjacent rows or columns (a transposed matrix is a view),        \
     * [c [n,m,batch]], whose memory y may be; y [n,m,batch]. beta 0 does not read c, alpha 0 neither a nor b */       \
    OP(GEMM, gemm, 2, (a, b, c), RpGemmParams, (alpha, beta), gemm, 0)                                                 \
    /* ---- training: gradients of ops. dy is the gradient of the loss with respect to the result y of the op, dx      \
     * with respect to x. The gradient of rope is rope with the negative freq_scale. ---- */                           \
    /* dx = dy * s * (1 + x * (1 - s)), s = 1 / (1 + exp(-x))                                                          \
     * src dy, x of one shape; y = dx */                                                                               \
    OP(SILU_BACKWARD, silu_backward, 2, (dy, x), RpNoParams, (unused), gradient, RP_FLAG_INPLACE)                      \
    /* dx = dy * (Phi(x) + x * Phi'(x)), by the formula of RpGeluKind                                                  \
     * src dy, x of one shape; y = dx */                                                                               \
    OP(GELU_BACKWARD, gelu_backward, 2, (dy, x), RpGeluParams, (kind), gradient, RP_FLAG_INPLACE)                      \
    /* g = min(gate, limit), u = clamp(up, -limit, limit), s = 1 / (1 + exp(-alpha g))                                 \
     * dgate = dy * (u + 1) * s * (1 + alpha * g * (1 - s)), 0 where gate > limit;  dup = dy * g * s, 0 where |up| > limit\
     * src dy, gate, up, dup of one shape; dup is written; y = dgate */                                                \
    OP(SWIGLU_OAI_BACKWARD, swiglu_oai_backward, 4, (dy, gate, up, dup), RpSwigluOaiParams, (alpha, limit),            \
       swiglu_oai_backward, RP_FLAG_INPLACE | RP_WRITES(RP_SOURCE(swiglu_oai_backward, dup)))                          \
    /* dx[:,r] = scale * y[:,r] * (dy[:,r] - sum_i dy[i,r] * y[i,r])                                                   \
     * src dy, y of one shape; y = dx */                                                                               \
    OP(SOFT_MAX_BACKWARD, soft_max_backward, 2, (dy, y), RpSoftMaxBackwardParams, (scale), gradient, RP_FLAG_INPLACE)  \
    /* rstd[r] = 1 / sqrt(mean(x[:,r]^2) + eps)                                                                        \
     * dx[:,r] = rstd[r] * w * dy[:,r] - x[:,r] * rstd[r]^3 / n * sum_i dy[i,r] * w[i] * x[i,r]                        \
     * dw[i]   = sum_r dy[i,r] * x[i,r] * rstd[r]                                                                      \
     * src dy and x [n,r], contiguous, [w [n]], [dw [n]], [rstd [r]], which dw needs; dw and rstd are written; y = dx */\
    OP(RMS_NORM_BACKWARD, rms_norm_backward, 2, (dy, x, w, dw, rstd), RpRmsNormParams, (eps), rms_norm_backward,       \
       RP_WRITES(RP_SOURCE(rms_norm_backward, dw)) | RP_WRITES(RP_SOURCE(rms_norm_backward, rstd)))                    \
    /* Gradients of y[:,h,t] = sum_i p[i] v[:,i,h/g], p = softmax_i(scale * k[:,i,h/g] . q[:,t,h]), over the i that op \
     * attention without pos sees, with window, causal and sinks as there.                                             \
     * p is computed again, in tiles, from statistics of each row (Dao 2023, arXiv:2307.08691):                        \
     *     delta = dy . y,  ds[i] = p[i] * (dy . v[:,i] - delta)                                                       \
     *     dv[:,i] = sum p[i] dy,  dq = scale * sum_i ds[i] k[:,i],  dk[:,i] = scale * sum ds[i] q;  sums over t and g \
     *     dsinks[h] = sum over t and b of of_sink,  of_sink = -exp(sinks[h]) / (sum of exponentials) * delta          \
     * src dy [d,h,t,b], q [d,t,h,b], k and v [d,i,h/g,b], y [d,h,t,b], dk and dv like k, which are written; stats     \
     * [3*t*h*b]: largest score, 1 / sum of exponentials, delta; [sinks [h]]: stats [4*t*h*b], with of_sink; y = dq */ \
    OP(ATTENTION_BACKWARD, attention_backward, 8, (dy, q, k, v, y, dk, dv, stats, sinks), RpAttentionBackwardParams,   \
       (scale, window, causal), attention_backward,                                                                    \
       RP_WRITES(RP_SOURCE(attention_backward, dk)) | RP_WRITES(RP_SOURCE(attention_backward, dv)) |                   \
           RP_WRITES(RP_SOURCE(attention_backward, stats)))                                                            \
    /* dw[:,r] = scale * sum of dy[:,t] over the t with ids[t] = r, in the order of t; other ids count for none        \
     * src dy [n,t], ids i32 [t]; y = dw [n,rows] */                                                                   \
    OP(GET_ROWS_BACKWARD, get_rows_backward, 2, (dy, ids), RpGetRowsBackwardParams, (rows, scale), get_rows_backward, 0)\
    /* dx[:,j,t] = weights[j,t] * dy[:,t];  dweights[j,t] = sum_i dy[i,t] * x[i,j,t]                                   \
     * src dy [n,t], x [n,k,t], weights [k,t], dweights [k,t], which is written; y = dx */                             \
    OP(COMBINE_BACKWARD, combine_backward, 4, (dy, x, weights, dweights), RpNoParams, (unused), combine_backward,      \
       RP_WRITES(RP_SOURCE(combine_backward, dweights)))                                                               \
    /* dprobs[ids[j,t],t] = gradient of route with respect to the probability of choice j; 0 where nothing was chosen  \
     * src dy [k,t], probs [n,t], ids i32 [k,t]; y = dprobs */                                                         \
    OP(ROUTE_BACKWARD, route_backward, 3, (dy, probs, ids), RpRouteParams, (soft_max, normalize, unused, scale),       \
       route_backward, 0)                                                                                              \
    /* Sum over what mul and add repeat: y[i0,i1,i2,i3] = sum of dy at i0 + a0 ne[0], i1 + a1 ne[1], ...               \
     * src dy, whose dimensions are multiples of ne; y [ne] */                                                         \
    OP(REPEAT_BACKWARD, repeat_backward, 1, (dy), RpRepeatBackwardParams, (ne), repeat_backward, 0)                    \
    /* dw[:,:,e] = sum of x[:,j,t] dy[:,j,t]^T over the j,t with ids[j,t] = e, in the order of j + k*t; other ids count\
     * for none                                                                                                        \
     * src x [n,k,t], or [n,1,t] for one column per token, dy [m,k,t], ids i32 [k,t]; y = dw [n,m,experts] */          \
    OP(MUL_MAT_ID_BACKWARD, mul_mat_id_backward, 3, (x, dy, ids), RpMulMatIdBackwardParams, (experts),                 \
       mul_mat_id_backward, 0)                                                                                         \
    /* y[:,j,t] = w[:,:,ids[j,t]]^T * x[:,j,t], 0 if the id is not in 0..experts-1: dx of mul_mat_id, from dy          \
     * src w [n,m,experts], x [m,k,t], ids i32 [k,t]; y [n,k,t] */                                                     \
    OP(MUL_MAT_ID_TRANSPOSED, mul_mat_id_transposed, 3, (w, x, ids), RpNoParams, (unused), mul_mat_id_transposed, 0)   \
    /* y[t] = log(sum_i exp(l[i,t])) - l[targets[t],t], 0 where the target is -1; l = scale * w x, the logits, of which \
     * `chunk` holds n at a time. chunk and stats are written; linear_cross_entropy_backward reads stats.              \
     * src x [k,t], w [k,vocab], targets i32 [t], stats [RP_LINEAR_STATS,t], chunk [n,t], contiguous; y [t] */         \
    OP(LINEAR_CROSS_ENTROPY, linear_cross_entropy, 5, (x, w, targets, stats, chunk), RpLinearCrossEntropyParams, (scale), \
       linear_cross_entropy,                                                                                           \
       RP_WRITES(RP_SOURCE(linear_cross_entropy, stats)) | RP_WRITES(RP_SOURCE(linear_cross_entropy, chunk)))          \
    /* d[i,t] = scale * (softmax_i(l[:,t]) - (i = targets[t])) * dy[t], 0 where the target is -1, n rows at a time     \
     * dx[:,t] = sum_i d[i,t] w[:,i], chunk by chunk;  dw[:,i] = sum_t d[i,t] x[:,t]                                   \
     * src dy [t], then x, w, targets and stats as of linear_cross_entropy, chunk [n,t], [dw [k,vocab]]; chunk and dw  \
     * are written; y = dx [k,t] */                                                                                    \
    OP(LINEAR_CROSS_ENTROPY_BACKWARD, linear_cross_entropy_backward, 6, (dy, x, w, targets, stats, chunk, dw),         \
       RpLinearCrossEntropyParams, (scale), linear_cross_entropy_backward,                                             \
       RP_WRITES(RP_SOURCE(linear_cross_entropy_backward, chunk)) |                                                    \
           RP_WRITES(RP_SOURCE(linear_cross_entropy_backward, dw)))                                                    \
    /* y = value: where a sum begins, and memory that another op writes to                                             \
     * no source; y [ne] */                                                                                            \
    OP(FILL, fill, 0, (unused), RpFillParams, (ne, value, unused), fill, 0)

#endif
