/* machine.c - `reprise bench machine`: runs the measurements of machine.h and prints them.
 *
 * Decode reads all weights once for each token. Its speed is limited by the bandwidth of the memory, if the kernels
 * multiply at least as fast as weights arrive. So this command measures both: reading, and products in the cache. */
#include "cli/machine/machine.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/terminal/table.h"

#include "manifest/manifest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 256 << 20, MAX_COUNTS = 16 };

static struct {
    const char *file;
    int32_t     threads;
    bool        json, read_only, quiet;
} args;

typedef struct Report {
    int          counts[MAX_COUNTS], n_counts; /* numbers of threads */
    ReadPattern  patterns[MAX_COUNTS][READ_PATTERNS];
    size_t       read_bytes;
    MissLimit    misses;
    double       ghz;
    ProductSpeed products[MACHINE_TYPES];
} Report;

/* Maps the file of -f, or a buffer of BUFFER bytes. */
static RpStatus open_bytes(char **data, size_t *bytes) {
    *bytes = BUFFER;
    int fd = -1;
    if (args.file != NULL) {
        struct stat st;
        fd = open(args.file, O_RDONLY);
        if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
            if (fd >= 0) close(fd);
            return rp_fail(RP_E_IO, "%s cannot be read", args.file);
        }
        *bytes = (size_t)st.st_size;
    }
    *data = mmap(NULL, *bytes, fd < 0 ? PROT_READ | PROT_WRITE : PROT_READ,
                 fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE, fd, 0);
    if (fd >= 0) close(fd);
    if (*data == MAP_FAILED) return rp_fail(RP_E_NOMEM, "%zu bytes cannot be mapped", *bytes);
    if (args.file == NULL) memset(*data, 1, *bytes);
    return RP_OK;
}

/* 1, 2, 4, ... below the highest number, and that number. With --read only the latter. */
static void thread_counts(Report *r) {
    long all = args.threads > 0 ? args.threads : sysconf(_SC_NPROCESSORS_ONLN);
    if (all < 1) all = 1;
    if (!args.read_only)
        for (long n = 1; n < all && r->n_counts < MAX_COUNTS - 1; n *= 2) r->counts[r->n_counts++] = (int)n;
    r->counts[r->n_counts++] = (int)all;
}

static RpStatus measure_products(Report *r, Progress *p) {
    (void)cli_progress_step(p, "memory latency");
    RP_TRY(cli_miss_limit(&r->misses));
    r->ghz = cli_clock_ghz();
    (void)cli_progress_step(p, "software prefetch");
    RP_TRY(cli_choose_prefetch(r->counts[r->n_counts - 1]));
    for (int i = 0; i < MACHINE_TYPES; i++) {
        (void)cli_progress_step(p, "GEMV of %s", rp_dtype_name(cli_machine_type(i)));
        RP_TRY(cli_product_speed(cli_machine_type(i), &r->products[i]));
    }
    return RP_OK;
}

static RpStatus measure(Report *r, Progress *p) {
    char *data;
    thread_counts(r);
    RP_TRY(open_bytes(&data, &r->read_bytes));
    RpStatus st = RP_OK;
    for (int i = 0; i < r->n_counts && st == RP_OK; i++) {
        (void)cli_progress_step(p, "read bandwidth, threads: %d", r->counts[i]);
        st = cli_read_bandwidth(data, r->read_bytes, r->counts[i], r->patterns[i]);
    }
    munmap(data, r->read_bytes);
    return st != RP_OK || args.read_only ? st : measure_products(r, p);
}

/* KiB of a cache, by its name for sysconf; 0 if the C library does not know it. */
static long cache_kb(int name) {
    const long bytes = sysconf(name);
    return bytes > 0 ? bytes / 1024 : 0;
}

static RpStatus print_read(const Report *r) {
    char   columns[256] = "threads";
    size_t n            = strlen(columns);
    for (int i = 0; i < r->n_counts && n < sizeof columns; i++)
        n += (size_t)snprintf(columns + n, sizeof columns - n, "|>%d|", r->counts[i]);
    Table *t = cli_table_new(columns);
    printf("\nRead bandwidth of %.1f MB in GB/s, median of %d passes:\n", (double)r->read_bytes / 1e6, MACHINE_PASSES);
    for (int w = 0; w < READ_PATTERNS; w++) {
        cli_table_add(t, "%s", r->patterns[0][w].name);
        for (int i = 0; i < r->n_counts; i++) {
            cli_table_add(t, "%.2f", r->patterns[i][w].gb_s);
            cli_table_add(t, "%s", &r->patterns[i][w] == cli_best_pattern(r->patterns[i]) ? "*" : "");
        }
    }
    RP_TRY(cli_table_print(t, stdout, 2));
    puts("  * the best pattern: decode is compared with it");
    return RP_OK;
}

static RpStatus print_products(const Report *r) {
    Table *t = cli_table_new("type|>GB/s|>instructions per byte");
    printf("\nGEMV with the weights in the L2 cache, one thread:\n");
    for (int i = 0; i < MACHINE_TYPES; i++) {
        cli_table_add(t, "%s", rp_dtype_name(cli_machine_type(i)));
        cli_table_add(t, "%.2f", r->products[i].gb_s);
        if (r->products[i].instructions > 0.0)
            cli_table_add(t, "%.3f", r->products[i].instructions);
        else
            cli_table_add(t, "not counted");
    }
    return cli_table_print(t, stdout, 2);
}

