/* Objects. Members come in the order of the schema. A node stands for a place in this order and the number of members
 * before it, as far as that matters: whether a comma is needed, and whether minProperties and maxProperties hold.
 *
 *     place i, count c:  member i -> (i + 1, c + 1)      unless it is required: (i + 1, c)
 *     place n, count c:  "}" if c >= minProperties;      another member -> (n, c + 1)
 *
 * In any order, a node stands for the set of listed members that have come; of many members, of the required ones:
 *
 *     set S:  member i, not in S -> S + i;    "}" if S has all that are required */
#include "grammar/schema/object.h"

#include <stdlib.h>

enum { MAX_COUNT_NODES = 200000, MOST_IN_SET = 6 };

typedef struct ObjectNodes {
    Schema        *s;
    const Members *m;
    Rx            *names;  /* of the named members, with quotes and colon */
    size_t         lo, hi; /* minProperties and maxProperties */
    size_t         cap;    /* counts from here on are alike */
    uint32_t       close;
} ObjectNodes;

/* The name, after a comma if members came before, then its value. */
static RpStatus member(const ObjectNodes *o, Rx name, const PartList *value, bool comma, uint32_t next,
                       uint32_t *node) {
    Schema  *s    = o->s;
    PartList copy = {0};
    RpStatus st   = RP_OK;
    *node         = NODE_NEVER;
    if (name == RX_NONE || next == NODE_NEVER) return RP_OK;
    for (size_t i = 0; i < value->n && st == RP_OK; i++) st = rp_part_push(&copy, value->v[i]);
    if (st == RP_OK) st = rp_schema_value(s, &copy, next, node);
    free(copy.v);
    if (comma) name = rp_rx_cat(s->rx, rp_rx_byte(s->rx, ','), rp_rx_cat(s->rx, s->space, name));
    *node = rp_schema_token(s, name, *node);
    return st;
}

static Rx with_colon(Schema *s, Rx name) {
    return rp_rx_cat(s->rx, name, rp_rx_cat(s->rx, s->space, rp_rx_byte(s->rx, ':')));
}

/* Behind the named members, for each count from the highest down. */
static RpStatus last_place(const ObjectNodes *o, uint32_t *row) {
    Schema *s = o->s;
    for (size_t c = o->cap + 1; c-- > 0;) {
        const bool loops = c == o->cap && o->hi == UINT32_MAX, more = c < o->hi;
        uint32_t   all = NODE_NEVER, one;
        row[c]         = rp_grammar_choice(s->g, NODE_NEVER, c >= o->lo ? o->close : NODE_NEVER);
        for (size_t k = 0; k < o->m->n_others && more; k++) {
            const OtherMembers *other = &o->m->others[k];
            if (other->name == RX_NONE) continue;
            RP_TRY(member(o, with_colon(s, other->name), &other->value, c > 0, loops ? row[c] : row[c + 1], &one));
            all = rp_grammar_choice(s->g, one, all);
        }
        rp_grammar_set_first(s->g, row[c], all);
    }
    return RP_OK;
}

static RpStatus make(ObjectNodes *o, uint32_t *row, uint32_t *first) {
    Schema *s = o->s;
    RP_TRY(last_place(o, row));
    for (size_t i = o->m->n_named; i-- > 0;) {
        const NamedMember *named = &o->m->named[i];
        for (size_t c = 0; c <= o->cap && c <= i; c++) { /* row[c + 1] is still that of the place behind */
            const size_t more = c < o->cap ? c + 1 : c;
            uint32_t     one  = NODE_NEVER;
            if (c < o->hi) RP_TRY(member(o, o->names[i], &named->value, c > 0, row[more], &one));
            row[c] = named->required ? one : rp_grammar_choice(s->g, one, row[c]);
        }
    }
    *first = row[0];
    return RP_OK;
}

/* The members that sets have: all, or those that are required. False: the members keep their order. */
static bool has_sets(const ObjectNodes *o, size_t n_required, bool *all) {
    *all = o->m->n_named <= MOST_IN_SET;
    return (o->s->flags & RP_GRAMMAR_ANY_ORDER) != 0 && n_required <= MOST_IN_SET && o->lo == 0 && o->hi == UINT32_MAX;
}

