/* ops.h - the public operations: number, name, sources, parameters, flags and mathematics of each. The enum TensorOp
 * and the unions of parameters and sources are made from the rows (I7).
 *
 *   const RpOpParams p = {.rms_norm = {.eps = 1e-5f}};
 *   TensorNode *sources[2] = {x, w};
 *   TensorNode *y = rp_graph_op(g, RP_OP_RMS_NORM, &p, sources, 2);
 *
 * The library has further ops of its own, which passes and rp_graph_backward make. They have no public numbers.
 * docs/add-an-op.md shows how to add an op.
 */
#ifndef REPRISE_OPS_H
#define REPRISE_OPS_H

#include "reprise/op_params.h"
#include "reprise/tensor.h"
#ifdef RP_INTERNAL /* defined where the library itself is compiled */
#include "ops/private.h"
#endif

#define RP_MAX_SRC 16

enum {
    RP_FLAG_INPLACE    = 1 << 0, /* the result may take the memory of source 0 if it has its dtype and shape (I6) */
    RP_FLAG_VIEW       = 1 << 1, /* computes nothing: the result is the memory of source 0 */
    RP_FLAG_WRITES_DST = 1 << 2, /* if source RP_STORE_TARGET is given, the result is its memory */
    RP_FLAG_FUSED      = 1 << 3, /* made by passes only */
    RP_FLAG_WRITES     = 8       /* bits 8 and up: bit 8+i means that the op also writes to source i */
};
#define RP_WRITES(source) (1 << (RP_FLAG_WRITES + (source)))
enum { RP_STORE_TARGET = 1 };

/* The members of RpRopeParams, for lists of parameters. */
#define RP_ROPE_FIELDS(of)                                                                                             \
    of mode, of n_dims, of freq_base, of freq_scale, of ext_factor, of attn_factor, of beta_fast, of beta_slow,        \
        of n_ctx_orig

/* clang-format off */
/* The table of ops, with the mathematics above each row:
 *
 *     OP(number, ID, name, required, (sources), params struct, (parameters), flags)
 *
 * The number is that of RP_OP_<ID>, which programs are compiled with. It never changes, and a new row takes the next
 * free one (tests/abi/op_numbers.txt). `required` of the sources must be given; the others, in [brackets] in the
 * comments, are optional: an absent one is NULL. Kernels, rules, passes and dumps use the names: args->rms_norm.w is
 * source w of op rms_norm, and RP_SOURCE(rms_norm, w) its number. The list of parameters names every member of the
 * params struct, in order; dumps print them, except those named `unused`. An OP_VIEW runs no kernel: its result is the
 * memory of its first source.
 *
 * x[:,t] is column t of x; shapes list the innermost dimension first. t counts tokens, h heads, g query heads per key
 * head. The type is f32 if none is given. Ops do not change their sources, except WRITES_DST and RP_WRITES. */
