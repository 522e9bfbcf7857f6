/* infill.h - prompts for code in the middle of a file. */
#ifndef SERVER_JOBS_INFILL_H
#define SERVER_JOBS_INFILL_H

#include "reprise/model.h"

#include <jansson.h>

/* Appends the tokens of {"prefix": ..., "suffix": ..., "prompt": ..., "extra": [{"filename": ..., "text": ...}]}:
 *
 *     BOS [repo mark, then for each of extra: file mark, filename, text; file mark]
 *     PRE prefix prompt SUF suffix MID
 *
 * (rp_tokenizer_fim). RP_E_UNSUPPORTED: it has none. */
RP_NODISCARD RpStatus infill_tokenize(const RpModel *m, const json_t *request, RpTokenList *out);

/* True if the file has the FIM tokens. */
bool infill_is_known(const RpModel *m);

#endif
