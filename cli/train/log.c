/* The log of a training, one JSON object a line (JSON Lines):
 *
 *     {"step":1,"loss":8.31,"aux_loss":1.02,"grad_norm":1.5,"lr":1e-05,"tok_s":3100,"balance":1.2,
 *      "expert_load":[[..],[..]]}
 *     {"step":200,"validation_loss":4.5,"sequences":12}
 *
 * expert_load has the share of the choices that fell on each expert, one array for each layer with experts. */
#include "cli/train/train.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The offset behind the last line that stays: lines up to the first of a step after n, or to one without an end.
 * *validated: one of them is the validation after step n. */
static long end_of_steps(FILE *f, int64_t n, bool *validated) {
    char     *line = NULL;
    size_t    size = 0;
    long      end  = 0;
    long long step;
    for (ssize_t len; (len = getline(&line, &size, f)) > 0 && line[len - 1] == '\n'; end += (long)len) {
        if (sscanf(line, "{\"step\":%lld,", &step) != 1) continue;
        if (step > n) break;
        if (step == n && strstr(line, "\"validation_loss\"") != NULL) *validated = true;
    }
    free(line);
    return end;
}

RpStatus cli_train_log_open(TrainLog *log, const char *path, int64_t n) {
    *log = (TrainLog){.path = path};
    if (path == NULL) return RP_OK;
    log->f = n > 0 ? fopen(path, "r+") : NULL;
    if (log->f == NULL) log->f = fopen(path, "w");
    if (log->f == NULL) return rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
    const long end = n > 0 ? end_of_steps(log->f, n, &log->validated) : 0;
    if (n == 0 || (ftruncate(fileno(log->f), end) == 0 && fseek(log->f, end, SEEK_SET) == 0)) return RP_OK;
    const RpStatus st = rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
    fclose(log->f);
    log->f = NULL;
    return st;
}

static RpStatus flush(TrainLog *log) {
    if (fflush(log->f) == 0 && !ferror(log->f)) return RP_OK;
    return rp_fail(RP_E_IO, "%s: %s", log->path, strerror(errno));
}

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

RpStatus cli_train_log_close(TrainLog *log, RpStatus status) {
    if (log->f == NULL) return status;
    const bool closed = fclose(log->f) == 0;
    log->f            = NULL;
    return status != RP_OK || closed ? status : rp_fail(RP_E_IO, "%s: %s", log->path, strerror(errno));
}
