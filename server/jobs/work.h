/* work.h - the models of the server and the threads that run jobs: three lanes (one prepares requests, one makes slow
 * things such as pictures, one waits for traces), and one worker for each model that is loaded. */
#ifndef SERVER_JOBS_WORK_H
#define SERVER_JOBS_WORK_H

#include "server/jobs/job.h"
#include "server/jobs/trace.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/server.h"

#include "reprise/embed.h"

typedef struct JobQueue {
    Job *first, *last;
    int  n;
} JobQueue;

typedef struct Lane {
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  some;
    JobQueue        queue;
    bool            started, stop;
} Lane;

typedef enum ModelState { MODEL_UNLOADED, MODEL_LOADING, MODEL_READY, MODEL_STOPPING } ModelState;

/* A tool call as a model wrote it, on the way to the call log. */
typedef struct WrittenCall {
    struct WrittenCall *next;
    size_t              n;
    char                id[64], text[]; /* n bytes */
} WrittenCall;

typedef struct ModelInfo     ModelInfo;     /* info.c */
typedef struct ModelManifest ModelManifest; /* record.c */
typedef struct Manifests     Manifests;

struct Model {
    Work *work;
    char *name, *path;
    /* Under Work.lock: */
    ModelState     state;
    int            pins; /* jobs that use it */
    double         used; /* when a job ended last */
    size_t         bytes;
    JobQueue       waiting;       /* for its load */
    JobQueue       queue;         /* for its worker */
    RpEngineStats  stats, before; /* before: sums of earlier loads */
    size_t         n_live_seen;   /* replies that the engine had when `stats` was taken */
    char           error[512];    /* of the latest load; "": it has not failed */
    bool           lost_device;   /* an engine could not be opened because a GPU failed, and no load succeeded since */
    ModelInfo     *info;          /* NULL until it is loaded first; stays then */
    pthread_cond_t some;
    pthread_t      thread;
    bool           joinable, was_ready;
    atomic_int     n_choices; /* of jobs that were submitted and have not ended */
    /* Set by the worker while it loads; read by others as long as they pin it: */
    RpModel        *model;
    RpChatTemplate *chat;          /* or NULL: the model cannot chat */
    RpGgufString    chat_source;   /* of it */
    char            sampling[512]; /* what the model recommends */
    char            no_chat[512];
    char            backend[320];         /* RpExecutorInfo.backend */
    char            device[32];           /* RpExecutorInfo.device */
    bool            repacked;             /* the engine has copies of weights */
    bool            no_copy;              /* there is no room for them */
    bool            reasons, calls_tools; /* replies can have reasoning, and calls */
    RpToolCallLog  *log;                  /* of the lane that prepares */
    pthread_mutex_t calls_lock;
    WrittenCall    *calls; /* for the log, the latest first */
    RpGrammarVocab *vocab; /* or NULL */
    RpEngine       *engine;
    RpEmbedder     *embedder; /* one of the two is not NULL */
    ModelManifest  *manifest; /* or NULL */
    int32_t         n_ctx;
    time_t          created;
    /* Used by the worker alone: */
    Choice **live; /* that the engine has */
    size_t   n_live, room;
    int      failed_steps;
};

struct Work {
    const ServerOptions *options;
    Log                 *log;
    Metrics             *metrics;
    Manifests           *manifests; /* or NULL */
    ApiRequest           defaults;
    char                 fingerprint[32];
    pthread_mutex_t      lock;
    pthread_cond_t       changed; /* a model was unloaded */
    Model               *models;
    int                  n_models;
    void *(*worker)(void *model); /* the thread of each model: worker_main */
    size_t          bytes;        /* of all that are loaded */
    bool            stopping;     /* nothing is loaded any more */
    atomic_int      n_jobs;       /* that have not ended */
    Lane            prepare, slow, traces;
    ServerTrace     trace;
    pthread_mutex_t ready_lock;
    Job            *ready_first, *ready_last;
    int             wake_fd; /* eventfd of the event loop */
};

/* Finds the models and starts the lanes; the model of the options is loaded. The caller frees *w with work_close, also
 * after a failure. */
