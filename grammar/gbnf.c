/* GBNF, the format of llama.cpp:
 *
 *     rule         name ::= alternatives
 *     element      "text"  [class]  .  name  ( alternatives )  <[token]> is not supported
 *     repetition   * + ? {n} {n,} {n,m}
 *     comment      from # to the end of the line
 *
 * A rule goes on over line ends inside of parentheses and behind "::=" and "|". Elements between calls of rules are
 * joined to one lexeme. The text is read several times: a rule that turned out to be regular is put into its callers
 * the next time, if it is small, until nothing changes. */
#include "grammar/grammar.h"
#include "grammar/pattern.h"
#include "grammar/pattern_class.h"

#include "base/argument.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 200, MAX_COUNT = 10000, MAX_INLINE = 500, MAX_READINGS = 12 };

typedef struct GbnfRule {
    RpGgufString name;
    uint32_t     rule;
    size_t       used_at; /* byte at which it was named first */
    bool         defined;
    Rx           regular; /* of the reading before; RX_NONE: it is not, or is too large */
    size_t       size;    /* of it, in elements */
} GbnfRule;

typedef struct Gbnf {
    RpGrammar  *g;
    const char *text, *at, *end;
    GbnfRule   *rules;
    size_t      n_rules, room;
    int         depth;
    bool        changed;                              /* a rule turned out to be regular */
    size_t      first_node, first_rule, first_lexeme; /* the first of its own */
} Gbnf;

/* A piece of a rule: an expression if it is regular, else nodes to be made before what follows. */
typedef struct Piece {
    Rx       regular;
    uint32_t rule; /* UINT32_MAX: it is regular */
    size_t   size; /* elements of a regular one */
} Piece;

