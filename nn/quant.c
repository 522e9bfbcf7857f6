/* Functions of nn.h for quantised matrices. The host products take activations as q8_act, which the workspace
 * receives:
 *
 *     workspace   q8_act of every row of x | memory of the op, each aligned to RP_NN_ALIGN bytes
 *
 * A device quantises the one column of gemv_q in the kernel of the product (op linear). Either way 32 activations
 * share a scale, the products of a block are exact integers, and their sums are scaled and added in f32. ggml does
 * the same with q8_0; its K types share a scale among 256 activations (q8_K). */
#include "nn/workspace.h"

#include "reprise/quants.h"

static bool is_quant(int32_t type) { return rp_dtype_is_quant((RpDtype)type) && type != RP_Q8_ACT; }

/* RP_E_DTYPE if `type` is no weight type, RP_E_SHAPE unless a row of `columns` elements is a whole number of blocks. */
static RpStatus check_type(const char *function, int32_t type, int64_t columns) {
    if (type < 0 || type >= RP_DTYPE_COUNT || type == RP_I32 || type == RP_Q8_ACT)
        return rp_fail(RP_E_DTYPE, "%s: type %d (%s) is no type of weights", function, type,
                       rp_dtype_name((RpDtype)type));
    const int block = rp_dtype_info((RpDtype)type)->block_elems;
    if (columns % block == 0) return RP_OK;
    return rp_fail(RP_E_SHAPE, "%s: %lld elements: must be a whole number of %s blocks of %d", function,
                   (long long)columns, rp_dtype_name((RpDtype)type), block);
}

/* Replaces the view *x of f32 by its q8_act, which is written to the next bytes of `memory`. */
static RpStatus quantize_rows(const NnCall *call, RpTensorView *x, NnMemory *memory) {
    const RpTensorView q    = rp_view_contiguous(RP_Q8_ACT, x->ne, NULL);
    const RpOpParams   none = {0};
    RpOpArgs           args = {.dst = q, .quantize.x = *x, .params = &none};
    args.dst.data           = rp_nn_take(memory, rp_view_extent_bytes(&q));
    RP_TRY(rp_nn_run(call, RP_OP_QUANTIZE, &args));
    *x = args.dst;
    return RP_OK;
}

/* ---- gemv_q ---- */

/* W has `rows` rows of `cols` elements. *empty: y has no element, or is an empty sum. */
static RpStatus check_gemv(int32_t type, int32_t rows, int32_t cols, bool *empty) {
    RP_TRY(check_type("gemv_q", type, cols));
    return rp_nn_sizes("gemv_q", rows, cols, empty);
}

/* Bytes of x as q8_act. A device needs none, nor do float weights, which are multiplied by x in f32. */
static size_t column_bytes(const NnCall *call, int32_t type, int32_t cols) {
    return call->cuda || !is_quant(type) ? 0 : rp_nn_align(rp_row_bytes(RP_Q8_ACT, cols));
}

RpStatus rp_nn_call_gemv_q_workspace(const NnCall *call, int32_t type, int32_t rows, int32_t cols, int64_t *bytes) {
    bool empty;
    RP_NN_NOT_NULL("gemv_q_workspace", bytes);
    RP_TRY(check_gemv(type, rows, cols, &empty));
    const size_t wanted = empty ? 0 : column_bytes(call, type, cols);
    *bytes              = rp_nn_workspace_bytes(wanted);
    return RP_OK;
}

/* y = w x by op mul_mat. */
static RpStatus gemv_on_host(const NnCall *call, RpTensorView w, RpTensorView x, RpTensorView y, NnMemory *memory) {
    if (rp_dtype_is_quant(w.dtype)) RP_TRY(quantize_rows(call, &x, memory));
    const RpOpParams p    = {.mul_mat = {RP_BOUND_NONE}};
    const RpOpArgs   args = {
          .dst     = y,
          .mul_mat = {.w = w, .x = x},
          .params  = &p,
    };
    return rp_nn_run(call, RP_OP_MUL_MAT, &args);
}

