/* lock.h - one writer of a checkpoint. The lock is on the path, not on the file, which every checkpoint replaces. It
 * leaves no file behind, and ends with the process that holds it. */
#ifndef TRAIN_LOCK_H
#define TRAIN_LOCK_H

#include "reprise/status.h"

#include <stdbool.h>

typedef struct TrainLock TrainLock;

/* Fails at once with RP_E_STATE, which names the process, if another trainer of this process or of another one of this
 * machine holds it. RP_E_IO for a folder that cannot be opened or locked; RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_train_lock(const char *path, TrainLock **out);
void                  rp_train_unlock(TrainLock *lock); /* NULL is allowed */

/* Whether it is on this path; false for NULL. RP_E_IO, RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_train_lock_is_of(const TrainLock *lock, const char *path, bool *is);

#endif
