/* log.c - structured logs. */
#include "server/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct Log {
    pthread_mutex_t lock;
    FILE           *out;
};

RpStatus log_open(const char *path, Log **out) {
    FILE *f = path != NULL ? fopen(path, "ae") : stderr;
    *out    = NULL;
    if (f == NULL) return rp_fail(RP_E_IO, "--log-file %s: %s", path, strerror(errno));
    Log *log = calloc(1, sizeof *log);
    if (log == NULL) {
        if (f != stderr) fclose(f);
        return rp_fail(RP_E_NOMEM, "out of memory for a log");
    }
    log->out = f;
    pthread_mutex_init(&log->lock, NULL);
    *out = log;
    return RP_OK;
}

void log_free(Log *log) {
    if (log == NULL) return;
    if (log->out != stderr) fclose(log->out);
    pthread_mutex_destroy(&log->lock);
    free(log);
}

void log_line(Log *log, const char *event, json_t *fields) {
    struct timespec t;
    struct tm       tm;
    char            now[32], stamp[48];
    clock_gettime(CLOCK_REALTIME, &t);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%S", gmtime_r(&t.tv_sec, &tm));
    snprintf(stamp, sizeof stamp, "%s.%03ldZ", now, t.tv_nsec / 1000000);
    json_t *line = json_pack("{s:s, s:s}", "time", stamp, "event", event);
    char   *text = NULL;
    if (line != NULL && (fields == NULL || json_object_update(line, fields) == 0))
        text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(line);
    json_decref(fields);
    if (text == NULL) return;
    pthread_mutex_lock(&log->lock);
    fprintf(log->out, "%s\n", text);
    fflush(log->out);
    pthread_mutex_unlock(&log->lock);
    free(text);
}
