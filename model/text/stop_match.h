/* stop_match.h - searches a stream of bytes for several strings, one byte at a time. */
#ifndef MODEL_STOP_MATCH_H
#define MODEL_STOP_MATCH_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stddef.h>

/* One string and its Knuth-Morris-Pratt state. */
typedef struct StopString {
    const char *text;         /* borrowed */
    size_t      len, matched; /* matched: the stream ends with text[0..matched) */
    size_t     *fallback;     /* [len + 1]: how many bytes still match when i did and the next does not */
} StopString;

typedef struct StopMatch {
    StopString *strings;
    size_t      n;
    char       *held; /* [n_held]: the end of the stream, which may be the beginning of a match */
    size_t      n_held;
} StopMatch;

/* RP_E_ARG for an empty string. The strings are borrowed. Call rp_stop_match_free also after a failure. */
RP_NODISCARD RpStatus rp_stop_match_init(StopMatch *m, const char *const *strings, size_t n);
void                  rp_stop_match_free(StopMatch *m);

/* Takes one byte. Appends to out, at *n_out, the bytes that can no longer belong to a match: at most one more
 * than were held. Returns true when a string is complete: its bytes are dropped, and the matcher must not be
 * fed again. The longest counts where several are complete at the same byte. */
bool rp_stop_match_feed(StopMatch *m, char byte, char *out, size_t *n_out);

/* Bytes of the longest string, which bounds what is held. */
size_t rp_stop_match_longest(const StopMatch *m);

#endif
