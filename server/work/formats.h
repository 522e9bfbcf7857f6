/* formats.h - jobs of the wire formats. */
#ifndef SERVER_WORK_FORMATS_H
#define SERVER_WORK_FORMATS_H

#include "server/work/job.h"

extern const JobType format_job;

/* Tokens of the prompt of a chat that is parsed, and whose model is there. */
RP_NODISCARD RpStatus formats_count(Job *j, int32_t *n);

#endif
