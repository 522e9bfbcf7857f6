/* split.h - the names of GGUF files that are cut into parts: NAME-00001-of-00003.gguf, NAME-00002-of-00003.gguf, ... */
#ifndef BASE_FILES_SPLIT_H
#define BASE_FILES_SPLIT_H

#include <stdbool.h>

/* Whether the path ends as the name of part *no of *count, 1 <= *no <= *count. Both are 0 if it does not. */
bool rp_split_name(const char *path, int *no, int *count);

/* Writes the number of another part, 1 to 99999, into such a path. */
void rp_split_rename(char *path, int no);

#endif
