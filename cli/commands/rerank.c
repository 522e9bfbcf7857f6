/* rerank.c - `reprise rerank`: scores documents for a query, best first. */
#include "cli/commands.h"
#include "cli/embeddings.h"
#include "cli/terminal/table.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const char *model, *query, *file, *passes;
    int32_t     threads, ctx, top;
    bool        json, quiet;
    DeviceArgs  device;
} args;

enum { SHOWN = 72 }; /* characters of a document in the table */

typedef struct Scored {
    float  score;
    size_t line;
} Scored;

static int best_first(const void *a, const void *b) {
    const Scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

static RpStatus score_lines(RpEmbedder *e, const Lines *lines, Scored *out) {
    Progress progress = {.label = "documents", .off = args.quiet || lines->n < 2};
    RpStatus st       = RP_OK;
    for (size_t i = 0; i < lines->n && st == RP_OK; i++) {
        out[i].line = i;
        st = rp_rerank(e, args.query, strlen(args.query), lines->line[i].ptr, lines->line[i].len, &out[i].score);
        if (!cli_progress(&progress, (double)(i + 1), (double)lines->n) && st == RP_OK)
            st = rp_fail(RP_E_CANCELLED, "interrupted");
    }
    cli_progress_end(&progress);
    if (st == RP_OK) qsort(out, lines->n, sizeof *out, best_first);
    return st;
}

static void print_json(const Lines *lines, const Scored *scored, size_t n) {
    printf("[");
    for (size_t i = 0; i < n; i++) {
        const RpGgufString s = lines->line[scored[i].line];
        printf("%s{\"index\":%zu,\"score\":%.9g,\"text\":", i > 0 ? "," : "", scored[i].line, (double)scored[i].score);
        rp_put_json_string(s.ptr, s.len, stdout);
        printf("}");
    }
    printf("]\n");
}

static RpStatus print_table(const Lines *lines, const Scored *scored, size_t n) {
    Table *t = cli_table_new(">score|>document|text");
    for (size_t i = 0; i < n; i++) {
        const RpGgufString s = lines->line[scored[i].line];
        char               shown[4 * SHOWN + 1];
        rp_visible_text(s.ptr, s.len, shown, sizeof shown);
        cli_table_add(t, "%.5f", (double)scored[i].score);
        cli_table_add(t, "%zu", scored[i].line + 1);
        cli_table_add(t, "%.*s", SHOWN, shown);
    }
    return cli_table_print(t, stdout, 0);
}

static RpStatus rerank(RpModel *m, Lines *lines, RpEmbedder **e, Scored **scored) {
    RpEmbedderOptions o = {
        .n_ctx = args.ctx, .n_threads = args.threads, .passes = args.passes, .pooling = RP_POOLING_RANK};
    RP_TRY(cli_need_tokenizer(m, args.model));
    RP_TRY(cli_read_lines(NULL, args.file, false, lines));
    if (lines->n == 0) return rp_fail(RP_E_ARG, "%s: there is no document", args.file);
    *scored = calloc(lines->n, sizeof **scored);
    if (*scored == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu scores", lines->n);
    RP_TRY(cli_open_embedder(m, &args.device, &o, e));
    RP_TRY(score_lines(*e, lines, *scored));
    const size_t n = args.top > 0 && (size_t)args.top < lines->n ? (size_t)args.top : lines->n;
    if (!args.json) return print_table(lines, *scored, n);
    print_json(lines, *scored, n);
    return RP_OK;
}

static int run(void) {
    RpModel    *m      = NULL;
    RpEmbedder *e      = NULL;
    Lines       lines  = {0};
    Scored     *scored = NULL;
    if (args.query == NULL) {
        cli_say("reprise rerank", "-q QUERY is needed (see `reprise rerank --help`)");
        return EXIT_USAGE;
    }
    cli_catch_interrupts();
    RpStatus st = cli_open_model(args.model, &args.device, args.quiet, &m);
    if (st == RP_OK) st = rerank(m, &lines, &e, &scored);
    rp_embedder_free(e);
    free(scored);
    cli_free_lines(&lines);
    rp_model_free(m);
    return cli_exit(st);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    CLI_TEXT("query", 'q', args.query, "QUERY", "the query; needed"),
    CLI_NEEDED(FILE_READ, "file", 'f', args.file, "FILE", "a document on each line; -: standard input"),
    CLI_INT("top", 0, args.top, "N", "print only the N best; 0 (default): all", 0, 0),
    OPTION_THREADS(args.threads),
    OPTION_CTX(args.ctx),
    OPTIONS_DEVICE(args.device),
    OPTION_BACKEND(args.device),
    OPTION_LORA(args.device.adapters),
    OPTION_PASSES(args.passes),
    OPTION_JSON(args.json),
    CLI_FLAG("quiet", 0, args.quiet, "no progress line"),
};

const Command cli_command_rerank = {
    .name      = "rerank",
    .help      = "score documents for a query, best first",
    .usage     = "[MODEL] -q QUERY -f FILE [options]",
    .notes     = "The model needs a classification head, as bge-reranker and Qwen3-Reranker have it. A higher score is "
                 "better; what a score means depends on the model.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
