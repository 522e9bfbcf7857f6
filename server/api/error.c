/* Bodies of errors. */
#include "server/api/api.h"
#include "server/api/json.h"

void api_error_body(const ApiError *error, Bytes *out) {
    json_put(out, "{'error':{'message':%s,'type':%s,'param':%s,'code':%s}}", error->message, error->type,
             error->param[0] != '\0' ? error->param : NULL, error->code);
}
