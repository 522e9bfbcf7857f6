/* Calls whose arguments are literals of Python, or written in the way of Gemma. The arguments stream as JSON.
 *
 *     [f(a=1, b='x'), g()]        call:f{a:1,b:<|"|>x<|"|>} */
#include "model/chat/parser.h"

#include <string.h>

enum { CALL_START, CALL_NAME, CALL_BODY, CALL_BEHIND, CALL_NEXT, CALL_WAIT };

static void put(RpReplyParser *p, const char *text) { rp_reply_arguments(p, text, strlen(text)); }

static bool open_bracket(RpReplyParser *p, char c) {
    Literal *l = &p->call.literal;
    if (l->depth == LITERAL_DEPTH) return false;
    l->open[l->depth++] = c;
    l->state            = c == '[' ? LITERAL_FIRST_VALUE : LITERAL_FIRST_KEY;
    put(p, c == '[' ? "[" : "{");
    return true;
}

static bool close_bracket(RpReplyParser *p, char c) {
    Literal   *l    = &p->call.literal;
    const char open = l->open[l->depth - 1];
    if (c != (open == '[' ? ']' : open == '{' ? '}' : ')')) return false;
    l->depth--;
    l->state = LITERAL_BEHIND;
    put(p, open == '[' ? "]" : "}");
    return true;
}

/* A bare word: a number or a word of JSON or Python; of Gemma else a string. */
static bool end_bare(RpReplyParser *p) {
    static const char *const words[][2] = {
        {"True",  "true" },
        {"False", "false"},
        {"None",  "null" }
    };
    Literal *l = &p->call.literal;
    while (l->n_bare > 0 && rp_json_space((unsigned char)l->bare[l->n_bare - 1])) l->n_bare--;
    const size_t n  = l->n_bare;
    l->bare[n]      = '\0';
    l->state        = LITERAL_BEHIND;
    const char *out = NULL;
    for (int i = 0; i < 3; i++)
        if (strcmp(l->bare, words[i][0]) == 0) out = words[i][1];
    if (out == NULL && rp_json_is_value(l->bare, n)) out = l->bare;
    if (out != NULL) {
        put(p, out);
        return true;
    }
    if (!l->gemma) return false;
    put(p, "\"");
    for (size_t i = 0; i < n; i++) rp_reply_argument(p, (unsigned char)l->bare[i]);
    put(p, "\"");
    return true;
}

static void end_key(RpReplyParser *p) {
    p->call.literal.state = LITERAL_COLON;
    put(p, "\"");
}

static void begin_string(RpReplyParser *p, char quote, bool key) {
    Literal *l = &p->call.literal;
    l->state   = LITERAL_STRING;
    l->quote   = quote;
    l->key     = key;
    put(p, "\"");
}

static void end_string(RpReplyParser *p) {
    put(p, "\"");
    p->call.literal.state = p->call.literal.key ? LITERAL_COLON : LITERAL_BEHIND;
}

static void put_code(RpReplyParser *p, uint32_t code) {
    char         text[4];
    const size_t n = rp_code_to_utf8(code, text);
    for (size_t i = 0; i < n; i++) rp_reply_argument(p, (unsigned char)text[i]);
}

