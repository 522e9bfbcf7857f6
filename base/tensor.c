/* Dtypes and views. Element (i0, i1, i2, i3) of a view lies in the block at
 *
 *     data + i0 / block_elems * nb[0] + i1 * nb[1] + i2 * nb[2] + i3 * nb[3]
 *
 * except in q8_act, whose rows are planar:  q[n] int8, then scale[n/32] f32, then sum[n/16] f32. A view is
 * contiguous if nb[0] = block bytes, nb[1] = row bytes, nb[2] = ne[1] * nb[1], nb[3] = ne[2] * nb[2]. An
 * unknown dtype is an error (I12). */
#include "base/format.h"

#include "reprise/tensor.h"

#include "base/argument.h"
#include "base/types/custom.h"

#include <stdio.h>

static const RpDtypeInfo dtypes[RP_DTYPE_COUNT] = {
#define X(ID, name, elems, bytes, gguf) [RP_##ID] = {name, elems, bytes, gguf},
    RP_DTYPES(X)
#undef X
};

const RpDtypeInfo *rp_dtype_info(RpDtype dtype) {
    if ((unsigned)dtype < RP_DTYPE_COUNT) return &dtypes[dtype];
    const CustomDtype *custom = rp_dtype_custom(dtype);
    return custom != NULL ? &custom->info : NULL;
}

const char *rp_dtype_name(RpDtype dtype) {
    const RpDtypeInfo *info = rp_dtype_info(dtype);
    return info != NULL ? info->name : "?";
}

/* Two rows with the same number do not compile. */
const char *rp_gguf_type_name(uint32_t gguf_type) {
    switch ((int64_t)gguf_type) {
#define X(ID, name, elems, bytes, gguf)                                                                                \
    case gguf:                                                                                                         \
        return #ID;
        RP_DTYPES(X)
#undef X
#define X(NAME, elems, bytes, gguf)                                                                                    \
    case gguf:                                                                                                         \
        return #NAME;
        RP_FOREIGN_TYPES(X)
#undef X
    default:
        break;
    }
    const RpDtypeInfo *custom = rp_custom_of_gguf(gguf_type, NULL);
    return custom != NULL ? custom->name : NULL;
}

RpStatus rp_dtype_from_gguf(uint32_t gguf_type, RpDtype *out) {
    RP_NOT_NULL(out, "out");

    for (int i = 0; i < RP_DTYPE_COUNT; i++)
        if (dtypes[i].gguf_type >= 0 && (uint32_t)dtypes[i].gguf_type == gguf_type) {
            *out = (RpDtype)i;
            return RP_OK;
        }
    if (rp_custom_of_gguf(gguf_type, out) != NULL) return RP_OK;
    const char *name = rp_gguf_type_name(gguf_type);
    return rp_fail(RP_E_DTYPE, "tensor type %s (%u) is not supported", name != NULL ? name : "unknown", gguf_type);
}

size_t rp_row_bytes(RpDtype dtype, int64_t n) {
    const RpDtypeInfo *info = rp_dtype_info(dtype);
    if (info == NULL || n < 0) return 0;
    return (size_t)(n / info->block_elems) * (size_t)info->block_bytes;
}

RpStatus rp_dtype_check_row(RpDtype dtype, const void *row, int64_t n) {
    RP_NOT_NULL(row, "row");

    const RpDtypeInfo *info = rp_dtype_info(dtype);
    if (info == NULL) return rp_fail(RP_E_DTYPE, "there is no type %d", (int)dtype);
    if (n < 0 || n % info->block_elems != 0)
        return rp_fail(RP_E_SHAPE, "a row of %lld elements: must be a whole number of %s blocks of %d", (long long)n,
                       info->name, info->block_elems);
    const CustomDtype *type = rp_dtype_custom(dtype);
    if (type == NULL || type->description.validate == NULL) return RP_OK;
    for (int64_t i = 0; i < n / info->block_elems; i++)
        if (!type->description.validate((const char *)row + i * info->block_bytes, type->description.user))
            return rp_fail(RP_E_FORMAT, "block %lld of a row is not valid in %s", (long long)i, info->name);
    return RP_OK;
}

RpTensorView rp_view_contiguous(RpDtype dtype, const int64_t ne[RP_MAX_DIMS], void *data) {
    const RpDtypeInfo *info = rp_dtype_info(dtype);
    if (info == NULL || ne == NULL) return (RpTensorView){0};
    RpTensorView v = {.data = data, .dtype = dtype, .nb = {(size_t)info->block_bytes}};
    for (int i = 0; i < RP_MAX_DIMS; i++) v.ne[i] = ne[i];
    v.nb[1] = rp_row_bytes(dtype, ne[0]);
    for (int i = 2; i < RP_MAX_DIMS; i++) v.nb[i] = v.nb[i - 1] * (size_t)ne[i - 1];
    return v;
}

bool rp_view_is_contiguous(const RpTensorView *v) {
    if (v == NULL || rp_dtype_info(v->dtype) == NULL) return false;
    const RpTensorView p = rp_view_contiguous(v->dtype, v->ne, v->data);
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (v->nb[i] != p.nb[i] && v->ne[i] != 1) return false; /* nb[i] is never used if ne[i] is 1 */
    return true;
}

size_t rp_view_extent_bytes(const RpTensorView *v) {
    const RpDtypeInfo *info = v != NULL ? rp_dtype_info(v->dtype) : NULL;
    if (info == NULL) return 0;
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (v->ne[i] <= 0) return 0;
    size_t bytes = (size_t)info->block_bytes + (size_t)(v->ne[0] / info->block_elems - 1) * v->nb[0];
    for (int i = 1; i < RP_MAX_DIMS; i++) bytes += (size_t)(v->ne[i] - 1) * v->nb[i];
    return bytes;
}

const char *rp_format_shape(const RpTensorView *v, char *buf, size_t size) {
    int dims = RP_MAX_DIMS;
    while (dims > 1 && v->ne[dims - 1] == 1) dims--;
    size_t n = (size_t)snprintf(buf, size, "%s [", rp_dtype_name(v->dtype));
    for (int i = 0; i < dims && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%lld", i > 0 ? "," : "", (long long)v->ne[i]);
    if (n < size) snprintf(buf + n, size - n, "]");
    return buf;
}
