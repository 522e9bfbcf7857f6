/* The log of a training, one JSON object a line (JSON Lines):
 *
 *     {"step":1,"loss":8.31,"aux_loss":1.02,"grad_norm":1.5,"lr":1e-05,"tok_s":3100,"balance":1.2,
 *      "expert_load":[[..],[..]]}
 *     {"step":200,"validation_loss":4.5,"sequences":12}
 *
 * expert_load has the share of the choices that fell on each expert, one array for each layer with experts. */
#include "cli/train/train.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The offset at which to cut a log: behind the last line of a step up to n, and before the first line of a later step.
 * Bytes behind it need not be lines, since a loss of power may leave anything there. *validated: the lines that stay
 * include the validation after step n. */
static long end_of_steps(FILE *f, int64_t n, bool *validated) {
    char     *line = NULL;
    size_t    size = 0;
    long      at = 0, end = 0;
    long long step;
    for (ssize_t len; (len = getline(&line, &size, f)) > 0 && line[len - 1] == '\n';) {
        at += (long)len;
        if (sscanf(line, "{\"step\":%lld,", &step) != 1) continue;
        if (step > n) break;
        end = at;
        if (step == n && strstr(line, "\"validation_loss\"") != NULL) *validated = true;
    }
    free(line);
    return end;
}

static bool is_interrupted(void) { return errno == EINTR && cli_interrupted(); }

/* A signal ends the wait for the reader of a pipe. */
static RpStatus failed(const char *path) {
    if (is_interrupted()) return rp_fail(RP_E_CANCELLED, "%s: interrupted", path);
    return rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
}

/* Opens an existing regular file to read and write, another one (a pipe, a device) to write. *f is NULL if there is
 * none. The file is not changed. */
