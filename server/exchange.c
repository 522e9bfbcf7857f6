/* exchange.c - requests between connections and jobs, on the event loop. */
#include "server/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    UNSENT_BYTES = 1 << 20, /* of a stream, that its client does not take */
    MOST_BODIES  = 8        /* of the largest size, that are received at the same time */
};

static Exchange *new_exchange(App *a, Conn *c) {
    Exchange *x = calloc(1, sizeof *x);
    if (x == NULL) return NULL;
    x->conn  = c;
    x->label = "other";
    TAILQ_INSERT_TAIL(&a->exchanges, x, all);
    a->n_exchanges++;
    conn_set_data(c, x);
    return x;
}

void exchange_refuse(Conn *c, const ApiError *error) {
    const Exchange *x   = conn_data(c);
    Bytes           out = {0};
    if (x != NULL && x->format != NULL)
        x->format->error_body(error, &out);
    else
        api_error_body(error, &out);
    if (error->status == 503 || strcmp(error->code, "queue_full") == 0) conn_add_header(c, "Retry-After", "1");
    if (error->status == 401) conn_add_header(c, "WWW-Authenticate", "Bearer");
    conn_answer(c, error->status, "application/json", out.p, out.n);
    bytes_free(&out);
}

static void add_cors(App *a, Conn *c) {
    const char *origin = guard_allowed_origin(&a->guard, conn_head(c));
    if (origin == NULL) return;
    conn_add_header(c, "Access-Control-Allow-Origin", origin);
    conn_add_header(c, "Vary", "Origin");
}

