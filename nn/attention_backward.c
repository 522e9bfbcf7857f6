/* attention_backward of nn.h. The workspace is the source `stats` of the op: three floats for each row of Q, which
 * are the largest score, 1 / (sum of the exponentials) and dout . out.
 *
 *     Q [batch,seq,heads,head_dim]    element (d, t, h, b) at d + head_dim * (h + heads * (t + seq * b))
 *
 * The probabilities are not stored by the forward function. The op computes them again, tile by tile, as
 * FlashAttention-2 does (Dao 2023, arXiv:2307.08691, algorithm 2). A result of a key head is summed over its query
 * heads and then over the queries, in a fixed order and without atomics, so that equal calls give equal bits. */
#include "nn/call.h"

#include "base/limits.h"

typedef struct Sizes {
    int64_t batch, seq_q, seq_k, heads, key_heads, head_dim;
} Sizes;

/* The floats of [batch,seq,heads,head_dim] must fit into memory, and its rows be blocks of a grid. */
static RpStatus floats(const char *function, int64_t batch, int64_t seq, int64_t heads, int64_t head_dim, bool *empty) {
    bool none;
    RP_TRY(rp_nn_sizes(function, heads, head_dim, &none));
    RP_TRY(rp_nn_sizes(function, batch, seq, empty));
    *empty = *empty || none;
    if (*empty) return RP_OK;
    RP_TRY(rp_nn_sizes(function, batch * seq, heads * head_dim, &none));
    if (batch * seq <= INT32_MAX / heads) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: %lld * %lld * %lld rows: must be at most %d", function, (long long)batch,
                   (long long)seq, (long long)heads, INT32_MAX);
}

/* *empty: there is no query or no key, so nothing is computed. */
static RpStatus check(const char *function, const Sizes *s, bool *empty) {
    bool no_keys;
    RP_TRY(floats(function, s->batch, s->seq_q, s->heads, s->head_dim, empty));
    RP_TRY(floats(function, s->batch, s->seq_k, s->key_heads, s->head_dim, &no_keys));
    *empty = *empty || no_keys;
    if (s->head_dim > RP_ATTENTION_MAX_DIM)
        return rp_fail(RP_E_ARG, "%s: head_dim %lld: must be from 1 to %d", function, (long long)s->head_dim,
                       RP_ATTENTION_MAX_DIM);
    if (s->key_heads == 0 || s->heads % s->key_heads == 0) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: %lld heads are no multiple of %lld key heads", function, (long long)s->heads,
                   (long long)s->key_heads);
}

/* Bytes of the workspace. No product overflows: floats() bounds batch * seq_q * heads by INT32_MAX. */
static int64_t stats_bytes(const Sizes *s) { return 3 * (int64_t)sizeof(float) * s->batch * s->heads * s->seq_q; }

/* out and dout: [batch,seq_q,heads,head_dim] as ne {head_dim, heads, seq, batch}, contiguous. */
static RpTensorView result(const float *data, const Sizes *s) {
    RpTensorView v = rp_nn_view(RP_F32, data, s->head_dim, s->heads, s->seq_q);
    v.ne[3]        = s->batch;
    return v;
}

/* Q, K, V and their gradients: the same memory layout as ne {head_dim, seq, heads, batch}. */
static RpTensorView view(const float *data, const Sizes *s, int64_t seq, int64_t heads) {
    const size_t row = (size_t)s->head_dim * sizeof(float);
    return (RpTensorView){
        .data  = (void *)(uintptr_t)data,
        .dtype = RP_F32,
        .ne    = {s->head_dim,   seq,                 heads, s->batch                         },
        .nb    = {sizeof(float), row * (size_t)heads, row,   row * (size_t)heads * (size_t)seq}
    };
}

RpStatus rp_nn_call_attention_backward(const NnCall *call, const float *Q, const float *K, const float *V,
                                       const float *out, const float *dout, float *dQ, float *dK, float *dV,
                                       int64_t batch, int32_t seq_q, int32_t seq_k, int32_t heads, int32_t key_heads,
                                       int32_t head_dim, float scale, int32_t is_causal, void *workspace,
                                       int64_t workspace_bytes) {
    static const char        function[] = "attention_backward";
    bool                     empty;
    const Sizes              s       = {batch, seq_q, seq_k, heads, key_heads, head_dim};
    const float *const       all[]   = {Q, K, V, out, dout, dQ, dK, dV};
    static const char *const names[] = {"Q", "K", "V", "out", "dout", "dQ", "dK", "dV"};
    RP_TRY(check(function, &s, &empty));
    if (empty) return RP_OK;
    for (int i = 0; i < 8; i++)
        if (all[i] == NULL) return rp_fail(RP_E_ARG, "%s: %s is NULL", function, names[i]);
    RP_NN_NOT_NULL(function, workspace);
    if (workspace_bytes < stats_bytes(&s) || (uintptr_t)workspace % sizeof(float) != 0)
        return rp_fail(RP_E_ARG, "%s: a workspace of %lld bytes, must be %lld, aligned to %zu", function,
                       (long long)workspace_bytes, (long long)stats_bytes(&s), sizeof(float));
    const RpOpParams p = {
        .attention_backward = {.scale = scale, .causal = is_causal != 0}
    };
    const RpOpArgs args = {
        .dst    = view(dQ, &s, seq_q, heads),
        .src    = {result(dout, &s), view(Q, &s, seq_q, heads), view(K, &s, seq_k, key_heads),
                   view(V, &s, seq_k, key_heads), result(out, &s), view(dK, &s, seq_k, key_heads),
                   view(dV, &s, seq_k, key_heads), rp_nn_view(RP_F32, workspace, 3 * batch * heads * seq_q, 1, 1)},
        .params = &p
    };
    return rp_nn_run(call, RP_OP_ATTENTION_BACKWARD, &args);
}

RpStatus rp_nn_call_attention_backward_workspace(const NnCall *call, int64_t batch, int32_t seq_q, int32_t seq_k,
                                                 int32_t heads, int32_t key_heads, int32_t head_dim, int64_t *bytes) {
    bool        empty;
    const Sizes s = {batch, seq_q, seq_k, heads, key_heads, head_dim};
    (void)call;
    RP_NN_NOT_NULL("attention_backward_workspace", bytes);
    RP_TRY(check("attention_backward_workspace", &s, &empty));
    *bytes = empty ? 0 : stats_bytes(&s);
    return RP_OK;
}
