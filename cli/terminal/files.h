/* files.h - keeps a command from destroying files. No output of a command may be one of its inputs or another output,
 * under whatever names: cli_parse compares all paths of the command line before the command runs. Standard input is an
 * input and standard output an output, where they are regular files. */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* What a command does with a path. FILE_CHECKPOINT may be the file of FILE_RESUMED: a resumed training goes on writing
 * its checkpoint. Two FILE_CHECKPOINT are a checkpoint and the one before. */
typedef enum FileUse {
    FILE_NONE, /* not a path */
    FILE_READ,
    FILE_READ_SETTINGS, /* "FILE[:SETTING]...": the longest FILE that exists */
    FILE_RESUMED,       /* read */
    FILE_WRITTEN,
    FILE_CHECKPOINT /* written */
} FileUse;

typedef struct FileList FileList;

/* Adds a path that `name` describes in an error. Both are borrowed. NULL is left out, and the input "-", which is
 * standard input. */
void cli_files_add(FileList *list, FileUse use, const char *name, const char *path);

/* True if both paths lead to one regular file, also by links. Paths without a file are the same if they have the same
 * folder and name. */
bool cli_same_file(const char *a, const char *b);

#endif
