/* matcher.h - a place in a text: the lexemes that may be under way, each with the row in which it began.
 *
 *     threads  [i]: row, state of the lexer
 *     places   [k]: after k tokens; the threads of each are a range of one array, so going back cuts it */
#ifndef GRAMMAR_MATCHER_H
#define GRAMMAR_MATCHER_H

#include "grammar/rows.h"
#include "grammar/vocab.h"

typedef struct Thread {
    uint32_t row, state;
} Thread;

typedef struct Place {
    size_t   threads;
    uint32_t n_threads;
    bool     complete, ended; /* ended: by an end token */
} Place;

/* The threads of a walk. The threads of depth d begin at first[d]. */
typedef struct Walk {
    Thread *threads;
    size_t  room;
    size_t  first[MAX_TOKEN_BYTES + 2];
} Walk;

struct RpMatcher {
    RpGrammar            *g;
    const RpGrammarVocab *v;
    Rows                  rows;
    Thread               *threads;
    size_t                n_threads, thread_room;
    Place                *places;
    size_t                n_places, place_room;
    RowEnd               *ends; /* scratch of a step */
    size_t                end_room;
    Walk                  walk;
    char                 *text; /* scratch of rp_matcher_forced */
    size_t                text_room;
    int32_t              *foreign; /* tokens.h */
    size_t                n_foreign, foreign_room;
};

/* The threads after one byte of those in from[0..n), appended to *to at *n_to, of which *room are there. *complete says
 * whether the text may end. */
RP_NODISCARD RpStatus rp_matcher_step(RpMatcher *m, const Thread *from, size_t n, unsigned char byte, Thread **to,
                                      size_t *n_to, size_t *room, bool *complete);

/* Reads text from the last place into the walk's threads; *alive is false if a byte is not allowed. On success the
 * threads after it are walk.threads[*first..*end). */
RP_NODISCARD RpStatus rp_matcher_read(RpMatcher *m, const char *text, size_t n, bool *alive, bool *complete,
                                      size_t *first, size_t *end);

/* Takes the lock of the grammar and begins to count steps. */
void rp_matcher_lock(const RpMatcher *m);
void rp_matcher_unlock(const RpMatcher *m);

#endif
