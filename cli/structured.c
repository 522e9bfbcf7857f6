#include "cli/structured.h"

#include "cli/text_files.h"

#include <stdlib.h>
#include <string.h>

const char *cli_structured_wrong(const StructuredArgs *a) {
    const int n = (a->schema != NULL) + (a->grammar != NULL) + (a->regex != NULL) + a->json_object;
    return n > 1 ? "--schema, --grammar, --regex and --json-object exclude each other" : NULL;
}

/* Errors of the file's content begin with its name. */
static RpStatus of_file(const char *path, bool is_schema, Structure *out) {
    Text text = {0};
    RP_TRY(cli_read_text(NULL, path, &text));
    RpStatus st = is_schema ? rp_grammar_json_schema(text.bytes, text.n, 0, &out->grammar)
                            : rp_grammar_gbnf(text.bytes, text.n, &out->grammar);
    out->text   = text.bytes;
    out->n      = text.n;
    return st == RP_OK ? RP_OK : rp_fail(st, "%s: %s", path, rp_last_error());
}

RpStatus cli_structure_open(const StructuredArgs *a, const RpModel *m, Structure *out) {
    if (a->schema != NULL) RP_TRY(of_file(a->schema, true, out));
    if (a->grammar != NULL) RP_TRY(of_file(a->grammar, false, out));
    if (a->regex != NULL) RP_TRY(rp_grammar_regex(a->regex, strlen(a->regex), &out->grammar));
    if (a->json_object) RP_TRY(rp_grammar_json(0, &out->grammar));
    if (out->grammar == NULL) return RP_OK;
    RP_TRY(rp_grammar_vocab_new(rp_model_tokenizer(m), &out->vocab));
    return rp_matcher_new(out->grammar, out->vocab, &out->matcher);
}

void cli_structure_free(Structure *s) {
    rp_matcher_free(s->matcher);
    rp_grammar_vocab_free(s->vocab);
    rp_grammar_free(s->grammar);
    free(s->text);
}
