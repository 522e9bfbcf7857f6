/* The gradient rules of ops (gradients.h). dy is the gradient of the loss with respect to the result y, contiguous f32
 * of its shape. The formulas stand beside the rows of ops.h. An op with several gradients writes the further ones into
 * buffers of the graph, and their readers see them through `after`. */
#include "graph/gradients.h"

#include <string.h>

static TensorNode *op(Backward *b, TensorOp id, const RpOpParams *p, TensorNode *s0, TensorNode *s1,
                      TensorNode *s2) {
    return rp_graph_op(b->g, id, p, (TensorNode *const[]){s0, s1, s2}, s2 != NULL ? 3 : s1 != NULL ? 2 : 1);
}

static TensorNode *contiguous(Backward *b, TensorNode *x) { return rp_backward_contiguous(b->g, x); }

/* Sums a gradient over what was repeated: to the shape of `like`. */
static TensorNode *sum_to(Backward *b, TensorNode *dy, const int64_t ne[RP_MAX_DIMS]) {
    if (dy == NULL || memcmp(dy->view.ne, ne, sizeof dy->view.ne) == 0) return dy;
    RpOpParams p = {0};
    memcpy(p.repeat_backward.ne, ne, sizeof p.repeat_backward.ne);
    return op(b, RP_OP_REPEAT_BACKWARD, &p, dy, NULL, NULL);
}

static TensorNode *shaped(Backward *b, TensorNode *x, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
    return rp_reshape(b->g, x, n0, n1, n2, n3);
}

static TensorNode *like(Backward *b, TensorNode *x, const TensorNode *of) {
    const int64_t *ne = of->view.ne;
    return shaped(b, x, ne[0], ne[1], ne[2], ne[3]);
}

/* `buffer` after `writer` has written to it. */
static TensorNode *after(Backward *b, TensorNode *buffer, TensorNode *writer) {
    if (buffer == NULL || writer == NULL) return NULL;
    TensorNode *n =
        rp_graph_make_op(b->g, RP_OP_AFTER, NULL, (TensorNode *const[]){buffer, writer}, 2, "", b->g->layer);
    return n != NULL && rp_graph_push(b->g, n) == RP_OK ? n : NULL;
}

/* `value` in the shape of x, which is not read: a NaN in x does not pass. */
static TensorNode *filled(Backward *b, const TensorNode *x, float value) {
    RpOpParams p = {.fill = {.value = value}};
    if (x == NULL) return NULL;
    memcpy(p.fill.ne, x->view.ne, sizeof p.fill.ne);
    return rp_graph_op(b->g, RP_OP_FILL, &p, NULL, 0);
}

/* A buffer like x, which another op writes to. It begins as zeros: reading x would cost more. */
static TensorNode *buffer_like(Backward *b, const TensorNode *x) { return filled(b, x, 0.0f); }

/* A buffer of n floats for each row of x. */
static TensorNode *buffer_of_rows(Backward *b, const TensorNode *x, int64_t n) {
    const RpOpParams p = {.fill = {.ne = {n * rp_view_rows(&x->view), 1, 1, 1}}};
    return rp_graph_op(b->g, RP_OP_FILL, &p, NULL, 0);
}

/* A weight as contiguous f32. Quantised rows are dequantised. */
static TensorNode *as_f32(Backward *b, TensorNode *w) {
    if (!rp_dtype_is_quant(w->view.dtype)) return w->view.dtype == RP_F32 ? w : rp_cast(b->g, w, RP_F32);
    const int64_t rows = rp_view_rows(&w->view);
    return like(b, op(b, RP_OP_GET_ROWS, NULL, shaped(b, w, w->view.ne[0], rows, 1, 1), NULL, NULL), w);
}

static TensorNode *product(Backward *b, TensorNode *a, TensorNode *c) {
    const RpOpParams p = {.gemm = {.alpha = 1.0f}};
    return op(b, RP_OP_GEMM, &p, a, c, NULL);
}

/* dw[k,m,h_w,b_w] = sum over t and repetitions of x[k,t,h,b] dy[m,t,h,b]; h = g h_w, b = g' b_w:
 *
 *     all [k,m,h*b] -> [k*m,g,h_w,b] -> [k*m,1,h_w,b] -> [k*m*h_w,g',b_w] -> [k*m*h_w,1,b_w] */
