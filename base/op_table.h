/* op_table.h - the description of each op: name, sources, parameters, flags.
 *
 *     TensorOp   0 ..                              public rows, reprise/ops.h
 *                RP_OP_PRIVATE+1 ..                private rows, ops/private.h
 *                RP_OP_CUSTOM .. +n_custom-1       custom ops, in the order of rp_op_register
 *
 * Tables have an entry for each row: first the public, then the private ones. rp_op_row gives the place. */
#ifndef BASE_OP_TABLE_H
#define BASE_OP_TABLE_H

#include "reprise/source.h"

enum {
#define OP(number, ID, name, required, sources, Params, fields, flags) RP_ROW_##ID,
    RP_OPS(OP, OP)
#undef OP
        RP_N_ROWS,
    RP_N_PUBLIC_ROWS = RP_N_ROWS - (RP_OP_LAST_PRIVATE - RP_OP_PRIVATE)
};

/* The row of an op, 0 <= row < RP_N_ROWS; -1 for a custom op and for a number that is no op. */
static inline int rp_op_row(TensorOp op) {
    if ((unsigned)op < RP_N_PUBLIC_ROWS) return (int)op;
    return op > RP_OP_PRIVATE && op <= RP_OP_LAST_PRIVATE ? RP_N_PUBLIC_ROWS + (int)op - RP_OP_PRIVATE - 1 : -1;
}

/* The op of a row, 0 <= row < RP_N_ROWS. */
static inline TensorOp rp_row_op(int row) {
    return (TensorOp)(row < RP_N_PUBLIC_ROWS ? row : RP_OP_PRIVATE + 1 + row - RP_N_PUBLIC_ROWS);
}

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
    const RpOpDescription *custom; /* NULL for rows */
    const RpCudaSource *source; /* or NULL: the CUDA kernel of a custom op as text, with `file` and `block` filled in */
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
