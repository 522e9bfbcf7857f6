/* json_write.h - JSON in the making. */
#ifndef MODEL_CHAT_JSON_WRITE_H
#define MODEL_CHAT_JSON_WRITE_H

#include "base/text/json_read.h"

/* Zero-initialise it; it owns `p`, which free() releases. A failure sticks: the text is then not complete. */
typedef struct JsonOut {
    char  *p; /* terminated, unless nothing was written */
    size_t n, room;
    bool   failed;
} JsonOut;

void rp_json_put(JsonOut *o, const char *text, size_t n); /* as it is */
void rp_json_put_text(JsonOut *o, const char *text);      /* as it is */
void rp_json_put_string(JsonOut *o, RpGgufString s);      /* with quotes and escapes */
void rp_json_put_node(JsonOut *o, const Json *j, const JsonNode *node);
void rp_json_put_key(JsonOut *o, bool *first, RpGgufString key); /* {"key": or , "key": */

#endif
