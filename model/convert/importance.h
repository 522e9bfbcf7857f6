/* importance.h - the importance of the columns of weights, from the file of an importance matrix (imatrix.c). */
#ifndef MODEL_CONVERT_IMPORTANCE_H
#define MODEL_CONVERT_IMPORTANCE_H

#include "reprise/gguf.h"

typedef struct Importance Importance;

/* The caller frees *out, by rp_importance_free. RP_E_FORMAT for a GGUF file that is no importance matrix; errors of
 * rp_gguf_open. */
RP_NODISCARD RpStatus rp_importance_open(const char *path, Importance **out);
void                  rp_importance_free(Importance *m); /* NULL is allowed */

const RpGgufFile *rp_importance_file(const Importance *m);

/* RP_E_ARG if `path` is the file of m. */
RP_NODISCARD RpStatus rp_importance_refuse_output(const Importance *m, const char *path);

/* Whether it has sums for a weight. */
bool rp_importance_has(const Importance *m, RpGgufString weight);

/* The mean squares of the columns of t: *out [ne0, *n_mat], of each of its matrices or of all, valid until the next
 * call; NULL if the file has none. 1 where an expert got no token. RP_E_SHAPE, with both shapes, for a weight of
 * another shape; RP_E_FORMAT for sums that are no f32, below 0 or not finite; RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_importance_of(Importance *m, const RpGgufTensor *t, const float **out, int64_t *n_mat);

#endif
