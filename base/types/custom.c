/* The table of the types that a program has registered (reprise/extend.h). A row never changes once it is counted, so
 * readers need no lock. */
#include "base/types/custom.h"

#include "base/argument.h"

#include <stdatomic.h>
#include <string.h>
#include <strings.h>

static CustomDtype custom[RP_MAX_CUSTOM_DTYPES];
static atomic_int  n_custom;

const CustomDtype *rp_dtype_custom(RpDtype dtype) {
    const unsigned i = (unsigned)dtype - RP_DTYPE_CUSTOM;
    return i < (unsigned)atomic_load_explicit(&n_custom, memory_order_acquire) ? &custom[i] : NULL;
}

bool rp_dtype_find_custom(const char *name, RpDtype *out) {
    for (int i = 0; rp_dtype_custom_at(i) != NULL; i++) {
        *out = (RpDtype)(RP_DTYPE_CUSTOM + i);
        if (strcasecmp(rp_dtype_custom_at(i)->name, name) == 0) return true;
    }
    return false;
}

const RpDtypeInfo *rp_custom_of_gguf(uint32_t gguf_type, RpDtype *out) {
    for (int i = 0; rp_dtype_custom_at(i) != NULL; i++) {
        const RpDtypeInfo *info = &rp_dtype_custom_at(i)->info;
        if (info->gguf_type < 0 || (uint32_t)info->gguf_type != gguf_type) continue;
        if (out != NULL) *out = (RpDtype)(RP_DTYPE_CUSTOM + i);
        return info;
    }
    return NULL;
}

RpStatus rp_custom_add(const RpDtypeDescription *given, RpDtype *out) {
    const int n = atomic_load_explicit(&n_custom, memory_order_relaxed);
    if (n == RP_MAX_CUSTOM_DTYPES)
        return rp_fail(RP_E_NOMEM, "type '%s': at most %d custom types can be registered", given->name,
                       RP_MAX_CUSTOM_DTYPES);
    CustomDtype *c = &custom[n];
    strcpy(c->name, given->name);
    c->description      = *given;
    c->description.name = c->name;
    c->info             = (RpDtypeInfo){.name        = c->name,
                                        .block_elems = given->block_elems,
                                        .block_bytes = given->block_bytes,
                                        .gguf_type   = given->gguf_type != 0 ? (int)given->gguf_type : -1};
    atomic_store_explicit(&n_custom, n + 1, memory_order_release);
    *out = (RpDtype)(RP_DTYPE_CUSTOM + n);
    return RP_OK;
}

/* ---- calls of the functions of a type ---- */

RpStatus rp_custom_quantize(const CustomDtype *type, const float *x, const float *importance, int64_t n, void *out) {
    const RpDtypeDescription *d = &type->description;
    if (d->quantize == NULL)
        return rp_fail(RP_E_DTYPE, "rows of %s cannot be quantised: the type has no function `quantize`", d->name);
    if (n % d->block_elems != 0)
        return rp_fail(RP_E_SHAPE, "a row of %lld elements: must be a whole number of %s blocks of %d", (long long)n,
                       d->name, (int)d->block_elems);
    rp_fail(RP_OK, "its function `quantize` gives no reason"); /* else the text would be that of an earlier failure */
    const RpStatus st = d->quantize(x, importance, n, out, d->user);
    if (st == RP_OK) return RP_OK;
    return rp_fail(st, "a row cannot be quantised to %s: %s", d->name, rp_last_error());
}
