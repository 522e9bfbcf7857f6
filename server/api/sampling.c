/* How replies are sampled and where they end (sampling.h). */
#include "server/api/sampling.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STOP = 16, MAX_BREAKERS = 32, MAX_BIAS = 4096, MAX_CHOICES = 64, MAX_LAST_N = 1048576 };

/* Parameters of the sampler, as llama.cpp names them. `at`: the offset in RpSamplerParams. */
static const struct {
    const char *name;
    size_t      at;
    double      low, high;
    bool        whole;
} parameters[] = {
    {"temperature",        offsetof(RpSamplerParams, temperature),        0,   100,        false},
    {"top_k",              offsetof(RpSamplerParams, top_k),              -1,  INT_MAX,    true },
    {"top_p",              offsetof(RpSamplerParams, top_p),              0,   1,          false},
    {"min_p",              offsetof(RpSamplerParams, min_p),              0,   1,          false},
    {"repeat_penalty",     offsetof(RpSamplerParams, repeat_penalty),     0.1, 100,        false},
    {"repetition_penalty", offsetof(RpSamplerParams, repeat_penalty),     0.1, 100,        false},
    {"repeat_last_n",      offsetof(RpSamplerParams, repeat_last_n),      -1,  MAX_LAST_N, true },
    {"typical_p",          offsetof(RpSamplerParams, typical_p),          0,   1,          false},
    {"top_n_sigma",        offsetof(RpSamplerParams, top_n_sigma),        -1,  100,        false},
    {"frequency_penalty",  offsetof(RpSamplerParams, frequency_penalty),  -2,  2,          false},
    {"presence_penalty",   offsetof(RpSamplerParams, presence_penalty),   -2,  2,          false},
    {"dry_multiplier",     offsetof(RpSamplerParams, dry_multiplier),     0,   100,        false},
    {"dry_base",           offsetof(RpSamplerParams, dry_base),           1,   100,        false},
    {"dry_allowed_length", offsetof(RpSamplerParams, dry_allowed_length), 0,   MAX_LAST_N, true },
    {"dry_penalty_last_n", offsetof(RpSamplerParams, dry_penalty_last_n), -1,  MAX_LAST_N, true },
    {"xtc_probability",    offsetof(RpSamplerParams, xtc_probability),    0,   1,          false},
    {"xtc_threshold",      offsetof(RpSamplerParams, xtc_threshold),      0,   1,          false},
    {"min_keep",           offsetof(RpSamplerParams, min_keep),           0,   MAX_LAST_N, true },
    {"mirostat",           offsetof(RpSamplerParams, mirostat),           0,   2,          true },
    {"mirostat_tau",       offsetof(RpSamplerParams, mirostat_tau),       0,   100,        false},
    {"mirostat_eta",       offsetof(RpSamplerParams, mirostat_eta),       0,   1,          false},
    {"dynatemp_range",     offsetof(RpSamplerParams, dynatemp_range),     0,   100,        false},
    {"dynatemp_exponent",  offsetof(RpSamplerParams, dynatemp_exponent),  0,   100,        false},
};

void api_request_begin(const ApiFormat *format, const ApiRequest *defaults, ApiRequest *r) {
    *r = (ApiRequest){.format           = format,
                      .sampler          = defaults->sampler,
                      .max_tokens       = defaults->max_tokens,
                      .reasoning_budget = defaults->reasoning_budget,
                      .n                = 1,
                      .n_logprobs       = -1};
}

void api_request_free(ApiRequest *r) {
    for (size_t i = 0; i < r->n_stop; i++) free(r->stop[i]);
    for (size_t i = 0; i < r->n_dry_breakers; i++) free(r->dry_breakers[i]);
    free(r->stop), free(r->dry_breakers), free(r->samplers), free(r->logit_bias), free(r->model), free(r->grammar);
    free(r->regex);
    json_decref(r->chat), json_decref(r->prompts), json_decref(r->schema), json_decref(r->extra);
    *r = (ApiRequest){0};
}

bool api_copy_string(const json_t *body, const char *name, char **out, ApiError *e) {
    const char *text = NULL;
    if (!api_read_string(body, "", name, &text, e)) return false;
    if (text == NULL) return true;
    *out = strdup(text);
    return *out != NULL || api_no_memory(e);
}

