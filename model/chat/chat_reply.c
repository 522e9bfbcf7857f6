/* A reply of a chat: request -> prompt, parser; tokens -> events. */
#include "model/chat/chat_reply.h"

#include "base/argument.h"
#include "base/sized.h"
#include "model/sampler/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keeps the first failure and its text: it is reported when the reply has ended. */
static void note(RpChatReply *r, RpStatus st) {
    if (st == RP_OK || r->status != RP_OK) return;
    r->status = st;
    snprintf(r->error, sizeof r->error, "%s", rp_last_error());
}

static bool on_event(const RpReplyEvent *e, void *user) {
    RpChatReply *r = user;
    if (e->kind == RP_REPLY_CALL_END) {
        r->result.n_calls++;
        if (r->o.log != NULL) note(r, rp_tool_call_log_put(r->o.log, e->id, e->text, e->len));
        if (r->status != RP_OK) return false;
    }
    if (rp_reply_stop_event(&r->stop, e)) return true;
    note(r, r->stop.status);
    return false;
}

bool rp_chat_reply_token(int32_t token, void *user) {
    RpChatReply *r         = user;
    const bool   reasoning = rp_reply_parser_in_reasoning(r->parser);
    bool         done      = false;
    r->last                = token;
    if (r->status != RP_OK) return false; /* of the mask */
    if (reasoning) r->result.n_reasoning++;
    const int32_t  n_calls = r->result.n_calls;
    const RpStatus st      = rp_reply_parser_token(r->parser, token);
    if (st != RP_E_CANCELLED) note(r, st);
    if (st != RP_OK) return false;
    if (r->hold.matcher != NULL || r->calls.now != NULL) r->result.n_held += r->result.n_calls - n_calls;
    note(r, rp_hold_token(&r->hold, token, reasoning, &done));
    note(r, rp_call_hold_token(&r->calls, token));
    r->whole = done && !rp_tokenizer_is_end(r->tk, token);
    return r->status == RP_OK && !r->whole;
}

/* The tokens of the closing mark, once the budget is used up. Sets the mask of the next token of a reply that a grammar
 * holds. */
int32_t rp_chat_reply_force(void *user) {
    RpChatReply *r = user;
    if (r->status == RP_OK) note(r, rp_hold_mask(&r->hold));
    if (r->o.reasoning_budget == 0) return -1;
    if (r->n_forced == 0 && (r->result.n_reasoning < r->o.reasoning_budget || !rp_reply_parser_in_reasoning(r->parser)))
        return -1;
    return r->n_forced < r->closing.n ? r->closing.ids[r->n_forced++] : -1;
}

static RpStatus tokenize_closing(RpChatReply *r, const RpReplyFormat *f) {
    const ReplyFormat *calls, *reasoning;
    RP_TRY(rp_reply_format_of(f->calls, &calls));
    RP_TRY(rp_reasoning_format_of(f->reasoning, &reasoning));
    const char *mark = calls->syntax == SYNTAX_HARMONY ? "<|end|><|start|>assistant<|channel|>final<|message|>"
                                                       : reasoning->marks[MARK_THINK_END];
    if (calls->syntax == SYNTAX_HARMONY && r->hold.matcher != NULL) mark = calls->marks[MARK_MESSAGE_END];
    if (mark == NULL)
        return rp_fail(RP_E_ARG, "a budget of %d tokens for reasoning, which this model does not write",
                       r->o.reasoning_budget);
    return rp_tokenize(r->tk, mark, strlen(mark), RP_TOK_PARSE_SPECIAL, &r->closing);
}

