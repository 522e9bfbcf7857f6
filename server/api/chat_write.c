/* Streams and whole answers of /v1/chat/completions. */
#include "server/api/answer.h"

static void put_head(const ApiAnswer *a, Bytes *out) {
    json_put(out, "{'id':'chatcmpl-%r','object':'chat.completion%r','created':%l,'model':%s,", a->id,
             a->stream ? ".chunk" : "", a->created, a->model);
    json_put(out, "'system_fingerprint':%s,'choices':[", a->fingerprint);
}

static void put_choice_logprobs(ApiAnswer *a, ApiChoice *c, Bytes *out) {
    if (a->n_logprobs < 0 || (a->stream && c->n_log == 0)) {
        json_put(out, ",'logprobs':null");
        return;
    }
    json_put(out, ",'logprobs':{'content':[");
    api_put_logprobs(a, c, out);
    json_put(out, "],'refusal':null}");
}

/* The first chunk of a choice. It comes with the first token: tools that measure servers take it for that. */
static void put_role(ApiAnswer *a, int choice, Bytes *out) {
    bytes_text(out, "data: ");
    put_head(a, out);
    json_put(out, "{'index':%d,'delta':{'role':'assistant','content':''},'logprobs':null,'finish_reason':null}]",
             choice);
    json_put(out, "%r}\n\n", a->usage ? ",\"usage\":null" : "");
}

/* A chunk is begun with the members of its delta open, and ended. */
static void begin_chunk(ApiAnswer *a, int choice, Bytes *out) {
    if (!a->choices[choice].begun) put_role(a, choice, out);
    a->choices[choice].begun = true;
    bytes_text(out, "data: ");
    put_head(a, out);
    json_put(out, "{'index':%d,'delta':{", choice);
}

static void end_chunk(ApiAnswer *a, int choice, const char *finish, Bytes *out) {
    ApiChoice *c = &a->choices[choice];
    bytes_text(out, "}");
    put_choice_logprobs(a, c, out);
    api_end_chunk(a, c, finish, out);
}

static void event(ApiAnswer *a, int choice, const RpReplyEvent *e, Bytes *out) {
    bool fresh;
    if (!a->stream) {
        (void)api_collect(a, choice, e, &fresh);
        return;
    }
    if (e->kind == RP_REPLY_CALL_END) a->choices[choice].n_calls++;
    if (e->kind == RP_REPLY_CALL_END || e->kind == RP_REPLY_END) return;
    if (e->kind != RP_REPLY_CALL_BEGIN && e->len == 0) return;
    begin_chunk(a, choice, out);
    if (e->kind == RP_REPLY_CALL_BEGIN)
        json_put(out, "'tool_calls':[{'index':%d,'id':%s,'type':'function','function':{'name':%s,'arguments':''}}]",
                 e->call, e->id, e->name);
    else if (e->kind == RP_REPLY_CALL_ARGUMENTS)
        json_put(out, "'tool_calls':[{'index':%d,'function':{'arguments':%t}}]", e->call, e->text, e->len);
    else
        json_put(out, "'%r':%t", e->kind == RP_REPLY_REASONING ? "reasoning_content" : "content", e->text, e->len);
    end_chunk(a, choice, NULL, out);
}

static void end_choice(ApiAnswer *a, int choice, const ApiEnd *end, Bytes *out) {
    api_keep_end(a, choice, end);
    if (!a->stream) return;
    begin_chunk(a, choice, out);
    end_chunk(a, choice, api_finish_reason(&a->choices[choice]), out);
}

static void put_calls(const ApiChoice *c, Bytes *out) {
    const char *separator = ",'tool_calls':[";
    for (size_t k = 0; k < c->n_blocks; k++) {
        const ApiBlock *b = &c->blocks[k];
        if (!b->ended) continue;
        json_put(out, separator);
        json_put(out, "{'id':%s,'type':'function','function':{'name':%s,'arguments':%t}}", b->id, b->name,
                 b->text.p != NULL ? b->text.p : "", b->text.n);
        separator = ",";
    }
    if (*separator == ',' && separator[1] == '\0') bytes_text(out, "]");
}

static void put_choice(ApiAnswer *a, int choice, Bytes *out) {
    ApiChoice *c    = &a->choices[choice];
    Bytes      text = {0}, reasoning = {0};
    api_join(c, RP_REPLY_TEXT, &text);
    api_join(c, RP_REPLY_REASONING, &reasoning);
    json_put(out, "%r{'index':%d,'message':{'role':'assistant','content':", choice > 0 ? "," : "", choice);
    if (text.n == 0 && c->n_calls > 0)
        bytes_text(out, "null");
    else
        json_put(out, "%t", text.failed ? "" : text.p, text.failed ? (size_t)0 : text.n);
    json_put(out, ",'refusal':null");
    if (reasoning.n > 0) json_put(out, ",'reasoning_content':%t", reasoning.p, reasoning.n);
    put_calls(c, out);
    bytes_text(out, "}");
    put_choice_logprobs(a, c, out);
    json_put(out, ",'finish_reason':%s}", api_finish_reason(c));
    a->failed |= text.failed || reasoning.failed;
    bytes_free(&text), bytes_free(&reasoning);
}

static void end(ApiAnswer *a, Bytes *out) { api_end_choices(a, put_head, put_choice, out); }

const ApiFormat api_chat = {
    .path       = "/v1/chat/completions",
    .parse      = api_chat_parse,
    .event      = event,
    .end_choice = end_choice,
    .ping       = api_comment_ping,
    .fail       = api_data_fail,
    .end        = end,
    .error_body = api_error_body,
};
