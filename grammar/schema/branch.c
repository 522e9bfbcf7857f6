/* Alternatives: one keyword at a time is taken out of a conjunction, and each of its branches is tried with the
 * rest. */
#include "grammar/schema/schema.h"

#include <string.h>

static RpStatus stop(PartList *b) { return rp_part_push(b, PART_STOP); }

static RpStatus one(PartList *b, Part p) {
    RP_TRY(rp_part_push(b, p));
    return stop(b);
}

static RpStatus any_of(Schema *s, uint32_t node, const JsonNode *list, PartList *b) {
    if (list->type != JSON_ARRAY || list->n == 0) return rp_schema_bad(s, node, "anyOf that is no array of schemas");
    for (const JsonNode *c = rp_json_first(&s->json, list); c != NULL; c = rp_json_next(&s->json, list, c))
        RP_TRY(one(b, part_of(schema_index(s, c), PART_SCHEMA)));
    return RP_OK;
}

/* Keywords of a schema whose negation is known, or that allow everything. `value` is the member. */
static bool can_negate(Schema *s, uint32_t node, int depth);

static bool all_negate(Schema *s, const JsonNode *list, int depth) {
    for (const JsonNode *c = rp_json_first(&s->json, list); c != NULL; c = rp_json_next(&s->json, list, c))
        if (!can_negate(s, schema_index(s, c), depth + 1)) return false;
    return true;
}

static const char *const plain_keywords[] = {
    "type",    "const",   "enum",      "required",  "properties",       "pattern",
    "minimum", "maximum", "minLength", "maxLength", "exclusiveMinimum", "exclusiveMaximum"};
static const char *const without_meaning[] = {"title",    "description", "default",     "examples",
                                              "$comment", "$defs",       "definitions", "$schema",
                                              "$id",      "id",          "$anchor",     "deprecated"};

static bool is_one_of(RpGgufString key, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (key.len == strlen(names[i]) && memcmp(key.ptr, names[i], key.len) == 0) return true;
    return false;
}

#define IS_ONE_OF(key, names) is_one_of(key, names, sizeof(names) / sizeof(names)[0])

static bool can_negate(Schema *s, uint32_t node, int depth) {
    static const char *const lists[] = {"anyOf", "allOf"}, *const inner[] = {"not"}, *const ref[] = {"$ref"};
    const JsonNode *object = schema_node(s, node);
    if (object->type != JSON_OBJECT) return true;
    if (depth > 16) return false;
    for (const JsonNode *m = rp_json_first(&s->json, object); m != NULL; m = rp_json_next(&s->json, object, m)) {
        const RpGgufString key = rp_json_key(&s->json, m);
        if (IS_ONE_OF(key, plain_keywords) || IS_ONE_OF(key, without_meaning) || IS_ONE_OF(key, inner)) continue;
        if (IS_ONE_OF(key, lists) && all_negate(s, m, depth)) continue;
        if (IS_ONE_OF(key, ref) && object->n == 1) {
            uint32_t target;
            if (rp_schema_try_lookup(s, node, m, &target) && can_negate(s, target, depth + 1)) continue;
        }
        return false;
    }
    return true;
}

/* One branch for each schema i: it, and not those others that do not exclude it by themselves. */
static RpStatus one_of(Schema *s, uint32_t node, const JsonNode *list, PartList *b) {
    if (list->type != JSON_ARRAY || list->n == 0) return rp_schema_bad(s, node, "oneOf that is no array of schemas");
    bool weakened = false;
    for (const JsonNode *i = rp_json_first(&s->json, list); i != NULL; i = rp_json_next(&s->json, list, i)) {
        RP_TRY(rp_part_push(b, part_of(schema_index(s, i), PART_SCHEMA)));
        for (const JsonNode *k = rp_json_first(&s->json, list); k != NULL; k = rp_json_next(&s->json, list, k)) {
            if (k == i || weakened || rp_schema_disjoint(s, schema_index(s, i), schema_index(s, k))) continue;
            if (can_negate(s, schema_index(s, k), 0)) {
                RP_TRY(rp_part_push(b, part_of(schema_index(s, k), PART_NOT)));
            } else {
                RP_TRY(rp_schema_drop(s, node, "oneOf", "a value may satisfy two of its schemas; anyOf allows that"));
                weakened = true;
            }
        }
        RP_TRY(stop(b));
    }
    return RP_OK;
}

static RpStatus if_then_else(Schema *s, uint32_t node, const JsonNode *condition, PartList *b) {
    const JsonNode *then = rp_schema_get(s, node, "then"), *other = rp_schema_get(s, node, "else");
    if (!can_negate(s, schema_index(s, condition), 0)) {
        RP_TRY(rp_schema_drop(s, node, "if", "its schema cannot be negated"));
        return stop(b);
    }
    RP_TRY(rp_part_push(b, part_of(schema_index(s, condition), PART_SCHEMA)));
    if (then != NULL) RP_TRY(rp_part_push(b, part_of(schema_index(s, then), PART_SCHEMA)));
    RP_TRY(stop(b));
    RP_TRY(rp_part_push(b, part_of(schema_index(s, condition), PART_NOT)));
    if (other != NULL) RP_TRY(rp_part_push(b, part_of(schema_index(s, other), PART_SCHEMA)));
    return stop(b);
}

