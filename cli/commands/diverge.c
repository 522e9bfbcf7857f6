/* diverge.c - `reprise diverge`: two runs over the same tokens, node by node, and the first node that differs.
 *
 *   A            a model that runs
 *   B            the same or another file that runs with settings of its own; a recording; arrays of another
 *                program */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/default_model.h"
#include "cli/diverge/report.h"
#include "cli/diverge/settings.h"
#include "cli/options/files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { EXIT_PARTED = 1, EXIT_TROUBLE = 2 }; /* as diff does */

static struct {
    const char *model, *places[2], *other, *prompt, *ids, *passes, *kv, *record, *against, *svg, *dot;
    TextList    a, b;
    int32_t     decode, threads;
    float       tolerance;
    DeviceArgs  device;
    bool        json, quiet;
} args;

/* Everything that a comparison opens. `other`: NULL if B has the model of A. */
typedef struct Sides {
    RpModel    *model, *other;
    StepRun     run_a, run_b;
    Recording  *recording;
    Other       b;
    RpTokenList tokens;
    Divergence  walk;
    Progress    progress;
    char        text_a[512], text_b[512];
} Sides;

static RpStatus write_file(const char *path, RpStatus (*put)(const Divergence *, FILE *), const Divergence *w) {
    RpNewFile *file;
    FILE      *out;
    if (path == NULL) return RP_OK;
    RP_TRY(cli_open_output(path, &file, &out));
    return cli_close_output(file, put(w, out));
}

static bool is_stdout(const char *path) { return path != NULL && strcmp(path, "-") == 0; }

static RpStatus report(const Divergence *w) {
    RP_TRY(write_file(args.svg, cli_diverge_svg, w));
    RP_TRY(write_file(args.dot, cli_diverge_dot, w));
    if (is_stdout(args.svg) || is_stdout(args.dot)) return RP_OK;
    if (!args.json) return cli_diverge_text(w, stdout);
    cli_diverge_json(w, stdout);
    return RP_OK;
}

/* The tokens of a recording are those of its run. */
static RpStatus find_tokens(Sides *s) {
    if (s->recording == NULL) return cli_step_tokens(s->model, args.model, args.prompt, args.ids, &s->tokens);
    const RecordingHead *h = cli_node_recording_head_of(s->recording);
    const RpModelInfo   *m = rp_model_info(s->model);
    if (strcmp(h->arch, m->arch) != 0 || h->n_layer != m->n_layer || h->n_embd != m->n_embd || h->n_vocab != m->n_vocab)
        return rp_fail(
            RP_E_ARG,
            "%s: is a recording of %.31s with %d layers of %d and %d tokens; %s is %s with %d layers of %d and %d",
            args.against, h->arch, h->n_layer, h->n_embd, h->n_vocab, args.model, m->arch, m->n_layer, m->n_embd,
            m->n_vocab);
    args.decode = h->n_decode;
    for (int32_t i = 0; i < h->n_prompt; i++)
        if (rp_token_list_push(&s->tokens, cli_node_recording_tokens(s->recording, 0)[i]) != RP_OK)
            return rp_fail(RP_E_NOMEM, "out of memory for tokens");
    return RP_OK;
}

static RpStatus open_run(const RpModel *m, const TextList *settings, size_t n_prompt, StepRun *out) {
    StepRunOptions o = {.n_prompt     = (int32_t)n_prompt,
                        .n_decode     = args.decode,
                        .n_threads    = args.threads,
                        .isa          = rp_cpu_isa(),
                        .passes       = args.passes,
                        .device       = args.device.name,
                        .require_cuda = args.device.require_cuda};
    RP_TRY(rp_cpu_isa_check());
    RP_TRY(cli_kv_type(args.kv, &o.kv_type));
    RP_TRY(cli_side_settings(settings, &o));
    const RpCpuIsa before = rp_cpu_isa();
    const RpStatus st     = cli_step_run_open(out, m, &o);
    return st == RP_OK ? rp_cpu_isa_set(before) : st; /* the other side starts from the same */
}

