/* rope and rope_backward of nn.h: the op rope (Su et al. 2021, arXiv:2104.09864), once for the queries and once for
 * the keys, both in place. With freq_base 0 its factors are frequencies: pair i is rotated by position * freqs[i]. A
 * rotation is orthogonal, so the gradient is the rotation by the negative angle: freq_scale -1.
 *
 * `halves` selects the pairs. (i, i + rotary_dim/2) is rotate_half of Hugging Face transformers; (2i, 2i+1) is the
 * complex product of the paper and of Meta's Llama. */
#include "nn/call.h"

/* The arguments that q and k share. */
typedef struct Rope {
    const char    *function;
    const float   *freqs;
    const int32_t *positions;
    int64_t        batch;
    int32_t        seq, head_dim, rotary_dim, halves;
    float          freq_scale;
} Rope;

/* Rotates x [batch,seq,heads,head_dim]. To the op batch and seq are one dimension, the tokens. */
static RpStatus rotate(const NnCall *call, const Rope *r, float *x, int32_t heads) {
    const int64_t    tokens = r->batch * r->seq;
    const RpOpParams p      = {
             .rope = {.mode        = r->halves != 0 ? RP_ROPE_NEOX : RP_ROPE_NORM,
                      .n_dims      = r->rotary_dim,
                      .freq_scale  = r->freq_scale,
                      .attn_factor = 1.0f}
    };
    const RpTensorView v    = rp_nn_view(RP_F32, x, r->head_dim, heads, tokens);
    const RpOpArgs     args = {
            .dst    = v,
            .src    = {v, rp_nn_view(RP_I32, r->positions, tokens, 1, 1),
                       rp_nn_view(RP_F32, r->freqs, r->rotary_dim / 2, 1, 1)},
            .params = &p
    };
    return rp_nn_run(call, RP_OP_ROPE, &args);
}

/* RP_E_ARG for sizes that cannot exist. *empty: there is nothing to rotate. */
static RpStatus sizes(const Rope *r, int32_t heads, bool *empty) {
    RP_TRY(rp_nn_sizes(r->function, r->batch, r->seq, empty));
    const bool none = *empty;
    RP_TRY(rp_nn_sizes(r->function, heads, r->head_dim, empty));
    if (!none && !*empty) return rp_nn_sizes(r->function, r->batch * r->seq, (int64_t)heads * r->head_dim, empty);
    *empty = true;
    return RP_OK;
}

/* Rotates q, and k unless it is NULL. `name` is the name of q in errors. Sizes and pointers of both are
 * checked before q changes. */
static RpStatus rotate_both(const NnCall *call, const Rope *r, const char *name, float *q, float *k, int32_t heads,
                            int32_t key_heads) {
    bool no_q, no_k = true;
    RP_TRY(sizes(r, heads, &no_q));
    if (k != NULL) RP_TRY(sizes(r, key_heads, &no_k));
    if (no_q && no_k) return RP_OK;
    if (!no_q && q == NULL) return rp_fail(RP_E_ARG, "%s: %s is NULL", r->function, name);
    if (r->freqs == NULL) return rp_fail(RP_E_ARG, "%s: freqs is NULL", r->function);
    if (r->positions == NULL) return rp_fail(RP_E_ARG, "%s: positions is NULL", r->function);
    if (!no_q) RP_TRY(rotate(call, r, q, heads));
    return no_k ? RP_OK : rotate(call, r, k, key_heads);
}

RpStatus rp_nn_call_rope(const NnCall *call, float *q, float *k, const float *freqs, const int32_t *positions,
                         int64_t batch, int32_t seq, int32_t heads, int32_t key_heads, int32_t head_dim,
                         int32_t rotary_dim, int32_t halves) {
    const Rope r = {"rope", freqs, positions, batch, seq, head_dim, rotary_dim, halves, 1.0f};
    return rotate_both(call, &r, "q", q, k, heads, key_heads);
}

RpStatus rp_nn_call_rope_backward(const NnCall *call, float *dq, float *dk, const float *freqs,
                                  const int32_t *positions, int64_t batch, int32_t seq, int32_t heads,
                                  int32_t key_heads, int32_t head_dim, int32_t rotary_dim, int32_t halves) {
    const Rope r = {"rope_backward", freqs, positions, batch, seq, head_dim, rotary_dim, halves, -1.0f};
    return rotate_both(call, &r, "dq", dq, dk, heads, key_heads);
}
