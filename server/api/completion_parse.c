/* The body of /v1/completions. */
#include "server/api/formats.h"
#include "server/api/sampling.h"
#include "server/api/turns.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PROMPTS = 256, MAX_REPLIES = 1024, MAX_TOP_LOGPROBS = 20 };

static bool read_prompts(const json_t *body, ApiRequest *r, ApiError *e) {
    if (!api_read_texts(body, "prompt", MAX_PROMPTS, &r->prompts, e)) return false;
    return json_array_size(r->prompts) * (size_t)r->n <= MAX_REPLIES ||
           api_refuse(e, "", "n", "must be at most %d replies in all", MAX_REPLIES);
}

/* A suffix asks for fill-in-the-middle: the request becomes one of /infill. */
static bool read_suffix(const json_t *body, ApiRequest *r, ApiError *e) {
    const char *suffix = NULL;
    if (!api_read_string(body, "", "suffix", &suffix, e)) return false;
    if (suffix == NULL || *suffix == '\0') return true;
    if (json_array_size(r->prompts) != 1 || !json_is_string(json_array_get(r->prompts, 0)))
        return api_refuse(e, "", "suffix", "needs a prompt that is one string");
    if (r->echo) return api_refuse(e, "", "suffix", "cannot be given with echo");
    json_t *fill = json_pack("{s:O, s:s, s:s, s:[]}", "prefix", json_array_get(r->prompts, 0), "suffix", suffix,
                             "prompt", "", "extra");
    if (fill == NULL) return api_no_memory(e);
    json_decref(r->prompts);
    r->prompts = fill;
    r->kind    = API_INFILL;
    return true;
}

static bool read_counts(const json_t *body, ApiRequest *r, ApiError *e) {
    int64_t best = r->n, logprobs = -1;
    if (!api_read_whole(body, "", "best_of", 1, INT_MAX, &best, e) ||
        !api_read_whole(body, "", "logprobs", 0, MAX_TOP_LOGPROBS, &logprobs, e) ||
        !api_read_bool(body, "", "echo", &r->echo, e))
        return false;
    if (best != r->n) return api_refuse(e, "", "best_of", "must be equal to n");
    if (r->echo && logprobs >= 0) return api_refuse(e, "", "echo", "cannot be given with logprobs");
    r->n_logprobs = (int32_t)logprobs;
    return true;
}

bool api_read_schema(const json_t *body, ApiRequest *r, ApiError *e) {
    const json_t *schema = NULL, *format = api_member(body, "response_format");
    if (!api_copy_string(body, "grammar", &r->grammar, e) ||
        !api_read_tree(body, "", "json_schema", JSON_OBJECT, &schema, e))
        return false;
    if (r->grammar != NULL && r->grammar[0] == '\0') { /* some clients send it empty */
        free(r->grammar);
        r->grammar = NULL;
    }
    if ((r->grammar != NULL) + (schema != NULL) + (format != NULL) > 1)
        return api_refuse(e, "", r->grammar != NULL ? "grammar" : "json_schema",
                          "only one of grammar, json_schema and response_format can be given");
    Chat held = {.json = json_object()};
    bool ok   = held.json != NULL ? chat_answer_format(&held, format, "response_format", e) : api_no_memory(e);
    if (ok && format != NULL) {
        const json_t *kept = json_object_get(held.json, "response_format");
        schema             = json_object_get(json_object_get(kept, "json_schema"), "schema");
        ok = api_copy_string(kept, "grammar", &r->grammar, e) && api_copy_string(kept, "regex", &r->regex, e);
        if (ok && kept != NULL && schema == NULL && r->grammar == NULL && r->regex == NULL)
            r->schema = json_pack("{s:s}", "type", "object");
    }
    if (ok && schema != NULL) r->schema = json_deep_copy(schema);
    if (ok && schema != NULL && r->schema == NULL) ok = api_no_memory(e);
    json_decref(held.json);
    return ok;
}

static bool read_completion(const json_t *body, ApiRequest *r, ApiError *e) {
    r->kind = API_COMPLETION;
    return api_read_common(body, r, e) && api_read_limit(body, "max_tokens", "n_predict", r, e) &&
           api_read_stop(body, "stop", r, e) && read_counts(body, r, e) && read_prompts(body, r, e) &&
           read_suffix(body, r, e) && api_read_schema(body, r, e);
}

bool api_completion_parse(const ApiFormat *format, const json_t *body, const ApiRequest *defaults, ApiRequest *out,
                          ApiError *error) {
    api_request_begin(format, defaults, out);
    if (read_completion(body, out, error)) return true;
    api_request_free(out);
    return false;
}
