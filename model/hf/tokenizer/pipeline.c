/* pre_tokenizer and post_processor of tokenizer.json (tokenizer.h). */
#include "model/hf/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 12, MAX_EXPRESSION = 1 << 14 };

/* The expressions that cut a text, in the order in which they run. */
typedef struct Expressions {
    RpGgufString texts[MAX_PARTS];
    bool         dropped[MAX_PARTS];
    char        *own[MAX_PARTS]; /* owned texts; NULL: borrowed */
    size_t       n;
    bool         byte_level;
} Expressions;

/* GPT-2, which ByteLevel applies by itself */
static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* ---- pre_tokenizer ---- */

static RpStatus add(const HfVocabulary *v, Expressions *e, RpGgufString text, bool dropped) {
    if (e->n == MAX_PARTS || text.len > MAX_EXPRESSION)
        return rp_fail(RP_E_UNSUPPORTED, "%s: a pre_tokenizer of more than %d parts or %d bytes", v->j->path, MAX_PARTS,
                       MAX_EXPRESSION);
    RP_TRY(rp_hf_check_expression(v, text));
    e->texts[e->n]     = text;
    e->dropped[e->n++] = dropped;
    return RP_OK;
}

static RpStatus add_string(const HfVocabulary *v, Expressions *e, RpGgufString s) {
    RpGgufString text;
    RP_TRY(rp_hf_escaped(v, s, &text));
    char          *own = (char *)(uintptr_t)text.ptr;
    const RpStatus st  = add(v, e, text, false);
    if (st == RP_OK) e->own[e->n - 1] = own;
    if (st != RP_OK) free(own);
    return st;
}

static RpStatus split(const HfVocabulary *v, const JsonNode *x, Expressions *e) {
    const JsonNode *behavior = rp_json_get(v->j, x, "behavior"), *pattern = rp_json_get(v->j, x, "pattern");
    const JsonNode *regex = rp_json_get(v->j, pattern, "Regex"), *string = rp_json_get(v->j, pattern, "String");
    const bool      invert = rp_hf_option(v, x, "invert", false);
    /* the normalizer has left no space */
    if (!v->byte_level && string != NULL && rp_json_is(v->j, string, " ")) return RP_OK;
    const bool isolated = rp_json_is(v->j, behavior, "Isolated"), removed = rp_json_is(v->j, behavior, "Removed");
    if (!isolated && !(removed && invert)) return rp_hf_unsupported(v, "behavior of a Split", behavior);
    if (regex != NULL && regex->type == JSON_STRING) return add(v, e, rp_json_string(v->j, regex), removed);
    if (string != NULL && string->type == JSON_STRING && string->len > 0 && !removed)
        return add_string(v, e, rp_json_string(v->j, string));
    return rp_fail(RP_E_FORMAT, "%s: a Split has no pattern", v->j->path);
}

static RpStatus metaspace(HfVocabulary *v, const JsonNode *x) {
    static const char *const schemes[] = {"never", "always", "first"};
    const JsonNode *replacement = rp_json_get(v->j, x, "replacement"), *scheme = rp_json_get(v->j, x, "prepend_scheme");
    if (!rp_json_is(v->j, replacement, HF_SPACE_MARK))
        return rp_hf_unsupported(v, "replacement of Metaspace", replacement);
    if (v->prepends) return rp_hf_unsupported(v, "Prepend beside", rp_json_get(v->j, x, "type"));
    v->byte_level    = false;
    v->spaces_marked = true;
    v->split_words   = rp_hf_option(v, x, "split", true);
    v->space_prefix  = rp_hf_option(v, x, "add_prefix_space", true) ? "always" : "never";
    if (scheme == NULL) return RP_OK;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (rp_json_is(v->j, scheme, schemes[i])) {
            v->space_prefix = schemes[i];
            return RP_OK;
        }
    return rp_hf_unsupported(v, "prepend_scheme", scheme);
}

/* In front of Metaspace, which takes the words one by one. */
static RpStatus whitespace_split(HfVocabulary *v, const Expressions *e, const JsonNode *type) {
    if (e->n > 0 || v->split_spaces || v->spaces_marked)
        return rp_hf_unsupported(v, "a pre_tokenizer in front of", type);
    v->split_spaces = true;
    return RP_OK;
}

/* The package tokenizers counts the symbols of ASCII as punctuation, too. */
static RpStatus punctuation(const HfVocabulary *v, const JsonNode *x, Expressions *e) {
    const JsonNode *behavior = rp_json_get(v->j, x, "behavior");
    if (behavior == NULL || rp_json_is(v->j, behavior, "Isolated"))
        return add(v, e, rp_hf_text_of("[\\p{P}$+<=>\\^`|~]"), false);
    if (rp_json_is(v->j, behavior, "Contiguous")) return add(v, e, rp_hf_text_of("[\\p{P}$+<=>\\^`|~]+"), false);
    return rp_hf_unsupported(v, "behavior of Punctuation", behavior);
}