static bool escape_byte(RpReplyParser *p, unsigned char c) {
    static const char names[] = "ntrbfav0\\'\"/", values[] = "\n\t\r\b\f\a\v\0\\'\"/";
    Literal          *l = &p->call.literal;
    if (l->state == LITERAL_HEX) {
        const char *hex = "0123456789abcdef", *at = c != '\0' ? strchr(hex, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
        if (at == NULL) return false;
        l->code = l->code << 4 | (uint32_t)(at - hex);
        if (--l->missing > 0) return true;
        l->state = LITERAL_STRING;
        put_code(p, l->code);
        return true;
    }
    const char *found = c != '\0' ? strchr(names, c) : NULL;
    l->state          = LITERAL_STRING;
    if (c == 'x' || c == 'u' || c == 'U') {
        l->state   = LITERAL_HEX;
        l->missing = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        l->code    = 0;
    } else if (found != NULL) {
        rp_reply_argument(p, (unsigned char)values[found - names]);
    } else if (c != '\n') { /* Python keeps the backslash of an unknown escape */
        rp_reply_argument(p, '\\');
        rp_reply_argument(p, c);
    }
    return true;
}

static bool bare_byte(RpReplyParser *p, unsigned char c) {
    Literal *l = &p->call.literal;
    if (c == '\0' || l->n_bare + 1 >= LITERAL_BARE) return false;
    l->bare[l->n_bare++] = (char)c;
    return true;
}

static bool is_letter(unsigned char c) { return c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c >= 0x80; }

static bool key_byte(RpReplyParser *p, unsigned char c, char separator) {
    Literal *l = &p->call.literal;
    if (l->state == LITERAL_BARE_KEY) {
        if (c == (unsigned char)separator || rp_json_space(c)) {
            end_key(p);
            if (c == (unsigned char)separator) l->state = LITERAL_VALUE;
            if (c == (unsigned char)separator) put(p, ": ");
        } else {
            rp_reply_argument(p, c);
        }
        return c != '\0' && strchr(",(){}[]\"'", c) == NULL;
    }
    if (c == '}' || c == ')') return close_bracket(p, (char)c); /* empty, or a comma behind the last one */
    if (c == '"' || c == '\'') {
        begin_string(p, (char)c, true);
        return true;
    }
    if (l->open[l->depth - 1] == '{' && !l->gemma) return false;
    if (!(l->gemma ? c != '\0' && strchr(",(){}[]:=", c) == NULL : is_letter(c))) return false;
    l->state = LITERAL_BARE_KEY;
    put(p, "\"");
    rp_reply_argument(p, c);
    return true;
}

static bool behind_byte(RpReplyParser *p, unsigned char c) {
    Literal *l = &p->call.literal;
    if (rp_json_space(c)) return true;
    if (c != ',') return close_bracket(p, (char)c);
    l->state = l->open[l->depth - 1] == '[' ? LITERAL_VALUE : LITERAL_KEY;
    l->comma = true;
    return true;
}

static bool value_byte(RpReplyParser *p, unsigned char c) {
    Literal *l = &p->call.literal;
    if (c == ']' && (l->state == LITERAL_FIRST_VALUE || (l->open[l->depth - 1] == '[' && l->comma)))
        return l->comma = false, close_bracket(p, ']');
    if (l->comma) put(p, ", ");
    l->comma = false;
    if (c == '[' || c == '{') return open_bracket(p, (char)c);
    if (c == '"' || (c == '\'' && !l->gemma)) {
        begin_string(p, (char)c, false);
        return true;
    }
    l->state  = LITERAL_BARE_VALUE;
    l->n_bare = 0;
    return strchr(",]})", c) == NULL && bare_byte(p, c);
}

/* One byte inside of the outermost brackets. */
static bool literal_byte(RpReplyParser *p, unsigned char c) {
    Literal   *l         = &p->call.literal;
    const char separator = l->open[l->depth - 1] == '(' ? '=' : ':';
    switch (l->state) {
    case LITERAL_STRING:
        if (c == (unsigned char)l->quote && l->quote != '\0')
            end_string(p);
        else if (c == '\\' && l->quote != '\0')
            l->state = LITERAL_ESCAPE;
        else
            rp_reply_argument(p, c);
        return true;
    case LITERAL_ESCAPE:
    case LITERAL_HEX:
        return escape_byte(p, c);
    case LITERAL_BARE_VALUE:
        if (c == ',' || c == ']' || c == '}' || c == ')') return end_bare(p) && behind_byte(p, c);
        return bare_byte(p, c);
    case LITERAL_BARE_KEY:
        return key_byte(p, c, separator);
    case LITERAL_BEHIND:
        return behind_byte(p, c);
    default:
        break;
    }
    if (rp_json_space(c)) return true;
    if (l->state == LITERAL_COLON) {
        l->state = LITERAL_VALUE;
        put(p, ": ");
        return c == (unsigned char)separator;
    }
    if (l->state == LITERAL_VALUE || l->state == LITERAL_FIRST_VALUE) return value_byte(p, c);
    if (l->comma && c != '}' && c != ')') put(p, ", ");
    const bool ok = key_byte(p, c, separator);
    l->comma      = false;
    return ok;
}

static bool begin_body(RpReplyParser *p, char c) {
    Call *k = &p->call;
    while (k->name.n > 0 && rp_json_space((unsigned char)k->name.p[k->name.n - 1])) k->name.n--;
    if (k->name.n == 0) return false;
    rp_reply_begin_call(p);
    k->step          = CALL_BODY;
    k->literal.gemma = p->format->syntax == SYNTAX_GEMMA;
    return open_bracket(p, c);
}

static void finished(RpReplyParser *p) {
    p->call.step = CALL_WAIT;
    if (p->format->marks[MARK_CALL_END] == NULL) rp_reply_call_ended(p);
}

static bool body_byte(RpReplyParser *p, unsigned char c) {
    if (!literal_byte(p, c)) return false;
    if (p->call.literal.depth > 0) return true;
    p->call.step = CALL_BEHIND;
    if (p->format->syntax == SYNTAX_GEMMA) finished(p);
    return true;
}

static bool step_byte(RpReplyParser *p, unsigned char c) {
    Call *k = &p->call;
    if (k->step == CALL_BODY) return body_byte(p, c);
    if (rp_json_space(c)) return k->step != CALL_NAME || rp_reply_short(&k->name, c);
    switch (k->step) {
    case CALL_START:
        if (c == '[' && !k->list && p->format->syntax == SYNTAX_PYTHON) {
            k->list = true;
            return true;
        }
        k->step = CALL_NAME;
        return c != '(' && c != '{' && rp_reply_short(&k->name, c);
    case CALL_NAME:
        if (c == (p->format->syntax == SYNTAX_GEMMA ? '{' : '(')) return begin_body(p, (char)c);
        return c != '\0' && strchr("[]{}()\"'=,;", c) == NULL && rp_reply_short(&k->name, c);
    case CALL_BEHIND:
        if (c == ']' && k->list) {
            finished(p);
            return true;
        }
        if (c == ',') k->step = CALL_NEXT;
        return c == ',';
    case CALL_NEXT:
        rp_reply_next_call(p, 1);
        p->call.step = CALL_NAME;
        return rp_reply_short(&p->call.name, c);
    default:
        return false;
    }
}

static void literal_call_byte(RpReplyParser *p, unsigned char c) {
    if (!step_byte(p, c)) rp_reply_bad(p);
}

static unsigned literal_marks(const RpReplyParser *p) {
    const Literal *l       = &p->call.literal;
    const bool     string  = p->call.step == CALL_BODY && l->state >= LITERAL_STRING && l->state <= LITERAL_HEX;
    const unsigned name    = p->call.step == CALL_START ? BIT(MARK_NAME) : 0;
    const unsigned ends    = BIT(MARK_CALL_END) | BIT(MARK_CALLS_END);
    const bool     between = p->call.step == CALL_BODY && (!string || l->quote == '\0');
    return name | (string && !p->token[MARK_CALL_END] ? 0 : ends) | (between ? BIT(MARK_QUOTE) : 0);
}

static bool literal_whole(RpReplyParser *p) {
    return p->call.step == CALL_WAIT || (p->call.step == CALL_BEHIND && !p->call.list);
}

static bool quote_mark(RpReplyParser *p) {
    Literal *l = &p->call.literal;
    if (l->state == LITERAL_STRING) {
        end_string(p);
        return true;
    }
    const bool key = l->state == LITERAL_KEY || l->state == LITERAL_FIRST_KEY;
    if (!key && l->state != LITERAL_VALUE && l->state != LITERAL_FIRST_VALUE) return false;
    if (l->comma) put(p, ", ");
    l->comma = false;
    begin_string(p, '\0', key);
    return true;
}

static void literal_mark(RpReplyParser *p, MarkId m) {
    if (m == MARK_NAME) {
        p->call.step = CALL_NAME;
    } else if (m == MARK_QUOTE) {
        if (!quote_mark(p)) rp_reply_bad(p);
    } else if (!literal_whole(p)) {
        rp_reply_bad(p);
    } else {
        rp_reply_call_ended(p);
        if (m == MARK_CALLS_END) rp_reply_section_ended(p);
    }
}

const Syntax rp_syntax_python = {literal_marks, literal_call_byte, literal_mark, literal_whole};
const Syntax rp_syntax_gemma  = {literal_marks, literal_call_byte, literal_mark, literal_whole};
