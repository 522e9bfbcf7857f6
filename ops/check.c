/* The helpers of the checks of ops (check.h). */
#include "ops/check.h"

#include "base/format.h"
#include "base/op_table.h"
#include "base/types/custom.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const OpInfo *info_of(const char *op) {
    TensorOp number;
    return rp_op_find(op, strlen(op), &number) ? rp_op_info(number) : NULL;
}

RpStatus rp_refuse(RpStatus status, const char *op, const RpOpArgs *args, const char *must, ...) {
    const OpInfo *info      = info_of(op);
    const int     n         = info != NULL ? info->n_sources : 0;
    char          text[256] = "", shapes[768] = "", shape[96];
    size_t        used = 0;
    va_list       ap;
    va_start(ap, must);
    vsnprintf(text, sizeof text, must, ap);
    va_end(ap);
    for (int i = 0; i < n && used < sizeof shapes; i++) {
        if (i >= info->n_required && !rp_is_present(&args->src[i])) continue;
        rp_format_shape(&args->src[i], shape, sizeof shape);
        used += (size_t)snprintf(shapes + used, sizeof shapes - used, "%s %s, ", info->sources[i], shape);
    }
    rp_format_shape(&args->dst, shape, sizeof shape);
    return rp_fail(status, "%s: %s: %sresult %s", op, text, shapes, shape);
}

static const char *source_name(const char *op, int i) { return rp_op_source_name(info_of(op), i); }

static bool same_shape(const RpTensorView *a, const RpTensorView *b) { return memcmp(a->ne, b->ne, sizeof a->ne) == 0; }

/* "i32 [2]": what a source or result must be. */
static const char *matrix(RpDtype dtype, int64_t n0, int64_t n1, char text[96]) {
    return rp_format_shape(
        &(RpTensorView){
            .dtype = dtype, .ne = {n0, n1, 1, 1}
    },
        text, 96);
}

CHECK_RULE(rp_check_unary) {
    const RpTensorView *x = &args->unary.x, *y = &args->dst;
    if (x->dtype != RP_F32 || y->dtype != RP_F32)
        return rp_refuse(RP_E_DTYPE, op, args, "%s and the result must be f32", source_name(op, 0));
    if (!same_shape(x, y))
        return rp_refuse(RP_E_SHAPE, op, args, "%s and the result must have one shape", source_name(op, 0));
    return RP_OK;
}

CHECK_RULE(rp_check_repeat) {
    const RpTensorView *a = &args->binary.a, *b = &args->binary.b;
    RP_TRY(rp_check_unary(op, args));
    if (b->dtype != RP_F32) return rp_refuse(RP_E_DTYPE, op, args, "%s must be f32", source_name(op, 1));
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (b->ne[i] < 1 || a->ne[i] % b->ne[i] != 0)
            return rp_refuse(RP_E_SHAPE, op, args, "%s must repeat to the shape of %s", source_name(op, 1),
                             source_name(op, 0));
    return RP_OK;
}

CHECK_RULE(rp_check_gradient) {
    RP_TRY(rp_check_unary(op, args));
    return rp_check_like(op, args, source_name(op, 1), &args->binary.b, &args->dst);
}

RpStatus rp_check_array(const char *op, const RpOpArgs *args, const char *what, const RpTensorView *v, RpDtype dtype,
                        int64_t n0, int64_t n1) {
    char wanted[96];
    if (v->dtype != dtype || v->ne[0] != n0 || rp_view_rows(v) != n1)
        return rp_refuse(RP_E_SHAPE, op, args, "%s must be %s", what, matrix(dtype, n0, n1, wanted));
    return rp_view_is_contiguous(v) ? RP_OK : rp_refuse(RP_E_SHAPE, op, args, "%s must be contiguous", what);
}

RpStatus rp_check_like(const char *op, const RpOpArgs *args, const char *what, const RpTensorView *v,
                       const RpTensorView *like) {
    RpTensorView f32 = *like;
    char         wanted[96];
    f32.dtype = RP_F32;
    if (v->dtype != RP_F32 || !same_shape(v, like))
        return rp_refuse(RP_E_SHAPE, op, args, "%s must be %s", what, rp_format_shape(&f32, wanted, sizeof wanted));
    return v->nb[0] == sizeof(float) ? RP_OK : rp_refuse(RP_E_SHAPE, op, args, "rows of %s must be contiguous", what);
}

RpStatus rp_check_vector(const char *op, const RpOpArgs *args, const char *what, const RpTensorView *v, int64_t n) {
    if (v->ne[0] <= 0 || (v->dtype == RP_F32 && rp_view_elems(v) == n)) return RP_OK;
    return rp_refuse(RP_E_SHAPE, op, args, "%s must be f32 of %lld elements", what, (long long)n);
}

RpStatus rp_check_result(const char *op, const RpOpArgs *args, RpDtype dtype, int64_t n0, int64_t n1) {
    const RpTensorView *y = &args->dst;
    char                wanted[96];
    if (y->dtype == dtype && y->ne[0] == n0 && y->ne[1] == n1 && rp_view_rows(y) == n1) return RP_OK;
    return rp_refuse(RP_E_SHAPE, op, args, "the result must be %s", matrix(dtype, n0, n1, wanted));
}

RpStatus rp_check_ids(const char *op, const RpOpArgs *args, const RpTensorView *ids, int64_t k, int64_t n_tok) {
    char wanted[96];
    if (ids->dtype != RP_I32) return rp_refuse(RP_E_DTYPE, op, args, "ids must be i32");
    if (ids->ne[0] == k && ids->ne[1] == n_tok) return RP_OK;
    return rp_refuse(RP_E_SHAPE, op, args, "ids must be %s", matrix(RP_I32, k, n_tok, wanted));
}

RpStatus rp_check_product(const char *op, const RpOpArgs *args, const RpTensorView *w, const RpTensorView *x) {
    const bool quant = rp_dtype_is_quant(w->dtype) && w->dtype != RP_Q8_ACT;
    if (!quant && !rp_dtype_is_float(w->dtype) && !rp_dtype_is_custom(w->dtype))
        return rp_refuse(RP_E_DTYPE, op, args, "w must be of a float or weight type");
    if (x->dtype != RP_F32 && x->dtype != RP_Q8_ACT) return rp_refuse(RP_E_DTYPE, op, args, "x must be f32 or q8_act");
    if (x->dtype == RP_Q8_ACT && !quant)
        return rp_refuse(RP_E_DTYPE, op, args, "w must be quantised where x is q8_act");
    return args->dst.dtype == RP_F32 ? RP_OK : rp_refuse(RP_E_DTYPE, op, args, "the result must be f32");
}
