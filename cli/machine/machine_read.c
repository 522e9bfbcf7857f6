/* machine_read.c - memory as decode uses it: read bandwidth for several patterns, latency, cache misses in
 * flight; and the clock of a core. */
#include "cli/common.h"
#include "cli/machine/machine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LINE        = 64,
    STEP        = 4 * LINE,
    DISTANCE    = 4096,
    ROW         = 1152,
    ROWS        = 4,
    MAX_THREADS = 512
}; /* in bytes: LINE to ROW */

typedef uint64_t Sum;

/* Adds up n bytes, a multiple of STEP, in order. Prefetches DISTANCE bytes ahead, line by line. */
#define STREAM(name, prefetch)                                                                                         \
    static Sum name(const char *p, size_t n) {                                                                         \
        Sum lanes[16] = {0};                                                                                           \
        for (size_t i = 0; i < n; i += STEP) {                                                                         \
            for (size_t k = 0; k < STEP; k += LINE) prefetch(p + i + k + DISTANCE);                                    \
            for (size_t k = 0; k < STEP; k += sizeof lanes) {                                                          \
                Sum v[16];                                                                                             \
                memcpy(v, p + i + k, sizeof v);                                                                        \
                for (int l = 0; l < 16; l++) lanes[l] += v[l];                                                         \
            }                                                                                                          \
        }                                                                                                              \
        for (int l = 1; l < 16; l++) lanes[0] += lanes[l];                                                             \
        return lanes[0];                                                                                               \
    }
#define NO_PREFETCH(p) (void)(p)
#define TO_L1(p)       __builtin_prefetch(p, 0, 3)
#define TO_L2(p)       __builtin_prefetch(p, 0, 2)
STREAM(one_stream, NO_PREFETCH)
STREAM(one_stream_l1, TO_L1)
STREAM(one_stream_l2, TO_L2)

/* Reads row groups of ROWS rows, one line of each row in turn:
 *
 *   read       p[g + r * ROW + i]                       g: row group, r: row, i: line, all in bytes
 *   prefetch   p[g + ahead + ROWS * i + r * LINE]       a later row group in the order of its addresses
 *
 * `ahead` is the prefetch distance, rounded up to whole row groups so that each line is prefetched exactly
 * once. */
#define STREAMS(name, prefetch)                                                                                        \
    static Sum name(const char *p, size_t n) {                                                                         \
        Sum          sum   = 0;                                                                                        \
        const size_t group = ROWS * ROW, ahead = (DISTANCE + group - 1) / group * group;                               \
        for (size_t g = 0; g + group <= n; g += group)                                                                 \
            for (size_t i = 0; i < ROW; i += LINE)                                                                     \
                for (size_t r = 0; r < ROWS; r++) {                                                                    \
                    Sum v[8];                                                                                          \
                    prefetch(p + g + ahead + ROWS * i + r * LINE);                                                     \
                    memcpy(v, p + g + r * ROW + i, sizeof v);                                                          \
                    for (int l = 0; l < 8; l++) sum += v[l];                                                           \
                }                                                                                                      \
        return sum;                                                                                                    \
    }
STREAMS(four_streams_l1, TO_L1)
STREAMS(four_streams_l2, TO_L2)

typedef Sum ReadFunction(const char *p, size_t n);

static const struct {
    const char   *name;
    ReadFunction *read;
} table[READ_PATTERNS] = {
    {"one stream",                       one_stream     },
    {"one stream, prefetched into L1",   one_stream_l1  },
    {"one stream, prefetched into L2",   one_stream_l2  },
    {"four streams, prefetched into L1", four_streams_l1},
    {"four streams, prefetched into L2", four_streams_l2},
};

/* The main thread holds the lock while it starts the others, so that all run, or none if one cannot be started. */
typedef struct Gate {
    pthread_mutex_t   lock;
    bool              cancelled;
    pthread_barrier_t barrier;
} Gate;

typedef struct Reader {
    pthread_t   thread;
    Gate       *gate;
    const char *data;
    size_t      bytes;
    Sum         sum;                                    /* keeps the compiler from dropping the reads */
    double      seconds[READ_PATTERNS][MACHINE_PASSES]; /* wall time of all threads together */
} Reader;

/* The thread function. All threads begin each pattern together and the time ends with the last one, so every thread
 * measures the same wall time. The result is the time of thread 0. */
static void *read_all(void *arg) {
    Reader *r = arg;
    pthread_mutex_lock(&r->gate->lock);
    pthread_mutex_unlock(&r->gate->lock);
    if (r->gate->cancelled) return NULL;
    r->sum += one_stream(r->data, r->bytes); /* maps the pages */
    for (int pass = 0; pass < MACHINE_PASSES; pass++)
        for (int w = 0; w < READ_PATTERNS; w++) {
            pthread_barrier_wait(&r->gate->barrier);
            const double start = cli_now();
            r->sum += table[w].read(r->data, r->bytes);
            pthread_barrier_wait(&r->gate->barrier);
            r->seconds[w][pass] = cli_now() - start;
        }
    return NULL;
}

/* For qsort, in ascending order. */
static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

