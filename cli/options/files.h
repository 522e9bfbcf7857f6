/* files.h - keeps a command from destroying files. No output of a command may be one of its inputs or another output,
 * under whatever names: cli_parse compares all paths of the command line before the command runs. Standard input is an
 * input and standard output an output, where they are regular files. */
#ifndef CLI_OPTIONS_FILES_H
#define CLI_OPTIONS_FILES_H

#include "cli/options/options.h"

extern const char *cli_trace; /* the value of OPTION_TRACE (common.h), or NULL */

/* Adds a path that `name` describes in an error. Both are borrowed. NULL is left out, and the input "-", which is
 * standard input. */
void cli_files_add(FileList *list, FileUse use, const char *name, const char *path);

/* True if both paths lead to one regular file, also by links. Paths without a file are the same if they have the same
 * folder and name. */
bool cli_same_file(const char *a, const char *b);

/* Compares the files that a parsed command line names, by options of the command and of `common`. PARSE_ERROR for an
 * output that is an input or another output, and PARSE_FAILED for other failures, after printing one line on stderr. */
ParseResult cli_check_files(const Command *command, const Option *common, size_t n_common);

#endif
