/* products.c - the CPU's product of a matrix of each weight type and few columns, one thread: GB/s of weights that lie
 * in the L2 cache, and instructions for each byte of weights.
 *
 *     REPRISE_ISA=avx2 build/bench_products [--repack] [--memory] [TYPE]
 *
 * With --repack the weights are repacked copies (base/repack.h), of the types that have the layout. With --memory they
 * are read from memory, and the first line has the GB/s at which a plain loop reads the same number of bytes.
 *
 *   instructions per byte = (count(32 rows) - count(16 rows)) / bytes of 16 rows
 *
 * The difference leaves out what does not depend on the rows, such as the packing of the columns. Counts are those of a
 * single-stepped child process, so they need no hardware counter. */
#include "base/kernels.h"
#include "base/repack.h"
#include "reprise/reprise.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* N, COUNT_N: elements of a row, for the speed and for the count. BYTE: of all operands, normal in every type. */
enum { N = 2048, COUNT_N = 1024, ALIGN = 64, BYTE = 0x3c, OPERANDS = 5 };
enum { CACHE_BYTES = 384 * 1024, MEMORY_BYTES = 96 << 20, CACHE_REPEATS = 60, MEMORY_REPEATS = 7 };

static const int64_t columns[] = {1, 2, 4, 8, 16};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static bool repacked, from_memory; /* --repack, --memory */

typedef struct Product {
    char       *memory[OPERANDS]; /* weights, columns, results, shared and local memory */
    RpOpArgs    args;
    RpOpParams  params;
    RpKernelCtx ctx;
    int         phases;
} Product;

static void *aligned(size_t bytes) {
    void *p = aligned_alloc(ALIGN, (bytes + 2 * ALIGN - 1) / ALIGN * ALIGN);
    if (p == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memset(p, BYTE, bytes);
}

static RpTensorView matrix(RpDtype dtype, int64_t n, int64_t rows, void *data) {
    return rp_view_contiguous(dtype, (int64_t[RP_MAX_DIMS]){n, rows, 1, 1}, data);
}

/* Replaces the weights by a repacked copy. */
static void repack(Product *p) {
    const RpTensorView from = p->args.src[0];
    const RpTensorView to   = rp_repacked_view(&from, NULL);
    char              *copy = aligned((size_t)rp_view_rows(&to) * to.nb[1]);
    p->args.src[0]          = rp_repacked_view(&from, copy);
    rp_repack(&from, &p->args.src[0], 0, rp_view_rows(&from) / RP_REPACKED_ROWS);
    free(p->memory[0]);
    p->memory[0] = copy;
}

static void make(RpDtype dtype, int64_t n, int64_t rows, int64_t n_cols, Product *p) {
    *p = (Product){
        .memory = {aligned((size_t)rows * rp_row_bytes(dtype, n)), aligned((size_t)n_cols * rp_row_bytes(RP_Q8_ACT, n)),
                   aligned((size_t)(rows * n_cols) * sizeof(float))}
    };
    p->args.dst    = matrix(RP_F32, rows, n_cols, p->memory[2]);
    p->args.src[0] = matrix(dtype, n, rows, p->memory[0]);
    p->args.src[1] = matrix(RP_Q8_ACT, n, n_cols, p->memory[1]);
    p->args.params = &p->params;
    if (repacked) repack(p);
    const CpuNeeds needs = rp_cpu_needs(RP_OP_MUL_MAT, &p->args);
    p->memory[3]         = aligned(needs.shared);
    p->memory[4]         = aligned(needs.local);
    p->ctx               = (RpKernelCtx){.nth = 1, .shared = p->memory[3], .local = p->memory[4]};
    p->phases            = needs.phases;
}

static void discard(Product *p) {
    for (int i = 0; i < OPERANDS; i++) free(p->memory[i]);
}

static void multiply(Product *p) {
    for (p->ctx.phase = 0; p->ctx.phase < p->phases; p->ctx.phase++)
        if (rp_cpu_kernel(RP_OP_MUL_MAT)(&p->args, &p->ctx) != RP_OK) {
            fprintf(stderr, "%s\n", rp_last_error());
            exit(1);
        }
}

/* Processor time, so that other programs cost little. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static size_t weight_bytes(void) { return from_memory ? MEMORY_BYTES : CACHE_BYTES; }

static int repeats(void) { return from_memory ? MEMORY_REPEATS : CACHE_REPEATS; }

/* Reads words of memory: the best of several times. */
static double plain_gb_s(void) {
    enum { WAYS = 8 };
    const size_t    n    = weight_bytes() / sizeof(uint64_t);
    uint64_t *const from = aligned(n * sizeof *from);
    double          best = 1e9;
    for (int r = 0; r < repeats(); r++) {
        uint64_t     sum[WAYS] = {0};
        const double start     = now();
        for (size_t i = 0; i + WAYS <= n; i += WAYS)
            for (int k = 0; k < WAYS; k++) sum[k] ^= from[i + (size_t)k];
        if (now() - start < best) best = now() - start;
        for (int k = 0; k < WAYS; k++) __asm__ volatile("" : : "r"(sum[k]));
    }
    free(from);
    return 1e-9 * (double)(n * sizeof *from) / best;
}

/* The best of several products. */
static double gb_s(RpDtype dtype, int64_t n_cols) {
    const size_t  row  = rp_row_bytes(dtype, N);
    const int64_t rows = (int64_t)(weight_bytes() / row) / 16 * 16; /* whole panels */
    Product       p;
    double        best = 1e9;
    make(dtype, N, rows, n_cols, &p);
    for (int i = 0; i < repeats(); i++) {
        const double start = now();
        multiply(&p);
        if (now() - start < best) best = now() - start;
    }
    discard(&p);
    return 1e-9 * (double)rows * (double)row / best;
}

/* Steps of a child process between its two SIGSTOPs: one product after a warm-up. */
static double count(RpDtype dtype, int64_t rows, int64_t n_cols) {
    Product p;
    double  steps  = 0.0;
    int     status = 0;
    make(dtype, COUNT_N, rows, n_cols, &p);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(1);
        multiply(&p);
        raise(SIGSTOP);
        multiply(&p);
        raise(SIGSTOP);
        _exit(0);
    }
    bool stopped = child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status);
    while (stopped) {
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0 || waitpid(child, &status, 0) != child ||
            !WIFSTOPPED(status)) {
            fprintf(stderr, "instructions cannot be counted here\n");
            exit(1);
        }
        if (WSTOPSIG(status) == SIGSTOP) break;
        steps += 1.0;
    }
    if (child > 0) {
        kill(child, SIGKILL);
        (void)waitpid(child, &status, 0);
    }
    discard(&p);
    return steps;
}