RP_NODISCARD RpStatus work_open(Work *w, const ServerOptions *options, Log *log, Metrics *metrics);
void                  work_close(Work *w); /* all jobs have ended */

/* Only finds the models. */
RP_NODISCARD RpStatus work_find_models(Work *w, const ServerOptions *options);

/* Parts of the two above, in models.c. */
RP_NODISCARD RpStatus work_load_first(Work *w);
void                  work_unload_all(Work *w);
void                  work_free_models(Work *w);

/* Answers jobs that wait for a load which has failed with m->error. */
void work_fail_waiting(const Model *m, JobQueue *waiting, int status);

/* The model of -m was loaded first, or could not be: the loads of models that requests have named meanwhile begin, or
 * their jobs fail. */
void work_load_others(Work *w, bool loaded);

/* For the worker that loads: waits until `bytes` fit into the memory of the options, and counts them. Models that are
 * idle are unloaded, the one that was used the longest time ago first. RP_E_NOMEM. If the `copy` of the weights fits as
 * well, it is counted too, else m->no_copy is set. */
RP_NODISCARD RpStatus work_make_room(Model *m, size_t bytes, size_t copy);

/* Sets the memory of the model to `bytes`, at most the number that work_make_room has counted. */
void work_count(Model *m, size_t bytes);

/* "ok"; "loading": the model of the options was not loaded yet; "failed": it could not be, or a model lost its GPU. */
const char *work_health(Work *w);

/* Whether the model of the options could not be loaded, with the reason. */
bool work_first_failed(Work *w, char why[512]);

/* lanes.c */
RP_NODISCARD RpStatus lane_start(Lane *l);
void                  lane_stop(Lane *l);

void work_prepare(Job *j); /* to the lane that prepares */
void work_slowly(Job *j);  /* to that of slow jobs */
void work_trace(Job *j);   /* to that of traces; the job fails with status 409 if there is one already */

/* For JobType.prepare: the job gets a model that is loaded, by its name; NULL: the first. False: the job has failed, or
 * waits for the load and will be prepared again. */
bool work_acquire(Job *j, const char *name);

/* Submits the job to the worker of its model. */
void work_submit(Job *j);

/* queue.c */
void queue_put(JobQueue *q, Job *j);
Job *queue_take(JobQueue *q);
void work_push_ready(Job *j);
Job *work_pop_ready(Work *w); /* with a reference that the caller releases */
void work_wake(Work *w);

/* report.c */
void work_metrics(Work *w, Bytes *out);

/* Opens a model and plans its engine, without allocating it. */
RP_NODISCARD RpStatus work_check_model(Model *m);

/* load.c: opens what a model has, or frees it. */
RP_NODISCARD RpStatus worker_load(Model *m);
void                  worker_unload(Model *m);

/* Whether it is the model of the command line, and none of --models-dir. */
bool worker_is_named(const Model *m);

/* Makes the chat template of a model that is open: the one that --template gives, or else the model's own. If the model
 * has none that can be run, it returns RP_OK with *out NULL, and the latest error says why. It fails only if the
 * template of --template cannot be run. *source lives as long as the model. */
RP_NODISCARD RpStatus worker_chat_template(const Model *m, const RpModel *model, RpChatTemplate **out,
                                           RpGgufString *source);

/* The options of the server for the engine of m, which is open as `model`. The model of -m has all of them; others have
 * no draft model, and a context no longer than they were trained for. */
RpEngineOptions worker_engine_options(const Model *m, const RpModel *model);

/* Adds the statistics of the engine to those of the engines before it, so that counters never go back. Under the
 * lock. */
void worker_keep_stats(Model *m);

/* Opens the engine of a model; the log warns of a fallback. */
RP_NODISCARD RpStatus worker_open_engine(Model *m);

/* worker.c: the thread of a model. */
void *worker_main(void *model);

/* run.c: jobs on an engine. */
void run_start(Model *m, Job *j);
void run_step(Model *m);
bool run_on_reply(const RpReplyEvent *e, void *choice); /* an RpReplyCallback */

#endif
