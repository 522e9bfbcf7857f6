/* y[m,t,h,b] = sum_k w[k,m,h/g,b/g'] * x[k,t,h,b]
 *
 * Three forms: block-quantised rows by integer dot products (dot.h), float rows, and a transposed float
 * matrix, whose rows are added up. Workers take consecutive rows m, or tokens in the transposed form; the sum
 * of each element has one order, whatever the number of workers or of tokens in the call (I8). */
#include "fallback/dot.h"
#include "fallback/float.h"

enum { PIECE = 4096, FLOAT_PIECE = 256 };

/* ---- which tokens want which rows ---- */

static int64_t last_position(const OpArgs *args, int64_t t) {
    return ((const int32_t *)args->src[2].data)[t];
}

static MulMatBound bound_of(const OpArgs *args) {
    return rp_has_src(args, 2) ? args->params->mul_mat.bound : RP_BOUND_NONE;
}

static bool wants_row(const OpArgs *args, int64_t t, int64_t m) {
    return bound_of(args) != RP_BOUND_ROWS || m <= last_position(args, t);
}

/* Terms of the sum for token t. */
static int64_t inner_length(const OpArgs *args, int64_t t) {
    const int64_t n = args->src[0].ne[0];
    if (bound_of(args) != RP_BOUND_INNER) return n;
    const int64_t end = last_position(args, t) + 1;
    return end < 0 ? 0 : (end < n ? end : n);
}

static float *result_at(const OpArgs *args, int64_t m, int64_t t, int64_t h, int64_t b) {
    const TensorView *y = &args->dst;
    return (float *)(void *)((char *)y->data + (size_t)t * y->nb[1] + (size_t)h * y->nb[2] +
                             (size_t)b * y->nb[3]) +
           m;
}

static const char *weight_row(const OpArgs *args, int64_t m, int64_t h, int64_t b) {
    const TensorView *w = &args->src[0], *x = &args->src[1];
    return (const char *)w->data + (size_t)m * w->nb[1] + (size_t)(h / (x->ne[2] / w->ne[2])) * w->nb[2] +
           (size_t)(b / (x->ne[3] / w->ne[3])) * w->nb[3];
}

static const char *column(const OpArgs *args, int64_t t, int64_t h, int64_t b) {
    const TensorView *x = &args->src[1];
    return (const char *)x->data + (size_t)t * x->nb[1] + (size_t)h * x->nb[2] + (size_t)b * x->nb[3];
}

/* ---- quantised weights ---- */

typedef struct Unpacked {
    uint8_t q[PIECE];
    float   scale[PIECE / RP_GROUP], min[PIECE / RP_GROUP];
} Unpacked;

static DotColumn column_at(const char *x, int64_t n, int64_t k) {
    const float *scale = (const float *)(const void *)(x + n);
    return (DotColumn){
        .q = (const int8_t *)x + k, .scale = scale + k / 32, .sum = scale + n / 32 + k / RP_GROUP};
}

/* One row of weights with every token of (h, b), RP_DOT_COLS tokens at a time. */
static void quantised_row(const OpArgs *args, int64_t m, int64_t h, int64_t b, Unpacked *u) {
    const TensorView *w = &args->src[0], *x = &args->src[1];
    const int64_t     n = w->ne[0], n_tok = x->ne[1];
    const char       *row    = weight_row(args, m, h, b);
    UnpackFunction   *unpack = rp_unpack_function(w->dtype);
    DotFunction      *dot    = rp_dot_function();
    int64_t           held   = -1; /* the piece that is unpacked */
    for (int64_t t = 0; t < n_tok; t += RP_DOT_COLS) {
        const int n_cols            = (int)(n_tok - t < RP_DOT_COLS ? n_tok - t : RP_DOT_COLS);
        DotSums   sums[RP_DOT_COLS] = {0};
        for (int64_t k = 0; k < n; k += PIECE) {
            const int64_t len = n - k < PIECE ? n - k : PIECE;
            DotColumn     cols[RP_DOT_COLS];
            if (held != k) unpack(row + rp_row_bytes(w->dtype, k), len, u->q, u->scale, u->min);
            held = k;
            for (int c = 0; c < n_cols; c++) cols[c] = column_at(column(args, t + c, h, b), n, k);
            dot(u->q, u->scale, u->min, len, cols, n_cols, sums);
        }
        for (int c = 0; c < n_cols; c++)
            if (wants_row(args, t + c, m)) *result_at(args, m, t + c, h, b) = rp_dot_result(&sums[c]);
    }
}

