/* Op router: which experts one token uses, and their weights. */
#include "ops/op.h"

#include "ops/fused/column.h"

/* Rows of the result, i32 [k,rows]: ids, weights, two rows for the gate of a shared expert if there is one, and the
 * words of a q8_act column of n elements if it stores one. With two rows the column begins at a multiple of 8 bytes for
 * any k: the device stores 8 bytes at a time. */
static int64_t result_rows(const RpRouterParams *p, int64_t n, bool opens) {
    const int64_t k = p->top_k.k, words = p->quantize != 0 ? (int64_t)rp_row_bytes(RP_Q8_ACT, n) / 4 : 0;
    return 2 + (opens ? 2 : 0) + (words + k - 1) / k;
}

static CHECK_RULE(check) {
    const RpTensorView   *w = &args->router.w;
    const RpRouterParams *p = &args->params->router;
    RP_TRY(rp_check_column(op, args, w, &args->router.x, &args->router.norm, &p->column));
    RP_TRY(rp_check_vector(op, args, "bias", &args->router.bias, w->ne[1]));
    RP_TRY(rp_check_vector(op, args, "select_bias", &args->router.select_bias, w->ne[1]));
    if (p->top_k.k < 1 || p->top_k.k > w->ne[1])
        return rp_refuse(RP_E_SHAPE, op, args, "k = %d must be from 1 to the number of experts", p->top_k.k);
    if (p->quantize != 0 && args->router.x.dtype != RP_F32)
        return rp_refuse(RP_E_DTYPE, op, args, "a column that is quantised beside the product must be f32");
    if (p->quantize != 0 && p->column.round != 0)
        return rp_refuse(RP_E_DTYPE, op, args, "a column must be quantised once: for the product, or beside it");
    if (p->quantize != 0 && w->ne[0] % 32 != 0)
        return rp_refuse(RP_E_DTYPE, op, args, "a column to be quantised must be whole blocks of 32");
    const RpTensorView *open = &args->router.open;
    if (rp_is_present(open) && (open->dtype != w->dtype || rp_dtype_is_quant(w->dtype)))
        return rp_refuse(RP_E_DTYPE, op, args, "open must be of the float type of w");
    if (rp_is_present(open) && (open->ne[0] != w->ne[0] || rp_view_rows(open) != 1))
        return rp_refuse(RP_E_SHAPE, op, args, "open must be one row as long as those of w");
    return rp_check_result(op, args, RP_I32, p->top_k.k, result_rows(p, w->ne[0], rp_is_present(open)));
}

static SHAPE_RULE(shape) {
    const RpTensorView   *w = in->router.w;
    const RpRouterParams *p = &params->router;
    RP_TRY(rp_shape_column(w, in->router.x, in->router.norm, &p->column, why));
    if (!rp_shape_is_one_matrix(w)) REFUSE(RP_E_SHAPE, "the weights must be a matrix");
    if (!rp_shape_fits(in->router.bias, w->ne[1]) || !rp_shape_fits(in->router.select_bias, w->ne[1]))
        REFUSE(RP_E_SHAPE, "biases must be f32, one per expert");
    if ((unsigned)p->kind > RP_ROUTER_SIGMOID)
        REFUSE(RP_E_ARG, "kind must be from RP_ROUTER_LOGITS, 0, to RP_ROUTER_SIGMOID, 2");
    /* The choice is that of top_k on a row of probabilities, so its rule checks k, groups and the bias. */
    if (p->quantize != 0 && (in->router.x->dtype != RP_F32 || p->column.round != 0))
        REFUSE(RP_E_DTYPE, "the column must be f32 to be quantised beside the product");
    if (p->quantize != 0 && w->ne[0] % rp_dtype_info(RP_Q8_ACT)->block_elems != 0)
        REFUSE(RP_E_SHAPE, "a column to be quantised must be whole blocks of 32");
    const RpTensorView *open = in->router.open;
    if (open != NULL && (open->dtype != w->dtype || rp_dtype_is_quant(w->dtype)))
        REFUSE(RP_E_DTYPE, "open must be of the float type of w");
    if (open != NULL && (open->ne[0] != w->ne[0] || rp_view_elems(open) != w->ne[0] || !rp_shape_contiguous_rows(open)))
        REFUSE(RP_E_SHAPE, "open must be one row as long as those of w");
    const RpTensorView   probs  = rp_view_contiguous(RP_F32, (int64_t[]){w->ne[1], 1, 1, 1}, NULL);
    const RpOpParams     top_k  = {.top_k = p->top_k};
    const RpSourceShapes choice = {
        .top_k = {.x = &probs, .bias = in->router.select_bias}
    };
    RP_TRY(rp_rules_top_k.shape(&choice, &top_k, out, why));
    *out = rp_view_contiguous(RP_I32, (int64_t[]){p->top_k.k, result_rows(p, w->ne[0], open != NULL), 1, 1}, NULL);
    return RP_OK;
}

static PARTS(parts) {
    const RpRouterParams *p = &n->params.router;
    rp_column_parts(list, &p->column);
    rp_add_part(list, p->quantize != 0, "quantized column");
    rp_add_part(list, true, "product");
    rp_add_part(list, n->from.router.bias != NULL, "bias");
    rp_add_part(list, p->kind == RP_ROUTER_SOFT_MAX, "softmax");
    rp_add_part(list, p->kind == RP_ROUTER_SIGMOID, "sigmoid");
    rp_add_part(list, true, "choice");
    rp_add_part(list, n->from.router.open != NULL, "gate of the shared expert");
}

const OpRules rp_rules_router = {
    .shape = shape, .check = check, .gradient = rp_gradient_none, .parts = parts, .colour = "#e78ac3"};
