/* launches.c - `reprise bench launches`: kernels and launches of one decode step that also samples its
 * token. The counts come from the launchers, without a GPU; on a GPU the launch modes are timed too.
 *
 *   mode     CUDA calls per token             launches per reply of n tokens
 *   eager    kernels + 2 (copy, synchronise)  n * kernels
 *   replay   2 (launch graph, synchronise)    n
 *   loop     0                                1 for each 128 tokens
 */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/default_model.h"
#include "cli/predict/predict.h"
#include "cli/terminal/table.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const char *model, *preset, *type, *passes, *kv, *predict, *gpu;
    int32_t     tokens;
    DeviceArgs  device;
    bool        all, json, by_pass, quiet;
} args = {.tokens = 64};

static Progress progress = {.label = "counting"};

enum { N_MODES = 3, COUNT_CTX = 4096, PROMPT = 16 }; /* modes: RP_MODE_EAGER and the two after it */

/* Counts of the step that samples one token. in_layers: kernels inside layers; nodes: of the captured graph. */
typedef struct Counts {
    const char *name;
    int         n_layer, steps, kernels, in_layers, nodes, barriers;
    size_t      bytes;
    bool        assumed;       /* built without CUDA launchers: one kernel per step is assumed */
    double      rate[N_MODES]; /* tokens per second in eager, replay, loop; 0: not measured */
} Counts;

static bool assumed; /* true if Counts.assumed was true of any step */

#define ASSUMED "(built without CUDA launchers: one kernel per step is assumed)"

/* Adds up the launches of all steps. Without the CUDA toolkit the launchers are absent and each step counts as one
 * kernel. */
static RpStatus count_plan(const ExecPlan *plan, Counts *c) {
    for (int i = 0; i < rp_plan_memory(plan).n_steps; i++) {
        RpStepLaunch l;
        RpStatus     st = rp_cuda_plan_launch(plan, i, &l);
        if (st == RP_E_NOT_AVAILABLE) {
            c->assumed  = true;
            assumed     = true;
            l.n_kernels = 1;
        } else if (st != RP_OK) {
            return st;
        }
        c->steps++;
        c->barriers += l.n_barriers;
        c->kernels += l.n_kernels;
        if (rp_node_layer(l.node) >= 0) c->in_layers += l.n_kernels;
    }
    c->nodes = c->kernels + 1; /* the token is copied to the host */
    return RP_OK;
}

/* Builds the graph, runs the passes up to `last` (NULL: all) and counts its plan. */
static RpStatus count_model(const RpModel *m, const char *name, const char *passes, const char *last, Counts *c) {
    ComputeGraph       *g     = NULL;
    ExecPlan           *plan  = NULL;
    const RpModelInfo  *info  = rp_model_info(m);
    RpModelGraphOptions graph = {.n_tok    = 1,
                                 .n_ctx    = info->n_ctx_train < COUNT_CTX ? info->n_ctx_train : COUNT_CTX,
                                 .draws    = true,
                                 .n_recent = 64};
    *c                        = (Counts){.n_layer = info->n_layer, .bytes = info->decode_weight_bytes};
    c->name                   = name;
    RP_TRY(cli_kv_type(args.kv, &graph.kv_type));
    RP_TRY(rp_model_graph(m, &graph, &g));
    RpStatus st = rp_graph_optimize_to(g, passes, last);
    if (st == RP_OK) st = rp_plan_new(g, &plan);
    if (st == RP_OK) st = count_plan(plan, c);
    rp_plan_free(plan);
    rp_graph_free(g);
    return st;
}

