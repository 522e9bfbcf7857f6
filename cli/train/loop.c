/* The loop of a training: sequences, step, log, validation, checkpoint. A run ends after its steps or minutes, or
 * after the step in which Ctrl-C was pressed; each end leaves a file from which it can go on. */
#include "cli/train/train.h"

#include "cli/terminal/style.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* sequences of a validation; lines of a run without a terminal */
enum { MAX_EVALUATED = 512, PLAIN_LINES = 40 };

static const double checkpoint_seconds = 300.0;

typedef struct Loop {
    const TrainArgs   *args;
    const RpModelInfo *model;
    RpTrainer         *t;
    const Corpus      *corpus;
    TrainLog           log;
    Progress           progress;
    int32_t            seq, *ids; /* [accumulate][batch][seq + 1] */
    size_t             n_sequences, *places;
    int32_t           *held; /* [n_held][seq + 1], evenly spaced */
    size_t             n_held;
    int64_t            first, saved; /* steps before this run; steps in the latest checkpoint, -1: none */
    const char        *saved_in;     /* its path */
    double             begin, saved_at;
    StepReport         last;
    bool               terminal;
} Loop;

/* The largest share of tokens of an expert, as a multiple of an equal share. */
static double balance_of(const Loop *l) {
    float largest = 0.0f;
    for (int32_t layer = 0; layer < l->model->n_layer; layer++) {
        const float *load = rp_trainer_expert_load(l->t, layer);
        for (int32_t e = 0; load != NULL && e < l->model->n_expert; e++)
            if (load[e] > largest) largest = load[e];
    }
    return (double)largest * l->model->n_expert;
}

/* ---- messages ---- */

