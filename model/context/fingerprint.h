/* fingerprint.h - a hash that identifies the model that a file belongs to. */
#ifndef MODEL_CONTEXT_FINGERPRINT_H
#define MODEL_CONTEXT_FINGERPRINT_H

#include "model/model.h"

/* XXH64 of the metadata, of name, type and shape of every tensor, and of its first, middle and last 4096 bytes; then
 * the same of each adapter, and their scales. So a large model need not be read as a whole; but models that differ only
 * in other bytes have the same fingerprint. */
uint64_t rp_model_fingerprint(const RpModel *m);

#endif
