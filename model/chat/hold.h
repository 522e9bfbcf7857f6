/* hold.h - a reply that a grammar holds: to a call of a tool, to an answer of some form, or to one of them. Reasoning
 * stays free.
 *
 *     request, marks of the format -> parts (frames.c) -> grammar, matcher -> a mask for each token (hold.c) */
#ifndef MODEL_CHAT_HOLD_H
#define MODEL_CHAT_HOLD_H

#include "model/chat/parser.h"
#include "model/chat/request.h"
#include "reprise/grammar.h"
#include "reprise/sampler.h"

/* The parts of a grammar in the making; zero-initialise it. `status` is the first error. */
typedef struct Frame {
    const RpReplyParser *parser;
    const Json          *j;
    RpGrammarPart       *parts;
    char               **owned; /* texts of parts */
    size_t               n, room, n_owned, owned_room;
    bool                 loose; /* white space and spellings as the models have them; else one spelling */
    RpStatus             status;
} Frame;

/* The constraints of a request on its reply. */
typedef struct Demand {
    bool              calls; /* a call may come */
    bool              must;  /* nothing else */
    RpGgufString      name;  /* of this tool, or "" for any */
    const JsonNode   *tools;
    JsonOut           answer;      /* schema, GBNF or expression of the answer; p is NULL: there is none */
    RpGrammarPartKind answer_kind; /* which of them */
} Demand;

void rp_frame_reply(Frame *f, const Demand *d, bool reasoning); /* reasoning: may stand in front */

/* frame_calls.c: one call of a tool, with its marks; not of harmony. Then name and parameters alone, of formats that
 * are neither JSON nor harmony; `mark`: with MARK_NAME. */
void rp_frame_call(Frame *f, const JsonNode *tool);
void rp_frame_function(Frame *f, const JsonNode *tool, bool mark);
void rp_frame_call_id(Frame *f); /* MARK_ID and an id, or nothing */

/* frame_blocks.c: what follows the mark that opened calls of some of the tools, and any text behind the last one. `by`:
 * the mark, N_MARKS for a call that begins with a brace (which is not followed but given again), MARK_HEADER for the
 * text "to=" of harmony. */
void rp_frame_block(Frame *f, const JsonNode *tools, MarkId by);

#define FRAME_GAP "( |(\\r?\\n){1,2}[ \\t]{0,16})?"

/* frame_parts.c: pieces for all three. */
void         rp_frame_put(Frame *f, RpGrammarPartKind kind, const char *text);
void         rp_frame_bytes(Frame *f, RpGgufString text);
void         rp_frame_mark(Frame *f, MarkId m);
void         rp_frame_own(Frame *f, RpGrammarPartKind kind, JsonOut text); /* takes the text */
void         rp_frame_schema(Frame *f, const JsonNode *parameters);
RpGgufString rp_frame_tool(const Json *j, const JsonNode *tool, const JsonNode **parameters);
void         rp_frame_free(Frame *f);

/* The grammar of a frame, and the marks that are tokens of their own and in no part of it. Frees the frame, also after
 * a failure. The caller frees *grammar. Errors of the frame and of rp_grammar_parts. */
RP_NODISCARD RpStatus rp_hold_grammar(Frame *f, const RpTokenizer *tk, RpGrammar **grammar, int32_t others[N_MARKS],
                                      int *n_others);

/* RP_E_ARG: the vocabulary has another number of tokens than the tokenizer. */
RP_NODISCARD RpStatus rp_hold_check_vocab(const RpGrammarVocab *vocab, const RpTokenizer *tk);

/* A mask of zeros for all tokens of the sampler and of the tokenizer. The caller frees *bits. RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_hold_new_mask(const RpSampler *sampler, const RpTokenizer *tk, uint32_t **bits, size_t *words);

static inline void rp_hold_forbid(uint32_t *bits, int32_t id) { bits[id / 32] &= ~(1u << (id % 32)); }

/* Zero-initialise it. Without a demand `matcher` is NULL, and nothing is held. */
typedef struct Hold {
    const RpReplyParser *parser;
    const RpTokenizer   *tk;
    RpSampler           *sampler;
    RpGrammar           *grammars[2];           /* with reasoning in front, and without */
    RpGrammarVocab      *own;                   /* made for this reply */
    RpMatcher           *matchers[2], *matcher; /* matcher: one of them, NULL: nothing is held */
    uint32_t            *bits, *reasoning;      /* masks: of the next token; of the reasoning */
    int32_t              others[2][N_MARKS];    /* marks that the grammar does not have */
    int                  n_others[2];
    size_t               words;
} Hold;

/* `vocab` may be NULL. Close it also after a failure. */
RP_NODISCARD RpStatus rp_hold_open(Hold *h, const RpReplyParser *p, const RpTokenizer *tk, const Json *request,
                                   const RpGrammarVocab *vocab, RpSampler *sampler);
void                  rp_hold_close(Hold *h);

/* The prompt has the begin of the answer. RP_E_ARG if no answer begins so. */
RP_NODISCARD RpStatus rp_hold_begun(Hold *h, RpGgufString answer);

/* Sets the mask of the next token. */
RP_NODISCARD RpStatus rp_hold_mask(Hold *h);

/* The parser has taken a token; `reasoning`: it was in the reasoning before. *done: nothing can follow. */
RP_NODISCARD RpStatus rp_hold_token(Hold *h, int32_t token, bool reasoning, bool *done);

#endif