static TensorNode *outer_sums(Backward *b, const TensorNode *w, TensorNode *x, TensorNode *dy) {
    const int64_t k = x->view.ne[0], m = dy->view.ne[0], t = x->view.ne[1], h = x->view.ne[2],
                  n   = x->view.ne[3];
    const int64_t h_w = w->view.ne[2], b_w = w->view.ne[3];
    const bool    one = h_w == 1 && b_w == 1;
    x                 = contiguous(b, x);
    x                 = one ? shaped(b, x, k, t * h * n, 1, 1) : shaped(b, x, k, t, h * n, 1);
    dy                = one ? shaped(b, dy, m, t * h * n, 1, 1) : shaped(b, dy, m, t, h * n, 1);
    TensorNode *dw    = product(b, rp_transpose(b->g, dy), x);
    if (one) return dw;
    dw = sum_to(b, shaped(b, dw, k * m, h / h_w, h_w, n), (int64_t[]){k * m, 1, h_w, n});
    dw = sum_to(b, shaped(b, dw, k * m * h_w, n / b_w, b_w, 1), (int64_t[]){k * m * h_w, 1, b_w, 1});
    return like(b, dw, w);
}

const char *rp_gradient_mul_mat(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode *w = y->from.mul_mat.w, *x = y->from.mul_mat.x;
    if (y->from.mul_mat.pos != NULL) return "a product that positions limit has no gradient";
    if (rp_backward_needs(b, w)) rp_backward_give(b, w, outer_sums(b, w, x, dy));
    if (!rp_backward_needs(b, x)) return NULL;
    w                   = as_f32(b, w);
    const int64_t *ne   = x->view.ne;
    const bool     flat = w != NULL && rp_view_rows(&w->view) == w->view.ne[1];
    if (w == NULL) return NULL;
    if (flat)
        rp_backward_give(
            b, x, like(b, product(b, shaped(b, dy, dy->view.ne[0], ne[1] * ne[2] * ne[3], 1, 1), w), x));
    else
        rp_backward_give(b, x, rp_mul_mat(b->g, rp_cast(b->g, rp_transpose(b->g, w), RP_F32), dy));
    return NULL;
}

const char *rp_gradient_mul_mat_id(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode      *w = y->from.mul_mat_id.w, *x = y->from.mul_mat_id.x, *ids = y->from.mul_mat_id.ids;
    const RpOpParams p = {.mul_mat_id_backward = {.experts = (int32_t)w->view.ne[2]}};
    if (rp_backward_needs(b, w))
        rp_backward_give(b, w, op(b, RP_OP_MUL_MAT_ID_BACKWARD, &p, contiguous(b, x), dy, ids));
    if (rp_backward_needs(b, x))
        rp_backward_give(
            b, x, sum_to(b, op(b, RP_OP_MUL_MAT_ID_TRANSPOSED, NULL, as_f32(b, w), dy, ids), x->view.ne));
    return NULL;
}

const char *rp_gradient_get_rows(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode      *w     = y->from.get_rows.w;
    const float      scale = y->params.get_rows.scale;
    const RpOpParams p     = {
            .get_rows_backward = {.rows = (int32_t)w->view.ne[1], .scale = scale}
    };
    rp_backward_give(b, w,
                     y->from.get_rows.ids != NULL
                         ? op(b, RP_OP_GET_ROWS_BACKWARD, &p, dy, y->from.get_rows.ids, NULL)
                     : scale != 0.0f ? rp_scale(b->g, dy, scale, 0.0f)
                                     : dy);
    return NULL;
}

const char *rp_gradient_rms_norm(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode      *x = contiguous(b, y->from.rms_norm.x), *w = y->from.rms_norm.w, *dw = NULL, *rstd = NULL;
    const RpOpParams p = {.rms_norm_backward = y->params.rms_norm};
    if (rp_backward_needs(b, w)) {
        dw   = buffer_like(b, w);
        rstd = buffer_of_rows(b, x, 1);
    }
    TensorNode *dx =
        rp_graph_op(b->g, RP_OP_RMS_NORM_BACKWARD, &p, (TensorNode *const[]){dy, x, w, dw, rstd}, 5);
    rp_backward_give(b, y->from.rms_norm.x, dx);
    if (dw != NULL) rp_backward_give(b, w, after(b, dw, dx));
    return NULL;
}