/* Tokens per second of a reply in this mode. *rate stays as it is if the session cannot have the mode. */
static RpStatus measure(const RpModel *m, RpExecMode mode, double *rate) {
    RpSession       *s       = NULL;
    RpSampler       *sampler = NULL;
    RpSamplerParams  p       = rp_sampler_defaults();
    RpGenerateResult r       = {0};
    int32_t          prompt[PROMPT];
    RpSessionOptions o = {.n_ctx = PROMPT + args.tokens, .passes = args.passes};
    /* Any tokens serve, as the time does not depend on them. */
    for (int i = 0; i < PROMPT; i++) prompt[i] = (int32_t)(3 + i) % rp_model_info(m)->n_vocab;
    RP_TRY(cli_device_options(&args.device, &o));
    RP_TRY(cli_kv_type(args.kv, &o.kv_type));
    o.mode      = mode;
    RpStatus st = rp_session_open(m, &o, &s);
    if (st == RP_OK) st = rp_sampler_new(&p, rp_model_info(m)->n_vocab, &sampler);
    for (int i = 0; i < 2 && st == RP_OK; i++) { /* the first is a warm-up */
        st = rp_session_rewind(s, 0);
        if (st == RP_OK)
            st = rp_generate(s, sampler, prompt, PROMPT,
                             &(RpGenerateOptions){.max_tokens = args.tokens, .ignore_end = true}, &r);
    }
    if (st == RP_OK && rp_session_info(s).mode == mode && r.decode_s > 0.0) *rate = (r.n_generated - 1) / r.decode_s;
    rp_sampler_free(sampler);
    rp_session_free(s);
    return st;
}

/* Times each mode, if the device is a GPU. */
static RpStatus measure_modes(const RpModel *m, Counts *c) {
    RpDeviceMemory d;
    RP_TRY(rp_device_memory(args.device.name, args.device.require_cuda, &d));
    if (!d.is_own) return RP_OK;
    for (int i = 0; i < N_MODES; i++) {
        const RpExecMode mode = (RpExecMode)(RP_MODE_EAGER + i);
        (void)cli_progress_step(&progress, "timing %d tokens in mode %s", args.tokens, rp_mode_name(mode));
        RP_TRY(measure(m, mode, &c->rate[i]));
    }
    return RP_OK;
}

/* One row for each mode. In eager mode there is no captured graph, hence no number of nodes. */
static RpStatus print_modes(const Counts *c) {
    const int calls[N_MODES] = {c->kernels + 2, 2, 0}, launches[N_MODES] = {c->kernels, 1, 1};
    Table    *t = cli_table_new("mode|>CUDA calls/token|>launches|>graph nodes|>tok/s");
    printf("%s: %d layers, %d kernels per token: %.1f per layer and %d outside the layers%s; %d barriers on "
           "the CPU\n\n",
           c->name, c->n_layer, c->kernels, c->n_layer > 0 ? (double)c->in_layers / c->n_layer : 0.0,
           c->kernels - c->in_layers, c->assumed ? " " ASSUMED : "", c->barriers);
    for (int i = 0; i < N_MODES; i++) {
        const RpExecMode mode      = (RpExecMode)(RP_MODE_EAGER + i);
        char             nodes[16] = "-", rate[16] = "-", per[24] = "token";
        if (mode != RP_MODE_EAGER) snprintf(nodes, sizeof nodes, "%d", c->nodes);
        if (mode == RP_MODE_LOOP) snprintf(per, sizeof per, "%d tokens", RP_LOOP_TOKENS);
        if (c->rate[i] > 0.0) snprintf(rate, sizeof rate, "%.1f", c->rate[i]);
        cli_table_add(t, "%s", rp_mode_name(mode));
        cli_table_add(t, "%d", calls[i]);
        cli_table_add(t, "%d per %s", launches[i], per);
        cli_table_add(t, "%s", nodes);
        cli_table_add(t, "%s", rate);
    }
    return cli_table_print(t, stdout, 0);
}

/* The row of a preset in the table of all presets. */
static void add_row(Table *t, const Counts *c) {
    cli_table_add(t, "%s", c->name);
    cli_table_add(t, "%d", c->n_layer);
    cli_table_add(t, "%d", c->kernels);
    cli_table_add(t, "%.1f", c->n_layer > 0 ? (double)c->in_layers / c->n_layer : 0.0);
    cli_table_add(t, "%d", c->kernels - c->in_layers);
    cli_table_add(t, "1 per token");
    cli_table_add(t, "1 per %d tokens", RP_LOOP_TOKENS);
}

