/* align.h - which items of two sequences belong together, both kept in order. */
#ifndef CLI_ALIGN_H
#define CLI_ALIGN_H

#include "reprise/status.h"

enum { ALIGN_SAME = 1 << 10 };

/* How well item i of one goes with item k of the other: 0 not at all, up to ALIGN_SAME. */
typedef int AlignScore(const void *user, int i, int k);

/* partner[i] becomes the k of item i, or -1, so that the scores add up to most and no two pairs cross. Sequences
 * too long for it (16 M pairs between what begins and ends alike) are left without partners there. RP_E_NOMEM. */
RP_NODISCARD RpStatus cli_align(int n_a, int n_b, AlignScore *score, const void *user, int *partner);

#endif
