/* convert.h - shared by `synth` and `quantize`, the commands that write model files. */
#ifndef CLI_CONVERT_H
#define CLI_CONVERT_H

#include "cli/common.h"

/* An RpConvertProgress callback that draws the bar `progress`, a Progress *; false after Ctrl-C or SIGTERM. */
bool cli_convert_progress(size_t done, size_t total, void *progress);

/* Ends the bar, describes the file at `path` on stderr unless `quiet`, and returns the exit status. */
int cli_convert_done(RpStatus status, const char *path, bool quiet, Progress *p);

#endif
