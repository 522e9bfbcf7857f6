/* record.h - manifests of the replies of a model. */
#ifndef SERVER_JOBS_RECORD_H
#define SERVER_JOBS_RECORD_H

#include "server/jobs/work.h"

/* The worker calls it when the engine is open with these options. Fills in Model.manifest, for which it reads the file;
 * does nothing without --manifest-dir. */
RP_NODISCARD RpStatus record_model(Model *m, const RpEngineOptions *engine);
void                  record_free(Model *m);

/* Lets the sampler of the choice report its tokens. */
void record_begin(Choice *c);

/* Call it when the reply has ended: queues its manifest. */
void record_end(const Model *m, Choice *c, const RpEngineEvent *last, RpStopReason reason);

#endif
