/* Op attention: scores, softmax and weighted sum over the positions of a cache, or of sequences in f32. */
#include "ops/attention/table.h"

/* The options that need keys and values of f32. */
static CHECK_RULE(check_f32) {
    const RpTensorView *q = &args->attention.q, *k = &args->attention.k, *mask = &args->attention.mask;
    const bool          f32 = k->dtype == RP_F32, masked = rp_is_present(mask);
    if (!f32 && masked) return rp_refuse(RP_E_UNSUPPORTED, op, args, "k must be f32 where there is a mask");
    if (!f32 && q->ne[3] != 1)
        return rp_refuse(RP_E_UNSUPPORTED, op, args, "k must be f32 where there is a batch, dimension 3 of q");
    if (!f32 && !rp_is_present(&args->attention.pos))
        return rp_refuse(RP_E_UNSUPPORTED, op, args, "k must be f32 where there are no positions");
    if (f32 && args->dst.dtype != RP_F32)
        return rp_refuse(RP_E_DTYPE, op, args, "the result must be f32 where k is f32");
    if (f32 && rp_is_present(&args->attention.cap))
        return rp_refuse(RP_E_UNSUPPORTED, op, args, "k must not be f32 where there is a cap");
    if (masked && mask->dtype != RP_F32) return rp_refuse(RP_E_DTYPE, op, args, "mask must be f32");
    if (masked && (mask->ne[0] != k->ne[1] || mask->ne[1] != q->ne[1]))
        return rp_refuse(RP_E_SHAPE, op, args, "mask must be [%lld,%lld], a row of all positions for each token",
                         (long long)k->ne[1], (long long)q->ne[1]);
    return RP_OK;
}

static CHECK_RULE(check_types) {
    const RpTensorView *k = &args->attention.k, *y = &args->dst;
    if (args->attention.q.dtype != RP_F32) return rp_refuse(RP_E_DTYPE, op, args, "q must be f32");
    if ((k->dtype != RP_F16 && k->dtype != RP_Q8_0 && k->dtype != RP_F32) || args->attention.v.dtype != k->dtype)
        return rp_refuse(RP_E_DTYPE, op, args, "k and v must both be f16, q8_0 or f32");
    if (y->dtype != RP_F32 && y->dtype != RP_Q8_ACT)
        return rp_refuse(RP_E_DTYPE, op, args, "the result must be f32 or q8_act");
    return RP_OK;
}

/* The result is f32 [d,h,t,b] or q8_act [d*h,t]. */
static CHECK_RULE(check_result) {
    const RpTensorView *q = &args->attention.q, *y = &args->dst;
    if (y->dtype == RP_Q8_ACT && q->ne[0] % 32 != 0)
        return rp_refuse(RP_E_SHAPE, op, args, "heads must be whole blocks of 32 where the result is q8_act");
    if (y->dtype == RP_Q8_ACT ? y->ne[0] != q->ne[0] * q->ne[2] || y->ne[1] != q->ne[1]
                              : y->ne[1] != q->ne[2] || y->ne[2] != q->ne[1] || y->ne[3] != q->ne[3])
        return rp_refuse(RP_E_SHAPE, op, args, "the result must have all heads of each token of q, which is [d,t,h,b]");
    return RP_OK;
}