static RpStatus open_other_model(Sides *s) {
    if (args.other == NULL || cli_same_file(args.other, args.model)) return RP_OK;
    RP_TRY(cli_open_model(args.other, &args.device, args.quiet, &s->other));
    const RpModelInfo *a = rp_model_info(s->model), *b = rp_model_info(s->other);
    if (strcmp(a->arch, b->arch) == 0 && a->n_layer == b->n_layer && a->n_embd == b->n_embd && a->n_vocab == b->n_vocab)
        return RP_OK;
    return rp_fail(RP_E_ARG, "%s is %s with %d layers of %d and %d tokens, %s is %s with %d layers of %d and %d",
                   args.model, a->arch, a->n_layer, a->n_embd, a->n_vocab, args.other, b->arch, b->n_layer, b->n_embd,
                   b->n_vocab);
}

static RpStatus open_b(Sides *s) {
    struct stat file;
    if (args.against == NULL) {
        RP_TRY(open_other_model(s));
        RP_TRY(open_run(s->other != NULL ? s->other : s->model, &args.b, s->tokens.n, &s->run_b));
        s->b.run = &s->run_b;
        s->walk.name_b =
            cli_side_text(args.other != NULL ? args.other : args.model, &s->run_b, s->text_b, sizeof s->text_b);
        return RP_OK;
    }
    if (stat(args.against, &file) == 0 && S_ISDIR(file.st_mode)) s->b.folder = args.against;
    s->b.recording = s->recording;
    snprintf(s->text_b, sizeof s->text_b, "%s%s%s", args.against, s->recording != NULL ? ": " : "",
             s->recording != NULL ? cli_node_recording_head_of(s->recording)->description : "");
    s->walk.name_b = s->text_b;
    return RP_OK;
}

static RpStatus record(Sides *s) {
    const RpModelInfo *m = rp_model_info(s->model);
    RecordingHead      h = {.n_prompt = (int32_t)s->tokens.n,
                            .n_decode = args.decode,
                            .n_layer  = m->n_layer,
                            .n_embd   = m->n_embd,
                            .n_vocab  = m->n_vocab};
    RpNewFile         *file;
    FILE              *out;
    snprintf(h.arch, sizeof h.arch, "%s", m->arch);
    snprintf(h.description, sizeof h.description, "%.255s", s->text_a);
    RP_TRY(cli_open_output(args.record, &file, &out));
    return cli_close_output(file, cli_walk_record(&s->run_a, &h, &s->tokens, out));
}

static RpStatus diverge(Sides *s) {
    struct stat file;
    RP_TRY(cli_open_model(args.model, &args.device, args.quiet, &s->model));
    if (args.against != NULL && (stat(args.against, &file) != 0 || !S_ISDIR(file.st_mode)))
        RP_TRY(cli_node_recording_open(args.against, &s->recording));
    RP_TRY(find_tokens(s));
    RP_TRY(open_run(s->model, &args.a, s->tokens.n, &s->run_a));
    s->walk.name_a = cli_side_text(args.model, &s->run_a, s->text_a, sizeof s->text_a);
    if (args.record != NULL) return record(s);
    RP_TRY(open_b(s));
    s->progress       = (Progress){.label = "comparing", .off = args.quiet};
    s->walk.a         = &s->run_a;
    s->walk.b         = &s->b;
    s->walk.tolerance = args.tolerance;
    s->walk.progress  = &s->progress;
    const RpStatus st = cli_walk(&s->walk, &s->tokens);
    cli_progress_end(&s->progress);
    return st == RP_OK ? report(&s->walk) : st;
}

static void close_sides(Sides *s) {
    cli_walk_free(&s->walk);
    cli_other_close(&s->b);
    cli_node_recording_free(s->recording);
    cli_step_run_close(&s->run_b);
    cli_step_run_close(&s->run_a);
    rp_token_list_free(&s->tokens);
    rp_model_free(s->other);
    rp_model_free(s->model);
}

static int usage(const char *what) {
    cli_say("reprise diverge", "%s (see `reprise diverge --help`)", what);
    return EXIT_USAGE;
}

/* The demo model is the value of no option, but no output may overwrite it either. */
static void default_files(FileList *list) {
    const char *searched;
    if (args.model == NULL && args.places[0] == NULL)
        cli_files_add(list, FILE_READ, "the demo model", cli_default_model(&searched));
}

