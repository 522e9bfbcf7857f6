/* The calls of earlier replies, as the model wrote them. */
#include "reprise/chat.h"

#include "base/argument.h"

#include <stdlib.h>
#include <string.h>

typedef struct Entry {
    struct Entry *next; /* newer */
    size_t        n_id, n;
    char          text[]; /* id, NUL, text, NUL */
} Entry;

struct RpToolCallLog {
    Entry *oldest, *newest;
    size_t bytes, max_bytes;
};

RpStatus rp_tool_call_log_new(size_t max_bytes, RpToolCallLog **out) {
    RP_OUT(out, "out");
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a log of tool calls");
    (*out)->max_bytes = max_bytes > 0 ? max_bytes : 16 << 20;
    return RP_OK;
}

static size_t bytes_of(const Entry *e) { return sizeof *e + e->n_id + e->n + 2; }

static void drop_oldest(RpToolCallLog *log) {
    Entry *e    = log->oldest;
    log->oldest = e->next;
    if (log->oldest == NULL) log->newest = NULL;
    log->bytes -= bytes_of(e);
    free(e);
}

void rp_tool_call_log_free(RpToolCallLog *log) {
    if (log == NULL) return;
    while (log->oldest != NULL) drop_oldest(log);
    free(log);
}

RpStatus rp_tool_call_log_put(RpToolCallLog *log, const char *id, const char *text, size_t n) {
    RP_NOT_NULL(log, "log");
    RP_NOT_NULL(id, "id");
    if (n > 0) RP_NOT_NULL(text, "text");
    const size_t n_id = strlen(id), bytes = sizeof(Entry) + n_id + n + 2;
    if (n > log->max_bytes || bytes > log->max_bytes) return RP_OK; /* as if it had been dropped at once */
    Entry *e = malloc(bytes);
    if (e == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a tool call of %zu bytes", n);
    e->next = NULL, e->n_id = n_id, e->n = n;
    memcpy(e->text, id, n_id + 1);
    if (n > 0) memcpy(e->text + n_id + 1, text, n);
    e->text[n_id + 1 + n] = '\0';
    while (log->bytes + bytes > log->max_bytes) drop_oldest(log);
    if (log->newest != NULL)
        log->newest->next = e;
    else
        log->oldest = e;
    log->newest = e;
    log->bytes += bytes;
    return RP_OK;
}

const char *rp_tool_call_log_find(const RpToolCallLog *log, const char *id, size_t *n) {
    const char *found = NULL;
    if (n != NULL) *n = 0;
    if (log == NULL || id == NULL) return NULL;
    for (const Entry *e = log->oldest; e != NULL; e = e->next) {
        if (strcmp(e->text, id) != 0) continue;
        found = e->text + e->n_id + 1;
        if (n != NULL) *n = e->n;
    }
    return found;
}
