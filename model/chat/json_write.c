/* JSON in the making (json_write.h). */
#include "model/chat/json_write.h"

#include "model/chat/json_scan.h"

#include <stdlib.h>
#include <string.h>

void rp_json_put(JsonOut *o, const char *text, size_t n) {
    if (o->n + n + 1 > o->room && !o->failed) {
        const size_t room  = 2 * (o->n + n + 1) + 256;
        char        *grown = realloc(o->p, room);
        o->failed          = grown == NULL;
        if (grown != NULL) o->p = grown, o->room = room;
    }
    if (o->failed) return;
    memcpy(o->p + o->n, text, n);
    o->n += n;
    o->p[o->n] = '\0';
}

void rp_json_put_text(JsonOut *o, const char *text) { rp_json_put(o, text, strlen(text)); }

void rp_json_put_string(JsonOut *o, RpGgufString s) {
    char escaped[8];
    rp_json_put(o, "\"", 1);
    for (size_t i = 0; i < s.len; i++) rp_json_put(o, escaped, rp_json_escape((unsigned char)s.ptr[i], escaped));
    rp_json_put(o, "\"", 1);
}

void rp_json_put_key(JsonOut *o, bool *first, RpGgufString key) {
    rp_json_put_text(o, *first ? "{" : ", ");
    *first = false;
    rp_json_put_string(o, key);
    rp_json_put(o, ": ", 2);
}

void rp_json_put_node(JsonOut *o, const Json *j, const JsonNode *node) {
    static const char *const words[] = {[JSON_NULL] = "null", [JSON_FALSE] = "false", [JSON_TRUE] = "true"};
    const RpGgufString       text    = rp_json_string(j, node);
    bool                     first   = true;
    switch (node->type) {
    case JSON_NUMBER:
        rp_json_put(o, text.ptr, text.len);
        return;
    case JSON_STRING:
        rp_json_put_string(o, text);
        return;
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    default:
        rp_json_put_text(o, words[node->type]);
        return;
    }
    const bool object = node->type == JSON_OBJECT;
    if (!object || node->n == 0) rp_json_put_text(o, object ? "{" : "[");
    for (const JsonNode *m = rp_json_first(j, node); m != NULL; m = rp_json_next(j, node, m)) {
        if (object)
            rp_json_put_key(o, &first, rp_json_key(j, m));
        else if (!first)
            rp_json_put(o, ", ", 2);
        first = false;
        rp_json_put_node(o, j, m);
    }
    rp_json_put_text(o, object ? "}" : "]");
}
