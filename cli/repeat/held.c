#include "cli/repeat/held.h"

#include <string.h>

static bool take_event(const RpReplyEvent *e, void *user) {
    (void)e, (void)user;
    return true;
}

static RpStatus open_chat(const ManifestGrammar *g, const RpModel *m, RpSampler *sampler, const RpGrammarVocab *vocab,
                          Held *h) {
    const RpTokenizer *tk = rp_model_tokenizer(m);
    if (g->chat_template == NULL)
        RP_TRY(rp_chat_template_of(rp_model_file(m), tk, &h->chat_template));
    else
        RP_TRY(rp_chat_template_new(tk, "the template of the manifest", g->chat_template, strlen(g->chat_template),
                                    &h->chat_template));
    const RpChatOptions o = {.json             = g->text,
                             .json_bytes       = strlen(g->text),
                             .chat_template    = h->chat_template,
                             .reasoning_budget = g->reasoning_budget,
                             .on_event         = take_event,
                             .vocab            = vocab};
    RP_TRY(rp_chat_reply_new(m, sampler, &o, &h->chat));
    return rp_chat_reply_request(h->chat, &h->hooks);
}

static RpStatus make_grammar(const ManifestGrammar *g, RpGrammar **out) {
    switch (g->kind) {
    case MANIFEST_SCHEMA:
        return rp_grammar_json_schema(g->text, strlen(g->text), 0, out);
    case MANIFEST_GBNF:
        return rp_grammar_gbnf(g->text, strlen(g->text), out);
    case MANIFEST_REGEX:
        return rp_grammar_regex(g->text, strlen(g->text), out);
    default:
        return rp_grammar_json(0, out);
    }
}

RpStatus cli_held_open(const ManifestTurn *t, const RpModel *m, RpSampler *sampler, RpGrammarVocab **vocab, Held *h) {
    const ManifestGrammar *g = &t->grammar;
    if (*vocab == NULL) RP_TRY(rp_grammar_vocab_new(rp_model_tokenizer(m), vocab));
    if (g->kind == MANIFEST_CHAT) return open_chat(g, m, sampler, *vocab, h);
    RP_TRY(make_grammar(g, &h->grammar));
    return rp_matcher_new(h->grammar, *vocab, &h->matcher);
}

void cli_held_close(Held *h) {
    rp_chat_reply_free(h->chat);
    rp_chat_template_free(h->chat_template);
    rp_matcher_free(h->matcher);
    rp_grammar_free(h->grammar);
    *h = (Held){0};
}
