/* nn.h - the kernels of the library as plain functions for other languages (libreprise_nn). No struct crosses this
 * boundary.
 *
 *   float *x;                                               // device memory of 1000 floats
 *   if (rp_nn_malloc(4000, (void **)&x) != 0) fprintf(stderr, "%s\n", rp_nn_last_error());
 *   rp_nn_silu(x, x, 1000, NULL);                           // in place, on the default stream
 *   rp_nn_stream_sync(NULL);
 *
 * Each function of RP_NN_FUNCTIONS exists twice. rp_nn_NAME enqueues kernels on a CUDA stream and returns; its pointers
 * are device memory of the current device (rp_nn_device_set). rp_nn_cpu_NAME computes on host memory before it returns;
 * its stream is ignored.
 *
 * - They return 0, or one of RpNnStatus; rp_nn_last_error() then has the text. After RP_NN_EXECUTION_FAILED or
 *   RP_NN_OUT_OF_MEMORY the contents of outputs are undefined. Arguments are checked before anything is computed.
 * - Matrices and batches are row-major and contiguous, f32 by default. A size of 0 computes nothing; pointers may then
 *   be NULL. Sizes are checked for overflow.
 * - Inputs are const; outputs may not overlap inputs unless a function says so.
 * - Functions with a `workspace` use that memory of `workspace_bytes` bytes, device or host as the other pointers. Its
 *   contents mean nothing. rp_nn_NAME_workspace and rp_nn_cpu_NAME_workspace say how many bytes; 0: it may be NULL.
 * - Nothing is allocated. Errors of a kernel while it runs are reported by rp_nn_stream_sync.
 * - Any thread may call them; calls on one stream run in order. Calls of rp_nn_cpu_NAME at the same time share one
 *   thread pool: one uses it, the others compute with their own thread only. Results are the same bits.
 */
#ifndef REPRISE_NN_H
#define REPRISE_NN_H

#include "reprise/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum RpNnStatus {
    RP_NN_OK               = 0,
    RP_NN_NOT_AVAILABLE    = -1, /* no CUDA in this build, no driver, or no device */
    RP_NN_INVALID_ARGUMENT = -2,
    RP_NN_EXECUTION_FAILED = -3,
    RP_NN_OUT_OF_MEMORY    = -4
} RpNnStatus;

/* Raised by one when a function changes or is removed. New functions do not raise it. */
enum { RP_NN_ABI_VERSION = 1 };

/* Length of the array `sums` of grad_norm. */
enum { RP_NN_GRAD_NORM_FLOATS = 1028 };

