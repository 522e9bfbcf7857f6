/* Trace events as text: the JSON of chrome://tracing, which Perfetto reads ("Trace Event Format"), or its events one a
 * line. Times are microseconds since the trace began.
 *
 *     run, step, node   {"ph":"X", ...}     complete events of the thread; what contains what follows from the times
 *     spans             {"ph":"b", ...}, {"ph":"e", ...}
 *     names             {"ph":"M", ...}     of the process and of each thread
 *
 * Events come at their end, so a node stands before its step. */
#include "base/trace/trace.h"

#include "reprise/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BUFFER       = 1 << 16,
    MOST_EVENT   = 4096, /* bytes of the text of an event, cut names included */
    MOST_NAME    = 512,  /* bytes of a name, before it is escaped to twice as many */
    MOST_THREADS = 256   /* whose names are written */
};

#define HEAD "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
#define LINE "{\"ph\":\""

struct TraceWriter {
    pthread_mutex_t lock;
    char           *path; /* NULL: the stream is the caller's */
    RpNewFile      *file; /* NULL: the stream is the caller's */
    FILE           *stream;
    bool            lines, failed, some;
    int             error;
    size_t          most, written; /* bytes; most 0: no limit */
    uint64_t        dropped;
    int64_t         start_ns;
    long            pid;
    long            threads[MOST_THREADS];
    int             n_threads;
    size_t          n;
    char buffer[BUFFER]; /* own, because a child process would write that of the stream again when it exits */
};

/* ---- text: without snprintf, which would take most of the time of an event ---- */

typedef struct Text {
    char   p[MOST_EVENT];
    size_t n;
} Text;

static void put_char(Text *t, char c) {
    if (t->n < sizeof t->p) t->p[t->n++] = c;
}

static void put(Text *t, const char *s) {
    size_t n = strlen(s);
    if (n > sizeof t->p - t->n) n = sizeof t->p - t->n;
    memcpy(t->p + t->n, s, n);
    t->n += n;
}

static void put_number(Text *t, uint64_t v) {
    char digits[20];
    int  n = 0;
    do digits[n++] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    while (n > 0) put_char(t, digits[--n]);
}

/* ,"name":number */
static void put_member(Text *t, const char *name, uint64_t v) {
    put(t, name);
    put_number(t, v);
}

/* A string of JSON. Names come from files: bytes that are no printable ASCII become '?'. */
static void put_string(Text *t, const char *s) {
    put_char(t, '"');
    for (size_t n = 0; s[n] != '\0' && n < MOST_NAME; n++) {
        if (s[n] == '"' || s[n] == '\\') put_char(t, '\\');
        put_char(t, s[n] >= ' ' && s[n] <= '~' ? s[n] : '?');
    }
    put_char(t, '"');
}

/* Microseconds with three decimals. */
static void put_us(Text *t, const char *name, int64_t ns) {
    const uint64_t v = (uint64_t)ns;
    put_member(t, name, v / 1000);
    put_char(t, '.');
    put_char(t, (char)('0' + v / 100 % 10));
    put_char(t, (char)('0' + v / 10 % 10));
    put_char(t, (char)('0' + v % 10));
}

/* ns since the trace began; 0 before. */
static int64_t since(const TraceWriter *w, int64_t ns) { return ns > w->start_ns ? ns - w->start_ns : 0; }

/* ---- bytes ---- */

static void flush(TraceWriter *w) {
    errno = 0;
    if (!w->failed && w->n > 0 && (fwrite(w->buffer, 1, w->n, w->stream) != w->n || fflush(w->stream) != 0)) {
        w->failed = true;
        w->error  = errno;
    }
    w->n = 0;
}

static void put_bytes(TraceWriter *w, const char *p, size_t n) {
    if (w->n + n > sizeof w->buffer) flush(w);
    memcpy(w->buffer + w->n, p, n);
    w->n += n;
    w->written += n;
}

/* An event without its separator. True: it was written. Behind the first that is too much none is, but for names, which
 * do not count. */
