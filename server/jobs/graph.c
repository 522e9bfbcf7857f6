/* graph.c - the decode step of a model as `reprise graph --dot --fold` prints it, drawn by `dot`, or as the page of
 * `reprise graph --html`. */
#include "server/jobs/graph.h"

#include "server/http/conn.h"
#include "server/http/guard.h"
#include "server/jobs/work.h"

#include "reprise/graph.h"

#include <errno.h>
#include <event2/http.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { DRAW_SECONDS = 30, MOST_BYTES = 64 << 20 };

/* Writes a graph of the model to memory. */
typedef RpStatus WriteGraph(const Model *m, const ComputeGraph *g, FILE *out);

static RpStatus write_dot(const Model *m, const ComputeGraph *g, FILE *out) {
    return rp_graph_dump(g, &(RpDumpOptions){.format = RP_DUMP_DOT, .fold = true, .title = m->name}, out);
}

static RpStatus write_page(const Model *m, const ComputeGraph *g, FILE *out) {
    return m->work->options->graph_page(m->model, g, m->n_ctx, out);
}

static RpStatus make(const Model *m, WriteGraph *write_graph, char **text, size_t *n) {
    const RpModelGraphOptions o = {.n_tok      = 1,
                                   .n_ctx      = m->n_ctx,
                                   .kv_type    = m->work->options->engine.kv_type,
                                   .embeddings = rp_model_info(m->model)->bidirectional};
    ComputeGraph             *g;
    RP_TRY(rp_model_graph(m->model, &o, &g));
    RpStatus st  = rp_graph_optimize(g, m->work->options->engine.passes);
    FILE    *out = st == RP_OK ? open_memstream(text, n) : NULL;
    if (st == RP_OK && out == NULL) st = rp_fail(RP_E_NOMEM, "out of memory for a graph");
    if (st == RP_OK) st = write_graph(m, g, out);
    if (out != NULL && fclose(out) != 0 && st == RP_OK) st = rp_fail(RP_E_NOMEM, "out of memory for a graph");
    rp_graph_free(g);
    return st;
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

/* Feeds the n bytes and reads the picture, until both ends are closed or time is over. */
static void exchange_bytes(int *to, int from, const char *text, size_t n, Bytes *svg) {
    const double end  = http_now() + DRAW_SECONDS;
    size_t       done = 0;
    char         piece[65536];
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

/* False: `dot` gave no picture. */
static bool draw(const char *text, size_t n, Bytes *svg) {
    pid_t pid;
    int   to, from, status = -1;
    if (!start_dot(&pid, &to, &from)) return false;
    exchange_bytes(&to, from, text, n, svg);
    if (to >= 0) close(to);
    close(from);
    if (waitpid(pid, &status, WNOHANG) == 0) {
        usleep(100000);
        if (waitpid(pid, &status, WNOHANG) == 0) {
            kill(pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
        }
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 && svg->n > 0 && !svg->failed;
}

/* Acquires the model of "?model=NAME" and writes its graph. False: the job has failed. The caller frees the text. */
static bool make_of_query(Job *j, WriteGraph *write_graph, char **text, size_t *n) {
    char      *name = strncmp(j->query, "model=", 6) == 0 ? evhttp_uridecode(j->query + 6, 1, NULL) : NULL;
    const bool got  = work_acquire(j, name);
    free(name);
    if (!got) return false;
    const RpStatus st = make(j->model, write_graph, text, n);
    if (st == RP_OK) return true;
    free(*text);
    job_fail_status(j, st);
    return false;
}

static void prepare(Job *j) {
    char             *text = NULL;
    size_t            n    = 0;
    Bytes             svg  = {0};
    static const char note[] =
        "// Graphviz is not installed here, or could not draw this: dot -Tsvg makes a picture of it.\n";
    if (!make_of_query(j, write_dot, &text, &n)) return;
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
    if (!make_of_query(j, write_page, &text, &n)) return;
    pthread_mutex_lock(&j->lock);
    bytes_put(&j->out, text, n);
    j->policy = j->work->options->graph_page_policy;
    pthread_mutex_unlock(&j->lock);
    free(text);
    job_finish(j, 200, "text/html; charset=utf-8");
}

const JobType graph_job = {.prepare = prepare}, graph_page_job = {.prepare = prepare_page};
