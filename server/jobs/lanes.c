/* lanes.c - threads that take jobs from a queue. */
#include "server/jobs/work.h"

#include "server/http/guard.h"

#include <string.h>

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

RpStatus lane_start(Lane *l) {
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->some, NULL);
    const int e = pthread_create(&l->thread, NULL, lane_main, l);
    if (e != 0) return rp_fail(RP_E_NOMEM, "a thread could not be started: %s", strerror(e));
    l->started = true;
    return RP_OK;
}

void lane_stop(Lane *l) {
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
