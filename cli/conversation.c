#include "cli/conversation.h"

#include <stdlib.h>
#include <string.h>

static RpStatus push_message(Conversation *c, const char *role, const char *text) {
    ChatMessage *grown = realloc(c->messages, (c->n_messages + 1) * sizeof *grown);
    if (grown != NULL) c->messages = grown;
    char *copy = grown != NULL ? strdup(text) : NULL;
    if (copy == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a message");
    c->messages[c->n_messages++] = (ChatMessage){role, copy};
    return RP_OK;
}

static void pop_message(Conversation *c) {
    c->n_messages--;
    free((char *)(uintptr_t)c->messages[c->n_messages].text); /* strdup of push_message */
}

static void forget_covered(Conversation *c) {
    free(c->covered);
    c->covered = NULL;
    c->pending = -1;
}

void cli_conversation_free(Conversation *c) {
    while (c->n_messages > 0) pop_message(c);
    free(c->messages);
    c->messages = NULL;
    rp_token_list_free(&c->context);
    forget_covered(c);
}

RpStatus cli_conversation_reset(Conversation *c, const char *system) {
    char *copy = system != NULL ? strdup(system) : NULL; /* it may be the message that goes */
    while (c->n_messages > 0) pop_message(c);
    forget_covered(c);
    c->context.n = 0;
    rp_sampler_reset(c->sampler);
    RpStatus st = rp_session_rewind(c->session, 0);
    if (st == RP_OK && copy != NULL) st = push_message(c, "system", copy);
    free(copy);
    return st;
}

static const Tokenizer *tokenizer_of(const Conversation *c) {
    return rp_model_tokenizer(rp_session_model(c->session));
}

static size_t common_prefix(const TokenList *a, const TokenList *b) {
    size_t n = 0;
    while (n < a->n && n < b->n && a->ids[n] == b->ids[n]) n++;
    return n;
}

/* The tokens to append for `text`, the whole conversation. What the context holds already is left out: by
 * text where it is the beginning of this one, so that a reply stays as it was drawn; by token ids otherwise,
 * rewinding to where they part. */
static RpStatus tokens_to_append(Conversation *c, const char *text, TokenList *ids) {
    const size_t covered = c->covered != NULL ? strlen(c->covered) : 0;
    if (covered > 0 && strncmp(text, c->covered, covered) == 0 && text[covered] != '\0') {
        if (c->pending >= 0) RP_TRY(rp_token_list_push(ids, c->pending));
        return rp_tokenize(tokenizer_of(c), text + covered, strlen(text + covered), RP_TOK_PARSE_SPECIAL,
                           ids);
    }
    RP_TRY(rp_tokenize(tokenizer_of(c), text, strlen(text), RP_TOK_ADD_SPECIAL | RP_TOK_PARSE_SPECIAL, ids));
    size_t keep = common_prefix(&c->context, ids);
    if (keep == ids->n && keep > 0) keep--; /* the logits come from at least one token */
    forget_covered(c);
    c->context.n = keep;
    ids->n -= keep;
    memmove(ids->ids, ids->ids + keep, ids->n * sizeof *ids->ids);
    return rp_session_rewind(c->session, (int32_t)keep);
}

/* Collects the reply on its way to the caller's on_text. */
typedef struct Collect {
    const GenerateOptions *options;
    char                  *text;
    size_t                 n;
} Collect;

static bool collect_text(const char *text, size_t len, void *user) {
    Collect *r     = user;
    char    *grown = realloc(r->text, r->n + len + 1);
    if (grown == NULL) return false;
    r->text = grown;
    memcpy(r->text + r->n, text, len);
    r->n += len;
    r->text[r->n] = '\0';
    return r->options->on_text(text, len, r->options->user);
}

static bool pass_progress(int64_t done, int64_t total, void *user) {
    const Collect *r = user;
    return r->options->prefill_progress == NULL ||
           r->options->prefill_progress(done, total, r->options->user);
}

/* Notes what the session holds now, out of prompt and reply. */
static RpStatus note_context(Conversation *c, const TokenList *prompt, const TokenList *drawn) {
    for (size_t i = 0; i < prompt->n; i++) RP_TRY(rp_token_list_push(&c->context, prompt->ids[i]));
    for (size_t i = 0; i < drawn->n; i++) RP_TRY(rp_token_list_push(&c->context, drawn->ids[i]));
    c->context.n = (size_t)rp_session_n_past(c->session);
    return RP_OK;
}

static RpStatus note_reply(Conversation *c, const char *prompt_text, const char *reply,
                           const TokenList *drawn, const GenerateResult *result) {
    forget_covered(c);
    if (drawn->n == 0) { /* interrupted before the first token: as if the message had not been sent */
        pop_message(c);
        return RP_OK;
    }
    RP_TRY(push_message(c, "assistant", reply));
    c->covered = malloc(strlen(prompt_text) + strlen(reply) + 1);
    if (c->covered == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the conversation");
    strcpy(stpcpy(c->covered, prompt_text), reply);
    c->pending = result->reason == RP_STOP_END_TOKEN ? -1 : drawn->ids[drawn->n - 1];
    return RP_OK;
}

static RpStatus take_turn(Conversation *c, const char *text, TokenList *prompt, TokenList *drawn,
                          Collect *reply, GenerateResult *result) {
    GenerateOptions o  = *reply->options;
    o.on_text          = collect_text;
    o.prefill_progress = pass_progress;
    o.user             = reply;
    o.tokens           = drawn;
    RP_TRY(tokens_to_append(c, text, prompt));
    const size_t   held  = c->context.n;
    const RpStatus st    = rp_generate(c->session, c->sampler, prompt->ids, prompt->n, &o, result);
    const RpStatus noted = note_context(c, prompt, drawn);
    if (c->context.n != held && st != RP_OK) forget_covered(c);
    RP_TRY(st);
    RP_TRY(noted);
    return note_reply(c, text, reply->text != NULL ? reply->text : "", drawn, result);
}

RpStatus cli_converse(Conversation *c, const char *message, const GenerateOptions *options,
                      GenerateResult *result) {
    TokenList prompt = {0}, drawn = {0};
    Collect   reply = {.options = options};
    char     *text  = NULL;
    RP_TRY(push_message(c, "user", message));
    RpStatus st = rp_chat_format(c->kind, c->messages, c->n_messages, &text);
    if (st == RP_OK) st = take_turn(c, text, &prompt, &drawn, &reply, result);
    if (st != RP_OK) pop_message(c);
    free(text);
    free(reply.text);
    rp_token_list_free(&prompt);
    rp_token_list_free(&drawn);
    return st;
}