const char *rp_gradient_rope(Backward *b, const TensorNode *y, TensorNode *dy) {
    RpRopeParams p = y->params.rope;
    if (rp_backward_needs(b, y->from.rope.factors)) return "frequency factors have no gradient";
    p.freq_scale = -p.freq_scale;
    rp_backward_give(b, y->from.rope.x, rp_rope(b->g, dy, y->from.rope.pos, y->from.rope.factors, &p));
    return NULL;
}

/* The sink of a head takes part of the softmax of each row, 1 - sum_i y[i,t,h], and its result is not used:
 *
 *     dsinks[h] = -sum_t (1 - sum_i y[i,t,h]) * sum_i dy[i,t,h] * y[i,t,h] */
static TensorNode *of_soft_max_sinks(Backward *b, TensorNode *y, TensorNode *dy) {
    const int64_t t = y->view.ne[1], h = y->view.ne[2], rows[] = {1, t, h, y->view.ne[3]};
    TensorNode   *part = sum_to(b, contiguous(b, y), rows), *dot = sum_to(b, rp_mul(b->g, dy, y), rows);
    TensorNode   *all = rp_mul(b->g, rp_scale(b->g, part, 1.0f, -1.0f), dot);
    return shaped(b, sum_to(b, all, (int64_t[]){1, 1, h, 1}), h, 1, 1, 1);
}

const char *rp_gradient_soft_max(Backward *b, const TensorNode *y, TensorNode *dy) {
    const RpOpParams p     = {.soft_max_backward = {.scale = y->params.soft_max.scale}};
    TensorNode      *sinks = y->from.soft_max.sinks, *of = b->g->nodes[y->id];
    if (y->from.soft_max.pos != NULL) return "a softmax with positions has no gradient; use a mask";
    if (rp_backward_needs(b, y->from.soft_max.mask)) return "the mask has no gradient";
    rp_backward_give(b, y->from.soft_max.x, op(b, RP_OP_SOFT_MAX_BACKWARD, &p, dy, of, NULL));
    if (rp_backward_needs(b, sinks)) rp_backward_give(b, sinks, of_soft_max_sinks(b, of, dy));
    return NULL;
}

/* The fourth part of the statistics of attention_backward, summed for each head: [t,h,b] -> [h]. */
static TensorNode *of_sinks(Backward *b, const TensorNode *q, TensorNode *stats) {
    const int64_t      t = q->view.ne[1], h = q->view.ne[2], n = q->view.ne[3];
    const size_t       row  = (size_t)t * sizeof(float);
    const RpViewParams part = {
        .ne     = {t, h,   n,               1                    },
        .nb     = {0, row, row * (size_t)h, row * (size_t)(h * n)},
        .offset = 3 * row * (size_t)(h * n)
    };
    return shaped(b, sum_to(b, rp_view(b->g, stats, &part), (int64_t[]){1, h, 1, 1}), h, 1, 1, 1);
}

const char *rp_gradient_attention(Backward *b, const TensorNode *y, TensorNode *dy) {
    const RpAttentionParams *of = &y->params.attention;
    TensorNode              *q = y->from.attention.q, *k = y->from.attention.k, *v = y->from.attention.v,
               *sinks  = y->from.attention.sinks;
    const RpOpParams p = {
        .attention_backward = {.scale = of->scale, .window = of->window, .causal = of->causal}
    };
    if (k->view.dtype != RP_F32) return "the gradient of attention needs keys and values of f32";
    if (y->from.attention.pos != NULL) return "attention with positions has no gradient; use causal";
    if (y->from.attention.mask != NULL) return "attention with a mask has no gradient";
    TensorNode *dk = buffer_like(b, k), *dv = buffer_like(b, v),
               *stats = buffer_of_rows(b, q, sinks != NULL ? 4 : 3);
    TensorNode *dq =
        rp_graph_op(b->g, RP_OP_ATTENTION_BACKWARD, &p,
                    (TensorNode *const[]){dy, q, k, v, b->g->nodes[y->id], dk, dv, stats, sinks}, 9);
    rp_backward_give(b, q, dq);
    rp_backward_give(b, k, after(b, dk, dq));
    rp_backward_give(b, v, after(b, dv, dq));
    if (rp_backward_needs(b, sinks)) rp_backward_give(b, sinks, of_sinks(b, q, after(b, stats, dq)));
    return NULL;
}

const char *rp_gradient_silu(Backward *b, const TensorNode *y, TensorNode *dy) {
    rp_backward_give(b, y->from.silu.x, op(b, RP_OP_SILU_BACKWARD, NULL, dy, y->from.silu.x, NULL));
    return NULL;
}

