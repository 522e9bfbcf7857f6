/* record.h - manifests of the replies of a model. */
#ifndef SERVER_JOBS_RECORD_H
#define SERVER_JOBS_RECORD_H

#include "server/jobs/work.h"

/* For the worker: fills in Model.manifest when the engine is open with these options, without --manifest-dir nothing.
 * Reads the file. */
RP_NODISCARD RpStatus record_model(Model *m, const RpEngineOptions *engine);
void                  record_free(Model *m);

/* The sampler of the choice tells its tokens. */
void record_begin(Choice *c);

/* The reply has ended: its manifest is written. */
void record_end(const Model *m, Choice *c, const RpEngineEvent *last, RpStopReason reason);

#endif