/* The prefetch in use, and the trials by which it was chosen; none if REPRISE_PREFETCH set it. */
static void print_prefetch(void) {
    RpCpuPrefetchTrial t[8];
    char               text[16];
    const int          n = rp_cpu_prefetch_trials(t, 8);
    printf("\nSoftware prefetch: %s, %s\n", rp_cpu_prefetch_text(rp_cpu_prefetch(), text),
           n > 0 ? "measured; the first candidate within 10 % of the fastest" : "set by REPRISE_PREFETCH");
    if (n > 0)
        printf("  GEMV of Q8_0 weights from memory with %d thread%s, medians of %d rounds:", t[0].workers,
               t[0].workers > 1 ? "s" : "", t[0].rounds);
    for (int i = 0; i < n; i++)
        printf("%s %s %.2f GB/s", i > 0 ? "," : "", rp_cpu_prefetch_text(t[i].prefetch, text), t[i].bytes_per_s * 1e-9);
    if (n > 0) putchar('\n');
}

static RpStatus print_text(const Report *r) {
    char name[256];
    manifest_cpu_name(name, sizeof name);
    printf("%s, %ld cores, kernels for %s\n", name, sysconf(_SC_NPROCESSORS_ONLN), rp_cpu_isa_name(rp_cpu_isa()));
    if (!args.read_only) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
        printf("clock %.2f GHz; caches L1 %ld KB, L2 %ld KB, L3 %ld KB\n", r->ghz, cache_kb(_SC_LEVEL1_DCACHE_SIZE),
               cache_kb(_SC_LEVEL2_CACHE_SIZE), cache_kb(_SC_LEVEL3_CACHE_SIZE));
#else
        printf("clock %.2f GHz\n", r->ghz);
#endif
        printf("memory: latency %.0f ns, %.1f cache misses in flight per core, so random lines at %.2f GB/s\n",
               r->misses.latency_ns, r->misses.in_flight, 64.0 * r->misses.in_flight / r->misses.latency_ns);
    }
    RP_TRY(print_read(r));
    if (args.read_only) return RP_OK;
    print_prefetch();
    return print_products(r);
}

static void print_json(const Report *r) {
    char name[256], text[16];
    manifest_cpu_name(name, sizeof name);
    printf("{\"cpu\":");
    rp_put_json_string(name, strlen(name), stdout);
    printf(",\"isa\":\"%s\",\"read_bytes\":%zu,\"read\":[", rp_cpu_isa_name(rp_cpu_isa()), r->read_bytes);
    for (int i = 0; i < r->n_counts; i++) {
        printf("%s{\"threads\":%d,\"best_gb_s\":%.3f,\"gb_s\":{", i > 0 ? "," : "", r->counts[i],
               cli_best_pattern(r->patterns[i])->gb_s);
        for (int w = 0; w < READ_PATTERNS; w++)
            printf("%s\"%s\":%.3f", w > 0 ? "," : "", r->patterns[i][w].name, r->patterns[i][w].gb_s);
        printf("}}");
    }
    printf("]");
    if (!args.read_only) {
        RpCpuPrefetchTrial t[8];
        const int          n = rp_cpu_prefetch_trials(t, 8);
        printf(",\"ghz\":%.3f,\"latency_ns\":%.1f,\"misses_in_flight\":%.1f,\"prefetch\":\"%s\",\"prefetch_"
               "trials\":[",
               r->ghz, r->misses.latency_ns, r->misses.in_flight, rp_cpu_prefetch_text(rp_cpu_prefetch(), text));
        for (int i = 0; i < n; i++)
            printf("%s{\"prefetch\":\"%s\",\"gb_s\":%.3f}", i > 0 ? "," : "", rp_cpu_prefetch_text(t[i].prefetch, text),
                   t[i].bytes_per_s * 1e-9);
        printf("],\"products\":[");
        for (int i = 0; i < MACHINE_TYPES; i++)
            printf("%s{\"type\":\"%s\",\"gb_s\":%.3f,\"instructions_per_byte\":%.4f}", i > 0 ? "," : "",
                   rp_dtype_name(cli_machine_type(i)), r->products[i].gb_s, r->products[i].instructions);
        printf("]");
    }
    puts("}");
}

static int run(void) {
    static Report r;
    Progress      p  = {.label = "measuring", .off = args.quiet};
    RpStatus      st = measure(&r, &p);
    cli_progress_end(&p);
    if (st == RP_OK && args.json) print_json(&r);
    if (st == RP_OK && !args.json) st = print_text(&r);
    return cli_exit(st);
}

static const Option options[] = {
    CLI_FILE(FILE_READ, "file", 'f', args.file, "FILE", "file to read, such as a model; default: 256 MB of memory"),
    CLI_INT("threads", 't', args.threads, "N", "highest number of threads; 0 (default): one per core", 0, 512),
    CLI_FLAG("read", 0, args.read_only, "measure only the read bandwidth, with the highest number of threads"),
    OPTION_JSON(args.json),
    OPTION_QUIET(args.quiet),
};

const Command cli_command_machine = {
    .name      = "bench machine",
    .help      = "measure what limits decode on this CPU, and show the software prefetch chosen",
    .usage     = "[-f FILE] [options]",
    .notes     = "The machine: read bandwidth for several access patterns and numbers of threads, "
                 "memory latency, cache misses in flight, clock and caches. The CPU kernels: the "
                 "software prefetch chosen for this machine with its measurement, and for each weight "
                 "type the speed from cache and the instructions per byte. Takes about 10 seconds.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
