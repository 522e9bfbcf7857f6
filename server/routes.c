/* routes.c - the paths of the server that are no wire format, and who answers them. */
#include "server/routes.h"

#include "server/work/formats.h"
#include "server/work/graph.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void answer_json(Conn *c, int status, json_t *o) {
    char *text = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (text == NULL)
        conn_answer(c, 503, NULL, NULL, 0);
    else
        conn_answer(c, status, "application/json", text, strlen(text));
    free(text);
}

static void answer_health(App *a, Conn *c) {
    char        why[512];
    const char *health = a->draining ? "draining" : work_health(&a->work, why);
    answer_json(c, strcmp(health, "ok") == 0 ? 200 : 503, json_pack("{s:s}", "status", health));
}

static void answer_models(App *a, Conn *c) { answer_json(c, 200, work_model_list(&a->work)); }

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
    if (out.failed)
        conn_answer(c, 503, NULL, NULL, 0);
    else
        conn_answer(c, 200, "text/plain; version=0.0.4; charset=utf-8", out.p, out.n);
    bytes_free(&out);
}

static const Route format_route = {.post = true, .job = &format_job};

static const Route routes[] = {
    {.path = "/health",        .open = true,             .answer = answer_health},
    {.path = "/metrics",       .answer = answer_metrics},
    {.path = "/v1/models", .answer = answer_models                        },
    {.path = "/graph",            .job = &graph_job,                                    .slow = true                       },
};

const Route *route_of(const char *path, const ApiFormat **format) {
    *format = api_format_of(path);
    if (*format != NULL) return &format_route;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (strcmp(routes[i].path, path) == 0) return &routes[i];
    return NULL;
}
