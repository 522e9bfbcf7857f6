/* temporary.h - temporary files of new files (reprise/file.h), in the folder of their target:
 *
 *     .reprise-<target>-<random>          target: a hash of the target's name, random: a random number, both of 16
 *                                         hexadecimal digits
 *     .reprise-<target>-<random>.<more>   further files of the same writer
 *
 * The writer holds a lock (flock) on the first file. The kernel releases it when the process ends, however it ends, so
 * the next writer of the target tells by it which files are left over. No process id is stored: such a number is
 * reused, and means nothing on another machine. */
#ifndef BASE_FILES_TEMPORARY_H
#define BASE_FILES_TEMPORARY_H

#include "reprise/status.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Creates the file with mode 0600, opens it for reading and writing and locks it. The caller frees *name. `path` names
 * the target in errors: RP_E_IO, RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_temporary_create(const char *path, const char *target, char **name, int *fd);

/* Removes the temporary files of the target whose writers have ended, and returns their number. Their paths go to
 * `names`, with ", " between them, as far as names_bytes allow. Files of other users stay, and those of a file system
 * without locks. */
int32_t rp_temporary_clean(const char *target, char *names, size_t names_bytes);

/* Permissions of a new file: 0666 less the umask. The umask is read from /proc, since umask(2) would set it for a
 * moment, for all threads. 0600 if it cannot be read. */
mode_t rp_temporary_mode(void);

/* A file that is needed for a while, at `path` beside a target. The functions of the library write and open it by
 * path. */
typedef struct Scratch {
    char *path, *first; /* first: the writer's own file, locked */
    int   fd;
} Scratch;

/* Chooses the path, which ends with `.<more>`, and removes what killed writers of the target left. rp_scratch_close
 * follows in any case. */
RP_NODISCARD RpStatus rp_scratch_open(const char *target, const char *more, Scratch *s);

/* Removes the file, if there is one. */
void rp_scratch_close(Scratch *s);

#endif
