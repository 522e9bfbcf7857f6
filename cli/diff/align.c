/* align.c - alignment by dynamic programming, as for longest common subsequences but with scores.
 *
 *   best(i, k) = max(best(i+1, k), best(i, k+1), score(i, k) + best(i+1, k+1) if score(i, k) > 0)
 *
 * best(i, k) is the largest total score of items i.. of the first sequence with items k.. of the second. */
#include "cli/diff/align.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The items between the equal beginnings and the equal ends. */
typedef struct Middle {
    int      first, n_a, n_b; /* items first..first+n_a-1 of a, first..first+n_b-1 of b */
    int32_t *best;            /* best[i][k], (n_a + 1) x (n_b + 1) zeros at first */
} Middle;

/* best(i, k) of the middle; the last row and the last column stay 0. */
static int32_t *cell(const Middle *m, int i, int k) { return &m->best[(size_t)i * ((size_t)m->n_b + 1) + (size_t)k]; }

/* Fills the table from its end, where best is 0, to best(0, 0). */
static void fill(const Middle *m, AlignScore *score, const void *user) {
    for (int i = m->n_a - 1; i >= 0; i--)
        for (int k = m->n_b - 1; k >= 0; k--) {
            const int     s    = score(user, m->first + i, m->first + k);
            const int32_t both = s > 0 ? *cell(m, i + 1, k + 1) + s : 0;
            const int32_t a = *cell(m, i + 1, k), b = *cell(m, i, k + 1);
            const int32_t one = a > b ? a : b;
            *cell(m, i, k)    = both > one ? both : one;
        }
}

/* Walks from (0, 0) along the choices that gave best(0, 0). */
static void follow(const Middle *m, AlignScore *score, const void *user, int *partner) {
    for (int i = 0, k = 0; i < m->n_a && k < m->n_b;) {
        const int s = score(user, m->first + i, m->first + k);
        if (s > 0 && *cell(m, i, k) == *cell(m, i + 1, k + 1) + s)
            partner[m->first + i++] = m->first + k++;
        else if (*cell(m, i, k) == *cell(m, i + 1, k))
            i++;
        else
            k++;
    }
}

RpStatus cli_align(int n_a, int n_b, AlignScore *score, const void *user, int *partner) {
    enum { MAX_CELLS = 1 << 24 };
    int first = 0;
    for (int i = 0; i < n_a; i++) partner[i] = -1;
    for (; first < n_a && first < n_b && score(user, first, first) == ALIGN_SAME; first++) partner[first] = first;
    for (; n_a > first && n_b > first && score(user, n_a - 1, n_b - 1) == ALIGN_SAME; n_a--, n_b--)
        partner[n_a - 1] = n_b - 1;
    Middle       m     = {.first = first, .n_a = n_a - first, .n_b = n_b - first};
    const size_t cells = ((size_t)m.n_a + 1) * ((size_t)m.n_b + 1);
    if (m.n_a == 0 || m.n_b == 0 || cells > MAX_CELLS) return RP_OK;
    m.best = calloc(cells, sizeof *m.best);
    if (m.best == NULL) return rp_fail(RP_E_NOMEM, "out of memory for comparing %d and %d items", n_a, n_b);
    fill(&m, score, user);
    follow(&m, score, user, partner);
    free(m.best);
    return RP_OK;
}
