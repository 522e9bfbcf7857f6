/* graph.c - `reprise graph`: prints the ComputeGraph of a model at any point between the passes, or compares
 * two, as text, JSON, DOT or a page. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/default_model.h"
#include "cli/diff/graph_diff.h"
#include "cli/nodes.h"
#include "cli/options/files.h"
#include "cli/page/page.h"
#include "cli/provenance/find_node.h"
#include "cli/provenance/why.h"

#include <stdlib.h>
#include <string.h>

static struct {
    GraphSource source;
    const char *output, *html, *why, *places[3]; /* places: positional arguments */
    TextList    adapters;
    int32_t     layer;
    bool        dot, text, json, fold, cuda, diff, exit_code, hash;
} args = {.layer = -1, .source = {.tokens = 1}};

/* Writes the dump that the options ask for to -o. `notes` [number of nodes] or NULL. */
static RpStatus write_dump(const ComputeGraph *g, const char *title, const RpDumpNote *notes) {
    const RpDumpOptions o = {.format    = args.dot    ? RP_DUMP_DOT
                                          : args.json ? RP_DUMP_JSON
                                                      : RP_DUMP_TEXT,
                             .fold      = args.fold,
                             .one_layer = args.layer >= 0,
                             .layer     = args.layer,
                             .title     = title,
                             .notes     = notes};
    RpNewFile          *file;
    FILE               *out;
    RP_TRY(cli_open_output(args.output, &file, &out));
    const RpStatus st = rp_graph_dump(g, &o, out);
    return cli_close_output(file, st);
}

static RpStatus dump_with(const RpModel *m, const ComputeGraph *g, const char *title, const RpDumpNote *notes) {
    const PageOptions page = {.title = title, .times = "", .notes = notes, .hash = args.hash};
    return args.html != NULL ? cli_page_graph(m, g, &page, args.html) : write_dump(g, title, notes);
}

/* With --cuda each node carries a note on its launch; the launchers give it without a GPU. */
static RpStatus dump(const RpModel *m, const ComputeGraph *g, const char *title) {
    if (!args.cuda) return dump_with(m, g, title, NULL);
    RpDumpNote *notes = cli_new_notes(g);
    RpStatus    st    = notes != NULL ? cli_note_launches(g, notes) : rp_fail(RP_E_NOMEM, "out of memory for a dump");
    if (st == RP_OK) st = dump_with(m, g, title, notes);
    free(notes);
    return st;
}

static RpStatus put_why(const Why *w, const char *title, FILE *out) {
    FoundNodes found;
    RP_TRY(cli_find_nodes(w->graph, args.why, &found));
    const int n = found.n < FOUND_NODES ? found.n : FOUND_NODES;
    if (args.json) {
        fprintf(out, "{\"title\":");
        rp_put_json_string(title, strlen(title), out);
        fprintf(out, ",\"fused\":%s,\"nodes\":[", found.replaced ? "true" : "false");
    } else if (found.replaced) {
        fprintf(out, "A pass has taken '");
        cli_print_escaped(out, args.why, strlen(args.why), 160);
        fprintf(out, "' out of the graph. Its work is done by:\n\n");
    }
    for (int i = 0; i < n; i++) {
        if (i > 0) fputs(args.json ? "," : "\n", out);
        if (args.json)
            cli_why_json(w, found.nodes[i], out);
        else
            cli_why_text(w, found.nodes[i], out);
    }
    if (args.json)
        fputs("]}\n", out);
    else if (found.n > n)
        fprintf(out, "\nand %d more nodes\n", found.n - n);
    return RP_OK;
}

/* --why: plans the graph, to know where values lie, and prints the origin, memory and neighbours of the nodes. */
static RpStatus why(const RpModel *m, const ComputeGraph *g, const char *title) {
    Why        w = {.model = m, .graph = g, .hash = true};
    ExecPlan  *plan;
    RpNewFile *file;
    FILE      *out;
    RP_TRY(rp_plan_new(g, &plan));
    w.plan      = plan;
    RpStatus st = cli_open_output(args.output, &file, &out);
    if (st == RP_OK) st = cli_close_output(file, put_why(&w, title, out));
    rp_plan_free(plan);
    return st;
}

