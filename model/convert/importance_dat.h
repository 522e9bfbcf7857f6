/* importance_dat.h - importance matrices as llama-imatrix wrote them before it wrote GGUF ("imatrix.dat"). */
#ifndef MODEL_CONVERT_IMPORTANCE_DAT_H
#define MODEL_CONVERT_IMPORTANCE_DAT_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether the regular file `path` begins otherwise than GGUF does. */
bool rp_importance_is_dat(const char *path);

/* Reads such a file and converts it to GGUF: NAME.in_sum2 [values], NAME.counts [1]. The caller frees *gguf. RP_E_IO,
 * RP_E_NOMEM; RP_E_FORMAT, with the entry and its position, for a file that is cut off or damaged. */
RP_NODISCARD RpStatus rp_importance_read_dat(const char *path, char **gguf, size_t *bytes);

#endif
