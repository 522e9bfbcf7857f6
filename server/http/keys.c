/* keys.c - keys of clients, and their tokens per minute as a bucket that fills at a constant rate. */
#include "server/http/keys.h"

#include "server/http/conn.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_BYTES = 256 };

struct Key {
    KeyFile *file;
    Key     *next;
    char     name[64], key[MOST_BYTES]; /* padded with zeros */
    bool     valid;                     /* in the file as it was read last */
    double   tokens, filled;            /* what the bucket had at this time */
};

struct KeyFile {
    pthread_mutex_t lock;
    char           *path;
    int32_t         per_minute;
    Key            *first; /* keys stay until the end, as requests refer to them */
    Key             everyone;
};

static Key *known(KeyFile *f, const char *key) {
    for (Key *k = f->first; k != NULL; k = k->next)
        if (strcmp(k->key, key) == 0) return k;
    return NULL;
}

static RpStatus add(KeyFile *f, const char *name, const char *key) {
    Key *k = known(f, key);
    if (k == NULL) {
        k = calloc(1, sizeof *k);
        if (k == NULL) return rp_fail(RP_E_NOMEM, "out of memory for keys");
        snprintf(k->key, sizeof k->key, "%s", key);
        k->file   = f;
        k->tokens = f->per_minute;
        k->filled = http_now();
        k->next   = f->first;
        f->first  = k;
    }
    snprintf(k->name, sizeof k->name, "%s", name);
    k->valid = true;
    return RP_OK;
}

static RpStatus add_line(KeyFile *f, char *line, int number) {
    char  name[64];
    char *save, *a = strtok_r(line, " \t\r\n", &save), *b = a != NULL ? strtok_r(NULL, " \t\r\n", &save) : NULL;
    if (a == NULL || a[0] == '#') return RP_OK;
    if (b != NULL && strtok_r(NULL, " \t\r\n", &save) != NULL)
        return rp_fail(RP_E_FORMAT, "%s:%d: a line is KEY or NAME KEY", f->path, number);
    const char *key = b != NULL ? b : a;
    if (strlen(key) < 8 || strlen(key) >= MOST_BYTES)
        return rp_fail(RP_E_FORMAT, "%s:%d: a key has 8 to %d characters", f->path, number, MOST_BYTES - 1);
    snprintf(name, sizeof name, "line %d", number);
    return add(f, b != NULL ? a : name, key);
}

/* Reads all lines, or changes nothing. */
static RpStatus read_file(KeyFile *f) {
    FILE *in = fopen(f->path, "r");
    if (in == NULL) return rp_fail(RP_E_IO, "%s: %s", f->path, strerror(errno));
    char    *line = NULL;
    size_t   room = 0;
    RpStatus st   = RP_OK;
    bool     any  = false;
    for (Key *k = f->first; k != NULL; k = k->next) k->valid = false;
    for (int number = 1; st == RP_OK && getline(&line, &room, in) >= 0; number++) st = add_line(f, line, number);
    if (st == RP_OK && ferror(in)) st = rp_fail(RP_E_IO, "%s could not be read", f->path);
    for (Key *k = f->first; k != NULL; k = k->next) any = any || k->valid;
    if (st == RP_OK && !any) st = rp_fail(RP_E_FORMAT, "%s has no key", f->path);
    free(line);
    fclose(in);
    return st;
}

RpStatus keys_reload(KeyFile *f) {
    if (f->path == NULL) return RP_OK;
    bool   was[4096];
    size_t n = 0;
    pthread_mutex_lock(&f->lock);
    for (Key *k = f->first; k != NULL && n < sizeof was; k = k->next) was[n++] = k->valid;
    Key           *newest = f->first;
    const RpStatus st     = read_file(f);
    if (st != RP_OK) { /* new keys are in front of the old ones */
        for (Key *k = f->first; k != newest; k = k->next) k->valid = false;
        size_t i = 0;
        for (Key *k = newest; k != NULL; k = k->next) k->valid = i < n && was[i++];
    }
    pthread_mutex_unlock(&f->lock);
    return st;
}

RpStatus keys_open(const char *path, int32_t tokens_per_minute, KeyFile **out) {
    KeyFile *f = calloc(1, sizeof *f);
    *out       = f;
    if (f == NULL) return rp_fail(RP_E_NOMEM, "out of memory for keys");
    pthread_mutex_init(&f->lock, NULL);
    f->per_minute = tokens_per_minute;
    f->everyone   = (Key){.file = f, .name = "", .valid = true, .tokens = tokens_per_minute, .filled = http_now()};
    RpStatus st   = RP_OK;
    if (path != NULL) {
        f->path = strdup(path);
        st      = f->path != NULL ? read_file(f) : rp_fail(RP_E_NOMEM, "out of memory for a path");
    }
    if (st != RP_OK) {
        keys_free(f);
        *out = NULL;
    }
    return st;
}

void keys_free(KeyFile *f) {
    if (f == NULL) return;
    while (f->first != NULL) {
        Key *next = f->first->next;
        free(f->first);
        f->first = next;
    }
    pthread_mutex_destroy(&f->lock);
    free(f->path);
    free(f);
}

bool keys_needed(const KeyFile *f) { return f->path != NULL; }

/* Compares all bytes, whatever they are. */
static bool same(const char a[MOST_BYTES], const char b[MOST_BYTES]) {
    volatile unsigned char different = 0;
    for (int i = 0; i < MOST_BYTES; i++) different = (unsigned char)(different | (a[i] ^ b[i]));
    return different == 0;
}

Key *keys_find(KeyFile *f, const char *authorization, const char *api_key) {
    char given[MOST_BYTES] = {0};
    Key *found             = NULL;
    if (f->path == NULL) return &f->everyone;
    if (authorization != NULL && strncasecmp(authorization, "Bearer ", 7) == 0)
        api_key = authorization + 7 + strspn(authorization + 7, " ");
    if (api_key == NULL || strlen(api_key) >= MOST_BYTES) return NULL;
    memcpy(given, api_key, strlen(api_key));
    pthread_mutex_lock(&f->lock);
    for (Key *k = f->first; k != NULL; k = k->next)
        if (same(k->key, given) && k->valid) found = k;
    pthread_mutex_unlock(&f->lock);
    return found;
}

const char *key_name(const Key *k) { return k->name; }

static void fill(Key *k) {
    const double now = http_now(), most = k->file->per_minute;
    k->tokens = fmin(most, k->tokens + (now - k->filled) * most / 60.0);
    k->filled = now;
}

int32_t key_wait(Key *k) {
    double wait = 0.0;
    if (k->file->per_minute == 0) return 0;
    pthread_mutex_lock(&k->file->lock);
    fill(k);
    if (k->tokens <= 0.0) wait = ceil((1.0 - k->tokens) * 60.0 / k->file->per_minute);
    pthread_mutex_unlock(&k->file->lock);
    return (int32_t)fmin(wait, 86400.0);
}

void key_charge(Key *k, int64_t n) {
    if (k->file->per_minute == 0) return;
    pthread_mutex_lock(&k->file->lock);
    fill(k);
    k->tokens -= (double)n;
    pthread_mutex_unlock(&k->file->lock);
}
