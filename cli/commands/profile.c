/* profile.c - `reprise profile`: times every node of one decode step and prints a table, JSON, a drawing or
 * a trace. The times are those of rp_executor_profile.
 *
 *     GB/s        bytes that the node reads and writes / its time
 *     % of copy   GB/s / bandwidth of a copy in the memory of the GPU, measured in the same run */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/diff/graph_source.h"
#include "cli/nodes.h"
#include "cli/page/page.h"
#include "cli/terminal/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *model, *passes, *kv, *dot, *html, *trace;
    int32_t     pos, runs, threads, top;
    DeviceArgs  device;
    bool        fold, json, quiet;
} args = {.pos = 128, .runs = 20, .top = 12};

enum { COPY_BYTES = 256 << 20, MAX_OPS = 64 };

typedef struct Profile {
    ComputeGraph  *g;
    ExecPlan      *plan;
    RpExecutor    *e;
    RpExecutorInfo info;
    int            n_steps;
    double        *ns; /* ns[i]: time of step i */
    RpStepLaunch  *steps;
    Progress       progress;
    double         total_ns, sum_ns, copy; /* copy: bandwidth of a copy, bytes per second; 0: not measured */
} Profile;

typedef struct OpTime {
    const char *op;
    int         n;
    double      ns, bytes;
} OpTime;

/* Builds the decode step with a KV cache of pos + 1 positions. The caller frees the members, also after a failure. */
static RpStatus open_profile(const RpModel *m, Profile *p) {
    RpExecutorOptions   o     = {.n_threads     = args.threads,
                                 .device        = args.device.name,
                                 .require_cuda  = args.device.require_cuda,
                                 .require_graph = args.device.require_graph,
                                 .repack        = args.device.repack,
                                 .watchdog_s    = (double)args.device.watchdog_s};
    RpModelGraphOptions graph = {.n_tok = 1, .n_ctx = args.pos + 1};
    if (o.repack == NULL) o.repack = rp_option(RP_OPT_REPACK)[0] != '\0' ? rp_option(RP_OPT_REPACK) : "codebook";
    if (graph.n_ctx > rp_model_info(m)->n_ctx_train)
        return rp_fail(RP_E_ARG, "position %d: the model was trained for %d", args.pos, rp_model_info(m)->n_ctx_train);
    RP_TRY(cli_mode(args.device.mode, &o.mode));
    RP_TRY(cli_kv_type(args.kv, &graph.kv_type));
    RP_TRY(rp_model_graph(m, &graph, &p->g));
    RP_TRY(rp_graph_optimize(p->g, args.passes));
    RP_TRY(rp_plan_new(p->g, &p->plan));
    RP_TRY(rp_executor_open(p->plan, &o, &p->e));
    p->info    = rp_executor_info(p->e);
    p->n_steps = rp_plan_memory(p->plan).n_steps;
    p->ns      = calloc((size_t)p->n_steps, sizeof *p->ns);
    p->steps   = calloc((size_t)p->n_steps, sizeof *p->steps);
    cli_report_fallback(&p->info, o.mode);
    return p->ns != NULL && p->steps != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a profile");
}

/* Times the step at position args.pos. The KV cache before it holds zeros, which take as long as any values. */
static RpStatus measure(Profile *p) {
    *(int32_t *)rp_executor_data(p->e, rp_graph_find(p->g, "tokens"))   = 1;
    *(int32_t *)rp_executor_data(p->e, rp_graph_find(p->g, "pos"))      = args.pos;
    *(int32_t *)rp_executor_data(p->e, rp_graph_find(p->g, "out_rows")) = 0;
    const TensorNode *slots = rp_graph_find(p->g, "slots"); /* of recurrent layers: before and after the token */
    for (int i = 0; slots != NULL && i < 2; i++) ((int32_t *)rp_executor_data(p->e, slots))[i] = 0;
    const double start = cli_now();
    RP_TRY(rp_executor_run(p->e));
    if (!cli_progress_step(&p->progress, "%d runs, about %.0f s", args.runs,
                           ceil(2.0 * args.runs * (cli_now() - start))))
        return rp_fail(RP_E_CANCELLED, "interrupted");
    RP_TRY(rp_executor_profile(p->e, args.runs, p->ns, &p->total_ns));
    for (int i = 0; i < p->n_steps; i++) {
        RP_TRY(rp_executor_launch(p->e, i, &p->steps[i]));
        p->sum_ns += p->ns[i];
    }
    RpDeviceMemory d;
    RP_TRY(rp_device_memory(args.device.name, args.device.require_cuda, &d));
    if (d.is_own) RP_TRY(rp_cuda_copy_bandwidth(d.index, COPY_BYTES, &p->copy));
    return RP_OK;
}