static RpStatus open_existing(const char *path, bool *is_regular, FILE **f) {
    struct stat info;
    *f           = NULL;
    *is_regular  = stat(path, &info) != 0 || S_ISREG(info.st_mode);
    const int fd = open(path, (*is_regular ? O_RDWR : O_WRONLY) | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return errno == ENOENT ? RP_OK : failed(path);
    *f = fdopen(fd, *is_regular ? "r+" : "w");
    if (*f != NULL) return RP_OK;
    const RpStatus st = failed(path);
    close(fd);
    return st;
}

/* Whether the first line is a JSON object that begins with "step". A killed run may have left a part of a line. Other
 * files may have no lines at all: only the beginning of one is read at first. */
static bool begins_as_log(FILE *f) {
    char         begin[32], *line = NULL;
    long long    step;
    size_t       size = 0;
    const size_t got  = fread(begin, 1, sizeof begin - 1, f);
    begin[got]        = '\0';
    if (got == 0) return true;
    if (sscanf(begin, "{\"step\":%lld", &step) != 1 || step < 0) return false;
    rewind(f);
    const ssize_t n      = getline(&line, &size, f);
    const bool    whole  = n > 0 && line[n - 1] == '\n';
    json_t       *object = whole ? json_loadb(line, (size_t)n, 0, NULL) : NULL;
    json_decref(object);
    free(line);
    return n > 0 && (!whole || object != NULL);
}

/* RP_E_ARG for a file that is no log, so that a mistyped path does not destroy another file. */
static RpStatus check_beginning(FILE *f, const char *path) {
    const bool is_log = begins_as_log(f);
    if (ferror(f)) return failed(path);
    rewind(f);
    if (is_log) return RP_OK;
    return rp_fail(RP_E_ARG, "%s exists and does not begin as the log of a training, with {\"step\":", path);
}

RpStatus cli_train_log_check(const char *path) {
    struct stat info;
    bool        is_regular;
    FILE       *f;
    if (path == NULL || (stat(path, &info) == 0 && !S_ISREG(info.st_mode))) return RP_OK;
    RP_TRY(open_existing(path, &is_regular, &f));
    if (f == NULL) return RP_OK;
    const RpStatus st = check_beginning(f, path);
    fclose(f);
    return st;
}

/* Removes the lines of steps after n, and continues behind the others. */
static RpStatus cut(TrainLog *log, int64_t n) {
    RP_TRY(check_beginning(log->f, log->path));
    const long end = n > 0 ? end_of_steps(log->f, n, &log->validated) : 0;
    if (ferror(log->f) || ftruncate(fileno(log->f), end) != 0 || fseek(log->f, end, SEEK_SET) != 0)
        return failed(log->path);
    return RP_OK;
}

/* A link that leads nowhere is refused, as by rp_new_file_open. */
static RpStatus create(TrainLog *log) {
    log->f = fopen(log->path, "wx");
    return log->f != NULL ? RP_OK : failed(log->path);
}

RpStatus cli_train_log_open(TrainLog *log, const char *path, int64_t n) {
    bool is_regular;
    *log = (TrainLog){.path = path};
    if (path == NULL) return RP_OK;
    RP_TRY(open_existing(path, &is_regular, &log->f));
    if (log->f == NULL) return create(log);
    const RpStatus st = is_regular ? cut(log, n) : RP_OK;
    if (st == RP_OK) return RP_OK;
    fclose(log->f);
    log->f = NULL;
    return st;
}

/* Each line is written at once: `tail -f` shows it, and a killed run loses none.
 * A signal that is caught ends a write to a pipe that nobody reads: the rest of the line is lost. The step is in the
 * checkpoint with which the run ends. */
static RpStatus flush(TrainLog *log) {
    if (fflush(log->f) == 0 && !ferror(log->f)) return RP_OK;
    if (!is_interrupted()) return failed(log->path);
    clearerr(log->f);
    return RP_OK;
}

/* A dense model has neither balance nor loads. */
RpStatus cli_train_log_step(TrainLog *log, const StepReport *r, const RpTrainer *t, const RpModelInfo *m) {
    const RpTrainResult *x = &r->result;
    FILE                *f = log->f;
    if (f == NULL) return RP_OK;
    fprintf(f, "{\"step\":%lld,\"loss\":%.9g,\"aux_loss\":%.9g,\"grad_norm\":%.9g,\"lr\":%.9g,\"tok_s\":%.1f",
            (long long)x->step, x->loss, x->aux_loss, x->grad_norm, x->lr, r->tokens_per_s);
    if (r->balance > 0.0) fprintf(f, ",\"balance\":%.4f,\"expert_load\":", r->balance);
    const char *mark = "[[";
    for (int32_t layer = 0; r->balance > 0.0 && layer < m->n_layer; layer++) {
        const float *load = rp_trainer_expert_load(t, layer);
        if (load == NULL) continue;
        for (int32_t e = 0; e < m->n_expert; e++) fprintf(f, "%s%.4g", e == 0 ? mark : ",", (double)load[e]);
        mark = "],[";
    }
    fputs(r->balance > 0.0 ? "]]}\n" : "}\n", f);
    return flush(log);
}

RpStatus cli_train_log_validation(TrainLog *log, int64_t step, double loss, size_t n_sequences) {
    if (log->f == NULL) return RP_OK;
    fprintf(log->f, "{\"step\":%lld,\"validation_loss\":", (long long)step);
    fprintf(log->f, isfinite(loss) ? "%.9g" : "null", loss); /* JSON has no NaN */
    fprintf(log->f, ",\"sequences\":%zu}\n", n_sequences);
    return flush(log);
}

/* Syncs the file and its entry in the folder. Pipes, and folders of some file systems, cannot be synced, which is not a
 * failure. */
static RpStatus sync_to_disk(TrainLog *log) {
    if (fsync(fileno(log->f)) != 0 && errno != EINVAL && errno != EROFS) return failed(log->path);
    char *path = strdup(log->path);
    if (path == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", log->path);
    const int      fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const RpStatus st = fd >= 0 || errno == EACCES ? RP_OK : failed(log->path);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(path);
    return st;
}

RpStatus cli_train_log_sync(TrainLog *log) {
    if (log->f == NULL) return RP_OK;
    RP_TRY(flush(log));
    return sync_to_disk(log);
}

RpStatus cli_train_log_close(TrainLog *log, RpStatus status) {
    if (log->f == NULL) return status;
    if (status == RP_OK) status = cli_train_log_sync(log);
    const bool closed = fclose(log->f) == 0;
    log->f            = NULL;
    return status != RP_OK || closed ? status : failed(log->path);
}
