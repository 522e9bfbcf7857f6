/* job.c - life of a job, and its errors. */
#include "server/jobs/job.h"

#include "server/http/conn.h"
#include "server/http/guard.h"
#include "server/jobs/work.h"

#include "reprise/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* 24 characters that no other request has. */
static void make_id(char out[32]) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    unsigned char     random[24];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) memset(random, 0, sizeof random);
    for (size_t i = 0; i < sizeof random; i++) out[i] = letters[random[i] % 32];
    out[sizeof random] = '\0';
}

Job *job_new(Work *w, const JobType *type, const ApiFormat *format, Key *key, char *body, size_t n_body) {
    Job *j = calloc(1, sizeof *j);
    if (j == NULL) {
        free(body);
        return NULL;
    }
    j->work       = w;
    j->type       = type;
    j->format     = format;
    j->key        = key;
    j->body       = body;
    j->n_body     = n_body;
    j->created_ns = rp_trace_now();
    atomic_init(&j->refs, 2);
    pthread_mutex_init(&j->lock, NULL);
    make_id(j->id);
    atomic_fetch_add(&w->n_jobs, 1);
    return j;
}

static void free_choices(Job *j) {
    for (int i = 0; i < j->n_choices; i++) {
        Choice *c = &j->choices[i];
        rp_chat_reply_free(c->reply);
        rp_token_list_free(&c->prompt);
        rp_matcher_free(c->matcher);
        rp_sampler_free(c->sampler);
        bytes_free(&c->tail);
        manifest_turn_free(&c->turn);
    }
    free(j->choices);
    j->choices   = NULL;
    j->n_choices = 0;
}

void job_release(Job *j) {
    if (atomic_fetch_sub(&j->refs, 1) != 1) return;
    bytes_free(&j->out);
    free(j->body);
    json_decref(j->notes);
    pthread_mutex_destroy(&j->lock);
    free(j);
}

void job_ready(Job *j) {
    j->latest_out = http_now();
    if (j->ready) return;
    j->ready = true;
    work_push_ready(j);
}

/* Under the lock. */
static void put_error(Job *j, const ApiError *error) {
    const bool in_stream = j->stream && j->begun;
    if (j->over) return;
    if (!in_stream) bytes_clear(&j->out);
    if (j->answer != NULL)
        j->format->fail(j->answer, error, &j->out);
    else if (j->format != NULL)
        j->format->error_body(error, &j->out);
    else
        api_error_body(error, &j->out);
    if (!in_stream) j->content_type = "application/json";
    j->status      = error->status;
    j->retry_after = error->status == 429 || error->status == 503 ? 1 : 0;
    j->over        = true;
    atomic_store(&j->cancelled, true);
}

void job_error(Job *j, const ApiError *error) {
    pthread_mutex_lock(&j->lock);
    put_error(j, error);
    pthread_mutex_unlock(&j->lock);
}

void job_cut_off(Job *j, const ApiError *error) {
    pthread_mutex_lock(&j->lock);
    put_error(j, error);
    if (!j->done) {
        j->done = true;
        job_ready(j);
    }
    pthread_mutex_unlock(&j->lock);
}

void job_fail(Job *j, const ApiError *error) {
    job_error(j, error);
    job_end(j);
}

void job_finish(Job *j, int status, const char *content_type) {
    pthread_mutex_lock(&j->lock);
    if (!j->over) {
        j->status       = status;
        j->content_type = content_type;
        j->over         = true;
    }
    pthread_mutex_unlock(&j->lock);
    job_end(j);
}

void job_give(Job *j, Bytes *json) {
    if (json->failed) {
        bytes_free(json);
        job_fail_status(j, rp_fail(RP_E_NOMEM, "out of memory for an answer"));
        return;
    }
    pthread_mutex_lock(&j->lock);
    if (!j->over) {
        bytes_free(&j->out);
        j->out = *json;
        *json  = (Bytes){0};
    }
    pthread_mutex_unlock(&j->lock);
    bytes_free(json);
    job_finish(j, 200, "application/json");
}

void api_error_of(RpStatus st, ApiError *error) {
    const char *text = rp_last_error();
    switch (st) {
    case RP_E_CONTEXT_FULL:
        (void)http_refuse(error, 400, "invalid_request_error", "context_length_exceeded", "%s", text);
        break;
    case RP_E_ARG:
    case RP_E_FORMAT:
    case RP_E_UNSUPPORTED:
        (void)http_refuse(error, 400, "invalid_request_error", "invalid_value", "%s", text);
        break;
    case RP_E_NOMEM:
        (void)http_refuse(error, 503, "server_error", "out_of_memory", "%s", text);
        break;
    default:
        (void)http_refuse(error, 500, "server_error", "internal_error", "%s", text);
    }
}

void job_fail_status(Job *j, RpStatus st) {
    ApiError error;
    api_error_of(st, &error);
    job_fail(j, &error);
}

RpStatus job_name_place(RpStatus st, const json_t *all, const char *name, size_t i) {
    char text[512];
    if (st == RP_OK || json_array_size(all) < 2) return st;
    snprintf(text, sizeof text, "%s", rp_last_error());
    return rp_fail(st, "%s[%zu]: %s", name, i, text);
}

bool job_fail_cancelled(Job *j) {
    ApiError error;
    if (!atomic_load(&j->cancelled)) return false;
    (void)http_refuse(&error, 499, "invalid_request_error", "cancelled", "The client has left.");
    job_fail(j, &error);
    return true;
}

void job_end(Job *j) {
    Work *w = j->work;
    pthread_mutex_lock(&j->lock);
    api_answer_close(j->answer);
    j->answer = NULL;
    pthread_mutex_unlock(&j->lock);
    if (j->counted) atomic_fetch_sub(&j->model->n_choices, j->n_choices);
    free_choices(j);
    if (j->type->release != NULL) j->type->release(j);
    rp_grammar_free(j->grammar);
    free(j->chat_text);
    free(j->schema_text);
    api_request_free(&j->request);
    json_decref(j->json);
    if (j->model != NULL) {
        pthread_mutex_lock(&w->lock);
        j->model->pins--;
        j->model->used = http_now();
        pthread_cond_broadcast(&w->changed);
        pthread_cond_broadcast(&j->model->some);
        pthread_mutex_unlock(&w->lock);
    }
    atomic_fetch_sub(&w->n_jobs, 1);
    pthread_mutex_lock(&j->lock);
    if (j->over && !j->done) {
        j->done = true;
        job_ready(j);
    }
    pthread_mutex_unlock(&j->lock);
    job_release(j);
    work_wake(w);
}
