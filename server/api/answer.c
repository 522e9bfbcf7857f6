/* Answers of all formats (answer.h). */
#include "server/api/answer.h"

#include <stdlib.h>
#include <string.h>

/* NULL becomes "". */
static char *copy(const char *text) { return strdup(text != NULL ? text : ""); }

ApiAnswer *api_answer_open(const ApiRequest *r, const ApiOrigin *origin) {
    ApiAnswer *a = calloc(1, sizeof *a);
    if (a == NULL) return NULL;
    const size_t n_prompts = r->kind == API_COMPLETION ? json_array_size(r->prompts) : 1;
    *a                     = (ApiAnswer){
                            .format      = r->format,
                            .stream      = r->stream,
                            .usage       = r->usage,
                            .echo        = r->echo,
                            .n           = r->n,
                            .n_logprobs  = r->n_logprobs,
                            .n_choices   = (int32_t)n_prompts * r->n,
                            .id          = copy(origin->id),
                            .model       = copy(origin->model),
                            .fingerprint = copy(origin->fingerprint),
                            .created     = origin->created,
                            .tokenizer   = origin->tokenizer,
                            .seed        = origin->seed,
                            .n_prompt    = origin->n_prompt,
                            .temperature = r->sampler.temperature,
                            .top_p       = r->sampler.top_p,
                            .extra       = json_incref(r->extra),
                            .prompts     = json_incref(r->prompts),
                            .choices     = calloc(n_prompts * (size_t)r->n + 1, sizeof *a->choices),
    };
    if (a->id != NULL && a->model != NULL && a->fingerprint != NULL && a->choices != NULL) return a;
    api_answer_close(a);
    return NULL;
}

void api_answer_close(ApiAnswer *a) {
    if (a == NULL) return;
    for (int32_t i = 0; i < a->n_choices && a->choices != NULL; i++) {
        ApiChoice *c = &a->choices[i];
        for (size_t k = 0; k < c->n_blocks; k++) {
            free(c->blocks[k].id), free(c->blocks[k].name);
            bytes_free(&c->blocks[k].text), bytes_free(&c->blocks[k].logprobs);
        }
        free(c->blocks), free(c->log), free(c->stop);
    }
    free(a->choices), free(a->id), free(a->model), free(a->fingerprint);
    json_decref(a->extra), json_decref(a->prompts);
    free(a);
}

void api_answer_begin(ApiAnswer *a, Bytes *out) {
    a->begun = true;
    if (a->format->begin != NULL) a->format->begin(a, out);
}

void api_answer_end(ApiAnswer *a, Bytes *out) {
    a->format->end(a, out);
    if (a->failed) out->failed = true;
}

static ApiBlock *add_block(ApiAnswer *a, ApiChoice *c, RpReplyEventKind kind, const RpReplyEvent *e) {
    ApiBlock *grown = realloc(c->blocks, (c->n_blocks + 1) * sizeof *grown);
    if (grown == NULL) {
        a->failed = true;
        return NULL;
    }
    c->blocks   = grown;
    ApiBlock *b = &grown[c->n_blocks];
    *b          = (ApiBlock){.kind = kind, .call = e->call, .id = copy(e->id), .name = copy(e->name)};
    if (b->id != NULL && b->name != NULL) {
        c->n_blocks++;
        return b;
    }
    free(b->id), free(b->name);
    a->failed = true;
    return NULL;
}

static ApiBlock *find_call(ApiChoice *c, int32_t call) {
    for (size_t k = c->n_blocks; k > 0; k--)
        if (c->blocks[k - 1].kind == RP_REPLY_CALL_BEGIN && c->blocks[k - 1].call == call) return &c->blocks[k - 1];
    return NULL;
}

ApiBlock *api_collect(ApiAnswer *a, int choice, const RpReplyEvent *e, bool *fresh) {
    ApiChoice       *c    = &a->choices[choice];
    ApiBlock        *b    = e->call >= 0 ? find_call(c, e->call) : NULL;
    ApiBlock        *last = c->n_blocks > 0 ? &c->blocks[c->n_blocks - 1] : NULL;
    RpReplyEventKind kind = e->kind == RP_REPLY_REASONING ? RP_REPLY_REASONING : RP_REPLY_TEXT;
    *fresh                = false;
    switch (e->kind) {
    case RP_REPLY_END:
        return NULL;
    case RP_REPLY_CALL_BEGIN:
        *fresh = true;
        return add_block(a, c, RP_REPLY_CALL_BEGIN, e);
    case RP_REPLY_CALL_END:
        if (b == NULL || b->void_ || b->ended) return NULL;
        b->ended = true;
        c->n_calls++;
        return b;
    case RP_REPLY_CALL_ARGUMENTS:
        if (b != NULL) bytes_put(&b->text, e->text, e->len);
        break;
    case RP_REPLY_TEXT:
    case RP_REPLY_REASONING:
    case RP_REPLY_MALFORMED:
        if (e->kind == RP_REPLY_MALFORMED && b != NULL) b->void_ = true;
        if (e->len == 0) return NULL;
        b = last != NULL && last->kind == kind ? last : NULL;
        if (b == NULL) {
            *fresh = true;
            b      = add_block(a, c, kind, &(RpReplyEvent){.call = -1});
        }
        if (b != NULL) bytes_put(&b->text, e->text, e->len);
        break;
    }
    a->failed |= b != NULL && b->text.failed;
    return b;
}

void api_block_close(ApiAnswer *a, const ApiBlockWriter *w, Bytes *out) {
    ApiChoice *c = &a->choices[0];
    if (c->open) w->close(a, c->n_blocks - 1, out);
    c->open = false;
}