/* Adds GB/s and, on a GPU, the percentage of the copy bandwidth. */
static void add_rate(Table *t, const Profile *p, double bytes, double ns) {
    cli_table_add(t, "%.1f", ns > 0.0 ? bytes / ns : 0.0);
    if (p->copy > 0.0) cli_table_add(t, "%.1f", ns > 0.0 ? 100.0 * bytes / ns * 1e9 / p->copy : 0.0);
}

/* A node of a fifth of the time or more has the colour of an error, one of a tenth or more that of a warning. */
static Style heat(double share) { return share >= 0.2 ? STYLE_ERROR : share >= 0.1 ? STYLE_WARNING : STYLE_PLAIN; }

static int by_time(const void *a, const void *b) {
    const OpTime *x = a, *y = b;
    return (x->ns < y->ns) - (x->ns > y->ns);
}

/* Sums the steps by op, the op that takes longest first. Returns the number of ops. */
static int sum_ops(const Profile *p, OpTime ops[MAX_OPS]) {
    int n = 0;
    for (int i = 0; i < p->n_steps; i++) {
        const char *op = rp_node_op_name(p->steps[i].node);
        int         k  = 0;
        while (k < n && strcmp(ops[k].op, op) != 0) k++;
        if (k == MAX_OPS) continue;
        if (k == n) ops[n++] = (OpTime){.op = op};
        ops[k].n++;
        ops[k].ns += p->ns[i];
        ops[k].bytes += (double)p->steps[i].bytes;
    }
    qsort(ops, (size_t)n, sizeof *ops, by_time);
    return n;
}

/* `left`: a copy of the times; those that are printed become -1. */
static RpStatus print_slowest(const Profile *p, double *left) {
    Table *t = cli_table_new(p->copy > 0.0 ? "slowest|node|>us|>GB/s|>% of copy" : "slowest|node|>us|>GB/s");
    for (int k = 0; k < args.top && k < p->n_steps; k++) {
        int best = 0;
        for (int i = 1; i < p->n_steps; i++)
            if (left[i] > left[best]) best = i;
        cli_table_add(t, "%s", rp_node_op_name(p->steps[best].node));
        cli_table_add(t, "%s", rp_node_name(p->steps[best].node));
        cli_table_add(t, "%.2f", p->ns[best] / 1e3);
        cli_table_style(t, heat(p->ns[best] / p->sum_ns));
        add_rate(t, p, (double)p->steps[best].bytes, p->ns[best]);
        left[best] = -1.0;
    }
    return cli_table_print(t, stdout, 0);
}

/* Prints a row for each op, with its share of the sum of all nodes. */
static RpStatus print_ops(const Profile *p) {
    OpTime    ops[MAX_OPS];
    const int n = sum_ops(p, ops);
    Table    *t = cli_table_new(p->copy > 0.0 ? "op|>nodes|>us|>share|>GB/s|>% of copy" : "op|>nodes|>us|>share|>GB/s");
    for (int i = 0; i < n; i++) {
        cli_table_add(t, "%s", ops[i].op);
        cli_table_add(t, "%d", ops[i].n);
        cli_table_add(t, "%.1f", ops[i].ns / 1e3);
        cli_table_add(t, "%.1f%%", 100.0 * ops[i].ns / p->sum_ns);
        cli_table_style(t, heat(ops[i].ns / p->sum_ns));
        add_rate(t, p, ops[i].bytes, ops[i].ns);
    }
    return cli_table_print(t, stdout, 0);
}

