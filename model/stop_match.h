/* stop_match.h - several strings looked for in a stream of bytes, one byte at a time. */
#ifndef MODEL_STOP_MATCH_H
#define MODEL_STOP_MATCH_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stddef.h>

/* One string, its Knuth-Morris-Pratt table (fallback[i]: how many bytes of the string still match after i did
 * and the next did not) and how much of it stands at the end of the stream. */
typedef struct StopString {
    const char *text; /* borrowed */
    size_t      len, matched;
    size_t     *fallback;
} StopString;

typedef struct StopMatch {
    StopString *strings;
    size_t      n;
    char       *held; /* the end of the stream that may be the beginning of a match */
    size_t      n_held;
} StopMatch;

/* RP_E_ARG for an empty string. Free it also after a failure. */
RP_NODISCARD RpStatus rp_stop_match_init(StopMatch *m, const char *const *strings, size_t n);
void                  rp_stop_match_free(StopMatch *m);

/* Takes one byte. Appends to out, at *n_out, what can no longer be a part of a match: at most one byte more
 * than was held. True when a string is complete: it is dropped, and so is the matcher's use. Of strings that
 * are complete at the same byte the longest counts. */
bool rp_stop_match_feed(StopMatch *m, char byte, char *out, size_t *n_out);

/* The longest of the strings: nothing longer is ever held. */
size_t rp_stop_match_longest(const StopMatch *m);

#endif
