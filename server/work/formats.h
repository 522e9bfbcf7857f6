/* formats.h - jobs of the wire formats. */
#ifndef SERVER_WORK_FORMATS_H
#define SERVER_WORK_FORMATS_H

#include "server/work/job.h"

extern const JobType format_job;

#endif
