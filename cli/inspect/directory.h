/* directory.h - a Hugging Face directory that does not open as a model, as `reprise inspect` lists it: config.json and
 * the headers of its safetensors files. */
#ifndef CLI_INSPECT_DIRECTORY_H
#define CLI_INSPECT_DIRECTORY_H

#include "cli/inspect/tensors.h"

#include <jansson.h>

typedef struct ListedDirectory {
    json_t       *config; /* an object */
    json_t      **headers;
    size_t        n_headers;
    ListedTensor *tensors; /* names and types are those of the headers */
    size_t        n_tensors;
    size_t        bytes; /* of the files that were read */
} ListedDirectory;

/* RP_E_FORMAT if `path` is no such directory or a file of it is damaged: the last error stays, as what the library says
 * of it is better. RP_E_IO, RP_E_NOMEM. The caller frees *out with cli_directory_free, also after a failure. */
RP_NODISCARD RpStatus cli_directory_read(const char *path, ListedDirectory *out);
void                  cli_directory_free(ListedDirectory *d);

/* Prints config.json: the member "config", or a line for each value, of at most `shown` bytes. RP_E_NOMEM. */
RP_NODISCARD RpStatus cli_directory_print_config(const ListedDirectory *d, bool json, size_t shown);

#endif
