/* metrics.h - what the server counts, as text of Prometheus (exposition format 0.0.4). Any thread may use it. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "server/api/bytes.h"

#include <stdint.h>

typedef struct Metrics Metrics;

typedef enum MetricsTime { TIME_QUEUE, TIME_FIRST_TOKEN, TIME_BETWEEN_TOKENS, TIME_TOTAL, N_METRICS_TIMES } MetricsTime;

Metrics *metrics_new(void); /* NULL: out of memory */
void     metrics_free(Metrics *m);

/* Counts a request that has ended. `route` has static storage. */
void metrics_request(Metrics *m, const char *route, int status);
void metrics_observe(Metrics *m, MetricsTime what, double seconds);
void metrics_print(Metrics *m, Bytes *out);

/* One family: its help, its type, then its samples. */
void metrics_family(Bytes *out, const char *name, const char *type, const char *help);
void metrics_sample(Bytes *out, const char *name, const char *label, const char *value_of_label, double value);

#endif