const char *rp_gradient_gelu(Backward *b, const TensorNode *y, TensorNode *dy) {
    const RpOpParams p = {.gelu_backward = y->params.gelu};
    rp_backward_give(b, y->from.gelu.x, op(b, RP_OP_GELU_BACKWARD, &p, dy, y->from.gelu.x, NULL));
    return NULL;
}

const char *rp_gradient_swiglu_oai(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode *gate = y->from.swiglu_oai.gate, *up = y->from.swiglu_oai.up, *dup = rp_cast(b->g, up, RP_F32);
    const RpOpParams p = {.swiglu_oai_backward = y->params.swiglu_oai};
    TensorNode      *dgate =
        rp_graph_op(b->g, RP_OP_SWIGLU_OAI_BACKWARD, &p, (TensorNode *const[]){dy, gate, up, dup}, 4);
    rp_backward_give(b, gate, dgate);
    rp_backward_give(b, up, after(b, dup, dgate));
    return NULL;
}

/* dx = dy y (1 - y) */
const char *rp_gradient_sigmoid(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode *s = b->g->nodes[y->id];
    rp_backward_give(b, y->from.sigmoid.x, rp_mul(b->g, dy, rp_mul(b->g, s, rp_scale(b->g, s, -1.0f, 1.0f))));
    return NULL;
}

const char *rp_gradient_mul(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode *l = y->from.mul.a, *r = y->from.mul.b;
    if (rp_backward_needs(b, l)) rp_backward_give(b, l, rp_mul(b->g, dy, r));
    if (rp_backward_needs(b, r)) rp_backward_give(b, r, sum_to(b, rp_mul(b->g, dy, l), r->view.ne));
    return NULL;
}

const char *rp_gradient_add(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode *r = y->from.add.b;
    rp_backward_give(b, y->from.add.a, dy);
    if (rp_backward_needs(b, r)) rp_backward_give(b, r, sum_to(b, dy, r->view.ne));
    return NULL;
}

const char *rp_gradient_add_id(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode      *bias = y->from.add_id.b;
    const int64_t    n = dy->view.ne[0], t = rp_view_rows(&dy->view);
    const RpOpParams p = {.get_rows_backward = {.rows = (int32_t)bias->view.ne[1]}};
    rp_backward_give(b, y->from.add_id.x, dy);
    if (rp_backward_needs(b, bias))
        rp_backward_give(b, bias,
                         op(b, RP_OP_GET_ROWS_BACKWARD, &p, shaped(b, dy, n, t, 1, 1),
                            shaped(b, y->from.add_id.ids, t, 1, 1, 1), NULL));
    return NULL;
}

const char *rp_gradient_scale(Backward *b, const TensorNode *y, TensorNode *dy) {
    rp_backward_give(b, y->from.scale.x, rp_scale(b->g, dy, y->params.scale.scale, 0.0f));
    return NULL;
}

const char *rp_gradient_copy(Backward *b, const TensorNode *y, TensorNode *dy) {
    if (y->from.copy.to != NULL) return "a store has no gradient";
    rp_backward_give(b, y->from.copy.x, dy);
    return NULL;
}

const char *rp_gradient_route(Backward *b, const TensorNode *y, TensorNode *dy) {
    const RpOpParams p = {.route_backward = y->params.route};
    rp_backward_give(
        b, y->from.route.probs,
        op(b, RP_OP_ROUTE_BACKWARD, &p, dy, contiguous(b, y->from.route.probs), y->from.route.ids));
    return NULL;
}

const char *rp_gradient_combine(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode *w = contiguous(b, y->from.combine.weights), *dw = buffer_like(b, w);
    TensorNode *dx = rp_graph_op(b->g, RP_OP_COMBINE_BACKWARD, NULL,
                                 (TensorNode *const[]){dy, contiguous(b, y->from.combine.x), w, dw}, 4);
    rp_backward_give(b, y->from.combine.x, dx);
    rp_backward_give(b, y->from.combine.weights, after(b, dw, dx));
    return NULL;
}

const char *rp_gradient_cross_entropy(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode *x = y->from.cross_entropy.x;
    rp_backward_give(b, x, op(b, RP_OP_CROSS_ENTROPY_BACKWARD, NULL, x, y->from.cross_entropy.targets, dy));
    return NULL;
}