/* Without the key, or with it and what depends on it. */
static RpStatus dependent(Schema *s, uint32_t node, PartList *b) {
    const JsonNode *n = schema_node(s, node);
    RP_TRY(one(b, part_of(node, PART_NO_KEY)));
    RP_TRY(rp_part_push(b, part_of(node, PART_KEY)));
    if (n->type != JSON_ARRAY) RP_TRY(rp_part_push(b, part_of(node, PART_SCHEMA)));
    for (const JsonNode *c = n->type == JSON_ARRAY ? rp_json_first(&s->json, n) : NULL; c != NULL;
         c                 = rp_json_next(&s->json, n, c)) {
        if (c->type != JSON_STRING) return rp_schema_bad(s, node, "a name that is no string");
        RP_TRY(rp_part_push(b, part_of(schema_index(s, c), PART_REQUIRED)));
    }
    return stop(b);
}

/* Not a schema: one of its keywords is not satisfied. */
static RpStatus negation(Schema *s, uint32_t node, PartList *b) {
    const JsonNode *object = schema_node(s, node);
    if (!can_negate(s, node, 0)) {
        RP_TRY(rp_schema_drop(s, node, "not", "the negation of this schema is not known"));
        return stop(b);
    }
    if (object->type != JSON_OBJECT) return RP_OK; /* not true: nothing; false is no branch */
    for (const JsonNode *m = rp_json_first(&s->json, object); m != NULL; m = rp_json_next(&s->json, object, m))
        if (!IS_ONE_OF(rp_json_key(&s->json, m), without_meaning))
            RP_TRY(one(b, part_of(schema_index(s, m), PART_NEGATED)));
    return RP_OK;
}

static bool is_key(const Schema *s, uint32_t node, const char *key) {
    const RpGgufString k = rp_json_key(&s->json, schema_node(s, node));
    return k.len == strlen(key) && memcmp(k.ptr, key, k.len) == 0;
}

/* A negated keyword with several ways to fail. */
static RpStatus negated(Schema *s, uint32_t node, PartList *b, bool *found) {
    const JsonNode *list = schema_node(s, node);
    const PartKind  kind = is_key(s, node, "required")     ? PART_FORBIDDEN
                           : is_key(s, node, "properties") ? PART_KEY_NOT
                           : is_key(s, node, "allOf")      ? PART_NOT
                                                           : PART_KINDS;
    if (kind == PART_KINDS) return RP_OK;
    *found = true;
    for (const JsonNode *c = rp_json_first(&s->json, list); c != NULL; c = rp_json_next(&s->json, list, c))
        RP_TRY(one(b, part_of(schema_index(s, c), kind)));
    return RP_OK;
}

static RpStatus branch_schema(Schema *s, PartList *l, size_t i, PartList *b, bool *found) {
    static const struct {
        const char *keyword;
        unsigned    done;
        RpStatus (*make)(Schema *s, uint32_t node, const JsonNode *member, PartList *b);
    } kinds[] = {
        {"anyOf", DONE_ANY_OF, any_of      },
        {"oneOf", DONE_ONE_OF, one_of      },
        {"if",    DONE_IF,     if_then_else}
    };
    const uint32_t node = part_node(l->v[i]);
    if (s->old_refs && rp_schema_get(s, node, "$ref") != NULL) return RP_OK;
    for (int k = 0; k < 3; k++) {
        const JsonNode *m = rp_schema_get(s, node, kinds[k].keyword);
        if (m == NULL || (part_done(l->v[i]) & kinds[k].done) != 0) continue;
        l->v[i] |= kinds[k].done << 4;
        *found = true;
        return kinds[k].make(s, node, m, b);
    }
    return RP_OK;
}

RpStatus rp_schema_branch(Schema *s, PartList *l, PartList *b, bool *found) {
    *found = false;
    for (size_t i = 0; i < l->n && !*found; i++) {
        const Part     p    = l->v[i];
        const uint32_t node = part_node(p);
        if (part_done(p) == DONE_ALL) continue;
        switch (part_kind(p)) {
        case PART_SCHEMA:
            RP_TRY(branch_schema(s, l, i, b, found));
            break;
        case PART_DEPENDENT:
            RP_TRY(dependent(s, node, b));
            l->v[i] |= PART_DONE;
            *found = true;
            break;
        case PART_NOT:
            if (schema_node(s, node)->type == JSON_FALSE) break;
            if (rp_schema_get(s, node, "$ref") != NULL && schema_node(s, node)->n == 1) break; /* its target is there */
            RP_TRY(negation(s, node, b));
            l->v[i] |= PART_DONE;
            *found = true;
            break;
        case PART_NEGATED:
            RP_TRY(negated(s, node, b, found));
            if (*found) l->v[i] |= PART_DONE;
            break;
        default:
            break;
        }
    }
    return RP_OK;
}
