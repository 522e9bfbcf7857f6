/* Compiles a schema: makes the rules of all conjunctions of its parts that are reached (rules.c). */
#include "grammar/schema/schema.h"

#include "base/argument.h"
#include "grammar/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SCHEMA_DEPTH = 256, MAX_BRANCH_DEPTH = 64, MAX_BRANCHES = 1500 };

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
    if (st == RP_OK) st = rp_schema_rule_of(s, &root, true, start);
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
