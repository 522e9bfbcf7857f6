/* enum and const: the values that satisfy the other keywords. */
#include "grammar/schema/schema.h"

#include "grammar/texts.h"

#include <stdlib.h>

static RpStatus literal(Schema *s, const JsonNode *value, uint32_t next, uint32_t *node);

/* Elements from the last to the first: each is made before what follows it. */
static RpStatus literal_list(Schema *s, const JsonNode *value, uint32_t next, uint32_t *node) {
    const bool is_object = value->type == JSON_OBJECT;
    PartList   children  = {0};
    RpStatus   st        = RP_OK;
    for (const JsonNode *c = rp_json_first(&s->json, value); c != NULL && st == RP_OK;
         c                 = rp_json_next(&s->json, value, c))
        st = rp_part_push(&children, schema_index(s, c));
    *node = rp_schema_token(s, rp_rx_byte(s->rx, is_object ? '}' : ']'), next);
    for (size_t i = children.n; i-- > 0 && st == RP_OK;) {
        const JsonNode *c = schema_node(s, children.v[i]);
        st                = literal(s, c, *node, node);
        if (is_object && st == RP_OK) {
            const RpGgufString key   = rp_json_key(&s->json, c);
            const Rx           name  = rp_schema_quoted(s, rp_schema_text(s, key.ptr, key.len));
            const Rx           colon = rp_rx_cat(s->rx, s->space, rp_rx_byte(s->rx, ':'));
            *node                    = rp_schema_token(s, rp_rx_cat(s->rx, name, colon), *node);
        }
        if (i > 0) *node = rp_schema_token(s, rp_rx_byte(s->rx, ','), *node);
    }
    free(children.v);
    return st;
}

static RpStatus literal(Schema *s, const JsonNode *value, uint32_t next, uint32_t *node) {
    const RpGgufString text = rp_json_string(&s->json, value);
    switch (value->type) {
    case JSON_NULL:
        *node = rp_schema_token(s, rp_rx_text(s->rx, "null", 4), next);
        break;
    case JSON_FALSE:
        *node = rp_schema_token(s, rp_rx_text(s->rx, "false", 5), next);
        break;
    case JSON_TRUE:
        *node = rp_schema_token(s, rp_rx_text(s->rx, "true", 4), next);
        break;
    case JSON_NUMBER:
        *node = rp_schema_token(s, rp_rx_text(s->rx, text.ptr, text.len), next);
        break;
    case JSON_STRING:
        *node = rp_schema_token(s, rp_schema_quoted(s, rp_schema_text(s, text.ptr, text.len)), next);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        RP_TRY(literal_list(s, value, next, node));
        *node = rp_schema_token(s, rp_rx_byte(s->rx, value->type == JSON_ARRAY ? '[' : '{'), *node);
        break;
    }
    return s->rx->status;
}

/* An expression for the JSON strings of n texts. Texts that need no escape share their common prefixes. */
RpStatus rp_schema_texts(Schema *s, RpGgufString *strings, size_t n, Rx *out) {
    size_t plain = 0;
    Rx     e     = RX_NONE;
    for (size_t i = 0; i < n; i++) {
        bool as_it_is = true;
        for (size_t k = 0; k < strings[i].len; k++) {
            const unsigned char c = (unsigned char)strings[i].ptr[k];
            as_it_is &= c >= 0x20 && c < 0x7f && c != '"' && c != '\\' && c != '/';
        }
        if (!as_it_is) {
            e = rp_rx_alt2(s->rx, e, rp_schema_text(s, strings[i].ptr, strings[i].len));
        } else {
            const RpGgufString swap = strings[plain];
            strings[plain++]        = strings[i];
            strings[i]              = swap;
        }
    }
    *out = rp_rx_alt2(s->rx, e, rp_rx_texts(s->rx, strings, plain));
    return s->rx->status;
}

static bool restricts(const Shape *shape, unsigned type) {
    if (type == TYPE_ARRAY) return shape->arrays.n > 0 || shape->min_items > 0 || shape->max_items != UINT32_MAX;
    return shape->objects.n > 0 || shape->required.n > 0 || shape->forbidden.n > 0 || shape->min_members > 0 ||
           shape->max_members != UINT32_MAX;
}

static bool is_whole(RpGgufString text) {
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] != '-' && (text.ptr[i] < '0' || text.ptr[i] > '9')) return false;
    return true;
}

RpStatus rp_schema_values(Schema *s, const Shape *shape, uint32_t next, uint32_t *node) {
    Shape         plain   = *shape; /* syntax and constraints of a string or number */
    RpGgufString *strings = malloc((shape->values.n + 1) * sizeof *strings);
    Rx            scalars = RX_NONE;
    size_t        n       = 0;
    RpStatus      st      = strings == NULL ? rp_fail(RP_E_NOMEM, "out of memory for a grammar") : RP_OK;
    const Rx      lead    = s->lead;
    *node                 = NODE_NEVER;
    for (size_t i = 0; i < shape->values.n && st == RP_OK; i++) {
        const JsonNode *v    = schema_node(s, shape->values.v[i]);
        const unsigned  type = rp_schema_type_of(s, v);
        if ((shape->types & type) == 0) continue;
        if (type == TYPE_STRING) {
            strings[n++] = rp_json_string(&s->json, v);
        } else if (type == TYPE_NUMBER) {
            const RpGgufString text = rp_json_string(&s->json, v);
            Rx                 one  = rp_rx_text(s->rx, text.ptr, text.len);
            if ((shape->types & TYPE_INTEGER) != 0 && !is_whole(text)) continue;
            if (shape->number != RX_ALL) one = rp_rx_and(s->rx, one, rp_schema_number(s, &plain));
            scalars = rp_rx_alt2(s->rx, scalars, one);
        } else if (type == TYPE_ARRAY || type == TYPE_OBJECT) {
            uint32_t one;
            if (restricts(shape, type))
                st = rp_schema_drop(s, shape->values.v[i], "enum", "of arrays or objects with other keywords");
            const Rx space = s->space;
            if (st == RP_OK) st = literal_list(s, v, next, &one);
            if (st == RP_OK)
                one = rp_grammar_lexeme(s->g, rp_rx_cat(s->rx, lead, rp_rx_byte(s->rx, type == TYPE_ARRAY ? '[' : '{')),
                                        one);
            if (st == RP_OK) *node = rp_grammar_choice(s->g, one, *node);
            s->space = space;
        } else {
            scalars = rp_rx_alt2(s->rx, scalars,
                                 rp_rx_text(s->rx,
                                            v->type == JSON_NULL   ? "null"
                                            : v->type == JSON_TRUE ? "true"
                                                                   : "false",
                                            v->type == JSON_FALSE ? 5 : 4));
        }
    }
    if (st == RP_OK && n > 0) {
        Rx content;
        st = rp_schema_texts(s, strings, n, &content);
        if (shape->string != RX_ALL || shape->min_length > 0 || shape->max_length != UINT32_MAX) {
            plain.string = rp_rx_and(s->rx, shape->string, content);
            scalars      = rp_rx_alt2(s->rx, scalars, rp_schema_string(s, &plain));
        } else {
            scalars = rp_rx_alt2(s->rx, scalars, rp_schema_quoted(s, content));
        }
    }
    free(strings);
    if (st == RP_OK && scalars != RX_NONE)
        *node = rp_grammar_choice(s->g, rp_grammar_lexeme(s->g, rp_rx_cat(s->rx, lead, scalars), next), *node);
    return st != RP_OK ? st : s->rx->status;
}