RpStatus rp_nn_call_gemv_q(const NnCall *call, int32_t type, const void *W, const float *x, float *y, int32_t rows,
                           int32_t cols, void *workspace, int64_t workspace_bytes) {
    bool     empty;
    NnMemory memory = rp_nn_workspace(workspace, workspace_bytes);
    RP_TRY(check_gemv(type, rows, cols, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("gemv_q", W);
    RP_NN_NOT_NULL("gemv_q", x);
    RP_NN_NOT_NULL("gemv_q", y);
    RP_TRY(rp_nn_check_workspace("gemv_q", &memory, column_bytes(call, type, cols)));
    const RpTensorView w = rp_nn_view((RpDtype)type, W, cols, rows, 1), column = rp_nn_view(RP_F32, x, cols, 1, 1),
                       result = rp_nn_view(RP_F32, y, rows, 1, 1);
    if (!call->cuda) return gemv_on_host(call, w, column, result, &memory);
    const RpOpParams p = {
        .linear = {.column = {.round = is_quant(type)}, .scale = 1.0f}
    };
    const RpOpArgs args = {
        .dst    = result,
        .linear = {.w = w, .x = column},
        .params = &p,
    };
    return rp_nn_run(call, RP_OP_LINEAR, &args);
}

/* ---- expert_gemm ---- */

/* The operands of expert_gemm as views, first without data: the query of the workspace has none. x is f32. */
typedef struct Experts {
    RpTensorView w, x, ids, y;
} Experts;

/* Checks type and sizes, and gives the views. With x_each x has a column for each choice, otherwise one for each
 * token. */
static RpStatus experts_of(int32_t type, int64_t tokens, int32_t k, int32_t experts, int32_t rows, int32_t cols,
                           int32_t x_each, Experts *out, bool *empty) {
    bool none;
    RP_TRY(check_type("expert_gemm", type, cols));
    RP_TRY(rp_nn_sizes("expert_gemm", rows, cols, empty));
    RP_TRY(rp_nn_sizes("expert_gemm", (int64_t)rows * cols, experts, &none));
    *empty = *empty || none;
    RP_TRY(rp_nn_sizes("expert_gemm", tokens, k, &none));
    *empty = *empty || none;
    if (*empty) return RP_OK;
    RP_TRY(rp_nn_sizes("expert_gemm", tokens * k, rows > cols ? rows : cols, empty));
    *out = (Experts){.w   = rp_nn_view((RpDtype)type, NULL, cols, rows, experts),
                     .x   = rp_nn_view(RP_F32, NULL, cols, x_each != 0 ? k : 1, tokens),
                     .ids = rp_nn_view(RP_I32, NULL, k, tokens, 1),
                     .y   = rp_nn_view(RP_F32, NULL, rows, k, tokens)};
    return RP_OK;
}

/* The arguments of op mul_mat_id, which borrow `params`. */
static RpOpArgs product_of(const Experts *e, const RpOpParams *params) {
    return (RpOpArgs){
        .dst    = e->y,
        .src    = {e->w, e->x, e->ids},
        .params = params,
    };
}

/* Bytes of the workspace from its first aligned byte on. */
static RpStatus experts_bytes(const NnCall *call, const Experts *e, size_t *bytes) {
    const RpOpParams   none = {0};
    const RpTensorView q    = rp_view_contiguous(RP_Q8_ACT, e->x.ne, NULL);
    Experts            of   = *e;
    const bool         act  = rp_dtype_is_quant(e->w.dtype);
    if (act) of.x = q;
    const RpOpArgs args = product_of(&of, &none);
    RP_TRY(rp_nn_memory(call, RP_OP_MUL_MAT_ID, &args, bytes));
    if (act) *bytes += rp_nn_align(rp_view_extent_bytes(&q));
    return RP_OK;
}

RpStatus rp_nn_call_expert_gemm_workspace(const NnCall *call, int32_t type, int64_t tokens, int32_t k, int32_t experts,
                                          int32_t rows, int32_t cols, int32_t x_each, int64_t *bytes) {
    bool    empty;
    Experts e;
    size_t  wanted = 0;
    RP_NN_NOT_NULL("expert_gemm_workspace", bytes);
    RP_TRY(experts_of(type, tokens, k, experts, rows, cols, x_each, &e, &empty));
    if (!empty) RP_TRY(experts_bytes(call, &e, &wanted));
    *bytes = rp_nn_workspace_bytes(wanted);
    return RP_OK;
}

RpStatus rp_nn_call_expert_gemm(const NnCall *call, int32_t type, const void *W, const float *x, const int32_t *ids,
                                float *y, int64_t tokens, int32_t k, int32_t experts, int32_t rows, int32_t cols,
                                int32_t x_each, void *workspace, int64_t workspace_bytes) {
    bool             empty;
    Experts          e;
    const RpOpParams none   = {0};
    NnMemory         memory = rp_nn_workspace(workspace, workspace_bytes);
    RP_TRY(experts_of(type, tokens, k, experts, rows, cols, x_each, &e, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("expert_gemm", W);
    RP_NN_NOT_NULL("expert_gemm", x);
    RP_NN_NOT_NULL("expert_gemm", ids);
    RP_NN_NOT_NULL("expert_gemm", y);
    size_t wanted;
    RP_TRY(experts_bytes(call, &e, &wanted));
    RP_TRY(rp_nn_check_workspace("expert_gemm", &memory, wanted));
    e.w   = rp_nn_view(e.w.dtype, W, cols, rows, experts);
    e.x   = rp_nn_view(RP_F32, x, cols, e.x.ne[1], tokens);
    e.ids = rp_nn_view(RP_I32, ids, k, tokens, 1);
    e.y   = rp_nn_view(RP_F32, y, rows, k, tokens);
    if (is_quant(type)) RP_TRY(quantize_rows(call, &e.x, &memory));
    const RpOpArgs args = product_of(&e, &none);
    return rp_nn_run_in(call, RP_OP_MUL_MAT_ID, &args, memory);
}

/* ---- conversions ---- */

/* A matrix of n elements as one row, since these functions do not depend on its shape. */
static RpStatus check_elements(const char *function, int32_t type, int64_t n, bool *empty) {
    RP_TRY(check_type(function, type, n));
    return rp_nn_sizes(function, 1, n, empty);
}

/* Op get_rows without ids. The n elements become rows of up to 16384, so that workers and blocks have rows to share; a
 * row is a block times a power of two that divides n. */
RpStatus rp_nn_call_dequantize(const NnCall *call, int32_t type, const void *W, float *y, int64_t n) {
    bool empty;
    RP_TRY(check_elements("dequantize", type, n, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("dequantize", W);
    RP_NN_NOT_NULL("dequantize", y);
    int64_t length = rp_dtype_info((RpDtype)type)->block_elems;
    while (n % (2 * length) == 0 && length < 16384) length *= 2;
    if (n / length > INT32_MAX)
        return rp_fail(RP_E_ARG, "dequantize: %lld rows of %lld elements: must be at most %d", (long long)(n / length),
                       (long long)length, INT32_MAX);
    const RpOpParams none = {0};
    const RpOpArgs   args = {.dst        = rp_nn_view(RP_F32, y, length, n / length, 1),
                             .get_rows.w = rp_nn_view((RpDtype)type, W, length, n / length, 1),
                             .params     = &none};
    return rp_nn_run(call, RP_OP_GET_ROWS, &args);
}

/* The functions from here on run on the host only, so they take no NnCall. quants.h describes the rounding. */
RpStatus rp_nn_call_quantize(int32_t type, const float *x, void *W, int64_t n) {
    bool empty;
    RP_TRY(check_elements("quantize", type, n, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("quantize", x);
    RP_NN_NOT_NULL("quantize", W);
    return rp_quantize_row((RpDtype)type, x, n, W);
}

RpStatus rp_nn_call_repack(int32_t type, const void *blocks, void *planes, int64_t n) {
    bool empty;
    RP_TRY(check_elements("repack", type, n, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("repack", blocks);
    RP_NN_NOT_NULL("repack", planes);
    const RpTensorView w = rp_nn_view((RpDtype)type, blocks, n, 1, 1);
    return rp_cuda_repack(&w, planes);
}

RpStatus rp_nn_call_quantized_bytes(int32_t type, int64_t n, int64_t *bytes) {
    bool empty;
    RP_NN_NOT_NULL("quantized_bytes", bytes);
    RP_TRY(check_elements("quantized_bytes", type, n, &empty));
    *bytes = (int64_t)rp_row_bytes((RpDtype)type, n);
    return RP_OK;
}