static RpStatus print_text(const Profile *p) {
    printf("%s, %s, %s: one token at position %d, medians of %d runs\n", p->info.device, p->info.device_name,
           rp_mode_name(p->info.mode), args.pos, args.runs);
    printf("decode step %.1f us; sum of its nodes %.1f us", p->total_ns / 1e3, p->sum_ns / 1e3);
    if (p->copy > 0.0) printf("; copy bandwidth %.0f GB/s", p->copy / 1e9);
    printf("\n\n");
    RP_TRY(print_ops(p));
    double *left = malloc((size_t)p->n_steps * sizeof *left);
    if (left == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a profile");
    memcpy(left, p->ns, (size_t)p->n_steps * sizeof *left);
    putchar('\n');
    const RpStatus st = print_slowest(p, left);
    free(left);
    return st;
}

/* The steps with their times, then the graph with the same times, which `reprise graph --diff` reads. */
static RpStatus print_json(const Profile *p) {
    RpDumpNote *notes = cli_new_notes(p->g);
    if (notes == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a profile");
    printf("{\"device\":\"%s\",\"device_name\":", p->info.device);
    rp_put_json_string(p->info.device_name, strlen(p->info.device_name), stdout);
    printf(",\"mode\":\"%s\",\"pos\":%d,\"runs\":%d,\"total_us\":%.3f,\"copy_bytes_s\":%.0f,\"steps\":[",
           rp_mode_name(p->info.mode), args.pos, args.runs, p->total_ns / 1e3, p->copy);
    for (int i = 0; i < p->n_steps; i++) {
        printf("%s\n{\"node\":%d,\"op\":\"%s\",\"name\":", i > 0 ? "," : "", rp_node_number(p->steps[i].node),
               rp_node_op_name(p->steps[i].node));
        rp_put_json_string(rp_node_name(p->steps[i].node), strlen(rp_node_name(p->steps[i].node)), stdout);
        printf(",\"us\":%.3f,\"bytes\":%zu}", p->ns[i] / 1e3, p->steps[i].bytes);
        notes[rp_node_number(p->steps[i].node)].us = p->ns[i] / 1e3;
    }
    printf("],\n\"graph\":");
    const RpStatus st = rp_graph_dump(p->g, &(RpDumpOptions){.format = RP_DUMP_JSON, .notes = notes}, stdout);
    printf("}\n");
    free(notes);
    return st;
}

/* ---- drawing and trace ---- */

/* The title of a drawing or page: where the step ran, and how long it took. */
static void describe(const Profile *p, char *buf, size_t size) {
    snprintf(buf, size, "%s, %s, %s: %.1f us per token at position %d", p->info.device, p->info.device_name,
             rp_mode_name(p->info.mode), p->total_ns / 1e3, args.pos);
}

/* The heat of a node, which colours it, is the square root of its share of the slowest time. So nodes of a tenth of
 * that time still show. */
static RpStatus write_dot(const Profile *p) {
    RpDumpNote *notes = cli_new_notes(p->g);
    RpNewFile  *file;
    FILE       *out;
    double      top = 0.0;
    char        title[256];
    if (notes == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a drawing");
    for (int i = 0; i < p->n_steps; i++) top = fmax(top, p->ns[i]);
    for (int i = 0; i < p->n_steps; i++) {
        RpDumpNote  *note = &notes[rp_node_number(p->steps[i].node)];
        const double rate = p->ns[i] > 0.0 ? (double)p->steps[i].bytes / p->ns[i] : 0.0;
        int          n    = snprintf(note->text, sizeof note->text, "%.2f us  %.1f GB/s", p->ns[i] / 1e3, rate);
        if (p->copy > 0.0)
            snprintf(note->text + n, sizeof note->text - (size_t)n, "  %.0f %%", 100.0 * rate * 1e9 / p->copy);
        note->heat = top > 0.0 ? sqrt(p->ns[i] / top) : 0.0;
    }
    describe(p, title, sizeof title);
    RpStatus st = cli_open_output(args.dot, &file, &out);
    if (st == RP_OK) {
        const RpDumpOptions o = {.format = RP_DUMP_DOT, .fold = args.fold, .title = title, .notes = notes};
        st                    = rp_graph_dump(p->g, &o, out);
        st                    = cli_close_output(file, st);
    }
    free(notes);
    return st;
}

static RpStatus write_html(const Profile *p, const RpModel *m) {
    RpDumpNote *notes = cli_new_notes(p->g);
    char        title[256], times[256];
    if (notes == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a page");
    for (int i = 0; i < p->n_steps; i++) notes[rp_node_number(p->steps[i].node)].us = p->ns[i] / 1e3;
    describe(p, times, sizeof times);
    cli_graph_title(m, 1, args.pos + 1, title, sizeof title);
    const RpStatus st =
        cli_page_graph(m, p->g, &(PageOptions){.title = title, .times = times, .notes = notes}, args.html);
    free(notes);
    return st;
}

/* Trace event format of chrome://tracing and ui.perfetto.dev, one track per layer. Steps are laid end to end. */
static RpStatus write_trace(const Profile *p) {
    RpNewFile *file;
    FILE      *out;
    double     at = 0.0;
    char       name[512];
    RP_TRY(cli_open_output(args.trace, &file, &out));
    snprintf(name, sizeof name, "%s, %s, %s", p->info.device, p->info.device_name, rp_mode_name(p->info.mode));
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
          "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{\"name\":",
          out);
    rp_put_json_string(name, strlen(name), out);
    fputs("}}", out);
    for (int i = 0; i < p->n_steps; i++) {
        const TensorNode *node = p->steps[i].node;
        fprintf(out, ",\n{\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\",\"name\":",
                rp_node_layer(node) + 1, at / 1e3, p->ns[i] / 1e3, rp_node_op_name(node));
        rp_put_json_string(rp_node_name(node), strlen(rp_node_name(node)), out);
        fprintf(out, ",\"args\":{\"bytes\":%zu,\"gb_s\":%.2f}}", p->steps[i].bytes,
                p->ns[i] > 0.0 ? (double)p->steps[i].bytes / p->ns[i] : 0.0);
        at += p->ns[i];
    }
    fprintf(out, "\n]}\n");
    return cli_close_output(file, RP_OK);
}

static bool is_stdout(const char *path) { return path != NULL && strcmp(path, "-") == 0; }

static int run(void) {
    Profile p = {
        .progress = {.label = "timing every node", .off = args.quiet}
    };
    RpModel *m  = NULL;
    RpStatus st = cli_open_model(args.model, &args.device, args.quiet, &m);
    if (st == RP_OK) st = open_profile(m, &p);
    if (st == RP_OK) st = measure(&p);
    cli_progress_end(&p.progress);
    if (st == RP_OK && args.dot != NULL) st = write_dot(&p);
    if (st == RP_OK && args.html != NULL) st = write_html(&p, m);
    if (st == RP_OK && args.trace != NULL) st = write_trace(&p);
    if (st == RP_OK && args.json) st = print_json(&p);
    if (st == RP_OK && !args.json && !is_stdout(args.dot) && !is_stdout(args.html)) st = print_text(&p);
    rp_executor_free(p.e);
    rp_plan_free(p.plan);
    rp_graph_free(p.g);
    rp_model_free(m);
    free(p.ns);
    free(p.steps);
    return cli_exit(st);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    CLI_INT("pos", 0, args.pos, "N", "position of the token, default 128", 0, 1 << 24),
    CLI_INT("runs", 'r', args.runs, "N", "number of runs, of which medians are taken, default 20", 1, 1000),
    CLI_INT("top", 0, args.top, "N", "how many of the slowest nodes to print, default 12", 0, 0),
    OPTION_THREADS(args.threads),
    OPTIONS_SESSION(args),
    CLI_FILE(FILE_WRITTEN, "dot", 0, args.dot, "FILE", "write a drawing of the graph with its times, for Graphviz"),
    CLI_FILE(FILE_WRITTEN, "html", 0, args.html, "FILE",
             "write a page that shows the graph with its times in a browser"),
    CLI_FLAG("fold", 0, args.fold, "with --dot: draw layers of the same structure once"),
    CLI_FILE(FILE_WRITTEN, "trace", 0, args.trace, "FILE",
             "write trace events for ui.perfetto.dev or chrome://tracing"),
    OPTION_JSON(args.json),
    OPTION_QUIET(args.quiet),
};

const Command cli_command_profile = {
    .name      = "profile",
    .help      = "time every node of a decode step",
    .usage     = "[MODEL] [options]",
    .notes     = "On a GPU the nodes are timed inside a replay, by a second captured graph with an event "
                 "after each node; the whole decode step is timed without these events. On the CPU the "
                 "nodes are timed between the barriers of the interpreter.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
