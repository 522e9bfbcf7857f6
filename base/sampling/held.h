/* held.h - tokens of a reply whose mask is made while the device computes their logits (executor/reply.c), and other
 * work of the host during a run. An interface between executors, sessions and engines; not part of the API.
 *
 *     host     launch   prepare: mask          copy, sampler              token
 *     device   [ the steps before the sampler ][ mask ][ sampler ][ token ]
 */
#ifndef BASE_SAMPLING_HELD_H
#define BASE_SAMPLING_HELD_H

#include "reprise/executor.h"

/* Runs while the device computes. Writes an RpSampleExtra and, if its `masked` is set, the bits behind it, and sets
 * *n_words to the words written. 0: nothing is sampled, the caller has the token. A failure ends the reply once the
 * device is idle. */
typedef RpStatus RpHeldPrepare(void *user, int32_t *extra, size_t *n_words);

enum { RP_HELD_NOT_SAMPLED = -2 };

/* As rp_executor_reply_begin, for tokens that rp_executor_held_next fetches. The device runs one at a time. For GPUs,
 * and plans that end in `sample` with its source `extra`. */
RP_NODISCARD RpStatus rp_executor_held_begin(RpExecutor *e, const RpReplyOptions *o);

/* As rp_executor_reply_next. *token is RP_HELD_NOT_SAMPLED if `prepare` wanted none: the steps before the sampler have
 * run, and the reply has ended. */
RP_NODISCARD RpStatus rp_executor_held_next(RpExecutor *e, RpHeldPrepare *prepare, void *user, int32_t *token);

/* rp_executor_run. On a GPU `meanwhile`, unless it is NULL, is called once the run has been launched; elsewhere it is
 * not called. */
RP_NODISCARD RpStatus rp_executor_run_while(RpExecutor *e, void (*meanwhile)(void *user), void *user);

#endif
