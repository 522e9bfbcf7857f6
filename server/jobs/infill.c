/* infill.c - prompts for code in the middle of a file, as llama.cpp's server makes them for /infill. */
#include "server/jobs/infill.h"

#include <stdio.h>
#include <string.h>

/* Id of a FIM token of the file by its key, without "tokenizer.ggml." and "_token_id", or by the name that older files
 * have; -1: none. */
static int32_t fim_token(const RpModel *m, const char *key, const char *older) {
    char        name[96];
    uint32_t    id;
    const char *keys[] = {key, older};
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "tokenizer.ggml.%s_token_id", keys[i]);
        if (rp_gguf_find(rp_model_file(m), name) != NULL && rp_gguf_get_u32(rp_model_file(m), name, &id) == RP_OK &&
            id < (uint32_t)rp_model_info(m)->n_vocab)
            return (int32_t)id;
    }
    return -1;
}

/* Texts of the client are plain: they have no control tokens. */
static RpStatus put_text(const RpModel *m, const char *text, RpTokenList *out) {
    if (text == NULL || text[0] == '\0') return RP_OK;
    return rp_tokenize(rp_model_tokenizer(m), text, strlen(text), 0, out);
}

static RpStatus put_part(const RpModel *m, int32_t mark, const char *text, RpTokenList *out) {
    if (mark >= 0) RP_TRY(rp_token_list_push(out, mark));
    return put_text(m, text, out);
}

/* Other files of the repository, for models that know marks for them. */
static RpStatus put_extra(const RpModel *m, const json_t *extra, RpTokenList *out) {
    const int32_t repo = fim_token(m, "fim_rep", "fim_rep"), file = fim_token(m, "fim_sep", "fim_sep");
    const json_t *one;
    size_t        i;
    if (json_array_size(extra) == 0) return RP_OK;
    if (repo >= 0) RP_TRY(put_part(m, repo, "repository\n", out));
    json_array_foreach(extra, i, one) {
        RP_TRY(put_part(m, file, json_string_value(json_object_get(one, "filename")), out));
        RP_TRY(put_text(m, "\n", out));
        RP_TRY(put_text(m, json_string_value(json_object_get(one, "text")), out));
    }
    return file >= 0 ? put_part(m, file, "filename\n", out) : RP_OK;
}

bool infill_is_known(const RpModel *m) {
    return fim_token(m, "fim_pre", "prefix") >= 0 && fim_token(m, "fim_suf", "suffix") >= 0 &&
           fim_token(m, "fim_mid", "middle") >= 0;
}

RpStatus infill_tokenize(const RpModel *m, const json_t *request, RpTokenList *out) {
    const RpTokenizer *tk  = rp_model_tokenizer(m);
    const int32_t      pre = fim_token(m, "fim_pre", "prefix"), suf = fim_token(m, "fim_suf", "suffix");
    const int32_t      mid = fim_token(m, "fim_mid", "middle");
    if (pre < 0 || suf < 0 || mid < 0)
        return rp_fail(RP_E_UNSUPPORTED, "the model has no tokens for code in the middle of a file (fim_pre, fim_suf, "
                                         "fim_mid)");
    if (rp_tokenizer_adds_bos(tk) && rp_tokenizer_bos(tk) >= 0) RP_TRY(rp_token_list_push(out, rp_tokenizer_bos(tk)));
    RP_TRY(put_extra(m, json_object_get(request, "extra"), out));
    RP_TRY(put_part(m, pre, json_string_value(json_object_get(request, "prefix")), out));
    RP_TRY(put_part(m, suf, json_string_value(json_object_get(request, "suffix")), out));
    RP_TRY(put_part(m, mid, NULL, out));
    return put_text(m, json_string_value(json_object_get(request, "prompt")), out);
}
