/* rows.h - writes tensors of a GGUF file into a new one, their rows changed or of another type, by all cores. */
#ifndef MODEL_CONVERT_ROWS_H
#define MODEL_CONVERT_ROWS_H

#include "model/gguf/gguf_write.h"
#include "reprise/convert.h"

typedef struct RowWorkers RowWorkers;

typedef struct RowWriter {
    const RpGgufFile  *in;
    GgufWriter        *out;
    RpConvertProgress *progress; /* or NULL */
    void              *user;
    const char        *action;     /* in the error after `progress` has stopped it: "conversion" */
    int64_t            scratch;    /* floats for each call of a RowChange */
    size_t             done;       /* bytes written */
    const float       *importance; /* of the columns of the next tensor, [n_matrices][ne0] (base/quantize.h); or NULL */
    int64_t            n_matrices;
    RowWorkers        *workers;
} RowWriter;

/* Changes row i of a tensor, f32 [ne0]. Several threads call it at once, each with its own row and scratch. */
typedef void RowChange(const void *user, int64_t i, float *row, float *scratch);

/* Allocates the workers. The caller frees them by rp_row_writer_end, which is legal before, too. */
RP_NODISCARD RpStatus rp_row_writer_begin(RowWriter *w);
void                  rp_row_writer_end(RowWriter *w);

/* Writes tensor t as type `to`: each row as f32, changed, quantised. With `change` NULL and `to` its type the bytes
 * are copied. RP_E_ARG for the first row with a number that `to` does not have, RP_E_CANCELLED, RP_E_IO. */
RP_NODISCARD RpStatus rp_row_writer_tensor(RowWriter *w, const RpGgufTensor *t, RpDtype to, RowChange *change,
                                           const void *change_user);

#endif
