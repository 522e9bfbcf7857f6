/* check.h - helpers of the checks of ops, which the CPU kernels and the CUDA launchers call first (RP_CHECK):
 *
 *     static CHECK_RULE(check) {
 *         RP_TRY(rp_check_unary(op, args));
 *         if (args->params->gelu.kind > RP_GELU_ERF) return rp_refuse(RP_E_ARG, op, args, "kind must be ...");
 *
 * `op` is the name of the op, `what` that of a source in the error. */
#ifndef OPS_CHECK_H
#define OPS_CHECK_H

#include "ops/rules.h"

#define CHECK_RULE(name) RpStatus name(const char *op, const RpOpArgs *args)

/* Fails with "mul_mat: rows of w and x must have one length: w f32 [8,4], x f32 [6,2], result f32 [4,2]". The text says
 * what must be; names, types and shapes of all given sources and of the result follow. */
RP_NODISCARD RpStatus rp_refuse(RpStatus status, const char *op, const RpOpArgs *args, const char *must, ...)
    RP_PRINTF(4, 5);

/* The first source and the result: f32 of the same shape. */
CHECK_RULE(rp_check_unary);

/* And the second source is f32, whose dimensions divide those of the first. */
CHECK_RULE(rp_check_repeat);

/* And the second source is f32 with contiguous rows, of the same shape. */
CHECK_RULE(rp_check_gradient);

/* The same as v: n0, n1 and v->dtype are as given, and all of v is contiguous. */
RpStatus rp_check_array(const char *op, const RpOpArgs *args, const char *what, const RpTensorView *v, RpDtype dtype,
                        int64_t n0, int64_t n1);

/* f32 with contiguous rows, and the shape of `like`. */
RpStatus rp_check_like(const char *op, const RpOpArgs *args, const char *what, const RpTensorView *v,
                       const RpTensorView *like);

/* An optional source: absent, or f32 of n elements in any shape. */
RpStatus rp_check_vector(const char *op, const RpOpArgs *args, const char *what, const RpTensorView *v, int64_t n);

/* The result: dtype [n0,n1]. */
RpStatus rp_check_result(const char *op, const RpOpArgs *args, RpDtype dtype, int64_t n0, int64_t n1);

/* Ids of experts: i32 [k,n_tok]. */
RpStatus rp_check_ids(const char *op, const RpOpArgs *args, const RpTensorView *ids, int64_t k, int64_t n_tok);

/* Weights w float or block-quantised, x f32, or q8_act for quantised weights, result f32. */
RpStatus rp_check_product(const char *op, const RpOpArgs *args, const RpTensorView *w, const RpTensorView *x);

/* A source of a check: NULL if it is absent. */
static inline const RpTensorView *rp_given(const RpTensorView *source) { return rp_is_present(source) ? source : NULL; }

#endif
