/* Copies between structs of the library and those of callers that were compiled against another version. */
#include "base/sized.h"

#include <stdlib.h>
#include <string.h>

RpStatus rp_sized_in(void *own, size_t own_bytes, const void *given, size_t given_bytes, const char *name) {
    memset(own, 0, own_bytes);
    if (given == NULL) return RP_OK;
    const unsigned char *bytes = given;
    for (size_t i = own_bytes; i < given_bytes; i++)
        if (bytes[i] != 0)
            return rp_fail(RP_E_ARG,
                           "%s: the caller was compiled against a newer version of the library, and sets a member "
                           "that this one does not have (%zu bytes, here %zu)",
                           name, given_bytes, own_bytes);
    memcpy(own, given, given_bytes < own_bytes ? given_bytes : own_bytes);
    return RP_OK;
}

RpStatus rp_sized_array_in(void **own, size_t own_bytes, const void *given, size_t given_bytes, size_t n,
                           const char *name) {
    *own = calloc(n + 1, own_bytes);
    if (*own == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu of %s", n, name);
    for (size_t i = 0; i < n; i++) {
        const RpStatus st = rp_sized_in((char *)*own + i * own_bytes, own_bytes, (const char *)given + i * given_bytes,
                                        given_bytes, name);
        if (st == RP_OK) continue;
        free(*own);
        *own = NULL;
        return st;
    }
    return RP_OK;
}

void rp_sized_out(void *given, size_t given_bytes, const void *own, size_t own_bytes) {
    if (given == NULL) return;
    memset(given, 0, given_bytes);
    if (own != NULL) memcpy(given, own, given_bytes < own_bytes ? given_bytes : own_bytes);
}
