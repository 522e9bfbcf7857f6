/* A recursive-descent parser for the texts of a pattern. The grammar is in reprise/extend.h; each function
 * take_x consumes one x at s->at. A text that is wrong gets a status with the position of the error (I11). */
#include "graph/pattern.h"

#include <string.h>

typedef struct Parser {
    const char *name, *start, *at;
    Pattern    *p;
} Parser;

static RpStatus wrong(const Parser *s, const char *what) {
    return rp_fail(RP_E_ARG, "pattern%s%s: \"%s\", character %d: %s", s->name != NULL ? " " : "",
                   s->name != NULL ? s->name : "", s->start, (int)(s->at - s->start) + 1, what);
}

static void skip_space(Parser *s) { s->at += strspn(s->at, " \n\t"); }

static bool take(Parser *s, char c) {
    skip_space(s);
    if (*s->at != c) return false;
    s->at++;
    return true;
}

/* *out is the number of the name at s->at. The first occurrence of a name gets the next number. */
static RpStatus take_name(Parser *s, int *out) {
    const size_t len = rp_name_length(s->at);
    if (len == 0) return wrong(s, "expected a name");
    if (len >= PATTERN_NAME) return wrong(s, "the name is too long");
    for (*out = 0; *out < s->p->n_names; ++*out)
        if (strlen(s->p->names[*out]) == len && strncmp(s->p->names[*out], s->at, len) == 0) break;
    if (*out == PATTERN_NAMES) return wrong(s, "too many names");
    if (*out == s->p->n_names) memcpy(s->p->names[s->p->n_names++], s->at, len);
    s->at += len;
    return RP_OK;
}

static RpStatus take_op(Parser *s, TensorOp *op) {
    const size_t len = rp_name_length(s->at);
    if (len == 0) return wrong(s, "expected an op");
    if (!rp_op_find(s->at, len, op)) return wrong(s, "there is no such op");
    s->at += len;
    return RP_OK;
}

static RpStatus take_term(Parser *s, int *out);

/* sources = term { "," term } ")" */
static RpStatus take_sources(Parser *s, Term *t) {
    const int max = rp_op_info(t->op)->n_sources;
    do {
        int child = 0;
        if (t->n_src == max) return wrong(s, "the op has fewer sources");
        RP_TRY(take_term(s, &child));
        t->src[t->n_src++] = child;
    } while (take(s, ','));
    return take(s, ')') ? RP_OK : wrong(s, "expected ',' or ')'");
}

/* True if the word at s->at is an op. '?' may follow a variable too, but ':' and '(' follow ops only. */
static bool is_op_here(const Parser *s) {
    const char *p = s->at + rp_name_length(s->at);
    p += strspn(p, " \n\t?~");
    return *p == '(' || *p == ':';
}

/* term = variable [ "?" ] | "_" | op [ "?" ] [ "~" ] [ ":" label ] "(" sources.   *out: index in terms. */
static RpStatus take_term(Parser *s, int *out) {
    skip_space(s);
    if (s->p->n_terms == PATTERN_TERMS) return wrong(s, "too many terms");
    *out    = s->p->n_terms++;
    Term *t = &s->p->terms[*out];
    *t      = (Term){.name = -1};
    if (rp_name_length(s->at) == 1 && *s->at == '_') {
        s->at++;
        return RP_OK;
    }
    if (!is_op_here(s)) {
        t->kind = TERM_VARIABLE;
        RP_TRY(take_name(s, &t->name));
        t->optional = take(s, '?');
        return RP_OK;
    }
    t->kind = TERM_OP;
    RP_TRY(take_op(s, &t->op));
    t->optional = take(s, '?');
    t->stays    = take(s, '~');
    if (take(s, ':')) RP_TRY(take_name(s, &t->name));
    if (!take(s, '(')) return wrong(s, "expected '('");
    return take_sources(s, t);
}

/* match = term { ";" term }, where each term is a root */
static RpStatus take_match(Parser *s) {
    do {
        if (s->p->n_roots == PATTERN_ROOTS) return wrong(s, "too many roots");
        RP_TRY(take_term(s, &s->p->roots[s->p->n_roots]));
        const Term *t = &s->p->terms[s->p->roots[s->p->n_roots++]];
        if (t->kind != TERM_OP || t->optional || t->stays) return wrong(s, "a root must be an op, without ? or ~");
    } while (take(s, ';'));
    skip_space(s);
    return *s->at == '\0' ? RP_OK : wrong(s, "expected the end or ';'");
}

static bool is_root(const Pattern *p, int name) {
    for (int i = 0; i < p->n_roots; i++)
        if (p->terms[p->roots[i]].name == name) return true;
    return false;
}

/* make = op "(" source { "," source } ")", source = variable | label | "_". The match has all the names. */
static RpStatus take_make(Parser *s) {
    const int n_names = s->p->n_names;
    skip_space(s);
    RP_TRY(take_op(s, &s->p->made));
    if (!take(s, '(')) return wrong(s, "expected '('");
    do {
        skip_space(s);
        if (s->p->n_make == rp_op_info(s->p->made)->n_sources) return wrong(s, "the op has fewer sources");
        int *name = &s->p->make[s->p->n_make++];
        *name     = -1;
        if (rp_name_length(s->at) == 1 && *s->at == '_')
            s->at++;
        else
            RP_TRY(take_name(s, name));
        if (s->p->n_names > n_names) return wrong(s, "the match has no such variable");
        if (*name >= 0 && is_root(s->p, *name)) return wrong(s, "a root cannot be a source of what replaces it");
    } while (take(s, ','));
    if (!take(s, ')')) return wrong(s, "expected ',' or ')'");
    skip_space(s);
    return *s->at == '\0' ? RP_OK : wrong(s, "expected the end");
}

RpStatus rp_pattern_parse(const RpGraphPattern *text, Pattern *out) {
    memset(out, 0, sizeof *out);
    Parser s = {.name = text->name, .start = text->match, .at = text->match, .p = out};
    RP_TRY(take_match(&s));
    s.start = s.at = text->make;
    return take_make(&s);
}

static bool is_store(const Term *t) { return (rp_op_info(t->op)->flags & RP_FLAG_WRITES_DST) != 0 && t->n_src > 1; }

/* True if the term is a variable, and the made op writes to it: RP_WRITES of its place in `make`. */
static bool writes_to(const Pattern *p, const Term *t) {
    for (int i = 0; i < p->n_make && t->kind == TERM_VARIABLE; i++)
        if (p->make[i] == t->name && (rp_op_info(p->made)->flags >> (RP_FLAG_WRITES + i) & 1) != 0) return true;
    return false;
}

/* Without this check, a root that stores would be replaced by a view, and nothing would store its value. */
RpStatus rp_pattern_check_stores(const RpGraphPattern *text, const Pattern *p) {
    if (is_store(&p->terms[p->roots[0]]))
        return rp_fail(RP_E_ARG, "pattern %s: the first root must not be a store", text->name);
    for (int i = 1; i < p->n_roots; i++) {
        const Term *root = &p->terms[p->roots[i]];
        if (!is_store(root)) return rp_fail(RP_E_ARG, "pattern %s: root %d is not a store", text->name, i + 1);
        const Term *to = &p->terms[root->src[RP_STORE_TARGET]];
        if (!writes_to(p, to))
            return rp_fail(RP_E_ARG, "pattern %s: root %d stores into '%s', which '%s' does not write", text->name,
                           i + 1, to->name >= 0 ? p->names[to->name] : "?", rp_op_info(p->made)->name);
    }
    return RP_OK;
}
