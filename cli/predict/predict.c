/* predict.c - `reprise bench launches --predict`: predicted tokens per second, a row for each file of counts and
 * GPU. */
#include "cli/predict/predict.h"

#include "cli/common.h"
#include "cli/terminal/table.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Steps {
    StepCounts *at;
    int         n;
} Steps;

/* Bytes of weights and KV cache per second, in percent of the DRAM bandwidth of the data sheet. */
static double percent(const Gpu *g, const TokenTime *t) { return t->bytes / (t->us * 1e3) / g->gb_s * 100.0; }

/* The kernels that take the most time of a token together, over all their launches. */
static int longest(const Gpu *g, const StepCounts *c) {
    int    best = 0;
    double most = 0.0;
    for (int i = 0; i < c->n_kernels; i++) {
        const double us = c->kernels[i].launches * cli_kernel_time(g, c, i).total;
        if (us > most) most = us, best = i;
    }
    return best;
}

static void add_row(Table *t, const Gpu *g, const StepCounts *c) {
    const TokenTime     time = cli_token_time(g, c);
    const int           i    = longest(g, c);
    const KernelCounts *k    = &c->kernels[i];
    const KernelTime    kt   = cli_kernel_time(g, c, i);
    cli_table_add(t, "%s", c->name);
    cli_table_add(t, "%d", c->position);
    cli_table_add(t, "%s", g->name);
    cli_table_add(t, "%.1f", 1e6 / time.us);
    cli_table_add(t, "%.0f%%", percent(g, &time));
    cli_table_add(t, "%.1f", 1e6 / time.without_pdl_us);
    cli_table_add(t, "%s", k->name);
    cli_table_add(t, "%.1f", kt.total);
    cli_table_add(t, "%s", cli_bound_names[kt.bound]);
}

static void put_text(const char *member, const char *text) {
    printf("\"%s\":", member);
    rp_put_json_string(text, strlen(text), stdout);
}

static void put_kernel(const KernelCounts *k, const KernelTime t) {
    putchar('{');
    put_text("name", k->name);
    putchar(',');
    put_text("node", k->node);
    printf(",\"launches\":%.0f,\"us\":%.4f,\"bound\":\"%s\"", k->launches, t.total, cli_bound_names[t.bound]);
    for (int b = 0; b < N_BOUNDS; b++) printf(",\"%s_us\":%.4f", cli_bound_names[b], t.limit[b]);
    printf(",\"hidden_us\":%.4f,\"serial_us\":%.4f}", t.hidden, t.serial);
}

/* The object of one file of counts on one GPU, with all kernels. */
static void put_row(const Gpu *g, const StepCounts *c, bool first) {
    const TokenTime t = cli_token_time(g, c);
    printf("%s{\"predicted\":true,", first ? "" : ",\n");
    put_text("counts", c->name);
    putchar(',');
    put_text("preset", c->preset);
    printf(",\"position\":%d,\"gpu\":\"%s\",\"us\":%.3f,\"tok_s\":%.3f,\"tok_s_without_pdl\":%.3f,\"bytes\":%"
           ".0f,"
           "\"percent_of_bandwidth\":%.2f,\"kernels\":[",
           c->position, g->name, t.us, 1e6 / t.us, 1e6 / t.without_pdl_us, t.bytes, percent(g, &t));
    for (int i = 0; i < c->n_kernels; i++) {
        if (i > 0) putchar(',');
        put_kernel(&c->kernels[i], cli_kernel_time(g, c, i));
    }
    printf("]}");
}

/* Reads one more file, unless it is of another preset. */
static RpStatus read_file(const char *path, const char *preset, Steps *s) {
    StepCounts c;
    RP_TRY(cli_counts_read(path, &c));
    if (preset != NULL && strcmp(preset, c.preset) != 0) {
        cli_counts_free(&c);
        return RP_OK;
    }
    StepCounts *grown = realloc(s->at, (size_t)(s->n + 1) * sizeof *grown);
    if (grown == NULL) {
        cli_counts_free(&c);
        return rp_fail(RP_E_NOMEM, "%s: out of memory", path);
    }
    s->at         = grown;
    s->at[s->n++] = c;
    return RP_OK;
}

static int is_counts(const struct dirent *e) {
    const char *dot = strrchr(e->d_name, '.');
    return dot != NULL && strcmp(dot, ".json") == 0;
}

/* Reads all *.json of a folder, in the order of their names. */
static RpStatus read_folder(const char *path, const char *preset, Steps *s) {
    struct dirent **files;
    const int       n  = scandir(path, &files, is_counts, alphasort);
    RpStatus        st = n >= 0 ? RP_OK : rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        char      file[4096];
        const int length = snprintf(file, sizeof file, "%s/%s", path, files[i]->d_name);
        if (st == RP_OK && length >= (int)sizeof file)
            st = rp_fail(RP_E_IO, "a path of %d bytes is too long: %s", length, file);
        if (st == RP_OK) st = read_file(file, preset, s);
        free(files[i]);
    }
    if (n >= 0) free(files);
    return st;
}

/* `path` is a file, a folder, or "-" for standard input. */
static RpStatus read_steps(const char *path, const char *preset, Steps *s) {
    struct stat info;
    const bool  input = strcmp(path, "-") == 0;
    if (!input && stat(path, &info) != 0) return rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
    RP_TRY(!input && S_ISDIR(info.st_mode) ? read_folder(path, preset, s) : read_file(path, preset, s));
    if (s->n > 0) return RP_OK;
    if (preset != NULL) return rp_fail(RP_E_ARG, "%s: no counts of preset '%s'", path, preset);
    return rp_fail(RP_E_ARG, "%s: no counts in it (files *.json of `reprise-sim bench counts --json`)", path);
}

static void print_json(const Steps *s, const Gpu *gpu) {
    bool first = true;
    putchar('[');
    for (int i = 0; i < s->n; i++)
        for (const Gpu *g = cli_gpus; g < cli_gpus + cli_n_gpus; g++) {
            if (gpu != NULL && gpu != g) continue;
            put_row(g, &s->at[i], first);
            first = false;
        }
    printf("]\n");
}

static RpStatus print_text(const Steps *s, const Gpu *gpu) {
    Table *t =
        cli_table_new("counts|>position|GPU|>predicted tok/s|>of bandwidth|>without PDL|longest kernels|>us|bound");
    for (int i = 0; i < s->n; i++)
        for (const Gpu *g = cli_gpus; g < cli_gpus + cli_n_gpus; g++)
            if (gpu == NULL || gpu == g) add_row(t, g, &s->at[i]);
    printf("predicted, not measured: a model of data sheets and counted instructions (docs/gpu-model.md)\n\n");
    return cli_table_print(t, stdout, 0);
}

RpStatus cli_predict(const char *path, const char *gpu, const char *preset, bool json) {
    const Gpu *g = NULL;
    Steps      s = {0};
    if (gpu != NULL) RP_TRY(cli_gpu_find(gpu, &g));
    RpStatus st = read_steps(path, preset, &s);
    if (st == RP_OK && json) print_json(&s, g);
    if (st == RP_OK && !json) st = print_text(&s, g);
    for (int i = 0; i < s.n; i++) cli_counts_free(&s.at[i]);
    free(s.at);
    return st;
}
