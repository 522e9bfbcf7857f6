/* Streams and whole answers of /v1/responses. A block of the reply is an item of the output. */
#include "server/api/answer.h"

#include <string.h>

static ApiBlock *block(const ApiAnswer *a, size_t k) { return &a->choices[0].blocks[k]; }

static const char *text_of(const ApiBlock *b) { return b->text.p != NULL ? b->text.p : ""; }

static bool cut(const ApiAnswer *a) {
    const RpStopReason reason = a->choices[0].end.reason;
    return a->choices[0].ended && (reason == RP_STOP_LIMIT || reason == RP_STOP_CONTEXT);
}

/* Only the last block can be cut by a limit or a failure. */
static const char *status_of(const ApiAnswer *a, size_t k) {
    const ApiBlock *b = block(a, k);
    if (b->kind == RP_REPLY_CALL_BEGIN) return b->ended ? "completed" : "incomplete";
    return k + 1 == a->choices[0].n_blocks && (cut(a) || !a->choices[0].ended) ? "incomplete" : "completed";
}

static void put_id(const ApiAnswer *a, size_t k, Bytes *out) {
    const RpReplyEventKind kind = block(a, k)->kind;
    json_put(out, "'%r_%r_%l'",
             kind == RP_REPLY_TEXT        ? "msg"
             : kind == RP_REPLY_REASONING ? "rs"
                                          : "fc",
             a->id, (int64_t)k);
}

static void put_part(const ApiAnswer *a, size_t k, bool whole, Bytes *out) {
    const ApiBlock *b = block(a, k);
    const size_t    n = whole ? b->text.n : 0;
    if (b->kind == RP_REPLY_REASONING) {
        json_put(out, "{'type':'reasoning_text','text':%t}", text_of(b), n);
        return;
    }
    json_put(out, "{'type':'output_text','annotations':[],'logprobs':[%r],'text':%t}",
             whole && b->logprobs.p != NULL ? b->logprobs.p : "", text_of(b), n);
}

/* `whole`: with its text, when it is done. */
static void put_item(const ApiAnswer *a, size_t k, bool whole, Bytes *out) {
    const ApiBlock *b      = block(a, k);
    const char     *status = whole ? status_of(a, k) : "in_progress";
    bytes_text(out, "{\"id\":");
    put_id(a, k, out);
    if (b->kind == RP_REPLY_CALL_BEGIN) {
        json_put(out, ",'type':'function_call','status':'%r','arguments':%t,'call_id':%s,'name':%s}", status,
                 text_of(b), whole ? b->text.n : (size_t)0, b->id, b->name);
        return;
    }
    if (b->kind == RP_REPLY_TEXT)
        json_put(out, ",'type':'message','status':'%r','role':'assistant','content':[", status);
    else
        json_put(out, ",'type':'reasoning','status':'%r','summary':[],'content':[", status);
    if (whole) put_part(a, k, true, out);
    bytes_text(out, "]}");
}

/* An object of a response. `done`: with its output and usage. */
static void put_response(const ApiAnswer *a, const char *status, bool done, const ApiError *error, Bytes *out) {
    const ApiUsage u   = api_usage(a);
    bool           any = false;
    const char    *name;
    json_t        *value;
    json_put(out, "{'id':'resp_%r','object':'response','created_at':%l,'status':'%r','background':false,", a->id,
             a->created, status);
    json_put(out, "'model':%s,'store':false,'previous_response_id':null,'truncation':'disabled',", a->model);
    if (error != NULL)
        json_put(out, "'error':{'code':'server_error','message':%s},", error->message);
    else
        json_put(out, "'error':null,");
    json_put(out, "'incomplete_details':");
    json_put(out, cut(a) ? "{'reason':'max_output_tokens'}," : "null,");
    json_object_foreach(a->extra, name, value) json_put(out, "%s:%j,", name, value);
    json_put(out, "'temperature':%f,'top_p':%f,", (double)a->temperature, (double)a->top_p);
    json_put(out, "'output':[");
    for (size_t k = 0; k < a->choices[0].n_blocks && done; k++) {
        if (block(a, k)->void_) continue;
        if (any) bytes_text(out, ",");
        put_item(a, k, true, out);
        any = true;
    }
    json_put(out, "],'usage':");
    if (!done || error != NULL) {
        bytes_text(out, "null}");
        return;
    }
    json_put(out, "{'input_tokens':%l,'input_tokens_details':{'cached_tokens':%l,'cache_write_tokens':0},", u.prompt,
             u.cached);
    json_put(out, "'output_tokens':%l,'output_tokens_details':{'reasoning_tokens':%l},'total_tokens':%l}}", u.generated,
             u.reasoning, u.prompt + u.generated);
}

/* An event is begun with the members that all of them have, and ended. */
static void begin_event(ApiAnswer *a, const char *type, Bytes *out) {
    json_put(out, "event: %r\ndata: {'type':'%r','sequence_number':%d", type, type, a->sequence++);
}

static void end_event(Bytes *out) { bytes_text(out, "}\n\n"); }

/* The event of a block, with the members item_id, output_index and, of texts, content_index. */
static void begin_block_event(ApiAnswer *a, size_t k, const char *type, Bytes *out) {
    begin_event(a, type, out);
    bytes_text(out, ",\"item_id\":");
    put_id(a, k, out);
    json_put(out, ",'output_index':%l", (int64_t)k);
    if (block(a, k)->kind != RP_REPLY_CALL_BEGIN) json_put(out, ",'content_index':0");
}

