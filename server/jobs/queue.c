/* queue.c - queues of jobs, and the list of those that have output for the event loop. */
#include "server/jobs/work.h"

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
