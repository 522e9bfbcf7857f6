/* embeddings.h - the texts of `reprise embed` and `reprise rerank`: lines of a file, and embedders that are opened. */
#ifndef CLI_EMBEDDINGS_H
#define CLI_EMBEDDINGS_H

#include "cli/common.h"

typedef struct Lines {
    Text          text; /* owned */
    RpGgufString *line; /* [n], owned; parts of `text` without their line ends */
    size_t        n;
} Lines;

/* The lines of a file, or of standard input ("-"), that are not empty; or with `whole` one text, which may be empty.
 * `given`: the text itself, or NULL. */
RP_NODISCARD RpStatus cli_read_lines(const char *given, const char *path, bool whole, Lines *out);
void                  cli_free_lines(Lines *lines);

/* Opens an embedder after copying the device options into *o. Reports a fallback, see cli_report_fallback. */
RP_NODISCARD RpStatus cli_open_embedder(const RpModel *m, const DeviceArgs *d, RpEmbedderOptions *o, RpEmbedder **out);

#endif
