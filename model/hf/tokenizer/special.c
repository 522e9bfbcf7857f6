/* Special tokens and the chat template: tokenizer_config.json, generation_config.json, config.json,
 * chat_template.jinja. */
#include "model/hf/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ENDS = 32 };

typedef struct Ends {
    uint32_t ids[MAX_ENDS];
    uint32_t n;
} Ends;

static RpStatus add_end(const HfVocabulary *v, Ends *e, uint32_t id) {
    for (uint32_t i = 0; i < e->n; i++)
        if (e->ids[i] == id) return RP_OK;
    if (e->n == MAX_ENDS) return rp_fail(RP_E_FORMAT, "%s: more than %d tokens end a reply", v->m->dir.path, MAX_ENDS);
    e->ids[e->n++] = id;
    return RP_OK;
}

/* An id, or a list of them, of a file. Numbers that are no id of a token, such as -1, stand for none. */
static RpStatus add_ids(const HfVocabulary *v, const Json *j, const JsonNode *object, const char *name, Ends *e) {
    const JsonNode *x = rp_json_get(j, object, name);
    if (x == NULL || x->type == JSON_NULL) return RP_OK;
    const JsonNode *one = x->type == JSON_ARRAY ? rp_json_first(j, x) : x;
    for (; one != NULL; one = x->type == JSON_ARRAY ? rp_json_next(j, x, one) : NULL) {
        uint64_t id;
        if (one->type != JSON_NUMBER)
            return rp_fail(RP_E_FORMAT, "%s: %s is neither a number nor a list of numbers", j->path, name);
        if (rp_json_u63(j, one, &id) && id < v->n) RP_TRY(add_end(v, e, (uint32_t)id));
    }
    return RP_OK;
}

/* A token of tokenizer_config.json: its text, or an object with "content". UINT32_MAX: there is none. */
static uint32_t named(const HfVocabulary *v, const char *name) {
    const Json     *j = &v->m->tokenizer_config;
    const JsonNode *x = j->nodes != NULL ? rp_json_get(j, j->nodes, name) : NULL;
    if (x != NULL && x->type == JSON_OBJECT) x = rp_json_get(j, x, "content");
    return x != NULL && x->type == JSON_STRING ? rp_hf_token(v, rp_json_string(j, x)) : UINT32_MAX;
}

static bool flag(const HfVocabulary *v, const char *name) {
    const Json     *j = &v->m->tokenizer_config;
    const JsonNode *x = j->nodes != NULL ? rp_json_get(j, j->nodes, name) : NULL;
    return x != NULL && x->type == JSON_TRUE;
}

static void put_id(const HfVocabulary *v, const char *key, uint32_t id) {
    if (id != UINT32_MAX) rp_gguf_put_u32(v->m->out, key, id);
}

/* All that end a reply: eos_token first, then the lists. */
static RpStatus put_ends(const HfVocabulary *v) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    Ends                     e      = {.n = 0};
    const uint32_t           eos    = named(v, "eos_token");
    if (v->eos != UINT32_MAX) RP_TRY(add_end(v, &e, v->eos));
    if (eos != UINT32_MAX) RP_TRY(add_end(v, &e, eos));
    if (v->m->generation.nodes != NULL)
        RP_TRY(add_ids(v, &v->m->generation, v->m->generation.nodes, "eos_token_id", &e));
    RP_TRY(add_ids(v, &v->m->config, v->m->config.nodes, "eos_token_id", &e));
    RP_TRY(add_ids(v, &v->m->config, v->m->text, "eos_token_id", &e));
    for (uint32_t i = 0; i < e.n && i < sizeof keys / sizeof keys[0]; i++)
        rp_gguf_put_u32(v->m->out, keys[i], e.ids[i]);
    rp_gguf_put_array(v->m->out, "tokenizer.hf.end_tokens", RP_GGUF_U32, e.n);
    for (uint32_t i = 0; i < e.n; i++) rp_gguf_put_element(v->m->out, &e.ids[i], sizeof e.ids[i]);
    return RP_OK;
}

/* Writes the sampling parameters of generation_config.json under the keys of llama.cpp's converter. transformers uses
 * them with do_sample only. */
static void put_sampling(const HfVocabulary *v) {
    static const struct {
        const char *name, *key;
    } rows[] = {
        {"temperature",        "general.sampling.temp"          },
        {"top_k",              "general.sampling.top_k"         },
        {"top_p",              "general.sampling.top_p"         },
        {"min_p",              "general.sampling.min_p"         },
        {"repetition_penalty", "general.sampling.penalty_repeat"},
    };
    const Json *j = &v->m->generation;
    if (j->nodes == NULL) return;
    const JsonNode *sampled = rp_json_get(j, j->nodes, "do_sample");
    if (sampled == NULL || sampled->type != JSON_TRUE) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const JsonNode *x = rp_json_get(j, j->nodes, rows[i].name);
        if (x != NULL && x->type == JSON_NUMBER) rp_gguf_put_f32(v->m->out, rows[i].key, (float)rp_json_number(j, x));
    }
}

