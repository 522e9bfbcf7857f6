/* text_files.h - files that a command reads or writes as a whole; "-" is standard input or output. */
#ifndef CLI_TEXT_FILES_H
#define CLI_TEXT_FILES_H

#include "reprise/file.h"

#include <stddef.h>
#include <stdio.h>

typedef struct Text {
    char  *bytes; /* malloc; NUL-terminated, but may contain NUL bytes */
    size_t n;
} Text;

/* Gives a copy of `text`, or the contents of the file at `path`; one of the two is NULL. "-" is standard input for
 * both. After a failure there is nothing to free. */
RP_NODISCARD RpStatus cli_read_text(const char *text, const char *path, Text *out);

/* Removes temporary files of an output that killed runs have left, and says so. */
void cli_clean_output(const char *path);

/* The file of -o, which is written as a whole (reprise/file.h); for NULL and "-" *out is stdout and *file is NULL.
 * Closing returns `written`, the status of the writing, or RP_E_IO if the file could not be written; errors of stdout
 * are left to cli_close_stdout. */
RP_NODISCARD RpStatus cli_open_output(const char *path, RpNewFile **file, FILE **out);

/* Whether a file that is written at the end can be created there. Devices and pipes are not opened. */
RP_NODISCARD RpStatus cli_check_output(const char *path);
RP_NODISCARD RpStatus cli_close_output(RpNewFile *file, RpStatus written);

#endif