RpStatus cli_read_bandwidth(const char *data, size_t bytes, int threads, ReadPattern patterns[READ_PATTERNS]) {
    if (threads < 1 || threads > MAX_THREADS)
        return rp_fail(RP_E_ARG, "%d threads: must be from 1 to %d", threads, MAX_THREADS);
    const size_t slice_bytes = bytes / (size_t)threads / STEP * STEP;
    if (slice_bytes < STEP) return rp_fail(RP_E_ARG, "%zu bytes are too few to read", bytes);
    Reader *readers = calloc((size_t)threads, sizeof *readers);
    if (readers == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d threads", threads);
    Gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_barrier_init(&gate.barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++)
        readers[i] = (Reader){.gate = &gate, .data = data + (size_t)i * slice_bytes, .bytes = slice_bytes};
    int started = 1; /* this thread */
    pthread_mutex_lock(&gate.lock);
    while (started < threads && pthread_create(&readers[started].thread, NULL, read_all, &readers[started]) == 0)
        started++;
    gate.cancelled = started < threads;
    pthread_mutex_unlock(&gate.lock);
    (void)read_all(&readers[0]);
    for (int i = 1; i < started; i++) pthread_join(readers[i].thread, NULL);
    pthread_barrier_destroy(&gate.barrier);
    pthread_mutex_destroy(&gate.lock);
    if (gate.cancelled) {
        free(readers);
        return rp_fail(RP_E_NOMEM, "only %d of %d threads could be started", started, threads);
    }
    for (int w = 0; w < READ_PATTERNS; w++) {
        qsort(readers[0].seconds[w], MACHINE_PASSES, sizeof(double), by_value);
        patterns[w] = (ReadPattern){table[w].name, 1e-9 * (double)(slice_bytes * (size_t)threads) /
                                                       readers[0].seconds[w][MACHINE_PASSES / 2]};
    }
    volatile Sum keep = readers[0].sum;
    (void)keep;
    free(readers);
    return RP_OK;
}

const ReadPattern *cli_best_pattern(const ReadPattern patterns[READ_PATTERNS]) {
    int best = 0;
    for (int w = 1; w < READ_PATTERNS; w++)
        if (patterns[w].gb_s > patterns[best].gb_s) best = w;
    return &patterns[best];
}

/* ---- latency ---- */

enum { NODES = 1 << 21, MAX_CHAINS = 32, HOPS = 1 << 15 }; /* NODES lines: 128 MB */

/* Makes a linked list: the first word of each line is the number of the next. It is one random cycle of all
 * lines. */
static void link_lines(char *lines) {
    for (uint32_t i = 0; i < NODES; i++) *(uint32_t *)(void *)(lines + (size_t)i * LINE) = i;
    uint64_t state = 88172645463325252u;
    for (uint32_t i = NODES - 1; i > 0; i--) { /* Sattolo's shuffle gives one cycle */
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        const uint32_t j = (uint32_t)(state % i);
        uint32_t      *a = (uint32_t *)(void *)(lines + (size_t)i * LINE),
                 *b      = (uint32_t *)(void *)(lines + (size_t)j * LINE);
        const uint32_t t = *a;
        *a = *b, *b = t;
    }
}

/* Follows n independent chains at once. Returns the seconds per load. */
static double chase(const char *lines, int n) {
    uint32_t at[MAX_CHAINS];
    for (int c = 0; c < n; c++) at[c] = (uint32_t)((uint64_t)c * NODES / MAX_CHAINS);
    const double start = cli_now();
    for (int h = 0; h < HOPS; h++)
        for (int c = 0; c < n; c++) at[c] = *(const volatile uint32_t *)(const void *)(lines + (size_t)at[c] * LINE);
    const double      seconds = cli_now() - start;
    volatile uint32_t keep    = at[n - 1];
    (void)keep;
    return seconds / HOPS / n;
}

RpStatus cli_miss_limit(MissLimit *out) {
    const size_t bytes = (size_t)NODES * LINE;
    char        *lines = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (lines == MAP_FAILED) return rp_fail(RP_E_NOMEM, "out of memory: %zu bytes to measure the latency", bytes);
#ifdef MADV_HUGEPAGE
    (void)madvise(lines, bytes, MADV_HUGEPAGE); /* otherwise TLB misses would add to the latency */
#endif
    link_lines(lines);
    double one = 1e9, many = 1e9;
    for (int pass = 0; pass < 3; pass++) {
        const double s = chase(lines, 1);
        if (s < one) one = s;
        for (int n = 8; n <= MAX_CHAINS; n += 4) {
            const double t = chase(lines, n);
            if (t < many) many = t;
        }
    }
    munmap(lines, bytes);
    *out = (MissLimit){1e9 * one, one / many};
    return RP_OK;
}

double cli_clock_ghz(void) {
    enum { N = 20000000, UNROLLED = 8 };
    double best = 1e9;
    for (int pass = 0; pass < 3; pass++) {
        uint64_t     x = 1, y = (uint64_t)pass + 3;
        const double start = cli_now();
        for (int i = 0; i < N / UNROLLED; i++)
#pragma GCC unroll 8
            for (int k = 0; k < UNROLLED; k++) {
                x += y;
                __asm__ volatile("" : "+r"(x), "+r"(y));
            }
        const double seconds = cli_now() - start;
        if (seconds < best) best = seconds;
    }
    return 1e-9 * N / best;
}
