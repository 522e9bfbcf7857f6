/* Expands parts of a schema: $ref to its target, allOf to its schemas, and a double negation to its schema. */
#include "grammar/schema/schema.h"

#include "grammar/schema/keywords.h"

#include <string.h>

enum { KEPT, PARTLY, NEVER, NOTHING };

static RpStatus check_keywords(Schema *s, uint32_t node) {
    static const struct {
        const char *name;
        int         state;
    } keywords[] = {
#define X(keyword, state, remark) {keyword, state},
        RP_SCHEMA_KEYWORDS(X)
#undef X
    };
    const JsonNode *object = schema_node(s, node);
    for (const JsonNode *m = rp_json_first(&s->json, object); m != NULL; m = rp_json_next(&s->json, object, m)) {
        const RpGgufString key = rp_json_key(&s->json, m);
        for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
            if (keywords[i].state == NEVER && key.len == strlen(keywords[i].name) &&
                memcmp(key.ptr, keywords[i].name, key.len) == 0 && m->type != JSON_TRUE && m->type != JSON_FALSE)
                RP_TRY(rp_schema_drop(s, node, keywords[i].name, ""));
    }
    /* true and false of uniqueItems and the two unevaluated* have opposite meanings */
    const JsonNode *unique = rp_schema_get(s, node, "uniqueItems"), *most = rp_schema_get(s, node, "maxItems");
    uint64_t        n = 0;
    if (unique != NULL && unique->type == JSON_TRUE && !(most != NULL && rp_json_u63(&s->json, most, &n) && n <= 1))
        RP_TRY(rp_schema_drop(s, node, "uniqueItems", ""));
    const JsonNode *members = rp_schema_get(s, node, "unevaluatedProperties");
    if (members != NULL && members->type == JSON_FALSE) RP_TRY(rp_schema_drop(s, node, "unevaluatedProperties", ""));
    const JsonNode *items = rp_schema_get(s, node, "unevaluatedItems");
    if (items != NULL && items->type == JSON_FALSE) RP_TRY(rp_schema_drop(s, node, "unevaluatedItems", ""));
    return RP_OK;
}

/* The schemas in an array, or the members of dependencies, each as a part of that kind. */
static RpStatus add_all(Schema *s, PartList *l, uint32_t node, const JsonNode *array, PartKind kind, const char *what) {
    if (array->type != (kind == PART_DEPENDENT ? JSON_OBJECT : JSON_ARRAY)) return rp_schema_bad(s, node, what);
    for (const JsonNode *c = rp_json_first(&s->json, array); c != NULL; c = rp_json_next(&s->json, array, c))
        RP_TRY(rp_part_add(l, part_of(schema_index(s, c), kind)));
    return RP_OK;
}

static RpStatus expand_schema(Schema *s, PartList *l, uint32_t node) {
    const JsonNode *n = schema_node(s, node);
    if (n->type == JSON_TRUE || n->type == JSON_FALSE) return RP_OK;
    if (n->type != JSON_OBJECT) return rp_schema_bad(s, node, "a schema is neither an object nor true or false");
    RP_TRY(check_keywords(s, node));
    const JsonNode *ref = rp_schema_get(s, node, "$ref"), *all = rp_schema_get(s, node, "allOf");
    if (ref != NULL) {
        uint32_t target;
        RP_TRY(rp_schema_resolve(s, node, ref, &target));
        if (target != UINT32_MAX) RP_TRY(rp_part_add(l, part_of(target, PART_SCHEMA)));
        if (s->old_refs) return RP_OK;
    }
    const JsonNode *without = rp_schema_get(s, node, "not");
    if (without != NULL) RP_TRY(rp_part_add(l, part_of(schema_index(s, without), PART_NOT)));
    static const char *const dependencies[] = {"dependentRequired", "dependentSchemas", "dependencies"};
    for (int i = 0; i < 3; i++) {
        const JsonNode *d = rp_schema_get(s, node, dependencies[i]);
        if (d != NULL) RP_TRY(add_all(s, l, node, d, PART_DEPENDENT, "dependencies that are no object"));
    }
    return all != NULL ? add_all(s, l, node, all, PART_SCHEMA, "allOf that is no array") : RP_OK;
}

/* Not a schema: not its target, or with several keywords a branch for each (branch.c). */
static RpStatus expand_not(Schema *s, PartList *l, uint32_t node) {
    const JsonNode *ref = rp_schema_get(s, node, "$ref");
    if (ref == NULL) return RP_OK;
    uint32_t target;
    RP_TRY(rp_schema_resolve(s, node, ref, &target));
    return target != UINT32_MAX ? rp_part_add(l, part_of(target, PART_NOT)) : RP_OK;
}

static bool is_key(const Schema *s, uint32_t node, const char *key) {
    const RpGgufString k = rp_json_key(&s->json, schema_node(s, node));
    return k.len == strlen(key) && memcmp(k.ptr, key, k.len) == 0;
}

static RpStatus expand_negated(Schema *s, PartList *l, uint32_t keyword) {
    if (is_key(s, keyword, "not")) return rp_part_add(l, part_of(keyword, PART_SCHEMA));
    if (is_key(s, keyword, "anyOf"))
        return add_all(s, l, keyword, schema_node(s, keyword), PART_NOT, "anyOf that is no array");
    return RP_OK;
}

RpStatus rp_schema_expand(Schema *s, PartList *l) {
    for (size_t i = 0; i < l->n; i++) {
        const Part p = l->v[i];
        if (part_kind(p) == PART_SCHEMA && part_done(p) == 0) RP_TRY(expand_schema(s, l, part_node(p)));
        if (part_kind(p) == PART_NOT) RP_TRY(expand_not(s, l, part_node(p)));
        if (part_kind(p) == PART_NEGATED) RP_TRY(expand_negated(s, l, part_node(p)));
    }
    return RP_OK;
}
