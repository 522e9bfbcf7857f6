/* graph.c - the decode step of a model as `reprise graph --dot --fold` prints it, drawn by `dot`, or as the page of
 * `reprise graph --html`. */
#include "server/jobs/graph.h"

#include "server/http/conn.h"
#include "server/http/guard.h"
#include "server/http/query.h"
#include "server/jobs/work.h"

#include "reprise/executor.h"
#include "reprise/options.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { DRAW_SECONDS = 30, WAIT_US = 1000, MOST_BYTES = 64 << 20, TIMED_POS = 128, TIMED_RUNS = 7 };

typedef struct Drawing {
    const Model  *model;
    bool          times;
    ComputeGraph *g;
    RpDumpNote   *notes; /* by node; or NULL */
    char          title[512];
} Drawing;

/* The times of the steps, medians of TIMED_RUNS runs. */
static RpStatus note_times(Drawing *d, const ExecPlan *plan, RpExecutor *e, int32_t pos) {
    const int n  = rp_plan_memory(plan).n_steps;
    double   *ns = calloc((size_t)n + 1, sizeof *ns), total = 0.0, top = 0.0;
    RpStatus  st = ns != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a graph");
    if (st == RP_OK) st = rp_executor_profile(e, TIMED_RUNS, ns, &total);
    for (int i = 0; i < n && st == RP_OK; i++) top = fmax(top, ns[i]);
    for (int i = 0; i < n && st == RP_OK; i++) {
        RpStepLaunch l;
        st = rp_executor_launch(e, i, &l);
        if (st != RP_OK) break;
        RpDumpNote *note = &d->notes[rp_node_number(l.node)];
        snprintf(note->text, sizeof note->text, "%.2f us  %.1f GB/s", ns[i] / 1e3,
                 ns[i] > 0.0 ? (double)l.bytes / ns[i] : 0.0);
        note->heat = top > 0.0 ? sqrt(ns[i] / top) : 0.0;
    }
    snprintf(d->title, sizeof d->title, "%.100s: %.1f us per token at position %d, medians of %d runs", d->model->name,
             total / 1e3, pos, TIMED_RUNS);
    free(ns);
    return st;
}

/* All elements of an input, if the model has it. */
static void set_input(RpExecutor *e, const ComputeGraph *g, const char *name, int32_t value) {
    const TensorNode *node = rp_graph_find(g, name);
    int32_t          *data = node != NULL ? rp_executor_data(e, node) : NULL;
    for (int64_t i = 0; data != NULL && i < rp_node_view(node).ne[0]; i++) data[i] = value;
}

/* The choice of the engine (RpEngineOptions.repack), if it made copies: these are shared. */
static const char *repack_of(const Model *m, const RpEngineOptions *o) {
    const char *option = rp_option(RP_OPT_REPACK);
    if (!m->repacked) return "off";
    if (o->repack != NULL) return o->repack;
    if (option[0] != '\0') return option;
    return o->n_seq == 1 ? "codebook" : "auto";
}

/* By an executor of its own, with the threads and weights of the engine. A KV cache of zeros takes as long as any. */
static RpStatus measure(Drawing *d, int32_t pos) {
    const RpEngineOptions   o    = worker_engine_options(d->model, d->model->model);
    const RpExecutorOptions open = {
        .n_threads = o.n_threads, .device = "cpu", .repack = repack_of(d->model, &o), .backend = o.backend};
    ExecPlan   *plan = NULL;
    RpExecutor *e    = NULL;
    d->notes         = calloc((size_t)rp_graph_n_nodes(d->g), sizeof *d->notes);
    RpStatus st      = d->notes != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a graph");
    if (st == RP_OK) st = rp_plan_new(d->g, &plan);
    if (st == RP_OK) st = rp_executor_open(plan, &open, &e);
    if (st == RP_OK) {
        set_input(e, d->g, "tokens", 1);
        set_input(e, d->g, "pos", pos);
        set_input(e, d->g, "out_rows", 0);
        set_input(e, d->g, "slots", 0); /* of recurrent layers */
        st = note_times(d, plan, e, pos);
    }
    rp_executor_free(e);
    rp_plan_free(plan);
    return st;
}

/* Writes a graph of the model to memory. */
typedef RpStatus WriteGraph(const Drawing *d, FILE *out);

static RpStatus write_dot(const Drawing *d, FILE *out) {
    const RpDumpOptions how = {.format = RP_DUMP_DOT, .fold = true, .title = d->title, .notes = d->notes};
    return rp_graph_dump(d->g, &how, out);
}

static RpStatus write_page(const Drawing *d, FILE *out) {
    return d->model->work->options->graph_page(d->model->model, d->g, d->model->n_ctx, out);
}

