/* custom.h - types of weights that a program registers (reprise/extend.h).
 *
 *     RpDtype    0 .. RP_DTYPE_COUNT-1             rows of RP_DTYPES
 *                RP_DTYPE_CUSTOM .. +n-1           custom types, in the order of rp_dtype_register
 *
 * Tables of kernels have an entry for each row of RP_DTYPES and none for a custom type. */
#ifndef BASE_TYPES_CUSTOM_H
#define BASE_TYPES_CUSTOM_H

#include "reprise/extend.h"

typedef struct CustomDtype {
    RpDtypeInfo        info; /* info.name is `name` */
    RpDtypeDescription description;
    char               name[RP_DTYPE_NAME_BYTES];
} CustomDtype;

/* NULL for a row of RP_DTYPES and for a number that is no dtype. */
const CustomDtype *rp_dtype_custom(RpDtype dtype);

static inline bool rp_dtype_is_custom(RpDtype dtype) { return rp_dtype_custom(dtype) != NULL; }

/* Custom type i, 0 <= i; NULL behind the last one. */
static inline const CustomDtype *rp_dtype_custom_at(int i) { return rp_dtype_custom((RpDtype)(RP_DTYPE_CUSTOM + i)); }

/* Finds a custom type by its name, in any case of letters. */
bool rp_dtype_find_custom(const char *name, RpDtype *out);

/* The custom type with this number in GGUF files, and its dtype if `out` is not NULL; NULL if there is none. */
const RpDtypeInfo *rp_custom_of_gguf(uint32_t gguf_type, RpDtype *out);

/* Adds a row to the table; the caller has checked the description and holds the lock of registration. */
RP_NODISCARD RpStatus rp_custom_add(const RpDtypeDescription *description, RpDtype *out);

/* rp_quantize_row_weighted (base/quantize.h) for a custom type; n is not negative. */
RP_NODISCARD RpStatus rp_custom_quantize(const CustomDtype *type, const float *x, const float *importance, int64_t n,
                                         void *out);

#endif
