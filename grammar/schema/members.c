/* The members of an object: those with a name, and the rest by the patterns that their names match.
 *
 *     value of name p  all of:  properties[p] of each schema, patternProperties whose pattern matches p, and
 *                               additionalProperties of each schema that has neither */
#include "grammar/schema/object.h"

#include "grammar/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct NamePattern {
    uint32_t schema, value; /* the schema that has it; the member of its patternProperties */
    Rx       plain, json;   /* of the name: as it is, and as it stands in JSON */
} NamePattern;

typedef struct Patterns {
    NamePattern v[MAX_PATTERNS];
    size_t      n;
} Patterns;

void rp_members_free(Members *m) {
    for (size_t i = 0; i < m->n_named; i++) free(m->named[i].value.v);
    for (size_t i = 0; i < m->n_others; i++) free(m->others[i].value.v);
    free(m->named);
}

static bool same_text(RpGgufString a, RpGgufString b) { return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0; }

/* The member of that name, added if it is new. */
static RpStatus named(Members *m, RpGgufString name, NamedMember **out) {
    for (size_t i = 0; i < m->n_named; i++)
        if (same_text(m->named[i].name, name)) {
            *out = &m->named[i];
            return RP_OK;
        }
    RP_TRY(RP_GROW(m->named, m->room, m->n_named + 1));
    *out  = &m->named[m->n_named++];
    **out = (NamedMember){.name = name};
    return RP_OK;
}

static RpGgufString name_of(const Schema *s, Part p) {
    const JsonNode *n   = schema_node(s, part_node(p));
    const bool      key = part_kind(p) == PART_KEY || part_kind(p) == PART_NO_KEY || part_kind(p) == PART_KEY_NOT;
    return key ? rp_json_key(&s->json, n) : rp_json_string(&s->json, n);
}

static RpStatus find_names(Schema *s, const Shape *shape, Members *m) {
    NamedMember *one;
    for (size_t i = 0; i < shape->objects.n; i++) {
        const JsonNode *list = rp_schema_get(s, shape->objects.v[i], "properties");
        if (list == NULL) continue;
        if (list->type != JSON_OBJECT) return rp_schema_bad(s, shape->objects.v[i], "properties that are no object");
        for (const JsonNode *c = rp_json_first(&s->json, list); c != NULL; c = rp_json_next(&s->json, list, c))
            RP_TRY(named(m, rp_json_key(&s->json, c), &one));
    }
    for (size_t i = 0; i < shape->required.n; i++) {
        RP_TRY(named(m, name_of(s, shape->required.v[i]), &one));
        one->required = true;
    }
    for (size_t i = 0; i < shape->key_not.n; i++) {
        RP_TRY(named(m, name_of(s, shape->key_not.v[i]), &one));
        RP_TRY(rp_part_add(&one->value, part_of(part_node(shape->key_not.v[i]), PART_NOT)));
    }
    return RP_OK;
}

static RpStatus find_patterns(Schema *s, const Shape *shape, Patterns *out) {
    for (size_t i = 0; i < shape->objects.n; i++) {
        const JsonNode *list = rp_schema_get(s, shape->objects.v[i], "patternProperties");
        for (const JsonNode *c = rp_json_first(&s->json, list); c != NULL; c = rp_json_next(&s->json, list, c)) {
            const RpGgufString key = rp_json_key(&s->json, c);
            if (out->n == MAX_PATTERNS) {
                RP_TRY(rp_schema_drop(s, shape->objects.v[i], "patternProperties", "more than 4 patterns"));
                return RP_OK;
            }
            NamePattern *p = &out->v[out->n];
            *p             = (NamePattern){.schema = shape->objects.v[i], .value = schema_index(s, c)};
            RpStatus st    = rp_pattern(s->rx, key.ptr, key.len, PATTERN_SEARCH, &p->plain);
            if (st == RP_OK) st = rp_pattern(s->rx, key.ptr, key.len, PATTERN_SEARCH | PATTERN_JSON, &p->json);
            if (st == RP_E_NOMEM) return st;
            if (st != RP_OK) {
                char why[256];
                snprintf(why, sizeof why, "%.255s", rp_last_error());
                RP_TRY(rp_schema_drop(s, shape->objects.v[i], "patternProperties", why));
                continue;
            }
            out->n++;
        }
    }
    return RP_OK;
}

