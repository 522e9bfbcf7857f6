/* Streams and whole answers of Anthropic's /v1/messages. A block of the reply is a block of the content. */
#include "server/api/answer.h"
#include "server/api/plain.h"

static const char *type_of(RpReplyEventKind kind) {
    return kind == RP_REPLY_TEXT ? "text" : kind == RP_REPLY_REASONING ? "thinking" : "tool_use";
}

/* A block; `whole`: with its text. */
static void put_block(const ApiAnswer *a, size_t k, bool whole, Bytes *out) {
    const ApiBlock *b    = &a->choices[0].blocks[k];
    const size_t    n    = whole ? b->text.n : 0;
    const char     *text = b->text.p != NULL ? b->text.p : "", *type = type_of(b->kind);
    if (b->kind == RP_REPLY_CALL_BEGIN) {
        json_put(out, "{'type':'tool_use','id':%s,'name':%s,'input':%r}", b->id, b->name, n > 0 ? text : "{}");
        return;
    }
    json_put(out, "{'type':'%r','%r':%t%r}", type, type, text, n,
             b->kind == RP_REPLY_REASONING ? ",\"signature\":\"\"" : "");
}

static const char *stop_reason(const ApiChoice *c) {
    if (c->end.reason == RP_STOP_LIMIT || c->end.reason == RP_STOP_CONTEXT) return "max_tokens";
    if (c->n_calls > 0) return "tool_use";
    return c->end.reason == RP_STOP_STRING ? "stop_sequence" : "end_turn";
}

/* The tokens that were found in the cache do not count as input. */
static void put_usage(const ApiAnswer *a, int64_t prompt, Bytes *out) {
    const ApiUsage u = api_usage(a);
    json_put(out, "'usage':{'input_tokens':%l,'cache_creation_input_tokens':0,'cache_read_input_tokens':%l,",
             prompt - u.cached, u.cached);
    json_put(out, "'output_tokens':%l}", u.generated);
}

static void put_head(const ApiAnswer *a, Bytes *out) {
    json_put(out, "{'id':'msg_%r','type':'message','role':'assistant','model':%s,'content':[", a->id, a->model);
}

static void begin(ApiAnswer *a, Bytes *out) {
    if (!a->stream) return;
    json_put(out, "event: message_start\ndata: {'type':'message_start','message':");
    put_head(a, out);
    json_put(out, "],'stop_reason':null,'stop_sequence':null,");
    put_usage(a, a->n_prompt, out);
    bytes_text(out, "}}\n\n");
}

static void open_block(ApiAnswer *a, size_t k, Bytes *out) {
    json_put(out,
             "event: content_block_start\ndata: {'type':'content_block_start','index':%l,'content_block':", (int64_t)k);
    put_block(a, k, false, out);
    bytes_text(out, "}\n\n");
}

static void delta_block(ApiAnswer *a, size_t k, const RpReplyEvent *e, Bytes *out) {
    const RpReplyEventKind kind = a->choices[0].blocks[k].kind;
    const bool             call = kind == RP_REPLY_CALL_BEGIN;
    json_put(out, "event: content_block_delta\ndata: {'type':'content_block_delta','index':%l,'delta':", (int64_t)k);
    json_put(out, "{'type':'%r_delta','%r':%t}}\n\n", call ? "input_json" : type_of(kind),
             call ? "partial_json" : type_of(kind), e->text, e->len);
}

static void close_block(ApiAnswer *a, size_t k, Bytes *out) {
    (void)a;
    json_put(out, "event: content_block_stop\ndata: {'type':'content_block_stop','index':%l}\n\n", (int64_t)k);
}

static const ApiBlockWriter writer = {open_block, delta_block, close_block};

static void event(ApiAnswer *a, int choice, const RpReplyEvent *e, Bytes *out) {
    bool fresh;
    if (choice != 0) return;
    if (a->stream)
        api_block_event(a, e, &writer, out);
    else
        (void)api_collect(a, 0, e, &fresh);
}

static void end_choice(ApiAnswer *a, int choice, const ApiEnd *end, Bytes *out) {
    if (choice != 0) return;
    api_keep_end(a, 0, end);
    if (a->stream) api_block_close(a, &writer, out);
}

static void ping(ApiAnswer *a, Bytes *out) {
    (void)a;
    json_put(out, "event: ping\ndata: {'type':'ping'}\n\n");
}

static void error_body(const ApiError *error, Bytes *out) {
    static const struct {
        int         status;
        const char *type;
    } types[] = {
        {401, "authentication_error"},
        {403, "permission_error"    },
        {404, "not_found_error"     },
        {413, "request_too_large"   },
        {429, "rate_limit_error"    },
        {503, "overloaded_error"    },
        {504, "timeout_error"       },
        {529, "overloaded_error"    },
    };
    const char *type = error->status >= 400 && error->status < 500 ? "invalid_request_error" : "api_error";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].status == error->status) type = types[i].type;
    json_put(out, "{'type':'error','error':{'type':'%r','message':%s}}", type, error->message);
}

static void fail(ApiAnswer *a, const ApiError *error, Bytes *out) {
    const bool stream = a->stream && a->begun;
    if (stream) bytes_text(out, "event: error\ndata: ");
    error_body(error, out);
    if (stream) bytes_text(out, "\n\n");
}

static void end(ApiAnswer *a, Bytes *out) {
    const ApiChoice *c   = &a->choices[0];
    bool             any = false;
    if (a->stream) {
        json_put(out, "event: message_delta\ndata: {'type':'message_delta','delta':{'stop_reason':%s,", stop_reason(c));
    } else {
        put_head(a, out);
        for (size_t k = 0; k < c->n_blocks; k++) {
            if (c->blocks[k].kind == RP_REPLY_CALL_BEGIN && !c->blocks[k].ended) continue;
            if (any) bytes_text(out, ",");
            put_block(a, k, true, out);
            any = true;
        }
        json_put(out, "],'stop_reason':%s,", stop_reason(c));
    }
    json_put(out, "'stop_sequence':%s%r,", c->stop, a->stream ? "}" : "");
    put_usage(a, c->end.n_prompt, out);
    bytes_text(out, "}");
    if (a->stream) json_put(out, "\n\nevent: message_stop\ndata: {'type':'message_stop'}\n\n");
}

void api_count_tokens_body(int32_t n, Bytes *out) { json_put(out, "{'input_tokens':%d}", n); }

const ApiFormat api_messages = {
    .path       = "/v1/messages",
    .parse      = api_messages_parse,
    .begin      = begin,
    .event      = event,
    .end_choice = end_choice,
    .ping       = ping,
    .fail       = fail,
    .end        = end,
    .error_body = error_body,
};
