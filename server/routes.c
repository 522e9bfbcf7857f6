/* routes.c - the paths of the server that are no wire format, and who answers them. */
#include "server/routes.h"

#include "server/jobs/formats.h"
#include "server/jobs/graph.h"
#include "server/jobs/info.h"
#include "server/jobs/manifests.h"
#include "server/jobs/plain.h"
#include "server/jobs/trace.h"
#include "server/page/page.h"

#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JSON_TYPE  "application/json"
#define MODEL_PATH "/v1/models/"
#define COUNT_PATH "/v1/messages/count_tokens"

static void answer_json(Conn *c, int status, json_t *o) {
    char *text = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (text == NULL)
        conn_answer(c, 503, NULL, NULL, 0);
    else
        conn_answer(c, status, JSON_TYPE, text, strlen(text));
    free(text);
}

static void answer_health(App *a, Conn *c) {
    const char *health = work_health(&a->work);
    answer_json(c, strcmp(health, "ok") == 0 ? 200 : 503, json_pack("{s:s}", "status", health));
}

/* Answers with text that was printed, and frees it. */
static void answer_text(Conn *c, const char *type, Bytes *out) {
    if (out->failed)
        conn_answer(c, 503, NULL, NULL, 0);
    else
        conn_answer(c, 200, type, out->p, out->n);
    bytes_free(out);
}

static void answer_models(App *a, Conn *c) {
    Bytes out = {0};
    info_models(&a->work, &out);
    answer_text(c, JSON_TYPE, &out);
}

static void answer_model(App *a, Conn *c) {
    Bytes    out = {0};
    ApiError error;
    char    *name = evhttp_uridecode(conn_head(c)->path + strlen(MODEL_PATH), 0, NULL);
    if (name != NULL && info_model(&a->work, name, &out)) {
        answer_text(c, JSON_TYPE, &out);
    } else {
        (void)http_refuse(&error, 404, "invalid_request_error", "model_not_found", "There is no model %.100s.",
                          name != NULL ? name : "");
        exchange_refuse(c, &error);
    }
    free(name);
}

static void answer_tags(App *a, Conn *c) {
    Bytes out = {0};
    info_tags(&a->work, &out);
    answer_text(c, JSON_TYPE, &out);
}

/* Bytes of memory that the process has, from /proc. */
static double resident_bytes(void) {
    long  pages = 0;
    FILE *f     = fopen("/proc/self/statm", "re");
    if (f == NULL) return 0.0;
    if (fscanf(f, "%*d %ld", &pages) != 1) pages = 0;
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void answer_metrics(App *a, Conn *c) {
    const struct {
        const char *name, *help;
        double      value;
    } gauges[] = {
        {"connections",           "Open connections.",                      http_server_connections(a->http)},
        {"requests_running",      "Requests whose answer is not complete.", a->n_exchanges                  },
        {"jobs_running",          "Requests that other threads work on.",   atomic_load(&a->work.n_jobs)    },
        {"traces_running",        "Traces that are being recorded.",        trace_runs(&a->work)            },
        {"resident_memory_bytes", "Memory of the process.",                 resident_bytes()                },
        {"uptime_seconds",        "Seconds since the server started.",      http_now() - a->started         },
    };
    Bytes out = {0};
    metrics_print(a->metrics, &out);
    for (size_t i = 0; i < sizeof gauges / sizeof gauges[0]; i++) {
        metrics_family(&out, gauges[i].name, "gauge", gauges[i].help);
        metrics_sample(&out, gauges[i].name, NULL, NULL, gauges[i].value);
    }
    work_metrics(&a->work, &out);
    manifests_metrics(a->work.manifests, &out);
    answer_text(c, "text/plain; version=0.0.4; charset=utf-8", &out);
}

static const Route format_route = {.post = true, .job = &format_job};

/* clang-format off */
static const Route routes[] = {
    {.path = "/health", .open = true, .answer = answer_health},
    {.path = "/metrics", .answer = answer_metrics},
    {.path = "/v1/models", .answer = answer_models},
    {.path = "/v1/embeddings", .post = true, .job = &embeddings_job},
    {.path = COUNT_PATH, .post = true, .job = &count_job},
    {.path = "/tokenize", .post = true, .job = &tokenize_job},
    {.path = "/detokenize", .post = true, .job = &detokenize_job},
    {.path = "/api/tags", .answer = answer_tags},
    {.path = "/api/show", .post = true, .job = &show_job},
    {.path = "/graph", .job = &graph_job, .slow = true},
    {.path = "/graph.html", .job = &graph_page_job, .slow = true},
    {.path = "/trace", .job = &trace_job, .traces = true},
};
/* clang-format on */

static const PageFile *page_file(const char *path) {
    const PageFile *f = server_page_files;
    while (f->path != NULL && strcmp(f->path, path) != 0) f++;
    return f->path != NULL ? f : NULL;
}

/* The files of the chat page come from the program itself, and load nothing from elsewhere. */
static void answer_page(App *a, Conn *c) {
    const PageFile *f = page_file(conn_head(c)->path);
    (void)a;
    conn_add_header(c, "Content-Security-Policy",
                    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                    "require-trusted-types-for 'script'");
    conn_add_header(c, "Referrer-Policy", "no-referrer");
    conn_add_header(c, "Cache-Control", "no-cache");
    conn_answer(c, 200, f->type, f->bytes, f->n_bytes);
}

const Route *route_of(const char *path, const ApiFormat **format) {
    static const Route model_route = {.path = "/v1/models/NAME", .answer = answer_model};
    static const Route page_route  = {.path = "/", .open = true, .answer = answer_page};
    *format                        = api_format_of(path);
    if (*format != NULL) return &format_route;
    if (strncmp(path, MODEL_PATH, strlen(MODEL_PATH)) == 0) return &model_route;
    if (strcmp(path, COUNT_PATH) == 0) *format = api_format_of("/v1/messages"); /* of its errors */
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (strcmp(routes[i].path, path) == 0) return &routes[i];
    return page_file(path) != NULL ? &page_route : NULL;
}