/* A is the file of -m, or the first argument, or the demo model; the remaining argument is B. */
static bool find_models(void) {
    const char *searched;
    const bool  placed = args.places[0] != NULL && args.model == NULL;
    if (placed) args.model = args.places[0];
    args.other = args.places[placed ? 1 : 0];
    if (args.model == NULL) args.model = cli_default_model(&searched);
    return args.model != NULL && (placed || args.places[1] == NULL);
}

static int run(void) {
    static Sides s;
    if (!find_models()) return usage("A and B are at most two models, of which A is given or the demo model");
    const bool has_b = args.other != NULL || args.b.n > 0;
    if (args.record != NULL && (has_b || args.against != NULL || args.svg != NULL || args.dot != NULL || args.json))
        return usage("--record runs A alone: B, --b, --against, --svg, --dot and --json do not go with it");
    if (args.against != NULL && has_b) return usage("--against is B: a second model and --b do not go with it");
    if (args.record == NULL && args.against == NULL && !has_b && args.a.n == 0)
        return usage("two runs are needed: a second model, --a and --b, --record or --against");
    if (is_stdout(args.svg) + is_stdout(args.dot) + args.json > 1)
        return usage("only one of --svg -, --dot - and --json can be on the standard output");
    cli_catch_interrupts();
    const RpStatus st     = diverge(&s);
    const bool     parted = st == RP_OK && args.record == NULL && s.walk.first >= 0;
    close_sides(&s);
    const int status = cli_exit(st);
    return parted ? EXIT_PARTED : status == EXIT_ERROR ? EXIT_TROUBLE : status;
}

static const Option options[] = {
    CLI_FILE(FILE_READ, "model", 'm', args.model, "MODEL", MODEL_HELP),
    CLI_OPTIONAL(FILE_READ, args.places[0], "A", "as with -m"),
    CLI_OPTIONAL(FILE_READ, args.places[1], "B",
                 "another file of the same model, such as a quantised one; default: the file of A"),
    CLI_LIST("a", 0, args.a, "SETTING",
             "of A alone: isa=, threads=, device=, passes= or kv=; may be given several times"),
    CLI_LIST("b", 0, args.b, "SETTING", "of B alone"),
    CLI_FILE(FILE_WRITTEN, "record", 0, args.record, "FILE", "run A alone and write the values of all nodes"),
    CLI_FILE(FILE_READ, "against", 0, args.against, "PATH",
             "B is this recording, or a folder with arrays of NumPy, NODE.npy"),
    CLI_INT("decode", 'n', args.decode, "N", "decode steps behind the prompt, default 0", 0, 1 << 16),
    OPTIONS_STEP_TOKENS(args.prompt, args.ids),
    CLI_NUMBER("tolerance", 0, args.tolerance, "X",
               "largest difference allowed, relative to a node's largest value; default 0: none, every bit counts", 0,
               0),
    CLI_FILE(FILE_WRITTEN, "svg", 0, args.svg, "FILE", "write a plot of the difference by layer"),
    CLI_FILE(FILE_WRITTEN, "dot", 0, args.dot, "FILE", "write the graph for Graphviz, coloured by the difference"),
    OPTION_THREADS(args.threads),
    OPTIONS_STEP_DEVICE(args.device),
    OPTION_LORA(args.device.adapters),
    OPTION_PASSES(args.passes),
    OPTION_KV(args.kv),
    OPTION_JSON(args.json),
    OPTION_QUIET(args.quiet),
};

const Command cli_command_diverge = {
    .name  = "diverge",
    .help  = "run a model twice over the same tokens and name the first node that differs",
    .usage = "[A] [B] [options]",
    .notes = "Nodes are matched by what the model code built; nodes that a pass has fused on one side are left out and "
             "counted. The comparison ends with the first step that has a difference. Exit status: 0 if all bits "
             "agree, 1 if they differ, 2 if something failed.\n"
             "\n"
             "  reprise diverge model.gguf quantised.gguf\n"
             "  reprise diverge model.gguf --a isa=plain --b isa=avx2\n"
             "  reprise diverge model.gguf --b passes=-all -n 4\n"
             "  reprise diverge model.gguf --record run.rec\n"
             "  reprise diverge model.gguf --against run.rec     another build or machine\n"
             "  reprise diverge model.gguf --against FOLDER      NODE.npy, step-N/NODE.npy",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .files     = default_files,
    .run       = run};
