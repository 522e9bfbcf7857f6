/* models.c - the models of the server by name, and which of them are loaded. */
#include "server/http/conn.h"
#include "server/http/guard.h"
#include "server/jobs/info.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The length of "-00001-of-00003.gguf" at the end of a path, the number of a part of a split file; else of ".gguf". */
static size_t end_of_name(const char *path, int *part) {
    enum { LENGTH = 20 };
    const size_t n = strlen(path);
    int          count, at = 0;
    *part = 1;
    if (n > LENGTH && sscanf(path + n - LENGTH, "-%5d-of-%5d.gguf%n", part, &count, &at) == 2 && at == LENGTH)
        return LENGTH;
    *part = 1;
    return n > 5 && strcmp(path + n - 5, ".gguf") == 0 ? 5 : 0;
}

/* The name of a model is that of its file without the folder and this end. */
static char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name  = slash != NULL && slash[1] != '\0' ? slash + 1 : path;
    int         part;
    return strndup(name, strlen(name) - end_of_name(name, &part));
}

static Model *find(Work *w, const char *name) {
    for (int i = 0; i < w->n_models; i++)
        if (strcmp(w->models[i].name, name) == 0) return &w->models[i];
    return NULL;
}

/* Adds a model, unless one of this name is there. Owns both texts. */
static RpStatus add(Work *w, char *name, char *path) {
    Model *grown = NULL;
    if (name != NULL && path != NULL) {
        if (find(w, name) != NULL) {
            free(name);
            free(path);
            return RP_OK;
        }
        grown = realloc(w->models, (size_t)(w->n_models + 1) * sizeof *grown);
    }
    if (grown == NULL) {
        free(name);
        free(path);
        return rp_fail(RP_E_NOMEM, "out of memory for models");
    }
    w->models                = grown;
    w->models[w->n_models++] = (Model){.work = w, .name = name, .path = path, .created = time(NULL)};
    return RP_OK;
}

static bool is_model(const char *path) {
    struct stat s;
    char        config[4096 + 16];
    int         part;
    if (stat(path, &s) != 0) return false;
    if (S_ISREG(s.st_mode)) return end_of_name(path, &part) > 0 && part == 1; /* the first part stands for all */
    snprintf(config, sizeof config, "%s/config.json", path);
    return S_ISDIR(s.st_mode) && access(config, R_OK) == 0;
}

static RpStatus add_folder(Work *w, const char *folder) {
    struct dirent **entries;
    const int       n  = scandir(folder, &entries, NULL, alphasort);
    RpStatus        st = RP_OK;
    if (n < 0) return rp_fail(RP_E_IO, "--models-dir %s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (st == RP_OK && entries[i]->d_name[0] != '.' && is_model(path)) st = add(w, name_of(path), strdup(path));
        free(entries[i]);
    }
    free(entries);
    return st;
}

RpStatus work_find_models(Work *w, const ServerOptions *o) {
    w->options = o;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (o->model != NULL && access(o->model, R_OK) != 0) return rp_fail(RP_E_IO, "%s: %s", o->model, strerror(errno));
    if (o->model != NULL) RP_TRY(add(w, o->alias != NULL ? strdup(o->alias) : name_of(o->model), strdup(o->model)));
    if (o->models_dir != NULL) RP_TRY(add_folder(w, o->models_dir));
    if (w->n_models == 0) return rp_fail(RP_E_ARG, "--models-dir %s has no model", o->models_dir);
    for (int i = 0; i < w->n_models; i++) {
        pthread_cond_init(&w->models[i].some, NULL);
        pthread_mutex_init(&w->models[i].calls_lock, NULL);
    }
    return RP_OK;
}

void work_free_models(Work *w) {
    for (int i = 0; i < w->n_models; i++) {
        free(w->models[i].name);
        free(w->models[i].path);
        free(w->models[i].live);
        info_free(&w->models[i]);
    }
    free(w->models);
}

/* ---- loading ---- */

/* Under the lock. */
static RpStatus start_load(Model *m) {
    if (m->joinable) pthread_join(m->thread, NULL); /* it has ended */
    m->state    = MODEL_LOADING;
    m->error[0] = '\0';
    const int e = pthread_create(&m->thread, NULL, m->work->worker, m);
    m->joinable = e == 0;
    if (e == 0) return RP_OK;
    m->state = MODEL_UNLOADED;
    return rp_fail(RP_E_NOMEM, "a thread could not be started: %s", strerror(e));
}

RpStatus work_load_first(Work *w) {
    pthread_mutex_lock(&w->lock);
    const RpStatus st = start_load(&w->models[0]);
    pthread_mutex_unlock(&w->lock);
    return st;
}

void work_unload_all(Work *w) {
    for (int i = 0; i < w->n_models; i++) {
        Model *m = &w->models[i];
        pthread_mutex_lock(&w->lock);
        w->stopping = true;
        if (m->state == MODEL_READY) m->state = MODEL_STOPPING;
        pthread_cond_broadcast(&m->some);
        pthread_mutex_unlock(&w->lock);
        if (m->joinable) pthread_join(m->thread, NULL);
        m->joinable = false;
    }
}

/* The least recently used idle model; NULL: all are in use. */
static Model *idle_model(Work *w) {
    Model *found = NULL;
    for (int i = 0; i < w->n_models; i++) {
        Model *m = &w->models[i];
        if (m->state == MODEL_READY && m->pins == 0 && (found == NULL || m->used < found->used)) found = m;
    }
    return found;
}

static bool one_is_stopping(const Work *w) {
    for (int i = 0; i < w->n_models; i++)
        if (w->models[i].state == MODEL_STOPPING) return true;
    return false;
}

