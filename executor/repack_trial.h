/* repack_trial.h - whether repacked weights are faster on this CPU, by a measurement ("auto" of REPRISE_REPACK). */
#ifndef EXECUTOR_REPACK_TRIAL_H
#define EXECUTOR_REPACK_TRIAL_H

#include "reprise/kernel.h"

/* Whether a repacked copy gains for weights of the type of w, which rp_can_repack. It is measured with slices of w,
 * once in a process for each type and instruction set; this takes some milliseconds. A stack of matrices with gaps
 * between them does not gain. */
RP_NODISCARD RpStatus rp_repack_try(const RpTensorView *w, bool *gains);

enum { RP_REPACK_FILE_1, RP_REPACK_COPY_1, RP_REPACK_FILE_4, RP_REPACK_COPY_4, RP_REPACK_TIMES };

/* The rule, by seconds[round * RP_REPACK_TIMES + which] of products of the same rows, in the file and in the copy, with
 * 1 and 4 columns: the product of both gains is at least 1.05, and with 1 column the copy has at least 0.6 times the
 * speed of the file. One column waits for memory in both, and its gain was 0.71 to 2.3 in runs on one machine; the
 * gain of 4 columns was 1.25 to 2.7, and the product of both was at least 1.12. So noise does not change the
 * choice. `rounds` is 1 to RP_REPACK_MAX_ROUNDS; gains are medians of ratios within a round. */
enum { RP_REPACK_MAX_ROUNDS = 9 };
bool rp_repack_gains(const double *seconds, int rounds);

#endif