static void print_json(const Counts *c, bool first) {
    printf("%s{\"name\":", first ? "" : ",\n");
    rp_put_json_string(c->name, strlen(c->name), stdout);
    printf(",\"layers\":%d,\"steps\":%d,\"kernels_per_token\":%d,\"kernels_in_layers\":%d,\"graph_nodes\":%d,"
           "\"cpu_barriers\":%d,"
           "\"launches_per_token\":{\"eager\":%d,\"replay\":1,\"loop\":0},\"loop_tokens\":%d,"
           "\"weight_bytes\":%zu,\"assumed\":%s,\"tok_s\":{\"eager\":%.2f,\"replay\":%.2f,\"loop\":%.2f}}",
           c->n_layer, c->steps, c->kernels, c->in_layers, c->nodes, c->barriers, c->kernels, RP_LOOP_TOKENS, c->bytes,
           c->assumed ? "true" : "false", c->rate[0], c->rate[1], c->rate[2]);
}

/* A preset is opened without weights: counts need shapes only. */
static RpStatus count_preset(const char *name, Counts *c) {
    RpModel *m;
    RP_TRY(rp_model_open_preset(name, args.type, &m));
    const RpStatus st = count_model(m, name, args.passes, NULL, c);
    rp_model_free(m);
    return st;
}

/* ---- kernels after each pass ---- */

/* A column for the name, one for the unfused graph, one for each pass. */
static Table *new_pass_table(void) {
    char   columns[1024];
    size_t n = (size_t)snprintf(columns, sizeof columns, "%s|>unfused", args.model != NULL ? "model" : "preset");
    for (int i = 0; i < rp_pass_count() && n < sizeof columns; i++)
        n += (size_t)snprintf(columns + n, sizeof columns - n, "|>%s", rp_pass_name(i));
    return cli_table_new(columns);
}

/* One row: kernels per token before any pass, then after each pass together with those before it. t NULL: JSON. */
static RpStatus by_pass_row(const RpModel *m, const char *name, bool first, Table *t) {
    Counts c;
    RP_TRY(count_model(m, name, "-all", NULL, &c));
    if (args.json) {
        printf("%s{\"name\":", first ? "" : ",\n");
        rp_put_json_string(name, strlen(name), stdout);
        printf(",\"unfused\":%d", c.kernels);
    }
    cli_table_add(t, "%s", name);
    cli_table_add(t, "%d", c.kernels);
    for (int i = 0; i < rp_pass_count(); i++) {
        RP_TRY(count_model(m, name, args.passes, rp_pass_name(i), &c));
        cli_table_add(t, "%d", c.kernels);
        if (args.json) printf(",\"%s\":%d", rp_pass_name(i), c.kernels);
    }
    if (args.json) printf("}");
    return RP_OK;
}

static RpStatus preset_by_pass(const char *name, bool first, Table *t) {
    RpModel *m;
    (void)cli_progress_step(&progress, "%s", name);
    RP_TRY(rp_model_open_preset(name, args.type, &m));
    const RpStatus st = by_pass_row(m, name, first, t);
    rp_model_free(m);
    return st;
}

static RpStatus model_by_pass(Table *t) {
    RpModel *m  = NULL;
    RpStatus st = cli_open_model(args.model, &args.device, args.quiet, &m);
    if (st == RP_OK) st = by_pass_row(m, args.model, true, t);
    rp_model_free(m);
    return st;
}

static RpStatus by_pass_rows(Table *t) {
    if (args.model != NULL) return model_by_pass(t);
    if (args.preset != NULL) return preset_by_pass(args.preset, true, t);
    for (int i = 0; rp_synth_preset_name(i) != NULL; i++) RP_TRY(preset_by_pass(rp_synth_preset_name(i), i == 0, t));
    return RP_OK;
}

static RpStatus by_pass(void) {
    Table *t = args.json ? NULL : new_pass_table();
    if (args.json) printf("[");
    const RpStatus st = by_pass_rows(t);
    cli_progress_end(&progress);
    if (st == RP_OK && !args.json) {
        RP_TRY(cli_table_print(t, stdout, 0));
        if (assumed) puts("\n" ASSUMED);
        return RP_OK;
    }
    cli_table_free(t);
    if (st == RP_OK) printf("]\n");
    return st;
}

/* ---- all presets, one model ---- */

static RpStatus preset_rows(Table *t, Counts *c) {
    for (int i = 0; rp_synth_preset_name(i) != NULL; i++) {
        (void)cli_progress_step(&progress, "%s", rp_synth_preset_name(i));
        RP_TRY(count_preset(rp_synth_preset_name(i), c));
        if (args.json)
            print_json(c, i == 0);
        else
            add_row(t, c);
    }
    return RP_OK;
}

