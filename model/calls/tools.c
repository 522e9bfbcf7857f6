/* Looks up parameters in the schemas of tools. */
#include "model/chat/parser.h"

#include <string.h>

enum { TYPE_STRING = 1, TYPE_NULL = 2, TYPE_OTHER = 4, MAX_DEPTH = 8 };

static unsigned of_name(RpGgufString s) {
    return s.len == 6 && memcmp(s.ptr, "string", 6) == 0 ? TYPE_STRING
           : s.len == 4 && memcmp(s.ptr, "null", 4) == 0 ? TYPE_NULL
                                                         : TYPE_OTHER;
}

/* The types that a schema allows; 0: it does not say. */
static unsigned types_of(const Json *j, const JsonNode *schema, int depth) {
    static const char *const unions[] = {"anyOf", "oneOf"};
    unsigned                 types    = 0;
    const JsonNode          *type     = rp_json_get(j, schema, "type");
    const JsonNode          *values   = rp_json_get(j, schema, "enum");
    if (type != NULL && type->type == JSON_STRING) return of_name(rp_json_string(j, type));
    for (const JsonNode *t = rp_json_first(j, type); t != NULL; t = rp_json_next(j, type, t))
        types |= of_name(rp_json_string(j, t));
    for (const JsonNode *v = rp_json_first(j, values); v != NULL && type == NULL; v = rp_json_next(j, values, v))
        types |= v->type == JSON_STRING ? TYPE_STRING : v->type == JSON_NULL ? TYPE_NULL : TYPE_OTHER;
    for (int u = 0; u < 2 && depth < MAX_DEPTH; u++) {
        const JsonNode *all = rp_json_get(j, schema, unions[u]);
        for (const JsonNode *s = rp_json_first(j, all); s != NULL; s = rp_json_next(j, all, s))
            types |= types_of(j, s, depth + 1);
    }
    return types;
}

static const JsonNode *parameters_of(const Json *j, const JsonNode *tool, const char *name) {
    const JsonNode *function = rp_json_get(j, tool, "function");
    if (function == NULL) function = tool;
    if (!rp_json_is(j, rp_json_get(j, function, "name"), name)) return NULL;
    const JsonNode *schema = rp_json_get(j, function, "parameters");
    return schema != NULL ? schema : rp_json_get(j, function, "input_schema");
}

ValueKind rp_tools_kind(const RpReplyParser *p, const char *tool, const char *parameter, size_t n) {
    const Json     *j     = &p->tools;
    const JsonNode *tools = p->has_tools ? &j->nodes[0] : NULL, *schema = NULL, *found = NULL;
    for (const JsonNode *t = rp_json_first(j, tools); t != NULL && schema == NULL; t = rp_json_next(j, tools, t))
        schema = parameters_of(j, t, tool);
    const JsonNode *properties = rp_json_get(j, schema, "properties");
    for (const JsonNode *m = rp_json_first(j, properties); m != NULL; m = rp_json_next(j, properties, m)) {
        const RpGgufString key = rp_json_key(j, m);
        if (key.len == n && memcmp(key.ptr, parameter, n) == 0) found = m;
    }
    const unsigned types = types_of(j, found, 0);
    return types == TYPE_STRING ? VALUE_STRING : types == (TYPE_STRING | TYPE_NULL) ? VALUE_NULL_OR_STRING : VALUE_ANY;
}
