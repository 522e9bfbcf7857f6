/* Repacks a quantised weight for the device: each field of the block becomes a plane over all B blocks of the
 * tensor. The largest field comes first, so every plane is aligned for its field. For q5_0 (d 2, qh 4, qs 16):
 *
 *     file:    d0 qh0 qs0 d1 qh1 qs1 ...                    22 bytes per block, aligned to 2 bytes only
 *     device:  qs0 qs1 ... qs[B-1] | qh0 ... qh[B-1] | d0 ... d[B-1]
 *     field g of block b:  out + B * (bytes of the fields before g) + b * (bytes of g)
 *
 * The total size stays the same. Float types are copied as they are. */
#include "base/dtypes.h"
#include "base/kernels.h"

#include <string.h>

enum { MAX_FIELDS = 4 };

/* Bytes [from, from + bytes) of the block; `bytes` is 0 past the last field. */
typedef struct Field {
    int from, bytes;
} Field;

/* In the order of the planes (base/dtypes.h). */
static const Field layouts[RP_DTYPE_COUNT][MAX_FIELDS] = {
#define FIELD(field, at, bytes)                                   {at, bytes},
#define X(ID, name, sub, offset, has_min, top, from, end, fields) [RP_##ID] = {fields},
    RP_QUANTS(X)
#undef X
#undef FIELD
};

RpStatus rp_cuda_repack(const RpTensorView *w, void *out) {
    const RpDtypeInfo *info   = rp_dtype_info(w->dtype);
    const size_t       extent = rp_view_extent_bytes(w);
    if (info == NULL || w->dtype == RP_Q8_ACT)
        return rp_fail(RP_E_DTYPE, "%s is not a weight type", rp_dtype_name(w->dtype));
    const Field *fields = layouts[w->dtype];
    if (!rp_dtype_is_quant(w->dtype)) {
        memcpy(out, w->data, extent);
        return RP_OK;
    }
    if (!rp_view_is_contiguous(w))
        return rp_fail(
            RP_E_UNSUPPORTED, "%s [%lld,%lld,%lld,%lld] is not contiguous: the device takes whole tensors",
            info->name, (long long)w->ne[0], (long long)w->ne[1], (long long)w->ne[2], (long long)w->ne[3]);
    const size_t block = (size_t)info->block_bytes, n = extent / block;
    const char  *from = w->data;
    char        *to   = out;
    for (int f = 0; f < MAX_FIELDS && fields[f].bytes > 0; f++) {
        const size_t bytes = (size_t)fields[f].bytes;
        for (size_t i = 0; i < n; i++, to += bytes) memcpy(to, from + i * block + fields[f].from, bytes);
    }
    return RP_OK;
}
