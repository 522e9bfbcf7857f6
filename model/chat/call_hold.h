/* call_hold.h - calls that the model begins by itself. A reply is free text until the mark that opens a call; from
 * there on a grammar holds name and arguments to the tools, up to the end of the block of calls.
 *
 *     free, no mask  -> opening mark -> matcher, a mask for each token -> end of the block -> free
 *     bare JSON      -> {"name": "f" -> the same, once f is one of the tools
 *
 * A call stays free if the grammar does not accept the text after the mark in the same token, or beyond a limit of
 * grammars. */
#ifndef MODEL_CHAT_CALL_HOLD_H
#define MODEL_CHAT_CALL_HOLD_H

#include "model/chat/hold.h"

/* A grammar for each kind of begin, made when it is needed. */
typedef struct CallGrammar {
    bool       tried;
    RpGrammar *grammar; /* NULL: none could be made */
    RpMatcher *matcher;
    int32_t    others[N_MARKS]; /* marks that the grammar does not have */
    int        n_others;
} CallGrammar;

/* Zero-initialise it. Without `request` nothing is held. */
typedef struct CallHold {
    const RpReplyParser  *parser;
    const RpTokenizer    *tk;
    const Json           *request;
    const JsonNode       *tools;
    RpSampler            *sampler;
    const RpGrammarVocab *vocab;
    RpGrammarVocab       *own;
    CallGrammar           grammars[N_MARKS + 1]; /* by what opened the calls */
    CallGrammar          *now;                   /* holds the next token; NULL: it is free */
    int32_t               n_opened;              /* blocks of calls that have been seen */
    bool                  bare;                  /* a call without a mark, whose name is not known yet */
    uint32_t             *bits;
    size_t                words;
    char                  why[256]; /* the calls cannot be held; "": they can */
} CallHold;

/* For a request whose tool_choice is "auto"; does nothing for other ones. Makes the usual grammar. `vocab` may be NULL:
 * it is then made with the first call. Close it also after a failure. */
RP_NODISCARD RpStatus rp_call_hold_open(CallHold *h, const RpReplyParser *p, const RpTokenizer *tk, const Json *request,
                                        const RpGrammarVocab *vocab, RpSampler *sampler);
void                  rp_call_hold_close(CallHold *h);

/* The parser has taken a token: sets the mask of the next one, or removes it. */
RP_NODISCARD RpStatus rp_call_hold_token(CallHold *h, int32_t token);

#endif