/* Prints the graph of a model that is open, after the passes that the options select. */
static RpStatus build_and_dump(const RpModel *m) {
    ComputeGraph *g;
    char          title[256];
    const int32_t n_layer = rp_model_info(m)->n_layer;
    if (args.layer >= n_layer)
        return rp_fail(RP_E_ARG, "--layer %d: the model has the layers 0 to %d", args.layer, n_layer - 1);
    RP_TRY(cli_graph_source_build(&args.source, m, title, sizeof title, &g));
    const RpStatus st = args.why != NULL ? why(m, g, title) : dump(m, g, title);
    rp_graph_free(g);
    return st;
}

/* Reports wrong use and returns its exit status. */
static int usage(const char *what) {
    cli_say("reprise graph", "%s (see `reprise graph --help`)", what);
    return EXIT_USAGE;
}

/* `sides`: the graphs A and B. */
static int run_diff(const char *const sides[2]) {
    bool same = true;
    if (sides[0] == NULL || sides[1] == NULL) return usage("--diff needs two graphs, A and B");
    if (args.dot || args.fold || args.cuda || args.layer >= 0)
        return usage("--dot, --fold, --cuda and --layer do not go with --diff");
    const DiffOutput output = {.json = args.json, .path = args.output, .html = args.html};
    const RpStatus   st     = cli_graph_diff(sides, &args.source, &output, &same);
    if (st != RP_OK) return cli_exit(st);
    return args.exit_code && !same ? EXIT_ERROR : EXIT_OK;
}

/* Positional arguments. One, or three with --diff: the first is the model. */
static int n_places(void) { return (args.places[0] != NULL) + (args.places[1] != NULL) + (args.places[2] != NULL); }

static bool model_is_placed(void) { return n_places() == (args.diff ? 3 : 1); }

/* The demo model is the value of no option, but -o must not overwrite it either. */
static void default_files(FileList *list) {
    const char *searched;
    if (args.source.model == NULL && !model_is_placed())
        cli_files_add(list, FILE_READ, "the demo model", cli_default_model(&searched));
}

static int run(void) {
    const char *searched = "";
    if (args.dot + args.text + args.json > 1) return usage("--dot, --text and --json exclude each other");
    if (args.why != NULL && (args.diff || args.dot || args.fold || args.cuda || args.layer >= 0))
        return usage("--diff, --dot, --fold, --cuda and --layer do not go with --why");
    if (args.html != NULL && (args.dot || args.text || args.json || args.output != NULL || args.layer >= 0 || args.why))
        return usage("--dot, --text, --json, --output, --layer and --why do not go with --html");
    if (args.hash && (args.html == NULL || args.diff)) return usage("--hash goes with --html, and not with --diff");
    const char *const model = model_is_placed() ? args.places[0] : NULL;
    if (!args.diff && n_places() > 1) {
        cli_say("reprise graph",
                "`%s` is not an option, and only --diff takes more graphs (see `reprise graph --help`)",
                args.places[1]);
        return EXIT_USAGE;
    }
    if (model != NULL && args.source.model != NULL && strcmp(model, args.source.model) != 0) {
        cli_say("reprise graph", "two models are given: -m %s and %s (see `reprise graph --help`)", args.source.model,
                model);
        return EXIT_USAGE;
    }
    if (model != NULL) args.source.model = model;
    if (args.source.model == NULL) args.source.model = cli_default_model(&searched);
    if (args.diff) return run_diff(&args.places[model != NULL]);
    if (args.exit_code) return usage("--exit-code goes with --diff");
    if (args.source.model == NULL) {
        cli_say("reprise graph", "a MODEL is needed: there is no demo model (%s) (see `reprise graph --help`)",
                searched);
        return EXIT_USAGE;
    }
    RpModel *m = NULL;
    /* A preset has no weights to look at. */
    const bool weights = args.why != NULL || args.hash;
    RpStatus   st      = weights ? rp_model_open(args.source.model, NULL, &m) : cli_graph_source_open(&args.source, &m);
    if (st == RP_OK) st = cli_add_adapters(m, &args.adapters);
    if (st == RP_OK) st = build_and_dump(m);
    rp_model_free(m);
    return cli_exit(st);
}

