/* log.h - one JSON object a line: {"time": "2026-11-26T18:00:00.123Z", "event": "request", ...}. Any thread may use
 * it. */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include "reprise/status.h"

#include <jansson.h>

typedef struct Log Log;

/* path NULL: standard error. Lines are appended to the file. RP_E_IO, RP_E_NOMEM. The caller frees *out. */
RP_NODISCARD RpStatus log_open(const char *path, Log **out);
void                  log_free(Log *log); /* NULL is allowed */

/* Writes a line with the members of `fields`, an object or NULL, which it releases. A line without memory is lost. */
void log_line(Log *log, const char *event, json_t *fields);

#endif