/* clang-format off */
/* F(NAME, (parameters), (their names)); `void *stream` follows the parameters. */
#define RP_NN_FUNCTIONS(F)                                                                                             \
    /* ---- n elements; y may be x or a ---- */                                                                        \
    /* y[i] = x[i] / (1 + exp(-x[i])) */                                                                               \
    F(silu, (const float *x, float *y, int64_t n), (x, y, n))                                                          \
    /* y[i] = 0.5 x[i] (1 + erf(x[i] / sqrt 2)) if `exact` is not 0; else by tanh, as RP_GELU_TANH of ops.h */         \
    F(gelu, (const float *x, float *y, int64_t n, int32_t exact), (x, y, n, exact))                                    \
    /* y[i] = a[i] + b[i] */                                                                                           \
    F(add, (const float *a, const float *b, float *y, int64_t n), (a, b, y, n))                                        \
    /* y[i] = a[i] * b[i] */                                                                                           \
    F(mul, (const float *a, const float *b, float *y, int64_t n), (a, b, y, n))                                        \
    /* y[i] = factor * x[i] */                                                                                         \
    F(scale, (const float *x, float *y, int64_t n, float factor), (x, y, n, factor))                                   \
    /* ---- `batch` rows of `dim` elements; y may be x ---- */                                                         \
    /* y[r,:] = exp(x[r,:] - max) / sum. A row with NaN or infinity becomes NaN. */                                    \
    F(softmax, (const float *x, float *y, int64_t batch, int32_t dim), (x, y, batch, dim))                             \
    /* y[r,:] = x[r,:] / sqrt(mean(x[r,:]^2) + eps) * weight[:]; weight NULL: ones */                                  \
    F(rmsnorm, (const float *x, const float *weight, float *y, int64_t batch, int32_t dim, float eps),                 \
      (x, weight, y, batch, dim, eps))                                                                                 \
    /* The k largest of each row, largest first: values[r,j] = x[r,indices[r,j]]. Among equals the lower index comes   \
     * first; NaN is below everything. 1 <= k <= dim; dim <= 9830 on a GPU if k > 1. values may be NULL, no output may \
     * be x. */                                                                                                        \
    F(topk, (const float *x, float *values, int32_t *indices, int64_t batch, int32_t dim, int32_t k),                  \
      (x, values, indices, batch, dim, k))                                                                             \
    /* ---- mixture of experts ---- */                                                                                 \
    /* Chooses k of `experts` for each token: ids of the largest p[t,:], largest first, p = softmax(logits[t,:]), or   \
     * 1 / (1 + exp(-logits)) if `sigmoid` is not 0. weights[t,j] = p[t,ids[t,j]], divided by their sum (at least      \
     * 2^-14) if `normalize` is not 0. probs [tokens,experts] receives p. */                                           \
    F(route, (const float *logits, float *probs, int32_t *ids, float *weights, int64_t tokens, int32_t experts,        \
              int32_t k, int32_t sigmoid, int32_t normalize),                                                          \
      (logits, probs, ids, weights, tokens, experts, k, sigmoid, normalize))                                           \
    /* y[t,:] = sum over j of weights[t,j] * x[t,j,:], in the order of j; x [tokens,k,dim], y [tokens,dim] */          \
    F(combine, (const float *x, const float *weights, float *y, int64_t tokens, int32_t k, int32_t dim),               \
      (x, weights, y, tokens, k, dim))                                                                                 \
    /* ---- training: losses and the optimiser. dx is the gradient of the loss with respect to x. ---- */              \
    /* losses[r] = log(sum_i exp(logits[r,i])) - logits[r,targets[r]]; log_probs[r,i] = logits[r,i] - log(sum_i ...),  \
     * or NULL. Target -1: no loss, losses[r] = 0. Other targets outside of 0..vocab-1 are RP_NN_INVALID_ARGUMENT on   \
     * the host; on a GPU their loss is NaN. A row with NaN or +inf has NaN; a target whose logit is -inf has +inf. */ \
    F(cross_entropy, (const float *logits, const int32_t *targets, float *losses, float *log_probs, int64_t rows,      \
                      int32_t vocab),                                                                                  \
      (logits, targets, losses, log_probs, rows, vocab))                                                               \
    /* dlogits[r,i] = (softmax(logits[r,:])[i] - (i = targets[r])) * dlosses[r]; 0 for target -1. For the mean of n    \
     * losses dlosses is 1/n everywhere. Bad targets and numbers as above, with NaN in the whole row. dlogits may be   \
     * logits, and the log_probs may be given as logits. */                                                            \
    F(cross_entropy_backward, (const float *logits, const int32_t *targets, const float *dlosses, float *dlogits,      \
                               int64_t rows, int32_t vocab),                                                           \
      (logits, targets, dlosses, dlogits, rows, vocab))                                                                \
    /* The load-balancing loss of Switch Transformers (arXiv:2101.03961, equations 4 to 6, without alpha); 1 if        \
     * balanced. loss[0] = experts * sum_e load[e] * mean_t probs[t,e], load[e] = number of ids that are e divided by  \
     * tokens * k. Ids that are no expert count for none; at most 2^24 ids. load [experts] is an output too, for the   \
     * gradient. */                                                                                                    \
    F(aux_loss, (const float *probs, const int32_t *ids, float *load, float *loss, int64_t tokens, int32_t experts,    \
                 int32_t k),                                                                                           \
      (probs, ids, load, loss, tokens, experts, k))                                                                    \
    /* dprobs[t,e] = experts * load[e] / tokens * dloss[0] */                                                          \
    F(aux_loss_backward, (const float *load, const float *dloss, float *dprobs, int64_t tokens, int32_t experts),      \
      (load, dloss, dprobs, tokens, experts))                                                                          \
    /* Step `step` (from 1) of AdamW (arXiv:1711.05101) on param, m and v; m and v are 0 before step 1. In this order: \
     *   param *= 1 - lr * weight_decay;  m += (1 - beta1) * (grad - m);  v = beta2 * v + (1 - beta2) * grad^2;        \
     *   param -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)                                   \
     * as torch.optim.AdamW does if it gets the same numbers: beta2 = 0.999f is 0.99900001287. */                      \
    F(adamw_step, (float *param, const float *grad, float *m, float *v, int64_t n, float lr, float beta1, float beta2, \
                   float eps, float weight_decay, int32_t step),                                                       \
      (param, grad, m, v, n, lr, beta1, beta2, eps, weight_decay, step))                                               \
    /* sums[0] = sqrt(sum of grad^2) over this tensor and all tensors since the call with `first` not 0. The other     \
     * elements of sums [RP_NN_GRAD_NORM_FLOATS] hold sums of squares for the next call. A sum of squares beyond the   \
     * range of f32 has an infinite norm. With n = 0 and `first` the norm becomes 0. */                                \
    F(grad_norm, (const float *grad, float *sums, int64_t n, int32_t first), (grad, sums, n, first))                   \
    /* grad *= min(1, max_norm / (norm[0] + 1e-6)), as torch.nn.utils.clip_grad_norm_. norm is the sums of grad_norm,  \
     * or one float. A NaN norm makes all of grad NaN. */                                                              \
    F(grad_clip, (float *grad, const float *norm, int64_t n, float max_norm), (grad, norm, n, max_norm))               \
    /* ---- products of f32 matrices, as sgemm of BLAS; on the host by the BLAS of the build, if any ---- */           \
    /* C = alpha A B + beta C; A [M,K], B [K,N], C [M,N]. beta 0 does not read C; alpha 0 reads neither A nor B. On a  \
     * device with cuBLASLt the first call of a shape prepares it, which allocates host memory. */                     \
    F(gemm, (const float *A, const float *B, float *C, int32_t M, int32_t N, int32_t K, float alpha, float beta),      \
      (A, B, C, M, N, K, alpha, beta))                                                                                 \
    /* The same for `batch` matrices, which begin stride_a, stride_b and stride_c floats after one another. Stride 0   \
     * of A or B: one matrix for all. transpose_a not 0: A is [K,M]; transpose_b not 0: B is [N,K]. */                 \
    F(gemm_batched, (const float *A, const float *B, float *C, int64_t batch, int32_t M, int32_t N, int32_t K,         \
                     int64_t stride_a, int64_t stride_b, int64_t stride_c, int32_t transpose_a, int32_t transpose_b,   \
                     float alpha, float beta),                                                                         \
      (A, B, C, batch, M, N, K, stride_a, stride_b, stride_c, transpose_a, transpose_b, alpha, beta))                  \
    /* ---- quantised matrices ----                                                                                    \
     * `type` is an RpDtype (tensor.h): f32, f16, bf16 or a block type of weights. A row is a whole number of blocks.  \
     * The host functions take blocks as in GGUF files. On a device a matrix of a block type lies in planes, aligned   \
     * to 16 bytes: call rp_nn_cpu_repack on the host, then copy it. */                                                \
    /* y = W x; W [rows,cols]. For block types x is rounded to 8 bits, each 32 elements with a scale of their own. */  \
    F(gemv_q, (int32_t type, const void *W, const float *x, float *y, int32_t rows, int32_t cols, void *workspace,     \
               int64_t workspace_bytes),                                                                               \
      (type, W, x, y, rows, cols, workspace, workspace_bytes))                                                         \
    /* y[t,j,:] = W[ids[t,j]] x[t,:], or W[ids[t,j]] x[t,j,:] if `x_each` is not 0; 0 for an id outside 0..experts-1.  \
     * W [experts,rows,cols], x [tokens,cols] or [tokens,k,cols], y [tokens,k,rows]. x is rounded as in gemv_q. */     \
    F(expert_gemm, (int32_t type, const void *W, const float *x, const int32_t *ids, float *y, int64_t tokens,         \
                    int32_t k, int32_t experts, int32_t rows, int32_t cols, int32_t x_each, void *workspace,           \
                    int64_t workspace_bytes),                                                                          \
      (type, W, x, ids, y, tokens, k, experts, rows, cols, x_each, workspace, workspace_bytes))                        \
    /* The n elements of a matrix as f32. */                                                                           \
    F(dequantize, (int32_t type, const void *W, float *y, int64_t n), (type, W, y, n))                                 \
    /* ---- rotary position embedding, in place ---- */                                                                \
    /* Pair i of each head is rotated by the angle positions[b,s] * freqs[i]; q [batch,seq,heads,head_dim], k          \
     * [batch,seq,key_heads,head_dim] or NULL, freqs [rotary_dim/2], usually base^(-2i/rotary_dim). Pairs are          \
     * (i, i + rotary_dim/2) if `halves` is not 0 (NeoX, Hugging Face), else (2i, 2i+1). Elements from rotary_dim on   \
     * are kept. positions [batch,seq]; negative ones count as 0. rotary_dim is even, at most head_dim and 1024. */    \
    F(rope, (float *q, float *k, const float *freqs, const int32_t *positions, int64_t batch, int32_t seq,             \
             int32_t heads, int32_t key_heads, int32_t head_dim, int32_t rotary_dim, int32_t halves),                  \
      (q, k, freqs, positions, batch, seq, heads, key_heads, head_dim, rotary_dim, halves))                            \
    /* ---- training: gradients. dy is the gradient of the loss with respect to the result of the forward function, dx \
     * that with respect to its input x. dx may be dy unless a function says otherwise. ---- */                        \
    /* dx[i] = dy[i] s (1 + x[i] (1 - s)), s = 1 / (1 + exp(-x[i])) */                                                 \
    F(silu_backward, (const float *x, const float *dy, float *dx, int64_t n), (x, dy, dx, n))                          \
    /* dx[i] = dy[i] times the derivative of gelu at x[i]; `exact` as in gelu */                                       \
    F(gelu_backward, (const float *x, const float *dy, float *dx, int64_t n, int32_t exact), (x, dy, dx, n, exact))    \
    /* dx[r,i] = y[r,i] (dy[r,i] - sum_j dy[r,j] y[r,j]), y = softmax(x) */                                            \
    F(softmax_backward, (const float *y, const float *dy, float *dx, int64_t batch, int32_t dim),                      \
      (y, dy, dx, batch, dim))                                                                                         \
    /* rstd[r] = 1 / sqrt(mean(x[r,:]^2) + eps);  dweight[i] = sum_r dy[r,i] x[r,i] rstd[r], in a fixed order of r;    \
     * dx[r,i] = rstd[r] weight[i] dy[r,i] - x[r,i] rstd[r]^3 / dim * sum_j dy[r,j] weight[j] x[r,j]. Without a weight \
     * (NULL) it is 1. rstd [batch] is an output; it may be NULL if dweight is. dx may be neither dy nor x. */         \
    F(rmsnorm_backward, (const float *x, const float *weight, const float *dy, float *dx, float *dweight, float *rstd, \
                         int64_t batch, int32_t dim, float eps),                                                       \
      (x, weight, dy, dx, dweight, rstd, batch, dim, eps))                                                             \
    /* The gradients of q and k of rope, in place: rotations by the negative angles. dk may be NULL. */                \
    F(rope_backward, (float *dq, float *dk, const float *freqs, const int32_t *positions, int64_t batch, int32_t seq,  \
                      int32_t heads, int32_t key_heads, int32_t head_dim, int32_t rotary_dim, int32_t halves),         \
      (dq, dk, freqs, positions, batch, seq, heads, key_heads, head_dim, rotary_dim, halves))                          \
    /* The gradients of attention: out[b,t,h,:] = sum_i p_i V[b,i,g,:], p = softmax_i(scale Q[b,t,h,:] . K[b,i,g,:]),  \
     * g = h * key_heads / heads. Q, out, dout and dQ [batch,seq_q,heads,head_dim]; K, V, dK and dV                    \
     * [batch,seq_k,key_heads,head_dim]; heads is a multiple of key_heads. If is_causal is not 0, query t sees the     \
     * keys 0 .. seq_k - seq_q + t. out is the result of the forward function. dK and dV are sums over the heads that  \
     * share a key head. Memory does not grow with seq_q * seq_k. A NaN or an infinity may spread to all gradients of  \
     * its batch entry and key head. 1 <= head_dim <= 512. No output may be an input. */                               \
    F(attention_backward, (const float *Q, const float *K, const float *V, const float *out, const float *dout,        \
                           float *dQ, float *dK, float *dV, int64_t batch, int32_t seq_q, int32_t seq_k, int32_t heads,\
                           int32_t key_heads, int32_t head_dim, float scale, int32_t is_causal, void *workspace,       \
                           int64_t workspace_bytes),                                                                   \
      (Q, K, V, out, dout, dQ, dK, dV, batch, seq_q, seq_k, heads, key_heads, head_dim, scale, is_causal, workspace,   \
       workspace_bytes))                                                                                               \
    /* ---- attention: `heads` query heads, each group of heads / key_heads shares a head of keys and values ----      \
     * out[b,t,h,:] = sum_i p_i V[b,i,h*key_heads/heads,:], p = softmax_i(scale Q[b,t,h,:] .                           \
     * K[b,i,h*key_heads/heads,:] + mask[t,i]). Q and out [batch,seq_q,heads,head_dim], K and V                        \
     * [batch,seq_k,key_heads,head_dim], mask [seq_q,seq_k] or NULL. A key with mask -inf is hidden, but its value     \
     * must be finite. A row that is hidden completely becomes 0. 1 <= head_dim <= 512. Neither memory nor workspace   \
     * grows with seq_q * seq_k. */                                                                                    \
    F(mqa_attention, (const float *Q, const float *K, const float *V, const float *mask, float *out, int64_t batch,    \
                      int32_t seq_q, int32_t seq_k, int32_t heads, int32_t key_heads, int32_t head_dim, float scale,   \
                      void *workspace, int64_t workspace_bytes),                                                       \
      (Q, K, V, mask, out, batch, seq_q, seq_k, heads, key_heads, head_dim, scale, workspace, workspace_bytes))        \
    /* The same without a mask. If is_causal is not 0, the queries are the last seq_q of seq_k positions: query t sees \
     * the keys 0 .. seq_k - seq_q + t; none if that is negative, which gives 0. */                                    \
    F(flash_attention, (const float *Q, const float *K, const float *V, float *out, int64_t batch, int32_t seq_q,      \
                        int32_t seq_k, int32_t heads, int32_t key_heads, int32_t head_dim, float scale,                \
                        int32_t is_causal, void *workspace, int64_t workspace_bytes),                                  \
      (Q, K, V, out, batch, seq_q, seq_k, heads, key_heads, head_dim, scale, is_causal, workspace, workspace_bytes))   \
    /* ---- sampling: a token of each row of logits [batch,vocab] ----                                                 \
     * The index of the largest logit, the lower one among equals; NaN is below everything. */                         \
    F(argmax, (const float *logits, int32_t *ids, int64_t batch, int32_t vocab), (logits, ids, batch, vocab))          \
    /* ids[r] is chosen with probability softmax(logits[r,:] / temperature), by random number 0 of the seed seeds[r].  \
     * The host and a device choose the same token. A NaN logit counts as -inf; -1 if all of them do. temperature 0:   \
     * argmax. For the next token of a sequence give it another seed. batch <= 4096.                                   \
     *                                                                                                                 \
     * Tokens in order of their logits, the lower index first among equals, have integer weights w = floor(2^40 *      \
     * exp((logit - largest) / temperature)). u = (first word of Philox4x32-10 of counter 0 and key seed) >> 8, times  \
     * 2^-24. Chosen is the first token at which the sum of weights is above floor(u * sum of all), in double. */      \
    F(sample, (const float *logits, const uint64_t *seeds, int32_t *ids, int64_t batch, int32_t vocab,                 \
               float temperature, void *workspace, int64_t workspace_bytes),                                           \
      (logits, seeds, ids, batch, vocab, temperature, workspace, workspace_bytes))                                     \
    /* The same among the k largest logits, 1 <= k; k above vocab is all of them. */                                   \
    F(topk_sample, (const float *logits, const uint64_t *seeds, int32_t *ids, int64_t batch, int32_t vocab, int32_t k, \
                    float temperature, void *workspace, int64_t workspace_bytes),                                      \
      (logits, seeds, ids, batch, vocab, k, temperature, workspace, workspace_bytes))                                  \
    /* The same among the fewest tokens, in order, whose weights at temperature 1 sum to ceil(p * sum of all) or more; \
     * 0 < p <= 1. */                                                                                                  \
    F(topp_sample, (const float *logits, const uint64_t *seeds, int32_t *ids, int64_t batch, int32_t vocab, float p,   \
                    float temperature, void *workspace, int64_t workspace_bytes),                                      \
      (logits, seeds, ids, batch, vocab, p, temperature, workspace, workspace_bytes))
