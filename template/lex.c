/* The tokens of a template (lex.h). What Jinja does with white space:
 *
 *     {%- ...   strips all white space in front of it, -%} all behind it
 *     {% , {#   strip blanks in front of them if nothing else stands in their line (lstrip_blocks); {%+ does not
 *     %}, #}    take the line end behind them along (trim_blocks); +%} does not
 *     one line end at the end of the template is not part of it */
#include "template/lex.h"

#include "base/text/utf8.h"
#include "template/strings.h"

#include <string.h>

typedef struct Lexer {
    TplArena        *arena;
    const TplSource *source;
    const char      *p;
    size_t           at, n;
    bool             line_start; /* what comes next is at the start of a line */
    TplToken        *tokens;
    size_t           n_tokens, room;
} Lexer;

#define lex_fail(l, at, ...) rp_tpl_fail_at((l)->source, (uint32_t)(at), RP_E_FORMAT, __VA_ARGS__)

static RpStatus push(Lexer *l, TplToken t) {
    if (l->n_tokens == l->room) {
        const size_t room = 2 * l->room + 64;
        TplToken    *grown;
        TPL_NEW(grown, l->arena, room);
        if (l->n_tokens > 0) memcpy(grown, l->tokens, l->n_tokens * sizeof *grown);
        l->tokens = grown;
        l->room   = room;
    }
    l->tokens[l->n_tokens++] = t;
    return RP_OK;
}

/* The end of the white space that begins at byte `at`. */
static size_t space_end(const Lexer *l, size_t at) {
    const TplString s = {.p = l->p, .n = l->n};
    for (size_t n; at < l->n && rp_tpl_is_space(s, at, &n);) at += n;
    return at;
}

static bool digit(char c) { return c >= '0' && c <= '9'; }
static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0; }

static bool next_is(const Lexer *l, size_t at, const char *text) {
    const size_t n = strlen(text);
    return n <= l->n - at && memcmp(l->p + at, text, n) == 0;
}

static void skip_space(Lexer *l) { l->at = space_end(l, l->at); }

/* Behind a tag whose end began at `first`. */
static void tag_ended(Lexer *l, bool strip, bool trim) {
    if (strip)
        skip_space(l);
    else if (trim && l->at < l->n && l->p[l->at] == '\n')
        l->at++;
    l->line_start = l->p[l->at - 1] == '\n';
}

/* The end of a text in front of a tag. `sign` is the character behind "{%", `block`: lstrip_blocks holds for it. */
static size_t strip_before(const Lexer *l, size_t first, size_t end, char sign, bool block) {
    const TplString text = {.p = l->p + first, .n = end - first};
    if (sign == '-') return first + rp_tpl_strip(text, NULL, false, true).n;
    if (sign == '+' || !block) return end;
    const char  *newline = text.n > 0 ? memrchr(text.p, '\n', text.n) : NULL;
    const size_t line    = newline != NULL ? (size_t)(newline + 1 - l->p) : first;
    const bool   whole   = newline != NULL || l->line_start;
    return whole && space_end(l, line) >= end ? line : end;
}

static RpStatus push_data(Lexer *l, size_t first, size_t end) {
    if (end <= first) return RP_OK;
    const TplString text = {.p = l->p + first, .n = end - first, .of_template = true};
    return push(l, (TplToken){.type = TPL_T_DATA, .at = (uint32_t)first, .value = rp_tpl_string(text), .text = text});
}

static RpStatus skip_comment(Lexer *l) {
    const size_t first = l->at;
    while (!next_is(l, l->at, "#}"))
        if (++l->at >= l->n) return lex_fail(l, first, "the comment has no end");
    const char sign = l->at > first + 2 ? l->p[l->at - 1] : ' ';
    l->at += 2;
    tag_ended(l, sign == '-', sign != '+');
    return RP_OK;
}

/* {% raw %} at l->at: its text becomes DATA. *found: it was one. */
static RpStatus lex_raw(Lexer *l, bool *found) {
    const size_t first = l->at;
    size_t       i     = first + 2;
    *found             = false;
    if (i < l->n && (l->p[i] == '-' || l->p[i] == '+')) i++;
    i = space_end(l, i);
    if (!next_is(l, i, "raw")) return RP_OK;
    i                = space_end(l, i + 3);
    const bool strip = next_is(l, i, "-%}");
    if (!strip && !next_is(l, i, "%}")) return RP_OK;
    *found = true;
    l->at  = i + (strip ? 3 : 2);
    tag_ended(l, strip, false);
    const size_t text = l->at;
    for (; l->at < l->n; l->at++) {
        if (!next_is(l, l->at, "{%")) continue;
        const size_t end  = l->at;
        const char   sign = end + 2 < l->n ? l->p[end + 2] : ' ';
        i                 = space_end(l, end + 2 + (sign == '-' || sign == '+'));
        if (!next_is(l, i, "endraw")) continue;
        i                = space_end(l, i + 6);
        const char close = i < l->n ? l->p[i] : ' ';
        i += close == '-' || close == '+';
        if (!next_is(l, i, "%}")) continue;
        RP_TRY(push_data(l, text, strip_before(l, text, end, sign, true)));
        l->at = i + 2;
        tag_ended(l, close == '-', close != '+');
        return RP_OK;
    }
    return lex_fail(l, first, "the raw block has no end");
}