/* nodes[2 * set]: no member has come; nodes[2 * set + 1]: some have. */
static RpStatus set_node(const ObjectNodes *o, unsigned set, bool comma, bool all, uint32_t *nodes) {
    Schema  *s    = o->s;
    unsigned bit  = 1;
    bool     done = true;
    uint32_t any = NODE_NEVER, one, *at = &nodes[2 * set + comma];
    *at = rp_grammar_choice(s->g, NODE_NEVER, NODE_NEVER);
    for (size_t i = 0; i < o->m->n_named; i++) {
        const NamedMember *named = &o->m->named[i];
        const bool         in    = all || named->required;
        const unsigned     to    = in ? set | bit : set;
        if (!in || (set & bit) == 0) {
            done &= !named->required;
            const uint32_t next = to == set && comma ? *at : nodes[2 * to + 1];
            RP_TRY(member(o, o->names[i], &named->value, comma, next, &one));
            any = rp_grammar_choice(s->g, one, any);
        }
        if (in) bit <<= 1;
    }
    for (size_t k = 0; k < o->m->n_others; k++) {
        const OtherMembers *other = &o->m->others[k];
        if (other->name == RX_NONE) continue;
        RP_TRY(member(o, with_colon(s, other->name), &other->value, comma, comma ? *at : nodes[2 * set + 1], &one));
        any = rp_grammar_choice(s->g, one, any);
    }
    rp_grammar_set_first(s->g, *at, rp_grammar_choice(s->g, any, done ? o->close : NODE_NEVER));
    return RP_OK;
}

static RpStatus make_sets(const ObjectNodes *o, size_t n_required, bool all, uint32_t *first) {
    uint32_t       nodes[2 << MOST_IN_SET];
    const unsigned n = 1u << (all ? o->m->n_named : n_required);
    for (unsigned set = n; set-- > 0;) {
        RP_TRY(set_node(o, set, true, all, nodes));
        if (set == 0) RP_TRY(set_node(o, set, false, all, nodes));
    }
    *first = nodes[0];
    return RP_OK;
}

RpStatus rp_schema_object(Schema *s, const Shape *shape, uint32_t next, uint32_t *node) {
    Members     m;
    ObjectNodes o   = {.s = s, .m = &m, .lo = shape->min_members, .hi = shape->max_members};
    uint32_t   *row = NULL, first = NODE_NEVER;
    const Rx    lead  = s->lead;
    RpStatus    st    = rp_schema_members(s, shape, &m);
    *node             = NODE_NEVER;
    o.cap             = o.hi != UINT32_MAX ? o.hi : o.lo > 1 ? o.lo : 1;
    size_t n_required = 0, n_open = 0;
    for (size_t i = 0; i < m.n_named; i++) n_required += m.named[i].required;
    for (size_t i = 0; i < m.n_others; i++) n_open += m.others[i].name != RX_NONE;
    if (o.lo <= n_required) o.lo = 0;
    if (n_open == 0 && o.hi >= m.n_named) o.hi = UINT32_MAX;
    if (n_open == 0 && o.lo > m.n_named) m.is_impossible = true;
    o.cap = o.hi != UINT32_MAX ? o.hi : o.lo > 1 ? o.lo : 1;
    if (st == RP_OK && (o.cap + 1) * (m.n_named + 1) > MAX_COUNT_NODES) {
        st = rp_schema_drop(s, 0, o.hi != UINT32_MAX ? "maxProperties" : "minProperties", "the numbers are too large");
        o.lo  = 0;
        o.hi  = UINT32_MAX;
        o.cap = 1;
    }
    if (st == RP_OK && !m.is_impossible && shape->min_members <= shape->max_members) {
        row     = malloc((o.cap + 2) * sizeof *row);
        o.names = malloc((m.n_named + 1) * sizeof *o.names);
        st      = row == NULL || o.names == NULL ? rp_fail(RP_E_NOMEM, "out of memory for a grammar") : RP_OK;
        for (size_t i = 0; i < m.n_named && st == RP_OK; i++)
            o.names[i] =
                with_colon(s, rp_schema_quoted(s, rp_schema_text(s, m.named[i].name.ptr, m.named[i].name.len)));
        o.close = rp_schema_token(s, rp_rx_byte(s->rx, '}'), next);
        bool all;
        if (st == RP_OK)
            st = has_sets(&o, n_required, &all) ? make_sets(&o, n_required, all, &first) : make(&o, row, &first);
        if (st == RP_OK) *node = rp_grammar_lexeme(s->g, rp_rx_cat(s->rx, lead, rp_rx_byte(s->rx, '{')), first);
    }
    free(row);
    free(o.names);
    rp_members_free(&m);
    return st != RP_OK ? st : s->rx->status;
}
