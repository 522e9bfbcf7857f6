/* Whole replies: request -> prompt -> tokens -> rp_generate -> parser -> events. */
#include "model/chat/hold.h"
#include "model/chat/stop.h"

#include "base/argument.h"
#include "base/sized.h"

#include <stdlib.h>
#include <string.h>

typedef struct Chat {
    const RpChatOptions *o;
    RpSession           *session;
    const RpTokenizer   *tk;
    RpReplyParser       *parser;
    RpTokenList          prompt, reply;
    RpTokenList          closing; /* of the reasoning, after the budget */
    size_t               n_forced;
    RpChatResult        *result;
    RpStatus             status; /* of a callback */
    char                *tools;
    Json                 request;
    Hold                 hold;
    ReplyStop            stop;
    bool                 whole; /* the reply that the grammar holds is complete */
    int32_t              max_tokens;
} Chat;

static bool on_event(const RpReplyEvent *e, void *user) {
    Chat *c = user;
    if (e->kind == RP_REPLY_CALL_END) {
        c->result->n_calls++;
        if (c->o->log != NULL) c->status = rp_tool_call_log_put(c->o->log, e->id, e->text, e->len);
        if (c->status != RP_OK) return false;
    }
    if (rp_reply_stop_event(&c->stop, e)) return true;
    if (c->status == RP_OK) c->status = c->stop.status;
    return false;
}

static bool on_token(int32_t token, void *user) {
    Chat      *c         = user;
    const bool reasoning = rp_reply_parser_in_reasoning(c->parser);
    bool       done      = false;
    if (c->status != RP_OK) return false; /* of the mask */
    if (reasoning) c->result->n_reasoning++;
    RpStatus st = rp_reply_parser_token(c->parser, token);
    if (c->status == RP_OK && st != RP_E_CANCELLED) c->status = st;
    if (st != RP_OK) return false;
    st = c->status = rp_hold_token(&c->hold, token, reasoning, &done);
    c->whole       = done && !rp_tokenizer_is_end(c->tk, token);
    return st == RP_OK && !c->whole;
}

/* The tokens of the closing mark, once the budget is used up. Of a reply that is held: the mask of the next token. */
static int32_t force_token(void *user) {
    Chat *c = user;
    if (c->status == RP_OK) c->status = rp_hold_mask(&c->hold);
    if (c->o->reasoning_budget == 0) return -1;
    if (c->n_forced == 0 &&
        (c->result->n_reasoning < c->o->reasoning_budget || !rp_reply_parser_in_reasoning(c->parser)))
        return -1;
    return c->n_forced < c->closing.n ? c->closing.ids[c->n_forced++] : -1;
}

static bool on_prefill(int64_t done, int64_t total, void *user) {
    const Chat *c = user;
    return c->o->prefill_progress == NULL || c->o->prefill_progress(done, total, c->o->user);
}

static RpStatus tokenize_closing(Chat *c, const RpReplyFormat *f) {
    const ReplyFormat *calls, *reasoning;
    RP_TRY(rp_reply_format_of(f->calls, &calls));
    RP_TRY(rp_reasoning_format_of(f->reasoning, &reasoning));
    const char *mark = calls->syntax == SYNTAX_HARMONY ? "<|end|><|start|>assistant<|channel|>final<|message|>"
                                                       : reasoning->marks[MARK_THINK_END];
    if (calls->syntax == SYNTAX_HARMONY && c->hold.matcher != NULL) mark = calls->marks[MARK_MESSAGE_END];
    if (mark == NULL)
        return rp_fail(RP_E_ARG, "a budget of %d tokens for reasoning, which this model does not write",
                       c->o->reasoning_budget);
    return rp_tokenize(c->tk, mark, strlen(mark), RP_TOK_PARSE_SPECIAL, &c->closing);
}