static void put_response_event(ApiAnswer *a, const char *type, const char *status, bool done, const ApiError *error,
                               Bytes *out) {
    begin_event(a, type, out);
    bytes_text(out, ",\"response\":");
    put_response(a, status, done, error, out);
    end_event(out);
}

static void begin(ApiAnswer *a, Bytes *out) {
    if (!a->stream) return;
    put_response_event(a, "response.created", "in_progress", false, NULL, out);
    put_response_event(a, "response.in_progress", "in_progress", false, NULL, out);
}

static void put_item_event(ApiAnswer *a, size_t k, bool done, Bytes *out) {
    begin_event(a, done ? "response.output_item.done" : "response.output_item.added", out);
    json_put(out, ",'output_index':%l,'item':", (int64_t)k);
    put_item(a, k, done, out);
    end_event(out);
}

static void put_part_event(ApiAnswer *a, size_t k, bool done, Bytes *out) {
    begin_block_event(a, k, done ? "response.content_part.done" : "response.content_part.added", out);
    json_put(out, ",'part':");
    put_part(a, k, done, out);
    end_event(out);
}

static void open_block(ApiAnswer *a, size_t k, Bytes *out) {
    put_item_event(a, k, false, out);
    if (block(a, k)->kind != RP_REPLY_CALL_BEGIN) put_part_event(a, k, false, out);
}

static const char *event_of(const ApiBlock *b, bool done) {
    if (b->kind == RP_REPLY_TEXT) return done ? "response.output_text.done" : "response.output_text.delta";
    if (b->kind == RP_REPLY_REASONING) return done ? "response.reasoning_text.done" : "response.reasoning_text.delta";
    return done ? "response.function_call_arguments.done" : "response.function_call_arguments.delta";
}

/* Moves the log probabilities of tokens to the block of their text. Returns where they begin there, with a comma. */
static size_t take_logprobs(ApiAnswer *a, ApiBlock *b) {
    ApiChoice   *c  = &a->choices[0];
    const size_t at = b->logprobs.n;
    if (b->kind == RP_REPLY_TEXT && c->n_log > 0) {
        if (at > 0) bytes_text(&b->logprobs, ",");
        api_put_logprobs(a, c, &b->logprobs);
        a->failed |= b->logprobs.failed;
    }
    c->n_log = 0;
    return at;
}

static void delta_block(ApiAnswer *a, size_t k, const RpReplyEvent *e, Bytes *out) {
    ApiBlock    *b  = block(a, k);
    const size_t at = take_logprobs(a, b);
    begin_block_event(a, k, event_of(b, false), out);
    json_put(out, ",'delta':%t", e->text, e->len);
    if (b->kind == RP_REPLY_TEXT)
        json_put(out, ",'logprobs':[%r]",
                 b->logprobs.p == NULL ? "" : b->logprobs.p + at + (at > 0 && at < b->logprobs.n));
    end_event(out);
}

/* A call that became malformed, or that a failure cut, is never done, so that no client runs it. */
static void close_block(ApiAnswer *a, size_t k, Bytes *out) {
    const ApiBlock *b = block(a, k);
    if (b->void_) return;
    begin_block_event(a, k, event_of(b, true), out);
    if (b->kind == RP_REPLY_CALL_BEGIN)
        json_put(out, ",'name':%s,'arguments':%t", b->name, text_of(b), b->text.n);
    else
        json_put(out, ",'text':%t", text_of(b), b->text.n);
    if (b->kind == RP_REPLY_TEXT) json_put(out, ",'logprobs':[%r]", b->logprobs.p != NULL ? b->logprobs.p : "");
    end_event(out);
    if (b->kind != RP_REPLY_CALL_BEGIN) put_part_event(a, k, true, out);
    put_item_event(a, k, true, out);
}

static const ApiBlockWriter writer = {open_block, delta_block, close_block};

static void event(ApiAnswer *a, int choice, const RpReplyEvent *e, Bytes *out) {
    bool fresh;
    if (choice != 0) return;
    if (a->stream) {
        api_block_event(a, e, &writer, out);
        return;
    }
    ApiBlock *b = api_collect(a, 0, e, &fresh);
    if (b != NULL) (void)take_logprobs(a, b);
}

static void end_choice(ApiAnswer *a, int choice, const ApiEnd *end, Bytes *out) {
    if (choice != 0) return;
    api_keep_end(a, 0, end);
    if (a->stream) api_block_close(a, &writer, out);
}

static void fail(ApiAnswer *a, const ApiError *error, Bytes *out) {
    const ApiChoice *c = &a->choices[0];
    if (!a->stream || !a->begun) {
        api_error_body(error, out);
        return;
    }
    if (c->open && c->blocks[c->n_blocks - 1].kind == RP_REPLY_CALL_BEGIN) c->blocks[c->n_blocks - 1].void_ = true;
    api_block_close(a, &writer, out);
    put_response_event(a, "response.failed", "failed", true, error, out);
}

static void end(ApiAnswer *a, Bytes *out) {
    const char *status = cut(a) ? "incomplete" : "completed";
    if (!a->stream)
        put_response(a, status, true, NULL, out);
    else
        put_response_event(a, cut(a) ? "response.incomplete" : "response.completed", status, true, NULL, out);
}

const ApiFormat api_responses = {
    .path       = "/v1/responses",
    .parse      = api_responses_parse,
    .begin      = begin,
    .event      = event,
    .end_choice = end_choice,
    .ping       = api_comment_ping,
    .fail       = fail,
    .end        = end,
    .error_body = api_error_body,
};