static bool put_event(TraceWriter *w, const Text *t, bool counts) {
    if (counts && w->most > 0 && (w->dropped > 0 || w->written + t->n + 2 > w->most)) {
        w->dropped++;
        return false;
    }
    if (w->some && !w->lines) put_bytes(w, ",\n", 2);
    put_bytes(w, t->p, t->n);
    if (w->lines) put_bytes(w, "\n", 1);
    w->some = true;
    return true;
}

static void put_ids(const TraceWriter *w, Text *t, long tid) {
    put_member(t, ",\"pid\":", (uint64_t)w->pid);
    put_member(t, ",\"tid\":", (uint64_t)tid);
}

static void put_name(TraceWriter *w, const char *what, long tid, const char *name) {
    Text t;
    t.n = 0;
    put(&t, LINE "M\",\"name\":");
    put_string(&t, what);
    put_ids(w, &t, tid);
    put(&t, ",\"args\":{\"name\":");
    put_string(&t, name);
    put(&t, "}}");
    (void)put_event(w, &t, false);
}

static void name_thread(TraceWriter *w, long tid) {
    char name[64] = "";
    for (int i = 0; i < w->n_threads; i++)
        if (w->threads[i] == tid) return;
    if (w->n_threads == MOST_THREADS) return;
    w->threads[w->n_threads++] = tid;
    if (pthread_getname_np(pthread_self(), name, sizeof name) != 0) name[0] = '\0';
    put_name(w, "thread_name", tid, name);
}

static void put_args(Text *t, const RpTraceEvent *e) {
    put(t, ",\"args\":{");
    if (e->kind == RP_TRACE_RUN) put_member(t, "\"tokens\":", (uint64_t)e->n);
    if (e->kind == RP_TRACE_STEP) {
        put_member(t, "\"nodes\":", (uint64_t)e->n);
        put_member(t, ",\"first\":", (uint64_t)e->index);
        put(t, ",\"device\":");
        put_string(t, e->device);
        put(t, ",\"mode\":");
        put_string(t, rp_mode_name(e->mode));
    }
    if (e->kind == RP_TRACE_NODE) {
        put(t, "\"op\":");
        put_string(t, e->op);
        put_member(t, ",\"step\":", (uint64_t)e->index);
        if (e->layer >= 0) put_member(t, ",\"layer\":", (uint64_t)e->layer);
    }
    if (e->kind != RP_TRACE_RUN) {
        put_member(t, ",\"read\":", e->bytes_read);
        put_member(t, ",\"written\":", e->bytes_written);
    }
    if (e->n_launches > 0) put_member(t, ",\"launches\":", (uint64_t)e->n_launches);
    if (e->status != RP_OK) put(t, ",\"status\":");
    if (e->status != RP_OK) put_string(t, rp_status_text(e->status));
    put(t, "}}");
}

void rp_trace_write(TraceWriter *w, const RpTraceEvent *e) {
    static const char *const  kinds[] = {"run", "step", "node"};
    static _Thread_local long tid, pid; /* a fork has other ones */
    Text                      t;
    if (pid != w->pid) tid = gettid(), pid = w->pid;
    t.n = 0;
    put(&t, LINE "X\",\"cat\":");
    put_string(&t, kinds[e->kind]);
    put(&t, ",\"name\":");
    put_string(&t, e->name);
    put_ids(w, &t, tid);
    put_us(&t, ",\"ts\":", since(w, e->start_ns));
    put_us(&t, ",\"dur\":", e->end_ns - e->start_ns);
    put_args(&t, e);
    pthread_mutex_lock(&w->lock);
    if (put_event(w, &t, true)) name_thread(w, tid);
    pthread_mutex_unlock(&w->lock);
}

static void put_end_of_span(const TraceWriter *w, Text *t, const char *phase, const char *category, const char *id,
                            const char *name, int64_t ns) {
    t->n = 0;
    put(t, "{\"ph\":");
    put_string(t, phase);
    put(t, ",\"cat\":");
    put_string(t, category);
    put(t, ",\"id\":");
    put_string(t, id);
    put(t, ",\"name\":");
    put_string(t, name);
    put_ids(w, t, w->pid);
    put_us(t, ",\"ts\":", since(w, ns));
}

