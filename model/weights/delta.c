/* Gated delta nets of files from before their input matrix was split. It joins, for each head of keys, d rows of
 * queries, d of keys, and those of its heads of values, twice: values, then the gate.
 *
 *     ssm_in     [n, (2 d + 2 r d) * heads of keys]    r heads of values for each head of keys
 *     attn_qkv   [n, 2 d * heads of keys + r d * heads of keys]    queries of all heads, keys of all, values of all
 *     attn_gate  [n, r d * heads of keys]
 *
 * Both are copies in memory of their own: rows keep their type. */
#include "model/model.h"

#include <string.h>

static RpStatus new_matrix(RpModel *m, const RpGgufTensor *whole, const char *of, int64_t rows, RpGgufTensor **out) {
    WeightPart *p = rp_model_new_part(m, whole, of);
    *out          = &p->tensor;
    return rp_model_copied_part(p, whole->view.dtype, (int64_t[RP_MAX_DIMS]){whole->view.ne[0], rows, 1, 1});
}

RpStatus rp_model_split_delta(RpModel *m, LayerWeights *l) {
    const DeltaConfig *c = &m->config.delta;
    RpGgufTensor      *qkv, *gate;
    if (l->delta_in == NULL) return RP_OK;
    const int64_t d = c->dim, of_values = d * (c->n_head / c->n_key), keys = d * c->n_key;
    RP_TRY(new_matrix(m, l->delta_in, "qkv", 2 * keys + of_values * c->n_key, &qkv));
    RP_TRY(new_matrix(m, l->delta_in, "gate", of_values * c->n_key, &gate));
    const size_t row  = l->delta_in->view.nb[1];
    const char  *from = l->delta_in->view.data;
    char        *to   = qkv->view.data;
    for (int64_t h = 0; h < c->n_key; h++) {
        memcpy(to + (size_t)(h * d) * row, from, (size_t)d * row);
        memcpy(to + (size_t)(keys + h * d) * row, from + (size_t)d * row, (size_t)d * row);
        memcpy(to + (size_t)(2 * keys + h * of_values) * row, from + (size_t)(2 * d) * row, (size_t)of_values * row);
        memcpy((char *)gate->view.data + (size_t)(h * of_values) * row, from + (size_t)(2 * d + of_values) * row,
               (size_t)of_values * row);
        from += (size_t)(2 * d + 2 * of_values) * row;
    }
    l->delta_qkv  = qkv;
    l->delta_gate = gate;
    return RP_OK;
}
