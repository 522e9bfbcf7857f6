/* Compares the checksums of a file that a trainer wrote. A single damaged bit can hide one of the three keys, so the
 * others say that it is missing. */
#include "model/gguf/gguf_checksum.h"

#include "base/xxh64.h"
#include "model/gguf/gguf_file.h"

#include <string.h>

static RpStatus damaged(const RpGgufFile *f, const char *key) {
    return rp_fail(RP_E_FORMAT, "%s: %s is missing or of another type: the file is damaged", f->path, key);
}

/* The checksum itself counts as zeros. */
static uint64_t sum_of_metadata(const RpGgufFile *f, const RpGgufValue *value) {
    static const unsigned char none[sizeof(uint64_t)];
    const unsigned char       *at = value->data, *end = f->data + f->data_at;
    RpXxh64                    h;
    rp_xxh64_begin(&h);
    rp_xxh64_add(&h, f->data, (size_t)(at - f->data));
    rp_xxh64_add(&h, none, sizeof none);
    rp_xxh64_add(&h, at + sizeof none, (size_t)(end - at) - sizeof none);
    return rp_xxh64_end(&h);
}

static RpStatus compare_metadata(RpGgufFile *f, const RpGgufValue *value) {
    uint64_t want;
    RP_TRY(rp_gguf_read_in(f, f->data_at)); /* also the padding */
    const uint64_t sum = sum_of_metadata(f, value);
    memcpy(&want, value->data, sizeof want);
    if (sum == want) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: the metadata are damaged: their checksum is %016llx, not %016llx", f->path,
                   (unsigned long long)sum, (unsigned long long)want);
}

RpStatus rp_gguf_check_metadata(RpGgufFile *f) {
    const RpGgufValue *metadata = rp_gguf_find(f, GGUF_KEY_METADATA), *tensors = rp_gguf_find(f, GGUF_KEY_TENSORS);
    uint32_t           format = 0;
    RP_TRY(rp_gguf_get_u32(f, GGUF_KEY_FORMAT, &format));
    if (rp_gguf_find(f, GGUF_KEY_FORMAT) == NULL && metadata == NULL && tensors == NULL) return RP_OK;
    if (format > GGUF_TRAIN_FORMAT)
        return rp_fail(RP_E_UNSUPPORTED, "%s: %s is %u: this version reads files up to %d", f->path, GGUF_KEY_FORMAT,
                       format, GGUF_TRAIN_FORMAT);
    if (format == 0) return damaged(f, GGUF_KEY_FORMAT);
    if (metadata == NULL || metadata->type != RP_GGUF_U64) return damaged(f, GGUF_KEY_METADATA);
    RP_TRY(compare_metadata(f, metadata));
    if (tensors != NULL && tensors->type == RP_GGUF_ARRAY && tensors->elem_type == RP_GGUF_U64 &&
        tensors->n == (uint64_t)f->n_tensors)
        return RP_OK;
    return damaged(f, GGUF_KEY_TENSORS);
}

RpStatus rp_gguf_check_tensor(const RpGgufFile *f, int64_t i) {
    const RpGgufValue  *sums = rp_gguf_find(f, GGUF_KEY_TENSORS);
    const RpGgufTensor *t    = &f->tensors[i];
    uint64_t            want;
    if (sums == NULL) return RP_OK;
    if (!t->known)
        return rp_fail(RP_E_UNSUPPORTED, "%s: tensor %.*s is of a type that cannot be checked", f->path,
                       (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr);
    const uint64_t sum = rp_xxh64(t->view.data, t->bytes);
    memcpy(&want, (const char *)sums->data + (size_t)i * sizeof want, sizeof want);
    if (sum == want) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: tensor %.*s is damaged: its checksum is %016llx, not %016llx", f->path,
                   (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr, (unsigned long long)sum,
                   (unsigned long long)want);
}

RpStatus rp_gguf_check_tensors(const RpGgufFile *f, bool training) {
    for (int64_t i = 0; i < f->n_tensors; i++)
        if (rp_gguf_is_training(f->tensors[i].name) == training) RP_TRY(rp_gguf_check_tensor(f, i));
    return RP_OK;
}
