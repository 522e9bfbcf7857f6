/* Tells whether two schemas can have a value in common, as far as it can be seen without building them. */
#include "grammar/schema/schema.h"

#include <string.h>

enum { MAX_PROPERTY_DEPTH = 4, MAX_CALLS = 100000 };

static bool same_text(RpGgufString a, RpGgufString b) { return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0; }

bool rp_json_equal(const Json *j, const JsonNode *a, const JsonNode *b) {
    if (a->type != b->type || a->n != b->n) return false;
    if (a->type == JSON_STRING) return same_text(rp_json_string(j, a), rp_json_string(j, b));
    if (a->type == JSON_NUMBER)
        return same_text(rp_json_string(j, a), rp_json_string(j, b)) || rp_json_number(j, a) == rp_json_number(j, b);
    const JsonNode *x = rp_json_first(j, a), *y = rp_json_first(j, b);
    for (; x != NULL; x = rp_json_next(j, a, x)) {
        const JsonNode *other = y;
        if (a->type == JSON_OBJECT) {
            for (other = rp_json_first(j, b); other != NULL; other = rp_json_next(j, b, other))
                if (same_text(rp_json_key(j, x), rp_json_key(j, other))) break;
        }
        if (other == NULL || !rp_json_equal(j, x, other)) return false;
        if (a->type == JSON_ARRAY) y = rp_json_next(j, b, y);
    }
    return true;
}

unsigned rp_schema_type_of(const Schema *s, const JsonNode *value) {
    (void)s;
    static const unsigned types[] = {
        [JSON_NULL] = TYPE_NULL,     [JSON_FALSE] = TYPE_BOOLEAN, [JSON_TRUE] = TYPE_BOOLEAN,
        [JSON_NUMBER] = TYPE_NUMBER, [JSON_STRING] = TYPE_STRING, [JSON_ARRAY] = TYPE_ARRAY,
        [JSON_OBJECT] = TYPE_OBJECT};
    return types[value->type];
}

static unsigned type_named(const Json *j, const JsonNode *name) {
    static const char *const names[] = {"null", "boolean", "number", "string", "array", "object"};
    for (int i = 0; i < 6; i++)
        if (rp_json_is(j, name, names[i])) return 1u << i;
    return rp_json_is(j, name, "integer") ? TYPE_INTEGER | TYPE_NUMBER : 0;
}

unsigned rp_schema_type_names(const Schema *s, const JsonNode *type) {
    unsigned t     = 0;
    bool     plain = false; /* "number" among the names */
    if (type->type == JSON_STRING) return type_named(&s->json, type);
    for (const JsonNode *c = rp_json_first(&s->json, type); c != NULL; c = rp_json_next(&s->json, type, c)) {
        t |= type_named(&s->json, c);
        plain |= rp_json_is(&s->json, c, "number");
    }
    return plain ? t & ~(unsigned)TYPE_INTEGER : t;
}

unsigned rp_schema_types(const Schema *s, uint32_t node) {
    const JsonNode *type = rp_schema_get(s, node, "type"), *values = rp_schema_get(s, node, "enum");
    const JsonNode *value = rp_schema_get(s, node, "const");
    unsigned        t     = TYPE_ALL;
    if (schema_node(s, node)->type == JSON_FALSE) return 0;
    if (type != NULL) t = rp_schema_type_names(s, type);
    if (value != NULL) t &= rp_schema_type_of(s, value) | TYPE_INTEGER;
    if (values != NULL && values->type == JSON_ARRAY) {
        unsigned of_values = TYPE_INTEGER;
        for (const JsonNode *c = rp_json_first(&s->json, values); c != NULL; c = rp_json_next(&s->json, values, c))
            of_values |= rp_schema_type_of(s, c);
        t &= of_values;
    }
    return t;
}

static bool has_value(const Schema *s, uint32_t node, const JsonNode *value) {
    const JsonNode *values = rp_schema_get(s, node, "enum"), *single = rp_schema_get(s, node, "const");
    if (single != NULL && !rp_json_equal(&s->json, single, value)) return false;
    if (values == NULL) return true;
    for (const JsonNode *c = rp_json_first(&s->json, values); c != NULL; c = rp_json_next(&s->json, values, c))
        if (rp_json_equal(&s->json, c, value)) return true;
    return false;
}

/* True if both name their values, and none is common. */
static bool values_differ(const Schema *s, uint32_t a, uint32_t b) {
    const JsonNode *single = rp_schema_get(s, a, "const"), *values = rp_schema_get(s, a, "enum");
    if (rp_schema_get(s, b, "const") == NULL && rp_schema_get(s, b, "enum") == NULL) return false;
    if (single != NULL) return !has_value(s, b, single);
    if (values == NULL || values->type != JSON_ARRAY) return false;
    for (const JsonNode *c = rp_json_first(&s->json, values); c != NULL; c = rp_json_next(&s->json, values, c))
        if (has_value(s, b, c)) return false;
    return true;
}

static const JsonNode *member(const Schema *s, const JsonNode *object, RpGgufString key) {
    if (object == NULL || object->type != JSON_OBJECT) return NULL;
    for (const JsonNode *m = rp_json_first(&s->json, object); m != NULL; m = rp_json_next(&s->json, object, m))
        if (same_text(rp_json_key(&s->json, m), key)) return m;
    return NULL;
}

/* True if `a` requires a property that `b` does not allow, or of which it requires another value. */
static bool property_differs(Schema *s, uint32_t a, uint32_t b) {
    const JsonNode *list = rp_schema_get(s, a, "required"), *of_a = rp_schema_get(s, a, "properties");
    const JsonNode *of_b = rp_schema_get(s, b, "properties"), *others = rp_schema_get(s, b, "additionalProperties");
    const bool      closed =
        others != NULL && others->type == JSON_FALSE && rp_schema_get(s, b, "patternProperties") == NULL;
    if (list == NULL || list->type != JSON_ARRAY) return false;
    for (const JsonNode *c = rp_json_first(&s->json, list); c != NULL; c = rp_json_next(&s->json, list, c)) {
        if (c->type != JSON_STRING) continue;
        const RpGgufString key = rp_json_string(&s->json, c);
        const JsonNode    *x = member(s, of_a, key), *y = member(s, of_b, key);
        if (y == NULL && closed) return true;
        if (x != NULL && y != NULL && rp_schema_disjoint(s, schema_index(s, x), schema_index(s, y))) return true;
    }
    return false;
}

bool rp_schema_disjoint(Schema *s, uint32_t a, uint32_t b) {
    uint32_t node[2] = {a, b};
    if (++s->disjoint_calls > MAX_CALLS) return false;
    for (int i = 0; i < 2; i++)
        for (int hops = 0; hops < 8; hops++) {
            const JsonNode *ref = rp_schema_get(s, node[i], "$ref");
            uint32_t        target;
            if (ref == NULL) break;
            if (!rp_schema_try_lookup(s, node[i], ref, &target)) return false;
            node[i] = target;
        }
    a = node[0], b = node[1];
    if (a == b) return false;
    const unsigned common = rp_schema_types(s, a) & rp_schema_types(s, b) & TYPE_ALL;
    if (common == 0 || values_differ(s, a, b)) return true;
    if (common != TYPE_OBJECT || s->disjoint_depth >= MAX_PROPERTY_DEPTH) return false;
    s->disjoint_depth++;
    const bool differs = property_differs(s, a, b) || property_differs(s, b, a);
    s->disjoint_depth--;
    return differs;
}
