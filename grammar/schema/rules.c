/* Conjunctions of schema parts and the rule of each, which is made once; keywords, texts and errors of a schema. */
#include "grammar/schema/schema.h"

#include "grammar/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RULES = 1 << 16 };

RpStatus rp_part_push(PartList *l, Part p) {
    RP_TRY(RP_GROW(l->v, l->room, l->n + 1));
    l->v[l->n++] = p;
    return RP_OK;
}

RpStatus rp_part_add(PartList *l, Part p) {
    for (size_t i = 0; i < l->n; i++)
        if ((l->v[i] & ~PART_DONE) == (p & ~PART_DONE)) return RP_OK;
    return rp_part_push(l, p);
}

const JsonNode *rp_schema_get(const Schema *s, uint32_t node, const char *key) {
    return rp_json_get(&s->json, schema_node(s, node), key);
}

/* The JSON pointer of a node, cut if it is long. */
static void path_of(const Schema *s, uint32_t node, char *out, size_t room) {
    uint32_t at = 0;
    size_t   n  = (size_t)snprintf(out, room, "#");
    while (at != node && n < room) {
        const JsonNode *parent = schema_node(s, at), *child = rp_json_first(&s->json, parent);
        size_t          index = 0;
        while (child != NULL && child->end <= node) {
            child = rp_json_next(&s->json, parent, child);
            index++;
        }
        if (child == NULL) return;
        const RpGgufString key = rp_json_key(&s->json, child);
        if (parent->type == JSON_OBJECT)
            n += (size_t)snprintf(out + n, room - n, "/%.*s", (int)(key.len < 100 ? key.len : 100), key.ptr);
        else
            n += (size_t)snprintf(out + n, room - n, "/%zu", index);
        at = schema_index(s, child);
    }
}

RpStatus rp_schema_drop(Schema *s, uint32_t node, const char *keyword, const char *why) {
    char path[512];
    path_of(s, node, path, sizeof path);
    if ((s->flags & RP_GRAMMAR_WEAKEN) != 0)
        return rp_grammar_note(s->g, "%s at %s is ignored%s%s", keyword, path, why[0] != '\0' ? ": " : "", why);
    return rp_fail(RP_E_UNSUPPORTED, "JSON schema: %s at %s is not supported%s%s", keyword, path,
                   why[0] != '\0' ? ": " : "", why);
}

RpStatus rp_schema_bad(const Schema *s, uint32_t node, const char *what) {
    char path[512];
    path_of(s, node, path, sizeof path);
    return rp_fail(RP_E_FORMAT, "JSON schema: %s at %s", what, path);
}

uint32_t rp_schema_token(Schema *s, Rx token, uint32_t next) {
    return rp_grammar_lexeme(s->g, rp_rx_cat(s->rx, s->space, token), next);
}

Rx rp_schema_text(Schema *s, const char *text, size_t n) {
    const char *p = text, *end  = text + n;
    Rx          chars[256], all = RX_EMPTY_TEXT;
    size_t      k = 0;
    while (p < end && s->rx->status == RP_OK) {
        const uint32_t c     = rp_code_point(&p, end);
        CharRange      one   = {c, c};
        const Charset  set   = {&one, 1, 1};
        const bool     plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
        chars[k++]           = plain ? rp_rx_byte(s->rx, (unsigned char)c) : rp_charset_json(s->rx, &set);
        if (k < sizeof chars / sizeof chars[0] && p < end) continue;
        Rx some = RX_EMPTY_TEXT;
        while (k > 0) some = rp_rx_cat(s->rx, chars[--k], some);
        all = rp_rx_cat(s->rx, all, some);
    }
    return all;
}

Rx rp_schema_quoted(Schema *s, Rx content) {
    const Rx quote = rp_rx_byte(s->rx, '"');
    return rp_rx_cat(s->rx, quote, rp_rx_cat(s->rx, content, quote));
}

Rx rp_schema_pattern(Schema *s, const char *pattern) {
    Rx e = RX_NONE;
    if (s->rx->status == RP_OK) s->rx->status = rp_pattern(s->rx, pattern, strlen(pattern), 0, &e);
    return e;
}

static int rising(const void *a, const void *b) {
    const Part x = *(const Part *)a, y = *(const Part *)b;
    return x < y ? -1 : x > y;
}

RpStatus rp_schema_rule_of(Schema *s, const PartList *l, bool first, uint32_t *rule) {
    uint32_t h = first;
    for (size_t i = 0; i < l->n; i++) h = rp_mix(h, l->v[i]);
    RP_TRY(rp_table_reserve(&s->table));
    size_t at = h & s->table.mask;
    for (; s->table.slots[at] != 0; at = (at + 1) & s->table.mask) {
        const SchemaRule *r = &s->rules[s->table.slots[at] - 1];
        if (r->first == first && r->n_parts == l->n &&
            (l->n == 0 || memcmp(s->parts.v + r->parts, l->v, l->n * sizeof *l->v) == 0)) {
            *rule = r->rule;
            return RP_OK;
        }
    }
    if (s->n_rules >= MAX_RULES)
        return rp_fail(RP_E_UNSUPPORTED, "JSON schema: more than %d combinations of schemas", MAX_RULES);
    RP_TRY(RP_GROW(s->rules, s->rule_room, s->n_rules + 1));
    *rule                  = rp_grammar_rule(s->g);
    s->rules[s->n_rules++] = (SchemaRule){(uint32_t)s->parts.n, (uint32_t)l->n, *rule, first};
    for (size_t i = 0; i < l->n; i++) RP_TRY(rp_part_push(&s->parts, l->v[i]));
    rp_table_put(&s->table, at, h);
    return RP_OK;
}

RpStatus rp_schema_value(Schema *s, PartList *l, uint32_t next, uint32_t *node) {
    uint32_t rule;
    *node = NODE_NEVER;
    if (next == NODE_NEVER) return RP_OK;
    if (l->n > 1) qsort(l->v, l->n, sizeof *l->v, rising);
    RP_TRY(rp_schema_rule_of(s, l, false, &rule));
    *node = rp_grammar_call(s->g, rule, next);
    return RP_OK;
}
