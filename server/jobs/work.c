/* work.c - queues and lanes, and the list of jobs that have output for the event loop. */
#include "server/jobs/work.h"

#include "server/http/conn.h"
#include "server/http/guard.h"
#include "server/jobs/manifests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

void queue_put(JobQueue *q, Job *j) {
    j->next = NULL;
    if (q->last != NULL)
        q->last->next = j;
    else
        q->first = j;
    q->last = j;
    q->n++;
}

Job *queue_take(JobQueue *q) {
    Job *j = q->first;
    if (j == NULL) return NULL;
    q->first = j->next;
    if (q->first == NULL) q->last = NULL;
    q->n--;
    return j;
}

/* ---- lanes ---- */

static void *lane_main(void *user) {
    Lane *l = user;
    for (;;) {
        pthread_mutex_lock(&l->lock);
        while (l->queue.first == NULL && !l->stop) pthread_cond_wait(&l->some, &l->lock);
        Job *j = queue_take(&l->queue);
        pthread_mutex_unlock(&l->lock);
        if (j == NULL) return NULL;
        if (!job_fail_cancelled(j)) j->type->prepare(j);
    }
}

static RpStatus lane_start(Lane *l) {
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->some, NULL);
    const int e = pthread_create(&l->thread, NULL, lane_main, l);
    if (e != 0) return rp_fail(RP_E_NOMEM, "a thread could not be started: %s", strerror(e));
    l->started = true;
    return RP_OK;
}

static void lane_stop(Lane *l) {
    if (!l->started) return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->some);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
}

static void lane_put(Lane *l, Job *j) {
    pthread_mutex_lock(&l->lock);
    queue_put(&l->queue, j);
    pthread_cond_signal(&l->some);
    pthread_mutex_unlock(&l->lock);
}

void work_prepare(Job *j) { lane_put(&j->work->prepare, j); }
void work_slowly(Job *j) { lane_put(&j->work->slow, j); }

void work_trace(Job *j) {
    ApiError error;
    Job     *none = NULL;
    if (atomic_compare_exchange_strong(&j->work->trace.owner, &none, j)) {
        lane_put(&j->work->traces, j);
        return;
    }
    (void)http_refuse(&error, 409, "invalid_request_error", "busy", "There is a trace already: one at a time.");
    job_fail(j, &error);
}

/* ---- jobs with output ---- */

void work_push_ready(Job *j) {
    Work *w = j->work;
    atomic_fetch_add(&j->refs, 1);
    j->next_ready = NULL;
    pthread_mutex_lock(&w->ready_lock);
    if (w->ready_last != NULL)
        w->ready_last->next_ready = j;
    else
        w->ready_first = j;
    w->ready_last = j;
    pthread_mutex_unlock(&w->ready_lock);
}

Job *work_pop_ready(Work *w) {
    pthread_mutex_lock(&w->ready_lock);
    Job *j = w->ready_first;
    if (j != NULL) w->ready_first = j->next_ready;
    if (w->ready_first == NULL) w->ready_last = NULL;
    pthread_mutex_unlock(&w->ready_lock);
    return j;
}

void work_wake(Work *w) {
    const uint64_t one = 1;
    (void)!write(w->wake_fd, &one, sizeof one); /* EAGAIN: it is awake already */
}

/* ---- the whole ---- */

RpStatus work_open(Work *w, const ServerOptions *options, Log *log, Metrics *metrics) {
    unsigned char random[6];
    w->options = options;
    w->log     = log;
    w->metrics = metrics;
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&w->ready_lock, NULL);
    pthread_mutex_init(&w->trace.lock, NULL);
    if (w->wake_fd < 0) return rp_fail(RP_E_IO, "eventfd: %s", strerror(errno));
    if (getrandom(random, sizeof random, 0) < 0) memset(random, 0, sizeof random);
    snprintf(w->fingerprint, sizeof w->fingerprint, "fp_%02x%02x%02x%02x%02x%02x", random[0], random[1], random[2],
             random[3], random[4], random[5]);
    w->defaults = (ApiRequest){.sampler          = options->sampler,
                               .max_tokens       = options->max_tokens,
                               .n                = 1,
                               .n_logprobs       = -1,
                               .reasoning_budget = options->reasoning_budget};
    RP_TRY(work_find_models(w, options));
    if (options->manifest_dir != NULL)
        RP_TRY(manifests_open(options->manifest_dir, options->manifest_keep, log, &w->manifests));
    RP_TRY(lane_start(&w->prepare));
    RP_TRY(lane_start(&w->slow));
    RP_TRY(lane_start(&w->traces));
    return options->model != NULL ? work_load_first(w) : RP_OK;
}

void work_close(Work *w) {
    work_unload_all(w);
    lane_stop(&w->prepare);
    lane_stop(&w->slow);
    lane_stop(&w->traces);
    for (Job *j = work_pop_ready(w); j != NULL; j = work_pop_ready(w)) job_release(j);
    manifests_free(w->manifests);
    if (w->wake_fd >= 0) close(w->wake_fd);
    work_free_models(w);
}
