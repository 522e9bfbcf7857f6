/* Finds a tensor of a file, and checks its type and shape. */
#include "base/types/custom.h"
#include "model/model.h"

#include <stdio.h>

/* Reads a tensor of a registered type that can tell valid blocks from others. */
static RpStatus check_blocks(const char *path, const char *name, const RpTensorView *v) {
    const CustomDtype *type = rp_dtype_custom(v->dtype);
    for (int64_t r = 0; type != NULL && type->description.validate != NULL && r < rp_view_rows(v); r++)
        if (rp_dtype_check_row(v->dtype, rp_view_row(v, r), v->ne[0]) != RP_OK)
            return rp_fail(RP_E_FORMAT, "%s: tensor %s, row %lld: %s", path, name, (long long)r, rp_last_error());
    return RP_OK;
}

RpStatus rp_model_find_tensor(const RpModel *m, const char *name, int64_t ne0, int64_t ne1, int64_t ne2, bool optional,
                              const RpGgufTensor **out) {
    const char         *path = rp_gguf_path(m->file);
    const RpGgufTensor *t    = rp_gguf_find_tensor(m->file, name);
    *out                     = t;
    if (t == NULL) return optional ? RP_OK : rp_fail(RP_E_FORMAT, "%s: tensor %s is missing", path, name);
    if (!t->known) {
        const char *type = rp_gguf_type_name(t->gguf_type);
        return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %s is of type %s (%u), which is not supported", path, name,
                       type != NULL ? type : "unknown", t->gguf_type);
    }
    const RpTensorView *v = &t->view;
    if (v->ne[0] != ne0 || (ne1 >= 0 && v->ne[1] != ne1) || v->ne[2] != ne2 || v->ne[3] != 1) {
        char rows_text[24] = "any", outer_text[24] = "";
        if (ne1 >= 0) snprintf(rows_text, sizeof rows_text, "%lld", (long long)ne1);
        if (ne2 != 1) snprintf(outer_text, sizeof outer_text, ",%lld", (long long)ne2);
        return rp_fail(RP_E_SHAPE, "%s: tensor %s is %s [%lld,%lld,%lld,%lld], must be [%lld,%s%s]", path, name,
                       rp_dtype_name(v->dtype), (long long)v->ne[0], (long long)v->ne[1], (long long)v->ne[2],
                       (long long)v->ne[3], (long long)ne0, rows_text, outer_text);
    }
    if (ne1 == 1 && v->dtype != RP_F32)
        return rp_fail(RP_E_DTYPE, "%s: tensor %s is %s, must be f32, as every vector", path, name,
                       rp_dtype_name(v->dtype));
    if (v->dtype == RP_I32) return rp_fail(RP_E_DTYPE, "%s: tensor %s is i32: not a weight type", path, name);
    return check_blocks(path, name, v);
}