/* ---- float weights ---- */

static float lanes_sum(float *acc) {
    for (int n = RP_LANES / 2; n > 0; n /= 2)
        for (int l = 0; l < n; l++) acc[l] += acc[l + n];
    return acc[0];
}

static void float_row(const OpArgs *args, int64_t m, int64_t h, int64_t b) {
    const TensorView *w = &args->src[0], *x = &args->src[1];
    const char       *row   = weight_row(args, m, h, b);
    const int64_t     n_tok = x->ne[1];
    FloatDotFunction *dot   = rp_float_dot_function();
    int64_t           held  = -1; /* the piece that is widened */
    float             wide[PIECE];
    for (int64_t t = 0; t < n_tok; t += RP_DOT_COLS) {
        const int n_cols                     = (int)(n_tok - t < RP_DOT_COLS ? n_tok - t : RP_DOT_COLS);
        float     acc[RP_DOT_COLS][RP_LANES] = {0};
        for (int64_t k = 0; k < w->ne[0]; k += PIECE) {
            const int64_t len   = w->ne[0] - k < PIECE ? w->ne[0] - k : PIECE;
            const float  *piece = wide;
            if (w->dtype == RP_F32)
                piece = (const float *)(const void *)row + k;
            else if (held != k)
                rp_widen_row(w->dtype, row + rp_row_bytes(w->dtype, k), len, wide);
            held = k;
            const float *cols[RP_DOT_COLS];
            for (int c = 0; c < n_cols; c++)
                cols[c] = (const float *)(const void *)column(args, t + c, h, b) + k;
            if (bound_of(args) != RP_BOUND_INNER) {
                dot(piece, cols, len, n_cols, acc);
                continue;
            }
            for (int c = 0; c < n_cols; c++) {
                const int64_t left = inner_length(args, t + c) - k;
                if (left > 0) dot(piece, cols + c, left < len ? left : len, 1, acc + c);
            }
        }
        for (int c = 0; c < n_cols; c++)
            if (wants_row(args, t + c, m)) *result_at(args, m, t + c, h, b) = lanes_sum(acc[c]);
    }
}

/* ---- a transposed float matrix: y += x[k] * w[k,:] ---- */

RP_BODY void add_scaled_body(const float *w, float x, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(x, w[i], y[i]);
}
RP_VARIANTS(add_scaled, (const float *w, float x, int64_t n, float *y), (w, x, n, y))

static void transposed_token(const OpArgs *args, int64_t t, int64_t h, int64_t b) {
    const TensorView *w     = &args->src[0];
    const int64_t     n_row = w->ne[1], n_in = inner_length(args, t);
    const float      *x     = (const float *)(const void *)column(args, t, h, b);
    const char       *first = weight_row(args, 0, h, b);
    float            *y     = result_at(args, 0, t, h, b);
    memset(y, 0, (size_t)n_row * sizeof *y);
    for (int64_t k = 0; k < n_in; k++)
        for (int64_t m = 0; m < n_row; m += FLOAT_PIECE) {
            const int64_t len = n_row - m < FLOAT_PIECE ? n_row - m : FLOAT_PIECE;
            float         wide[FLOAT_PIECE];
            rp_widen_row(w->dtype, first + (size_t)k * w->nb[0] + (size_t)m * w->nb[1], len, wide);
            add_scaled(wide, x[k], len, y + m);
        }
    for (int64_t m = 0; m < n_row && bound_of(args) == RP_BOUND_ROWS; m++)
        if (!wants_row(args, t, m)) y[m] = 0.0f;
}

