/* Registration of a type (reprise/extend.h): what its description must be. */
#include "base/types/custom.h"

#include "base/argument.h"
#include "base/op_table.h"
#include "base/sized.h"

#include <pthread.h>
#include <string.h>
#include <strings.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of registration */

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

RpStatus rp_dtype_register_sized(const RpDtypeDescription *description, size_t description_bytes, RpDtype *out) {
    RP_NOT_NULL(description, "description");
    RP_NOT_NULL(out, "out");

    RpDtypeDescription given;
    RP_TRY(rp_sized_in(&given, sizeof given, description, description_bytes, "RpDtypeDescription"));
    pthread_mutex_lock(&lock);
    RpStatus st = check_description(&given);
    if (st == RP_OK) st = rp_custom_add(&given, out);
    pthread_mutex_unlock(&lock);
    return st;
}