void rp_trace_write_span(TraceWriter *w, const char *category, const char *id, const char *name, int64_t start_ns,
                         int64_t end_ns, const char *args) {
    Text begin, end;
    put_end_of_span(w, &begin, "b", category, id, name, start_ns);
    if (args != NULL && strlen(args) + 32 < sizeof begin.p - begin.n) {
        put(&begin, ",\"args\":");
        put(&begin, args);
    }
    put(&begin, "}");
    put_end_of_span(w, &end, "e", category, id, name, end_ns);
    put(&end, "}");
    pthread_mutex_lock(&w->lock);
    if (put_event(w, &begin, true)) (void)put_event(w, &end, false); /* never a begin alone */
    pthread_mutex_unlock(&w->lock);
}

uint64_t rp_trace_writer_dropped(TraceWriter *w) {
    pthread_mutex_lock(&w->lock);
    const uint64_t n = w->dropped;
    pthread_mutex_unlock(&w->lock);
    return n;
}

/* ---- files ---- */

static bool ends_in(const char *path, const char *end) {
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

/* A trace is the output of a variable that is easily set and forgotten: it replaces nothing but an earlier trace. */
static RpStatus check_old(const char *path) {
    char      head[sizeof HEAD - 1];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return RP_OK; /* rp_new_file_open says what is wrong */
    const off_t   size = lseek(fd, 0, SEEK_END);
    const ssize_t n    = size > 0 ? pread(fd, head, sizeof head, 0) : 0; /* a pipe or a terminal has no size */
    close(fd);
    if (n <= 0) return RP_OK;
    if ((size_t)n == sizeof head && memcmp(head, HEAD, sizeof head) == 0) return RP_OK;
    if ((size_t)n >= sizeof LINE - 1 && memcmp(head, LINE, sizeof LINE - 1) == 0) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: is no trace, and is not replaced by one", path);
}

RpStatus rp_trace_writer_open(const RpTraceOptions *o, int64_t start_ns, TraceWriter **out) {
    *out = NULL;
    if (o->path != NULL) RP_TRY(check_old(o->path));
    TraceWriter *w  = calloc(1, sizeof *w);
    RpStatus     st = w != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a trace");
    if (st == RP_OK && o->path != NULL && (w->path = strdup(o->path)) == NULL)
        st = rp_fail(RP_E_NOMEM, "out of memory for a trace");
    if (st == RP_OK && o->path != NULL) st = rp_new_file_open(o->path, &w->file);
    if (st != RP_OK) {
        if (w != NULL) free(w->path);
        free(w);
        return st;
    }
    pthread_mutex_init(&w->lock, NULL);
    w->stream   = o->path != NULL ? rp_new_file_stream(w->file) : o->stream;
    w->lines    = o->path != NULL && ends_in(o->path, ".jsonl");
    w->most     = o->most_bytes;
    w->pid      = getpid();
    w->start_ns = start_ns;
    if (o->path != NULL) setvbuf(w->stream, NULL, _IONBF, 0);
    if (!w->lines) put_bytes(w, HEAD, sizeof HEAD - 1);
    put_name(w, "process_name", w->pid, "reprise");
    *out = w;
    return RP_OK;
}

RpStatus rp_trace_writer_close(TraceWriter *w) {
    char tail[128];
    snprintf(tail, sizeof tail, "\n],\"otherData\":{\"dropped_events\":\"%llu\"}}\n", (unsigned long long)w->dropped);
    if (!w->lines) put_bytes(w, tail, strlen(tail));
    flush(w);
    RpStatus st = RP_OK;
    if (w->failed)
        st = rp_fail(RP_E_IO, "%s: a trace could not be written: %s", w->path != NULL ? w->path : "a stream",
                     strerror(w->error != 0 ? w->error : EIO));
    if (w->file != NULL) st = rp_new_file_close(w->file, st);
    pthread_mutex_destroy(&w->lock);
    free(w->path);
    free(w);
    return st;
}
