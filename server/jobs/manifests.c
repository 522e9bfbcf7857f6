/* manifests.c - the queue of manifests, the thread that writes them, and the files that are kept. */
#include "server/jobs/manifests.h"

#include "server/metrics.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* reprise-20261126T180000.123Z-<24 of a-z and 0-5>-<number>.json */
enum { TIME_AT = 8, ID_AT = 29, ID_LETTERS = 24, NAME_BYTES = 80 };

typedef struct Waiting {
    struct Waiting *next;
    char            name[NAME_BYTES];
    char           *text;
    size_t          n;
} Waiting;

struct Manifests {
    int             folder;
    int32_t         keep;
    Log            *log;
    pthread_t       thread;
    pthread_mutex_t lock; /* of the members down to `stop` */
    pthread_cond_t  some;
    Waiting        *first, *last;
    int             n_waiting;
    uint64_t        written, lost;
    bool            started, stop;
    char (*names)[NAME_BYTES]; /* [keep] of the thread alone: a ring of the files that are there */
    int32_t n_names, next;     /* next: where the next name goes, and the oldest is once the ring is full */
};

/* ---- names ---- */

/* Whether the server may remove a file of this name. */
static bool is_name(const char *name) {
    const size_t n = strlen(name);
    char         time_of[32];
    if (n < ID_AT + ID_LETTERS + 7 || n >= NAME_BYTES || strncmp(name, "reprise-", TIME_AT) != 0) return false;
    snprintf(time_of, sizeof time_of, "%.*s", ID_AT - TIME_AT, name + TIME_AT);
    for (char *p = time_of; *p != '\0'; p++)
        if (*p >= '0' && *p <= '9') *p = '0';
    const char *index = name + ID_AT + ID_LETTERS + 1;
    return strcmp(time_of, "00000000T000000.000Z-") == 0 &&
           strspn(name + ID_AT, "abcdefghijklmnopqrstuvwxyz012345") == ID_LETTERS && index[-1] == '-' &&
           strspn(index, "0123456789") == strcspn(index, ".") && strcmp(index + strcspn(index, "."), ".json") == 0;
}

static void make_name(char out[NAME_BYTES], const char *id, int choice) {
    struct timespec t;
    struct tm       tm;
    char            second[32];
    clock_gettime(CLOCK_REALTIME, &t);
    strftime(second, sizeof second, "%Y%m%dT%H%M%S", gmtime_r(&t.tv_sec, &tm));
    snprintf(out, NAME_BYTES, "reprise-%.15s.%03dZ-%.24s-%d.json", second, (int)(t.tv_nsec / 1000000) % 1000, id,
             choice);
}

/* ---- files ---- */

static void keep_name(Manifests *m, const char *name) {
    char *at = m->names[m->next];
    if (m->n_names == m->keep) (void)unlinkat(m->folder, at, 0); /* it may be gone already */
    if (m->n_names < m->keep) m->n_names++;
    snprintf(at, NAME_BYTES, "%s", name);
    m->next = (m->next + 1) % m->keep;
}

static bool write_all(int fd, const char *p, size_t n) {
    while (n > 0) {
        const ssize_t wrote = write(fd, p, n);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return false;
        p += wrote;
        n -= (size_t)wrote;
    }
    return true;
}

/* Sets errno. */
static bool write_file(const Manifests *m, const Waiting *w) {
    char part[NAME_BYTES + 8];
    snprintf(part, sizeof part, ".%s", w->name);
    const int fd = openat(m->folder, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    bool      ok   = write_all(fd, w->text, w->n);
    const int why  = errno;
    ok             = close(fd) == 0 && ok;
    ok             = ok && renameat(m->folder, part, m->folder, w->name) == 0;
    const int then = ok ? 0 : why != 0 ? why : errno;
    if (!ok) (void)unlinkat(m->folder, part, 0);
    errno = then;
    return ok;
}

static void write_one(Manifests *m, const Waiting *w) {
    errno         = 0;
    const bool ok = write_file(m, w);
    if (ok)
        keep_name(m, w->name);
    else
        log_line(m->log, "manifest_lost", json_pack("{s:s, s:s}", "file", w->name, "error", strerror(errno)));
    pthread_mutex_lock(&m->lock);
    m->written += ok;
    m->lost += !ok;
    pthread_mutex_unlock(&m->lock);
}

static void *main_of(void *user) {
    Manifests *m = user;
    for (;;) {
        pthread_mutex_lock(&m->lock);
        while (m->first == NULL && !m->stop) pthread_cond_wait(&m->some, &m->lock);
        Waiting *w = m->first;
        if (w != NULL) m->first = w->next, m->n_waiting--;
        if (m->first == NULL) m->last = NULL;
        pthread_mutex_unlock(&m->lock);
        if (w == NULL) return NULL;
        write_one(m, w);
        free(w->text);
        free(w);
    }
}

/* ---- the whole ---- */

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

/* The files that are there, the oldest first: the time is at the same place of each name. */
static RpStatus find_files(Manifests *m, const char *folder) {
    const int fd = dup(m->folder);
    DIR      *d  = fd >= 0 ? fdopendir(fd) : NULL;
    size_t    n = 0, room = 0;
    char(*all)[NAME_BYTES] = NULL;
    RpStatus st            = d != NULL ? RP_OK : rp_fail(RP_E_IO, "--manifest-dir %s: %s", folder, strerror(errno));
    for (const struct dirent *e; st == RP_OK && (e = readdir(d)) != NULL;) {
        if (!is_name(e->d_name)) continue;
        if (n == room) {
            room                     = 2 * room + 64;
            char(*grown)[NAME_BYTES] = realloc(all, room * sizeof *grown);
            if (grown == NULL) st = rp_fail(RP_E_NOMEM, "out of memory for the names of manifests");
            if (grown == NULL) break;
            all = grown;
        }
        snprintf(all[n++], NAME_BYTES, "%.*s", NAME_BYTES - 1, e->d_name);
    }
    if (d != NULL) closedir(d);
    if (n > 0) qsort(all, n, sizeof *all, by_name);
    for (size_t i = 0; i < n && st == RP_OK; i++) keep_name(m, all[i]);
    free(all);
    return st;
}

/* A folder that can be written to; the caller closes *fd if it is not -1. */
static RpStatus open_folder(const char *folder, int *fd) {
    *fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd >= 0 && faccessat(*fd, ".", W_OK | X_OK, 0) == 0) return RP_OK;
    return rp_fail(RP_E_IO, "--manifest-dir %s: %s", folder, strerror(errno));
}

