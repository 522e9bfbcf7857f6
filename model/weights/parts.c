/* Parts of joined tensors: views into a tensor of the file, or copies of some of its rows. */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rp_model_free_parts(RpModel *m) {
    for (int i = 0; i < m->n_parts; i++) free(m->parts[i].copy);
    free(m->parts);
    m->parts   = NULL;
    m->n_parts = 0;
}

WeightPart *rp_model_new_part(RpModel *m, const RpGgufTensor *whole, const char *of) {
    WeightPart *p = &m->parts[m->n_parts++];
    snprintf(p->name, sizeof p->name, "%.*s:%s", (int)whole->name.len, whole->name.ptr, of);
    p->tensor      = *whole;
    p->tensor.name = (RpGgufString){p->name, strlen(p->name)};
    return p;
}

RpStatus rp_model_copied_part(WeightPart *p, RpDtype dtype, const int64_t ne[RP_MAX_DIMS]) {
    RpTensorView *v = &p->tensor.view;
    *v              = rp_view_contiguous(dtype, ne, NULL);
    p->tensor.bytes = rp_view_extent_bytes(v);
    p->copy         = aligned_alloc(64, (p->tensor.bytes + 63) / 64 * 64);
    v->data         = p->copy;
    return p->copy != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for the rows of %s", p->name);
}