static RpStatus pre_tokenizer(HfVocabulary *v, const JsonNode *x, Expressions *e) {
    const JsonNode *type = rp_json_get(v->j, x, "type");
    if (e->byte_level) return rp_hf_unsupported(v, "a pre_tokenizer behind ByteLevel", type);
    if (rp_json_is(v->j, type, "Split")) return split(v, x, e);
    if (rp_json_is(v->j, type, "Metaspace")) return metaspace(v, x);
    if (rp_json_is(v->j, type, "WhitespaceSplit")) return whitespace_split(v, e, type);
    if (rp_json_is(v->j, type, "Punctuation")) return punctuation(v, x, e);
    if (rp_json_is(v->j, type, "Digits"))
        return add(v, e, rp_hf_text_of(rp_hf_option(v, x, "individual_digits", false) ? "\\p{N}" : "\\p{N}+"), false);
    if (!rp_json_is(v->j, type, "ByteLevel")) return rp_hf_unsupported(v, "pre_tokenizer", type);
    if (rp_hf_option(v, x, "add_prefix_space", true))
        return rp_fail(RP_E_UNSUPPORTED, "%s: add_prefix_space of ByteLevel is not supported", v->j->path);
    if (v->prepends) return rp_hf_unsupported(v, "Prepend beside", type);
    e->byte_level = true;
    return rp_hf_option(v, x, "use_regex", true) ? add(v, e, rp_hf_text_of(gpt2), false) : RP_OK;
}

