/* job.h - a request on its way through the threads of the server.
 *
 *     event loop --- lane "prepare" (parse, render, tokenise) --- worker of the model (engine or embedder)
 *         ^                                                                |
 *         +------- output in Job.out, the list of ready jobs, an eventfd --+
 *
 * One thread at a time runs a job. Meanwhile the event loop may read the members between the braces below, under the
 * lock. A job has a reference of the event loop and one of the threads that run it. */
#ifndef SERVER_JOBS_JOB_H
#define SERVER_JOBS_JOB_H

#include "server/api/api.h"
#include "server/http/keys.h"

#include "manifest/manifest.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct Job   Job;
typedef struct Model Model;
typedef struct Work  Work;

/* Times of a reply, as of rp_trace_now; 0: not yet. */
typedef struct ChoiceTimes {
    int64_t added, started, first_token, latest;
    int32_t n_prompt, n_cached, n_generated;
    bool    over;
} ChoiceTimes;

typedef struct TokenCounts {
    int32_t prompt, cached, generated;
} TokenCounts;

/* One reply of a job. */
typedef struct Choice Choice;
struct Choice {
    Choice      *next; /* these two under ServerTrace.lock, while an engine has the reply */
    ChoiceTimes  times;
    Job         *job;
    int          index;
    RpTokenList  prompt;   /* of a completion */
    RpChatReply *reply;    /* of a chat */
    size_t       n_prompt; /* tokens */
    TokenCounts  counted;  /* in those of the job */
    RpSampler   *sampler;
    RpMatcher   *matcher;  /* or NULL */
    Bytes        tail;     /* the end of a completion, in which a stop string is looked for */
    size_t       n_last;   /* bytes of it of the last token */
    const char  *stop;     /* the stop string that ended a chat, of the request; or NULL */
    uint64_t     id;       /* in the engine */
    bool         ended;    /* it was cancelled */
    bool         complete; /* with the one call that the request wants */
    double       latest_s; /* time of the latest token */
    ManifestTurn turn;     /* its tokens, without their prompt */
};

typedef struct JobType {
    /* Runs on a lane. Ends with job_fail, job_finish, or work_submit. */
    void (*prepare)(Job *j);
    /* Runs on the worker of a model that is no engine; ends with job_fail or job_finish. */
    void (*run)(Job *j);
    void (*release)(Job *j); /* or NULL: frees Job.data */
    bool generates;          /* the worker gives it to an engine */
} JobType;

struct Job {
    Work            *work;
    const JobType   *type;
    const ApiFormat *format; /* or NULL */
    Key             *key;
    char             id[32], path[256], query[256];
    int64_t          created_ns; /* as of rp_trace_now */
    char            *body;
    size_t           n_body;
    atomic_int       refs;
    atomic_bool      cancelled; /* the client has left, or does not want more */
    Job             *next;      /* in the queue of a thread */
    Job             *next_ready;

    Model     *model;           /* pinned until the job has ended */
    bool       parsed, counted; /* counted: in Model.n_choices */
    json_t    *json;
    ApiRequest request;
    ApiOrigin  origin;
    ApiAnswer *answer;
    RpGrammar *grammar;
    char      *schema_text; /* that the grammar is made of, or NULL */
    char      *chat_text;   /* the messages of a chat and what goes with them, as JSON */
    uint64_t   id_seed;     /* of tool calls */
    Choice    *choices;
    int        n_choices, n_ended;
    void      *data; /* of the type */

    pthread_mutex_t lock; /* { */
    Bytes           out;
    const char     *content_type, *policy; /* policy: a Content-Security-Policy, or NULL */
    int             status;
    int32_t         retry_after; /* seconds; 0: the answer does not say it */
    bool            stream, begun, ready;
    bool            over, done;  /* over: nothing more is put into `out`; done: the client gets the end of it */
    size_t          begun_bytes; /* of a stream before the first token: prompts that are echoed */
    char            model_name[128];
    TokenCounts     tokens;          /* of all choices so far */
    bool            describes_tools; /* the chat template has none */
    json_t         *notes;           /* texts of RpChatNote, or NULL */
    double          latest_out;      /* when bytes came last */
    /* } */
    void *conn; /* of the event loop alone */
};

/* `body` becomes the job's. NULL: out of memory; the body is freed then too. */
Job *job_new(Work *w, const JobType *type, const ApiFormat *format, Key *key, char *body, size_t n_body);
void job_release(Job *j);

/* The client gets an error, or a stream its last event, once job_end is called. The thread goes on until then. */
void job_error(Job *j, const ApiError *error);

/* The same of the event loop, which does not wait for the threads. */
void job_cut_off(Job *j, const ApiError *error);

/* Both end the job: its reference of the threads is released. */
void job_fail(Job *j, const ApiError *error);
void job_finish(Job *j, int status, const char *content_type); /* the body is in Job.out */

/* job_finish with status 200 and JSON, which it takes; an error if an allocation for it has failed. */
void job_give(Job *j, Bytes *json);

/* Ends the job and returns true if the client no longer wants it. */
bool job_fail_cancelled(Job *j);

/* Fails with the text of the latest failure of the library. */
void job_fail_status(Job *j, RpStatus st);

/* Puts "NAME[i]: " in front of the text of the latest failure if the request has several of them. Returns `st`. */
RpStatus job_name_place(RpStatus st, const json_t *all, const char *name, size_t i);
void     api_error_of(RpStatus st, ApiError *error);

/* The threads are done with the job. The client gets the end of the answer after place and model are given back: its
 * next request finds them free. */
void job_end(Job *j);

/* Tells the event loop that there is output. Under the lock of the job. */
void job_ready(Job *j);

#endif
