/* interpreter.c - overhead of the CPU interpreter per node: a chain of NODES ops on one element, each
 * followed by a barrier of all threads. */
#include "reprise/executor.h"

#include <stdio.h>
#include <time.h>

enum { NODES = 1000, RUNS = 200, MAX_THREADS = 2 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of one run of the plan: the best of RUNS, which no other program disturbed, and the mean. */
static RpStatus measure(const ExecPlan *plan, int threads, double *best, double *mean) {
    RpExecutor *e;
    RP_TRY(rp_executor_open(plan, &(RpExecutorOptions){.n_threads = threads}, &e));
    RpStatus     st    = rp_executor_run(e);
    const double begin = now();
    *best              = 1e9;
    for (int i = 0; i < RUNS && st == RP_OK; i++) {
        const double start = now();
        st                 = rp_executor_run(e);
        if (now() - start < *best) *best = now() - start;
    }
    *mean = (now() - begin) / RUNS;
    rp_executor_free(e);
    return st;
}

int main(void) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *y = rp_graph_input(g, "x", RP_F32, (int64_t[]){1, 1, 1, 1});
    for (int i = 0; i < NODES; i++) y = rp_scale(g, y, 1.0f, 0.0f);
    ExecPlan *plan = NULL;
    RpStatus  st   = rp_graph_finish(g, &y, 1);
    if (st == RP_OK) st = rp_plan_new(g, &plan);
    printf("Interpreter overhead per node, ops on one element:");
    for (int threads = 1; threads <= MAX_THREADS && st == RP_OK; threads++) {
        double best = 0.0, mean = 0.0;
        st = measure(plan, threads, &best, &mean);
        printf("%s %.0f ns with %d thread%s (mean %.0f)", threads > 1 ? "," : "", best / NODES * 1e9, threads,
               threads > 1 ? "s" : "", mean / NODES * 1e9);
    }
    printf(".\n");
    if (st != RP_OK) fprintf(stderr, "%s\n", rp_last_error());
    rp_plan_free(plan);
    rp_graph_free(g);
    return st != RP_OK;
}
