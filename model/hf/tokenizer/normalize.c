/* normalizer of tokenizer.json (tokenizer.h). Prepend and Replace with U+2581 belong to the kind of the vocabulary, all
 * other steps become tokenizer.hf.normalizers. */
#include "model/hf/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

static RpStatus add(HfVocabulary *v, const JsonNode *type, const char *kind, RpGgufString pattern, RpGgufString by) {
    if (v->prepends || v->replaces) return rp_hf_unsupported(v, "a normalizer behind U+2581 for spaces", type);
    if (v->n_steps == HF_MAX_STEPS)
        return rp_fail(RP_E_UNSUPPORTED, "%s: a normalizer of more than %d steps", v->j->path, HF_MAX_STEPS);
    v->steps[v->n_steps++] = (HfStep){
        .text = {rp_hf_text_of(kind), pattern, by}
    };
    return RP_OK;
}

static RpStatus replace(HfVocabulary *v, const JsonNode *x, const JsonNode *type) {
    const JsonNode    *pattern = rp_json_get(v->j, x, "pattern"), *content = rp_json_get(v->j, x, "content");
    const JsonNode    *regex = rp_json_get(v->j, pattern, "Regex"), *string = rp_json_get(v->j, pattern, "String");
    const RpGgufString by = rp_json_string(v->j, content);
    RpGgufString       escaped;
    if (rp_json_is(v->j, string, " ") && rp_json_is(v->j, content, HF_SPACE_MARK)) {
        v->byte_level = false;
        v->replaces   = true;
        return RP_OK;
    }
    if (content == NULL || content->type != JSON_STRING)
        return rp_fail(RP_E_FORMAT, "%s: a Replace has no content", v->j->path);
    if (regex != NULL && regex->type == JSON_STRING) {
        RP_TRY(rp_hf_check_expression(v, rp_json_string(v->j, regex)));
        return add(v, type, "replace", rp_json_string(v->j, regex), by);
    }
    if (string == NULL || string->type != JSON_STRING || string->len == 0)
        return rp_fail(RP_E_FORMAT, "%s: a Replace has no pattern", v->j->path);
    RP_TRY(rp_hf_escaped(v, rp_json_string(v->j, string), &escaped));
    char          *own = (char *)(uintptr_t)escaped.ptr;
    const RpStatus st  = add(v, type, "replace", escaped, by);
    if (st == RP_OK) v->steps[v->n_steps - 1].own = own;
    if (st != RP_OK) free(own);
    return st;
}

static RpStatus strip(HfVocabulary *v, const JsonNode *x, const JsonNode *type) {
    if (rp_hf_option(v, x, "strip_left", false))
        RP_TRY(add(v, type, "strip", rp_hf_text_of("left"), rp_hf_text_of("")));
    return rp_hf_option(v, x, "strip_right", false) ? add(v, type, "strip", rp_hf_text_of("right"), rp_hf_text_of(""))
                                                    : RP_OK;
}

/* ---- Precompiled ---- */

/* The 6 bits of a character of base64, or -1. */
static int sextet(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char       *at       = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

/* Puts the bytes that a text of base64 stands for. */
static RpStatus put_map(const HfVocabulary *v, RpGgufString s) {
    uint32_t bits = 0, n_bits = 0;
    while (s.len > 0 && s.ptr[s.len - 1] == '=') s.len--;
    rp_gguf_put_array(v->m->out, "tokenizer.ggml.precompiled_charsmap", RP_GGUF_U8, 6 * (uint64_t)s.len / 8);
    for (size_t i = 0; i < s.len; i++) {
        const int six = sextet(s.ptr[i]);
        if (six < 0) return rp_fail(RP_E_FORMAT, "%s: precompiled_charsmap is no base64", v->j->path);
        bits = bits << 6 | (uint32_t)six;
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        rp_gguf_put_element(v->m->out, &(uint8_t){(uint8_t)(bits >> n_bits)}, 1);
    }
    return RP_OK;
}

static RpStatus precompiled(HfVocabulary *v, const JsonNode *x, const JsonNode *type) {
    const JsonNode *map = rp_json_get(v->j, x, "precompiled_charsmap");
    for (uint32_t i = 0; i < v->n_steps; i++)
        if (strcmp(v->steps[i].text[0].ptr, "precompiled") == 0)
            return rp_hf_unsupported(v, "a second normalizer", type);
    RP_TRY(add(v, type, "precompiled", rp_hf_text_of(""), rp_hf_text_of("")));
    rp_gguf_put_bool(v->m->out, "tokenizer.ggml.remove_extra_whitespaces", true); /* for other readers */
    return put_map(v, rp_json_string(v->j, map));
}

/* ---- all of it ---- */

static RpStatus normalizer(HfVocabulary *v, const JsonNode *x) {
    static const struct {
        const char *name, *kind, *pattern;
    } plain[] = {
        {"NFC",          "nfc",       ""      },
        {"NFD",          "nfd",       ""      },
        {"NFKC",         "nfkc",      ""      },
        {"NFKD",         "nfkd",      ""      },
        {"Lowercase",    "lowercase", ""      },
        {"StripAccents", "replace",   "\\p{M}"},
    };
    const JsonNode *type = rp_json_get(v->j, x, "type");
    if (rp_json_is(v->j, type, "Prepend") && rp_json_is(v->j, rp_json_get(v->j, x, "prepend"), HF_SPACE_MARK)) {
        v->space_prefix = "prepend";
        v->prepends     = true;
        return RP_OK;
    }
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (rp_json_is(v->j, type, plain[i].name))
            return add(v, type, plain[i].kind, rp_hf_text_of(plain[i].pattern), rp_hf_text_of(""));
    if (rp_json_is(v->j, type, "Replace")) return replace(v, x, type);
    if (rp_json_is(v->j, type, "Strip")) return strip(v, x, type);
    if (rp_json_is(v->j, type, "Precompiled")) return precompiled(v, x, type);
    return rp_hf_unsupported(v, "normalizer", type);
}

/* With do_lower_case sentence-transformers puts Lowercase in front of a normalizer that has none. */
static RpStatus lowercase(HfVocabulary *v) {
    const Json     *j = &v->m->sentences;
    const JsonNode *x = j->nodes != NULL ? rp_json_get(j, j->nodes, "do_lower_case") : NULL;
    if (x == NULL || x->type != JSON_TRUE) return RP_OK;
    for (HfParts p = rp_hf_parts(v, "normalizer", "normalizers"); p.part != NULL; rp_hf_next_part(v, &p))
        if (rp_json_is(v->j, rp_json_get(v->j, p.part, "type"), "Lowercase")) return RP_OK;
    return add(v, NULL, "lowercase", rp_hf_text_of(""), rp_hf_text_of(""));
}

RpStatus rp_hf_normalizer(HfVocabulary *v) {
    RP_TRY(lowercase(v));
    for (HfParts p = rp_hf_parts(v, "normalizer", "normalizers"); p.part != NULL && !v->words; rp_hf_next_part(v, &p))
        RP_TRY(normalizer(v, p.part));
    if (v->n_steps == 0) return RP_OK;
    rp_gguf_put_array(v->m->out, "tokenizer.hf.normalizers", RP_GGUF_STRING, 3 * (uint64_t)v->n_steps);
    for (uint32_t i = 0; i < v->n_steps; i++)
        for (int k = 0; k < 3; k++) rp_gguf_put_text(v->m->out, v->steps[i].text[k].ptr, v->steps[i].text[k].len);
    return RP_OK;
}
