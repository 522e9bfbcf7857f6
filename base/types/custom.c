/* The types that a program registers (reprise/extend.h). A row of the table never changes once it is counted, so
 * readers need no lock. */
#include "base/types/custom.h"

#include "base/argument.h"
#include "base/op_table.h"
#include "base/sized.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

static CustomDtype     custom[RP_MAX_CUSTOM_DTYPES];
static atomic_int      n_custom;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of registration */

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

/* ---- checks of a description ---- */

/* Names of rows, and ggml's names of types that the library cannot compute with. */
static bool is_taken(const char *name) {
    RpDtype found;
#define X(ID, row_name, elems, bytes, gguf)                                                                            \
    if (strcasecmp(name, row_name) == 0) return true;
    RP_DTYPES(X)
#undef X
#define X(NAME, elems, bytes, gguf)                                                                                    \
    if (strcasecmp(name, #NAME) == 0) return true;
    RP_FOREIGN_TYPES(X)
#undef X
    return rp_dtype_find_custom(name, &found);
}

static RpStatus check_name(const char *name) {
    if (!rp_is_name(name) || strlen(name) >= RP_DTYPE_NAME_BYTES)
        return rp_fail(RP_E_ARG, "a type's name is made of 1 to %d letters, digits and _", RP_DTYPE_NAME_BYTES - 1);
    return is_taken(name) ? rp_fail(RP_E_ARG, "there is a type '%s'", name) : RP_OK;
}

/* Products add up a row in slices of RP_DTYPE_MAX_ELEMS elements: whole blocks, and whole groups of 16 sums. */
static RpStatus check_block(const RpDtypeDescription *d) {
    const int32_t n = d->block_elems;
    if (n < 1 || n > RP_DTYPE_MAX_ELEMS || (n % 16 != 0 && 16 % n != 0))
        return rp_fail(RP_E_ARG,
                       "type '%s': a block of %d elements, must be 1, 2, 4, 8 or a multiple of 16, at most %d", d->name,
                       (int)n, RP_DTYPE_MAX_ELEMS);
    if (d->block_bytes < 1 || d->block_bytes > 4 * n)
        return rp_fail(RP_E_ARG, "type '%s': a block of %d bytes, must be from 1 to %d, the bytes of f32", d->name,
                       (int)d->block_bytes, (int)(4 * n));
    return RP_OK;
}

static RpStatus check_number(const RpDtypeDescription *d) {
    if (d->gguf_type == 0) return RP_OK;
    if (d->gguf_type > INT32_MAX)
        return rp_fail(RP_E_ARG, "type '%s': its number in GGUF files is %u, must be at most %d", d->name, d->gguf_type,
                       (int)INT32_MAX);
    const char *owner = rp_gguf_type_name(d->gguf_type);
    if (owner == NULL) return RP_OK;
    return rp_fail(RP_E_ARG, "type '%s': its number in GGUF files, %u, is that of %s", d->name, d->gguf_type, owner);
}

static RpStatus check_description(const RpDtypeDescription *d) {
    RP_TRY(check_name(d->name));
    RP_TRY(check_block(d));
    if (d->flags != 0) return rp_fail(RP_E_ARG, "type '%s': flags %#x, must be 0", d->name, d->flags);
    if (d->dequantize == NULL) return rp_fail(RP_E_ARG, "type '%s': must have a function `dequantize`", d->name);
    return check_number(d);
}

/* ---- registration ---- */

static RpStatus register_dtype(const RpDtypeDescription *given, RpDtype *out) {
    const int n = atomic_load_explicit(&n_custom, memory_order_relaxed);
    RP_TRY(check_description(given));
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

RpStatus rp_dtype_register_sized(const RpDtypeDescription *description, size_t description_bytes, RpDtype *out) {
    RP_NOT_NULL(description, "description");
    RP_NOT_NULL(out, "out");

    RpDtypeDescription given;
    RP_TRY(rp_sized_in(&given, sizeof given, description, description_bytes, "RpDtypeDescription"));
    pthread_mutex_lock(&lock);
    const RpStatus st = register_dtype(&given, out);
    pthread_mutex_unlock(&lock);
    return st;
}

/* ---- calls of the functions of a type ---- */

RpStatus rp_custom_quantize(const CustomDtype *type, const float *x, const float *importance, int64_t n, void *out) {
    const RpDtypeDescription *d = &type->description;
    if (d->quantize == NULL)
        return rp_fail(RP_E_DTYPE, "rows of %s cannot be quantised: the type has no function `quantize`", d->name);
    if (n % d->block_elems != 0)
        return rp_fail(RP_E_SHAPE, "a row of %lld elements is not a whole number of %s blocks of %d", (long long)n,
                       d->name, (int)d->block_elems);
    rp_fail(RP_OK, "its function `quantize` gives no reason"); /* else the text would be that of an earlier failure */
    const RpStatus st = d->quantize(x, importance, n, out, d->user);
    if (st == RP_OK) return RP_OK;
    return rp_fail(st, "a row cannot be quantised to %s: %s", d->name, rp_last_error());
}

RpStatus rp_dtype_check_row(RpDtype dtype, const void *row, int64_t n) {
    RP_NOT_NULL(row, "row");

    const RpDtypeInfo *info = rp_dtype_info(dtype);
    if (info == NULL) return rp_fail(RP_E_DTYPE, "there is no type %d", (int)dtype);
    if (n < 0 || n % info->block_elems != 0)
        return rp_fail(RP_E_SHAPE, "a row of %lld elements is not a whole number of %s blocks of %d", (long long)n,
                       info->name, info->block_elems);
    const CustomDtype *type = rp_dtype_custom(dtype);
    if (type == NULL || type->description.validate == NULL) return RP_OK;
    for (int64_t i = 0; i < n / info->block_elems; i++)
        if (!type->description.validate((const char *)row + i * info->block_bytes, type->description.user))
            return rp_fail(RP_E_FORMAT, "block %lld of a row is not valid in %s", (long long)i, info->name);
    return RP_OK;
}
