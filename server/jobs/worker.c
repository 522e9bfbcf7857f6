/* worker.c - the thread of a model: loads it, runs its jobs, and unloads it. */
#include "server/http/conn.h"
#include "server/http/guard.h"
#include "server/jobs/info.h"
#include "server/jobs/work.h"

#include <stdio.h>
#include <string.h>

static void tell(Model *m, const char *event, double seconds) {
    log_line(m->work->log, event,
             json_pack("{s:s, s:f, s:I, s:s, s:s, s:s, s:s}", "model", m->name, "seconds", seconds, "bytes",
                       (json_int_t)m->bytes, "device", m->device, "backend", m->backend, "sampling", m->sampling,
                       "error", m->error));
}

/* The model is there, or cannot be loaded: jobs that wait go on. */
static void publish(Model *m, RpStatus st, double seconds) {
    Work *w = m->work;
    pthread_mutex_lock(&w->lock);
    JobQueue   waiting = m->waiting;
    const bool ready   = st == RP_OK && !w->stopping;
    m->waiting         = (JobQueue){0};
    const bool first   = worker_is_named(m) && !m->was_ready;
    m->used            = http_now();
    m->state           = ready ? MODEL_READY : MODEL_STOPPING;
    m->was_ready       = m->was_ready || ready;
    m->lost_device     = st == RP_E_CUDA || (st != RP_OK && m->lost_device);
    if (st != RP_OK) snprintf(m->error, sizeof m->error, "%s", rp_last_error());
    if (ready) m->pins += waiting.n;
    pthread_mutex_unlock(&w->lock);
    tell(m, st == RP_OK ? "model_loaded" : "model_failed", seconds);
    if (ready) {
        for (Job *j = queue_take(&waiting); j != NULL; j = queue_take(&waiting)) {
            j->model = m;
            work_prepare(j);
        }
    } else {
        work_fail_waiting(m, &waiting, st == RP_E_NOMEM ? 503 : 500);
    }
    if (first) work_load_others(w, ready);
    work_wake(w);
}

static void take_job(Model *m, Job *j) {
    if (job_fail_cancelled(j)) return;
    if (j->type->generates)
        run_start(m, j);
    else
        j->type->run(j);
}

/* Takes jobs and runs steps; sleeps while there is nothing to do. Ends when the model is stopping and no job has it:
 * those on a lane read the model, and come here afterwards. */
static void serve(Model *m) {
    Work *w = m->work;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        if (m->engine != NULL) m->stats = rp_engine_stats(m->engine);
        m->n_live_seen = m->n_live;
        while (m->queue.first == NULL && m->n_live == 0 && (m->state == MODEL_READY || m->pins > 0))
            pthread_cond_wait(&m->some, &w->lock);
        JobQueue   queue = m->queue;
        const bool stop  = queue.first == NULL && m->n_live == 0;
        m->queue         = (JobQueue){0};
        pthread_mutex_unlock(&w->lock);
        if (stop) return;
        for (Job *j = queue_take(&queue); j != NULL; j = queue_take(&queue)) take_job(m, j);
        if (m->n_live > 0) run_step(m);
        work_wake(w);
    }
}

/* True if jobs came while the model was stopping: it is loaded again. */
static bool stopped(Model *m, double since) {
    Work *w = m->work;
    worker_unload(m);
    pthread_mutex_lock(&w->lock);
    worker_keep_stats(m);
    w->bytes -= m->bytes;
    m->bytes         = 0;
    const bool again = m->waiting.first != NULL && !w->stopping;
    m->state         = again ? MODEL_LOADING : MODEL_UNLOADED;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    tell(m, "model_unloaded", http_now() - since);
    return again;
}

void *worker_main(void *user) {
    Model *m = user;
    double since;
    char   name[16]; /* of the thread, in traces and debuggers */
    snprintf(name, sizeof name, "%s", m->name);
    (void)pthread_setname_np(pthread_self(), name);
    do {
        since             = http_now();
        const RpStatus st = worker_load(m);
        if (st == RP_OK) info_keep(m);
        publish(m, st, http_now() - since);
        if (st == RP_OK) serve(m);
    } while (stopped(m, since));
    return NULL;
}
