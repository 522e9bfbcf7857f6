/* tensors.h - the tensors that `reprise inspect` lists, of a GGUF file or of a directory that is no supported model. */
#ifndef CLI_INSPECT_TENSORS_H
#define CLI_INSPECT_TENSORS_H

#include "reprise/gguf.h"

typedef struct ListedTensor {
    RpGgufString name; /* borrowed */
    const char  *type;
    uint32_t     gguf_type;
    bool         unsupported; /* the library does not compute with gguf_type */
    int64_t      ne[RP_MAX_DIMS];
    size_t       bytes;
} ListedTensor;

/* Prints totals by type: the members "params", "weight_bytes" and "types", or a table. RP_E_NOMEM. */
RP_NODISCARD RpStatus cli_list_types(const ListedTensor *tensors, size_t n, bool json);

/* Prints the member "tensors", or a table. RP_E_NOMEM. */
RP_NODISCARD RpStatus cli_list_tensors(const ListedTensor *tensors, size_t n, bool json);

/* Prints a heading between empty line and list. */
void cli_list_heading(const char *text);

#endif
