/* Knuth-Morris-Pratt for several strings at once, one state per string. Bytes that could still begin a match
 * are held.
 *
 * Example, stop string "aab" with fallback[] = {0, 0, 1, 0}, input "caaab":
 *     byte        c     a    a     a     b
 *     matched     0     1    2     2     3 = complete
 *     output      "c"               "a"            "aab" is dropped
 * At the third 'a' text[2] is 'b', so matched falls back to fallback[2] = 1 and then advances to 2.
 */
#include "model/text/stop_match.h"

#include <stdlib.h>
#include <string.h>

/* fallback[i]: length of the longest proper prefix of text[0..i) that is also its suffix. */
static RpStatus init_string(StopString *s, const char *text, size_t index) {
    *s = (StopString){.text = text, .len = text != NULL ? strlen(text) : 0};
    if (s->len == 0) return rp_fail(RP_E_ARG, "stop string %zu is empty", index);
    s->fallback = calloc(s->len + 1, sizeof *s->fallback);
    if (s->fallback == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a stop string");
    for (size_t i = 1, k = 0; i < s->len; i++) {
        while (k > 0 && text[i] != text[k]) k = s->fallback[k];
        if (text[i] == text[k]) k++;
        s->fallback[i + 1] = k;
    }
    return RP_OK;
}

RpStatus rp_stop_match_init(StopMatch *m, const char *const *strings, size_t n) {
    *m = (StopMatch){.strings = calloc(n + 1, sizeof *m->strings)};
    if (m->strings == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu stop strings", n);
    for (; m->n < n; m->n++) {
        if (strings[m->n] == NULL) return rp_fail(RP_E_ARG, "stop string %zu is NULL", m->n);
        RP_TRY(init_string(&m->strings[m->n], strings[m->n], m->n));
    }
    m->held = malloc(rp_stop_match_longest(m) + 1);
    if (m->held == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu stop strings", n);
    return RP_OK;
}

void rp_stop_match_free(StopMatch *m) {
    for (size_t i = 0; i < m->n; i++) free(m->strings[i].fallback);
    free(m->strings);
    free(m->held);
    *m = (StopMatch){0};
}

size_t rp_stop_match_longest(const StopMatch *m) {
    size_t longest = 0;
    for (size_t i = 0; i < m->n; i++)
        if (m->strings[i].len > longest) longest = m->strings[i].len;
    return longest;
}

static void advance(StopString *s, char byte) {
    while (s->matched > 0 && s->text[s->matched] != byte) s->matched = s->fallback[s->matched];
    if (s->text[s->matched] == byte) s->matched++;
}

bool rp_stop_match_feed(StopMatch *m, char byte, char *out, size_t *n_out) {
    size_t keep = 0, complete = 0; /* longest partial match, longest match, in bytes */
    m->held[m->n_held++] = byte;
    for (size_t i = 0; i < m->n; i++) {
        StopString *s = &m->strings[i];
        advance(s, byte);
        if (s->matched > keep) keep = s->matched;
        if (s->matched == s->len && s->len > complete) complete = s->len;
    }
    const size_t gone = m->n_held - (complete > 0 ? complete : keep);
    memcpy(out + *n_out, m->held, gone);
    *n_out += gone;
    m->n_held = complete > 0 ? 0 : keep;
    memmove(m->held, m->held + gone, m->n_held);
    return complete > 0;
}