#define RP_PUBLIC_OPS(OP, OP_VIEW)                                                                                     \
    /* y[:,t] = scale * w[:,ids[t]], dequantised to f32, 0 for ids[t] = -1; without ids all rows: y[:,t] = scale *     \
     * w[:,t]                                                                                                          \
     * src w [n,rows], [ids i32 [t]]; y [n,t] */                                                                       \
    OP(0, GET_ROWS, get_rows, 1, (w, ids), RpGetRowsParams, (scale), 0)                                                \
    /* y[r,:] = x[r,:] * rsqrt(mean(x[r,:]^2) + eps) * w[:]                                                            \
     * src x, [w [n]] */                                                                                               \
    OP(1, RMS_NORM, rms_norm, 1, (x, w), RpRmsNormParams, (eps), RP_FLAG_INPLACE)                                      \
    /* y[m,t,h,b] = sum_k w[k,m,h/g,b/g'] * x[k,t,h,b]                                                                 \
     * src w [k,m,..] of a weight type, x [k,t,..] f32 or q8_act, [pos i32 [t]]; y [m,t,..] */                         \
    OP(2, MUL_MAT, mul_mat, 2, (w, x, pos), RpMulMatParams, (bound), 0)                                                \
    /* pairs of x[:,h,t] rotated by theta_i(pos[t]), the rest copied; pos < 0 (padding) rotates by 0                   \
     * src x [n,h,t], pos i32 [t], [factors [n_dims/2]], of the frequencies */                                         \
    OP(3, ROPE, rope, 2, (x, pos, factors), RpRopeParams, (RP_ROPE_FIELDS()), RP_FLAG_INPLACE)                         \
    /* y[:,t,h] = softmax(scale * x[:,t,h] + mask[:,t])                                                                \
     * With pos, only i in first..pos[t] take part, first = max(0, pos[t]-window+1): y[i] is 0 for i < first           \
     * and not written for i > pos[t]. exp(sinks[h]) is added to the sum of the exponentials.                          \
     * src x [n,t,h], [mask f32 or f16 [n,t]], [pos i32 [t]], [sinks [h]] */                                           \
    OP(4, SOFT_MAX, soft_max, 1, (x, mask, pos, sinks), RpSoftMaxParams, (scale, window), RP_FLAG_INPLACE)             \
    /* y = x / (1 + exp(-x)) */                                                                                        \
    OP(5, SILU, silu, 1, (x), RpNoParams, (unused), RP_FLAG_INPLACE)                                                   \
    /* y = 1 / (1 + exp(-x)) */                                                                                        \
    OP(6, SIGMOID, sigmoid, 1, (x), RpNoParams, (unused), RP_FLAG_INPLACE)                                             \
    /* y = g / (1 + exp(-alpha g)) * (u + 1), g = min(gate, limit), u = clamp(up, -limit, limit)                       \
     * src gate, up */                                                                                                 \
    OP(7, SWIGLU_OAI, swiglu_oai, 2, (gate, up), RpSwigluOaiParams, (alpha, limit), RP_FLAG_INPLACE)                   \
    /* y = x * Phi(x), Phi the normal distribution function, by the formula of RpGeluKind */                           \
    OP(8, GELU, gelu, 1, (x), RpGeluParams, (kind), RP_FLAG_INPLACE)                                                   \
    /* y = a * b; each dimension of b divides that of a and repeats */                                                 \
    OP(9, MUL, mul, 2, (a, b), RpNoParams, (unused), RP_FLAG_INPLACE)                                                  \
    /* y = a + b; b repeats as in mul */                                                                               \
    OP(10, ADD, add, 2, (a, b), RpNoParams, (unused), RP_FLAG_INPLACE)                                                 \
    /* y = scale * x + bias */                                                                                         \
    OP(11, SCALE, scale, 1, (x), RpScaleParams, (scale, bias), RP_FLAG_INPLACE)                                        \
    /* y = x converted, contiguous; or a store: to[:,pos[t]] = x[:,t], rows with pos < 0 skipped; y is `to`            \
     * src x, [to], [pos i32 [t]] */                                                                                   \
    OP(12, COPY, copy, 1, (x, to, pos), RpCopyParams, (dtype), RP_FLAG_WRITES_DST)                                     \
    /* y[:,t] = indices of the k largest of x[:,t] + bias[:], largest first; among equals the lower index              \
     * first, NaN below everything                                                                                     \
     * src x [n,t], [bias [n]]; y i32 [k,t] */                                                                         \
    OP(13, TOP_K, top_k, 1, (x, bias), RpTopKParams, (k, n_group, n_group_used), 0)                                    \
    /* weights of the selected experts: probs[ids[:,t],t], then RpRouteParams                                          \
     * src probs [n,t], ids i32 [k,t]; y [k,t] */                                                                      \
    OP(14, ROUTE, route, 2, (probs, ids), RpRouteParams, (soft_max, normalize, unused, scale), 0)                      \
    /* y[:,j,t] = w[:,:,ids[j,t]] * x[:,j,t] as in mul_mat, 0 if the id is not in 0..experts-1                         \
     * src w [n,m,experts], x [n,k,t], or [n,1,t] for one column per token, ids i32 [k,t]; y [m,k,t] */                \
    OP(15, MUL_MAT_ID, mul_mat_id, 3, (w, x, ids), RpNoParams, (unused), 0)                                            \
    /* y[:,j,t] = x[:,j,t] + b[:,ids[j,t]], or x[:,j,t] if the id is not in 0..experts-1                               \
     * src x [m,k,t], b [m,experts], ids i32 [k,t] */                                                                  \
    OP(16, ADD_ID, add_id, 3, (x, b, ids), RpNoParams, (unused), RP_FLAG_INPLACE)                                      \
    /* y[:,t] = sum_j weights[j,t] * x[:,j,t], summed in the order of j                                                \
     * src x [n,k,t], weights [k,t]; y [n,t] */                                                                        \
    OP(17, COMBINE, combine, 2, (x, weights), RpNoParams, (unused), 0)                                                 \
    /* samples the next token (sampler.h) from its logits into the step state (step.h), which is the result            \
     * src logits [n], state i32 [words], scratch [2n], which means nothing after it, [extra i32 [words]],             \
     * an RpSampleExtra and the bits of a mask; kernels also take [..,t] */                                            \
    OP(18, SAMPLE, sample, 3, (logits, state, scratch, extra), RpNoParams, (unused), RP_FLAG_WRITES_DST)               \
    /* y[:,h,t,b] = sum_i softmax_i(scale * k[:,i,h/g,b] . q[:,t,h,b] + mask[i,t]) * v[:,i,h/g,b]                      \
     * over max(0, pos[t]-window+1) <= i <= pos[t], with sinks as in soft_max; 0 if a token sees nothing               \
     * With cap, the score s = scale * k . q becomes cap * tanh(s / cap).                                              \
     * src q [d,t,h,b], k and v f16, q8_0 or f32 [d,n_ctx,h/g,b], pos i32 [t], [sinks [h]], [mask [n_ctx,t]],          \
     * [cap [1]] (not with f32)                                                                                        \
     * Only with f32: b > 1, a mask, and no pos (RpAttentionParams.causal).                                            \
     * With a table the caches are blocks that sequences share (PagedAttention, Kwon et al. 2023, arXiv:2309.06180):   \
     * position i of token t is row table[i/block,seq[t]]*block + i%block of k and v (not with f32).                   \
     * src [table i32 [n_ctx/block,sequences]], [seq i32 [t]]                                                          \
     * y [d,h,t,b], or q8_act [d*h,t] (not with f32), in which the heads of a token are one row */                     \
    OP(19, ATTENTION, attention, 3, (q, k, v, pos, sinks, mask, cap, table, seq), RpAttentionParams,                   \
       (scale, window, dtype, causal, block), 0)                                                                              \
    /* y[t] = a token sampled from logits[:,t] as sample does it, with number 0 of the random numbers of seeds[:,t];   \
     * -1 if every logit is NaN or -inf                                                                                \
     * src logits [n,t], seeds i32 [2,t] (the low word of each first), scratch [2n+16,t], whose contents mean nothing  \
     * y i32 [t] */                                                                                                    \
    OP(20, SAMPLE_ROWS, sample_rows, 3, (logits, seeds, scratch), RpSampleRowsParams,                                  \
       (temperature, top_k, top_p, min_p), 0)                                                                          \
    /* y[j,i,s] = alpha * sum_k a[k,i,s] * b[j,k,s] + beta * c[j,i,s]: GEMM of BLAS, row-major                         \
     * src a [k,m,batch] and b [n,k,batch], each with adjacent rows or columns (a transposed matrix is a view),        \
     * [c [n,m,batch]], whose memory y may be; y [n,m,batch]. beta 0 does not read c, alpha 0 neither a nor b */       \
    OP(21, GEMM, gemm, 2, (a, b, c), RpGemmParams, (alpha, beta), 0)                                                   \
    /* ---- views ---- */                                                                                              \
    /* ne, nb and offset as given; must lie within the memory of x */                                                  \
    OP_VIEW(22, VIEW, view, 1, (x), RpViewParams, (ne, nb, offset), RP_FLAG_VIEW)                                      \
    /* the same elements in another shape; x is contiguous */                                                          \
    OP_VIEW(23, RESHAPE, reshape, 1, (x), RpReshapeParams, (ne), RP_FLAG_VIEW)                                         \
    /* dimensions reordered */                                                                                         \
    OP_VIEW(24, PERMUTE, permute, 1, (x), RpPermuteParams, (axis), RP_FLAG_VIEW)                                       \
    /* dimensions 0 and 1 swapped */                                                                                   \
    OP_VIEW(25, TRANSPOSE, transpose, 1, (x), RpNoParams, (unused), RP_FLAG_VIEW)                                      \
    /* the same memory as another dtype of the same size */                                                            \
    OP_VIEW(26, BITS, bits, 1, (x), RpBitsParams, (dtype), RP_FLAG_VIEW)                                               \
    /* ---- training: losses and the optimiser ---- */                                                                 \
    /* y[t] = log(sum_i exp(x[i,t])) - x[targets[t],t], 0 where the target is -1                                       \
     * log_probs[i,t] = x[i,t] - log(sum_i exp(x[i,t])), also where the target is -1                                   \
     * src x [n,t], targets i32 [t], [log_probs [n,t]], which is written; y [t] */                                     \
    OP(27, CROSS_ENTROPY, cross_entropy, 2, (x, targets, log_probs), RpNoParams, (unused),                             \
       RP_WRITES(RP_SOURCE(cross_entropy, log_probs)))                                                                 \
    /* y[t] = log(sum_i exp(l[i,t])) - l[targets[t],t], 0 where the target is -1; l = scale * w x, the logits, of      \
     * which `chunk` holds n at a time. chunk and stats are written; linear_cross_entropy_backward reads stats.        \
     * src x [k,t], w [k,vocab], targets i32 [t], stats [RP_LINEAR_STATS,t], chunk [n,t], contiguous; y [t] */         \
    OP(28, LINEAR_CROSS_ENTROPY, linear_cross_entropy, 5, (x, w, targets, stats, chunk), RpLinearCrossEntropyParams,   \
       (scale), RP_WRITES(RP_SOURCE(linear_cross_entropy, stats)) | RP_WRITES(RP_SOURCE(linear_cross_entropy, chunk))) \
    /* y[e] = sum of weights[t] over the j,t with ids[j,t] = e / (k * t), the load of each expert. Ids that are no     \
     * expert count for none; without weights each id counts 1                                                         \
     * src ids i32 [k,t], [weights [t]]; y [experts] */                                                                \
    OP(29, EXPERT_LOAD, expert_load, 1, (ids, weights), RpExpertLoadParams, (experts), 0)                              \
    /* y = experts * sum_e load[e] * mean_t probs[e,t]                                                                 \
     * src probs [experts,t], load [experts]; y [1] */                                                                 \
    OP(30, AUX_LOSS, aux_loss, 2, (probs, load), RpNoParams, (unused), 0)                                              \
    /* sums[0] = sqrt(sum of x^2) of this tensor and those since the one with `first`                                  \
     * src x, contiguous, sums [RP_GRAD_NORM_FLOATS]; y is sums */                                                     \
    OP(31, GRAD_NORM, grad_norm, 2, (x, sums), RpGradNormParams, (first), RP_FLAG_WRITES_DST)                          \
    /* y = min(1, max_norm / (norm[0] + 1e-6)) * x; a NaN norm makes all of it NaN                                     \
     * src x, contiguous, norm [1 or more], such as the sums of grad_norm */                                           \
    OP(32, GRAD_CLIP, grad_clip, 2, (x, norm), RpGradClipParams, (max_norm), RP_FLAG_INPLACE)                          \
    /* A step of AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101), in the order of torch.optim.AdamW:              \
     *     param = (1 - lr * weight_decay) * param                                                                     \
     *     m     = m + (1 - beta1) * (grad - m)                                                                        \
     *     v     = beta2 * v + (1 - beta2) * grad^2                                                                    \
     *     param = param - lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)                          \
     * src grad, param, m, v, contiguous and of one shape, [lr [1]], [step i32 [1]], from 1, [norm [1 or more]]; y is  \
     * param. m and v are written too. Nothing changes if norm[0] is NaN or infinite. In a graph lr and step must be   \
     * given: they change from step to step (I4). */                                                                   \
    OP(33, ADAMW, adamw, 4, (grad, param, m, v, lr, step, norm), RpAdamwParams,                                        \
       (beta1, beta2, eps, weight_decay, lr, step), RP_FLAG_WRITES_DST | RP_WRITES(RP_SOURCE(adamw, m)) |              \
       RP_WRITES(RP_SOURCE(adamw, v)))                                                                                 \
    /* y = value: where a sum begins, and memory that another op writes to                                             \
     * no source; y [ne] */                                                                                            \
    OP(34, FILL, fill, 0, (unused), RpFillParams, (ne, value, unused), 0)
