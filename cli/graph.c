#include "cli/commands.h"
#include "cli/common.h"
#include "cli/nodes.h"

#include <stdlib.h>

static struct {
    const char *model, *passes, *kv, *output, *after;
    int32_t     layer, tokens, ctx;
    bool        dot, text, json, fold, raw, cuda;
} args = {.layer = -1, .tokens = 1};

static RpStatus dump_with(const ComputeGraph *g, const char *title, const DumpNote *notes) {
    const DumpOptions o = {.format    = args.dot    ? RP_DUMP_DOT
                                        : args.json ? RP_DUMP_JSON
                                                    : RP_DUMP_TEXT,
                           .fold      = args.fold,
                           .one_layer = args.layer >= 0,
                           .layer     = args.layer,
                           .title     = title,
                           .notes     = notes};
    FILE             *out;
    RP_TRY(cli_open_output(args.output, &out));
    const RpStatus st = rp_graph_dump(g, &o, out);
    return cli_close_output(out, args.output, st);
}

static RpStatus dump(const ComputeGraph *g, const char *title) {
    if (!args.cuda) return dump_with(g, title, NULL);
    DumpNote *notes = cli_new_notes(g);
    RpStatus  st =
        notes != NULL ? cli_note_launches(g, notes) : rp_fail(RP_E_NOMEM, "out of memory for a dump");
    if (st == RP_OK) st = dump_with(g, title, notes);
    free(notes);
    return st;
}

static RpStatus build_and_dump(const Model *m) {
    RpDtype kv;
    RP_TRY(cli_kv_type(args.kv, &kv));
    ComputeGraph    *g    = NULL;
    const ModelInfo *info = rp_model_info(m);
    if (args.layer >= info->n_layer)
        return rp_fail(RP_E_ARG, "--layer %d: the model has the layers 0 to %d", args.layer,
                       info->n_layer - 1);
    const int32_t ctx = args.ctx > 0 ? args.ctx : cli_default_ctx(m);
    char          title[256];
    snprintf(title, sizeof title, "%s: %s, %d layers, %d token%s a step, context %d",
             info->name[0] != '\0' ? info->name : "model", info->arch, info->n_layer, args.tokens,
             args.tokens > 1 ? "s" : "", ctx);
    RP_TRY(rp_model_graph(m, &(ModelGraphOptions){.n_tok = args.tokens, .n_ctx = ctx, .kv_type = kv}, &g));
    RpStatus st = args.raw ? RP_OK : rp_graph_optimize_to(g, args.passes, args.after);
    if (st == RP_OK) st = dump(g, title);
    rp_graph_free(g);
    return st;
}

static int run(void) {
    if (args.dot + args.text + args.json > 1) {
        cli_say("reprise graph", "--dot, --text and --json exclude each other (see `reprise graph --help`)");
        return EXIT_USAGE;
    }
    Model   *m  = NULL;
    RpStatus st = rp_model_open(args.model, NULL, &m);
    if (st == RP_OK) st = build_and_dump(m);
    rp_model_free(m);
    return cli_exit(st);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    CLI_FLAG("text", 0, args.text, "one line a node (default)"),
    CLI_FLAG("dot", 0, args.dot, "for Graphviz"),
    CLI_FLAG("json", 0, args.json, "one object"),
    CLI_INT("layer", 0, args.layer, "N", "only the nodes of this layer", 0, 0),
    CLI_FLAG("fold", 0, args.fold, "with --dot: each kind of layer once"),
    CLI_FLAG("cuda", 0, args.cuda,
             "beside each node what a GPU is asked to launch: grid, block, kernel, traffic"),
    CLI_FLAG("raw", 0, args.raw, "as the model builds it, before any pass"),
    CLI_INT("tokens", 'n', args.tokens, "N", "tokens a step, default 1: the decode step", 1, 1 << 16),
    OPTION_CTX(args.ctx),
    OPTION_PASSES(args.passes),
    OPTION_KV(args.kv),
    CLI_TEXT("after", 0, args.after, "PASS", "as it stands after this pass, before the next"),
    CLI_TEXT("output", 'o', args.output, "FILE", "instead of standard output"),
};

const Command cli_command_graph = {
    .name      = "graph",
    .help      = "print the ComputeGraph of a model",
    .usage     = "[-m FILE] [options]",
    .notes     = "A picture: reprise graph -m FILE --dot --fold | dot -Tsvg -o graph.svg",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
