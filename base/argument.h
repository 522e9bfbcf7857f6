/* argument.h - checks of pointers at the beginning of public functions. The text names function and argument:
 *
 *     RP_NOT_NULL(e, "exec");       // in rp_executor_run: RP_E_ARG, "rp_executor_run: exec is NULL"
 *     RP_OUT(out, "out");           // the same, then *out = NULL
 */
#ifndef BASE_ARGUMENT_H
#define BASE_ARGUMENT_H

#include "reprise/status.h"

#include <stddef.h>

/* RP_E_ARG. "_sized" at the end of the function's name is left out: programs call the inline function without it. */
RP_NODISCARD RpStatus rp_argument_is_null(const char *function, const char *name);

#define RP_NOT_NULL(pointer, name)                                                                                     \
    do {                                                                                                               \
        if ((pointer) == NULL) return rp_argument_is_null(__func__, name);                                             \
    } while (0)

#define RP_OUT(pointer, name)                                                                                          \
    do {                                                                                                               \
        RP_NOT_NULL(pointer, name);                                                                                    \
        *(pointer) = NULL;                                                                                             \
    } while (0)

#endif
