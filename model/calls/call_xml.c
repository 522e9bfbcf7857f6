/* Calls as elements, whose values have the types of the tool's schema:
 *
 *     <function=f><parameter=a>1</parameter></function>
 *     <invoke name="f"><parameter name="a">1</parameter></invoke>
 *     f<arg_key>a</arg_key><arg_value>1</arg_value> */
#include "model/chat/parser.h"

#include <string.h>

enum { XML_START, XML_NAME, XML_BODY, XML_KEY, XML_KEY_TYPE, XML_VALUE_MARK, XML_VALUE, XML_WAIT };

static bool has(const RpReplyParser *p, MarkId m) { return p->format->marks[m] != NULL; }

static void begin_call(RpReplyParser *p) {
    ShortText *name = &p->call.name;
    while (name->n > 0 && rp_json_space((unsigned char)name->p[name->n - 1])) name->n--;
    p->call.step = XML_BODY;
    if (name->n > 0)
        rp_reply_begin_call(p);
    else
        rp_reply_bad(p);
}

static void put_text(RpReplyParser *p, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) rp_reply_argument(p, (unsigned char)text[i]);
}

/* The name of the parameter is known. */
static void begin_value(RpReplyParser *p) {
    Call *k  = &p->call;
    k->step  = has(p, MARK_VALUE) ? XML_VALUE_MARK : XML_VALUE;
    k->line  = false;
    k->first = true;
    if (!has(p, MARK_STRING_KEY_END)) k->kind = rp_tools_kind(p, k->name.p, k->key.p, k->key.n);
    p->value.n = 0;
    if (k->n_parameters++ == 0)
        rp_reply_arguments(p, "{\"", 2);
    else
        rp_reply_arguments(p, ", \"", 3);
    put_text(p, k->key.p, k->key.n);
    rp_reply_arguments(p, "\": ", 3);
    if (k->kind == VALUE_STRING) rp_reply_arguments(p, "\"", 1);
}

static void value_text(RpReplyParser *p, unsigned char c) {
    if (p->call.kind == VALUE_STRING)
        rp_reply_argument(p, c);
    else
        rp_reply_append(&p->value, (const char *)&c, 1);
}

/* FORMAT_LINES: the line end in front of the value, and the one behind it, are not part of it. */
static void value_byte(RpReplyParser *p, unsigned char c) {
    Call      *k     = &p->call;
    const bool first = k->first, lines = (p->format->flags & FORMAT_LINES) != 0;
    k->first = false;
    if (lines && first && c == '\n') return;
    if (k->line) value_text(p, '\n');
    k->line = lines && c == '\n';
    if (!k->line) value_text(p, c);
}

static bool is_word(RpGgufString s, const char *word) {
    return s.len == strlen(word) && memcmp(s.ptr, word, s.len) == 0;
}

/* The value as JSON, if it is. Python's words are JSON's. */
static bool as_json(const RpReplyParser *p, RpGgufString *out) {
    static const char *const words[][2] = {
        {"True",  "true" },
        {"False", "false"},
        {"None",  "null" }
    };
    RpGgufString s = {p->value.p, p->value.n};
    while (s.len > 0 && rp_json_space((unsigned char)s.ptr[s.len - 1])) s.len--;
    while (s.len > 0 && rp_json_space((unsigned char)s.ptr[0])) s.ptr++, s.len--;
    *out = s;
    if (p->call.kind == VALUE_NULL_OR_STRING) return is_word(s, "null");
    for (int i = 0; i < 3; i++)
        if (is_word(s, words[i][0])) *out = (RpGgufString){words[i][1], strlen(words[i][1])};
    return rp_json_is_value(out->ptr, out->len);
}

static void end_value(RpReplyParser *p) {
    RpGgufString json;
    p->call.step = XML_BODY;
    if (p->call.kind == VALUE_STRING) {
        rp_reply_arguments(p, "\"", 1);
    } else if (as_json(p, &json)) {
        bool string = false, escaped = false; /* line ends in strings are escaped */
        for (size_t i = 0; i < json.len; i++) {
            const unsigned char c = (unsigned char)json.ptr[i];
            if (c == '"' && !escaped) string = !string;
            escaped = string && c == '\\' && !escaped;
            if (string && c < 0x20)
                rp_reply_argument(p, c);
            else
                rp_reply_arguments(p, json.ptr + i, 1);
        }
    } else {
        rp_reply_arguments(p, "\"", 1);
        put_text(p, p->value.p, p->value.n);
        rp_reply_arguments(p, "\"", 1);
    }
}

