/* grammar.h - structured output: a grammar defines the texts that a reply may be, and a matcher says for each token
 * whether the reply can still become one of them if it continues with this token. Grammars are made from a JSON Schema,
 * a regular expression, a GBNF grammar or a list of texts.
 *
 *   RpGrammar *g;  RpGrammarVocab *v;  RpMatcher *m;
 *   RP_TRY(rp_grammar_json_schema(schema, strlen(schema), 0, &g));
 *   RP_TRY(rp_grammar_vocab_new(tokenizer, &v));           // once for each model
 *   RP_TRY(rp_matcher_new(g, v, &m));                      // once for each sequence
 *   RP_TRY(rp_matcher_mask(m, bits));                      // for each token
 *   rp_sampler_set_mask(sampler, bits);
 *   RP_TRY(rp_sampler_sample(sampler, logits, &token));
 *   RP_TRY(rp_matcher_accept(m, token));
 *
 * rp_generate does the last four with RpGenerateOptions.matcher (session.h). docs/structured-output.md has the
 * supported keywords and syntax.
 *
 * A grammar and a vocabulary may be used by several threads; a matcher by one at a time. The automata of a grammar grow
 * while it is used: its matchers share them and take turns.
 */
#ifndef REPRISE_GRAMMAR_H
#define REPRISE_GRAMMAR_H

#include "reprise/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RpGrammar      RpGrammar;
typedef struct RpGrammarVocab RpGrammarVocab;
typedef struct RpMatcher      RpMatcher;

enum {
    RP_GRAMMAR_WEAKEN    = 1 << 0, /* a keyword that cannot be kept is dropped with a note, not refused */
    RP_GRAMMAR_COMPACT   = 1 << 1, /* JSON without whitespace; else one space, or a line end and at most 40 spaces or
                                    tabs, where JSON allows whitespace */
    RP_GRAMMAR_ANY_ORDER = 1 << 2 /* members of objects in any order. An object of more than 6 listed members may repeat
                                     its optional ones; one with more than 6 required ones, or a number of members,
                                     keeps its order */
};

/* Texts that are JSON (RFC 8259) and satisfy a JSON Schema (draft 2020-12 or 7) of n bytes. Members come in the order
 * of `properties`, then those that only `required`, `patternProperties` or `additionalProperties` name.
 *   flags  RP_GRAMMAR_WEAKEN, RP_GRAMMAR_COMPACT, RP_GRAMMAR_ANY_ORDER
 * RP_E_FORMAT for what is no JSON or no schema, with the place; RP_E_UNSUPPORTED, with the keyword and its place, for
 * what cannot be kept; RP_E_ARG for a schema that no text satisfies; RP_E_NOMEM. The caller frees *out, here and below;
 * after a failure it is NULL. */
RP_API RP_NODISCARD RpStatus rp_grammar_json_schema(const char *schema, size_t n, unsigned flags, RpGrammar **out);

/* Any JSON object: what "JSON mode" means. flags: RP_GRAMMAR_COMPACT. */
RP_API RP_NODISCARD RpStatus rp_grammar_json(unsigned flags, RpGrammar **out);

/* A grammar in GBNF, the format of llama.cpp; it begins with the rule "root". Left recursion is allowed. RP_E_FORMAT
 * names line and column. */
RP_API RP_NODISCARD RpStatus rp_grammar_gbnf(const char *text, size_t n, RpGrammar **out);

/* Texts that match a regular expression of ECMAScript as a whole. RP_E_UNSUPPORTED for back references, \b, \p{} and
 * look-behind; RP_E_FORMAT names the byte. */
RP_API RP_NODISCARD RpStatus rp_grammar_regex(const char *pattern, size_t n, RpGrammar **out);

/* One of n >= 1 texts, which may contain NULs. */
RP_API RP_NODISCARD RpStatus rp_grammar_choices(const RpGgufString *texts, size_t n, RpGrammar **out);

/* A part of rp_grammar_parts. Alternatives stand between OPEN and CLOSE, separated by OR; an empty one is allowed, but
 * not in a group that repeats. */
typedef enum RpGrammarPartKind {
    RP_PART_TEXT,   /* n bytes of text */
    RP_PART_TOKEN,  /* the token `token`; other tokens with the same text do not match */
    RP_PART_SCHEMA, /* JSON by the JSON Schema that `text` is; `flags` as of rp_grammar_json_schema */
    RP_PART_REGEX,  /* as rp_grammar_regex */
    RP_PART_OPEN,
    RP_PART_OR,
    RP_PART_CLOSE,
    RP_PART_REPEAT, /* closes a group as CLOSE does; its content comes once or several times, and between two of them a
                       text of the regular expression `text`. n is 0: nothing is between them */
    RP_PART_GBNF    /* as rp_grammar_gbnf */
} RpGrammarPartKind;