/* ---- */

static RpStatus check(const OpArgs *args) {
    const TensorView *w = &args->src[0], *x = &args->src[1], *y = &args->dst;
    const bool        quant    = rp_unpack_function(w->dtype) != NULL;
    const bool        is_float = w->dtype == RP_F32 || w->dtype == RP_F16 || w->dtype == RP_BF16;
    const bool        types = (x->dtype == RP_F32 && (quant || is_float)) || (x->dtype == RP_Q8_ACT && quant);
    if (!types || y->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "mul_mat: weights %s, x %s, result %s: no kernel for this",
                       rp_dtype_name(w->dtype), rp_dtype_name(x->dtype), rp_dtype_name(y->dtype));
    if (w->ne[0] != x->ne[0] || w->ne[1] != y->ne[0] || x->ne[1] != y->ne[1] || x->ne[2] % w->ne[2] != 0 ||
        x->ne[3] % w->ne[3] != 0)
        return rp_fail(RP_E_SHAPE,
                       "mul_mat: weights [%lld,%lld,%lld,%lld] and x [%lld,%lld,%lld,%lld] do not fit",
                       (long long)w->ne[0], (long long)w->ne[1], (long long)w->ne[2], (long long)w->ne[3],
                       (long long)x->ne[0], (long long)x->ne[1], (long long)x->ne[2], (long long)x->ne[3]);
    return RP_OK;
}

static bool any_wants(const OpArgs *args, int64_t m) {
    for (int64_t t = 0; t < args->src[1].ne[1]; t++)
        if (wants_row(args, t, m)) return true;
    return false;
}

static void rows_of_head(const OpArgs *args, const KernelCtx *ctx, int64_t h, int64_t b) {
    const bool bound =
        bound_of(args) == RP_BOUND_ROWS; /* the wanted rows stand at the front: deal them out */
    const int64_t n     = args->src[0].ne[1];
    const int64_t first = bound ? ctx->ith : n * ctx->ith / ctx->nth, step = bound ? ctx->nth : 1;
    const int64_t end = bound ? n : n * (ctx->ith + 1) / ctx->nth;
    if (args->src[1].dtype == RP_Q8_ACT && args->src[1].ne[1] == 1 && !bound) {
        GemvFunction *gemv = rp_gemv_function(args->src[0].dtype);
        if (gemv != NULL) {
            const DotColumn x = column_at(column(args, 0, h, b), args->src[0].ne[0], 0);
            gemv(weight_row(args, first, h, b), args->src[0].nb[1], end - first, args->src[0].ne[0], &x,
                 result_at(args, first, 0, h, b));
            return;
        }
    }
    Unpacked u;
    for (int64_t m = first; m < end; m += step) {
        if (bound && !any_wants(args, m)) break;
        if (args->src[1].dtype == RP_Q8_ACT)
            quantised_row(args, m, h, b, &u);
        else
            float_row(args, m, h, b);
    }
}

RpStatus rp_cpu_mul_mat(const OpArgs *args, KernelCtx *ctx) {
    const TensorView *w = &args->src[0], *x = &args->src[1];
    RP_TRY(check(args));
    const bool transposed = w->nb[0] != (size_t)rp_dtype_info(w->dtype)->block_bytes;
    for (int64_t b = 0; b < x->ne[3]; b++)
        for (int64_t h = 0; h < x->ne[2]; h++) {
            if (!transposed) {
                rows_of_head(args, ctx, h, b);
                continue;
            }
            for (int64_t t = 0; t < x->ne[1]; t++)
                if ((t + x->ne[1] * (h + x->ne[2] * b)) % ctx->nth == ctx->ith)
                    transposed_token(args, t, h, b);
        }
    return RP_OK;
}
