#include "server/http/query.h"

#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdlib.h>
#include <string.h>

char *http_query(const char *query, const char *name) {
    struct evkeyvalq all;
    char            *value = NULL;
    if (evhttp_parse_query_str(query, &all) != 0) return NULL;
    const char *found = evhttp_find_header(&all, name);
    if (found != NULL) value = strdup(found);
    evhttp_clear_headers(&all);
    return value;
}
