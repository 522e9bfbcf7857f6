/* repeat.c - `reprise repeat`: runs a manifest again and says whether every bit agrees. */
#include "cli/repeat/repeat.h"
#include "cli/commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_PARTS = 1, EXIT_CANNOT_RUN = 2 };

static struct {
    const char   *manifest;
    RepeatOptions o;
    bool          json;
} args;

/* The texts of a plain report and of JSON. */
typedef struct Out {
    bool any;
} Out;

static void put_difference(const char *what, const char *then, const char *now, void *user) {
    Out  *out = user;
    char *a = cli_visible(then, strlen(then)), *b = cli_visible(now, strlen(now));
    printf("%s%s: %s then, %s now\n", out->any ? "" : "what differs:\n", what, a != NULL && a[0] != '\0' ? a : "none",
           b != NULL && b[0] != '\0' ? b : "none");
    out->any = true;
    free(a);
    free(b);
}

static void put_json_difference(const char *what, const char *then, const char *now, void *user) {
    Out *out = user;
    printf("%s{\"what\":\"%s\",\"then\":", out->any ? "," : "", what);
    rp_put_json_string(then, strlen(then), stdout);
    printf(",\"now\":");
    rp_put_json_string(now, strlen(now), stdout);
    printf("}");
    out->any = true;
}

static void put_token(const Repeat *r, int32_t token) {
    RpGgufString text;
    printf("%d", token);
    if (rp_model_tokenizer(r->model) == NULL ||
        rp_token_bytes(rp_model_tokenizer(r->model), token, true, &text) != RP_OK)
        return;
    printf(" \"");
    cli_print_escaped(stdout, text.ptr, text.len, 40);
    printf("\"");
}

static void print_json(const Repeat *r, const Manifest *m, const Manifest *now) {
    const Parting *p   = &r->parting;
    Out            out = {0};
    printf("{\"equal\":%s,\"turns\":%zu,\"tokens\":%zu,\"held\":%zu,\"parts\":", p->parts ? "false" : "true",
           m->n_turns, r->n_equal, r->n_held);
    if (p->parts)
        printf("{\"turn\":%zu,\"token\":%zu,\"then\":%d,\"now\":%d,\"logits_then\":\"%016" PRIx64
               "\",\"logits_now\":\"%016" PRIx64 "\"}",
               p->turn + 1, p->step + 1, p->then, p->now, p->logits_then, p->logits_now);
    else
        printf("null");
    printf(",\"differences\":[");
    cli_repeat_compare(m, now, put_json_difference, &out);
    printf("]}\n");
}

static void print_text(const Repeat *r, const Manifest *m, const Manifest *now) {
    const Parting *p   = &r->parting;
    Out            out = {0};
    if (!p->parts) {
        printf("equal: %zu tokens, and the logits of each\n", r->n_equal);
        if (r->n_held > 0)
            printf("%zu of them were held by a grammar or a budget that the manifest does not have: their logits are "
                   "compared, and they were not drawn again\n",
                   r->n_held);
    } else {
        printf("differs at token %zu of turn %zu: ", p->step + 1, p->turn + 1);
        put_token(r, p->then);
        printf(" then, ");
        put_token(r, p->now);
        printf(" now; the logits %s\n", p->logits_then == p->logits_now ? "are the same" : "differ");
    }
    if (p->parts || !args.o.quiet) cli_repeat_compare(m, now, put_difference, &out);
    if (p->parts && !out.any) printf("nothing that the manifest knows differs\n");
}

static int run(void) {
    Manifest m, now = {0};
    Repeat   r  = {0};
    RpStatus st = manifest_read(args.manifest, &m);
    if (st == RP_OK) st = cli_repeat_open(&r, &m, &args.o, &now);
    if (st == RP_OK) st = cli_repeat_run(&r);
    if (st == RP_OK && args.json) print_json(&r, &m, &now);
    if (st == RP_OK && !args.json) print_text(&r, &m, &now);
    const int code = st == RP_OK ? r.parting.parts ? EXIT_PARTS : EXIT_OK : cli_exit(st);
    cli_repeat_close(&r);
    manifest_free(&m);
    free(args.o.device.adapters.items);
    return st == RP_OK || code != EXIT_ERROR ? code : EXIT_CANNOT_RUN;
}

static const Option options[] = {
    CLI_ARGUMENT(FILE_READ, args.manifest, "FILE", "the manifest that --manifest or --manifest-dir wrote"),
    CLI_FILE(FILE_READ, "model", 'm', args.o.model, "FILE", "the model is there now; its hash must be the same"),
    CLI_FILES(FILE_READ, "lora", 0, args.o.device.adapters, "FILE",
              "the adapter is there now; for all of them, in the order of the manifest"),
    CLI_FILE(FILE_READ, "draft", 0, args.o.draft, "FILE", "the draft model is there now"),
    CLI_FLAG("anyway", 0, args.o.anyway, "run files of other hashes too"),
    CLI_INT("threads", 't', args.o.threads, "N", "worker threads; 0 (default): as many as then", 0, 512),
    CLI_TEXT("device", 0, args.o.device.name, "DEVICE", "auto, cpu, cuda or cuda:N; default: that of the manifest"),
    CLI_TEXT("mode", 0, args.o.device.mode, "MODE",
             "launch mode on a GPU: auto, eager, replay or loop; default: that of the manifest"),
    CLI_FLAG("no-mmap", 0, args.o.device.no_mmap, "read the model into memory instead of mapping the file"),
    OPTION_JSON(args.json),
    CLI_FLAG("quiet", 'q', args.o.quiet, "no progress, and no differences if all is equal"),
};

const Command cli_command_repeat = {.name    = "repeat",
                                    .help    = "run a manifest again and compare every bit",
                                    .usage   = "FILE [options]",
                                    .notes   = "Exit status: 0 if all tokens and the logits of each are the same, 1 if "
                                               "they differ, 2 if the manifest cannot be "
                                               "run: it is damaged, a file is missing or has another hash.\n"
                                               "docs/manifests.md describes the file.",
                                    .options = options,
                                    .n_options = sizeof options / sizeof options[0],
                                    .run       = run};
