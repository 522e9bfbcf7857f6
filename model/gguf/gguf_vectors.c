/* Vectors of other float types. Converters have written norms, biases and tensors of one column in f16 or bf16; graphs
 * take vectors in f32. */
#include "model/gguf/gguf_file.h"

#include "reprise/quants.h"

#include <stdlib.h>

static bool is_short(const RpGgufTensor *t) {
    const RpTensorView *v = &t->view;
    return t->known && !rp_gguf_is_training(t->name) && (v->dtype == RP_F16 || v->dtype == RP_BF16) && v->ne[1] == 1 &&
           v->ne[2] == 1 && v->ne[3] == 1;
}

RpStatus rp_gguf_widen_vectors(RpGgufFile *f) {
    size_t n = 0;
    for (int64_t i = 0; i < f->n_tensors; i++)
        if (is_short(&f->tensors[i])) n += (size_t)f->tensors[i].view.ne[0];
    if (n == 0 || f->vectors != NULL) return RP_OK;
    f->vectors = malloc(n * sizeof *f->vectors);
    if (f->vectors == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for vectors", f->path);
    float *to = f->vectors;
    for (int64_t i = 0; i < f->n_tensors; i++) {
        RpGgufTensor *t = &f->tensors[i];
        if (!is_short(t)) continue;
        rp_dequantize_row(t->view.dtype, t->view.data, t->view.ne[0], to);
        t->view      = rp_view_contiguous(RP_F32, t->view.ne, to);
        t->bytes     = (size_t)t->view.ne[0] * sizeof *to;
        t->gguf_type = 0; /* f32 */
        to += t->view.ne[0];
    }
    return RP_OK;
}
