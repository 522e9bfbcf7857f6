/* Values of keys "<arch>.<key>". */
#include "model/config.h"

#include <math.h>
#include <stdio.h>

const char *rp_config_key(const ConfigReader *r, const char *key, char *buf, size_t size) {
    snprintf(buf, size, "%s.%s", r->arch, key);
    return buf;
}

static bool is_whole(RpGgufType type) {
    return type == RP_GGUF_U32 || type == RP_GGUF_I32 || type == RP_GGUF_U64 || type == RP_GGUF_I64;
}

RpStatus rp_config_u32(const ConfigReader *r, const char *key, uint32_t *out) {
    char               buf[128];
    const RpGgufValue *v = rp_gguf_find(r->file, rp_config_key(r, key, buf, sizeof buf));
    if (v != NULL && v->type == RP_GGUF_ARRAY && is_whole(v->elem_type) && v->n > 0) {
        const double first = rp_gguf_number_at(v, 0);
        for (uint64_t i = 1; i < v->n; i++)
            if (rp_gguf_number_at(v, i) != first)
                return rp_fail(RP_E_UNSUPPORTED,
                               "%s: %s is %g for layer 0 and %g for layer %llu: layers that differ are not supported",
                               rp_gguf_path(r->file), buf, first, rp_gguf_number_at(v, i), (unsigned long long)i);
        if (!(first >= 0.0 && first <= (double)UINT32_MAX)) return rp_gguf_get_u32(r->file, buf, out); /* says why */
        *out = (uint32_t)first;
        return RP_OK;
    }
    return rp_gguf_get_u32(r->file, rp_config_key(r, key, buf, sizeof buf), out);
}

RpStatus rp_config_f32(const ConfigReader *r, const char *key, float *out) {
    char buf[128];
    RP_TRY(rp_gguf_get_f32(r->file, rp_config_key(r, key, buf, sizeof buf), out));
    if (!isfinite(*out)) return rp_fail(RP_E_FORMAT, "%s: %s is not a finite number", rp_gguf_path(r->file), buf);
    return RP_OK;
}

RpStatus rp_config_count(const ConfigReader *r, const char *key, uint32_t fallback, uint32_t max, int32_t *out) {
    uint32_t value = fallback;
    char     buf[128];
    RP_TRY(rp_config_u32(r, key, &value));
    if (value == 0 && rp_gguf_find(r->file, rp_config_key(r, key, buf, sizeof buf)) == NULL)
        return rp_fail(RP_E_FORMAT, "%s: %s is missing", rp_gguf_path(r->file), buf);
    if (value < 1 || value > max)
        return rp_fail(RP_E_FORMAT, "%s: %s is %u, must be from 1 to %u", rp_gguf_path(r->file),
                       rp_config_key(r, key, buf, sizeof buf), value, max);
    *out = (int32_t)value;
    return RP_OK;
}
