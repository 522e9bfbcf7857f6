#include "cli/machine.h"
#include "cli/commands.h"
#include "cli/common.h"

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
    bool        json, read_only;
} args;

typedef struct Report {
    int          counts[MAX_COUNTS], n_counts; /* of threads */
    ReadWay      ways[MAX_COUNTS][READ_WAYS];
    size_t       read_bytes;
    MissLimit    misses;
    double       ghz;
    ProductSpeed products[MACHINE_TYPES];
} Report;

static void cpu_name(char *out, size_t n) {
    FILE *f = fopen("/proc/cpuinfo", "r");
    char  line[256];
    snprintf(out, n, "unknown CPU");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(out, n, "%s", colon + 2);
        break;
    }
    if (f != NULL) fclose(f);
}

/* The file's bytes, or a buffer. */
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
    if (*data == MAP_FAILED) return rp_fail(RP_E_NOMEM, "no %zu bytes could be mapped", *bytes);
    if (args.file == NULL) memset(*data, 1, *bytes);
    return RP_OK;
}

/* 1, 2, 4, ... and all. */
static void thread_counts(Report *r) {
    long all = args.threads > 0 ? args.threads : sysconf(_SC_NPROCESSORS_ONLN);
    if (all < 1) all = 1;
    if (!args.read_only)
        for (long n = 1; n < all && r->n_counts < MAX_COUNTS - 1; n *= 2) r->counts[r->n_counts++] = (int)n;
    r->counts[r->n_counts++] = (int)all;
}

static RpStatus measure(Report *r) {
    char *data;
    thread_counts(r);
    RP_TRY(open_bytes(&data, &r->read_bytes));
    RpStatus st = RP_OK;
    for (int i = 0; i < r->n_counts && st == RP_OK; i++)
        st = cli_read_bandwidth(data, r->read_bytes, r->counts[i], r->ways[i]);
    munmap(data, r->read_bytes);
    if (st != RP_OK || args.read_only) return st;
    RP_TRY(cli_miss_limit(&r->misses));
    r->ghz = cli_clock_ghz();
    RP_TRY(cli_choose_prefetch(r->counts[r->n_counts - 1]));
    for (int i = 0; i < MACHINE_TYPES; i++) RP_TRY(cli_product_speed(cli_machine_types[i], &r->products[i]));
    return RP_OK;
}

static long cache_kb(int name) {
    const long bytes = sysconf(name);
    return bytes > 0 ? bytes / 1024 : 0;
}

static void print_read(const Report *r) {
    printf("\nReads of %.1f MB, GB/s (median of %d passes):\n  %-34s", (double)r->read_bytes / 1e6,
           MACHINE_PASSES, "threads");
    for (int i = 0; i < r->n_counts; i++) printf(" %8d", r->counts[i]);
    putchar('\n');
    for (int w = 0; w < READ_WAYS; w++) {
        printf("  %-34s", r->ways[0][w].name);
        for (int i = 0; i < r->n_counts; i++)
            printf(" %8.2f%s", r->ways[i][w].gb_s, &r->ways[i][w] == cli_best_way(r->ways[i]) ? "*" : "");
        putchar('\n');
    }
    puts("  * the best: decode is compared with it");
}

static void print_prefetch(void) {
    CpuPrefetchTrial t[8];
    char             text[16];
    const int        n = rp_cpu_prefetch_trials(t, 8);
    printf("\nSoftware prefetch: %s, %s\n", rp_cpu_prefetch_text(rp_cpu_prefetch(), text),
           n > 0 ? "the default unless another is 10 % faster" : "as REPRISE_PREFETCH says");
    if (n > 0)
        printf("  decode of Q8_0 rows from memory with %d thread%s, best of %d:", t[0].workers,
               t[0].workers > 1 ? "s" : "", t[0].rounds);
    for (int i = 0; i < n; i++)
        printf("%s %s %.2f GB/s", i > 0 ? "," : "", rp_cpu_prefetch_text(t[i].prefetch, text),
               t[i].bytes_per_s * 1e-9);
    if (n > 0) putchar('\n');
}

