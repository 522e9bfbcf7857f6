/* mqa_attention and flash_attention of nn.h: the op attention with keys and values of f32, without positions. Both
 * run the same kernel (online softmax); they differ in the mask only.
 *
 *     Q [batch,seq,heads,head_dim]    element (d, t, h, b) at d + head_dim * (h + heads * (t + seq * b))
 *     ne {head_dim, seq, heads, batch}, nb of t: heads rows, of h: one row
 *
 * Query head h uses key head h * key_heads / heads: grouped-query attention (Ainslie et al. 2023, arXiv:2305.13245),
 * with one key head multi-query attention (Shazeer 2019, arXiv:1911.02150). The result is that of
 * scaled_dot_product_attention of PyTorch with enable_gqa, on tensors [batch,seq,heads,head_dim] instead of
 * [batch,heads,seq,head_dim]. The causal mask is aligned to the last key, as in FlashAttention from 2.1 on; PyTorch
 * aligns it to the first. Both agree for seq_q = seq_k. */
#include "nn/workspace.h"

#include "base/limits.h"

typedef struct Sizes {
    int64_t batch, seq_q, seq_k, heads, key_heads, head_dim;
} Sizes;

/* RP_E_ARG if the floats of [batch,seq,heads,head_dim] do not fit into memory. *empty: one of the four is 0. */
static RpStatus floats(const char *function, int64_t batch, int64_t seq, int64_t heads, int64_t head_dim, bool *empty) {
    bool none;
    RP_TRY(rp_nn_sizes(function, heads, head_dim, &none));
    RP_TRY(rp_nn_sizes(function, batch, seq, empty));
    *empty = *empty || none;
    return *empty ? RP_OK : rp_nn_sizes(function, batch * seq, heads * head_dim, &none);
}

/* *empty: there is no query or no key, so nothing is computed. */
static RpStatus check(const char *function, const Sizes *s, bool *empty) {
    bool no_keys;
    RP_TRY(floats(function, s->batch, s->seq_q, s->heads, s->head_dim, empty));
    RP_TRY(floats(function, s->batch, s->seq_k, s->key_heads, s->head_dim, &no_keys));
    if (s->head_dim > RP_ATTENTION_MAX_DIM)
        return rp_fail(RP_E_ARG, "%s: head_dim %lld: must be from 1 to %d", function, (long long)s->head_dim,
                       RP_ATTENTION_MAX_DIM);
    if (s->key_heads > 0 && s->heads % s->key_heads != 0)
        return rp_fail(RP_E_ARG, "%s: %lld heads are no multiple of %lld key heads", function, (long long)s->heads,
                       (long long)s->key_heads);
    *empty = *empty || no_keys;
    return RP_OK;
}

/* [batch,seq,heads,head_dim] in memory as ne {head_dim, seq, heads, batch}: the order in which op attention takes Q,
 * K and V. */
static RpTensorView view(const float *data, int64_t head_dim, int64_t seq, int64_t heads, int64_t batch) {
    const size_t row = (size_t)head_dim * sizeof(float);
    return (RpTensorView){
        .data  = (void *)(uintptr_t)data,
        .dtype = RP_F32,
        .ne    = {head_dim,      seq,                 heads, batch                            },
        .nb    = {sizeof(float), row * (size_t)heads, row,   row * (size_t)heads * (size_t)seq}
    };
}

/* The shapes of a call, without data: enough to ask the op for its memory. The result lies as Q does, but the op wants
 * it as ne {head_dim, heads, seq, batch}, which is contiguous. */
static RpOpArgs args_of(const Sizes *s, const RpOpParams *params) {
    RpOpArgs args = {
        .dst         = rp_nn_view(RP_F32, NULL, s->head_dim, s->heads, s->seq_q),
        .attention.q = view(NULL, s->head_dim, s->seq_q, s->heads, s->batch),
        .attention.k = view(NULL, s->head_dim, s->seq_k, s->key_heads, s->batch),
        .params      = params,
    };
    args.dst.ne[3]   = s->batch;
    args.attention.v = args.attention.k;
    return args;
}

