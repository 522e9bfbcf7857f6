/* imatrix.c - `reprise imatrix`: runs a model on a text and writes an importance matrix for `reprise quantize
 * --imatrix`. The work is rp_imatrix (reprise/convert.h). */
#include "cli/commands.h"
#include "cli/convert.h"

#include <stdlib.h>

static struct {
    const char *model, *text, *output;
    DeviceArgs  device;
    int32_t     chunk, threads;
    bool        quiet;
} args;

/* Each chunk begins with BOS where a model expects one: it takes the place of a token of the text. */
static void begin_chunks(const RpTokenizer *tk, RpTokenList *ids, size_t chunk) {
    for (size_t i = 0; i < ids->n && rp_tokenizer_adds_bos(tk); i += chunk) ids->ids[i] = rp_tokenizer_bos(tk);
}

static RpStatus imatrix(const RpModel *m, Text *text, RpTokenList *ids, Progress *p) {
    const int32_t          most = rp_model_info(m)->n_ctx_train, chunk = args.chunk > 0 ? args.chunk : 512;
    const RpImatrixOptions o = {.chunk     = args.chunk == 0 && most < chunk ? most : chunk,
                                .n_threads = args.threads,
                                .device    = args.device.name,
                                .dataset   = args.text,
                                .progress  = cli_convert_progress,
                                .user      = p};
    RP_TRY(cli_need_tokenizer(m, args.model));
    RP_TRY(cli_read_text(NULL, args.text, text));
    RP_TRY(rp_tokenize(rp_model_tokenizer(m), text->bytes, text->n, RP_TOK_ADD_SPECIAL, ids));
    begin_chunks(rp_model_tokenizer(m), ids, (size_t)o.chunk);
    RP_TRY(rp_imatrix(m, ids->ids, ids->n, &o, args.output));
    cli_progress_end(p);
    if (!args.quiet)
        fprintf(stderr, "%s: %zu chunks of %d tokens, in %.1f s\n", args.output, ids->n / (size_t)o.chunk, o.chunk,
                cli_since_start());
    return RP_OK;
}

static int run(void) {
    Progress    p    = {.label = "running", .off = args.quiet};
    RpModel    *m    = NULL;
    Text        text = {0};
    RpTokenList ids  = {0};
    cli_catch_termination();
    cli_clean_output(args.output);
    RpStatus st = cli_open_model(args.model, &args.device, args.quiet, &m);
    if (st == RP_OK) st = imatrix(m, &text, &ids, &p);
    cli_progress_end(&p);
    rp_token_list_free(&ids);
    free(text.bytes);
    rp_model_free(m);
    return cli_exit(st);
}

static const Option options[] = {
    CLI_ARGUMENT(FILE_READ, args.model, "MODEL", "a GGUF file or a Hugging Face directory"),
    CLI_ARGUMENT(FILE_READ, args.text, "TEXT", "the text; -: standard input"),
    CLI_NEEDED(FILE_WRITTEN, "output", 'o', args.output, "OUT", "path of the file to write"),
    CLI_INT("chunk", 0, args.chunk, "N", "tokens of a chunk; 0 (default): 512, or the model's context", 0, 0),
    OPTION_THREADS(args.threads),
    CLI_TEXT("device", 0, args.device.name, "DEVICE", "auto, cpu, cuda or cuda:N; default: REPRISE_DEVICE"),
    CLI_FLAG("quiet", 'q', args.quiet, "no progress and no summary"),
};

const Command cli_command_imatrix = {
    .name  = "imatrix",
    .help  = "measure which columns of the weights a text needs most",
    .usage = "MODEL TEXT -o OUT [options]",
    .notes =
        "OUT is for `reprise quantize --imatrix` and for llama.cpp, whose GGUF format it has. Each chunk is run from "
        "an empty context; an incomplete last one is left out.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
