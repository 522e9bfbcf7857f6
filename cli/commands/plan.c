/* plan.c - `reprise plan`: prints the ExecPlan of one step and the memory of a session. Nothing is executed, and
 * neither KV cache nor arena is allocated. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/terminal/table.h"

static struct {
    const char *model, *passes, *kv, *output;
    int32_t     tokens, ctx;
    TextList    adapters;
    bool        json;
} args = {.tokens = 1};

/* Prints what rp_session_memory computed: weights, KV cache and arena, in bytes as JSON, else in MB; and what an MTP
 * layer takes beside them, or NULL. */
static RpStatus print_memory(const RpSessionMemory *s, const size_t *mtp, FILE *out) {
    if (args.json) {
        fprintf(out,
                ",\"memory\":{\"n_ctx\":%d,\"weights\":%zu,\"kv\":%zu,\"arena\":%zu,\"states\":%zu,\"n_states\":%d,"
                "\"total\":%zu",
                s->n_ctx, s->weights, s->kv, s->arena, s->states, s->n_states, s->total);
        if (mtp != NULL) fprintf(out, ",\"mtp\":%zu", *mtp);
        fprintf(out, "}}\n");
        return RP_OK;
    }
    char states[64] = "";
    snprintf(states, sizeof states, ", of %d positions", s->n_states);
    const struct {
        const char *name, *note;
        size_t      bytes;
    } rows[] = {
        {"weights",  ", mapped from the file", s->weights},
        {"KV cache", "",                       s->kv     },
        {"states",   states,                   s->states },
        {"arena",    "",                       s->arena  },
        {"total",    "",                       s->total  },
    };
    fprintf(out, "\nMemory of a session with a context of %d tokens, prefill included:\n", s->n_ctx);
    Table *t = cli_table_new("|>|");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (s->n_states == 0 && rows[i].note == states) continue; /* the model has no recurrent states */
        cli_table_add(t, "%s", rows[i].name);
        cli_table_add(t, "%.1f", (double)rows[i].bytes / 1e6);
        cli_table_add(t, "MB%s", rows[i].note);
    }
    RP_TRY(cli_table_print(t, out, 2));
    if (mtp != NULL)
        fprintf(out, "The layer that guesses tokens ahead (MTP) takes %.1f MB beside these, for one request.\n",
                (double)*mtp / 1e6);
    return RP_OK;
}

static RpStatus dump(const ExecPlan *plan, const RpSessionMemory *memory, const size_t *mtp) {
    RpNewFile *file;
    FILE      *out;
    RP_TRY(cli_open_output(args.output, &file, &out));
    if (args.json) fprintf(out, "{\"plan\":");
    RpStatus st = rp_plan_dump(plan, args.json ? RP_DUMP_JSON : RP_DUMP_TEXT, out);
    if (st == RP_OK) st = print_memory(memory, mtp, out);
    return cli_close_output(file, st);
}

static RpStatus plan_and_dump(const RpModel *m) {
    RpDtype kv;
    RP_TRY(cli_kv_type(args.kv, &kv));
    const RpSessionOptions o = {.n_ctx = args.ctx, .passes = args.passes, .kv_type = kv};
    RpSessionMemory        memory;
    ComputeGraph          *g      = NULL;
    ExecPlan              *plan   = NULL;
    RpEngineMemory         engine = {0};
    RP_TRY(rp_session_memory(m, &o, &memory));
    const RpEngineOptions e = {
        .n_ctx = memory.n_ctx, .n_seq = 1, .passes = args.passes, .kv_type = kv, .device = "cpu", .state_bytes = 1};
    if (rp_model_info(m)->mtp) RP_TRY(rp_engine_memory(m, &e, &engine));
    RP_TRY(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = args.tokens, .n_ctx = memory.n_ctx, .kv_type = kv}, &g));
    RpStatus st = rp_graph_optimize(g, args.passes);
    if (st == RP_OK) st = rp_plan_new(g, &plan);
    if (st == RP_OK) st = dump(plan, &memory, rp_model_info(m)->mtp ? &engine.draft : NULL);
    rp_plan_free(plan);
    rp_graph_free(g);
    return st;
}

static int run(void) {
    RpModel *m  = NULL;
    RpStatus st = rp_model_open(args.model, NULL, &m);
    if (st == RP_OK) st = cli_add_adapters(m, &args.adapters);
    if (st == RP_OK) st = plan_and_dump(m);
    rp_model_free(m);
    return cli_exit(st);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    OPTION_LORA(args.adapters),
    CLI_INT("tokens", 'n', args.tokens, "N", "tokens per step, default 1: the decode step", 1, 1 << 16),
    OPTION_CTX(args.ctx),
    OPTION_PASSES(args.passes),
    OPTION_KV(args.kv),
    OPTION_JSON(args.json),
    CLI_FILE(FILE_WRITTEN, "output", 'o', args.output, "FILE", "write to a file instead of standard output"),
};

const Command cli_command_plan = {.name      = "plan",
                                  .help      = "print the plan of a step: order, addresses, memory",
                                  .usage     = "[MODEL] [options]",
                                  .options   = options,
                                  .n_options = sizeof options / sizeof options[0],
                                  .run       = run};
