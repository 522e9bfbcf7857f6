/* Masks for a reply that is held (hold.h). */
#include "model/chat/hold.h"

#include <stdlib.h>
#include <string.h>

static RpStatus read_format(const Json *j, const JsonNode *format, Demand *d) {
    const JsonNode *type = rp_json_get(j, format, "type"), *inner = rp_json_get(j, format, "json_schema");
    d->answer_kind = RP_PART_SCHEMA;
    if (rp_json_is(j, type, "json_object")) rp_json_put_text(&d->answer, "{\"type\": \"object\"}");
    if (rp_json_is(j, type, "json_schema"))
        rp_json_put_node(&d->answer, j, rp_json_get(j, inner != NULL ? inner : format, "schema"));
    RpGgufString text;
    bool         is_gbnf;
    if (rp_request_answer_text(j, format, &text, &is_gbnf)) {
        d->answer_kind = is_gbnf ? RP_PART_GBNF : RP_PART_REGEX;
        rp_json_put(&d->answer, text.ptr, text.len);
    }
    return d->answer.failed ? rp_fail(RP_E_NOMEM, "out of memory for the form of a reply") : RP_OK;
}

/* Reads tool_choice and response_format, which rp_request_check has checked. */
static RpStatus read_demand(const Json *j, Demand *d) {
    const JsonNode *root = &j->nodes[0], *format = rp_json_get(j, root, "response_format");
    const JsonNode *choice = rp_json_get(j, root, "tool_choice");
    const bool      named  = choice != NULL && choice->type == JSON_OBJECT;
    d->tools               = rp_json_get(j, root, "tools");
    d->must                = named || rp_json_is(j, choice, "required");
    d->calls = d->tools != NULL && d->tools->type == JSON_ARRAY && d->tools->n > 0 && !rp_json_is(j, choice, "none");
    if (named) {
        const JsonNode *function = rp_json_get(j, choice, "function");
        d->name                  = rp_json_string(j, rp_json_get(j, function != NULL ? function : choice, "name"));
    }
    return d->must ? RP_OK : read_format(j, format, d);
}

/* The mark that closes the reasoning, if it is no token. */
static const char *closing_text(const RpReplyParser *p) {
    return p->format->syntax != SYNTAX_HARMONY && !p->token[MARK_THINK_END] ? p->reasoning->marks[MARK_THINK_END]
                                                                            : NULL;
}

/* True if a token behind `held` bytes of the mark closes the reasoning and goes on with more than line ends. */
static bool runs_over(const RpReplyParser *p, size_t held, RpGgufString token) {
    const char *mark = closing_text(p);
    char        text[MARK_BYTES + 256];
    if (token.len > 256) return true;
    memcpy(text, p->held, held);
    if (token.len > 0) memcpy(text + held, token.ptr, token.len);
    const char *at = memmem(text, held + token.len, mark, strlen(mark));
    if (at == NULL) return false;
    at += strlen(mark);
    const size_t rest = (size_t)(text + held + token.len - at);
    return rest > 2 || memcmp(at, "\n\n", rest) != 0;
}

static RpStatus forbid_overruns(const Hold *h, size_t held, uint32_t *bits) {
    if (closing_text(h->parser) == NULL) return RP_OK;
    for (int32_t i = 0; i < rp_tokenizer_n_vocab(h->tk); i++) {
        RpGgufString s;
        RP_TRY(rp_token_bytes(h->tk, i, false, &s));
        if (runs_over(h->parser, held, s)) rp_hold_forbid(bits, i);
    }
    return RP_OK;
}