static const JsonNode *property(const Schema *s, uint32_t schema, RpGgufString name) {
    const JsonNode *list = rp_schema_get(s, schema, "properties");
    for (const JsonNode *c = rp_json_first(&s->json, list); c != NULL; c = rp_json_next(&s->json, list, c))
        if (same_text(rp_json_key(&s->json, c), name)) return c;
    return NULL;
}

/* The schemas that the value of a name must satisfy. matches: a bit for each pattern; `name` may be NULL. */
static RpStatus value_of(Schema *s, const Shape *shape, const Patterns *p, unsigned matches, const RpGgufString *name,
                         PartList *out) {
    for (size_t i = 0; i < shape->objects.n; i++) {
        const uint32_t  schema  = shape->objects.v[i];
        const JsonNode *of_name = name != NULL ? property(s, schema, *name) : NULL;
        const JsonNode *others  = rp_schema_get(s, schema, "additionalProperties");
        bool            known   = of_name != NULL;
        if (known) RP_TRY(rp_part_add(out, part_of(schema_index(s, of_name), PART_SCHEMA)));
        for (size_t k = 0; k < p->n; k++)
            if (p->v[k].schema == schema && (matches >> k & 1) != 0) {
                known = true;
                RP_TRY(rp_part_add(out, part_of(p->v[k].value, PART_SCHEMA)));
            }
        if (!known && others != NULL) RP_TRY(rp_part_add(out, part_of(schema_index(s, others), PART_SCHEMA)));
    }
    return RP_OK;
}

static bool is_false(const Schema *s, const PartList *l) {
    for (size_t i = 0; i < l->n; i++)
        if (part_kind(l->v[i]) == PART_SCHEMA && schema_node(s, part_node(l->v[i]))->type == JSON_FALSE) return true;
    return false;
}

/* The expression of names that propertyNames allows, in JSON. */
static RpStatus allowed_names(Schema *s, const Shape *shape, Rx *out) {
    *out = RX_ALL;
    for (size_t i = 0; i < shape->objects.n; i++) {
        const JsonNode *n = rp_schema_get(s, shape->objects.v[i], "propertyNames");
        PartList        l = {0}, branches = {0};
        Shape           names = {0};
        bool            found;
        if (n == NULL) continue;
        RpStatus st = rp_part_push(&l, part_of(schema_index(s, n), PART_SCHEMA));
        if (st == RP_OK) st = rp_schema_expand(s, &l);
        if (st == RP_OK) st = rp_schema_branch(s, &l, &branches, &found);
        if (st == RP_OK && found) {
            st = rp_schema_drop(s, shape->objects.v[i], "propertyNames", "with alternatives");
        } else if (st == RP_OK) {
            Rx name = RX_NONE;
            st      = rp_schema_gather(s, &l, &names);
            if (st == RP_OK && (names.types & TYPE_STRING) != 0) name = rp_schema_string(s, &names);
            for (size_t k = 0; k < names.values.n && st == RP_OK; k++) {
                const JsonNode    *v    = schema_node(s, names.values.v[k]);
                const RpGgufString text = rp_json_string(&s->json, v);
                Rx                 e    = rp_schema_quoted(s, rp_schema_text(s, text.ptr, text.len));
                if (k == 0) names.string = RX_NONE;
                if (v->type == JSON_STRING) names.string = rp_rx_alt2(s->rx, names.string, rp_rx_and(s->rx, e, name));
            }
            if (names.has_values) name = names.values.n > 0 ? names.string : RX_NONE;
            *out = rp_rx_and(s->rx, *out, name);
        }
        rp_shape_free(&names);
        free(l.v);
        free(branches.v);
        RP_TRY(st);
    }
    return RP_OK;
}

