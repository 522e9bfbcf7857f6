/* Bodies of errors, and the formats by their paths. */
#include "server/api/formats.h"
#include "server/api/json.h"

#include <string.h>

void api_error_body(const ApiError *error, Bytes *out) {
    json_put(out, "{'error':{'message':%s,'type':%s,'param':%s,'code':%s}}", error->message, error->type,
             error->param[0] != '\0' ? error->param : NULL, error->code);
}

const ApiFormat *api_format_of(const char *path) {
    static const ApiFormat *const formats[] = {&api_chat, &api_completion, &api_responses, &api_messages, &api_infill};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(path, formats[i]->path) == 0) return formats[i];
    return NULL;
}
