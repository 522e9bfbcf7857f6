/* llama.cpp's /infill: the text between a prefix and a suffix. */
#include "server/api/answer.h"
#include "server/api/sampling.h"

#include <string.h>

enum { MAX_EXTRA = 1024 };

/* Texts of other files: [{"filename": ..., "text": ...}] */
static bool read_extra(const json_t *body, json_t *fill, ApiError *e) {
    const json_t *extra = NULL, *one;
    size_t        i;
    char          at[API_PATH];
    if (!api_read_tree(body, "", "input_extra", JSON_ARRAY, &extra, e)) return false;
    if (json_array_size(extra) > MAX_EXTRA)
        return api_refuse(e, "", "input_extra", "must have at most %d texts", MAX_EXTRA);
    json_array_foreach(extra, i, one) {
        const char *name = "", *text = "";
        api_path(at, "", "input_extra", i);
        if (!json_is_object(one)) return api_refuse(e, at, "", "must be an object");
        if (!api_read_string(one, at, "filename", &name, e) || !api_read_string(one, at, "text", &text, e))
            return false;
        if (json_array_append_new(json_object_get(fill, "extra"),
                                  json_pack("{s:s, s:s}", "filename", name, "text", text)) != 0)
            return api_no_memory(e);
    }
    return true;
}

/* Editors warm the cache up with n_predict 0: the reply then has one token. */
static bool read_count(const json_t *body, ApiRequest *r, ApiError *e) {
    if (json_is_integer(json_object_get(body, "n_predict")) &&
        json_integer_value(json_object_get(body, "n_predict")) == 0) {
        r->max_tokens = 1;
        return true;
    }
    return api_read_limit(body, "n_predict", "max_tokens", r, e);
}

static bool read_infill(const json_t *body, ApiRequest *r, ApiError *e) {
    const char *prefix = NULL, *suffix = NULL, *prompt = "";
    r->kind = API_INFILL;
    if (!api_read_common(body, r, e) || !read_count(body, r, e) || !api_read_stop(body, "stop", r, e) ||
        !api_read_schema(body, r, e) || !api_read_string(body, "", "input_prefix", &prefix, e) ||
        !api_read_string(body, "", "input_suffix", &suffix, e) || !api_read_string(body, "", "prompt", &prompt, e))
        return false;
    if (prefix == NULL) return api_refuse(e, "", "input_prefix", "must be a string");
    if (suffix == NULL) return api_refuse(e, "", "input_suffix", "must be a string");
    r->n       = 1;
    r->prompts = json_pack("{s:s, s:s, s:s, s:[]}", "prefix", prefix, "suffix", suffix, "prompt", prompt, "extra");
    return r->prompts != NULL ? read_extra(body, r->prompts, e) : api_no_memory(e);
}

bool api_infill_parse(const ApiFormat *format, const json_t *body, const ApiRequest *defaults, ApiRequest *out,
                      ApiError *error) {
    api_request_begin(format, defaults, out);
    if (read_infill(body, out, error)) return true;
    api_request_free(out);
    return false;
}

static const char *stop_type(RpStopReason reason) {
    if (reason == RP_STOP_STRING) return "word";
    return reason == RP_STOP_LIMIT || reason == RP_STOP_CONTEXT ? "limit" : "eos";
}

/* The members behind the content once the reply has ended. */
static void put_tail(const ApiAnswer *a, Bytes *out) {
    const ApiEnd *end = &a->choices[0].end;
    json_put(out, "'stop':true,'model':%s,'tokens_predicted':%d,'tokens_evaluated':%d,", a->model, end->n_generated,
             end->n_prompt);
    json_put(out, "'tokens_cached':%d,'truncated':false,'stop_type':'%r','stopping_word':%s,'seed':%u,", end->n_cached,
             stop_type(end->reason), end->stop != NULL ? end->stop : "", a->seed);
    api_put_timings(end, out);
    bytes_text(out, "}");
}

static void event(ApiAnswer *a, int choice, const RpReplyEvent *e, Bytes *out) {
    bool fresh;
    if (!a->stream)
        (void)api_collect(a, choice, e, &fresh);
    else if (e->kind == RP_REPLY_TEXT && e->len > 0)
        json_put(out, "data: {'index':0,'content':%t,'stop':false}\n\n", e->text, e->len);
}

static void end_choice(ApiAnswer *a, int choice, const ApiEnd *end, Bytes *out) {
    (void)out;
    api_keep_end(a, choice, end);
}

static void end(ApiAnswer *a, Bytes *out) {
    Bytes text = {0};
    api_join(&a->choices[0], RP_REPLY_TEXT, &text);
    a->failed |= text.failed;
    json_put(out, a->stream ? "data: {'index':0,'content':%t," : "{'index':0,'content':%t,", text.failed ? "" : text.p,
             text.n);
    put_tail(a, out);
    if (a->stream) bytes_text(out, "\n\n");
    bytes_free(&text);
}

const ApiFormat api_infill = {
    .path       = "/infill",
    .parse      = api_infill_parse,
    .event      = event,
    .end_choice = end_choice,
    .ping       = api_comment_ping,
    .fail       = api_data_fail,
    .end        = end,
    .error_body = api_error_body,
};