static RpStatus write_to_memory(const Drawing *d, WriteGraph *write_graph, char **text, size_t *n) {
    FILE *out = open_memstream(text, n);
    if (out == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a graph");
    const RpStatus st = write_graph(d, out);
    if (fclose(out) != 0 && st == RP_OK) return rp_fail(RP_E_NOMEM, "out of memory for a graph");
    return st;
}

static RpStatus make(Drawing *d, WriteGraph *write_graph, char **text, size_t *n) {
    const Model              *m   = d->model;
    const bool                cut = d->times && m->n_ctx > TIMED_POS;
    const RpModelGraphOptions o   = {.n_tok      = 1,
                                     .n_ctx      = cut ? TIMED_POS + 1 : m->n_ctx,
                                     .kv_type    = m->work->options->engine.kv_type,
                                     .embeddings = rp_model_info(m->model)->bidirectional};
    snprintf(d->title, sizeof d->title, "%s%s%s", m->name, m->backend[0] != '\0' ? ", backend " : "", m->backend);
    RP_TRY(rp_model_graph(m->model, &o, &d->g));
    RP_TRY(rp_graph_optimize(d->g, m->work->options->engine.passes));
    if (d->times) RP_TRY(measure(d, o.n_ctx - 1));
    return write_to_memory(d, write_graph, text, n);
}

/* Starts `dot -Tsvg` with pipes. False: there is no such program, or no descriptor. */
static bool start_dot(pid_t *pid, int *to, int *from) {
    static char                name[] = "dot", type[] = "-Tsvg";
    char                      *argv[] = {name, type, NULL};
    int                        in[2] = {-1, -1}, out[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    bool                       started = false;
    if (pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 && posix_spawn_file_actions_init(&actions) == 0) {
        started = posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO) == 0 &&
                  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO) == 0 &&
                  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
                  posix_spawnp(pid, name, &actions, NULL, argv, environ) == 0;
        posix_spawn_file_actions_destroy(&actions);
    }
    if (in[0] >= 0) close(in[0]);
    if (out[1] >= 0) close(out[1]);
    *to   = in[1];
    *from = out[0];
    if (started) return fcntl(*to, F_SETFL, O_NONBLOCK) == 0;
    if (*to >= 0) close(*to);
    if (*from >= 0) close(*from);
    return false;
}

/* Feeds the n bytes and reads the picture, until both ends are closed or the time is `end`. */
static void exchange_bytes(int *to, int from, const char *text, size_t n, double end, Bytes *svg) {
    size_t done = 0;
    char   piece[65536];
    while (http_now() < end && svg->n < MOST_BYTES) {
        struct pollfd p[2] = {
            {.fd = from, .events = POLLIN },
            {.fd = *to,  .events = POLLOUT}
        };
        if (poll(p, *to >= 0 ? 2 : 1, 1000) <= 0) continue;
        if (*to >= 0 && p[1].revents != 0) {
            const ssize_t k = write(*to, text + done, n - done);
            if (k > 0) done += (size_t)k;
            if (done == n || (k < 0 && errno != EAGAIN)) {
                close(*to);
                *to = -1;
            }
        }
        if (p[0].revents == 0) continue;
        const ssize_t k = read(from, piece, sizeof piece);
        if (k <= 0) return;
        bytes_put(svg, piece, (size_t)k);
    }
}

/* The status of a process, which is killed if it has not ended at the time `end`. */
static int wait_for(pid_t pid, double end) {
    int status = -1;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (http_now() >= end) (void)kill(pid, SIGKILL);
        usleep(WAIT_US);
    }
    return status;
}

/* False: `dot` gave no picture. On a busy machine it may end long after the picture. */
static bool draw(const char *text, size_t n, Bytes *svg) {
    const double end = http_now() + DRAW_SECONDS;
    pid_t        pid;
    int          to, from;
    if (!start_dot(&pid, &to, &from)) return false;
    exchange_bytes(&to, from, text, n, end, svg);
    if (to >= 0) close(to);
    close(from);
    const int status = wait_for(pid, end);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 && svg->n > 0 && !svg->failed;
}

/* Acquires the model of "?model=NAME" and writes its graph. False: the job has failed. The caller frees the text. */
static bool make_of_query(Job *j, WriteGraph *write_graph, bool times, char **text, size_t *n) {
    Drawing    d    = {.times = times};
    char      *name = http_query(j->query, "model");
    const bool got  = work_acquire(j, name);
    free(name);
    if (!got) return false;
    d.model           = j->model;
    const RpStatus st = make(&d, write_graph, text, n);
    rp_graph_free(d.g);
    free(d.notes);
    if (st == RP_OK) return true;
    free(*text);
    job_fail_status(j, st);
    return false;
}

static bool wants_times(const Job *j) {
    char      *value = http_query(j->query, "times");
    const bool wants = value != NULL && strcmp(value, "0") != 0;
    free(value);
    return wants;
}

static void prepare(Job *j) {
    char             *text = NULL;
    size_t            n    = 0;
    Bytes             svg  = {0};
    static const char note[] =
        "// Graphviz is not installed here, or could not draw this: dot -Tsvg makes a picture of it.\n";
    if (!make_of_query(j, write_dot, wants_times(j), &text, &n)) return;
    const bool drawn = draw(text, n, &svg);
    pthread_mutex_lock(&j->lock);
    if (drawn) {
        bytes_put(&j->out, svg.p, svg.n);
    } else {
        bytes_text(&j->out, note);
        bytes_put(&j->out, text, n);
    }
    pthread_mutex_unlock(&j->lock);
    bytes_free(&svg);
    free(text);
    job_finish(j, 200, drawn ? "image/svg+xml" : "text/vnd.graphviz; charset=utf-8");
}

static void prepare_page(Job *j) {
    char  *text = NULL;
    size_t n    = 0;
    if (!make_of_query(j, write_page, false, &text, &n)) return;
    pthread_mutex_lock(&j->lock);
    bytes_put(&j->out, text, n);
    j->policy = j->work->options->graph_page_policy;
    pthread_mutex_unlock(&j->lock);
    free(text);
    job_finish(j, 200, "text/html; charset=utf-8");
}

const JobType graph_job = {.prepare = prepare}, graph_page_job = {.prepare = prepare_page};