/* Whether the table has a line of this type. `only`: NULL, or the name of the one that was asked for. */
static bool is_listed(RpDtype dtype, const char *only) {
    const RpTensorView w = matrix(dtype, COUNT_N, 16, NULL);
    if (dtype == RP_Q8_ACT || (only != NULL && strcmp(only, rp_dtype_name(dtype)) != 0)) return false;
    return !repacked || rp_can_repack(&w);
}

int main(int argc, char **argv) {
    const char *only = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--repack") == 0)
            repacked = true;
        else if (strcmp(argv[i], "--memory") == 0)
            from_memory = true;
        else
            only = argv[i];
    }
    if (rp_cpu_isa_check() != RP_OK) {
        fprintf(stderr, "%s: %s\n", argv[0], rp_last_error());
        return 1;
    }
    printf("%s; GB/s and instructions per byte of weights", rp_cpu_isa_name(rp_cpu_isa()));
    if (from_memory) printf("; a plain loop reads %.2f GB/s", plain_gb_s());
    printf("\n%-7s", "columns");
    for (int i = 0; i < N_COLUMNS; i++) printf("%9d      ", (int)columns[i]);
    for (int type = RP_Q4_0; type < RP_DTYPE_COUNT; type++) {
        const RpDtype dtype = (RpDtype)type;
        if (!is_listed(dtype, only)) continue;
        printf("\n%-7s", rp_dtype_name(dtype));
        for (int i = 0; i < N_COLUMNS; i++) {
            const double more = count(dtype, 32, columns[i]) - count(dtype, 16, columns[i]);
            printf("%9.2f %5.3f", gb_s(dtype, columns[i]), more / (16.0 * (double)rp_row_bytes(dtype, COUNT_N)));
            fflush(stdout);
        }
    }
    putchar('\n');
    return 0;
}