static CHECK_RULE(check) {
    const RpTensorView *q = &args->attention.q, *k = &args->attention.k, *v = &args->attention.v,
                       *pos = &args->attention.pos, *sinks = &args->attention.sinks;
    RP_TRY(check_types(op, args));
    if (k->dtype == RP_Q8_0 && k->ne[0] % 32 != 0)
        return rp_refuse(RP_E_SHAPE, op, args, "heads of k must be whole q8_0 blocks of 32");
    if (q->ne[0] > RP_ATTENTION_MAX_DIM)
        return rp_refuse(RP_E_SHAPE, op, args, "heads must have at most %d elements", RP_ATTENTION_MAX_DIM);
    if (k->ne[0] != q->ne[0] || v->ne[0] != q->ne[0])
        return rp_refuse(RP_E_SHAPE, op, args, "heads of q, k and v must have one length");
    if (q->ne[2] % k->ne[2] != 0)
        return rp_refuse(RP_E_SHAPE, op, args, "heads of q, its dimension 2, must be a multiple of those of k");
    if (q->ne[3] != k->ne[3] || q->ne[3] != v->ne[3])
        return rp_refuse(RP_E_SHAPE, op, args, "q, k and v must be of one batch, their dimension 3");
    if (rp_is_present(pos) && pos->ne[0] != q->ne[1])
        return rp_refuse(RP_E_SHAPE, op, args, "pos must have a position for each token of q, its dimension 1");
    RP_TRY(check_result(op, args));
    if (rp_is_present(sinks) && sinks->ne[0] != q->ne[2])
        return rp_refuse(RP_E_SHAPE, op, args, "sinks must have one for each head of q, its dimension 2");
    if (rp_is_present(&args->attention.cap) &&
        (args->attention.cap.dtype != RP_F32 || rp_view_elems(&args->attention.cap) != 1))
        return rp_refuse(RP_E_SHAPE, op, args, "cap must be f32 [1]");
    RP_TRY(check_f32(op, args));
    const char *why = rp_table_problem(q, k, rp_given(&args->attention.table), rp_given(&args->attention.seq),
                                       args->params != NULL ? args->params->attention.block : 0);
    return why == NULL ? RP_OK : rp_refuse(RP_E_SHAPE, op, args, "%s", why);
}

static RpStatus attention_sources(const RpSourceShapes *in, const RpOpParams *params, const char **why) {
    const RpTensorView *q = in->attention.q, *k = in->attention.k, *v = in->attention.v, *pos = in->attention.pos,
                       *mask = in->attention.mask;
    if (q->dtype != RP_F32) REFUSE(RP_E_DTYPE, "queries must be f32");
    if ((k->dtype != RP_F16 && k->dtype != RP_Q8_0 && k->dtype != RP_F32) || v->dtype != k->dtype)
        REFUSE(RP_E_DTYPE, "keys and values must be f16, both q8_0 or both f32");
    if (params->attention.window < 0) REFUSE(RP_E_ARG, "the window must not be negative");
    if (!rp_shape_same(k, v)) REFUSE(RP_E_SHAPE, "keys and values must have one shape");
    if (!rp_shape_contiguous_rows(q) || !rp_shape_contiguous_rows(k) || !rp_shape_contiguous_rows(v))
        REFUSE(RP_E_SHAPE, "the rows must be contiguous");
    if (q->ne[0] != k->ne[0]) REFUSE(RP_E_SHAPE, "heads of queries and keys must have one size");
    if (q->ne[2] % k->ne[2] != 0 || q->ne[3] != k->ne[3])
        REFUSE(RP_E_SHAPE, "the number of query heads must be a multiple of the number of key heads");
    if (k->dtype != RP_F32 && (q->ne[3] != 1 || pos == NULL || mask != NULL))
        REFUSE(RP_E_SHAPE, "keys and values must be f32 where there is a batch, a mask or no positions");
    if (pos != NULL && !rp_shape_is_index(pos, q->ne[1])) REFUSE(RP_E_SHAPE, "positions must be i32, one per token");
    if (mask != NULL && (mask->dtype != RP_F32 || mask->ne[0] != k->ne[1] || rp_view_rows(mask) != q->ne[1] ||
                         mask->ne[1] != q->ne[1] || !rp_shape_contiguous_rows(mask)))
        REFUSE(RP_E_SHAPE, "the mask must be f32, a row of all positions for each token");
    if (in->attention.sinks != NULL && !rp_shape_is_vector(in->attention.sinks, q->ne[2]))
        REFUSE(RP_E_SHAPE, "sinks must be f32, one per head");
    if (in->attention.cap != NULL && (k->dtype == RP_F32 || !rp_shape_is_vector(in->attention.cap, 1)))
        REFUSE(RP_E_SHAPE, "the cap must be f32 [1], and keys and values f16 or q8_0");
    *why = rp_table_problem(q, k, in->attention.table, in->attention.seq, params->attention.block);
    return *why != NULL ? RP_E_SHAPE : RP_OK;
}

