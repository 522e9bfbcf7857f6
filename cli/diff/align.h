/* align.h - alignment of two sequences: pairs of items that belong together, in the order of both sequences. */
#ifndef CLI_DIFF_ALIGN_H
#define CLI_DIFF_ALIGN_H

#include "reprise/status.h"

enum { ALIGN_SAME = 1 << 10 };

/* Score of pairing item i of the first with item k of the second: 0 never, up to ALIGN_SAME for equal items. */
typedef int AlignScore(const void *user, int i, int k);

/* Sets partner[i] to the k that item i is paired with, or -1. The pairs do not cross and have the largest
 * total score. Equal items at both ends are paired first; if more than 2^24 combinations are left between
 * them, these get no partners. RP_E_NOMEM. */
RP_NODISCARD RpStatus cli_align(int n_a, int n_b, AlignScore *score, const void *user, int *partner);

#endif
