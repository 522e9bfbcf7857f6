/* code_cache.h - compiled kernels on the disk, in XDG_CACHE_HOME/reprise or ~/.cache/reprise. A cache that is missing,
 * unwritable or corrupt costs time only: callers compile, and report the reason (I10).
 *
 *     entry  <128-bit hash of the key, hex>.code
 *
 *     EntryHeader (64 bytes) | cubin | PTX | symbol | key
 *
 * The measured constants of a device (tune.c) are stored as an entry too, instead of the PTX and without a cubin.
 *
 * The hash chooses the file's name and nothing else. The entry holds its whole key, which is compared, so two keys with
 * one hash are a miss and never wrong code. The checksum finds damage. It is no defence against an attacker, who could
 * compute it: files and folders that other users can write to are not read. */
#ifndef EXECUTOR_CUDA_CODE_CACHE_H
#define EXECUTOR_CUDA_CODE_CACHE_H

#include "executor/cuda/nvrtc.h"

#include <limits.h>

typedef struct CodeCache {
    char   folder[PATH_MAX];
    int    fd; /* of the folder: entries are opened in it, whatever its path names later */
    size_t limit;
} CodeCache;

/* Finds the folder and creates it if it is missing; it may not be a symbolic link. RP_E_NOT_AVAILABLE without a home or
 * if REPRISE_CODE_CACHE_MB is 0, RP_E_ARG, RP_E_IO; the text names the folder. Closed by rp_code_cache_close, if
 * RP_OK. */
RP_NODISCARD RpStatus rp_code_cache_open(CodeCache *c);
void                  rp_code_cache_close(CodeCache *c);

/* The time of a file is that of its last use. *found is false, with RP_OK, if there is no entry. The caller frees *out.
 * RP_E_FORMAT for a corrupt entry, RP_E_IO, RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_code_cache_read(const CodeCache *c, const char *key, size_t key_bytes, CudaBinary *out,
                                         bool *found);

/* Writes an entry as a whole: other processes see the old one or the new one. If all entries are then larger than
 * REPRISE_CODE_CACHE_MB, those that were not used for the longest time are removed. RP_E_IO, RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_code_cache_write(const CodeCache *c, const char *key, size_t key_bytes, const CudaBinary *b);

#endif
