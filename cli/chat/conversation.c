/* conversation.c - finds the tokens that each turn appends to the context.
 *
 * The last sampled token of a reply is not in the context yet (see rp_generate): unless it is an end token, it is
 * `pending` and begins the next turn. */
#include "cli/chat/conversation.h"

#include <stdlib.h>
#include <string.h>

/* Appends a message with a copy of the text. `role` must be static. */
static RpStatus push_message(Conversation *c, const char *role, const char *text) {
    RpChatMessage *grown = realloc(c->messages, (c->n_messages + 1) * sizeof *grown);
    if (grown != NULL) c->messages = grown;
    char *copy = grown != NULL ? strdup(text) : NULL;
    if (copy == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a message");
    c->messages[c->n_messages++] = (RpChatMessage){role, copy};
    return RP_OK;
}

static void pop_message(Conversation *c) {
    c->n_messages--;
    free((char *)(uintptr_t)c->messages[c->n_messages].text); /* strdup of push_message */
}

/* Call it if known_text is no longer right: the next turn then tokenises the whole conversation again
 * (tokens_to_append). */
static void forget_text(Conversation *c) {
    free(c->known_text);
    c->known_text = NULL;
    c->pending    = -1;
}

void cli_conversation_free(Conversation *c) {
    while (c->n_messages > 0) pop_message(c);
    free(c->messages);
    c->messages = NULL;
    rp_token_list_free(&c->context);
    cli_chat_format_free(&c->format);
    forget_text(c);
}

RpStatus cli_conversation_reset(Conversation *c, const char *system) {
    char *copy = system != NULL ? strdup(system) : NULL; /* it may point into a message freed below */
    if (system != NULL && copy == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the system message");
    while (c->n_messages > 0) pop_message(c);
    forget_text(c);
    c->last = -1;
    rp_sampler_reset(c->sampler);
    RpStatus st = cli_generator_rewind(c->generator, 0, &c->context.n);
    if (st == RP_OK && copy != NULL) st = push_message(c, "system", copy);
    free(copy);
    return st;
}

/* Number of tokens at the beginning that are the same in both lists. */
static size_t common_prefix(const RpTokenList *a, const RpTokenList *b) {
    size_t n = 0;
    while (n < a->n && n < b->n && a->ids[n] == b->ids[n]) n++;
    return n;
}

/* The whole conversation, as cli_chat_text gives it. */
typedef struct Prompt {
    char *text;
    bool *control;
} Prompt;

/* Tokenises from byte `first` on. */
static RpStatus tokenize(const Conversation *c, const Prompt *p, size_t first, RpTokenList *ids) {
    const unsigned add = first == 0 ? RP_TOK_ADD_SPECIAL : 0u, parse = c->parse_special ? RP_TOK_PARSE_SPECIAL : 0u;
    return rp_tokenize_masked(rp_model_tokenizer(cli_generator_model(c->generator)), p->text + first,
                              p->control + first, strlen(p->text + first), add | parse, ids);
}

/* 1 if the first of the tokens behind the context is the last one of the reply before, else 0. */
static size_t seen(const Conversation *c, const int32_t *ids, size_t n) { return n > 1 && ids[0] == c->last ? 1 : 0; }

/* The tokens to append so that the context holds the whole conversation, and how many of them the sampler has accepted
 * in the turns before.
 *
 * If its text begins with known_text, only the rest is tokenised. Tokenising all of it could cut the reply into other
 * tokens than were sampled, which would invalidate the KV cache. Otherwise all of the text is tokenised, and the
 * context goes back to the longest common prefix of token ids, or further if it cannot stop there. */
static RpStatus tokens_to_append(Conversation *c, const Prompt *p, RpTokenList *ids, size_t *n_seen) {
    const size_t n_known = c->known_text != NULL ? strlen(c->known_text) : 0;
    *n_seen              = 0;
    if (n_known > 0 && strncmp(p->text, c->known_text, n_known) == 0 && p->text[n_known] != '\0') {
        if (c->pending >= 0) RP_TRY(rp_token_list_push(ids, c->pending));
        RP_TRY(tokenize(c, p, n_known, ids));
        *n_seen = seen(c, ids->ids, ids->n);
        return RP_OK;
    }
    RP_TRY(tokenize(c, p, 0, ids));
    size_t       keep = common_prefix(&c->context, ids);
    const size_t last = keep == c->context.n ? seen(c, ids->ids + keep, ids->n - keep) : 0;
    if (keep == ids->n && keep > 0) keep--; /* at least one token must run to give logits */
    forget_text(c);
    RP_TRY(cli_generator_rewind(c->generator, keep, &c->context.n));
    ids->n -= c->context.n;
    *n_seen = keep + last - c->context.n;
    memmove(ids->ids, ids->ids + c->context.n, ids->n * sizeof *ids->ids);
    return RP_OK;
}

/* Collects the text of the reply and passes it on to the caller's on_text. */
typedef struct Collect {
    const RpGenerateOptions *options;
    char                    *text;
    size_t                   n;
    bool                     no_memory; /* for `text` */
} Collect;

static bool collect_text(const char *text, size_t len, void *user) {
    Collect *r     = user;
    char    *grown = realloc(r->text, r->n + len + 1);
    if (grown == NULL) {
        r->no_memory = true;
        return false;
    }
    r->text = grown;
    memcpy(r->text + r->n, text, len);
    r->n += len;
    r->text[r->n] = '\0';
    return r->options->on_text(text, len, r->options->user);
}

static bool pass_progress(int64_t done, int64_t total, void *user) {
    const Collect *r = user;
    return r->options->prefill_progress == NULL || r->options->prefill_progress(done, total, r->options->user);
}

/* Makes the reply a message. From then on the text of the context is known: the formatted prompt, then the reply. */
static RpStatus record_reply(Conversation *c, const char *prompt_text, const char *reply, const RpTokenList *sampled,
                             const RpGenerateResult *result) {
    forget_text(c);
    if (sampled->n == 0) { /* interrupted before the first token: as if the message had not been sent */
        pop_message(c);
        return RP_OK;
    }
    RP_TRY(push_message(c, "assistant", reply));
    c->known_text = malloc(strlen(prompt_text) + strlen(reply) + 1);
    if (c->known_text == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the conversation");
    strcpy(stpcpy(c->known_text, prompt_text), reply);
    c->last    = sampled->ids[sampled->n - 1];
    c->pending = result->reason == RP_STOP_END_TOKEN ? -1 : c->last;
    return RP_OK;
}

/* Runs the tokens of a turn and samples the reply. `whole` is the conversation with the new message. After a
 * failure `context` may have a part of the prompt. */
static RpStatus take_turn(Conversation *c, const Prompt *whole, RpTokenList *prompt, RpTokenList *sampled,
                          Collect *reply, RpGenerateResult *result) {
    RpGenerateOptions o = *reply->options;
    o.on_text           = collect_text;
    o.prefill_progress  = pass_progress;
    o.user              = reply;
    o.tokens            = sampled;
    size_t n_seen;
    RP_TRY(tokens_to_append(c, whole, prompt, &n_seen));
    const size_t held = c->context.n;
    c->last           = -1;
    const RpStatus st = cli_generator_reply(c->generator, c->sampler, &c->context, prompt, n_seen, &o, result);
    if (c->context.n != held && st != RP_OK) forget_text(c); /* known_text lacks the new tokens */
    RP_TRY(st);
    if (reply->no_memory) {
        forget_text(c);
        return rp_fail(RP_E_NOMEM, "out of memory for the text of the reply");
    }
    return record_reply(c, whole->text, reply->text != NULL ? reply->text : "", sampled, result);
}

RpStatus cli_converse(Conversation *c, const char *message, const RpGenerateOptions *options,
                      RpGenerateResult *result) {
    RpTokenList prompt = {0}, sampled = {0};
    Collect     reply = {.options = options};
    Prompt      whole = {0};
    RP_TRY(push_message(c, "user", message));
    RpStatus st = cli_chat_text(&c->format, c->messages, c->n_messages, &whole.text, &whole.control);
    if (st == RP_OK) st = take_turn(c, &whole, &prompt, &sampled, &reply, result);
    if (st != RP_OK) pop_message(c);
    free(whole.text);
    free(whole.control);
    free(reply.text);
    rp_token_list_free(&prompt);
    rp_token_list_free(&sampled);
    return st;
}
