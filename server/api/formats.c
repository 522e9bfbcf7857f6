/* The formats by their paths. */
#include "server/api/formats.h"

#include <string.h>

const ApiFormat *api_format_of(const char *path) {
    static const ApiFormat *const formats[] = {&api_chat, &api_completion, &api_responses, &api_messages, &api_infill};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(path, formats[i]->path) == 0) return formats[i];
    return NULL;
}