static bool read_parameters(const json_t *body, RpSamplerParams *p, ApiError *e) {
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        char *const place = (char *)p + parameters[i].at;
        int64_t     whole = INT64_MIN;
        double      x     = (double)NAN;
        if (parameters[i].whole) {
            if (!api_read_whole(body, "", parameters[i].name, (int64_t)parameters[i].low, (int64_t)parameters[i].high,
                                &whole, e))
                return false;
            if (whole != INT64_MIN) memcpy(place, &(int32_t){(int32_t)whole}, sizeof(int32_t));
        } else {
            if (!api_read_number(body, "", parameters[i].name, parameters[i].low, parameters[i].high, &x, e))
                return false;
            if (!isnan(x)) memcpy(place, &(float){(float)x}, sizeof(float));
        }
    }
    if (p->mirostat == 1) return api_refuse(e, "", "mirostat", "must be 0 or 2");
    if (p->top_k == -1) p->top_k = 0;                          /* llama.cpp: all */
    if (p->repeat_last_n == -1) p->repeat_last_n = MAX_LAST_N; /* llama.cpp: the whole context */
    if (p->dry_penalty_last_n == -1) p->dry_penalty_last_n = MAX_LAST_N;
    if (p->top_n_sigma < 0) p->top_n_sigma = 0; /* llama.cpp: off */
    if (p->top_p < FLT_MIN) p->top_p = FLT_MIN; /* the most probable token only */
    return true;
}

static bool read_biased(const char *id, double bias, const char *at, RpLogitBias *out, ApiError *e) {
    char      *end;
    const long token = strtol(id, &end, 10);
    if (end == id || *end != '\0' || token < 0 || token > INT_MAX)
        return api_refuse(e, at, "", "\"%.40s\" is no id of a token", id);
    *out = (RpLogitBias){(int32_t)token, (float)bias};
    return true;
}

/* An element [id, bias] of llama.cpp, where a bias may be false. */
static bool read_pair(const json_t *pair, const char *at, RpLogitBias *out, ApiError *e) {
    const json_t *id = json_array_get(pair, 0), *bias = json_array_get(pair, 1);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT_MAX ||
        !(json_is_number(bias) || json_is_false(bias)))
        return api_refuse(e, at, "", "must be an array of an id of a token, and a number or false");
    *out = (RpLogitBias){(int32_t)json_integer_value(id),
                         json_is_false(bias) ? -INFINITY : (float)json_number_value(bias)};
    return true;
}

static bool read_bias(const json_t *body, ApiRequest *r, ApiError *e) {
    const json_t *all  = api_member(body, "logit_bias");
    json_t       *some = json_object_get(body, "logit_bias"), *value;
    const size_t  n    = json_is_array(all) ? json_array_size(all) : json_object_size(all);
    const char   *id;
    char          at[API_PATH];
    if (all == NULL) return true;
    if (!json_is_object(all) && !json_is_array(all))
        return api_refuse(e, "", "logit_bias", "must be an object of ids of tokens, or an array of pairs");
    if (n > MAX_BIAS) return api_refuse(e, "", "logit_bias", "must have at most %d tokens", MAX_BIAS);
    r->logit_bias = calloc(n + 1, sizeof *r->logit_bias);
    if (r->logit_bias == NULL) return api_no_memory(e);
    RpLogitBias *next = r->logit_bias;
    for (size_t i = 0; i < json_array_size(all); i++) {
        api_path(at, "", "logit_bias", i);
        if (!read_pair(json_array_get(all, i), at, next++, e)) return false;
    }
    if (json_is_object(all)) json_object_foreach(some, id, value) {
            double bias = 0;
            if (!api_read_number(all, "logit_bias", id, -1e30, 1e30, &bias, e) ||
                !read_biased(id, bias, "logit_bias", next++, e))
                return false;
        }
    r->sampler.logit_bias   = r->logit_bias;
    r->sampler.n_logit_bias = n;
    return true;
}

/* Copies an array of strings, or one string. Empty ones are left out. */
static bool read_strings(const json_t *body, const char *name, size_t most, char ***out, size_t *n_out, ApiError *e) {
    const json_t *all = api_member(body, name);
    const size_t  n   = json_is_array(all) ? json_array_size(all) : 1;
    char          at[API_PATH];
    if (all == NULL) return true;
    if (!json_is_array(all) && !json_is_string(all))
        return api_refuse(e, "", name, "must be a string or an array of strings");
    if (n > most) return api_refuse(e, "", name, "must have at most %zu strings", most);
    *out = calloc(n + 1, sizeof **out);
    if (*out == NULL) return api_no_memory(e);
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_is_array(all) ? json_array_get(all, i) : all;
        api_path(at, "", name, i);
        if (!json_is_string(value)) return api_refuse(e, at, "", "must be a string");
        if (json_string_length(value) == 0) continue;
        (*out)[*n_out] = strdup(json_string_value(value));
        if ((*out)[*n_out] == NULL) return api_no_memory(e);
        ++*n_out;
    }
    return true;
}

