/* plain.h - jobs whose answer is made at once: no reply of an engine. */
#ifndef SERVER_JOBS_PLAIN_H
#define SERVER_JOBS_PLAIN_H

#include "server/jobs/job.h"

extern const JobType tokenize_job, detokenize_job;
extern const JobType count_job;      /* /v1/messages/count_tokens */
extern const JobType show_job;       /* /api/show */
extern const JobType embeddings_job; /* embeddings.c */

/* Reads the body of the job, unless that was done. False: the job has failed. */
bool plain_read(Job *j);

#endif