/* clang-format on */

/* clang-format off */
/* Functions for the host only, rp_nn_cpu_NAME: F(NAME, (parameters), (their names)). */
#define RP_NN_HOST_FUNCTIONS(F)                                                                                        \
    /* Rounds n elements to `type`, to quantized_bytes bytes at W. Block types refuse NaN, infinity, and values that   \
     * are too large for their scales. */                                                                              \
    F(quantize, (int32_t type, const float *x, void *W, int64_t n), (type, x, W, n))                                   \
    /* Blocks to planes, for the n elements of a matrix or of all experts. As many bytes; float types                  \
     * are copied. */                                                                                                  \
    F(repack, (int32_t type, const void *blocks, void *planes, int64_t n), (type, blocks, planes, n))                  \
    F(quantized_bytes, (int32_t type, int64_t n, int64_t *bytes), (type, n, bytes))
/* clang-format on */

/* clang-format off */
/* Bytes of workspace, written to host memory: rp_nn_NAME and rp_nn_cpu_NAME, F(NAME, (parameters), (their names)). */
#define RP_NN_QUERIES(F)                                                                                               \
    F(gemv_q_workspace, (int32_t type, int32_t rows, int32_t cols, int64_t *bytes), (type, rows, cols, bytes))         \
    F(expert_gemm_workspace, (int32_t type, int64_t tokens, int32_t k, int32_t experts, int32_t rows, int32_t cols,    \
                              int32_t x_each, int64_t *bytes),                                                         \
      (type, tokens, k, experts, rows, cols, x_each, bytes))                                                           \
    F(attention_backward_workspace, (int64_t batch, int32_t seq_q, int32_t seq_k, int32_t heads, int32_t key_heads,    \
                                     int32_t head_dim, int64_t *bytes),                                                \
      (batch, seq_q, seq_k, heads, key_heads, head_dim, bytes))                                                        \
    F(mqa_attention_workspace, (int64_t batch, int32_t seq_q, int32_t seq_k, int32_t heads, int32_t key_heads,         \
                                int32_t head_dim, int64_t *bytes),                                                     \
      (batch, seq_q, seq_k, heads, key_heads, head_dim, bytes))                                                        \
    F(flash_attention_workspace, (int64_t batch, int32_t seq_q, int32_t seq_k, int32_t heads, int32_t key_heads,       \
                                  int32_t head_dim, int64_t *bytes),                                                   \
      (batch, seq_q, seq_k, heads, key_heads, head_dim, bytes))                                                        \
    F(sample_workspace, (int64_t batch, int32_t vocab, int64_t *bytes), (batch, vocab, bytes))                         \
    F(topk_sample_workspace, (int64_t batch, int32_t vocab, int64_t *bytes), (batch, vocab, bytes))                    \
    F(topp_sample_workspace, (int64_t batch, int32_t vocab, int64_t *bytes), (batch, vocab, bytes))