static RpStatus all_presets(void) {
    Counts c;
    Table *t = args.json
                   ? NULL
                   : cli_table_new("preset|>layers|>kernels|>in layer|>outside|>launches, replay|>launches, loop");
    if (args.json) printf("[");
    RpStatus st = preset_rows(t, &c);
    cli_progress_end(&progress);
    if (st != RP_OK || args.json) {
        cli_table_free(t);
        if (st == RP_OK) printf("]\n");
        return st;
    }
    RP_TRY(cli_table_print(t, stdout, 0));
    printf("\nkernels: launches per token in eager mode, in each layer and outside the layers;\n"
           "replay: launches per token; loop: launches per reply%s\n",
           c.assumed ? "\n" ASSUMED : "");
    return RP_OK;
}

/* One model or preset. Only a model has weights, so only a model is timed. */
static RpStatus one(void) {
    Counts   c;
    RpModel *m  = NULL;
    RpStatus st = RP_OK;
    if (args.preset != NULL) {
        st = count_preset(args.preset, &c);
    } else {
        st = cli_open_model(args.model, &args.device, args.quiet, &m);
        if (st == RP_OK) st = count_model(m, args.model, args.passes, NULL, &c);
        if (st == RP_OK) st = measure_modes(m, &c);
        rp_model_free(m);
    }
    cli_progress_end(&progress);
    if (st != RP_OK) return st;
    if (!args.json) return print_modes(&c);
    print_json(&c, true);
    putchar('\n');
    return RP_OK;
}

static int run_predict(void) {
    if (args.model != NULL || args.all || args.by_pass) {
        cli_say("reprise bench launches", "--predict goes with --preset, --gpu and --json only");
        return EXIT_USAGE;
    }
    return cli_exit(cli_predict(args.predict, args.gpu, args.preset, args.json));
}

static int run(void) {
    const char *searched = "";
    progress.off         = args.quiet;
    if (args.predict != NULL) return run_predict();
    if (args.gpu != NULL) {
        cli_say("reprise bench launches", "--gpu is for --predict");
        return EXIT_USAGE;
    }
    if ((args.model != NULL) + (args.preset != NULL) + args.all > 1) {
        cli_say("reprise bench launches", "MODEL, --preset and --all-presets exclude each other");
        return EXIT_USAGE;
    }
    if (args.model == NULL && args.preset == NULL && !args.all) args.model = cli_default_model(&searched);
    if (args.model == NULL && args.preset == NULL && !args.all) {
        cli_say("reprise bench launches", "a MODEL, --preset or --all-presets is needed: there is no demo model (%s)",
                searched);
        return EXIT_USAGE;
    }
    return cli_exit(args.by_pass ? by_pass() : args.all ? all_presets() : one());
}

static const Option options[] = {
    CLI_MODEL_OPTIONAL("model", 'm', args.model, "MODEL", MODEL_HELP),
    CLI_TEXT("preset", 0, args.preset, "PRESET", "a preset of `reprise synth` instead of a file: counts only"),
    CLI_FLAG("all-presets", 0, args.all, "print one line per preset"),
    CLI_FLAG("by-pass", 0, args.by_pass, "print the kernels per token before any pass and after each"),
    CLI_TEXT("type", 0, args.type, "TYPE", "type of a preset's weights, default Q8_0"),
    CLI_FILE(FILE_READ, "predict", 0, args.predict, "COUNTS",
             "predict tokens per second on GPUs from the JSON of `reprise-sim bench counts`, a file or a folder"),
    CLI_TEXT("gpu", 0, args.gpu, "GPU", "with --predict: a100, h100, h100-pcie, h200, 4090 or 5090; default: all"),
    CLI_INT("tokens", 'n', args.tokens, "N", "tokens to time on a GPU, default 64", 2, 4096),
    OPTIONS_SESSION(args),
    OPTION_JSON(args.json),
    OPTION_QUIET(args.quiet),
};

const Command cli_command_launches = {
    .name      = "bench launches",
    .help      = "count kernels and launches per token in the modes eager, replay and loop",
    .usage     = "[MODEL | --preset PRESET | --all-presets | --predict COUNTS] [options]",
    .notes     = "Counting needs no GPU, and of a preset no weights. On a GPU each mode is also timed "
                 "with the file. --predict runs nothing: docs/gpu-model.md describes its model.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