static int hex(char c) {
    return digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Behind the backslash at l->at - 1. */
static RpStatus lex_escape(Lexer *l, TplText *out) {
    static const char names[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    const char        c     = l->p[l->at];
    const char       *found = c != '\0' ? strchr(names, c) : NULL;
    const size_t      first = l->at - 1;
    const int         n_hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t          code  = 0;
    l->at++;
    if (found != NULL) {
        rp_tpl_put_bytes(out, &values[found - names], 1, true);
    } else if (c == '\n') {
        return RP_OK;
    } else if (c >= '0' && c <= '7') {
        code = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && l->at < l->n && l->p[l->at] >= '0' && l->p[l->at] <= '7'; i++)
            code = 8 * code + (uint32_t)(l->p[l->at++] - '0');
        rp_tpl_put_code(out, code, true);
    } else if (n_hex > 0) {
        for (int i = 0; i < n_hex; i++, l->at++) {
            const int h = l->at < l->n ? hex(l->p[l->at]) : -1;
            if (h < 0 || code > 0xfffffff) return lex_fail(l, first, "the escape has too few hexadecimal digits");
            code = 16 * code + (uint32_t)h;
        }
        if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return lex_fail(l, first, "the escape is no character");
        rp_tpl_put_code(out, code, true);
    } else {
        rp_tpl_put_bytes(out, "\\", 1, true);
        l->at--; /* not an escape: the backslash stays */
        const size_t n = rp_utf8_length(l->p + l->at, l->n - l->at);
        rp_tpl_put_bytes(out, l->p + l->at, n, true);
        l->at += n;
    }
    return RP_OK;
}

static RpStatus lex_string(Lexer *l) {
    const size_t first = l->at;
    const char   quote = l->p[l->at++];
    TplText      out   = {.arena = l->arena, .limit = l->n};
    TplToken     t     = {.type = TPL_T_CONSTANT, .at = (uint32_t)first};
    while (l->at < l->n && l->p[l->at] != quote) {
        const char *p = l->p + l->at;
        if (*p == '\\' && l->at + 1 < l->n) {
            l->at++;
            RP_TRY(lex_escape(l, &out));
            continue;
        }
        rp_tpl_put_bytes(&out, p, 1, true);
        l->at++;
    }
    if (l->at >= l->n) return lex_fail(l, first, "the string has no end");
    l->at++;
    TplString s;
    RP_TRY(rp_tpl_text_end(&out, &s));
    t.value = rp_tpl_text(s.p, s.n, true);
    return push(l, t);
}

/* 12, 1_000, 0x1f, 0o17, 0b1, 1.5, 1e3 */
static RpStatus lex_number(Lexer *l) {
    const size_t first = l->at;
    char         text[64];
    size_t       n      = 0;
    bool         whole  = true;
    const char   marker = l->p[l->at] == '0' && l->at + 1 < l->n ? (char)(l->p[l->at + 1] | 0x20) : ' ';
    const int    base   = marker == 'x' ? 16 : marker == 'o' ? 8 : marker == 'b' ? 2 : 10;
    int64_t      value  = 0;
    double       f      = 0;
    if (base != 10) l->at += 2;
    for (; l->at < l->n && n < sizeof text; l->at++) {
        const char c = l->p[l->at], next = l->at + 1 < l->n ? l->p[l->at + 1] : ' ';
        const bool exponent = base == 10 && (c == 'e' || c == 'E') && (digit(next) || next == '-' || next == '+');
        const bool point    = base == 10 && c == '.' && whole && digit(next);
        if (c == '_' && hex(next) >= 0) continue;
        if (!(hex(c) >= 0 && hex(c) < base) && !exponent && !point) break;
        whole     = whole && !exponent && !point;
        text[n++] = c;
        if (exponent && !digit(next)) text[n++] = next, l->at++;
    }
    bool fits = n > 0 && n < sizeof text - 1;
    for (size_t i = 0; fits && whole && i < n; i++)
        fits = !__builtin_mul_overflow(value, base, &value) && !__builtin_add_overflow(value, hex(text[i]), &value);
    if (!fits || (!whole && !rp_tpl_float_of(text, n, &f)))
        return lex_fail(l, first, "the number is too large or ill-formed");
    const TplValue v = whole ? rp_tpl_int(value) : rp_tpl_float(f);
    return push(l, (TplToken){.type = TPL_T_CONSTANT, .at = (uint32_t)first, .value = v});
}

static RpStatus lex_operator(Lexer *l) {
    static const char *const two[] = {"==", "!=", "<=", ">=", "//", "**"};
    static const char        one[] = "+-/*%~()[]{}<>=.:|,;";
    size_t                   n     = 0;
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
        if (next_is(l, l->at, two[i])) n = 2;
    if (n == 0 && l->p[l->at] != '\0' && strchr(one, l->p[l->at]) != NULL) n = 1;
    if (n == 0)
        return lex_fail(l, l->at, "'%.*s' is not expected here", (int)rp_utf8_length(l->p + l->at, l->n - l->at),
                        l->p + l->at);
    const TplString text = {.p = l->p + l->at, .n = n, .of_template = true};
    RP_TRY(push(l, (TplToken){.type = TPL_T_OPERATOR, .at = (uint32_t)l->at, .text = text}));
    l->at += n;
    return RP_OK;
}

static RpStatus lex_word(Lexer *l) {
    const size_t first = l->at;
    while (l->at < l->n && (letter(l->p[l->at]) || digit(l->p[l->at]))) l->at++;
    const TplString text = {.p = l->p + first, .n = l->at - first, .of_template = true};
    return push(l, (TplToken){.type = TPL_T_NAME, .at = (uint32_t)first, .text = text});
}

enum { MAX_BRACKETS = 200 };

/* Inside of {{ or {%, until its end. Brackets are balanced, so that }} of two dicts is no end. */
static RpStatus lex_inside(Lexer *l, bool print, size_t tag) {
    char   open[MAX_BRACKETS];
    size_t n_open = 0;
    for (;;) {
        skip_space(l);
        if (l->at >= l->n) return lex_fail(l, tag, "the %s has no end", print ? "{{" : "{%");
        const char c    = l->p[l->at];
        const bool sign = c == '-' || (c == '+' && !print);
        if (n_open == 0 && next_is(l, l->at + sign, print ? "}}" : "%}")) {
            RP_TRY(push(l, (TplToken){.type = print ? TPL_T_PRINT_END : TPL_T_BLOCK_END, .at = (uint32_t)l->at}));
            l->at += sign ? 3 : 2;
            tag_ended(l, c == '-', !print && c != '+');
            return RP_OK;
        }
        if (letter(c)) {
            RP_TRY(lex_word(l));
        } else if (digit(c)) {
            RP_TRY(lex_number(l));
        } else if (c == '\'' || c == '"') {
            RP_TRY(lex_string(l));
        } else {
            const size_t at = l->at;
            RP_TRY(lex_operator(l));
            if (c == '(' || c == '[' || c == '{') {
                if (n_open == MAX_BRACKETS) return lex_fail(l, at, "more than %d brackets are open", MAX_BRACKETS);
                open[n_open++] = c;
            } else if (c == ')' || c == ']' || c == '}') {
                const char want = c == ')' ? '(' : c == ']' ? '[' : '{';
                if (n_open == 0 || open[--n_open] != want) return lex_fail(l, at, "'%c' closes no bracket", c);
            }
        }
    }
}

RpStatus rp_tpl_lex(TplArena *a, const TplSource *s, TplToken **tokens) {
    Lexer l = {.arena = a, .source = s, .p = s->text, .n = s->n, .line_start = true};
    while (l.at < l.n) {
        const size_t first = l.at;
        while (l.at < l.n && !next_is(&l, l.at, "{{") && !next_is(&l, l.at, "{%") && !next_is(&l, l.at, "{#")) l.at++;
        if (l.at >= l.n) {
            RP_TRY(push_data(&l, first, l.n));
            break;
        }
        const size_t tag  = l.at;
        const char   kind = l.p[tag + 1], sign = tag + 2 < l.n ? l.p[tag + 2] : ' ';
        RP_TRY(push_data(&l, first, strip_before(&l, first, tag, sign, kind != '{')));
        if (kind == '#') {
            RP_TRY(skip_comment(&l));
            continue;
        }
        bool raw = false;
        if (kind == '%') RP_TRY(lex_raw(&l, &raw));
        if (raw) continue;
        RP_TRY(push(&l, (TplToken){.type = kind == '{' ? TPL_T_PRINT : TPL_T_BLOCK, .at = (uint32_t)tag}));
        l.at += sign == '-' || sign == '+' ? 3 : 2;
        RP_TRY(lex_inside(&l, kind == '{', tag));
    }
    RP_TRY(push(&l, (TplToken){.type = TPL_T_END, .at = (uint32_t)l.n}));
    *tokens = l.tokens;
    return RP_OK;
}