/* The reasoning does not end the reply, and no other mark than its own ends it. */
static RpStatus reasoning_mask(Hold *h) {
    const RpReplyParser *p   = h->parser;
    const MarkId         end = p->format->syntax == SYNTAX_HARMONY ? MARK_MESSAGE_END : MARK_THINK_END;
    memset(h->reasoning, 0xff, h->words * sizeof *h->reasoning);
    for (int32_t i = 0; i < rp_tokenizer_n_vocab(h->tk); i++)
        if (rp_tokenizer_is_end(h->tk, i)) rp_hold_forbid(h->reasoning, i);
    for (int m = 0; m < N_MARKS; m++)
        if (p->token[m] && m != (int)end) rp_hold_forbid(h->reasoning, p->token_id[m]);
    return forbid_overruns(h, 0, h->reasoning);
}

static int find_others(const Frame *f, const RpTokenizer *tk, int32_t others[N_MARKS]) {
    const RpReplyParser *p = f->parser;
    int                  n = 0;
    for (int m = 0; m < N_MARKS; m++) {
        bool used = !p->token[m] || rp_tokenizer_is_end(tk, p->token_id[m]);
        for (size_t i = 0; i < f->n && !used; i++)
            used = f->parts[i].kind == RP_PART_TOKEN && f->parts[i].token == p->token_id[m];
        if (!used) others[n++] = p->token_id[m];
    }
    return n;
}

RpStatus rp_hold_grammar(Frame *f, const RpTokenizer *tk, RpGrammar **grammar, int32_t others[N_MARKS], int *n_others) {
    RpStatus st = f->status;
    if (st == RP_OK) st = rp_grammar_parts(f->parts, f->n, grammar);
    if (st == RP_OK) *n_others = find_others(f, tk, others);
    rp_frame_free(f);
    return st;
}

RpStatus rp_hold_check_vocab(const RpGrammarVocab *vocab, const RpTokenizer *tk) {
    if (rp_grammar_vocab_size(vocab) == rp_tokenizer_n_vocab(tk)) return RP_OK;
    return rp_fail(RP_E_ARG, "the vocabulary for grammars has %d tokens, the model %d", rp_grammar_vocab_size(vocab),
                   rp_tokenizer_n_vocab(tk));
}

RpStatus rp_hold_new_mask(const RpSampler *sampler, const RpTokenizer *tk, uint32_t **bits, size_t *words) {
    const int32_t a = rp_sampler_n_vocab(sampler), b = rp_tokenizer_n_vocab(tk), n = a > b ? a : b;
    *words = ((size_t)n + 31) / 32;
    *bits  = calloc(*words, sizeof **bits);
    return *bits != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a mask of %d tokens", n);
}

/* Grammar and matcher i. */
static RpStatus make_matcher(Hold *h, const Demand *d, const Json *j, const RpGrammarVocab *vocab, int i) {
    Frame f = {.parser = h->parser, .j = j};
    rp_frame_reply(&f, d, i == 0);
    RP_TRY(rp_hold_grammar(&f, h->tk, &h->grammars[i], h->others[i], &h->n_others[i]));
    const RpStatus st = rp_matcher_new(h->grammars[i], vocab, &h->matchers[i]);
    if (h->matcher == NULL) h->matcher = h->matchers[i];
    return st;
}

static RpStatus make(Hold *h, const Demand *d, const Json *j, const RpGrammarVocab *vocab) {
    const RpReplyParser *p         = h->parser;
    const bool           reasoning = !rp_reply_parser_in_reasoning(p) &&
                           (p->reasoning->marks[MARK_THINK] != NULL || p->format->syntax == SYNTAX_HARMONY);
    if (vocab == NULL) RP_TRY(rp_grammar_vocab_new(h->tk, &h->own));
    if (vocab == NULL) vocab = h->own;
    RP_TRY(rp_hold_check_vocab(vocab, h->tk));
    for (int i = reasoning ? 0 : 1; i < 2; i++) RP_TRY(make_matcher(h, d, j, vocab, i));
    RP_TRY(rp_hold_new_mask(h->sampler, h->tk, &h->bits, &h->words));
    RP_TRY(rp_hold_new_mask(h->sampler, h->tk, &h->reasoning, &h->words));
    RP_TRY(reasoning_mask(h));
    rp_sampler_set_mask(h->sampler, h->bits);
    return RP_OK;
}

