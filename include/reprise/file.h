/* file.h - write a file as a whole, and checksums of files. Until a new file is closed nothing appears under its name,
 * and an old file stays there: a process that is killed at any moment leaves the old file or the complete new one, and
 * perhaps the temporary file.
 *
 *   RpNewFile *file;
 *   RP_TRY(rp_new_file_open("graph.json", &file));
 *   fprintf(rp_new_file_stream(file), "{}\n");
 *   RP_TRY(rp_new_file_close(file, RP_OK));          // or the failure: then the old file stays
 */
#ifndef REPRISE_FILE_H
#define REPRISE_FILE_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RpNewFile RpNewFile;

/* Creates a temporary file ".reprise-<hash of the name>-<random>" in the folder of `path`, which is copied. It is
 * always a new file: no link is followed, and two writers of one path write different files; the last one to close
 * wins. If `path` is a link, the file that it leads to is replaced. Other users cannot read the temporary file. When it
 * is complete it gets the permissions of the file that it replaces, or else those of the umask (0600 if /proc does not
 * tell the umask). Removes the temporary files that earlier writers of `path` left (rp_new_file_clean). Devices, pipes
 * and terminals are opened as they are and written in place. The caller closes *out; on failure it is NULL. RP_E_ARG
 * for a folder or a link that leads nowhere, RP_E_IO names the path, RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus rp_new_file_open(const char *path, RpNewFile **out);

/* Removes the temporary files of `path` whose writers were killed, and returns their number. `names` gets their paths
 * with ", " between them, cut to names_bytes; it may be NULL. Files of a living writer stay: it holds a lock (flock).
 * Files of other users stay too, and so do files that cannot be removed or whose file system has no locks. Returns 0
 * for NULL. */
RP_API int32_t rp_new_file_clean(const char *path, char *names, size_t names_bytes);

/* Owned by `file`; write to it, and do not close it. */
RP_API FILE *rp_new_file_stream(RpNewFile *file);

/* The path of the temporary file, owned by `file`; "" if it is written in place. The program may write further files
 * that it needs until the close, to this path followed by '.' and any text, and removes them before it closes `file`.
 * If the program is killed, these files are removed together with its temporary file. */
RP_API const char *rp_new_file_temporary(const RpNewFile *file);

/* True if `path` was no regular file, so that it is written in place. */
RP_API bool rp_new_file_in_place(const RpNewFile *file);

/* With `status` RP_OK: writes everything to the disk (fsync), renames the file to its name and frees `file`. With a
 * failure: removes the temporary file and returns that failure. RP_E_IO, with the path and the cause, if anything
 * could not be written, also if `status` is RP_E_IO for that reason; the old file stays. RP_OK for NULL and RP_OK. */
RP_API RP_NODISCARD RpStatus rp_new_file_close(RpNewFile *file, RpStatus status);

/* ---- checksums ---- */

/* XXH64 with seed 0 of n bytes (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md), as `xxhsum -H64` computes it.
 * It finds damage and tells contents apart; it does not withstand an attacker. NULL counts as no bytes. */
RP_API uint64_t rp_xxh64(const void *p, size_t n);

/* XXH64 of all bytes of a file, and their number. Of a folder: of the name of each regular file with its NUL and then
 * its bytes, in the order of the names as bytes; files whose names begin with a dot and folders are left out, and
 * *bytes is the sum of the files. Of the first part of a split GGUF file (NAME-00001-of-00003.gguf): of the bytes of
 * all parts, one after the other. The whole is read, in pieces. RP_E_IO names the path and the cause; RP_E_ARG for a
 * path that is neither; RP_E_NOMEM. Both are 0 after a failure. */
RP_API RP_NODISCARD RpStatus rp_path_xxh64(const char *path, uint64_t *hash, uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