void api_block_event(ApiAnswer *a, const RpReplyEvent *e, const ApiBlockWriter *w, Bytes *out) {
    ApiChoice   *c   = &a->choices[0];
    const size_t old = c->n_blocks;
    bool         fresh;
    ApiBlock    *b = api_collect(a, 0, e, &fresh);
    if (fresh && b != NULL) {
        if (c->open) w->close(a, old - 1, out);
        w->open(a, old, out);
        c->open = true;
    }
    if (b == NULL || b != &c->blocks[c->n_blocks - 1] || !c->open) return;
    if (e->kind == RP_REPLY_CALL_END)
        api_block_close(a, w, out);
    else if (e->len > 0)
        w->delta(a, c->n_blocks - 1, e, out);
}

void api_join(const ApiChoice *c, RpReplyEventKind kind, Bytes *out) {
    bytes_text(out, "");
    for (size_t k = 0; k < c->n_blocks; k++)
        if (c->blocks[k].kind == kind && c->blocks[k].text.p != NULL)
            bytes_put(out, c->blocks[k].text.p, c->blocks[k].text.n);
}

void api_keep_end(ApiAnswer *a, int choice, const ApiEnd *end) {
    ApiChoice *c = &a->choices[choice];
    c->end       = *end;
    c->ended     = true;
    if (end->stop != NULL) {
        c->stop = strdup(end->stop);
        if (c->stop == NULL) a->failed = true;
    }
    c->end.stop = c->stop;
}

ApiUsage api_usage(const ApiAnswer *a) {
    ApiUsage u = {0};
    for (int32_t i = 0; i < a->n_choices; i++) {
        const ApiEnd *end = &a->choices[i].end;
        u.generated += end->n_generated;
        u.reasoning += end->n_reasoning;
        if (i % a->n != 0) continue;
        u.prompt += end->n_prompt;
        u.cached += end->n_cached;
    }
    return u;
}

void api_put_usage(const ApiAnswer *a, Bytes *out) {
    const ApiUsage u = api_usage(a);
    json_put(out, "'usage':{'prompt_tokens':%l,'completion_tokens':%l,'total_tokens':%l,", u.prompt, u.generated,
             u.prompt + u.generated);
    json_put(out, "'prompt_tokens_details':{'cached_tokens':%l},'completion_tokens_details':{'reasoning_tokens':%l}}",
             u.cached, u.reasoning);
}

void api_put_timings(const ApiEnd *end, Bytes *out) {
    const int32_t prompt_n = end->n_prompt - end->n_cached;
    const double  prompt = 1e3 * (end->first_token_s - end->queued_s), all = 1e3 * (end->total_s - end->first_token_s);
    json_put(out, "'timings':{'cache_n':%d,'prompt_n':%d,'prompt_ms':%f,", end->n_cached, prompt_n, prompt);
    json_put(out, "'prompt_per_token_ms':%f,'prompt_per_second':%f,", prompt_n > 0 ? prompt / prompt_n : 0.0,
             prompt > 0 ? 1e3 * prompt_n / prompt : 0.0);
    json_put(out, "'predicted_n':%d,'predicted_ms':%f,", end->n_generated, all);
    json_put(out, "'predicted_per_token_ms':%f,'predicted_per_second':%f",
             end->n_generated > 0 ? all / end->n_generated : 0.0, all > 0 ? 1e3 * end->n_generated / all : 0.0);
    if (end->n_drafted > 0) json_put(out, ",'draft_n':%d,'draft_n_accepted':%d", end->n_drafted, end->n_accepted);
    bytes_text(out, "}");
}

const char *api_finish_reason(const ApiChoice *c) {
    if (c->end.reason == RP_STOP_LIMIT || c->end.reason == RP_STOP_CONTEXT) return "length";
    return c->n_calls > 0 ? "tool_calls" : "stop";
}

static void put_seed(const ApiAnswer *a, const ApiEnd *end, Bytes *out) {
    json_put(out, ",'seed':%u,", a->seed);
    api_put_timings(end, out);
}

void api_end_chunk(const ApiAnswer *a, const ApiChoice *c, const char *finish, Bytes *out) {
    json_put(out, ",'finish_reason':%s}]", finish);
    if (a->usage) json_put(out, ",'usage':null");
    if (finish != NULL) put_seed(a, &c->end, out);
    bytes_text(out, "}\n\n");
}

void api_end_choices(ApiAnswer *a, void (*put_head)(const ApiAnswer *a, Bytes *out),
                     void (*put_choice)(ApiAnswer *a, int choice, Bytes *out), Bytes *out) {
    if (!a->stream) {
        put_head(a, out);
        for (int i = 0; i < a->n_choices; i++) put_choice(a, i, out);
        bytes_text(out, "],");
        api_put_usage(a, out);
        put_seed(a, &a->choices[0].end, out);
        bytes_text(out, "}");
        return;
    }
    if (a->usage) {
        bytes_text(out, "data: ");
        put_head(a, out);
        bytes_text(out, "],");
        api_put_usage(a, out);
        bytes_text(out, "}\n\n");
    }
    bytes_text(out, "data: [DONE]\n\n");
}

void api_comment_ping(ApiAnswer *a, Bytes *out) {
    (void)a;
    bytes_text(out, ":\n\n");
}

void api_data_fail(ApiAnswer *a, const ApiError *error, Bytes *out) {
    const bool event = a->stream && a->begun;
    if (event) bytes_text(out, "data: ");
    api_error_body(error, out);
    if (event) bytes_text(out, "\n\n");
}
