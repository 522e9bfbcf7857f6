/* Compiles a schema: rules for conjunctions of schema parts, each made once. */
#include "grammar/schema/schema.h"

#include "base/argument.h"
#include "grammar/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SCHEMA_DEPTH = 256, MAX_RULES = 1 << 16, MAX_BRANCH_DEPTH = 64, MAX_BRANCHES = 1500 };

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

/* The rule of a sorted conjunction. */
static RpStatus rule_of(Schema *s, const PartList *l, bool first, uint32_t *rule) {
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
    RP_TRY(rule_of(s, l, false, &rule));
    *node = rp_grammar_call(s->g, rule, next);
    return RP_OK;
}

/* Adds an alternative of one lexeme. */
static void scalar(Schema *s, bool wanted, Rx e, uint32_t next, uint32_t *node) {
    if (!wanted || e == RX_NONE) return;
    *node = rp_grammar_choice(s->g, rp_grammar_lexeme(s->g, rp_rx_cat(s->rx, s->lead, e), next), *node);
}

static RpStatus shape_nodes(Schema *s, const Shape *shape, uint32_t next, uint32_t *node) {
    const unsigned t = shape->types;
    uint32_t       one;
    *node = NODE_NEVER;
    if (shape->has_values) return rp_schema_values(s, shape, next, node);
    scalar(s, (t & TYPE_NULL) != 0, rp_rx_text(s->rx, "null", 4), next, node);
    scalar(s, (t & TYPE_BOOLEAN) != 0, rp_rx_alt2(s->rx, rp_rx_text(s->rx, "true", 4), rp_rx_text(s->rx, "false", 5)),
           next, node);
    if ((t & TYPE_NUMBER) != 0) scalar(s, true, rp_schema_number(s, shape), next, node);
    if ((t & TYPE_STRING) != 0) scalar(s, true, rp_schema_string(s, shape), next, node);
    if ((t & TYPE_ARRAY) != 0) {
        RP_TRY(rp_schema_array(s, shape, next, &one));
        *node = rp_grammar_choice(s->g, one, *node);
    }
    if ((t & TYPE_OBJECT) != 0) {
        RP_TRY(rp_schema_object(s, shape, next, &one));
        *node = rp_grammar_choice(s->g, one, *node);
    }
    return s->rx->status;
}

static RpStatus nodes_of(Schema *s, PartList *l, uint32_t next, uint32_t *node);

/* One alternative for each list of branches. */
static RpStatus branch_nodes(Schema *s, const PartList *l, const PartList *branches, uint32_t next, uint32_t *node) {
    RpStatus st = RP_OK;
    *node       = NODE_NEVER;
    for (size_t i = 0; i < branches->n && st == RP_OK; i++) {
        PartList one = {0};
        uint32_t alternative;
        for (size_t k = 0; k < l->n && st == RP_OK; k++) st = rp_part_push(&one, l->v[k]);
        for (; st == RP_OK && branches->v[i] != PART_STOP; i++) st = rp_part_add(&one, branches->v[i]);
        if (st == RP_OK) st = nodes_of(s, &one, next, &alternative);
        if (st == RP_OK) *node = rp_grammar_choice(s->g, alternative, *node);
        free(one.v);
    }
    return st;
}

static RpStatus nodes_of(Schema *s, PartList *l, uint32_t next, uint32_t *node) {
    PartList branches = {0};
    Shape    shape    = {0};
    bool     found    = false;
    if (s->depth >= MAX_BRANCH_DEPTH || ++s->branches > MAX_BRANCHES)
        return rp_fail(RP_E_UNSUPPORTED, "JSON schema: more than %d alternatives of anyOf, oneOf, if and not",
                       MAX_BRANCHES);
    s->depth++;
    *node       = NODE_NEVER;
    RpStatus st = rp_schema_expand(s, l);
    if (st == RP_OK) st = rp_schema_branch(s, l, &branches, &found);
    if (st == RP_OK && found) {
        st = branch_nodes(s, l, &branches, next, node);
    } else if (st == RP_OK) {
        st = rp_schema_gather(s, l, &shape);
        if (st == RP_OK) st = shape_nodes(s, &shape, next, node);
    }
    rp_shape_free(&shape);
    free(branches.v);
    s->depth--;
    return st;
}

static RpStatus make_rule(Schema *s, size_t i) {
    const SchemaRule r  = s->rules[i];
    PartList         l  = {0};
    RpStatus         st = RP_OK;
    uint32_t         start;
    for (uint32_t k = 0; k < r.n_parts && st == RP_OK; k++) st = rp_part_push(&l, s->parts.v[r.parts + k]);
    s->lead = r.first ? RX_EMPTY_TEXT : s->space;
    if (st == RP_OK) st = nodes_of(s, &l, rp_grammar_end(s->g, r.rule), &start);
    if (st == RP_OK) rp_grammar_define(s->g, r.rule, start);
    free(l.v);
    return st != RP_OK ? st : s->g->status;
}

static void set_up(Schema *s) {
    s->space = RX_EMPTY_TEXT;
    if ((s->flags & RP_GRAMMAR_COMPACT) == 0) s->space = rp_schema_pattern(s, "( |\\r?\\n[ \\t]{0,40})?");
    s->any_char              = rp_pattern_any(s->rx, PATTERN_JSON);
    const JsonNode    *draft = rp_json_get(&s->json, s->json.nodes, "$schema");
    const RpGgufString uri   = rp_json_string(&s->json, draft);
    for (size_t i = 0; i + 7 < uri.len; i++)
        if (memcmp(uri.ptr + i, "draft-0", 7) == 0) s->old_refs = uri.ptr[i + 7] <= '7';
}

static RpStatus compile(Schema *s, uint32_t *start) {
    PartList root = {0};
    set_up(s);
    RpStatus st = rp_part_push(&root, part_of(0, PART_SCHEMA));
    if (st == RP_OK) st = rule_of(s, &root, true, start);
    free(root.v);
    for (size_t i = 0; i < s->n_rules && st == RP_OK; i++) st = make_rule(s, i);
    return st != RP_OK ? st : s->rx->status;
}

RpStatus rp_schema_rule(RpGrammar *g, const char *schema, size_t n, unsigned flags, uint32_t *rule) {
    Schema s = {.g = g, .rx = &g->rx, .flags = flags};
    *rule    = 0;
    if ((flags & ~(unsigned)(RP_GRAMMAR_WEAKEN | RP_GRAMMAR_COMPACT | RP_GRAMMAR_ANY_ORDER)) != 0)
        return rp_fail(RP_E_ARG, "grammar: unknown flags 0x%x", flags);
    RpStatus st = rp_json_read_nested("JSON schema", schema, n, MAX_SCHEMA_DEPTH, &s.json);
    if (st == RP_OK) st = compile(&s, rule);
    rp_json_free(&s.json);
    free(s.parts.v);
    free(s.rules);
    rp_table_free(&s.table);
    return st;
}

RpStatus rp_grammar_json_schema(const char *schema, size_t n, unsigned flags, RpGrammar **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(schema, "schema");
    RpGrammar *g;
    uint32_t   start = 0;
    RP_TRY(rp_grammar_open(&g));
    const RpStatus st = rp_schema_rule(g, schema, n, flags, &start);
    return rp_grammar_finish(g, start, st, out);
}

RpStatus rp_grammar_json(unsigned flags, RpGrammar **out) {
    static const char any_object[] = "{\"type\": \"object\"}";
    RP_OUT(out, "out");
    return rp_grammar_json_schema(any_object, sizeof any_object - 1, flags & ~(unsigned)RP_GRAMMAR_WEAKEN, out);
}
