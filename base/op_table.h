/* op_table.h - the description of each op: name, sources, parameters, flags.
 *
 *     TensorOp   0 .. RP_OP_COUNT-1                     rows of ops.h
 *                RP_OP_COUNT .. RP_OP_COUNT+n_custom-1  custom ops, in the order of rp_op_register */
#ifndef BASE_OP_TABLE_H
#define BASE_OP_TABLE_H

#include "reprise/source.h"

/* A member of a params struct. */
typedef enum ParamKind { PARAM_I32, PARAM_I64, PARAM_BYTES, PARAM_FLOAT, PARAM_BOOL } ParamKind;

typedef struct OpParam {
    const char *name; /* "column.eps"; "unused" is padding */
    ParamKind   kind;
    size_t      offset, bytes; /* an array has the bytes of all its elements */
} OpParam;

typedef struct OpInfo {
    const char            *name;
    int                    n_required, n_sources;
    const char            *sources[RP_MAX_SRC]; /* their names; NULL: none is known */
    size_t                 params_bytes;
    const OpParam         *params; /* NULL for a custom op, whose parameters only its kernels know */
    int                    n_params;
    unsigned               flags;
    const RpOpDescription *custom; /* NULL for rows of ops.h */
    const RpCudaSource
        *source; /* or NULL: the CUDA kernel of a custom op as text, with `file` and `block` filled in */
} OpInfo;

/* Fills in the defaults of a source of op `name`; *file is storage for `file`. RP_E_ARG. */
enum { RP_SOURCE_FILE_BYTES = 128 };
RP_NODISCARD RpStatus rp_source_complete(RpCudaSource *s, const char *name, char file[RP_SOURCE_FILE_BYTES]);

/* NULL for a number that is no op. */
const OpInfo *rp_op_info(TensorOp op);

/* Name of source i; "" if there is none, for any i and a NULL description too. */
const char *rp_op_source_name(const OpInfo *info, int i);

/* A name is one or more letters, digits and _. */
size_t rp_name_length(const char *s); /* of the name at the start of s; 0 if there is none */
bool   rp_is_name(const char *s);     /* true if all of s is a name; false for NULL */

/* Finds an op by the `len` characters at `name`, which need not be terminated. Custom ops are found too. */
bool rp_op_find(const char *name, size_t len, TensorOp *out);

#endif
