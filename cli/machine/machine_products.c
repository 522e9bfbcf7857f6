/* machine_products.c - speed and instruction count of the CPU's GEMV for each weight type, and the choice of
 * the software prefetch.
 *
 *   instructions per byte = (count(32 rows) - count(16 rows)) / bytes of 16 rows
 *
 * The difference leaves out the instructions of a call that do not depend on the number of rows. */
#include "cli/common.h"
#include "cli/machine/machine.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/ptrace.h>
#include <sys/wait.h>
#endif

/* N, SHORT_N: elements of a row, for the speed and for the count. CACHE_BYTES: of weights, which an L2 cache holds. */
enum { N = 2048, SHORT_N = 1024, CACHE_BYTES = 384 * 1024, ALIGN = 64, BYTE = 0x3c };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { REPEATS = 4, MAX_STEPS = 1000 }; /* speeds and counts of instrumented code say nothing, and take half a minute */
#else
enum { REPEATS = 60, MAX_STEPS = 30000 };
#endif

typedef struct Product {
    char      *rows, *column;
    float     *result;
    RpOpArgs   args;
    RpOpParams params;
} Product;

/* Memory at a multiple of ALIGN bytes, whose bytes are BYTE; NULL: out of memory. */
static void *aligned(size_t bytes) {
    void *p = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
    if (p != NULL) memset(p, BYTE, bytes);
    return p;
}

static void free_product(Product *p) {
    free(p->rows);
    free(p->column);
    free(p->result);
}

/* The operands of mul_mat(weights [rows, n], column [n]). The time depends on the values only if some are subnormal, as
 * the scale of zeroed MXFP4 blocks is. Bytes of BYTE are normal numbers in every type and place. */
static RpStatus new_product(RpDtype dtype, int64_t n, int64_t rows, Product *p) {
    *p = (Product){.rows   = aligned((size_t)rows * rp_row_bytes(dtype, n)),
                   .column = aligned(rp_row_bytes(RP_Q8_ACT, n)),
                   .result = aligned((size_t)rows * sizeof(float))};
    if (p->rows == NULL || p->column == NULL || p->result == NULL) {
        free_product(p);
        return rp_fail(RP_E_NOMEM, "out of memory for a product");
    }
    p->params                       = (RpOpParams){.mul_mat = {.bound = RP_BOUND_NONE}};
    const int64_t ne_w[RP_MAX_DIMS] = {n, rows, 1, 1}, ne_x[RP_MAX_DIMS] = {n, 1, 1, 1};
    const int64_t ne_y[RP_MAX_DIMS] = {rows, 1, 1, 1};
    p->args.mul_mat.w               = rp_view_contiguous(dtype, ne_w, p->rows);
    p->args.mul_mat.x               = rp_view_contiguous(RP_Q8_ACT, ne_x, p->column);
    p->args.dst                     = rp_view_contiguous(RP_F32, ne_y, p->result);
    return RP_OK;
}

/* Runs the CPU kernel of mul_mat as the only worker. args.params points into the same struct, so it is set at each
 * use. */
static RpStatus multiply(Product *p) {
    p->args.params = &p->params;
    return rp_cpu_kernel(RP_OP_MUL_MAT)(&p->args, &(RpKernelCtx){.ith = 0, .nth = 1});
}

/* GB/s of weights, the best of REPEATS products that stay in the L2 cache. */
static RpStatus speed(RpDtype dtype, double *gb_s) {
    const size_t  row  = rp_row_bytes(dtype, N);
    const int64_t rows = (int64_t)(CACHE_BYTES / row);
    Product       p;
    RP_TRY(new_product(dtype, N, rows, &p));
    double   best = 1e9;
    RpStatus st   = RP_OK;
    for (int i = 0; i < REPEATS && st == RP_OK; i++) {
        const double start   = cli_now();
        st                   = multiply(&p);
        const double seconds = cli_now() - start;
        if (seconds < best) best = seconds;
    }
    free_product(&p);
    *gb_s = 1e-9 * (double)rows * (double)row / best;
    return st;
}