static void print_text(const Report *r) {
    char name[256];
    cpu_name(name, sizeof name);
    printf("%s, %ld cores, kernels for %s\n", name, sysconf(_SC_NPROCESSORS_ONLN),
           rp_cpu_isa_name(rp_cpu_isa()));
    if (!args.read_only) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
        printf("clock %.2f GHz; caches L1 %ld KB, L2 %ld KB, L3 %ld KB\n", r->ghz,
               cache_kb(_SC_LEVEL1_DCACHE_SIZE), cache_kb(_SC_LEVEL2_CACHE_SIZE),
               cache_kb(_SC_LEVEL3_CACHE_SIZE));
#else
        printf("clock %.2f GHz\n", r->ghz);
#endif
        printf("memory: latency %.0f ns, %.1f cache misses in flight a core, so random lines at %.2f GB/s\n",
               r->misses.latency_ns, r->misses.in_flight, 64.0 * r->misses.in_flight / r->misses.latency_ns);
    }
    print_read(r);
    if (args.read_only) return;
    print_prefetch();
    printf("\nProducts with one column in the L2 cache, one thread:\n  %-8s %10s %22s\n", "type", "GB/s",
           "instructions a byte");
    for (int i = 0; i < MACHINE_TYPES; i++) {
        printf("  %-8s %10.2f ", rp_dtype_name(cli_machine_types[i]), r->products[i].gb_s);
        if (r->products[i].instructions > 0.0)
            printf("%22.3f\n", r->products[i].instructions);
        else
            printf("%22s\n", "not counted");
    }
}

static void print_json(const Report *r) {
    char name[256], text[16];
    cpu_name(name, sizeof name);
    printf("{\"cpu\":");
    cli_json_string(stdout, name, strlen(name));
    printf(",\"isa\":\"%s\",\"read_bytes\":%zu,\"read\":[", rp_cpu_isa_name(rp_cpu_isa()), r->read_bytes);
    for (int i = 0; i < r->n_counts; i++) {
        printf("%s{\"threads\":%d,\"best_gb_s\":%.3f,\"gb_s\":{", i > 0 ? "," : "", r->counts[i],
               cli_best_way(r->ways[i])->gb_s);
        for (int w = 0; w < READ_WAYS; w++)
            printf("%s\"%s\":%.3f", w > 0 ? "," : "", r->ways[i][w].name, r->ways[i][w].gb_s);
        printf("}}");
    }
    printf("]");
    if (!args.read_only) {
        CpuPrefetchTrial t[8];
        const int        n = rp_cpu_prefetch_trials(t, 8);
        printf(",\"ghz\":%.3f,\"latency_ns\":%.1f,\"misses_in_flight\":%.1f,\"prefetch\":\"%s\",\"prefetch_"
               "trials\":[",
               r->ghz, r->misses.latency_ns, r->misses.in_flight,
               rp_cpu_prefetch_text(rp_cpu_prefetch(), text));
        for (int i = 0; i < n; i++)
            printf("%s{\"prefetch\":\"%s\",\"gb_s\":%.3f}", i > 0 ? "," : "",
                   rp_cpu_prefetch_text(t[i].prefetch, text), t[i].bytes_per_s * 1e-9);
        printf("],\"products\":[");
        for (int i = 0; i < MACHINE_TYPES; i++)
            printf("%s{\"type\":\"%s\",\"gb_s\":%.3f,\"instructions_per_byte\":%.4f}", i > 0 ? "," : "",
                   rp_dtype_name(cli_machine_types[i]), r->products[i].gb_s, r->products[i].instructions);
        printf("]");
    }
    puts("}");
}

static int run(void) {
    static Report  r;
    const RpStatus st = measure(&r);
    if (st != RP_OK) return cli_exit(st);
    if (args.json)
        print_json(&r);
    else
        print_text(&r);
    return EXIT_OK;
}

static const Option options[] = {
    CLI_TEXT("file", 'f', args.file, "FILE", "what is read, such as a model; default: 256 MB of memory"),
    CLI_INT("threads", 't', args.threads, "N", "the most threads, 0 (default): one a core", 0, 512),
    CLI_FLAG("read", 0, args.read_only, "only the read bandwidth, with the most threads"),
    OPTION_JSON(args.json),
};

const Command cli_command_machine = {
    .name  = "bench machine",
    .help  = "measure what limits decode on this CPU, and the prefetch that is chosen",
    .usage = "[-f FILE] [options]",
    .notes = "Read bandwidth by several ways and numbers of threads, latency of memory and cache misses in\n"
             "flight, clock and caches; then what the CPU kernels make of them: the software prefetch that\n"
             "is chosen for this machine with the measurement behind it, speed in cache and instructions a\n"
             "byte of each weight type. Takes some 10 seconds.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
