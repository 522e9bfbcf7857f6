/* Finds the values that a conjunction without branches allows, for each type. */
#include "grammar/schema/schema.h"

#include "grammar/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rp_shape_free(Shape *shape) {
    PartList *lists[] = {&shape->values,   &shape->objects,   &shape->arrays,
                         &shape->required, &shape->forbidden, &shape->key_not};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) free(lists[i]->v);
}

static RpStatus count(const Schema *s, uint32_t node, const char *keyword, uint32_t *out) {
    const JsonNode *n = rp_schema_get(s, node, keyword);
    uint64_t        x;
    *out = UINT32_MAX;
    if (n == NULL) return RP_OK;
    RpGgufString text  = rp_json_string(&s->json, n);
    JsonNode     whole = *n;
    if (text.len > 2 && memcmp(text.ptr + text.len - 2, ".0", 2) == 0) whole.len -= 2;
    if (!rp_json_u63(&s->json, &whole, &x))
        return rp_schema_bad(s, schema_index(s, n), "a count that is no whole number");
    *out = x < UINT32_MAX - 1 ? (uint32_t)x : UINT32_MAX - 1;
    return RP_OK;
}

/* Raises *lo and lowers *hi to the two keywords. */
static RpStatus counts(const Schema *s, uint32_t node, const char *min, const char *max, uint32_t *lo, uint32_t *hi) {
    uint32_t x;
    RP_TRY(count(s, node, min, &x));
    if (x != UINT32_MAX && x > *lo) *lo = x;
    RP_TRY(count(s, node, max, &x));
    if (x < *hi) *hi = x;
    return RP_OK;
}

static RpStatus values_of(Schema *s, uint32_t node, Shape *out) {
    const JsonNode *list = rp_schema_get(s, node, "enum"), *single = rp_schema_get(s, node, "const");
    if (list != NULL && list->type != JSON_ARRAY) return rp_schema_bad(s, node, "enum that is no array");
    for (int which = 0; which < 2; which++) {
        const JsonNode *from = which == 0 ? list : single;
        PartList        kept = {0};
        if (from == NULL) continue;
        for (const JsonNode *c = which == 1 ? from : rp_json_first(&s->json, from); c != NULL;
             c                 = which == 1 ? NULL : rp_json_next(&s->json, from, c)) {
            bool wanted = !out->has_values;
            for (size_t i = 0; i < out->values.n && !wanted; i++)
                wanted = rp_json_equal(&s->json, c, schema_node(s, out->values.v[i]));
            const RpStatus st = wanted ? rp_part_push(&kept, schema_index(s, c)) : RP_OK;
            if (st != RP_OK) {
                free(kept.v);
                return st;
            }
        }
        free(out->values.v);
        out->values     = kept;
        out->has_values = true;
    }
    return RP_OK;
}

