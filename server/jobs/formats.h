/* formats.h - jobs of the wire formats. */
#ifndef SERVER_JOBS_FORMATS_H
#define SERVER_JOBS_FORMATS_H

#include "server/jobs/job.h"

extern const JobType format_job;

/* Tokens of the prompt of a chat that is parsed, and whose model is there. */
RP_NODISCARD RpStatus formats_count(Job *j, int32_t *n);

#endif
