/* new_file.h - what only the library does with new files (reprise/file.h). */
#ifndef BASE_FILES_NEW_FILE_H
#define BASE_FILES_NEW_FILE_H

#include "reprise/file.h"

/* When the new file gets its name, the file that stood there stays as "<path><suffix>" and replaces what stood there.
 * If `path` is a link, both names are in the folder of the file that it leads to. At each moment `path` is the old or
 * the new file, whole. Without an old file nothing happens. The old file gets the name as a hard link; where the file
 * system has none, it is copied. A failure of it is one of rp_new_file_close: then `path` is the old file.
 * RP_E_ARG for a file that is written in place, and for a suffix that is empty or has a '/'. RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_new_file_keep(RpNewFile *f, const char *suffix);

#endif