static RpStatus bounds(Schema *s, uint32_t node, Shape *out) {
    static const char *const names[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
    for (int i = 0; i < 4; i++) {
        const JsonNode *n         = rp_schema_get(s, node, names[i]);
        bool            exclusive = i >= 2;
        Rx              e;
        if (n == NULL || (exclusive && (n->type == JSON_TRUE || n->type == JSON_FALSE))) continue;
        if (n->type != JSON_NUMBER) return rp_schema_bad(s, schema_index(s, n), "a bound that is no number");
        const JsonNode *old = rp_schema_get(s, node, names[2 + i % 2]); /* draft 4: true makes the other exclusive */
        if (!exclusive && old != NULL && old->type == JSON_TRUE) exclusive = true;
        RP_TRY(rp_schema_bound(s, rp_json_string(&s->json, n), i % 2 == 0, exclusive, &e));
        out->number = rp_rx_and(s->rx, out->number, e);
    }
    if (rp_schema_get(s, node, "multipleOf") != NULL) {
        Rx e;
        RP_TRY(rp_schema_multiple(s, node, &e));
        out->number = rp_rx_and(s->rx, out->number, e);
    }
    return RP_OK;
}

/* A pattern of the content of a string; *known is false if it was weakened. */
static RpStatus pattern(Schema *s, uint32_t node, const JsonNode *text, Rx *out) {
    const RpGgufString p = rp_json_string(&s->json, text);
    *out                 = RX_ALL;
    if (text->type != JSON_STRING) return rp_schema_bad(s, node, "pattern that is no string");
    const RpStatus st = rp_pattern(s->rx, p.ptr, p.len, PATTERN_JSON | PATTERN_SEARCH, out);
    if (st == RP_E_NOMEM || st == RP_OK) return st;
    char why[256];
    snprintf(why, sizeof why, "%.255s", rp_last_error());
    *out = RX_ALL;
    return rp_schema_drop(s, node, "pattern", why);
}

static RpStatus strings(Schema *s, uint32_t node, Shape *out) {
    const JsonNode *p = rp_schema_get(s, node, "pattern"), *format = rp_schema_get(s, node, "format");
    Rx              e;
    RP_TRY(counts(s, node, "minLength", "maxLength", &out->min_length, &out->max_length));
    if (p != NULL) {
        RP_TRY(pattern(s, node, p, &e));
        out->string = rp_rx_and(s->rx, out->string, e);
    }
    if (format != NULL && format->type == JSON_STRING) {
        const RpGgufString name = rp_json_string(&s->json, format);
        e                       = rp_schema_format(s, name);
        if (e != RX_NONE)
            out->string = rp_rx_and(s->rx, out->string, e);
        else
            RP_TRY(rp_grammar_note(s->g, "format \"%.*s\" is not known: it allows every string",
                                   (int)(name.len < 64 ? name.len : 64), name.ptr));
    }
    return s->rx->status;
}

static bool has_any(const Schema *s, uint32_t node, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (rp_schema_get(s, node, names[i]) != NULL) return true;
    return false;
}

static RpStatus gather_schema(Schema *s, uint32_t node, Shape *out) {
    static const char *const of_objects[] = {"properties", "patternProperties", "additionalProperties",
                                             "propertyNames"};
    static const char *const of_arrays[]  = {"items", "prefixItems", "additionalItems", "contains"};
    const JsonNode          *n            = schema_node(s, node), *required;
    if (n->type == JSON_FALSE) out->types = 0;
    if (n->type != JSON_OBJECT || (s->old_refs && rp_schema_get(s, node, "$ref") != NULL)) return RP_OK;
    const JsonNode *type = rp_schema_get(s, node, "type");
    if (type != NULL) {
        const unsigned t = rp_schema_type_names(s, type);
        if (type->type != JSON_STRING && type->type != JSON_ARRAY)
            return rp_schema_bad(s, node, "type that is no name");
        out->types = (out->types & t & TYPE_ALL) | ((out->types | t) & TYPE_INTEGER);
    }
    RP_TRY(values_of(s, node, out));
    RP_TRY(bounds(s, node, out));
    RP_TRY(strings(s, node, out));
    RP_TRY(counts(s, node, "minItems", "maxItems", &out->min_items, &out->max_items));
    RP_TRY(counts(s, node, "minProperties", "maxProperties", &out->min_members, &out->max_members));
    if (has_any(s, node, of_objects, 4)) RP_TRY(rp_part_push(&out->objects, node));
    if (has_any(s, node, of_arrays, 4)) RP_TRY(rp_part_push(&out->arrays, node));
    required = rp_schema_get(s, node, "required");
    if (required == NULL || required->type == JSON_TRUE || required->type == JSON_FALSE) return RP_OK; /* draft 3 */
    if (required->type != JSON_ARRAY) return rp_schema_bad(s, node, "required that is no array");
    for (const JsonNode *c = rp_json_first(&s->json, required); c != NULL; c = rp_json_next(&s->json, required, c)) {
        if (c->type != JSON_STRING) return rp_schema_bad(s, node, "required with a name that is no string");
        RP_TRY(rp_part_push(&out->required, part_of(schema_index(s, c), PART_REQUIRED)));
    }
    return RP_OK;
}

/* Takes a value out of what is allowed. */
static RpStatus exclude(Schema *s, const JsonNode *value, Shape *out) {
    const RpGgufString text = rp_json_string(&s->json, value);
    Rx                 e;
    PartList           kept = {0};
    switch (value->type) {
    case JSON_NULL:
        out->types &= ~(unsigned)TYPE_NULL;
        break;
    case JSON_STRING:
        out->string = rp_rx_except(s->rx, out->string, rp_schema_text(s, text.ptr, text.len));
        break;
    case JSON_NUMBER:
        RP_TRY(rp_schema_equal_numbers(s, text, &e));
        out->number = rp_rx_and(s->rx, rp_rx_except(s->rx, out->number, e), rp_schema_decimal(s));
        break;
    default:
        if (!out->has_values && (out->types & rp_schema_type_of(s, value)) != 0)
            RP_TRY(rp_schema_drop(s, schema_index(s, value), "not", "of an array, an object, true or false"));
    }
    for (size_t i = 0; i < out->values.n; i++)
        if (!rp_json_equal(&s->json, value, schema_node(s, out->values.v[i]))) {
            const RpStatus st = rp_part_push(&kept, out->values.v[i]);
            if (st != RP_OK) free(kept.v);
            RP_TRY(st);
        }
    free(out->values.v);
    out->values = kept;
    return RP_OK;
}

/* A value of that type which does not satisfy a bound or a length; true if the keyword is one of those. */
static RpStatus negate_bound(Schema *s, uint32_t node, RpGgufString key, Shape *out, bool *known) {
    static const struct {
        const char *name;
        bool        lower, exclusive;
    } of_numbers[] = {
        {"minimum",          false, true },
        {"maximum",          true,  true },
        {"exclusiveMinimum", false, false},
        {"exclusiveMaximum", true,  false}
    };
    const JsonNode *n = schema_node(s, node);
    Rx              e;
    *known = true;
    for (int i = 0; i < 4; i++) {
        if (key.len != strlen(of_numbers[i].name) || memcmp(key.ptr, of_numbers[i].name, key.len) != 0) continue;
        RP_TRY(rp_schema_bound(s, rp_json_string(&s->json, n), of_numbers[i].lower, of_numbers[i].exclusive, &e));
        out->number = rp_rx_and(s->rx, out->number, e);
        out->types &= TYPE_NUMBER | TYPE_INTEGER;
        return RP_OK;
    }
    uint64_t x;
    if (key.len == 9 && memcmp(key.ptr + 3, "Length", 6) == 0) {
        if (!rp_json_u63(&s->json, n, &x) || x > UINT32_MAX - 2)
            return rp_schema_bad(s, node, "a count that is no whole number");
        out->types &= TYPE_STRING;
        if (memcmp(key.ptr, "max", 3) == 0) {
            if (x + 1 > out->min_length) out->min_length = (uint32_t)x + 1;
        } else {
            if (x == 0)
                out->types = 0;
            else if (x - 1 < out->max_length)
                out->max_length = (uint32_t)x - 1;
        }
        return RP_OK;
    }
    *known = false;
    return RP_OK;
}

static RpStatus gather_negated(Schema *s, uint32_t node, Shape *out) {
    const JsonNode    *n   = schema_node(s, node);
    const RpGgufString key = rp_json_key(&s->json, n);
    bool               known;
    RP_TRY(negate_bound(s, node, key, out, &known));
    if (known) return RP_OK;
    if (key.len == 4 && memcmp(key.ptr, "enum", 4) == 0) {
        for (const JsonNode *c = rp_json_first(&s->json, n); c != NULL; c = rp_json_next(&s->json, n, c))
            RP_TRY(exclude(s, c, out));
    } else if (key.len == 5 && memcmp(key.ptr, "const", 5) == 0) {
        RP_TRY(exclude(s, n, out));
    } else if (key.len == 7 && memcmp(key.ptr, "pattern", 7) == 0) {
        Rx e;
        RP_TRY(pattern(s, node, n, &e));
        out->string = rp_rx_except(s->rx, out->string, e);
        out->types &= TYPE_STRING;
    } else if (key.len == 4 && memcmp(key.ptr, "type", 4) == 0) {
        const unsigned t = rp_schema_type_names(s, n);
        if ((t & TYPE_INTEGER) != 0 && (out->types & TYPE_NUMBER) != 0) {
            const Rx whole = rp_schema_pattern(s, "-?[0-9]+(\\.0*)?");
            out->number    = rp_rx_except(s->rx, rp_rx_and(s->rx, out->number, rp_schema_decimal(s)), whole);
            out->types     = (out->types & ~(t & TYPE_ALL)) | ((out->types & TYPE_INTEGER) == 0 ? TYPE_NUMBER : 0) |
                         (out->types & TYPE_INTEGER);
        } else {
            out->types &= ~(t & TYPE_ALL);
        }
    }
    return RP_OK;
}

RpStatus rp_schema_gather(Schema *s, const PartList *l, Shape *out) {
    *out = (Shape){.types       = TYPE_ALL,
                   .number      = RX_ALL,
                   .string      = RX_ALL,
                   .max_length  = UINT32_MAX,
                   .max_items   = UINT32_MAX,
                   .max_members = UINT32_MAX};
    for (size_t i = 0; i < l->n; i++)
        if (part_kind(l->v[i]) == PART_SCHEMA) RP_TRY(gather_schema(s, part_node(l->v[i]), out));
    for (size_t i = 0; i < l->n; i++) {
        const uint32_t node = part_node(l->v[i]);
        switch (part_kind(l->v[i])) {
        case PART_SCHEMA:
        case PART_NOT:
        case PART_DEPENDENT:
        case PART_KINDS:
            break;
        case PART_NEGATED:
            if (part_done(l->v[i]) == 0) RP_TRY(gather_negated(s, node, out));
            break;
        case PART_REQUIRED:
        case PART_KEY:
            out->types &= TYPE_OBJECT;
            RP_TRY(rp_part_push(&out->required, l->v[i]));
            break;
        case PART_KEY_NOT:
            out->types &= TYPE_OBJECT;
            RP_TRY(rp_part_push(&out->required, part_of(node, PART_KEY)));
            RP_TRY(rp_part_push(&out->key_not, l->v[i]));
            break;
        case PART_FORBIDDEN:
            out->types &= TYPE_OBJECT;
            RP_TRY(rp_part_push(&out->forbidden, l->v[i]));
            break;
        case PART_NO_KEY:
            RP_TRY(rp_part_push(&out->forbidden, l->v[i]));
            break;
        }
    }
    return s->rx->status;
}
