/* dump.c - `reprise dump`: the values of a node of a model that runs, as a file of NumPy. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/default_model.h"
#include "cli/options/files.h"
#include "cli/provenance/find_node.h"
#include "cli/provenance/step_run.h"
#include "cli/provenance/values.h"

#include <string.h>

static struct {
    const char *model, *node, *places[2], *output, *prompt, *ids, *passes, *kv;
    int32_t     step, threads;
    DeviceArgs  device;
    bool        raw, quiet;
} args;

static RpStatus write_node(const StepRun *r, const TensorNode *node) {
    NodeValues v;
    RpNewFile *file;
    FILE      *out;
    RP_TRY(cli_values_read(r->now->exec, node, &v));
    RpStatus st = args.raw ? RP_OK : cli_values_to_f32(&v);
    if (st == RP_OK) st = cli_open_output(args.output, &file, &out);
    if (st == RP_OK) {
        cli_values_write_npy(&v, out);
        st = cli_close_output(file, RP_OK);
    }
    cli_values_free(&v);
    return st;
}

/* Runs the earlier steps, and the part of the last one that the node needs. The node is found first, in the graph of
 * its step. */
static RpStatus dump(StepRun *r, const RpTokenList *tokens) {
    const StepGraph  *g = args.step == 0 ? &r->prompt : &r->decode;
    const TensorNode *node;
    RpNodePlace       place;
    int32_t           next = 0;
    RP_TRY(cli_find_node(g->graph, args.node, &node));
    RP_TRY(rp_plan_place(g->plan, node, &place));
    cli_step_run_begin(r, tokens->ids, (int32_t)tokens->n);
    for (int32_t step = 0; step < args.step; step++) {
        RP_TRY(cli_step_run_end(r, &next));
        cli_step_run_begin(r, &next, 1);
    }
    /* No step computes an input or a state. The value of a state is the one after the step. */
    RP_TRY(cli_step_run_to(r, place.step >= 0 ? place.step + 1 : cli_step_run_n(r)));
    return write_node(r, node);
}

static RpStatus open_and_dump(const RpModel *m, RpTokenList *tokens, StepRun *r) {
    StepRunOptions o = {.n_decode     = args.step,
                        .n_threads    = args.threads,
                        .isa          = rp_cpu_isa(),
                        .passes       = args.passes,
                        .device       = args.device.name,
                        .require_cuda = args.device.require_cuda};
    RP_TRY(cli_kv_type(args.kv, &o.kv_type));
    RP_TRY(cli_step_tokens(m, args.model, args.prompt, args.ids, tokens));
    o.n_prompt = (int32_t)tokens->n;
    RP_TRY(cli_step_run_open(r, m, &o));
    return dump(r, tokens);
}

static int usage(const char *what, const char *a, const char *b) {
    cli_say("reprise dump", "%s%s%s%s (see `reprise dump --help`)", what, a, b[0] != '\0' ? " and " : "", b);
    return EXIT_USAGE;
}

/* The demo model is the value of no option, but -o must not overwrite it either. */
static void default_files(FileList *list) {
    const char *searched;
    if (args.model == NULL && args.places[1] == NULL)
        cli_files_add(list, FILE_READ, "the demo model", cli_default_model(&searched));
}

static int run(void) {
    const char *searched = "", *placed = args.places[1] != NULL ? args.places[0] : NULL;
    args.node = args.places[1] != NULL ? args.places[1] : args.places[0];
    if (args.node == NULL) return usage("NODE is needed", "", "");
    if (placed != NULL && args.model != NULL && strcmp(placed, args.model) != 0)
        return usage("two models are given: -m ", args.model, placed);
    if (placed != NULL) args.model = placed;
    if (args.model == NULL) args.model = cli_default_model(&searched);
    if (args.model == NULL) return usage("a MODEL is needed: there is no demo model: ", searched, "");
    RpModel    *m      = NULL;
    StepRun     r      = {0};
    RpTokenList tokens = {0};
    RpStatus    st     = cli_open_model(args.model, &args.device, args.quiet, &m);
    if (st == RP_OK) st = open_and_dump(m, &tokens, &r);
    cli_step_run_close(&r);
    rp_token_list_free(&tokens);
    rp_model_free(m);
    return cli_exit(st);
}

static const Option options[] = {
    CLI_FILE(FILE_READ, "model", 'm', args.model, "MODEL", MODEL_HELP),
    CLI_OPTIONAL(FILE_READ, args.places[0], "MODEL", "as with -m; may be left out"),
    CLI_OPTIONAL(FILE_NONE, args.places[1], "NODE", "a node that `reprise graph` prints: its name, NAME:OP or #NUMBER"),
    CLI_NEEDED(FILE_WRITTEN, "output", 'o', args.output, "FILE", "the array, for numpy.load"),
    CLI_INT("step", 0, args.step, "N", "0 (default): the prompt, all its tokens; N: the N-th decode step behind it", 0,
            1 << 16),
    OPTIONS_STEP_TOKENS(args.prompt, args.ids),
    CLI_FLAG("raw", 0, args.raw,
             "keep the type: f16 as f2, others but f32 and i32 as bytes; default: converted to f32"),
    OPTION_THREADS(args.threads),
    OPTIONS_STEP_DEVICE(args.device),
    OPTION_LORA(args.device.adapters),
    OPTION_PASSES(args.passes),
    OPTION_KV(args.kv),
    OPTION_QUIET(args.quiet),
};

const Command cli_command_dump = {
    .name  = "dump",
    .help  = "write the values of a node at a step as a file of NumPy",
    .usage = "[MODEL] NODE -o FILE [options]",
    .notes =
        "The prompt is run at once, as many columns as it has tokens; then a decode step for each token that has the "
        "largest logit. The array has the shape (tokens, elements), with further dimensions in front. A node that a "
        "pass has fused into others has no values: --passes=-all keeps all nodes.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .files     = default_files,
    .run       = run};
