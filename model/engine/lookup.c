/* Prompt lookup: text that repeats itself, such as code that is edited, is guessed from its earlier place.
 *
 *     a b c d e f a b c      the end "a b c" stands at 0: guess "d e f a ..."
 *
 * Several places: the one with the longest match, and of these the latest. */
#include "model/engine/engine.h"

#include <string.h>

enum { MIN_MATCH = 3, MAX_MATCH = 16, LOOK_BACK = 1 << 14 };

/* How many tokens before `a` and before `b` are the same, at most MAX_MATCH. */
static int32_t matching(const int32_t *tokens, int32_t a, int32_t b) {
    int32_t n = 0;
    while (n < MAX_MATCH && n < a && tokens[a - 1 - n] == tokens[b - 1 - n]) n++;
    return n;
}

int32_t rp_draft_lookup(const int32_t *tokens, int32_t n_tokens, int32_t n, int32_t *out) {
    const int32_t first = n_tokens > LOOK_BACK ? n_tokens - LOOK_BACK : 1;
    int32_t       best = 0, longest = MIN_MATCH - 1;
    for (int32_t at = n_tokens - 1; at >= first && longest < MAX_MATCH; at--) {
        const int32_t match = matching(tokens, at, n_tokens);
        if (match > longest) longest = match, best = at;
    }
    if (best == 0) return 0;
    const int32_t count = n_tokens - best < n ? n_tokens - best : n;
    memcpy(out, tokens + best, (size_t)count * sizeof *out);
    return count;
}