typedef struct RpGrammarPart {
    RpGrammarPartKind kind;
    const char       *text; /* n bytes, borrowed for the call */
    size_t            n;
    int32_t           token;
    unsigned          flags;
} RpGrammarPart;

/* A sequence of parts, for frames around JSON such as <tool_call>{"name": "f", "arguments": {...}}</tool_call>. A token
 * that the parts name never counts as text, and may be one without bytes or one that ends a reply. No text has the byte
 * 0xff. Errors as of the parts; RP_E_ARG for groups that are not closed, or a token below 0. */
RP_API RP_NODISCARD RpStatus rp_grammar_parts(const RpGrammarPart *parts, size_t n, RpGrammar **out);

RP_API void rp_grammar_free(RpGrammar *g); /* NULL is allowed */

/* What RP_GRAMMAR_WEAKEN dropped, one text for each keyword. "" beyond the last. Owned by the grammar. */
RP_API size_t      rp_grammar_n_notes(const RpGrammar *g);
RP_API const char *rp_grammar_note_at(const RpGrammar *g, size_t i);

/* The tokens of a tokenizer as a trie of bytes. Copies what it needs for masks; rp_matcher_forced uses the tokenizer,
 * which must outlive the vocabulary. The caller frees *out. RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus rp_grammar_vocab_new(const RpTokenizer *tk, RpGrammarVocab **out);

/* The same from arrays: the bytes of n tokens, and the ids that end a reply. A token without bytes is never allowed
 * unless it is an end token. */
RP_API RP_NODISCARD RpStatus rp_grammar_vocab_of(const RpGgufString *tokens, size_t n, const int32_t *end, size_t n_end,
                                                 RpGrammarVocab **out);
RP_API void                  rp_grammar_vocab_free(RpGrammarVocab *v); /* NULL is allowed */
RP_API int32_t               rp_grammar_vocab_size(const RpGrammarVocab *v);

/* A matcher at the beginning of a text. Borrows both, which must outlive it. The caller frees *out. RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus rp_matcher_new(const RpGrammar *g, const RpGrammarVocab *v, RpMatcher **out);
RP_API void                  rp_matcher_free(RpMatcher *m); /* NULL is allowed */

RP_API int32_t rp_matcher_n_vocab(const RpMatcher *m);

/* A matcher in the same state, which goes on by itself. */
RP_API RP_NODISCARD RpStatus rp_matcher_copy(const RpMatcher *m, RpMatcher **out);

/* Back to the beginning of a text. */
RP_API void rp_matcher_reset(RpMatcher *m);

/* Sets bit i % 32 of bits[i / 32] if token i may come next; (n_vocab + 31) / 32 words. End tokens are allowed where the
 * text is complete. After an end token no token is allowed. RP_E_UNSUPPORTED beyond the limits of steps, states and
 * depth; RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus rp_matcher_mask(RpMatcher *m, uint32_t *bits);

/* Appends a token. RP_E_ARG if it is not allowed: nothing has changed then. Other errors as rp_matcher_mask. */
RP_API RP_NODISCARD RpStatus rp_matcher_accept(RpMatcher *m, int32_t token);

/* Appends n bytes of text, which is one step of rp_matcher_rollback. Errors as rp_matcher_accept. */
RP_API RP_NODISCARD RpStatus rp_matcher_accept_text(RpMatcher *m, const char *text, size_t n);

/* Takes the last n tokens back. RP_E_ARG if there are fewer. */
RP_API RP_NODISCARD RpStatus rp_matcher_rollback(RpMatcher *m, size_t n);

/* Appends to `out` the tokens of the forced text, if only one text can come next. They are the tokens that the
 * tokenizer gives for it, as far as no token could reach beyond the end of that text. Appends none if no text is
 * forced. The matcher does not change: accept each of the tokens. */
RP_API RP_NODISCARD RpStatus rp_matcher_forced(RpMatcher *m, RpTokenList *out);

/* True if the text so far is complete; it may be the beginning of a longer one. */
RP_API bool rp_matcher_complete(const RpMatcher *m);

/* True if nothing can follow: the text is complete and only end tokens are allowed, or an end token was accepted. */
RP_API bool rp_matcher_finished(const RpMatcher *m);

#ifdef __cplusplus
}
#endif
#endif
