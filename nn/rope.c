/* rope of nn.h: the op rope, once for the queries and once for the keys. With freq_base 0 its factors are frequencies. */
#include "nn/call.h"

static RpStatus rotate(const NnCall *call, float *x, int32_t heads, const RpTensorView *positions,
                       const RpTensorView *freqs, int32_t head_dim, const RpOpParams *p) {
    const RpTensorView v    = rp_nn_view(RP_F32, x, head_dim, heads, positions->ne[0]);
    const RpOpArgs     args = {
            .dst = v, .rope = {v, *positions, *freqs},
                 .params = p
    };
    return rp_nn_run(call, RP_OP_ROPE, &args);
}

static RpStatus sizes(int64_t batch, int32_t seq, int32_t heads, int32_t head_dim, bool *empty) {
    RP_TRY(rp_nn_sizes("rope", batch, seq, empty));
    const bool none = *empty;
    RP_TRY(rp_nn_sizes("rope", heads, head_dim, empty));
    if (!none && !*empty) return rp_nn_sizes("rope", batch * seq, (int64_t)heads * head_dim, empty);
    *empty = true;
    return RP_OK;
}

RpStatus rp_nn_call_rope(const NnCall *call, float *q, float *k, const float *freqs, const int32_t *positions,
                         int64_t batch, int32_t seq, int32_t heads, int32_t key_heads, int32_t head_dim,
                         int32_t rotary_dim, int32_t halves) {
    bool no_q, no_k = true;
    RP_TRY(sizes(batch, seq, heads, head_dim, &no_q));
    if (k != NULL) RP_TRY(sizes(batch, seq, key_heads, head_dim, &no_k));
    if (no_q && no_k) return RP_OK;
    if (!no_q) RP_NN_NOT_NULL("rope", q);
    RP_NN_NOT_NULL("rope", freqs);
    RP_NN_NOT_NULL("rope", positions);
    const RpOpParams p = {
        .rope = {.mode        = halves != 0 ? RP_ROPE_NEOX : RP_ROPE_NORM,
                 .n_dims      = rotary_dim,
                 .freq_scale  = 1.0f,
                 .attn_factor = 1.0f}
    };
    const RpTensorView at = rp_nn_view(RP_I32, positions, batch * seq, 1, 1),
                       f  = rp_nn_view(RP_F32, freqs, rotary_dim / 2, 1, 1);
    if (!no_q) RP_TRY(rotate(call, q, heads, &at, &f, head_dim, &p));
    return no_k ? RP_OK : rotate(call, k, key_heads, &at, &f, head_dim, &p);
}