/* The tools of the request as JSON, NULL: there are none; and its limit of tokens. */
static RpStatus read_request(Chat *c) {
    const Json *j   = &c->request;
    JsonOut     out = {0};
    uint64_t    most;
    RP_TRY(rp_json_read("request", c->o->json, c->o->json_bytes, &c->request));
    const JsonNode *tools = rp_json_get(j, &j->nodes[0], "tools"), *limit = rp_json_get(j, &j->nodes[0], "max_tokens");
    const bool      none = rp_json_is(j, rp_json_get(j, &j->nodes[0], "tool_choice"), "none");
    if (tools != NULL && tools->type == JSON_ARRAY && !none) rp_json_put_node(&out, j, tools);
    c->tools      = out.p;
    c->max_tokens = c->o->max_tokens;
    if (limit == NULL) limit = rp_json_get(j, &j->nodes[0], "max_completion_tokens");
    if (rp_json_u63(j, limit, &most) && (c->max_tokens == 0 || (c->max_tokens > 0 && most < (uint64_t)c->max_tokens)))
        c->max_tokens = most < INT32_MAX ? (int32_t)most : INT32_MAX;
    return out.failed ? rp_fail(RP_E_NOMEM, "out of memory for the tools of a chat") : RP_OK;
}

/* An answer that is JSON may spell what would begin a call; without tools there are none. */
static const char *calls_of(const Chat *c, const RpReplyFormat *f) {
    const JsonNode *format = rp_json_get(&c->request, &c->request.nodes[0], "response_format");
    const bool      json = format != NULL && !rp_json_is(&c->request, rp_json_get(&c->request, format, "type"), "text");
    return json && c->tools == NULL && strcmp(f->calls, "harmony") != 0 ? "none" : f->calls;
}

/* Prompt and parser. */
static RpStatus prepare(Chat *c, RpSampler *sampler) {
    const RpChatRequest request = {
        .json = c->o->json, .json_bytes = c->o->json_bytes, .format = c->o->format, .log = c->o->log};
    RpChatPrompt prompt;
    char        *text;
    bool        *control;
    RP_TRY(rp_chat_prompt(c->o->chat_template, &request, &text, &control, &prompt));
    RpStatus st = rp_tokenize_masked(c->tk, text, control, strlen(text), RP_TOK_ADD_SPECIAL, &c->prompt);
    free(text);
    free(control);
    c->result->n_replayed = prompt.n_replayed;
    if (st == RP_OK) st = read_request(c);
    RP_TRY(st);
    prompt.format.calls = calls_of(c, &prompt.format);
    RP_TRY(rp_reply_stop_open(&c->stop, c->o->stop, c->o->n_stop, &c->request));
    c->stop.to   = c->o->on_event;
    c->stop.user = c->o->user;
    RP_TRY(rp_reply_parser_new(&(RpReplyParserOptions){.format       = prompt.format,
                                                       .tokenizer    = c->tk,
                                                       .tools        = c->tools,
                                                       .tools_bytes  = c->tools != NULL ? strlen(c->tools) : 0,
                                                       .in_reasoning = prompt.in_reasoning,
                                                       .id_seed      = c->o->id_seed,
                                                       .on_event     = on_event,
                                                       .user         = c},
                               &c->parser));
    RP_TRY(rp_hold_open(&c->hold, c->parser, c->tk, &c->request, c->o->vocab, sampler));
    return c->o->reasoning_budget > 0 ? tokenize_closing(c, &prompt.format) : RP_OK;
}

/* Rewinds to what the session has of the prompt; at least one token must run to give logits. */
static RpStatus rewind_to_common(Chat *c) {
    const RpTokenList *held = c->o->context;
    size_t             keep = 0;
    while (held != NULL && keep < held->n && keep + 1 < c->prompt.n && held->ids[keep] == c->prompt.ids[keep]) keep++;
    if (held != NULL && held->n != (size_t)rp_session_n_past(c->session))
        return rp_fail(RP_E_ARG, "the context has %zu tokens, the session %d", held->n, rp_session_n_past(c->session));
    keep              = (size_t)rp_session_rewind_point(c->session, (int32_t)keep);
    c->result->n_kept = (int32_t)keep;
    if (c->o->context != NULL) c->o->context->n = keep;
    return rp_session_rewind(c->session, (int32_t)keep);
}