RpStatus work_make_room(Model *m, size_t bytes, size_t copy) {
    Work        *w      = m->work;
    const size_t budget = w->options->memory_bytes;
    RpStatus     st     = RP_OK;
    if (budget > 0 && bytes > budget)
        return rp_fail(RP_E_NOMEM, "%s needs %.1f MB, and --memory is %.1f MB", m->name, (double)bytes / 1e6,
                       (double)budget / 1e6);
    pthread_mutex_lock(&w->lock);
    while (budget > 0 && w->bytes + bytes > budget && st == RP_OK) {
        Model *idle = one_is_stopping(w) ? NULL : idle_model(w);
        if (idle != NULL) {
            idle->state = MODEL_STOPPING;
            pthread_cond_broadcast(&idle->some);
        } else if (!one_is_stopping(w)) {
            st = rp_fail(RP_E_NOMEM, "there is no room for %s: the other models are in use (--memory)", m->name);
        }
        if (st == RP_OK) pthread_cond_wait(&w->changed, &w->lock);
    }
    if (st == RP_OK) {
        m->no_copy = budget > 0 && w->bytes + bytes + copy > budget;
        m->bytes   = bytes + (m->no_copy ? 0 : copy);
        w->bytes += m->bytes;
    }
    pthread_mutex_unlock(&w->lock);
    return st;
}

void work_count(Model *m, size_t bytes) {
    pthread_mutex_lock(&m->work->lock);
    m->work->bytes = m->work->bytes - m->bytes + bytes;
    m->bytes       = bytes;
    pthread_cond_broadcast(&m->work->changed);
    pthread_mutex_unlock(&m->work->lock);
}

/* Under the lock. */
static bool first_is_missing(const Work *w) { return w->options->model != NULL && !w->models[0].was_ready; }

bool work_first_failed(Work *w, char why[512]) {
    pthread_mutex_lock(&w->lock);
    const bool failed = first_is_missing(w) && w->models[0].state == MODEL_UNLOADED;
    if (failed) snprintf(why, 512, "%s", w->models[0].error);
    pthread_mutex_unlock(&w->lock);
    return failed;
}

const char *work_health(Work *w) {
    bool lost = false;
    pthread_mutex_lock(&w->lock);
    const bool missing = first_is_missing(w), failed = missing && w->models[0].state == MODEL_UNLOADED;
    for (int i = 0; i < w->n_models; i++) lost |= w->models[i].lost_device;
    pthread_mutex_unlock(&w->lock);
    return failed || lost ? "failed" : missing ? "loading" : "ok";
}

void work_fail_waiting(const Model *m, JobQueue *waiting, int status) {
    for (Job *j = queue_take(waiting); j != NULL; j = queue_take(waiting)) {
        ApiError error;
        (void)http_refuse(&error, status, "server_error", "model_not_loaded",
                          "The model %.100s could not be loaded: %.300s.", m->name, m->error);
        job_fail(j, &error);
    }
}

/* The model of -m is loaded first: it may need the room of others. Under the lock. */
static bool waits_for_first(const Work *w, const Model *m) {
    return w->options->model != NULL && m != &w->models[0] && !w->models[0].was_ready;
}

void work_load_others(Work *w, bool loaded) {
    for (int i = 1; i < w->n_models; i++) {
        Model   *m      = &w->models[i];
        JobQueue failed = {0};
        pthread_mutex_lock(&w->lock);
        if (m->waiting.first != NULL && m->state == MODEL_UNLOADED && (!loaded || start_load(m) != RP_OK)) {
            snprintf(m->error, sizeof m->error, "%s", loaded ? rp_last_error() : w->models[0].error);
            failed     = m->waiting;
            m->waiting = (JobQueue){0};
        }
        pthread_mutex_unlock(&w->lock);
        work_fail_waiting(m, &failed, 503);
    }
}

/* Under the lock. True: the job has the model. */
static bool acquire(Job *j, Model *m, ApiError *error) {
    if (m->state == MODEL_READY) {
        m->pins++;
        j->model = m;
        return true;
    }
    if (m->work->stopping)
        (void)http_refuse(error, 503, "server_error", "shutting_down", "The server is shutting down.");
    else if (m->state == MODEL_UNLOADED && !waits_for_first(m->work, m) && start_load(m) != RP_OK)
        api_error_of(RP_E_NOMEM, error);
    else
        queue_put(&m->waiting, j);
    return false;
}

bool work_acquire(Job *j, const char *name) {
    Work    *w     = j->work;
    ApiError error = {0};
    bool     got   = false;
    if (name != NULL && name[0] == '\0') name = NULL; /* some clients send it if none is configured */
    if (name == NULL && w->options->model == NULL && w->n_models > 1) {
        (void)http_refuse(&error, 400, "invalid_request_error", "missing_model", "The request must name a model.");
        job_fail(j, &error);
        return false;
    }
    pthread_mutex_lock(&w->lock);
    Model *m = name == NULL ? &w->models[0] : find(w, name);
    if (m != NULL) { /* before the worker can have the job */
        pthread_mutex_lock(&j->lock);
        snprintf(j->model_name, sizeof j->model_name, "%s", m->name);
        pthread_mutex_unlock(&j->lock);
    }
    if (j->model != NULL)
        got = true; /* it has waited for the load */
    else if (m == NULL)
        (void)http_refuse(&error, 404, "invalid_request_error", "model_not_found", "There is no model %.100s.", name);
    else
        got = acquire(j, m, &error);
    pthread_mutex_unlock(&w->lock);
    if (!got && error.status != 0) job_fail(j, &error);
    return got;
}

void work_submit(Job *j) {
    Model *m = j->model;
    pthread_mutex_lock(&m->work->lock);
    queue_put(&m->queue, j);
    pthread_cond_broadcast(&m->some);
    pthread_mutex_unlock(&m->work->lock);
}
