/* sized.h - structs of callers that were compiled against an older or a newer version of the public headers. Structs
 * only ever grow at their end, and new members are 0 for what was done before, so the sizes say all:
 *
 *     options   caller's, smaller   | a b |          ->  | a b 0 0 |   library's
 *               caller's, larger    | a b c d e |    ->  | a b c d |   if e is 0, else refused
 *     results   caller's, smaller   | a b |          <-  | a b c d |   library's
 *               caller's, larger    | a b c d 0 |    <-  | a b c d |
 */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include "reprise/status.h"

#include <stddef.h>

/* Copies options. NULL gives zeros, the defaults. `name` is that of the struct. RP_E_ARG if the caller uses a member
 * that this library does not have. */
RP_NODISCARD RpStatus rp_sized_in(void *own, size_t own_bytes, const void *given, size_t given_bytes, const char *name);

/* The same for an array of n structs. The caller frees *own; on failure it is NULL. Also RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_sized_array_in(void **own, size_t own_bytes, const void *given, size_t given_bytes, size_t n,
                                        const char *name);

/* Copies a result to the caller; zeros if `own` is NULL. Nothing if `given` is NULL. */
void rp_sized_out(void *given, size_t given_bytes, const void *own, size_t own_bytes);

#endif
