/* infill.c - prompts for code in the middle of a file, as llama.cpp's server makes them for /infill. */
#include "server/jobs/infill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t fim_token(const RpModel *m, RpFimToken which) { return rp_tokenizer_fim(rp_model_tokenizer(m), which); }

/* Texts of the client are plain: they have no control tokens. */
static RpStatus put_text(const RpModel *m, const char *text, RpTokenList *out) {
    if (text == NULL || text[0] == '\0') return RP_OK;
    return rp_tokenize(rp_model_tokenizer(m), text, strlen(text), 0, out);
}

static RpStatus put_part(const RpModel *m, int32_t mark, const char *text, RpTokenList *out) {
    if (mark >= 0) RP_TRY(rp_token_list_push(out, mark));
    return put_text(m, text, out);
}

/* "NAME\n" behind the mark of a file. */
static RpStatus put_name(const RpModel *m, int32_t mark, const char *name, RpTokenList *out) {
    char *line;
    if (asprintf(&line, "%s\n", name) < 0) return rp_fail(RP_E_NOMEM, "out of memory for the name of a file");
    const RpStatus st = put_part(m, mark, line, out);
    free(line);
    return st;
}

/* Other files of the repository. */
static RpStatus put_extra(const RpModel *m, const json_t *extra, RpTokenList *out) {
    const int32_t repo = fim_token(m, RP_FIM_REP), file = fim_token(m, RP_FIM_SEP);
    const json_t *one;
    size_t        i;
    if (json_array_size(extra) == 0) return RP_OK;
    if (repo >= 0) RP_TRY(put_part(m, repo, "repository\n", out));
    json_array_foreach(extra, i, one) {
        if (file >= 0)
            RP_TRY(put_name(m, file, json_string_value(json_object_get(one, "filename")), out));
        else
            RP_TRY(put_text(m, "\n\n--- snippet ---\n\n", out));
        RP_TRY(put_text(m, json_string_value(json_object_get(one, "text")), out));
    }
    return file >= 0 ? put_part(m, file, "filename\n", out) : RP_OK;
}

bool infill_is_known(const RpModel *m) {
    return fim_token(m, RP_FIM_PRE) >= 0 && fim_token(m, RP_FIM_SUF) >= 0 && fim_token(m, RP_FIM_MID) >= 0;
}

RpStatus infill_tokenize(const RpModel *m, const json_t *request, RpTokenList *out) {
    const RpTokenizer *tk = rp_model_tokenizer(m);
    if (!infill_is_known(m))
        return rp_fail(RP_E_UNSUPPORTED, "the model has no tokens for code in the middle of a file (fim_pre, fim_suf, "
                                         "fim_mid)");
    if (rp_tokenizer_adds_bos(tk) && rp_tokenizer_bos(tk) >= 0) RP_TRY(rp_token_list_push(out, rp_tokenizer_bos(tk)));
    RP_TRY(put_extra(m, json_object_get(request, "extra"), out));
    RP_TRY(put_part(m, fim_token(m, RP_FIM_PRE), json_string_value(json_object_get(request, "prefix")), out));
    RP_TRY(put_text(m, json_string_value(json_object_get(request, "prompt")), out));
    RP_TRY(put_part(m, fim_token(m, RP_FIM_SUF), json_string_value(json_object_get(request, "suffix")), out));
    return rp_token_list_push(out, fim_token(m, RP_FIM_MID));
}