static SHAPE_RULE(shape) {
    const RpTensorView *q = in->attention.q;
    RP_TRY(attention_sources(in, params, why));
    const RpDtype to = params->attention.dtype;
    if (to != RP_F32 && to != RP_Q8_ACT) REFUSE(RP_E_DTYPE, "the result must be f32 or q8_act");
    if (to == RP_Q8_ACT && in->attention.k->dtype == RP_F32)
        REFUSE(RP_E_DTYPE, "the result must be f32 where keys and values are f32");
    if (to == RP_Q8_ACT && q->ne[0] % rp_dtype_info(to)->block_elems != 0)
        REFUSE(RP_E_SHAPE, "heads of a q8_act result must be whole blocks of 32");
    /* f32 [d,h,t,b]; as q8_act the heads of a token are one row, [d*h,t], which is what the next product
     * reads. */
    *out = to == RP_F32 ? rp_view_contiguous(to, (int64_t[]){q->ne[0], q->ne[2], q->ne[1], q->ne[3]}, NULL)
                        : rp_view_contiguous(to, (int64_t[]){q->ne[0] * q->ne[2], q->ne[1], 1, 1}, NULL);
    return RP_OK;
}

/* The fourth part of the statistics of attention_backward, summed for each head: [t,h,b] -> [h]. */
static TensorNode *of_sinks(Backward *b, const TensorNode *q, TensorNode *stats) {
    const int64_t      t = rp_node_ne(q, 1), h = rp_node_ne(q, 2), n = rp_node_ne(q, 3);
    const size_t       row  = (size_t)t * sizeof(float);
    const RpViewParams part = {
        .ne     = {t, h,   n,               1                    },
        .nb     = {0, row, row * (size_t)h, row * (size_t)(h * n)},
        .offset = 3 * row * (size_t)(h * n)
    };
    return rp_backward_shaped(b, rp_backward_sum_to(b, rp_view(b->g, stats, &part), (int64_t[]){1, h, 1, 1}), h, 1, 1,
                              1);
}

static GRADIENT_RULE(gradient) {
    const RpAttentionParams *of = &y->params.attention;
    TensorNode              *q = y->from.attention.q, *k = y->from.attention.k, *v = y->from.attention.v,
               *sinks  = y->from.attention.sinks;
    const RpOpParams p = {
        .attention_backward = {.scale = of->scale, .window = of->window, .causal = of->causal}
    };
    if (rp_node_view(k).dtype != RP_F32) return "the gradient of attention needs keys and values of f32";
    if (y->from.attention.pos != NULL) return "attention with positions has no gradient; use causal";
    if (y->from.attention.mask != NULL) return "attention with a mask has no gradient";
    TensorNode *dk = rp_backward_buffer_like(b, k), *dv = rp_backward_buffer_like(b, v),
               *stats = rp_backward_buffer_of_rows(b, q, sinks != NULL ? 4 : 3);
    TensorNode *dq    = rp_graph_op(b->g, RP_OP_ATTENTION_BACKWARD, &p,
                                    (TensorNode *const[]){dy, q, k, v, y->node, dk, dv, stats, sinks}, 9);
    rp_backward_give(b, q, dq);
    rp_backward_give(b, k, rp_backward_after(b, dk, dq));
    rp_backward_give(b, v, rp_backward_after(b, dv, dq));
    if (rp_backward_needs(b, sinks)) rp_backward_give(b, sinks, of_sinks(b, q, rp_backward_after(b, stats, dq)));
    return NULL;
}

static PARTS(parts) { rp_add_part(list, n->view.dtype == RP_Q8_ACT, "round"); }

const OpRules rp_rules_attention = {
    .shape = shape, .check = check, .gradient = gradient, .parts = parts, .colour = "#d6604d"};
