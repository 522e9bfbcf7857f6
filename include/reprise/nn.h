/* nn.h - the kernels of the library as plain functions for other languages (libreprise_nn). No struct crosses this
 * boundary.
 *
 *   float *x;                                               // device memory of 1000 floats
 *   if (rp_nn_malloc(4000, (void **)&x) != 0) fprintf(stderr, "%s\n", rp_nn_last_error());
 *   rp_nn_silu(x, x, 1000, NULL);                           // in place, on the default stream
 *   rp_nn_stream_sync(NULL);
 *
 * Each function of RP_NN_FUNCTIONS exists twice. rp_nn_NAME enqueues kernels on a CUDA stream and returns; its pointers are
 * device memory of the current device (rp_nn_device_set). rp_nn_cpu_NAME computes on host memory before it returns; its
 * stream is ignored.
 *
 * - They return 0, or one of RpNnStatus; rp_nn_last_error() then has the text. After RP_NN_EXECUTION_FAILED or
 *   RP_NN_OUT_OF_MEMORY the contents of outputs are undefined. Arguments are checked before anything is computed.
 * - Matrices and batches are row-major and contiguous, f32 unless said. A size of 0 computes nothing; pointers may then be
 *   NULL. Sizes are checked for overflow.
 * - Inputs are const; outputs may not overlap inputs unless said.
 * - Functions with a `workspace` use that memory of `workspace_bytes` bytes, device or host as the other pointers. Its
 *   contents mean nothing. rp_nn_NAME_workspace and rp_nn_cpu_NAME_workspace (RP_NN_QUERIES) say how many bytes they need.
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

/* Raised by one when a function changes or goes. New functions do not raise it. */
enum { RP_NN_ABI_VERSION = 1 };

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
     * first; NaN is below everything. 1 <= k <= dim; dim <= 9830 on a GPU if k > 1. values may be NULL, no output may be  \
     * x. */                                                                                                           \
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
    /* ---- attention: `heads` query heads, each group of heads / key_heads shares a head of keys and values ----      \
     * out[b,t,h,:] = sum_i p_i V[b,i,h*key_heads/heads,:], p = softmax_i(scale Q[b,t,h,:] . K[b,i,h*key_heads/heads,:] +\
     * mask[t,i]). Q and out [batch,seq_q,heads,head_dim], K and V [batch,seq_k,key_heads,head_dim], mask [seq_q,seq_k]\
     * or NULL. A key with mask -inf is hidden, but its value must be finite. A row that is hidden completely becomes 0.\
     * 1 <= head_dim <= 512. Neither memory nor workspace grows with seq_q * seq_k. */                                 \
    F(mqa_attention, (const float *Q, const float *K, const float *V, const float *mask, float *out, int64_t batch,    \
                      int32_t seq_q, int32_t seq_k, int32_t heads, int32_t key_heads, int32_t head_dim, float scale,   \
                      void *workspace, int64_t workspace_bytes),                                                       \
      (Q, K, V, mask, out, batch, seq_q, seq_k, heads, key_heads, head_dim, scale, workspace, workspace_bytes))        \
    /* The same without a mask. If is_causal is not 0, the queries are the last seq_q of seq_k positions: query t sees the\
     * keys 0 .. seq_k - seq_q + t; none if that is negative, which gives 0. */                                        \
    F(flash_attention, (const float *Q, const float *K, const float *V, float *out, int64_t batch, int32_t seq_q,      \
                        int32_t seq_k, int32_t heads, int32_t key_heads, int32_t head_dim, float scale,                \
                        int32_t is_causal, void *workspace, int64_t workspace_bytes),                                  \
      (Q, K, V, out, batch, seq_q, seq_k, heads, key_heads, head_dim, scale, is_causal, workspace, workspace_bytes))   \
    /* ---- sampling: a token of each row of logits [batch,vocab] ----                                                 \
     * The index of the largest logit, the lower one among equals; NaN is below everything. */                         \
    F(argmax, (const float *logits, int32_t *ids, int64_t batch, int32_t vocab), (logits, ids, batch, vocab))          \
    /* ids[r] is chosen with probability softmax(logits[r,:] / temperature), by random number 0 of the seed seeds[r]. The\
     * host and a device choose the same token. A NaN logit counts as -inf; -1 if all of them do. temperature 0: argmax.\
     * For the next token of a sequence give it another seed. batch <= 4096.                                           \
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
    /* The same among the fewest tokens, in order, whose weights sum to ceil(p * sum of all) or more; 0 < p <= 1. */   \
    F(topp_sample, (const float *logits, const uint64_t *seeds, int32_t *ids, int64_t batch, int32_t vocab, float p,   \
                    float temperature, void *workspace, int64_t workspace_bytes),                                      \
      (logits, seeds, ids, batch, vocab, p, temperature, workspace, workspace_bytes))

/* Functions for the host only, named rp_nn_cpu_NAME: F(NAME, (parameters), (their names)). */
#define RP_NN_HOST_FUNCTIONS(F)

/* Bytes of workspace, to host memory: rp_nn_NAME and rp_nn_cpu_NAME, F(NAME, (parameters), (their names)). */
#define RP_NN_QUERIES(F)                                                                                               \
    F(mqa_attention_workspace, (int64_t batch, int32_t seq_q, int32_t seq_k, int32_t heads, int32_t key_heads,         \
                                int32_t head_dim, int64_t *bytes),                                                     \
      (batch, seq_q, seq_k, heads, key_heads, head_dim, bytes))                                                        \
    F(flash_attention_workspace, (int64_t batch, int32_t seq_q, int32_t seq_k, int32_t heads, int32_t key_heads,       \
                                  int32_t head_dim, int64_t *bytes),                                                   \
      (batch, seq_q, seq_k, heads, key_heads, head_dim, bytes))                                                        \
    F(sample_workspace, (int64_t batch, int32_t vocab, int64_t *bytes), (batch, vocab, bytes))                         \
    F(topk_sample_workspace, (int64_t batch, int32_t vocab, int64_t *bytes), (batch, vocab, bytes))                    \
    F(topp_sample_workspace, (int64_t batch, int32_t vocab, int64_t *bytes), (batch, vocab, bytes))

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

/* The text of the latest failure on this thread, "" before the first. Borrowed until the next failure on this thread. */
RP_API const char *rp_nn_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