/* clang-format on */

/* Numbers from 512 on are the library's own, numbers from RP_OP_CUSTOM on are those of rp_op_register (extend.h). */
#ifdef RP_INTERNAL
#define RP_OPS(OP, OP_VIEW) RP_PUBLIC_OPS(OP, OP_VIEW) RP_PRIVATE_OPS(OP, OP_VIEW)
#else
#define RP_OPS(OP, OP_VIEW) RP_PUBLIC_OPS(OP, OP_VIEW)
#endif

/* clang-format off */
typedef enum TensorOp {
#define OP(number, ID, name, required, sources, Params, fields, flags) RP_OP_##ID = number,
    RP_PUBLIC_OPS(OP, OP)
#undef OP
#ifdef RP_INTERNAL
    RP_OP_PRIVATE = 511, /* private ops are numbered in the order of their rows */
#define OP(none, ID, name, required, sources, Params, fields, flags) RP_OP_##ID,
    RP_PRIVATE_OPS(OP, OP)
#undef OP
    RP_OP_END_OF_PRIVATE, RP_OP_LAST_PRIVATE = RP_OP_END_OF_PRIVATE - 1,
#endif
    RP_OP_CUSTOM = 1024
} TensorOp;
/* clang-format on */

/* One typed member per op: params->rms_norm.eps. The size is fixed; it leaves room for ops to come. */
typedef union RpOpParams {
    uint64_t       reserved[16];
    RpCustomParams custom;
#define OP(number, ID, name, required, sources, Params, fields, flags) Params name;
    RP_OPS(OP, OP)
#undef OP
} RpOpParams;

#endif