/* A line that stays, on stderr. */
static void say(Loop *l, const char *fmt, ...) RP_PRINTF(2, 3);
static void say(Loop *l, const char *fmt, ...) {
    va_list ap;
    if (l->args->quiet) return;
    cli_progress_clear();
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

/* Writes "loss 2.3456, 1234 tok/s, balance 1.20"; dense models have no balance. */
static void describe(const StepReport *r, char *buf, size_t size) {
    int n = snprintf(buf, size, "loss %.4f, %.0f tok/s", r->result.loss, r->tokens_per_s);
    if (r->balance > 0.0 && n > 0 && (size_t)n < size)
        snprintf(buf + n, size - (size_t)n, ", balance %.2f", r->balance);
}

/* Share of the run that is done, by steps or by minutes. */
static double share_done(const Loop *l) {
    const TrainArgs *a     = l->args;
    const double     steps = (double)(rp_trainer_n_steps(l->t) - l->first) / (double)(a->steps - l->first);
    const double     time  = a->minutes > 0.0f ? (cli_now() - l->begin) / (60.0 * (double)a->minutes) : 0.0;
    return fmin(fmax(steps, time), 1.0);
}

/* The bar on a terminal; elsewhere a line from time to time. */
static void report(Loop *l) {
    const int64_t step = l->last.result.step, every = l->args->steps > PLAIN_LINES ? l->args->steps / PLAIN_LINES : 1;
    char          text[64];
    describe(&l->last, text, sizeof text);
    if (l->terminal) {
        snprintf(l->progress.step, sizeof l->progress.step, "%lld, %s", (long long)step, text);
        (void)cli_progress(&l->progress, share_done(l), 1.0);
    } else if (step % every == 0 || step == l->args->steps || step == l->first + 1)
        say(l, "step %lld of %d: %s, lr %.3g", (long long)step, l->args->steps, text, l->last.result.lr);
}

/* ---- validation ---- */

/* Chooses sequences of the held-out tokens, at most MAX_EVALUATED, evenly spaced. */
static RpStatus choose_held(Loop *l) {
    const size_t width = (size_t)l->seq + 1, all = l->corpus->held.n / width;
    l->n_held = all < MAX_EVALUATED ? all : MAX_EVALUATED;
    if (l->n_held == 0) return RP_OK;
    l->held = malloc(l->n_held * width * sizeof *l->held);
    if (l->held == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu sequences", l->n_held);
    for (size_t i = 0; i < l->n_held; i++)
        memcpy(l->held + i * width, l->corpus->held.ids + i * all / l->n_held * width, width * sizeof *l->held);
    return RP_OK;
}

/* The mean loss of the held-out sequences. Ctrl-C ends it without a result. */
static RpStatus validate(Loop *l) {
    const size_t width = (size_t)l->seq + 1, batch = (size_t)l->args->batch;
    double       sum = 0.0, loss;
    for (size_t i = 0; i < l->n_held; i += batch) {
        const size_t n = l->n_held - i < batch ? l->n_held - i : batch;
        RP_TRY(rp_trainer_evaluate(l->t, l->held + i * width, n, &loss));
        sum += loss * (double)n;
        snprintf(l->progress.step, sizeof l->progress.step, "%lld, validation of %zu sequences",
                 (long long)rp_trainer_n_steps(l->t), l->n_held);
        (void)cli_progress(&l->progress, share_done(l), 1.0);
        if (cli_interrupted()) return RP_OK;
    }
    const double mean = sum / (double)l->n_held;
    say(l, "step %lld of %d: validation loss %.4f", (long long)rp_trainer_n_steps(l->t), l->args->steps, mean);
    return cli_train_log_validation(&l->log, rp_trainer_n_steps(l->t), mean, l->n_held);
}

/* After every eval_every steps and after the last one, if tokens are held out. */
static bool validation_is_due(const Loop *l) {
    const int64_t step = rp_trainer_n_steps(l->t);
    return l->n_held > 0 && (step % l->args->eval_every == 0 || step == l->args->steps);
}

/* The run before was interrupted between its last step and the end of the validation after it. */
static bool validation_was_interrupted(const Loop *l) {
    return l->first > 0 && l->log.f != NULL && !l->log.validated && validation_is_due(l);
}

/* ---- steps ---- */

/* Writes a checkpoint, unless the latest one has this step and this path already. */
static RpStatus save(Loop *l) {
    const bool is_there = l->saved == rp_trainer_n_steps(l->t) && strcmp(l->saved_in, l->args->checkpoint) == 0;
    if (is_there) return RP_OK;
    RP_TRY(cli_train_log_sync(&l->log)); /* a run that resumes the checkpoint finds the lines of its steps */
    RP_TRY(rp_trainer_save(l->t, l->args->checkpoint));
    l->saved    = rp_trainer_n_steps(l->t);
    l->saved_in = l->args->checkpoint;
    l->saved_at = cli_now();
    return RP_OK;
}

static bool checkpoint_is_due(const Loop *l) {
    if (l->args->checkpoint_every > 0) return rp_trainer_n_steps(l->t) % l->args->checkpoint_every == 0;
    return cli_now() - l->saved_at > checkpoint_seconds;
}

/* Adds to the error of a step from which sequences it came, and what is left. */
static RpStatus step_failed(const Loop *l, RpStatus status) {
    char   places[160] = "";
    size_t n           = 0;
    for (size_t i = 0; i < l->n_sequences && n < sizeof places - 32; i++)
        n += (size_t)snprintf(places + n, sizeof places - n, "%s%zu", i > 0 ? ", " : "", l->places[i]);
    if (n >= sizeof places - 32) snprintf(places + n, sizeof places - n, ", ...");
    if (l->saved < 0)
        return rp_fail(status, "%s; sequences at tokens %s; there is no checkpoint yet", rp_last_error(), places);
    return rp_fail(status, "%s; sequences at tokens %s; %s has step %lld", rp_last_error(), places, l->saved_in,
                   (long long)l->saved);
}

/* Chooses the sequences of the step, trains on them, writes the log line and reports. */
static RpStatus step(Loop *l) {
    const double start = cli_now();
    cli_train_sequences(&l->corpus->train, l->seq, l->args->seed, rp_trainer_n_steps(l->t), l->n_sequences, l->ids,
                        l->places);
    const RpStatus st = rp_trainer_step(l->t, l->ids, &l->last.result);
    if (st != RP_OK) return step_failed(l, st);
    l->last.tokens_per_s = (double)l->last.result.n_targets / fmax(cli_now() - start, 1e-9);
    l->last.balance      = balance_of(l);
    RP_TRY(cli_train_log_step(&l->log, &l->last, l->t, l->model));
    report(l);
    return RP_OK;
}

/* The time limit ends a run after its first step at the earliest, so that repeated runs come to an end. */
static bool is_done(const Loop *l) {
    if (rp_trainer_n_steps(l->t) >= l->args->steps) return true;
    return rp_trainer_n_steps(l->t) > l->first && l->args->minutes > 0.0f &&
           cli_now() - l->begin >= 60.0 * (double)l->args->minutes;
}

/* A signal ends the run after its step: the checkpoint is written, and the message says how to go on. */
static RpStatus interrupted(Loop *l) {
    RP_TRY(save(l));
    say(l, "interrupted after step %lld: the same command with --resume %s goes on", (long long)l->saved,
        l->args->checkpoint);
    return rp_fail(RP_E_CANCELLED, "interrupted");
}

/* The first validation, before any step, gives the loss of the model as it came. */
static RpStatus run(Loop *l) {
    (void)cli_progress(&l->progress, 0.0, 1.0); /* starts its clock */
    if ((l->n_held > 0 && l->first == 0) || validation_was_interrupted(l)) RP_TRY(validate(l));
    while (!is_done(l) && !cli_interrupted()) {
        RP_TRY(step(l));
        if (!cli_interrupted() && validation_is_due(l)) RP_TRY(validate(l));
        if (!cli_interrupted() && checkpoint_is_due(l)) RP_TRY(save(l));
    }
    if (cli_interrupted()) return interrupted(l);
    RP_TRY(save(l));
    return rp_trainer_export(l->t, l->args->output, l->args->type);
}

static RpStatus open_loop(Loop *l) {
    const size_t accumulate = (size_t)l->args->accumulate, width = (size_t)l->seq + 1;
    l->n_sequences = accumulate * (size_t)l->args->batch;
    l->ids         = malloc(l->n_sequences * width * sizeof *l->ids);
    l->places      = malloc(l->n_sequences * sizeof *l->places);
    if (l->ids == NULL || l->places == NULL)
        return rp_fail(RP_E_NOMEM, "out of memory for %zu sequences of %zu tokens", l->n_sequences, width);
    RP_TRY(choose_held(l));
    return cli_train_log_open(&l->log, l->args->log, l->first);
}

RpStatus cli_train_loop(const TrainArgs *a, const RpModel *m, RpTrainer *t, const Corpus *c) {
    Loop l = {
        .args     = a,
        .model    = rp_model_info(m),
        .t        = t,
        .corpus   = c,
        .seq      = a->seq,
        .progress = {.label = "step", .off = a->quiet},
        .first    = rp_trainer_n_steps(t),
        .saved    = a->resume != NULL ? rp_trainer_n_steps(t) : -1,
        .saved_in = a->resume,
        .begin    = cli_now(),
        .saved_at = cli_now(),
        .terminal = cli_is_terminal(stderr)
    };
    RpStatus st = open_loop(&l);
    if (st == RP_OK) st = run(&l);
    cli_progress_end(&l.progress);
    st = cli_train_log_close(&l.log, st);
    if (st == RP_OK)
        say(&l, "%s: %lld of %d steps, %.1f s; checkpoint %s", a->output, (long long)rp_trainer_n_steps(t), a->steps,
            cli_now() - l.begin, a->checkpoint);
    free(l.ids);
    free(l.places);
    free(l.held);
    return st;
}
