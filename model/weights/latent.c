/* Latent attention of files from before its matrices were split. They join keys and values of each head in one tensor:
 *
 *     attn_kv_b [n, (d + v) * heads]       head h: d rows of keys, then v rows of values, of n elements
 *     attn_v_b  [n, v, heads]              the rows of values, read where they are
 *     attn_k_b  [d, n, heads]              the rows of keys transposed, in memory of its own
 *
 * Blocks cannot be transposed: keys of quantised types become f16. */
#include "model/model.h"

#include "base/dtypes.h"
#include "base/limits.h"
#include "reprise/quants.h"

#include <stdlib.h>

/* Row `from` of f32 to column `column` of a matrix with rows of d elements. */
static RpStatus put_column(const float *from, int64_t n, int64_t d, int64_t column, RpDtype type, char *to) {
    const size_t size = type == RP_F32 ? sizeof(float) : sizeof(uint16_t);
    for (int64_t i = 0; i < n; i++) RP_TRY(rp_quantize_row(type, from + i, 1, to + (size_t)(i * d + column) * size));
    return RP_OK;
}

static RpStatus transpose_keys(RpModel *m, const RpGgufTensor *whole, int64_t d, int64_t v, int64_t heads,
                               const RpGgufTensor **out) {
    const RpTensorView *w    = &whole->view;
    const int64_t       n    = w->ne[0];
    const RpDtype       type = rp_dtype_is_float(w->dtype) ? w->dtype : RP_F16;
    WeightPart         *p    = rp_model_new_part(m, whole, "k");
    const RpTensorView *to   = &p->tensor.view;
    float              *row  = malloc((size_t)n * sizeof *row);
    RpStatus            st   = rp_model_copied_part(p, type, (int64_t[RP_MAX_DIMS]){d, n, heads, 1});
    if (st == RP_OK && row == NULL) st = rp_fail(RP_E_NOMEM, "out of memory for the keys of %s", p->name);
    for (int64_t r = 0; r < heads * d && st == RP_OK; r++) {
        const int64_t h = r / d, j = r % d;
        rp_dequantize_row(w->dtype, rp_view_row(w, h * (d + v) + j), n, row);
        st = put_column(row, n, d, j, type, (char *)to->data + (size_t)h * to->nb[2]);
    }
    free(row);
    *out = &p->tensor;
    return st;
}

RpStatus rp_model_split_latent(RpModel *m, LayerWeights *l) {
    const ModelConfig *c = &m->config;
    if (l->kv_b == NULL) return RP_OK;
    const int64_t d = c->mla.nope, v = c->mla.value, heads = c->n_head, n = l->kv_b->view.ne[0];
    RP_TRY(transpose_keys(m, l->kv_b, d, v, heads, &l->k_b));
    WeightPart   *values = rp_model_new_part(m, l->kv_b, "v");
    RpTensorView *view   = &values->tensor.view;
    *view                = rp_view_contiguous(view->dtype, (int64_t[RP_MAX_DIMS]){n, d + v, heads, 1}, view->data);
    view->data           = (char *)view->data + (size_t)d * view->nb[1];
    view->ne[1]          = v;
    values->tensor.bytes = l->kv_b->bytes / (size_t)(d + v) * (size_t)v;
    l->v_b               = &values->tensor;
    return RP_OK;
}