static const Option options[] = {
    CLI_FILE(FILE_READ, "model", 'm', args.source.model, "MODEL", MODEL_HELP),
    OPTION_LORA(args.adapters),
    CLI_FLAG("text", 0, args.text, "print one line per node (default)"),
    CLI_FLAG("dot", 0, args.dot, "print a drawing for Graphviz"),
    CLI_FLAG("json", 0, args.json, "print one JSON object"),
    CLI_FILE(FILE_WRITTEN, "html", 0, args.html, "FILE",
             "write a page that shows the graph, or with --diff the differences, in a browser, without a network"),
    CLI_FLAG("hash", 0, args.hash, "with --html: read all weights, and show their checksums"),
    CLI_INT("layer", 0, args.layer, "N", "print only the nodes of this layer", 0, 0),
    CLI_FLAG("fold", 0, args.fold, "with --dot: draw layers of the same structure once"),
    CLI_FLAG("cuda", 0, args.cuda, "add to each node its kernel launch on a GPU: grid, block, kernel, bytes moved"),
    CLI_TEXT("why", 0, args.why, "NODE",
             "print where a node comes from, what it reads and where it lies; NODE: its name, NAME:OP or #NUMBER"),
    CLI_FLAG("raw", 0, args.source.raw, "the graph as the model builds it, before any pass"),
    CLI_INT("tokens", 'n', args.source.tokens, "N", "tokens per step, default 1: the decode step", 1, 1 << 16),
    OPTION_CTX(args.source.ctx),
    OPTION_PASSES(args.source.passes),
    OPTION_KV(args.source.kv),
    CLI_TEXT("after", 0, args.source.after, "PASS", "the graph after this pass, before the next"),
    CLI_FILE(FILE_WRITTEN, "output", 'o', args.output, "FILE", "write to a file instead of standard output"),
    CLI_FLAG("diff", 0, args.diff, "print the differences between the graphs A and B"),
    CLI_FLAG("exit-code", 0, args.exit_code, "with --diff: exit with status 1 if they differ"),
    CLI_OPTIONAL(FILE_READ_SETTINGS, args.places[0], "MODEL", "as with -m"),
    CLI_OPTIONAL(FILE_READ_SETTINGS, args.places[1], "A", "with --diff: a graph, see below"),
    CLI_OPTIONAL(FILE_READ_SETTINGS, args.places[2], "B", "with --diff: the graph to compare it with"),
};

const Command cli_command_graph = {
    .name      = "graph",
    .help      = "print the ComputeGraph of a model, or the differences between two",
    .usage     = "[MODEL] [options] [--diff A B]",
    .notes     = "A picture: reprise graph MODEL --dot --fold | dot -Tsvg -o graph.svg\n"
                 "A page: reprise graph MODEL --html graph.html; with times: reprise profile MODEL --html graph.html\n"
                 "MODEL may be a preset of `reprise synth`, whose weights are not made.\n"
                 "\n"
                 "A and B are each a saved dump of `reprise graph --json`, or with times of "
                 "`reprise profile --json`, or\n"
                 "  [MODEL][:SETTING]...  MODEL: a file or a preset of `reprise synth`\n"
                 "                        SETTING: raw, after=PASS, passes=LIST, tokens=N,\n"
                 "                        ctx=N, kv=CACHE, type=TYPE (weights of a preset);\n"
                 "                        unset ones take the command-line options\n"
                 "  reprise graph MODEL --diff after=attention after=quantize\n"
                 "  reprise graph --diff nn-6.9b:raw nn-6.9b\n"
                 "  reprise graph MODEL --diff old.json passes=-quantize\n"
                 "Nodes are matched by name, op and layer; layers that differ in the same way are "
                 "printed once.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .files     = default_files,
    .run       = run};
