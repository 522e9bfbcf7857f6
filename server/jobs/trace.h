/* trace.h - what the server did for some seconds, as trace events for ui.perfetto.dev (reprise/trace.h): the steps and
 * nodes of all engines, and a track for each reply.
 *
 *     reply     request  [ prepare | queue | prefill | decode ]
 *
 * One trace at a time. */
#ifndef SERVER_JOBS_TRACE_H
#define SERVER_JOBS_TRACE_H

#include "server/jobs/job.h"

#include "reprise/trace.h"

/* GET /trace?seconds=N */
extern const JobType trace_job;

/* The trace that is being recorded: a member of Work, guarded by its lock. The list has the replies that run, so that a
 * trace that ends before them has them too. */
typedef struct ServerTrace {
    pthread_mutex_t lock;
    RpTrace        *trace; /* or NULL */
    int64_t         since; /* its start */
    Choice         *first;
    _Atomic(Job *)  owner; /* the job that records, or waits to record; NULL: a trace may begin */
} ServerTrace;

/* Report that an engine has the reply, that it has given an event of it, and that the reply has ended. */
void trace_added(Work *w, Choice *c);
void trace_seen(Work *w, Choice *c, const RpEngineEvent *e);
void trace_ended(Work *w, Choice *c);

bool trace_runs(Work *w);

#endif