/* The tools of the request as JSON, NULL: there are none; and its limit of tokens. */
static RpStatus read_request(RpChatReply *r) {
    const Json *j   = &r->request;
    JsonOut     out = {0};
    uint64_t    most;
    RP_TRY(rp_json_read("request", r->o.json, r->o.json_bytes, &r->request));
    const JsonNode *tools = rp_json_get(j, &j->nodes[0], "tools"), *limit = rp_json_get(j, &j->nodes[0], "max_tokens");
    const bool      none = rp_json_is(j, rp_json_get(j, &j->nodes[0], "tool_choice"), "none");
    if (tools != NULL && tools->type == JSON_ARRAY && !none) rp_json_put_node(&out, j, tools);
    r->tools      = out.p;
    r->max_tokens = r->o.max_tokens;
    if (limit == NULL) limit = rp_json_get(j, &j->nodes[0], "max_completion_tokens");
    if (rp_json_u63(j, limit, &most) && (r->max_tokens == 0 || (r->max_tokens > 0 && most < (uint64_t)r->max_tokens)))
        r->max_tokens = most < INT32_MAX ? (int32_t)most : INT32_MAX;
    return out.failed ? rp_fail(RP_E_NOMEM, "out of memory for the tools of a chat") : RP_OK;
}

/* An answer that is JSON may spell what would begin a call; without tools there are none. */
static const char *calls_of(const RpChatReply *r, const RpReplyFormat *f) {
    const JsonNode *format = rp_json_get(&r->request, &r->request.nodes[0], "response_format");
    const bool      json = format != NULL && !rp_json_is(&r->request, rp_json_get(&r->request, format, "type"), "text");
    return json && r->tools == NULL && strcmp(f->calls, "harmony") != 0 ? "none" : f->calls;
}

static void give_notes(const RpChatReply *r) {
    const RpGrammar *g[N_MARKS + 3] = {r->hold.grammars[0], r->hold.grammars[1]};
    if (r->o.on_note == NULL) return;
    for (int i = 0; i <= N_MARKS; i++) g[i + 2] = r->calls.grammars[i].grammar;
    for (size_t i = 0; i < sizeof g / sizeof *g; i++)
        for (size_t k = 0; k < rp_grammar_n_notes(g[i]) && (i != 1 || g[0] == NULL); k++)
            r->o.on_note(rp_grammar_note_at(g[i], k), r->o.user);
    if (r->calls.why[0] != '\0') r->o.on_note(r->calls.why, r->o.user);
}

/* Prompt and parser. */
static RpStatus prepare(RpChatReply *r) {
    const RpChatRequest request = {
        .json = r->o.json, .json_bytes = r->o.json_bytes, .format = r->o.format, .log = r->o.log};
    RpChatPrompt prompt;
    char        *text;
    bool        *control;
    RP_TRY(rp_chat_prompt(r->o.chat_template, &request, &text, &control, &prompt));
    RpStatus st = rp_tokenize_masked(r->tk, text, control, strlen(text), RP_TOK_ADD_SPECIAL, &r->prompt);
    free(text);
    free(control);
    r->result.n_replayed      = prompt.n_replayed;
    r->result.describes_tools = prompt.describes_tools;
    if (st == RP_OK) st = read_request(r);
    RP_TRY(st);
    prompt.format.calls = calls_of(r, &prompt.format);
    RP_TRY(rp_reply_stop_open(&r->stop, r->o.stop, r->o.n_stop, &r->request));
    r->stop.to   = r->o.on_event;
    r->stop.user = r->o.user;
    RP_TRY(rp_reply_parser_new(&(RpReplyParserOptions){.format       = prompt.format,
                                                       .tokenizer    = r->tk,
                                                       .tools        = r->tools,
                                                       .tools_bytes  = r->tools != NULL ? strlen(r->tools) : 0,
                                                       .in_reasoning = prompt.in_reasoning,
                                                       .continues    = prompt.continues,
                                                       .id_seed      = r->o.id_seed,
                                                       .on_event     = on_event,
                                                       .user         = r},
                               &r->parser));
    RP_TRY(rp_hold_open(&r->hold, r->parser, r->tk, &r->request, r->o.vocab, r->sampler));
    if (r->hold.matcher == NULL && !r->o.free_calls)
        RP_TRY(rp_call_hold_open(&r->calls, r->parser, r->tk, &r->request, r->o.vocab, r->sampler));
    give_notes(r);
    if (prompt.continues && !prompt.in_reasoning)
        RP_TRY(rp_hold_begun(
            &r->hold, rp_json_string(&r->request, rp_json_get(&r->request, rp_request_begun(&r->request), "content"))));
    return r->o.reasoning_budget > 0 ? tokenize_closing(r, &prompt.format) : RP_OK;
}