/* The name that GGUF has for these expressions, for other readers of a file that is made of the directory. */
static const char *name_of(const Expressions *e) {
    static const struct {
        const char *name, *texts[3];
    } known[] = {
        {"gpt-2",     {gpt2}                                             },
        {"smollm",    {"\\p{N}", gpt2}                                   },
        {"llama-bpe",
         {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
          "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
        {"qwen2",
         {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
          "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
        {"gpt-4o",
         {"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'"
          "m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?"
          "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}"
          "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|"
          "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}                              },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t k = 0;
        while (k < e->n && k < 3 && known[i].texts[k] != NULL && strlen(known[i].texts[k]) == e->texts[k].len &&
               memcmp(known[i].texts[k], e->texts[k].ptr, e->texts[k].len) == 0)
            k++;
        if (k == e->n && k > 0 && (k == 3 || known[i].texts[k] == NULL)) return known[i].name;
    }
    return "default";
}

static void put_expressions(const HfVocabulary *v, const Expressions *e) {
    GgufWriter *w = v->m->out;
    rp_gguf_put_string(w, "tokenizer.ggml.pre", name_of(e));
    rp_gguf_put_array(w, "tokenizer.hf.expressions", RP_GGUF_STRING, e->n);
    for (size_t i = 0; i < e->n; i++) rp_gguf_put_text(w, e->texts[i].ptr, e->texts[i].len);
    rp_gguf_put_array(w, "tokenizer.hf.dropped", RP_GGUF_BOOL, e->n);
    for (size_t i = 0; i < e->n; i++) rp_gguf_put_element(w, &e->dropped[i], 1);
    rp_gguf_put_bool(w, "tokenizer.hf.ignore_merges", rp_hf_option(v, v->model, "ignore_merges", false));
}

static RpStatus read_pipeline(HfVocabulary *v, Expressions *e) {
    v->byte_level = true;
    RP_TRY(rp_hf_normalizer(v));
    for (HfParts p = rp_hf_parts(v, "pre_tokenizer", "pretokenizers"); p.part != NULL; rp_hf_next_part(v, &p))
        RP_TRY(pre_tokenizer(v, p.part, e));
    if (v->unigram && (v->byte_level || e->byte_level))
        return rp_fail(RP_E_UNSUPPORTED, "%s: a unigram model without U+2581 for spaces is not supported", v->j->path);
    if (v->split_spaces && !v->spaces_marked)
        return rp_fail(RP_E_UNSUPPORTED, "%s: WhitespaceSplit without Metaspace is not supported", v->j->path);
    if (v->byte_level && !e->byte_level)
        return rp_fail(RP_E_UNSUPPORTED,
                       "%s: a vocabulary of neither bytes (ByteLevel) nor U+2581 for spaces is not supported",
                       v->j->path);
    rp_gguf_put_string(v->m->out, "tokenizer.ggml.model", v->byte_level ? "gpt2" : v->unigram ? "t5" : "llama");
    if (v->byte_level) {
        put_expressions(v, e);
        return RP_OK;
    }
    if (e->n > 0 || e->byte_level || rp_hf_option(v, v->model, "ignore_merges", false))
        return rp_fail(RP_E_UNSUPPORTED, "%s: a vocabulary with U+2581 for spaces whose texts are also split",
                       v->j->path);
    rp_gguf_put_bool(v->m->out, "tokenizer.ggml.add_space_prefix", strcmp(v->space_prefix, "never") != 0);
    rp_gguf_put_string(v->m->out, "tokenizer.hf.space_prefix", v->space_prefix);
    rp_gguf_put_bool(v->m->out, "tokenizer.hf.split_words", v->split_words);
    rp_gguf_put_bool(v->m->out, "tokenizer.hf.split_spaces", v->split_spaces);
    return RP_OK;
}

RpStatus rp_hf_pipeline(HfVocabulary *v) {
    Expressions    e  = {0};
    const RpStatus st = read_pipeline(v, &e);
    for (size_t i = 0; i < e.n; i++) free(e.own[i]);
    return st;
}

/* ---- post_processor ---- */

/* "single" of a TemplateProcessing: a special token before the text, one behind it, both or none. */
static RpStatus template_processing(HfVocabulary *v, const JsonNode *x) {
    const JsonNode *single = rp_json_get(v->j, x, "single");
    bool            text   = false;
    for (const JsonNode *part = rp_json_first(v->j, single); part != NULL; part = rp_json_next(v->j, single, part)) {
        const JsonNode *token = rp_json_get(v->j, part, "SpecialToken"), *id = rp_json_get(v->j, token, "id");
        if (token == NULL) {
            if (text) return rp_hf_unsupported(v, "post_processor", rp_json_get(v->j, x, "type"));
            text = true;
            continue;
        }
        uint32_t *out = text ? &v->eos : &v->bos;
        if (*out != UINT32_MAX) return rp_hf_unsupported(v, "a second special token of post_processor", id);
        *out = rp_hf_token(v, rp_json_string(v->j, id));
        if (*out == UINT32_MAX)
            return rp_fail(RP_E_FORMAT, "%s: a special token of post_processor is no token", v->j->path);
    }
    return RP_OK;
}

/* "pair" of a TemplateProcessing. Each text must have the same special tokens as in `single`, except that the second
 * text has no bos. Another token may stand in its place, which becomes v->sep. */
static void pair_template(HfVocabulary *v, const JsonNode *x) {
    const JsonNode *pair      = rp_json_get(v->j, x, "pair");
    uint32_t        ids[3][2] = {{0}}, n[3] = {0}; /* special tokens in front, between and behind */
    int             texts = 0;
    v->no_pair            = true;
    for (const JsonNode *part = rp_json_first(v->j, pair); part != NULL; part = rp_json_next(v->j, pair, part)) {
        const JsonNode *text  = rp_json_get(v->j, rp_json_get(v->j, part, "Sequence"), "id");
        const JsonNode *token = rp_json_get(v->j, rp_json_get(v->j, part, "SpecialToken"), "id");
        if (text != NULL && (texts == 2 || !rp_json_is(v->j, text, texts == 0 ? "A" : "B"))) return;
        if (text == NULL && n[texts] == 2) return;
        if (text == NULL) ids[texts][n[texts]++] = rp_hf_token(v, rp_json_string(v->j, token));
        texts += text != NULL;
    }
    const uint32_t first = v->bos != UINT32_MAX, last = v->eos != UINT32_MAX;
    if (texts < 2 || n[0] != first || n[2] != last || n[1] < last || n[1] > last + !v->words) return;
    if ((first > 0 && ids[0][0] != v->bos) || (last > 0 && (ids[1][0] != v->eos || ids[2][0] != v->eos))) return;
    v->no_pair = false;
    if (n[1] > last) v->sep = ids[1][last];
}

/* "cls" in front of a text and "sep" behind it: each is a token and its id. */
static RpStatus two_tokens(HfVocabulary *v, const JsonNode *x) {
    static const char *const names[] = {"cls", "sep"};
    uint32_t *const          out[]   = {&v->bos, &v->eos};
    for (int i = 0; i < 2; i++) {
        *out[i] = rp_hf_token(v, rp_json_string(v->j, rp_json_first(v->j, rp_json_get(v->j, x, names[i]))));
        if (*out[i] == UINT32_MAX)
            return rp_fail(RP_E_FORMAT, "%s: %s of post_processor is no token", v->j->path, names[i]);
    }
    return RP_OK;
}

RpStatus rp_hf_post_processor(HfVocabulary *v) {
    for (HfParts p = rp_hf_parts(v, "post_processor", "processors"); p.part != NULL; rp_hf_next_part(v, &p)) {
        const JsonNode *type    = rp_json_get(v->j, p.part, "type");
        const bool      roberta = rp_json_is(v->j, type, "RobertaProcessing");
        if (rp_json_is(v->j, type, "TemplateProcessing")) {
            RP_TRY(template_processing(v, p.part));
            pair_template(v, p.part);
        } else if (roberta || rp_json_is(v->j, type, "BertProcessing"))
            RP_TRY(two_tokens(v, p.part));
        else if (!rp_json_is(v->j, type, "ByteLevel"))
            return rp_hf_unsupported(v, "post_processor", type);
        if (roberta) v->sep = v->eos;
        if (v->no_pair && v->m->family->head != NULL) return rp_hf_unsupported(v, "pair of post_processor", type);
    }
    return RP_OK;
}
