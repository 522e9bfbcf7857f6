/* Streams and whole answers of /v1/completions. */
#include "server/api/answer.h"

static void put_head(const ApiAnswer *a, Bytes *out) {
    json_put(out, "{'id':'cmpl-%r','object':'text_completion','created':%l,'model':%s,'system_fingerprint':%s,", a->id,
             a->created, a->model, a->fingerprint);
    bytes_text(out, "\"choices\":[");
}

static int64_t characters(RpGgufString s) {
    int64_t n = 0;
    for (size_t i = 0; i < s.len; i++) n += ((unsigned char)s.ptr[i] & 0xc0) != 0x80;
    return n;
}

static void put_texts(const ApiAnswer *a, const RpTokenLogprob *row, size_t n, Bytes *out) {
    for (size_t i = 0; i < n && row[i].token >= 0; i++) {
        const RpGgufString s = api_token_text(a, row[i].token);
        json_put(out, "%r%t:%f", i > 0 ? "," : "", s.ptr, (size_t)s.len, (double)row[i].logprob);
    }
}

/* The form of /v1/completions: arrays of tokens, of their log probabilities, of objects of the most probable ones, and
 * of offsets in characters. */
static void put_logprobs(ApiAnswer *a, ApiChoice *c, Bytes *out) {
    const size_t row = 1 + (size_t)(a->n_logprobs > 0 ? a->n_logprobs : 0);
    if (a->n_logprobs < 0 || (a->stream && c->n_log == 0)) {
        json_put(out, ",'logprobs':null");
        return;
    }
    json_put(out, ",'logprobs':{'tokens':[");
    for (size_t k = 0; k < c->n_log; k++) {
        const RpGgufString s = api_token_text(a, c->log[k * row].token);
        json_put(out, "%r%t", k > 0 ? "," : "", s.ptr, (size_t)s.len);
    }
    json_put(out, "],'token_logprobs':[");
    for (size_t k = 0; k < c->n_log; k++) json_put(out, "%r%f", k > 0 ? "," : "", (double)c->log[k * row].logprob);
    json_put(out, "],'top_logprobs':");
    bytes_text(out, row > 1 ? "[" : "null");
    for (size_t k = 0; k < c->n_log && row > 1; k++) {
        bytes_text(out, k > 0 ? ",{" : "{");
        put_texts(a, c->log + k * row + 1, row - 1, out);
        bytes_text(out, "}");
    }
    json_put(out, "%r,'text_offset':[", row > 1 ? "]" : "");
    for (size_t k = 0; k < c->n_log; k++) {
        json_put(out, "%r%l", k > 0 ? "," : "", c->n_text);
        c->n_text += characters(api_token_text(a, c->log[k * row].token));
    }
    bytes_text(out, "]}");
    c->n_log = 0;
}

static void put_chunk(ApiAnswer *a, int choice, const char *text, size_t n, const char *finish, Bytes *out) {
    ApiChoice *c = &a->choices[choice];
    bytes_text(out, "data: ");
    put_head(a, out);
    json_put(out, "{'index':%d,'text':%t", choice, text, n);
    put_logprobs(a, c, out);
    api_end_chunk(a, c, finish, out);
}

/* The text of the prompt of a choice. */
static void join_prompt(const ApiAnswer *a, int choice, Bytes *out) {
    const json_t *prompt = json_array_get(a->prompts, (size_t)(choice / a->n)), *id;
    size_t        i;
    bytes_text(out, "");
    if (json_is_string(prompt)) bytes_put(out, json_string_value(prompt), json_string_length(prompt));
    json_array_foreach(prompt, i, id) {
        const RpGgufString s = api_token_text(a, (int32_t)json_integer_value(id));
        bytes_put(out, s.ptr, s.len);
    }
}

static void begin(ApiAnswer *a, Bytes *out) {
    for (int i = 0; i < a->n_choices && a->stream && a->echo; i++) {
        Bytes text = {0};
        join_prompt(a, i, &text);
        if (text.n > 0) put_chunk(a, i, text.p, text.n, NULL, out);
        a->failed |= text.failed;
        bytes_free(&text);
    }
}

static void event(ApiAnswer *a, int choice, const RpReplyEvent *e, Bytes *out) {
    bool fresh;
    if (!a->stream)
        (void)api_collect(a, choice, e, &fresh);
    else if (e->kind == RP_REPLY_TEXT && e->len > 0)
        put_chunk(a, choice, e->text, e->len, NULL, out);
}

static void end_choice(ApiAnswer *a, int choice, const ApiEnd *end, Bytes *out) {
    api_keep_end(a, choice, end);
    if (a->stream) put_chunk(a, choice, "", 0, api_finish_reason(&a->choices[choice]), out);
}

static void put_choice(ApiAnswer *a, int choice, Bytes *out) {
    ApiChoice *c    = &a->choices[choice];
    Bytes      text = {0};
    if (a->echo) join_prompt(a, choice, &text);
    api_join(c, RP_REPLY_TEXT, &text);
    json_put(out, "%r{'index':%d,'text':%t", choice > 0 ? "," : "", choice, text.failed ? "" : text.p,
             text.failed ? (size_t)0 : text.n);
    put_logprobs(a, c, out);
    json_put(out, ",'finish_reason':%s}", api_finish_reason(c));
    a->failed |= text.failed;
    bytes_free(&text);
}

static void end(ApiAnswer *a, Bytes *out) { api_end_choices(a, put_head, put_choice, out); }

const ApiFormat api_completion = {
    .path       = "/v1/completions",
    .parse      = api_completion_parse,
    .begin      = begin,
    .event      = event,
    .end_choice = end_choice,
    .ping       = api_comment_ping,
    .fail       = api_data_fail,
    .end        = end,
    .error_body = api_error_body,
};
