/* Masks for calls that the model begins by itself (call_hold.h). */
#include "model/chat/call_hold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A failure that leaves the call free. Memory is none. */
static bool only_frees(RpStatus st) { return st != RP_OK && st != RP_E_NOMEM; }

/* Grammar and matcher for what follows `by`; h->grammars[by].matcher stays NULL if there is none. */
static RpStatus make_grammar(CallHold *h, MarkId by) {
    CallGrammar *g = &h->grammars[by];
    Frame        f = {.parser = h->parser, .j = h->request};
    if (g->tried) return RP_OK;
    rp_frame_block(&f, h->tools, by);
    const RpStatus st = rp_hold_grammar(&f, h->tk, &g->grammar, g->others, &g->n_others);
    g->tried          = st != RP_E_NOMEM;
    if (only_frees(st)) snprintf(h->why, sizeof h->why, "calls are not held: %s", rp_last_error());
    return only_frees(st) ? RP_OK : st;
}

static RpStatus make_matcher(CallHold *h, CallGrammar *g) {
    if (g->grammar == NULL || g->matcher != NULL) return RP_OK;
    if (h->vocab == NULL) {
        RP_TRY(rp_grammar_vocab_new(h->tk, &h->own));
        h->vocab = h->own;
    }
    if (h->bits == NULL) RP_TRY(rp_hold_new_mask(h->sampler, h->tk, &h->bits, &h->words));
    return rp_matcher_new(g->grammar, h->vocab, &g->matcher);
}

/* The mark that usually opens a call of the format; N_MARKS: a brace does. */
static MarkId usual(const ReplyFormat *f) {
    return f->syntax == SYNTAX_HARMONY    ? MARK_HEADER
           : f->flags & FORMAT_BARE_JSON  ? N_MARKS
           : f->marks[MARK_CALLS] != NULL ? MARK_CALLS
                                          : MARK_CALL;
}

RpStatus rp_call_hold_open(CallHold *h, const RpReplyParser *p, const RpTokenizer *tk, const Json *request,
                           const RpGrammarVocab *vocab, RpSampler *sampler) {
    const JsonNode *root = &request->nodes[0], *choice = rp_json_get(request, root, "tool_choice");
    const JsonNode *tools   = rp_json_get(request, root, "tools");
    const bool      is_auto = choice == NULL || choice->type == JSON_NULL || rp_json_is(request, choice, "auto");
    if (rp_json_get(request, root, "builtin_tools") != NULL)
        return RP_OK; /* of templates: their calls look otherwise */
    if (!is_auto || tools == NULL || tools->type != JSON_ARRAY || tools->n == 0 || p->format->syntax == SYNTAX_NONE)
        return RP_OK;
    *h = (CallHold){.parser   = p,
                    .tk       = tk,
                    .request  = request,
                    .tools    = tools,
                    .sampler  = sampler,
                    .vocab    = vocab,
                    .n_opened = p->n_opened};
    if (vocab != NULL) RP_TRY(rp_hold_check_vocab(vocab, tk));
    return make_grammar(h, usual(p->format));
}

void rp_call_hold_close(CallHold *h) {
    if (h->now != NULL) rp_sampler_set_mask(h->sampler, NULL);
    for (int i = 0; i <= N_MARKS; i++) {
        rp_matcher_free(h->grammars[i].matcher);
        rp_grammar_free(h->grammars[i].grammar);
    }
    rp_grammar_vocab_free(h->own);
    free(h->bits);
}

/* Between the mark that opened calls and the end of the last one. */
static bool in_calls(const RpReplyParser *p) {
    return p->mode == MODE_HARMONY ? rp_harmony_in_call(p) : p->mode == MODE_CALL || p->mode == MODE_CALLS;
}

/* Begins to hold: the matcher takes the n bytes that the reply already has. */
static RpStatus begin(CallHold *h, MarkId by, const char *text, size_t n) {
    CallGrammar *g = &h->grammars[by];
    RP_TRY(make_grammar(h, by));
    RP_TRY(make_matcher(h, g));
    if (g->matcher == NULL) return RP_OK;
    rp_matcher_reset(g->matcher);
    const RpStatus st = n > 0 ? rp_matcher_accept_text(g->matcher, text, n) : RP_OK;
    if (st == RP_OK) h->now = g;
    return only_frees(st) ? RP_OK : st;
}

/* Calls have opened in this token: its text after the mark is part of them. */
static RpStatus begin_behind_mark(CallHold *h, int32_t token) {
    const RpReplyParser *p      = h->parser;
    const uint64_t       behind = p->n_bytes - p->opened_at;
    RpGgufString         s      = {"", 0};
    if (behind > 0) RP_TRY(rp_token_bytes(h->tk, token, false, &s));
    return behind <= s.len ? begin(h, p->opened_by, s.ptr + s.len - behind, (size_t)behind) : RP_OK;
}

static bool names_a_tool(const CallHold *h) {
    const Call *c = &h->parser->call;
    for (const JsonNode *t = rp_json_first(h->request, h->tools); t != NULL;
         t                 = rp_json_next(h->request, h->tools, t)) {
        const JsonNode    *parameters;
        const RpGgufString name = rp_frame_tool(h->request, t, &parameters);
        if (name.len == c->name.n && memcmp(name.ptr, c->name.p, name.len) == 0) return true;
    }
    return false;
}

/* A text that begins with a brace may be an answer in JSON. It is held once its name is that of a tool. */
static RpStatus begin_bare(CallHold *h) {
    const RpReplyParser *p = h->parser;
    if (!p->call.begun) return RP_OK;
    h->bare = false;
    return names_a_tool(h) ? begin(h, N_MARKS, p->raw.p + p->call_at, p->raw.n - p->call_at) : RP_OK;
}

/* Sets the mask of the next token. If no token is allowed, the call becomes free. */
static RpStatus set_mask(CallHold *h) {
    const CallGrammar *g   = h->now;
    uint32_t           any = 0;
    RpStatus           st  = rp_matcher_mask(g->matcher, h->bits);
    if (st == RP_OK) {
        for (int i = 0; i < g->n_others; i++) rp_hold_forbid(h->bits, g->others[i]);
        for (size_t i = 0; i < h->words; i++) any |= h->bits[i];
    }
    if (any == 0) h->now = NULL;
    rp_sampler_set_mask(h->sampler, any != 0 ? h->bits : NULL);
    return only_frees(st) ? RP_OK : st;
}

RpStatus rp_call_hold_token(CallHold *h, int32_t token) {
    const RpReplyParser *p = h->parser;
    if (h->request == NULL) return RP_OK;
    const bool was = h->now != NULL;
    if (h->now != NULL) {
        const RpStatus st = rp_matcher_accept(h->now->matcher, token);
        if (st == RP_E_NOMEM) return st;
        if (st != RP_OK) h->now = NULL; /* not sampled with the mask */
    }
    if (p->n_opened != h->n_opened || !in_calls(p)) h->now = NULL, h->bare = false;
    if (p->n_opened != h->n_opened) {
        h->n_opened = p->n_opened;
        h->bare     = p->opened_by == N_MARKS;
        if (in_calls(p) && !h->bare) RP_TRY(begin_behind_mark(h, token));
    }
    if (h->bare && in_calls(p)) RP_TRY(begin_bare(h));
    if (h->now != NULL) return set_mask(h);
    if (was) rp_sampler_set_mask(h->sampler, NULL);
    return RP_OK;
}