/* Writes suppress_tokens of generation_config.json. */
static RpStatus put_suppressed(const HfVocabulary *v) {
    const Json     *j    = &v->m->generation;
    const JsonNode *list = j->nodes != NULL ? rp_json_get(j, j->nodes, "suppress_tokens") : NULL;
    uint32_t        n    = 0;
    if (list == NULL || list->type == JSON_NULL) return RP_OK;
    if (list->type != JSON_ARRAY) return rp_fail(RP_E_FORMAT, "%s: suppress_tokens must be a list of ids", j->path);
    for (const JsonNode *x = rp_json_first(j, list); x != NULL; x = rp_json_next(j, list, x), n++) {
        uint64_t id;
        if (!rp_json_u63(j, x, &id) || id > INT32_MAX)
            return rp_fail(RP_E_FORMAT, "%s: element %u of suppress_tokens must be an id", j->path, n);
    }
    rp_gguf_put_array(v->m->out, "tokenizer.ggml.suppress_tokens", RP_GGUF_I32, n);
    for (const JsonNode *x = rp_json_first(j, list); x != NULL; x = rp_json_next(j, list, x)) {
        uint64_t id = 0;
        (void)rp_json_u63(j, x, &id);
        rp_gguf_put_element(v->m->out, &(int32_t){(int32_t)id}, sizeof(int32_t));
    }
    return RP_OK;
}

/* The template of a name: a list of templates has names, a text is the one called "default". */
static RpGgufString template_of(const Json *j, const char *name) {
    const JsonNode *x = j->nodes != NULL ? rp_json_get(j, j->nodes, "chat_template") : NULL;
    if (x == NULL || x->type != JSON_ARRAY)
        return strcmp(name, "default") == 0 ? rp_json_string(j, x) : (RpGgufString){"", 0};
    for (const JsonNode *one = rp_json_first(j, x); one != NULL; one = rp_json_next(j, x, one))
        if (rp_json_is(j, rp_json_get(j, one, "name"), name)) return rp_json_string(j, rp_json_get(j, one, "template"));
    return (RpGgufString){"", 0};
}

/* From a file of its own, tokenizer_config.json, or the chat_template.json of a processor. */
static RpStatus put_template(const HfVocabulary *v, const char *key, const char *file, const char *name) {
    RpGgufString text;
    Json         processor = {0};
    RP_TRY(rp_hf_text(&v->m->dir, file, &text));
    if (text.len == 0) text = template_of(&v->m->tokenizer_config, name);
    if (text.len == 0) RP_TRY(rp_hf_json(&v->m->dir, "chat_template.json", &processor));
    if (text.len == 0) text = template_of(&processor, name);
    char *copy = text.len > 0 ? strndup(text.ptr, text.len) : NULL;
    rp_json_free(&processor);
    if (text.len == 0) return RP_OK;
    if (copy == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for the chat template", v->m->dir.path);
    rp_gguf_put_string(v->m->out, key, copy);
    free(copy);
    return RP_OK;
}

static RpStatus put_chat_templates(const HfVocabulary *v) {
    RP_TRY(put_template(v, "tokenizer.chat_template", "chat_template.jinja", "default"));
    return put_template(v, "tokenizer.chat_template.tool_use", "additional_chat_templates/tool_use.jinja", "tool_use");
}

RpStatus rp_hf_special_tokens(const HfVocabulary *v) {
    uint32_t        bos     = v->bos != UINT32_MAX ? v->bos : named(v, "bos_token");
    const JsonNode *unknown = rp_json_get(v->j, v->model, "unk_token");
    Ends            ids     = {.n = 0};
    if (bos == UINT32_MAX) RP_TRY(add_ids(v, &v->m->config, v->m->text, "bos_token_id", &ids));
    put_id(v, "tokenizer.ggml.bos_token_id", bos != UINT32_MAX || ids.n == 0 ? bos : ids.ids[0]);
    rp_gguf_put_bool(v->m->out, "tokenizer.ggml.add_bos_token", v->bos != UINT32_MAX || flag(v, "add_bos_token"));
    rp_gguf_put_bool(v->m->out, "tokenizer.ggml.add_eos_token",
                     !v->words && (v->eos != UINT32_MAX || flag(v, "add_eos_token")));
    if (v->words) { /* what stands behind a text separates it from a second one */
        rp_gguf_put_bool(v->m->out, "tokenizer.ggml.add_sep_token", v->eos != UINT32_MAX);
        put_id(v, "tokenizer.ggml.seperator_token_id", v->eos);
    } else if (v->sep != UINT32_MAX) {
        rp_gguf_put_bool(v->m->out, "tokenizer.ggml.add_sep_token", true);
        put_id(v, "tokenizer.ggml.seperator_token_id", v->sep);
    }
    if (unknown != NULL && unknown->type == JSON_STRING)
        put_id(v, "tokenizer.ggml.unknown_token_id", rp_hf_token(v, rp_json_string(v->j, unknown)));
    uint64_t unk_id;
    if (v->unigram && rp_json_u63(v->j, rp_json_get(v->j, v->model, "unk_id"), &unk_id) && unk_id < v->n)
        put_id(v, "tokenizer.ggml.unknown_token_id", (uint32_t)unk_id);
    rp_gguf_put_bool(v->m->out, "tokenizer.hf.special_tokens", true);
    RP_TRY(put_ends(v));
    put_sampling(v);
    RP_TRY(put_suppressed(v));
    return put_chat_templates(v);
}
