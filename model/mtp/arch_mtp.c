/* The layer that predicts the token behind the next one (multi-token prediction, DeepSeek-V3, arXiv:2412.19437), as the
 * GGUF files of Qwen and GLM have it. t is n_tok, n is n_embd.
 *
 *     e       = enorm(embedding of the next token)      [n, t]
 *     h       = hnorm(hidden state)                     [n, t]    of the model behind its last norm, or of this layer
 *     x       = eh_proj [e; h]                          [n, t]    the embedding first
 *     x       = one layer with attention, with a cache of its own
 *     hidden' = shared_head_norm(x)                     [n, t]
 *     logits  = output hidden'
 *
 * [e; h] is a tensor [n, 2 t]: row 2 i takes e[:, i], row 2 i + 1 takes h[:, i]. */
#include "model/arch.h"

#define ROWS_4(i, to)    2 * (i) + (to), 2 * (i) + 2 + (to), 2 * (i) + 4 + (to), 2 * (i) + 6 + (to)
#define ROWS_16(i, to)   ROWS_4(i, to), ROWS_4((i) + 4, to), ROWS_4((i) + 8, to), ROWS_4((i) + 12, to)
#define ROWS_64(i, to)   ROWS_16(i, to), ROWS_16((i) + 16, to), ROWS_16((i) + 32, to), ROWS_16((i) + 48, to)
#define ROWS_256(i, to)  ROWS_64(i, to), ROWS_64((i) + 64, to), ROWS_64((i) + 128, to), ROWS_64((i) + 192, to)
#define ROWS_1024(i, to) ROWS_256(i, to), ROWS_256((i) + 256, to), ROWS_256((i) + 512, to), ROWS_256((i) + 768, to)

static const int32_t rows_of[2][MTP_MAX_TOKENS] = {{ROWS_1024(0, 0)}, {ROWS_1024(0, 1)}};

/* Stores x [n, t] in rows of `both`; `half` 0: the first of each token. Graphs of any length have the same weight, of
 * which they read the first elements: a GPU has it once. */
static TensorNode *put(Builder *b, TensorNode *x, TensorNode *both, int half) {
    const int64_t      ne[RP_MAX_DIMS] = {MTP_MAX_TOKENS, 1, 1, 1};
    const RpTensorView v               = rp_view_contiguous(RP_I32, ne, (void *)(uintptr_t)rows_of[half]);
    const size_t       end             = (size_t)b->n_tok * sizeof(int32_t);
    TensorNode        *rows            = rp_graph_weight(b->g, half == 0 ? "mtp_rows_embd" : "mtp_rows_hidden", &v);
    rows                               = rp_view(b->g, rows,
                                                 &(RpViewParams){
                                                     .ne = {b->n_tok,        1,   1,   1  },
                                                       .nb = {sizeof(int32_t), end, end, end}
    });
    return rp_store(b->g, x, both, rows);
}

TensorNode *rp_arch_joined(Builder *b, TensorNode *first, TensorNode *second) {
    const int64_t    n     = rp_node_view(first).ne[0];
    const RpOpParams zeros = {.fill = {.ne = {n, 2 * (int64_t)b->n_tok, 1, 1}}};
    TensorNode      *both  = rp_graph_op(b->g, RP_OP_FILL, &zeros, NULL, 0);
    both                   = put(b, second, put(b, first, both, 0), 1);
    return rp_reshape(b->g, both, 2 * n, b->n_tok, 1, 1);
}

static TensorNode *joined(Builder *b, TensorNode *embd, TensorNode *tokens, TensorNode *hidden) {
    const MtpWeights  *w = &b->m->mtp;
    const ModelConfig *c = &b->m->config;
    TensorNode        *e = rp_get_rows(b->g, embd, tokens);
    rp_arch_name_node(b, e, "embedding");
    if (c->embd_scale != 1.0f) e = rp_scale(b->g, e, c->embd_scale, 0.0f);
    return rp_arch_joined(b, rp_arch_norm(b, e, w->embd_norm, "enorm"),
                          rp_arch_norm(b, hidden, w->hidden_norm, "hnorm"));
}

TensorNode *rp_arch_mtp(Builder *b, TensorNode *tokens, TensorNode *rows) {
    const RpModel *m      = b->m;
    const int64_t  n      = m->config.n_embd;
    TensorNode    *hidden = rp_graph_input(b->g, "hidden", RP_F32, (int64_t[]){n, b->n_tok, 1, 1});
    TensorNode    *embd   = rp_arch_weight(b, m->mtp.token_embd);
    rp_arch_begin_layers(b);
    b->layer = m->config.n_layer;
    b->kind  = rp_config_layer(&m->config, b->layer);
    rp_graph_set_layer(b->g, b->layer);
    TensorNode *x = rp_arch_linear(b, joined(b, embd, tokens, hidden), m->mtp.eh_proj, NULL, "eh_proj");
    x             = rp_arch_layer(b, x);
    b->layer      = -1;
    rp_graph_set_layer(b->g, -1);
    x = rp_arch_name_node(b, rp_get_rows(b->g, x, rows), "out_rows_of_last");
    x = b->outputs[b->n_outputs++] = rp_arch_norm(b, x, m->mtp.norm, "next_hidden");
    TensorNode *w                  = m->mtp.output == m->mtp.token_embd ? embd : rp_arch_weight(b, m->mtp.output);
    if (m->mtp.output != m->output) return rp_arch_name_node(b, rp_mul_mat(b->g, w, x), "logits");
    return rp_arch_logits(b, &(ArchOutput){.w = w, .x = x, .scale = m->config.logit_scale});
}