/* Members whose names nothing lists, for each set of patterns that they match. */
static RpStatus find_others(Schema *s, const Shape *shape, const Patterns *p, Rx listed, Rx allowed, Members *m) {
    const Rx any = rp_rx_repeat(s->rx, s->any_char, 0, RX_NO_LIMIT);
    for (unsigned matches = 0; matches < 1u << p->n; matches++) {
        OtherMembers *o = &m->others[m->n_others++];
        *o              = (OtherMembers){.name = any};
        RP_TRY(value_of(s, shape, p, matches, NULL, &o->value));
        for (size_t k = 0; k < p->n; k++)
            o->name = (matches >> k & 1) != 0 ? rp_rx_and(s->rx, o->name, p->v[k].json)
                                              : rp_rx_except(s->rx, o->name, p->v[k].json);
        o->name = rp_schema_quoted(s, rp_rx_except(s->rx, o->name, listed));
        if (allowed != RX_ALL) o->name = rp_rx_and(s->rx, o->name, allowed);
        if (is_false(s, &o->value)) o->name = RX_NONE;
    }
    return s->rx->status;
}

static RpStatus listed_names(Schema *s, const Members *m, Rx *out) {
    RpGgufString *names = malloc((m->n_named + 1) * sizeof *names);
    if (names == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a grammar");
    for (size_t i = 0; i < m->n_named; i++) names[i] = m->named[i].name;
    const RpStatus st = rp_schema_texts(s, names, m->n_named, out);
    free(names);
    return st;
}

static void remove_named(Members *m, size_t k) {
    if (m->named[k].required) m->is_impossible = true;
    free(m->named[k].value.v);
    memmove(m->named + k, m->named + k + 1, (m->n_named - k - 1) * sizeof *m->named);
    m->n_named--;
}

/* Whether an expression over JSON strings takes this text. */
static RpStatus takes(Schema *s, Rx strings, RpGgufString text, bool *out) {
    char  *json = malloc(6 * text.len + 3);
    size_t n    = 0;
    if (json == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a grammar");
    json[n++] = '"';
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.ptr[i];
        if (c < 0x20) {
            n += (size_t)sprintf(json + n, "\\u%04x", c);
            continue;
        }
        if (c == '"' || c == '\\') json[n++] = '\\';
        json[n++] = (char)c;
    }
    json[n++] = '"';
    *out      = rp_rx_match(s->rx, strings, json, n);
    free(json);
    return s->rx->status;
}

/* propertyNames holds for the names that are listed too. */
static RpStatus remove_names_not_allowed(Schema *s, Rx allowed, Members *m) {
    for (size_t k = m->n_named; allowed != RX_ALL && k-- > 0;) {
        bool taken = false;
        RP_TRY(takes(s, allowed, m->named[k].name, &taken));
        if (!taken) remove_named(m, k);
    }
    return RP_OK;
}

RpStatus rp_schema_members(Schema *s, const Shape *shape, Members *m) {
    Patterns patterns = {0};
    Rx       allowed, listed = RX_NONE;
    *m = (Members){0};
    RP_TRY(find_names(s, shape, m));
    RP_TRY(find_patterns(s, shape, &patterns));
    RP_TRY(allowed_names(s, shape, &allowed));
    for (size_t i = 0; i < m->n_named; i++) {
        const RpGgufString name    = m->named[i].name;
        unsigned           matches = 0;
        for (size_t k = 0; k < patterns.n; k++)
            if (rp_rx_match(s->rx, patterns.v[k].plain, name.ptr, name.len)) matches |= 1u << k;
        RP_TRY(value_of(s, shape, &patterns, matches, &name, &m->named[i].value));
    }
    RP_TRY(listed_names(s, m, &listed));
    for (size_t i = 0; i < shape->forbidden.n; i++) {
        const RpGgufString name = name_of(s, shape->forbidden.v[i]);
        listed                  = rp_rx_alt2(s->rx, listed, rp_schema_text(s, name.ptr, name.len));
        for (size_t k = m->n_named; k-- > 0;) {
            if (same_text(m->named[k].name, name)) remove_named(m, k);
        }
    }
    RP_TRY(remove_names_not_allowed(s, allowed, m));
    return find_others(s, shape, &patterns, listed, allowed, m);
}