static void xml_byte(RpReplyParser *p, unsigned char c) {
    Call *k     = &p->call;
    bool  valid = true;
    switch (k->step) {
    case XML_START:
        if (rp_json_space(c)) return;
        valid = !has(p, MARK_NAME);
        if (!valid) break;
        k->step = XML_NAME;
        valid   = rp_reply_short(&k->name, c);
        break;
    case XML_NAME:
        if (c == '\n' && !has(p, MARK_NAME_END))
            begin_call(p);
        else
            valid = c != '\0' && rp_reply_short(&k->name, c);
        break;
    case XML_KEY:
        valid = c != '\0' && rp_reply_short(&k->key, c);
        break;
    case XML_VALUE:
        value_byte(p, c);
        break;
    default:
        valid = rp_json_space(c);
        break;
    }
    if (!valid) rp_reply_bad(p);
}

static unsigned xml_marks(const RpReplyParser *p) {
    const unsigned ends = BIT(MARK_CALL_END) | BIT(MARK_CALLS_END);
    switch (p->call.step) {
    case XML_START:
        return BIT(MARK_NAME) | ends;
    case XML_NAME:
        return (has(p, MARK_NAME_END) ? BIT(MARK_NAME_END) : BIT(MARK_KEY)) | ends;
    case XML_BODY:
        return BIT(MARK_KEY) | BIT(MARK_FUNCTION_END) | ends;
    case XML_KEY:
        return BIT(MARK_KEY_END) | BIT(MARK_STRING_KEY_END) | ends;
    case XML_VALUE_MARK:
        return BIT(MARK_VALUE) | ends;
    case XML_VALUE:
        return BIT(MARK_VALUE_END) | (p->token[MARK_CALL_END] ? BIT(MARK_CALL_END) : 0);
    default:
        return BIT(MARK_NAME) | ends;
    }
}

static void end_arguments(RpReplyParser *p) {
    if (p->call.n_parameters > 0) rp_reply_arguments(p, "}", 1);
    p->call.step = XML_WAIT;
}

/* Without a mark behind the last parameter the end of the reply ends the arguments too. */
static bool xml_whole(RpReplyParser *p) {
    if (p->call.begun && p->call.step == XML_BODY && !has(p, MARK_FUNCTION_END)) end_arguments(p);
    return p->call.begun && p->call.step == XML_WAIT;
}

static void end_function(RpReplyParser *p) {
    end_arguments(p);
    if (!has(p, MARK_CALL_END) || p->call.bare) rp_reply_call_ended(p);
}

static void end_block(RpReplyParser *p, MarkId m) {
    Call *k = &p->call;
    if (k->step == XML_NAME && !has(p, MARK_NAME_END)) begin_call(p); /* no parameters */
    if (k->step == XML_BODY && p->mode == MODE_CALL && !has(p, MARK_FUNCTION_END)) end_function(p);
    if (p->mode != MODE_CALL) return;
    if (k->step != XML_WAIT) {
        rp_reply_bad(p);
        return;
    }
    rp_reply_call_ended(p);
    if (m == MARK_CALLS_END) rp_reply_section_ended(p);
}

static void xml_mark(RpReplyParser *p, MarkId m) {
    Call *k = &p->call;
    switch (m) {
    case MARK_NAME:
        if (k->step == XML_WAIT) rp_reply_next_call(p, strlen(p->format->marks[MARK_NAME]));
        k->step = XML_NAME;
        break;
    case MARK_NAME_END:
        begin_call(p);
        break;
    case MARK_KEY:
        if (k->step == XML_NAME) begin_call(p);
        if (p->mode == MODE_CALL) k->step = XML_KEY, k->key.n = 0;
        break;
    case MARK_STRING_KEY_END:
    case MARK_KEY_END:
        k->kind = m == MARK_KEY_END ? VALUE_ANY : VALUE_STRING;
        begin_value(p);
        break;
    case MARK_VALUE:
        k->step = XML_VALUE;
        break;
    case MARK_VALUE_END:
        end_value(p);
        break;
    case MARK_FUNCTION_END:
        end_function(p);
        break;
    default:
        end_block(p, m);
        break;
    }
}

const Syntax rp_syntax_xml = {xml_marks, xml_byte, xml_mark, xml_whole};