/* Scale and mask do not change the size of the workspace, so any value serves here. */
static RpStatus workspace(const NnCall *call, const char *function, const Sizes *s, int64_t *bytes) {
    bool             empty;
    size_t           wanted = 0;
    const RpOpParams p      = {.attention = {.scale = 1.0f}};
    const RpOpArgs   args   = args_of(s, &p);
    RP_NN_NOT_NULL(function, bytes);
    RP_TRY(check(function, s, &empty));
    if (!empty) RP_TRY(rp_nn_memory(call, RP_OP_ATTENTION, &args, &wanted));
    *bytes = rp_nn_workspace_bytes(wanted);
    return RP_OK;
}

/* `args` has the shapes; Q, K, V and out are not NULL. */
static RpStatus run(const NnCall *call, const char *function, const Sizes *s, RpOpArgs *args, const float *mask,
                    NnMemory memory) {
    size_t wanted;
    if (mask != NULL) args->attention.mask = rp_nn_view(RP_F32, mask, s->seq_k, s->seq_q, 1);
    RP_TRY(rp_nn_memory(call, RP_OP_ATTENTION, args, &wanted));
    RP_TRY(rp_nn_check_workspace(function, &memory, wanted));
    return rp_nn_run_in(call, RP_OP_ATTENTION, args, memory);
}

RpStatus rp_nn_call_mqa_attention(const NnCall *call, const float *Q, const float *K, const float *V, const float *mask,
                                  float *out, int64_t batch, int32_t seq_q, int32_t seq_k, int32_t heads,
                                  int32_t key_heads, int32_t head_dim, float scale, void *workspace,
                                  int64_t workspace_bytes) {
    bool             empty;
    const Sizes      s    = {batch, seq_q, seq_k, heads, key_heads, head_dim};
    const RpOpParams p    = {.attention = {.scale = scale}};
    RpOpArgs         args = args_of(&s, &p);
    RP_TRY(check("mqa_attention", &s, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("mqa_attention", Q);
    RP_NN_NOT_NULL("mqa_attention", K);
    RP_NN_NOT_NULL("mqa_attention", V);
    RP_NN_NOT_NULL("mqa_attention", out);
    args.attention.q.data = (void *)(uintptr_t)Q, args.attention.k.data = (void *)(uintptr_t)K;
    args.attention.v.data = (void *)(uintptr_t)V, args.dst.data = out;
    return run(call, "mqa_attention", &s, &args, mask, rp_nn_workspace(workspace, workspace_bytes));
}

RpStatus rp_nn_call_flash_attention(const NnCall *call, const float *Q, const float *K, const float *V, float *out,
                                    int64_t batch, int32_t seq_q, int32_t seq_k, int32_t heads, int32_t key_heads,
                                    int32_t head_dim, float scale, int32_t is_causal, void *workspace,
                                    int64_t workspace_bytes) {
    bool             empty;
    const Sizes      s = {batch, seq_q, seq_k, heads, key_heads, head_dim};
    const RpOpParams p = {
        .attention = {.scale = scale, .causal = is_causal != 0}
    };
    RpOpArgs args = args_of(&s, &p);
    RP_TRY(check("flash_attention", &s, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("flash_attention", Q);
    RP_NN_NOT_NULL("flash_attention", K);
    RP_NN_NOT_NULL("flash_attention", V);
    RP_NN_NOT_NULL("flash_attention", out);
    args.attention.q.data = (void *)(uintptr_t)Q, args.attention.k.data = (void *)(uintptr_t)K;
    args.attention.v.data = (void *)(uintptr_t)V, args.dst.data = out;
    return run(call, "flash_attention", &s, &args, NULL, rp_nn_workspace(workspace, workspace_bytes));
}

RpStatus rp_nn_call_mqa_attention_workspace(const NnCall *call, int64_t batch, int32_t seq_q, int32_t seq_k,
                                            int32_t heads, int32_t key_heads, int32_t head_dim, int64_t *bytes) {
    const Sizes s = {batch, seq_q, seq_k, heads, key_heads, head_dim};
    return workspace(call, "mqa_attention_workspace", &s, bytes);
}

RpStatus rp_nn_call_flash_attention_workspace(const NnCall *call, int64_t batch, int32_t seq_q, int32_t seq_k,
                                              int32_t heads, int32_t key_heads, int32_t head_dim, int64_t *bytes) {
    const Sizes s = {batch, seq_q, seq_k, heads, key_heads, head_dim};
    return workspace(call, "flash_attention_workspace", &s, bytes);
}
