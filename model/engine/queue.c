/* Moves a request between the queue and the running requests, and takes it out of both when it ends. */
#include "model/engine/engine.h"

#include <string.h>

void rp_engine_queue(RpEngine *e, Request *r) {
    Request **at = &e->waiting;
    while (*at != NULL && (*at)->id < r->id) at = &(*at)->next;
    r->next        = *at;
    r->waits_since = e->stats.steps;
    *at            = r;
}

void rp_engine_unlink(RpEngine *e, Request *r) {
    Request **at = &e->waiting;
    while (*at != NULL && *at != r) at = &(*at)->next;
    if (*at == r) {
        *at = r->next;
        return;
    }
    for (int i = 0; i < e->n_running; i++)
        if (e->running[i] == r) {
            memmove(&e->running[i], &e->running[i + 1], (size_t)(e->n_running - 1 - i) * sizeof(Request *));
            e->n_running--;
            return;
        }
}

void rp_engine_preempt(RpEngine *e, Request *r) {
    rp_engine_unlink(e, r);
    rp_request_release(r);
    rp_engine_queue(e, r);
}

void rp_request_end(Request *r) {
    RpEngine *e = r->engine;
    rp_engine_unlink(e, r);
    rp_request_release(r);
    e->needs_events -= r->n_events;
    e->needs_texts -= r->text_room;
    e->pending--;
    if (r->cancelled) e->n_cancelled--;
    rp_request_free(r);
}