/* Instructions of one product of `rows` rows and the call around it: a child process is single-stepped from
 * its first SIGUSR1 to its second; others may send it SIGSTOP. 0: cannot be counted, or more than MAX_STEPS. */
static double count(RpDtype dtype, int64_t rows) {
#ifdef __linux__
    Product p;
    if (new_product(dtype, SHORT_N, rows, &p) != RP_OK) return 0.0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || multiply(&p) != RP_OK) _exit(1); /* a warm-up */
        raise(SIGUSR1);
        const RpStatus st = multiply(&p);
        raise(SIGUSR1);
        _exit(st != RP_OK);
    }
    double n       = 0.0;
    int    status  = 0;
    bool   counted = false;
    if (child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        while (n < MAX_STEPS && ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0 &&
               waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
            if (WSTOPSIG(status) == SIGUSR1) {
                counted = true;
                break;
            }
            n += 1.0;
        }
        kill(child, SIGKILL);
        (void)waitpid(child, &status, 0);
    }
    free_product(&p);
    return counted ? n : 0.0;
#else
    return (void)dtype, (void)rows, 0.0;
#endif
}

RpStatus cli_product_speed(RpDtype dtype, ProductSpeed *out) {
    enum { FEW = 16, MANY = 32 };
    RP_TRY(speed(dtype, &out->gb_s));
    const double few = count(dtype, FEW), many = few > 0.0 ? count(dtype, MANY) : 0.0;
    out->instructions =
        few > 0.0 && many > few ? (many - few) / ((double)(MANY - FEW) * (double)rp_row_bytes(dtype, SHORT_N)) : 0.0;
    return RP_OK;
}

/* ---- software prefetch ---- */

enum { CHAIN = 48, CHAIN_N = 1024, CHAIN_M = 2048 }; /* weights of 2 MB each in Q8_0 */

/* Builds a graph of CHAIN products with one column and opens an executor on it, which measures the prefetch on its
 * weights. Together they are larger than caches, as those of a model are. */
static RpStatus open_chain(ComputeGraph *g, char *weights, int threads) {
    const size_t each = rp_row_bytes(RP_Q8_0, CHAIN_N) * CHAIN_M;
    TensorNode  *x = rp_graph_input(g, "x", RP_F32, (int64_t[]){CHAIN_N, 1, 1, 1}), *sum = NULL;
    for (int i = 0; i < CHAIN; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        const RpTensorView view =
            rp_view_contiguous(RP_Q8_0, (int64_t[]){CHAIN_N, CHAIN_M, 1, 1}, weights + (size_t)i * each);
        TensorNode *y = rp_mul_mat(g, rp_graph_weight(g, name, &view), x);
        sum           = sum == NULL ? y : rp_add(g, sum, y);
    }
    ExecPlan   *plan = NULL;
    RpExecutor *exec = NULL;
    RP_TRY(rp_graph_finish(g, &sum, 1));
    RP_TRY(rp_graph_optimize(g, NULL));
    RP_TRY(rp_plan_new(g, &plan));
    const RpStatus st = rp_executor_open(plan, &(RpExecutorOptions){.device = "cpu", .n_threads = threads}, &exec);
    rp_executor_free(exec);
    rp_plan_free(plan);
    return st;
}

RpStatus cli_choose_prefetch(int threads) {
    const size_t  bytes   = rp_row_bytes(RP_Q8_0, CHAIN_N) * CHAIN_M * CHAIN;
    char         *weights = malloc(bytes);
    ComputeGraph *g       = rp_graph_new();
    RpStatus      st =
        weights != NULL && g != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for %zu bytes of weights", bytes);
    if (st == RP_OK) {
        memset(weights, 0, bytes);
        st = open_chain(g, weights, threads);
    }
    rp_graph_free(g);
    free(weights);
    return st;
}
