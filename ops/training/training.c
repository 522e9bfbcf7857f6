/* Shared by the rules of the ops of training (training.h). */
#include "ops/training/training.h"

RpStatus rp_check_linear_sources(const char *op, const RpOpArgs *args, const LinearSources *s) {
    const int64_t k = s->w->ne[0], rows = s->x->ne[1];
    RP_TRY(rp_check_array(op, args, "x", s->x, RP_F32, k, rows));
    RP_TRY(rp_check_array(op, args, "w", s->w, RP_F32, k, s->w->ne[1]));
    RP_TRY(rp_check_array(op, args, "targets", s->targets, RP_I32, rows, 1));
    RP_TRY(rp_check_array(op, args, "stats", s->stats, RP_F32, RP_LINEAR_STATS, rows));
    return rp_check_array(op, args, "chunk", s->chunk, RP_F32, s->chunk->ne[0], rows);
}

static bool is_matrix(const RpTensorView *v) { return rp_shape_is_matrix(v) && rp_view_is_contiguous(v); }

RpStatus rp_shape_linear_sources(const LinearSources *s, const char **why) {
    if (!is_matrix(s->x) || !is_matrix(s->w) || s->x->ne[0] != s->w->ne[0])
        REFUSE(RP_E_SHAPE, "x and w must be contiguous f32 matrices with rows of one length");
    if (!rp_shape_is_index(s->targets, s->x->ne[1])) REFUSE(RP_E_SHAPE, "targets must be i32, one per row of x");
    if (!is_matrix(s->stats) || s->stats->ne[0] != RP_LINEAR_STATS || s->stats->ne[1] != s->x->ne[1])
        REFUSE(RP_E_SHAPE, "stats must be contiguous f32, RP_LINEAR_STATS per row of x");
    if (!is_matrix(s->chunk) || s->chunk->ne[1] != s->x->ne[1])
        REFUSE(RP_E_SHAPE, "the chunk must be a contiguous f32 matrix with as many rows as x");
    return RP_OK;
}

RpStatus rp_shape_targets(const RpTensorView *x, const RpTensorView *targets, const char **why) {
    if (!rp_shape_is_matrix(x)) REFUSE(RP_E_SHAPE, "the logits must be an f32 matrix of contiguous rows");
    if (!rp_shape_is_index(targets, x->ne[1])) REFUSE(RP_E_SHAPE, "targets must be i32, one per row of logits");
    return RP_OK;
}

RpStatus rp_check_columns(const char *op, const RpOpArgs *args, const char *what, const RpTensorView *v, int64_t n,
                          int64_t k, int64_t t) {
    return rp_check_like(op, args, what, v,
                         &(RpTensorView){
                             .ne = {n, k, t, 1}
    });
}

bool rp_shape_is_columns(const RpTensorView *v, int64_t n, int64_t k, int64_t t) {
    return rp_shape_is_rows(v) && v->ne[0] == n && v->ne[1] == k && v->ne[2] == t && v->ne[3] == 1;
}