/* clang-format on */

/* clang-format off */
/* Functions without a twin for the host: F(NAME, (parameters), (their names)). Work on a stream: NULL is the default
 * stream. */
#define RP_NN_DEVICE_FUNCTIONS(F)                                                                                      \
    /* The number of CUDA devices, at least 1; RP_NN_NOT_AVAILABLE if there is none. */                                \
    F(device_count, (int32_t *n), (n))                                                                                 \
    /* The device of this thread's further calls. It is device 0 at first. */                                          \
    F(device_set, (int32_t index), (index))                                                                            \
    F(device_get, (int32_t *index), (index))                                                                           \
    /* Writes the name and a final 0, cut to `bytes`. */                                                               \
    F(device_name, (int32_t index, char *name, int64_t bytes), (index, name, bytes))                                   \
    /* Compute capability and number of multiprocessors. */                                                            \
    F(device_properties, (int32_t index, int32_t *major, int32_t *minor, int32_t *multiprocessors),                    \
      (index, major, minor, multiprocessors))                                                                          \
    F(device_memory, (int32_t index, int64_t *free_bytes, int64_t *total_bytes), (index, free_bytes, total_bytes))     \
    /* Memory of the current device, aligned to 256 bytes; bytes 0: *out = NULL. */                                    \
    F(malloc, (int64_t bytes, void **out), (bytes, out))                                                               \
    /* Waits for the device first. NULL is allowed. */                                                                 \
    F(free, (void *memory), (memory))                                                                                  \
    /* Copies of `bytes`, enqueued on the stream. Host memory must stay valid, and is complete, after the next         \
     * rp_nn_stream_sync. */                                                                                           \
    F(copy_to_device, (void *to, const void *from, int64_t bytes, void *stream), (to, from, bytes, stream))            \
    F(copy_to_host, (void *to, const void *from, int64_t bytes, void *stream), (to, from, bytes, stream))              \
    F(copy_on_device, (void *to, const void *from, int64_t bytes, void *stream), (to, from, bytes, stream))            \
    F(stream_create, (void **out), (out))                                                                              \
    /* Waits for all work of the stream; returns the first failure of a kernel. */                                     \
    F(stream_sync, (void *stream), (stream))                                                                           \
    /* Waits for its work, then destroys it. NULL is allowed. */                                                       \
    F(stream_destroy, (void *stream), (stream))
/* clang-format on */

#define RP_NN_UNPACK(...) __VA_ARGS__
#define F(name, parameters, names)                                                                                     \
    RP_API int32_t rp_nn_##name(RP_NN_UNPACK parameters, void *stream);                                                \
    RP_API int32_t rp_nn_cpu_##name(RP_NN_UNPACK parameters, void *stream);
RP_NN_FUNCTIONS(F)
#undef F
#define F(name, parameters, names) RP_API int32_t rp_nn_##name parameters;
RP_NN_DEVICE_FUNCTIONS(F)
RP_NN_QUERIES(F)
#undef F
#define F(name, parameters, names) RP_API int32_t rp_nn_cpu_##name parameters;
RP_NN_HOST_FUNCTIONS(F)
RP_NN_QUERIES(F)
#undef F

/* RP_NN_ABI_VERSION of the library. */
RP_API int32_t rp_nn_abi_version(void);

/* The text of the latest failure on this thread, "" before the first. Borrowed until the next failure on this
 * thread. */
RP_API const char *rp_nn_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
