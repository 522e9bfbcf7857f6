/* fingerprint.h - a number by which files that belong to a model know it again. */
#ifndef MODEL_CONTEXT_FINGERPRINT_H
#define MODEL_CONTEXT_FINGERPRINT_H

#include "model/model.h"

/* XXH64 of the metadata, of name, type and shape of every tensor, and of its first, middle and last 4096 bytes; then
 * the same of each adapter, and their scales. So a large model need not be read as a whole: models that differ in a few
 * numbers elsewhere are not told apart. */
uint64_t rp_model_fingerprint(const RpModel *m);

#endif