/* The headers that the page wants to send, if they are names; clients of APIs have many of their own. */
static const char *wanted_headers(const HttpHead *h) {
    const char *names = http_header(h, "access-control-request-headers");
    if (names == NULL || strlen(names) > 512 ||
        names[strspn(names, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ")] != '\0')
        return "authorization, content-type, x-api-key, anthropic-version";
    return names;
}

/* A browser asks whether a page of another origin may send a request. */
static int answer_preflight(Conn *c) {
    conn_add_header(c, "Access-Control-Allow-Methods", "GET, POST");
    conn_add_header(c, "Access-Control-Allow-Headers", wanted_headers(conn_head(c)));
    conn_add_header(c, "Access-Control-Max-Age", "600");
    conn_answer(c, 204, NULL, NULL, 0);
    return 204;
}

static bool is_json(const char *type) {
    return type != NULL && strncasecmp(type, "application/json", 16) == 0 && strchr("; \t", type[16]) != NULL;
}

/* Checks of requests with a body. */
static int check_post(App *a, Exchange *x, ApiError *error) {
    const HttpHead *h    = conn_head(x->conn);
    const int32_t   wait = key_wait(x->key);
    if (http_header(h, "content-length") == NULL)
        return http_refuse(error, 411, "invalid_request_error", "length_required", "The request needs Content-Length.");
    if (!is_json(http_header(h, "content-type")))
        return http_refuse(error, 415, "invalid_request_error", "unsupported_media_type",
                           "The content type must be application/json.");
    if ((uint64_t)h->content_length > a->options->body_bytes)
        return http_refuse(error, 413, "invalid_request_error", "body_too_large",
                           "The body has %lld bytes, and the server accepts %zu (--body-mb).",
                           (long long)h->content_length, a->options->body_bytes);
    if (http_server_receiving(a->http) + (uint64_t)h->content_length > MOST_BODIES * a->options->body_bytes)
        return http_refuse(error, 503, "server_error", "busy", "Too many large requests are being received.");
    if (a->draining) return http_refuse(error, 503, "server_error", "shutting_down", "The server is shutting down.");
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", wait);
    if (wait > 0) conn_add_header(x->conn, "Retry-After", seconds);
    if (wait > 0)
        return http_refuse(error, 429, "rate_limit_error", "rate_limit_exceeded",
                           "The key has used its tokens (--tokens-per-minute); it may go on in %d s.", wait);
    if (a->n_jobs >= a->options->queue + a->options->engine.n_seq)
        return http_refuse(error, 429, "rate_limit_error", "queue_full", "%d requests are waiting already (--queue).",
                           a->n_jobs);
    return 0;
}

static int check(App *a, Exchange *x, ApiError *error) {
    const HttpHead *h = conn_head(x->conn);
    int             status;
    if (x->route == NULL)
        return http_refuse(error, 404, "invalid_request_error", "not_found", "There is no path %.200s.", h->path);
    if (!x->route->open && (status = guard_key(&a->guard, h, &x->key, error)) != 0) return status;
    const bool is_read = strcmp(h->method, "GET") == 0 || strcmp(h->method, "HEAD") == 0;
    if (x->route->post ? strcmp(h->method, "POST") != 0 : !is_read) {
        conn_add_header(x->conn, "Allow", x->route->post ? "POST" : "GET, HEAD");
        return http_refuse(error, 405, "invalid_request_error", "method_not_allowed", "%s is for %s.", h->path,
                           x->route->post ? "POST" : "GET");
    }
    if (x->route->post) return check_post(a, x, error);
    if (h->content_length > 0)
        return http_refuse(error, 413, "invalid_request_error", "body_too_large", "%s takes no body.", h->path);
    return 0;
}

static int on_head(Conn *c, void *user) {
    App            *a = user;
    const HttpHead *h = conn_head(c);
    Exchange       *x = new_exchange(a, c);
    ApiError        error;
    if (x == NULL) {
        conn_answer(c, 503, NULL, NULL, 0);
        return 503;
    }
    x->route = a->route_of(h->path, &x->format);
    if (x->route != NULL) x->label = x->route->path != NULL ? x->route->path : x->format->path;
    int status = guard_check(&a->guard, h, &error);
    if (status == 0) {
        add_cors(a, c);
        if (strcmp(h->method, "OPTIONS") == 0 && http_header(h, "origin") != NULL) return answer_preflight(c);
        status = check(a, x, &error);
    }
    if (status != 0) exchange_refuse(c, &error);
    return status;
}

static void on_request(Conn *c, void *user) {
    App      *a = user;
    Exchange *x = conn_data(c);
    size_t    n;
    if (x->route->answer != NULL) {
        x->route->answer(a, c);
        return;
    }
    char *body = conn_take_body(c, &n);
    Job  *j    = job_new(&a->work, x->route->job, x->format, x->key, body, n);
    if (j == NULL) {
        ApiError error;
        (void)http_refuse(&error, 503, "server_error", "out_of_memory", "The server is out of memory.");
        exchange_refuse(c, &error);
        return;
    }
    snprintf(j->path, sizeof j->path, "%s", conn_head(c)->path);
    snprintf(j->query, sizeof j->query, "%s", conn_head(c)->query);
    x->job  = j;
    j->conn = x;
    a->n_jobs++;
    if (x->route->traces)
        work_trace(j);
    else if (x->route->slow)
        work_slowly(j);
    else
        work_prepare(j);
}

/* A request that no handler has seen. */
static void on_refuse(Conn *c, int status, const char *why, void *user) {
    ApiError error;
    if (conn_data(c) == NULL && new_exchange(user, c) == NULL) {
        conn_answer(c, status, NULL, NULL, 0);
        return;
    }
    (void)http_refuse(&error, status, "invalid_request_error", status == 408 ? "timeout" : "bad_request", "%s", why);
    exchange_refuse(c, &error);
}

static void on_left(Conn *c, void *user) {
    Exchange *x = conn_data(c);
    (void)user;
    if (x != NULL && x->job != NULL) atomic_store(&x->job->cancelled, true);
}

static void log_request(App *a, const Conn *c, const Exchange *x) {
    const HttpHead *h = conn_head(c);
    json_t *o = json_pack("{s:s, s:s, s:s, s:i, s:f, s:I}", "peer", conn_peer(c), "method", h->method, "path", h->path,
                          "status", conn_status(c), "seconds", conn_seconds(c), "bytes", (json_int_t)conn_sent(c));
    if (o != NULL && x->key != NULL && key_name(x->key)[0] != '\0')
        (void)json_object_set_new(o, "key", json_string(key_name(x->key)));
    if (o != NULL && x->job != NULL) {
        Job *j = x->job;
        pthread_mutex_lock(&j->lock);
        json_t *more = json_pack("{s:s, s:s, s:i, s:i, s:i, s:b}", "id", j->id, "model", j->model_name, "prompt_tokens",
                                 j->tokens.prompt, "cached_tokens", j->tokens.cached, "generated_tokens",
                                 j->tokens.generated, "cancelled", !j->over);
        if (more != NULL && j->describes_tools) (void)json_object_set_new(more, "tools", json_string("described"));
        if (more != NULL && j->notes != NULL) (void)json_object_set_new(more, "notes", json_deep_copy(j->notes));
        pthread_mutex_unlock(&j->lock);
        if (more != NULL) (void)json_object_update(o, more);
        json_decref(more);
    }
    if (o != NULL) log_line(a->log, "request", o);
}

static void on_ended(Conn *c, void *user) {
    App      *a = user;
    Exchange *x = conn_data(c);
    if (x == NULL) return;
    log_request(a, c, x);
    metrics_request(a->metrics, x->label, conn_status(c));
    if (x->job != NULL) {
        x->job->conn = NULL;
        a->n_jobs--;
        job_release(x->job);
    }
    TAILQ_REMOVE(&a->exchanges, x, all);
    a->n_exchanges--;
    free(x);
    conn_set_data(c, NULL);
}

HttpHandlers exchange_handlers(void) {
    return (HttpHandlers){
        .head = on_head, .request = on_request, .left = on_left, .ended = on_ended, .refuse = on_refuse};
}

/* ---- output of jobs ---- */

static void begin_stream(Conn *c, const Job *j) {
    conn_add_header(c, "Cache-Control", "no-store");
    conn_add_header(c, "X-Accel-Buffering", "no"); /* nginx passes events on at once */
    conn_add_header(c, "X-Request-Id", j->id);
    conn_stream(c, 200, "text/event-stream");
}

/* A whole answer. */
static void give_answer(Conn *c, const Job *j, int status, const char *type, const Bytes *out) {
    char seconds[16];
    if (j->retry_after > 0) {
        snprintf(seconds, sizeof seconds, "%d", j->retry_after);
        conn_add_header(c, "Retry-After", seconds);
    }
    conn_add_header(c, "X-Request-Id", j->id);
    if (status == 200 && j->policy != NULL) {
        conn_add_header(c, "Content-Security-Policy", j->policy);
        conn_add_header(c, "Content-Security-Policy", "frame-ancestors 'none'"); /* each policy holds */
        conn_add_header(c, "Referrer-Policy", "no-referrer");
    }
    if (out->failed)
        conn_answer(c, 503, NULL, NULL, 0);
    else
        conn_answer(c, status, type, out->p, out->n);
}

static void flush_job(Job *j) {
    pthread_mutex_lock(&j->lock);
    Exchange    *x      = j->conn;
    Bytes        out    = {0};
    const bool   stream = j->stream && j->begun && j->over == j->done, done = j->done; /* the end waits for job_end */
    const int    status      = j->status;
    const char  *type        = j->content_type;
    const size_t begun_bytes = j->begun_bytes;
    j->ready                 = false;
    if (x != NULL && (stream || done)) {
        out    = j->out;
        j->out = (Bytes){0};
    }
    pthread_mutex_unlock(&j->lock);
    if (x != NULL && stream) {
        if (!x->streams) begin_stream(x->conn, j);
        x->streams = true;
        if (out.failed || conn_unsent(x->conn) > UNSENT_BYTES + begun_bytes) {
            conn_drop(x->conn);
        } else {
            conn_write(x->conn, out.p, out.n);
            if (done) conn_end(x->conn);
        }
    } else if (x != NULL && done) {
        give_answer(x->conn, j, status, type, &out);
    }
    bytes_free(&out);
}

void exchange_flush(App *a) {
    for (Job *j = work_pop_ready(&a->work); j != NULL; j = work_pop_ready(&a->work)) {
        flush_job(j);
        job_release(j);
    }
}

static void tick_job(App *a, Job *j, double now) {
    ApiError error;
    pthread_mutex_lock(&j->lock);
    if (j->stream && j->begun && !j->over && j->answer != NULL && now - j->latest_out >= a->options->ping_seconds) {
        j->format->ping(j->answer, &j->out);
        job_ready(j);
    }
    pthread_mutex_unlock(&j->lock);
    if (!a->out_of_time) return;
    (void)http_refuse(&error, 503, "server_error", "shutting_down", "The server is shutting down.");
    job_cut_off(j, &error);
}

void exchange_tick(App *a) {
    const double now = http_now();
    Exchange    *x;
    TAILQ_FOREACH(x, &a->exchanges, all) if (x->job != NULL) tick_job(a, x->job, now);
    exchange_flush(a);
}