static RpStatus bad(const Gbnf *p, const char *what) {
    size_t line = 1, column = 1;
    for (const char *c = p->text; c < p->at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    return rp_fail(RP_E_FORMAT, "GBNF:%zu:%zu: %s", line, column, what);
}

static void skip(Gbnf *p, bool lines) {
    while (p->at < p->end) {
        if (*p->at == '#') {
            while (p->at < p->end && *p->at != '\n' && *p->at != '\r') p->at++;
        } else if (*p->at == ' ' || *p->at == '\t' || (lines && (*p->at == '\n' || *p->at == '\r'))) {
            p->at++;
        } else {
            return;
        }
    }
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static RpStatus rule_named(Gbnf *p, RpGgufString name, GbnfRule **out) {
    for (size_t i = 0; i < p->n_rules; i++)
        if (p->rules[i].name.len == name.len && memcmp(p->rules[i].name.ptr, name.ptr, name.len) == 0) {
            *out = &p->rules[i];
            return RP_OK;
        }
    RP_TRY(RP_GROW(p->rules, p->room, p->n_rules + 1));
    *out  = &p->rules[p->n_rules++];
    **out = (GbnfRule){.name = name, .rule = rp_grammar_rule(p->g), .used_at = (size_t)(p->at - p->text)};
    return p->g->status;
}

static RpStatus read_name(Gbnf *p, RpGgufString *name) {
    const char *first = p->at;
    while (p->at < p->end && is_name(*p->at)) p->at++;
    *name = (RpGgufString){first, (size_t)(p->at - first)};
    return name->len > 0 ? RP_OK : bad(p, "a name is expected");
}

/* A character of a text in quotes, also \xNN, \uNNNN, \UNNNNNNNN. */
static RpStatus character(Gbnf *p, Rx *out) {
    Charset  set = {0};
    uint32_t c;
    RpStatus st;
    if (*p->at == '\\' && p->end - p->at > 1) {
        Pattern s = {.text = p->text, .at = p->at + 1, .end = p->end, .gbnf = true};
        st        = rp_pattern_escape(&s, &set, &c);
        if (st == RP_OK && c == NOT_SINGLE) st = bad(p, "an escape that is no character");
        p->at = s.at;
    } else {
        c  = rp_code_point(&p->at, p->end);
        st = rp_charset_add(&set, c, c);
    }
    *out = rp_charset_utf8(&p->g->rx, &set);
    rp_charset_free(&set);
    return st;
}

static RpStatus literal(Gbnf *p, Rx *out) {
    const char *open  = p->at++;
    Rx         *chars = NULL;
    size_t      n = 0, room = 0;
    RpStatus    st = RP_OK;
    *out           = RX_EMPTY_TEXT;
    while (p->at < p->end && *p->at != '"' && st == RP_OK) {
        st = RP_GROW(chars, room, n + 1);
        if (st == RP_OK) st = character(p, &chars[n++]);
    }
    while (n > 0) *out = rp_rx_cat(&p->g->rx, chars[--n], *out);
    free(chars);
    RP_TRY(st);
    if (p->at == p->end) {
        p->at = open;
        return bad(p, "a text without closing quote");
    }
    p->at++;
    return RP_OK;
}

static RpStatus alternatives(Gbnf *p, Piece *out, bool nested);

static RpStatus element(Gbnf *p, Piece *out) {
    *out = (Piece){RX_NONE, UINT32_MAX, 1};
    if (*p->at == '"') return literal(p, &out->regular);
    if (*p->at == '.') {
        p->at++;
        out->regular = rp_pattern_any(&p->g->rx, 0);
        return RP_OK;
    }
    if (*p->at == '[') {
        Charset set = {0};
        p->at++;
        const RpStatus st = rp_pattern_class(p->text, p->end, &p->at, &set);
        if (st == RP_OK) out->regular = rp_charset_utf8(&p->g->rx, &set);
        rp_charset_free(&set);
        return st;
    }
    if (*p->at == '(') {
        p->at++;
        if (++p->depth > MAX_NESTING) return bad(p, "groups nested too deeply");
        RP_TRY(alternatives(p, out, true));
        p->depth--;
        skip(p, true);
        if (p->at == p->end || *p->at != ')') return bad(p, "a group without )");
        p->at++;
        return RP_OK;
    }
    RpGgufString name;
    GbnfRule    *rule;
    RP_TRY(read_name(p, &name));
    RP_TRY(rule_named(p, name, &rule));
    if (rule->regular != RX_NONE)
        *out = (Piece){rule->regular, UINT32_MAX, rule->size};
    else
        out->rule = rule->rule;
    return RP_OK;
}

/* The node of a piece before `next`. */
static uint32_t node_of(Gbnf *p, Piece piece, uint32_t next) {
    return piece.rule == UINT32_MAX ? rp_grammar_lexeme(p->g, piece.regular, next)
                                    : rp_grammar_call(p->g, piece.rule, next);
}

static Piece new_rule(Gbnf *p, uint32_t rule, uint32_t start) {
    rp_grammar_define(p->g, rule, start);
    return (Piece){RX_NONE, rule, 1};
}

/* lo to hi times; hi may be RX_NO_LIMIT. */
static Piece repeat(Gbnf *p, Piece piece, uint32_t lo, uint32_t hi) {
    if (piece.rule == UINT32_MAX)
        return (Piece){rp_rx_repeat(&p->g->rx, piece.regular, lo, hi), UINT32_MAX, piece.size};
    const uint32_t rule = rp_grammar_rule(p->g), end = rp_grammar_end(p->g, rule);
    uint32_t       node = end;
    if (hi == RX_NO_LIMIT) {
        node = rp_grammar_choice(p->g, NODE_NEVER, end);
        rp_grammar_set_first(p->g, node, rp_grammar_call(p->g, piece.rule, node));
    } else {
        for (uint32_t i = lo; i < hi; i++) node = rp_grammar_choice(p->g, rp_grammar_call(p->g, piece.rule, node), end);
    }
    while (lo-- > 0) node = rp_grammar_call(p->g, piece.rule, node);
    return new_rule(p, rule, node);
}

static bool number(Gbnf *p, uint32_t *out) {
    uint64_t    x     = 0;
    const char *first = p->at;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        if (x < UINT32_MAX) x = x * 10 + (uint64_t)(*p->at - '0');
    *out = x < UINT32_MAX ? (uint32_t)x : UINT32_MAX - 1;
    return p->at > first;
}

static RpStatus repetition(Gbnf *p, Piece *piece) {
    while (p->at < p->end && strchr("*+?{", *p->at) != NULL && *p->at != '\0') {
        const char kind = *p->at++;
        uint32_t   lo = kind == '+', hi = kind == '?' ? 1 : RX_NO_LIMIT;
        if (kind == '{') {
            skip(p, true);
            const bool has_lo = number(p, &lo);
            skip(p, true);
            const bool comma = p->at < p->end && *p->at == ',';
            if (comma) {
                p->at++;
                skip(p, true);
                if (!number(p, &hi)) hi = RX_NO_LIMIT;
                skip(p, true);
            } else {
                hi = lo;
            }
            if (!has_lo && (!comma || hi == RX_NO_LIMIT)) return bad(p, "a count is expected");
            if (p->at == p->end || *p->at != '}') return bad(p, "} is expected");
            p->at++;
            if (lo > hi) return bad(p, "a repetition whose lowest count is above its highest");
            if (lo > MAX_COUNT || (hi != RX_NO_LIMIT && hi > MAX_COUNT)) return bad(p, "a count above 10000");
        }
        *piece = repeat(p, *piece, lo, hi);
    }
    return p->g->status;
}

/* One alternative, as pieces; neighbours that are regular are joined. */
static RpStatus sequence(Gbnf *p, Piece **pieces, size_t *n, size_t *room, bool nested) {
    *n = 0;
    for (;;) {
        Piece one;
        skip(p, nested);
        if (p->at == p->end || *p->at == '|' || *p->at == ')' || *p->at == '\n' || *p->at == '\r') return RP_OK;
        RP_TRY(element(p, &one));
        RP_TRY(repetition(p, &one));
        Piece *last = *n > 0 ? &(*pieces)[*n - 1] : NULL;
        if (last != NULL && last->rule == UINT32_MAX && one.rule == UINT32_MAX) {
            last->regular = rp_rx_cat(&p->g->rx, last->regular, one.regular);
            last->size += one.size;
        } else {
            RP_TRY(RP_GROW(*pieces, *room, *n + 1));
            (*pieces)[(*n)++] = one;
        }
        RP_TRY(p->g->rx.status);
    }
}

/* Regular if every alternative is, else a rule of its own. */
static RpStatus alternatives(Gbnf *p, Piece *out, bool nested) {
    Piece         *pieces = NULL;
    size_t         n = 0, room = 0;
    Rx             regular = RX_NONE;
    size_t         size    = 1;
    uint32_t       start   = NODE_NEVER;
    const uint32_t rule = rp_grammar_rule(p->g), end = rp_grammar_end(p->g, rule);
    RpStatus       st = RP_OK;
    bool           more;
    do {
        skip(p, true);
        st = sequence(p, &pieces, &n, &room, nested);
        if (st != RP_OK) break;
        if (n == 0) regular = rp_rx_alt2(&p->g->rx, regular, RX_EMPTY_TEXT);
        if (n == 1 && pieces[0].rule == UINT32_MAX) {
            regular = rp_rx_alt2(&p->g->rx, regular, pieces[0].regular);
            size += pieces[0].size;
        } else if (n > 0) {
            uint32_t node = end;
            for (size_t i = n; i-- > 0;) node = node_of(p, pieces[i], node);
            start = rp_grammar_choice(p->g, node, start);
        }
        skip(p, nested);
        more = p->at < p->end && *p->at == '|';
        p->at += more;
    } while (more);
    free(pieces);
    RP_TRY(st);
    if (start == NODE_NEVER) {
        *out = (Piece){regular, UINT32_MAX, size};
        return p->g->status;
    }
    if (regular != RX_NONE) start = rp_grammar_choice(p->g, rp_grammar_lexeme(p->g, regular, end), start);
    *out = new_rule(p, rule, start);
    return p->g->status;
}

static RpStatus read_rule(Gbnf *p) {
    RpGgufString name;
    GbnfRule    *rule;
    Piece        body;
    const char  *first = p->at;
    RP_TRY(read_name(p, &name));
    skip(p, false);
    if (p->end - p->at < 3 || memcmp(p->at, "::=", 3) != 0) return bad(p, "::= is expected");
    p->at += 3;
    RP_TRY(rule_named(p, name, &rule));
    if (rule->defined) {
        p->at = first;
        return bad(p, "a rule that is there already");
    }
    rule->defined         = true;
    const uint32_t number = rule->rule;
    const size_t   index  = (size_t)(rule - p->rules); /* the array may move */
    RP_TRY(alternatives(p, &body, false));
    skip(p, false);
    if (p->at < p->end && *p->at != '\n' && *p->at != '\r') return bad(p, "a line end is expected");
    rp_grammar_define(p->g, number, node_of(p, body, rp_grammar_end(p->g, number)));
    if (body.rule == UINT32_MAX && body.size <= MAX_INLINE && p->rules[index].regular != body.regular) {
        p->rules[index].regular = body.regular;
        p->rules[index].size    = body.size;
        p->changed              = true;
    }
    return p->g->status;
}

static void begin_again(Gbnf *p) {
    RpGrammar *g = p->g;
    rp_grammar_cut(g, p->first_node, p->first_rule, p->first_lexeme);
    p->at      = p->text;
    p->changed = false;
    for (size_t i = 0; i < p->n_rules; i++) {
        p->rules[i].rule    = rp_grammar_rule(g);
        p->rules[i].defined = false;
    }
}

static RpStatus read_rules(Gbnf *p, uint32_t *start) {
    GbnfRule *root;
    skip(p, true);
    while (p->at < p->end) {
        RP_TRY(read_rule(p));
        skip(p, true);
    }
    for (size_t i = 0; i < p->n_rules; i++)
        if (!p->rules[i].defined) {
            p->at = p->text + p->rules[i].used_at;
            return bad(p, "a rule before this place is not defined");
        }
    const size_t n = p->n_rules;
    RP_TRY(rule_named(p, (RpGgufString){"root", 4}, &root));
    if (n != p->n_rules) return bad(p, "there is no rule \"root\"");
    *start = root->rule;
    return RP_OK;
}

RpStatus rp_gbnf_rule(RpGrammar *g, const char *text, size_t n, uint32_t *rule) {
    Gbnf p      = {.g            = g,
                   .text         = text,
                   .at           = text,
                   .end          = text + n,
                   .first_node   = g->n_nodes,
                   .first_rule   = g->n_rules,
                   .first_lexeme = g->n_lexemes};
    *rule       = 0;
    RpStatus st = read_rules(&p, rule);
    for (int i = 0; i < MAX_READINGS && st == RP_OK && p.changed; i++) {
        begin_again(&p);
        st = read_rules(&p, rule);
    }
    free(p.rules);
    return st;
}

RpStatus rp_grammar_gbnf(const char *text, size_t n, RpGrammar **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(text, "text");
    RpGrammar *g;
    uint32_t   start;
    RP_TRY(rp_grammar_open(&g));
    const RpStatus st = rp_gbnf_rule(g, text, n, &start);
    return rp_grammar_finish(g, start, st, out);
}