RpStatus rp_hold_open(Hold *h, const RpReplyParser *p, const RpTokenizer *tk, const Json *request,
                      const RpGrammarVocab *vocab, RpSampler *sampler) {
    Demand d    = {0};
    *h          = (Hold){.parser = p, .tk = tk, .sampler = sampler};
    RpStatus st = read_demand(request, &d);
    if (st == RP_OK && (d.must || d.answer.p != NULL)) st = make(h, &d, request, vocab);
    free(d.answer.p);
    return st;
}

/* A mark as its token, or as text. */
static RpStatus accept_mark(Hold *h, MarkId m) {
    const char *text = h->parser->format->marks[m];
    return h->parser->token[m] ? rp_matcher_accept(h->matcher, h->parser->token_id[m])
                               : rp_matcher_accept_text(h->matcher, text, strlen(text));
}

RpStatus rp_hold_begun(Hold *h, RpGgufString answer) {
    if (h->matcher == NULL) return RP_OK;
    h->matcher  = h->matchers[1];
    RpStatus st = RP_OK;
    if (h->parser->format->syntax == SYNTAX_HARMONY) {
        st = accept_mark(h, MARK_CHANNEL);
        if (st == RP_OK) st = rp_matcher_accept_text(h->matcher, "final", 5);
        if (st == RP_OK) st = accept_mark(h, MARK_MESSAGE);
    }
    if (st == RP_OK) st = rp_matcher_accept_text(h->matcher, answer.ptr, answer.len);
    return st != RP_E_ARG
               ? st
               : rp_fail(RP_E_ARG, "continue_final_message: no reply that the request allows begins with the "
                                   "text of the last message");
}

void rp_hold_close(Hold *h) {
    if (h->bits != NULL) rp_sampler_set_mask(h->sampler, NULL);
    free(h->bits);
    free(h->reasoning);
    for (int i = 0; i < 2; i++) {
        rp_matcher_free(h->matchers[i]);
        rp_grammar_free(h->grammars[i]);
    }
    rp_grammar_vocab_free(h->own);
}

RpStatus rp_hold_mask(Hold *h) {
    const RpReplyParser *p = h->parser;
    if (h->matcher == NULL) return RP_OK;
    if (rp_reply_parser_in_reasoning(p)) {
        memcpy(h->bits, h->reasoning, h->words * sizeof *h->bits);
        return p->n_held > 0 ? forbid_overruns(h, p->n_held, h->bits) : RP_OK;
    }
    RP_TRY(rp_matcher_mask(h->matcher, h->bits));
    const int k = h->matcher == h->matchers[1];
    for (int i = 0; i < h->n_others[k]; i++) rp_hold_forbid(h->bits, h->others[k][i]);
    return RP_OK;
}

RpStatus rp_hold_token(Hold *h, int32_t token, bool reasoning, bool *done) {
    *done = false;
    if (h->matcher == NULL) return RP_OK;
    const bool now = rp_reply_parser_in_reasoning(h->parser);
    if (!reasoning) {
        RP_TRY(rp_matcher_accept(h->matcher, token));
    } else if (!now) { /* the answer begins, perhaps with line ends of this token */
        RpGgufString s    = {"", 0};
        size_t       rest = 0;
        h->matcher        = h->matchers[1];
        rp_matcher_reset(h->matcher);
        if (closing_text(h->parser) != NULL) RP_TRY(rp_token_bytes(h->tk, token, false, &s));
        while (rest < s.len && s.ptr[s.len - 1 - rest] == '\n') rest++;
        if (rest > 0) RP_TRY(rp_matcher_accept_text(h->matcher, s.ptr + s.len - rest, rest));
    }
    *done = !now && rp_matcher_finished(h->matcher);
    return RP_OK;
}
