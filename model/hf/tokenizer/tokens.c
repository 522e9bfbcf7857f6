/* Tokens by their text, and the refusal of parts of tokenizer.json (tokenizer.h). */
#include "model/hf/tokenizer/tokenizer.h"

#include <string.h>

RpStatus rp_hf_unsupported(const HfVocabulary *v, const char *part, const JsonNode *what) {
    const RpGgufString s = rp_json_string(v->j, what);
    return rp_fail(RP_E_UNSUPPORTED, "%s: %s '%.*s' is not supported", v->j->path, part, (int)(s.len < 48 ? s.len : 48),
                   s.ptr);
}

uint32_t rp_hf_token(const HfVocabulary *v, RpGgufString text) {
    for (uint32_t i = 0; i < v->n; i++)
        if (v->tokens[i].type != 0 && v->tokens[i].text.len == text.len &&
            memcmp(v->tokens[i].text.ptr, text.ptr, text.len) == 0)
            return i;
    return UINT32_MAX;
}