RpStatus manifests_check(const char *folder) {
    int            fd;
    const RpStatus st = open_folder(folder, &fd);
    if (fd >= 0) close(fd);
    return st;
}

static RpStatus start(Manifests *m, const char *folder) {
    RP_TRY(open_folder(folder, &m->folder));
    m->names = calloc((size_t)m->keep, sizeof *m->names);
    if (m->names == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the names of manifests");
    RP_TRY(find_files(m, folder));
    const int e = pthread_create(&m->thread, NULL, main_of, m);
    if (e != 0) return rp_fail(RP_E_NOMEM, "a thread could not be started: %s", strerror(e));
    m->started = true;
    return RP_OK;
}

RpStatus manifests_open(const char *folder, int32_t keep, Log *log, Manifests **out) {
    Manifests *m = calloc(1, sizeof *m);
    *out         = m;
    if (m == NULL) return rp_fail(RP_E_NOMEM, "out of memory for manifests");
    m->log    = log;
    m->keep   = keep;
    m->folder = -1;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->some, NULL);
    return start(m, folder);
}

void manifests_free(Manifests *m) {
    if (m == NULL) return;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_signal(&m->some);
    pthread_mutex_unlock(&m->lock);
    if (m->started) pthread_join(m->thread, NULL);
    if (m->folder >= 0) close(m->folder);
    free(m->names);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->some);
    free(m);
}

/* False: the queue is full. */
static bool queue(Manifests *m, Waiting *w) {
    pthread_mutex_lock(&m->lock);
    const bool room = m->n_waiting < MANIFESTS_QUEUE;
    if (room) {
        if (m->last != NULL)
            m->last->next = w;
        else
            m->first = w;
        m->last = w;
        m->n_waiting++;
        pthread_cond_signal(&m->some);
    } else {
        m->lost++;
    }
    pthread_mutex_unlock(&m->lock);
    return room;
}

static void lose(Manifests *m, const char *name, const char *error) {
    log_line(m->log, "manifest_lost", json_pack("{s:s, s:s}", "file", name, "error", error));
}

void manifests_put(Manifests *m, const Manifest *manifest, const char *id, int choice) {
    Waiting *w = calloc(1, sizeof *w);
    char     name[NAME_BYTES];
    make_name(name, id, choice);
    if (w == NULL || manifest_text(manifest, &w->text, &w->n) != RP_OK) {
        lose(m, name, w == NULL ? "out of memory" : rp_last_error());
        pthread_mutex_lock(&m->lock);
        m->lost++;
        pthread_mutex_unlock(&m->lock);
        free(w);
        return;
    }
    strcpy(w->name, name);
    if (queue(m, w)) return;
    lose(m, name, "the disk is slower than the replies: the queue is full");
    free(w->text);
    free(w);
}

void manifests_metrics(Manifests *m, Bytes *out) {
    if (m == NULL) return;
    pthread_mutex_lock(&m->lock);
    const uint64_t written = m->written, lost = m->lost;
    pthread_mutex_unlock(&m->lock);
    metrics_family(out, "manifests_written_total", "counter", "Manifests of replies that were written.");
    metrics_sample(out, "manifests_written_total", NULL, NULL, (double)written);
    metrics_family(out, "manifests_lost_total", "counter", "Manifests that could not be written.");
    metrics_sample(out, "manifests_lost_total", NULL, NULL, (double)lost);
}