static RpStatus record_context(Chat *c) {
    RpTokenList *to = c->o->context;
    if (to == NULL) return RP_OK;
    for (size_t i = (size_t)c->result->n_kept; i < c->prompt.n; i++) RP_TRY(rp_token_list_push(to, c->prompt.ids[i]));
    for (size_t i = 0; i < c->reply.n; i++) RP_TRY(rp_token_list_push(to, c->reply.ids[i]));
    to->n = (size_t)rp_session_n_past(c->session);
    return RP_OK;
}

static RpStatus run(Chat *c, RpSampler *sampler) {
    RpGenerateResult r = {.reason = RP_STOP_CANCELLED};
    RP_TRY(prepare(c, sampler));
    const bool              asked = c->o->reasoning_budget > 0 || c->hold.matcher != NULL;
    const RpGenerateOptions o     = {.max_tokens       = c->max_tokens,
                                     .prefill_progress = on_prefill,
                                     .user             = c,
                                     .tokens           = &c->reply,
                                     .force_token      = asked ? force_token : NULL,
                                     .on_token         = on_token};
    c->result->n_prompt           = (int32_t)c->prompt.n;
    RP_TRY(rewind_to_common(c));
    const size_t   kept      = (size_t)c->result->n_kept;
    RpStatus       st        = rp_generate(c->session, sampler, c->prompt.ids + kept, c->prompt.n - kept, &o, &r);
    const RpStatus noted     = record_context(c);
    c->result->reason        = r.reason;
    c->result->n_generated   = r.n_generated;
    c->result->prefill_s     = r.prefill_s;
    c->result->decode_s      = r.decode_s;
    c->result->first_token_s = r.first_token_s;
    c->result->host_sampling = r.host_sampling;
    if (st == RP_OK) st = c->status;
    RP_TRY(st);
    RP_TRY(noted);
    if (c->stop.found) c->result->reason = RP_STOP_STRING;
    if (r.reason == RP_STOP_CANCELLED && !c->whole) return RP_OK;
    if (c->whole) c->result->reason = RP_STOP_GRAMMAR;
    st = rp_reply_parser_end(c->parser);
    if (c->status != RP_OK) return c->status;
    if (st == RP_E_CANCELLED) c->result->reason = c->stop.found ? RP_STOP_STRING : RP_STOP_CANCELLED;
    return st == RP_E_CANCELLED ? RP_OK : st;
}

static RpStatus check(const RpSession *s, const RpChatOptions *o) {
    if (o->chat_template == NULL) return rp_fail(RP_E_ARG, "a chat has no template");
    if (o->reasoning_budget < 0) return rp_fail(RP_E_ARG, "a budget of %d tokens for reasoning", o->reasoning_budget);
    if (o->n_stop > 0) RP_NOT_NULL(o->stop, "stop");
    if (rp_model_tokenizer(rp_session_model(s)) == NULL)
        return rp_fail(RP_E_UNSUPPORTED, "the model has no tokenizer, and so no chat");
    return RP_OK;
}

RpStatus rp_chat_generate_sized(RpSession *s, RpSampler *sampler, const RpChatOptions *options, size_t options_bytes,
                                RpChatResult *result, size_t result_bytes) {
    RP_NOT_NULL(s, "s");
    RP_NOT_NULL(sampler, "sampler");
    RP_NOT_NULL(options, "options");
    RP_NOT_NULL(result, "result");
    RpChatOptions o;
    RpChatResult  r  = {.reason = RP_STOP_CANCELLED};
    Chat          c  = {.o = &o, .session = s, .tk = rp_model_tokenizer(rp_session_model(s)), .result = &r};
    RpStatus      st = rp_sized_in(&o, sizeof o, options, options_bytes, "RpChatOptions");
    if (st == RP_OK) st = check(s, &o);
    if (st == RP_OK) st = run(&c, sampler);
    rp_hold_close(&c.hold);
    rp_reply_stop_close(&c.stop);
    rp_reply_parser_free(c.parser);
    rp_json_free(&c.request);
    rp_token_list_free(&c.prompt);
    rp_token_list_free(&c.reply);
    rp_token_list_free(&c.closing);
    free(c.tools);
    rp_sized_out(result, result_bytes, &r, sizeof r);
    return st;
}
