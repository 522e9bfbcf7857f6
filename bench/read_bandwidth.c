/* What a plain loop that adds up a file's bytes, or as many of memory, reads a second: the limit of a decode
 * step, which reads every weight once.
 *
 *   bench_read_bandwidth [THREADS [FILE | MEGABYTES]]     one thread and 256 MB unless told */
#include "executor/median.h"
#include "executor/pool.h"
#include "fallback/simd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PASSES = 15, LANES = 32, PAGE = 4096 };

typedef struct Span {
    const char *data;
    size_t      bytes;
    uint64_t    sums[RP_POOL_MAX];
} Span;

RP_BODY void add_up_body(const char *data, size_t bytes, uint64_t *sum) {
    uint64_t lanes[LANES] = {0};
    for (size_t i = 0; i + sizeof lanes <= bytes; i += sizeof lanes) {
        uint64_t v[LANES];
        memcpy(v, data + i, sizeof v);
        for (int l = 0; l < LANES; l++) lanes[l] += v[l];
    }
    for (int l = 0; l < LANES; l++) *sum += lanes[l];
}
RP_VARIANTS(add_up, (const char *data, size_t bytes, uint64_t *sum), (data, bytes, sum))

static RpStatus read_share(void *arg, int ith, int nth) {
    Span        *s     = arg;
    const size_t pages = s->bytes / PAGE, first = pages * (size_t)ith / (size_t)nth * PAGE;
    const size_t end = pages * (size_t)(ith + 1) / (size_t)nth * PAGE;
    add_up(s->data + first, end - first, &s->sums[ith]);
    return RP_OK;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static RpStatus open_span(const char *what, Span *s) {
    char        *end;
    const size_t megabytes = strtoul(what, &end, 10);
    if (*end == '\0' && megabytes > 0) {
        s->bytes   = megabytes << 20;
        char *data = aligned_alloc(PAGE, s->bytes);
        if (data == NULL) return rp_fail(RP_E_NOMEM, "no %zu MB", megabytes);
        s->data = memset(data, 1, s->bytes);
        return RP_OK;
    }
    const int   fd = open(what, O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) return rp_fail(RP_E_IO, "%s cannot be read", what);
    s->bytes   = (size_t)st.st_size;
    void *data = mmap(NULL, s->bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED) return rp_fail(RP_E_IO, "%s cannot be mapped", what);
    s->data = data;
    return RP_OK;
}

static RpStatus measure(int threads, Span *s) {
    ThreadPool *pool;
    double      rates[PASSES], low = 1e9, high = 0.0;
    RP_TRY(rp_pool_new(threads, 20, &pool));
    RpStatus st = rp_pool_run(pool, read_share, s); /* a first pass, for the pages */
    for (int i = 0; i < PASSES && st == RP_OK; i++) {
        const double start = now();
        st                 = rp_pool_run(pool, read_share, s);
        rates[i]           = (double)s->bytes / (now() - start) * 1e-9;
        low                = rates[i] < low ? rates[i] : low;
        high               = rates[i] > high ? rates[i] : high;
    }
    rp_pool_free(pool);
    if (st == RP_OK)
        printf("%.1f MB by %d thread%s: %.2f GB/s median (%.2f .. %.2f)\n", (double)s->bytes * 1e-6, threads,
               threads > 1 ? "s" : "", rp_median(rates, PASSES), low, high);
    return st;
}

int main(int argc, char **argv) {
    static Span span;
    RpStatus    st = open_span(argc > 2 ? argv[2] : "256", &span);
    if (st == RP_OK) st = measure(argc > 1 ? atoi(argv[1]) : 1, &span);
    if (st != RP_OK) fprintf(stderr, "%s\n", rp_last_error());
    return st != RP_OK;
}