const char *rp_gradient_linear_cross_entropy(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode *x = y->from.linear_cross_entropy.x, *w = y->from.linear_cross_entropy.w,
               *stats     = after(b, y->from.linear_cross_entropy.stats, b->g->nodes[y->id]),
               *chunk     = buffer_like(b, y->from.linear_cross_entropy.chunk), *dw = NULL;
    const RpOpParams p    = {.linear_cross_entropy_backward = y->params.linear_cross_entropy};
    if (rp_backward_needs(b, w)) dw = buffer_like(b, w);
    TensorNode *dx = rp_graph_op(
        b->g, RP_OP_LINEAR_CROSS_ENTROPY_BACKWARD, &p,
        (TensorNode *const[]){dy, x, w, y->from.linear_cross_entropy.targets, stats, chunk, dw}, 7);
    rp_backward_give(b, x, dx);
    if (dw != NULL) rp_backward_give(b, w, after(b, dw, dx));
    return NULL;
}

const char *rp_gradient_aux_loss(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode      *probs = y->from.aux_loss.probs;
    const RpOpParams p     = {.aux_loss_backward = {.tokens = (int32_t)probs->view.ne[1]}};
    if (rp_backward_needs(b, y->from.aux_loss.load)) return "the load has no gradient";
    rp_backward_give(b, probs, op(b, RP_OP_AUX_LOSS_BACKWARD, &p, y->from.aux_loss.load, dy, NULL));
    return NULL;
}

const char *rp_gradient_gemm(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode      *l = y->from.gemm.a, *r = y->from.gemm.b, *c = y->from.gemm.c;
    const RpOpParams p = {.gemm = {.alpha = y->params.gemm.alpha}};
    if (rp_backward_needs(b, l))
        rp_backward_give(b, l, op(b, RP_OP_GEMM, &p, dy, rp_transpose(b->g, r), NULL));
    if (rp_backward_needs(b, r))
        rp_backward_give(b, r, op(b, RP_OP_GEMM, &p, rp_transpose(b->g, l), dy, NULL));
    if (rp_backward_needs(b, c)) rp_backward_give(b, c, rp_scale(b->g, dy, y->params.gemm.beta, 0.0f));
    return NULL;
}

/* The gradient of a sum is repeated: dy plus zeros of the shape of the source. */
const char *rp_gradient_repeat_backward(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode *x = y->from.repeat_backward.dy;
    rp_backward_give(b, x, rp_add(b->g, filled(b, x, 0.0f), dy));
    return NULL;
}

/* ---- views ---- */

/* True if no two elements of the view share memory, for strides that do not decrease. */
static bool is_disjoint(const RpTensorView *v) {
    size_t end = v->nb[0] * (size_t)v->ne[0];
    for (int i = 1; i < RP_MAX_DIMS; i++) {
        if (v->ne[i] == 1) continue;
        if (v->nb[i] < end) return false;
        end = v->nb[i] * (size_t)v->ne[i];
    }
    return true;
}

/* dx is 0 outside the view: dy stored into zeros. */
const char *rp_gradient_view(Backward *b, const TensorNode *y, TensorNode *dy) {
    TensorNode *x = y->from.view.x;
    if (!rp_view_is_contiguous(&x->view) || x->view.dtype != RP_F32)
        return "a view of a source with gaps has no gradient; copy the source before";
    if (!is_disjoint(&y->view)) return "a view whose rows overlap or are reordered has no gradient";
    TensorNode *zeros = filled(b, x, 0.0f);
    TensorNode *store = rp_store(b->g, dy, rp_view(b->g, zeros, &y->params.view), NULL);
    rp_backward_give(b, x, after(b, zeros, store));
    return NULL;
}

const char *rp_gradient_reshape(Backward *b, const TensorNode *y, TensorNode *dy) {
    rp_backward_give(b, y->from.reshape.x, like(b, dy, y->from.reshape.x));
    return NULL;
}

const char *rp_gradient_permute(Backward *b, const TensorNode *y, TensorNode *dy) {
    int inverse[RP_MAX_DIMS];
    for (int i = 0; i < RP_MAX_DIMS; i++) inverse[y->params.permute.axis[i]] = i;
    rp_backward_give(b, y->from.permute.x,
                     rp_permute(b->g, dy, inverse[0], inverse[1], inverse[2], inverse[3]));
    return NULL;
}

const char *rp_gradient_transpose(Backward *b, const TensorNode *y, TensorNode *dy) {
    rp_backward_give(b, y->from.transpose.x, rp_transpose(b->g, dy));
    return NULL;
}