static RpStatus check(const RpModel *m, const RpChatOptions *o) {
    if (o->chat_template == NULL) return rp_fail(RP_E_ARG, "a chat has no template");
    if (o->reasoning_budget < 0) return rp_fail(RP_E_ARG, "a budget of %d tokens for reasoning", o->reasoning_budget);
    if (o->max_tokens < 0) return rp_fail(RP_E_ARG, "a reply of %d tokens: must be at least 0", o->max_tokens);
    if (o->n_stop > 0) RP_NOT_NULL(o->stop, "stop");
    if (rp_model_tokenizer(m) == NULL) return rp_fail(RP_E_UNSUPPORTED, "the model has no tokenizer, and so no chat");
    return RP_OK;
}

/* The number of tokens with which both begin. The last token of the prompt is not counted, because it must run to give
 * logits. */
static size_t common(const RpTokenList *context, const RpTokenList *prompt) {
    size_t n = 0;
    while (context != NULL && n < context->n && n + 1 < prompt->n && context->ids[n] == prompt->ids[n]) n++;
    return n;
}

/* The number of tokens at the begin of the prompt that the sampler has accepted: those of the context, and the last
 * one of the reply before. */
static size_t seen(const RpChatReply *r) {
    const size_t n = r->n_common;
    if (r->o.context == NULL || rp_sampler_is_new(r->sampler)) return 0;
    const bool follows = n == r->o.context->n && n + 1 < r->prompt.n;
    return follows && rp_sampler_reply_end(r->sampler, n) == r->prompt.ids[n] ? n + 1 : n;
}

RpStatus rp_chat_reply_open(RpChatReply *r, const RpModel *m, RpSampler *sampler, const RpChatOptions *options,
                            size_t options_bytes) {
    r->tk            = rp_model_tokenizer(m);
    r->sampler       = sampler;
    r->result.reason = RP_STOP_CANCELLED;
    RP_TRY(rp_sized_in(&r->o, sizeof r->o, options, options_bytes, "RpChatOptions"));
    RP_TRY(check(m, &r->o));
    RP_TRY(prepare(r));
    r->result.n_prompt = (int32_t)r->prompt.n;
    r->n_common        = common(r->o.context, &r->prompt);
    r->result.n_seen   = (int32_t)seen(r);
    return RP_OK;
}

void rp_chat_reply_close(RpChatReply *r) {
    rp_hold_close(&r->hold);
    rp_call_hold_close(&r->calls);
    rp_reply_stop_close(&r->stop);
    rp_reply_parser_free(r->parser);
    rp_json_free(&r->request);
    rp_token_list_free(&r->prompt);
    rp_token_list_free(&r->closing);
    free(r->tools);
}

bool rp_chat_reply_forces(const RpChatReply *r) { return r->o.reasoning_budget > 0 || r->hold.matcher != NULL; }

RpStatus rp_chat_reply_finish(RpChatReply *r, RpStopReason reason) {
    r->result.reason    = reason;
    const int32_t n_run = r->result.n_prompt + r->result.n_generated - 1;
    if (r->result.n_generated > 0) rp_sampler_end_reply(r->sampler, (size_t)n_run, r->last);
    if (r->status != RP_OK) return rp_fail(r->status, "%s", r->error);
    if (r->stop.found) r->result.reason = RP_STOP_STRING;
    if (reason == RP_STOP_CANCELLED && !r->whole) return RP_OK;
    if (r->whole) r->result.reason = RP_STOP_GRAMMAR;
    const RpStatus st = rp_reply_parser_end(r->parser);
    if (r->status != RP_OK) return rp_fail(r->status, "%s", r->error);
    if (st == RP_E_CANCELLED) r->result.reason = r->stop.found ? RP_STOP_STRING : RP_STOP_CANCELLED;
    return st == RP_E_CANCELLED ? RP_OK : st;
}