bool api_read_stop(const json_t *body, const char *name, ApiRequest *r, ApiError *e) {
    return read_strings(body, name, MAX_STOP, &r->stop, &r->n_stop, e);
}

static bool read_breakers(const json_t *body, ApiRequest *r, ApiError *e) {
    if (!read_strings(body, "dry_sequence_breakers", MAX_BREAKERS, &r->dry_breakers, &r->n_dry_breakers, e))
        return false;
    for (size_t i = 0; i < r->n_dry_breakers; i++)
        if (strlen(r->dry_breakers[i]) > 40)
            return api_refuse(e, "", "dry_sequence_breakers", "must be strings of at most 40 bytes");
    if (r->dry_breakers == NULL) return true;
    r->sampler.dry_breakers   = (const char *const *)r->dry_breakers;
    r->sampler.n_dry_breakers = r->n_dry_breakers;
    return true;
}

/* llama.cpp's array of steps, or their names with semicolons between. */
static bool read_samplers(const json_t *body, ApiRequest *r, ApiError *e) {
    char **names = NULL;
    size_t n     = 0;
    Bytes  all   = {0};
    bool   ok    = read_strings(body, "samplers", MAX_STOP, &names, &n, e);
    for (size_t i = 0; i < n; i++) {
        const bool infill = strcmp(names[i], "infill") == 0; /* a step of llama.cpp that is left out */
        if (all.n > 0 && !infill) bytes_text(&all, ";");
        if (!infill) bytes_text(&all, names[i]);
        free(names[i]);
    }
    free(names);
    if (ok && all.failed) ok = api_no_memory(e);
    if (!ok) bytes_free(&all);
    r->samplers = all.p;
    if (all.p != NULL) r->sampler.samplers = all.p;
    return ok;
}

static bool read_seed(const json_t *body, ApiRequest *r, ApiError *e) {
    int64_t seed = -1;
    if (!api_read_whole(body, "", "seed", INT64_MIN, INT64_MAX, &seed, e)) return false;
    r->has_seed     = api_member(body, "seed") != NULL && seed != -1; /* llama.cpp: -1 is a random one */
    r->sampler.seed = (uint64_t)seed;
    return true;
}

/* -1 of llama.cpp is no limit. Its 0 is no reasoning: formats of chats set a variable of the template (turns.h). */
static bool read_budget(const json_t *body, ApiRequest *r, ApiError *e) {
    int64_t budget = r->reasoning_budget;
    if (!api_read_whole(body, "", "reasoning_budget", -1, INT32_MAX, &budget, e) ||
        !api_read_whole(body, "", "thinking_budget_tokens", -1, INT32_MAX, &budget, e))
        return false;
    r->reasoning_budget = budget < 0 ? 0 : (int32_t)budget;
    return true;
}

bool api_read_limit(const json_t *body, const char *name, const char *other, ApiRequest *r, ApiError *e) {
    int64_t limit = INT64_MIN;
    if (api_member(body, name) == NULL && other != NULL) name = other;
    if (!api_read_whole(body, "", name, -1, INT32_MAX, &limit, e)) return false;
    if (limit == 0) return api_refuse(e, "", name, "must be at least 1");
    if (limit != INT64_MIN) r->max_tokens = limit < 0 ? 0 : (int32_t)limit;
    return true;
}

bool api_read_common(const json_t *body, ApiRequest *r, ApiError *e) {
    int64_t       n = 1, priority = 0;
    bool          parallel = true;
    const json_t *options  = NULL;
    if (!api_copy_string(body, "model", &r->model, e) || !api_read_bool(body, "", "stream", &r->stream, e) ||
        !api_read_tree(body, "", "stream_options", JSON_OBJECT, &options, e) ||
        !api_read_bool(options, "stream_options", "include_usage", &r->usage, e) ||
        !api_read_whole(body, "", "n", 1, MAX_CHOICES, &n, e) ||
        !api_read_whole(body, "", "priority", -1000, 1000, &priority, e) ||
        !api_read_bool(body, "", "ignore_eos", &r->ignore_end, e) ||
        !api_read_bool(body, "", "parallel_tool_calls", &parallel, e))
        return false;
    r->n        = (int32_t)n;
    r->priority = (int32_t)priority;
    r->one_call = !parallel;
    return read_seed(body, r, e) && read_parameters(body, &r->sampler, e) && read_bias(body, r, e) &&
           read_breakers(body, r, e) && read_samplers(body, r, e) && read_budget(body, r, e);
}
