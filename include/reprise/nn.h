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
     * first; NaN is below everything. 1 <= k <= dim; dim <= 9830 on a GPU. values may be NULL, no output may be x. */  \
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
      (q, k, freqs, positions, batch, seq, heads, key_heads, head_dim, rotary_dim, halves))

/* Functions for the host only, rp_nn_cpu_NAME: F(NAME, (parameters), (their names)). */
#define RP_NN_HOST_FUNCTIONS(F)                                                                                        \
    /* Rounds n elements to `type`, to quantized_bytes bytes at W. Block types refuse NaN, infinity, and values that   \
     * are too large for their scales. */                                                                              \
    F(quantize, (int32_t type, const float *x, void *W, int64_t n), (type, x, W, n))                                   \
    /* Blocks to planes, for the n elements of a matrix or of all experts. As many bytes; float types                  \
     * are copied. */                                                                                                  \
    F(repack, (int32_t type, const void *blocks, void *planes, int64_t n), (type, blocks, planes, n))                  \
    F(quantized_bytes, (int32_t type, int64_t n, int64_t *bytes), (type, n, bytes))

/* Bytes of workspace, written to host memory: rp_nn_NAME and rp_nn_cpu_NAME, F(NAME, (parameters), (their names)). */
#define RP_NN_QUERIES(F)                                                                                               \
    F(gemv_q_workspace, (int32_t type, int32_t rows, int32_t cols, int64_t *bytes), (type, rows, cols, bytes))         \
    F(expert_gemm_workspace, (int32_t type, int64_t tokens, int32_t k, int32_t experts, int32_t rows, int32_t cols,    \
                              int32_t x_each, int64_t *bytes),                                                         \
      (type, tokens, k, experts, rows, cols, x_each, bytes))

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
