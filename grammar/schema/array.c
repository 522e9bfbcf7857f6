/* Arrays: a node for each number of elements, up to where all further ones are alike. */
#include "grammar/schema/schema.h"

#include <stdlib.h>

enum { MAX_ITEMS_COUNTED = 10000 };

/* The schema of element i in one of the conjunction's schemas: prefixItems, or items as an array before 2020-12. */
static RpStatus add_item(Schema *s, PartList *l, uint32_t node, size_t i) {
    const JsonNode *prefix = rp_schema_get(s, node, "prefixItems"), *rest = rp_schema_get(s, node, "items");
    if (prefix == NULL && rest != NULL && rest->type == JSON_ARRAY) {
        prefix = rest;
        rest   = rp_schema_get(s, node, "additionalItems");
    }
    if (prefix != NULL && prefix->type != JSON_ARRAY) return rp_schema_bad(s, node, "prefixItems that is no array");
    size_t k = 0;
    for (const JsonNode *c = rp_json_first(&s->json, prefix); c != NULL; c = rp_json_next(&s->json, prefix, c))
        if (k++ == i) return rp_part_add(l, part_of(schema_index(s, c), PART_SCHEMA));
    return rest != NULL ? rp_part_add(l, part_of(schema_index(s, rest), PART_SCHEMA)) : RP_OK;
}

static size_t longest_prefix(const Schema *s, const Shape *shape) {
    size_t longest = 0;
    for (size_t i = 0; i < shape->arrays.n; i++) {
        const JsonNode *prefix = rp_schema_get(s, shape->arrays.v[i], "prefixItems");
        const JsonNode *items  = rp_schema_get(s, shape->arrays.v[i], "items");
        if (prefix == NULL && items != NULL && items->type == JSON_ARRAY) prefix = items;
        if (prefix != NULL && prefix->n > longest) longest = prefix->n;
    }
    return longest;
}

/* The one schema that some element has to satisfy, or UINT32_MAX. */
static RpStatus contained(Schema *s, const Shape *shape, uint32_t *found) {
    *found = UINT32_MAX;
    for (size_t i = 0; i < shape->arrays.n; i++) {
        const uint32_t  node = shape->arrays.v[i];
        const JsonNode *c = rp_schema_get(s, node, "contains"), *min = rp_schema_get(s, node, "minContains");
        uint64_t        n = 1;
        if (c == NULL) continue;
        if (min != NULL && rp_json_u63(&s->json, min, &n) && n == 0) continue;
        if (n > 1 || *found != UINT32_MAX)
            RP_TRY(rp_schema_drop(s, node, "contains", n > 1 ? "minContains above 1" : "two of them"));
        else
            *found = schema_index(s, c);
    }
    return RP_OK;
}

typedef struct ArrayNodes {
    Schema      *s;
    const Shape *shape;
    uint32_t     close;    /* the node of "]" */
    uint32_t     contains; /* schema, or UINT32_MAX */
    size_t       i;        /* elements before */
} ArrayNodes;

/* One more element, which also satisfies `contains` if asked, with its comma. */
static RpStatus element(const ArrayNodes *a, bool contains, uint32_t next, uint32_t *node) {
    PartList l  = {0};
    RpStatus st = RP_OK;
    for (size_t k = 0; k < a->shape->arrays.n && st == RP_OK; k++) st = add_item(a->s, &l, a->shape->arrays.v[k], a->i);
    if (contains && st == RP_OK) st = rp_part_add(&l, part_of(a->contains, PART_SCHEMA));
    if (st == RP_OK) st = rp_schema_value(a->s, &l, next, node);
    free(l.v);
    if (st == RP_OK && a->i > 0) *node = rp_schema_token(a->s, rp_rx_byte(a->s->rx, ','), *node);
    return st;
}

/* The rest of an array after a->i elements. [1]: one of them satisfied `contains`. next[]: the same after one more;
 * NODE_NEVER if that is too many. With `loop` the node follows itself. */
static RpStatus after(const ArrayNodes *a, bool loop, const uint32_t next[2], uint32_t out[2]) {
    const bool may_end = a->i >= a->shape->min_items;
    for (int has = a->contains != UINT32_MAX; has >= 0; has--) {
        const bool closes = may_end && (has == 1 || a->contains == UINT32_MAX);
        uint32_t   one, with = NODE_NEVER;
        out[has] = rp_grammar_choice(a->s->g, NODE_NEVER, closes ? a->close : NODE_NEVER);
        RP_TRY(element(a, false, loop ? out[has] : next[has], &one));
        if (has == 0 && a->contains != UINT32_MAX) {
            RP_TRY(element(a, true, loop ? out[1] : next[1], &with));
            one = rp_grammar_choice(a->s->g, one, with);
        }
        rp_grammar_set_first(a->s->g, out[has], one);
    }
    if (a->contains == UINT32_MAX) out[1] = out[0];
    return RP_OK;
}

RpStatus rp_schema_array(Schema *s, const Shape *shape, uint32_t next, uint32_t *node) {
    ArrayNodes   a        = {.s = s, .shape = shape};
    const size_t prefix   = longest_prefix(s, shape);
    Shape        limits   = *shape;
    const Rx     lead     = s->lead;
    uint32_t     later[2] = {NODE_NEVER, NODE_NEVER}, here[2];
    *node                 = NODE_NEVER;
    if (shape->min_items > shape->max_items) return RP_OK;
    if (shape->max_items != UINT32_MAX && shape->max_items > MAX_ITEMS_COUNTED) {
        limits.max_items = UINT32_MAX;
        RP_TRY(rp_schema_drop(s, shape->arrays.n > 0 ? shape->arrays.v[0] : 0, "maxItems", "more than 10000"));
    }
    if (shape->min_items > MAX_ITEMS_COUNTED) {
        limits.min_items = MAX_ITEMS_COUNTED;
        RP_TRY(rp_schema_drop(s, shape->arrays.n > 0 ? shape->arrays.v[0] : 0, "minItems", "more than 10000"));
    }
    a.shape = &limits;
    RP_TRY(contained(s, shape, &a.contains));
    a.close = rp_schema_token(s, rp_rx_byte(s->rx, ']'), next);
    /* from this number of elements on all are alike; at least one, as the first has no comma */
    size_t last = prefix > limits.min_items ? prefix : limits.min_items;
    if (last < 1) last = 1;
    if (limits.max_items != UINT32_MAX) {
        last = limits.max_items;
        for (int has = 0; has < 2; has++) here[has] = has == 1 || a.contains == UINT32_MAX ? a.close : NODE_NEVER;
    } else {
        a.i = last;
        RP_TRY(after(&a, true, later, here));
    }
    for (a.i = last; a.i-- > 0;) {
        later[0] = here[0], later[1] = here[1];
        RP_TRY(after(&a, false, later, here));
    }
    *node = rp_grammar_lexeme(s->g, rp_rx_cat(s->rx, lead, rp_rx_byte(s->rx, '[')), here[0]);
    return s->rx->status;
}
