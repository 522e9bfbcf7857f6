/* tokenize.c - `reprise tokenize`: prints the token ids of a text and the bytes of each token. A token may be a part of
 * a UTF-8 character, so bytes that are no whole character are printed as <XX>. */
#include "cli/commands.h"
#include "cli/common.h"

#include <stdlib.h>

static struct {
    const char *model, *prompt, *file;
    bool        ids, no_special, json;
} args;

/* One token a line, with the ids right-aligned to the largest id of the vocabulary. With --ids all are on one line. */
static RpStatus print_tokens(const RpTokenizer *tk, const RpTokenList *list) {
    const int width = snprintf(NULL, 0, "%d", rp_tokenizer_n_vocab(tk));
    if (args.json) printf("[");
    for (size_t i = 0; i < list->n; i++) {
        const int32_t id    = list->ids[i];
        RpGgufString  piece = {"", 0};
        if (args.ids) {
            printf("%s%d", i == 0 ? "" : args.json ? "," : " ", id);
            continue;
        }
        RP_TRY(rp_token_bytes(tk, id, true, &piece));
        if (args.json) {
            printf("%s{\"id\":%d,\"text\":", i > 0 ? "," : "", id);
            rp_put_json_string(piece.ptr, piece.len, stdout);
            printf("}");
        } else {
            printf("%*d  \"", width, id);
            cli_print_escaped(stdout, piece.ptr, piece.len, SIZE_MAX);
            printf("\"%s\n", rp_tokenizer_is_control(tk, id) ? "  control" : "");
        }
    }
    if (args.json) printf("]");
    if (args.json || args.ids) printf("\n");
    return RP_OK;
}

static RpStatus tokenize(const RpModel *m, Text *text, RpTokenList *ids) {
    const unsigned flags = args.no_special ? 0 : RP_TOK_ADD_SPECIAL | RP_TOK_PARSE_SPECIAL;
    RP_TRY(cli_need_tokenizer(m, args.model));
    RP_TRY(cli_read_text(args.prompt, args.file, text));
    RP_TRY(rp_tokenize(rp_model_tokenizer(m), text->bytes, text->n, flags, ids));
    return print_tokens(rp_model_tokenizer(m), ids);
}

static int run(void) {
    if ((args.prompt != NULL) == (args.file != NULL)) {
        cli_say("reprise tokenize", "one text is needed: -p TEXT, -f FILE, or -p - for standard input "
                                    "(see `reprise tokenize --help`)");
        return EXIT_USAGE;
    }
    RpModel    *m    = NULL;
    Text        text = {0};
    RpTokenList ids  = {0};
    RpStatus    st   = rp_model_open(args.model, NULL, &m);
    if (st == RP_OK) st = tokenize(m, &text, &ids);
    rp_token_list_free(&ids);
    free(text.bytes);
    rp_model_free(m);
    return cli_exit(st);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    CLI_TEXT("prompt", 'p', args.prompt, "TEXT", "the text; -: standard input"),
    CLI_FILE(FILE_READ, "file", 'f', args.file, "FILE", "read the text from a file; -: standard input"),
    CLI_FLAG("ids", 0, args.ids, "print only the ids, on one line"),
    CLI_FLAG("no-special", 0, args.no_special, "add no BOS, and read control tokens in the text as plain text"),
    CLI_FLAG("json", 0, args.json, "print an array of {id, text}; with --ids, of numbers"),
};

const Command cli_command_tokenize = {.name      = "tokenize",
                                      .help      = "print the tokens of a text",
                                      .usage     = "[MODEL] (-p TEXT | -f FILE) [options]",
                                      .notes     = "Control tokens that the text spells out are recognised, as in "
                                                   "the prompt of `reprise generate`. With --no-special they are "
                                                   "plain text, as in the messages of `reprise chat`.",
                                      .options   = options,
                                      .n_options = sizeof options / sizeof options[0],
                                      .run       = run};
