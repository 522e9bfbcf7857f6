/* metrics.c - counters of requests, and histograms of times. */
#include "server/metrics.h"

#include "reprise/status.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 512, N_BUCKETS = 16 };

/* Upper limits of the buckets in seconds. */
static const double limits[N_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                         0.5,   1,      2.5,   5,    10,    25,   50,  100};

typedef struct Histogram {
    uint64_t counts[N_BUCKETS + 1]; /* the last: above all limits */
    double   sum;
} Histogram;

struct Metrics {
    pthread_mutex_t lock;
    struct {
        const char *route;
        int         status;
        uint64_t    n;
    } rows[MOST_ROWS];
    int       n_rows;
    Histogram times[N_METRICS_TIMES];
};

Metrics *metrics_new(void) {
    Metrics *m = calloc(1, sizeof *m);
    if (m != NULL) pthread_mutex_init(&m->lock, NULL);
    return m;
}

void metrics_free(Metrics *m) {
    if (m == NULL) return;
    pthread_mutex_destroy(&m->lock);
    free(m);
}

void metrics_request(Metrics *m, const char *route, int status) {
    int i = 0;
    pthread_mutex_lock(&m->lock);
    while (i < m->n_rows && (m->rows[i].status != status || strcmp(m->rows[i].route, route) != 0)) i++;
    if (i == m->n_rows && i < MOST_ROWS) {
        m->rows[i].route  = route;
        m->rows[i].status = status;
        m->n_rows++;
    }
    if (i < m->n_rows) m->rows[i].n++;
    pthread_mutex_unlock(&m->lock);
}

void metrics_observe(Metrics *m, MetricsTime what, double seconds) {
    int i = 0;
    while (i < N_BUCKETS && seconds > limits[i]) i++;
    pthread_mutex_lock(&m->lock);
    m->times[what].counts[i]++;
    m->times[what].sum += seconds;
    pthread_mutex_unlock(&m->lock);
}

static void put(Bytes *out, const char *fmt, ...) RP_PRINTF(2, 3);
static void put(Bytes *out, const char *fmt, ...) {
    char    line[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    bytes_text(out, line);
}

void metrics_family(Bytes *out, const char *name, const char *type, const char *help) {
    put(out, "# HELP reprise_%s %s\n# TYPE reprise_%s %s\n", name, help, name, type);
}

/* Quotes and backslashes of the value of a label are escaped. */
static void put_label(Bytes *out, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') bytes_put(out, "\\", 1);
        if (*text == '\n')
            bytes_text(out, "\\n");
        else
            bytes_put(out, text, 1);
    }
}

void metrics_sample(Bytes *out, const char *name, const char *label, const char *value_of_label, double value) {
    put(out, "reprise_%s", name);
    if (label != NULL) {
        put(out, "{%s=\"", label);
        put_label(out, value_of_label);
        bytes_text(out, "\"}");
    }
    put(out, " %.17g\n", value);
}

static void print_histogram(Bytes *out, const char *name, const char *help, const Histogram *h) {
    uint64_t n = 0;
    metrics_family(out, name, "histogram", help);
    for (int i = 0; i < N_BUCKETS; i++) {
        n += h->counts[i];
        put(out, "reprise_%s_bucket{le=\"%g\"} %llu\n", name, limits[i], (unsigned long long)n);
    }
    n += h->counts[N_BUCKETS];
    put(out, "reprise_%s_bucket{le=\"+Inf\"} %llu\nreprise_%s_sum %.17g\nreprise_%s_count %llu\n", name,
        (unsigned long long)n, name, h->sum, name, (unsigned long long)n);
}

void metrics_print(Metrics *m, Bytes *out) {
    static const struct {
        const char *name, *help;
    } times[N_METRICS_TIMES] = {
        [TIME_QUEUE]          = {"queue_seconds",               "Time from the queue to the first step of a reply." },
        [TIME_FIRST_TOKEN]    = {"time_to_first_token_seconds", "Time from the queue to the first token of a reply."},
        [TIME_BETWEEN_TOKENS] = {"time_between_tokens_seconds", "Time between two tokens of a reply."               },
        [TIME_TOTAL]          = {"reply_seconds",               "Time from the queue to the last token of a reply." },
    };
    pthread_mutex_lock(&m->lock);
    metrics_family(out, "requests_total", "counter", "Requests by path and status.");
    for (int i = 0; i < m->n_rows; i++)
        put(out, "reprise_requests_total{path=\"%s\",status=\"%d\"} %llu\n", m->rows[i].route, m->rows[i].status,
            (unsigned long long)m->rows[i].n);
    for (int i = 0; i < N_METRICS_TIMES; i++) print_histogram(out, times[i].name, times[i].help, &m->times[i]);
    pthread_mutex_unlock(&m->lock);
}
