/* convert.h - what the commands that write model files share. */
#ifndef CLI_CONVERT_H
#define CLI_CONVERT_H

#include "cli/common.h"

/* A ConvertProgress over a Progress. */
bool cli_convert_progress(size_t done, size_t total, void *progress);

/* Says what was written; the exit status. */
int cli_convert_done(RpStatus status, const char *path, bool quiet, Progress *p);

#endif
