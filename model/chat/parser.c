/* The automaton of a parser of replies: marks, and what is between them. */
#include "model/chat/parser.h"

#include "base/argument.h"
#include "base/sized.h"

#include <stdlib.h>
#include <string.h>

static const Syntax *const syntaxes[N_SYNTAXES] = {
    [SYNTAX_JSON] = &rp_syntax_json,     [SYNTAX_NAMED] = &rp_syntax_named, [SYNTAX_XML] = &rp_syntax_xml,
    [SYNTAX_PYTHON] = &rp_syntax_python, [SYNTAX_GEMMA] = &rp_syntax_gemma,
};

static const char *mark_text(const RpReplyParser *p, unsigned m) {
    return m == MARK_THINK || m == MARK_THINK_END ? p->reasoning->marks[m] : p->format->marks[m];
}

/* Marks that open a call or a section of calls. */
static unsigned opening(const RpReplyParser *p) {
    const unsigned bare = p->format->flags & FORMAT_BARE_NAME ? BIT(MARK_NAME) : 0;
    return p->format->syntax == SYNTAX_NONE ? 0 : BIT(MARK_CALLS) | BIT(MARK_CALL) | bare;
}

static unsigned only_tokens(const RpReplyParser *p, unsigned marks) {
    for (unsigned m = 0; m < N_MARKS; m++)
        if (!p->token[m]) marks &= ~BIT(m);
    return marks;
}

static unsigned expected(const RpReplyParser *p) {
    const unsigned ends = BIT(MARK_CALL_END) | BIT(MARK_CALLS_END);
    switch (p->mode) {
    case MODE_TEXT:
        return opening(p) | (p->any_text ? only_tokens(p, BIT(MARK_THINK)) : BIT(MARK_THINK)) |
               (p->any_text || p->n_calls == 0 ? 0 : ends) | only_tokens(p, BIT(MARK_THINK_END));
    case MODE_REASONING:
        return BIT(MARK_THINK_END) | only_tokens(p, opening(p));
    case MODE_CALLS:
        return BIT(MARK_CALL) | BIT(MARK_CALLS_END) | (p->format->marks[MARK_CALL] ? 0 : BIT(MARK_NAME));
    case MODE_CALL:
        return p->syntax->marks(p);
    case MODE_BAD:
        return ends;
    default:
        return rp_harmony_marks(p);
    }
}

typedef enum Match { MATCH_NONE, MATCH_PART, MATCH_WHOLE } Match;

/* Compares the text that is held back with one mark. */
static Match match_mark(const RpReplyParser *p, unsigned m) {
    const char *text = mark_text(p, m);
    if (text == NULL || strncmp(text, (const char *)p->held, p->n_held) != 0) return MATCH_NONE;
    for (size_t i = 0; i < p->n_held && p->token[m]; i++)
        if (!p->held_control[i]) return MATCH_NONE;
    return text[p->n_held] == '\0' ? MATCH_WHOLE : MATCH_PART;
}

static Match match(const RpReplyParser *p, MarkId *out) {
    const unsigned marks = expected(p);
    Match          best  = MATCH_NONE;
    for (unsigned m = 0; m < N_MARKS; m++) {
        const Match one = marks & BIT(m) ? match_mark(p, m) : MATCH_NONE;
        if (one <= best) continue;
        best = one;
        *out = (MarkId)m;
    }
    return best;
}

static void release_space(RpReplyParser *p, RpReplyEventKind kind) {
    if (p->n_space > 0) rp_reply_put(p, kind, p->space, p->n_space);
    p->n_space = 0;
}

static void capture_mark(RpReplyParser *p, MarkId m) {
    const char *text = mark_text(p, m);
    rp_reply_append(&p->raw, text, strlen(text));
}

static void begin_calls(RpReplyParser *p, MarkId m) {
    if (p->mode != MODE_CALLS) {
        if (p->mode == MODE_REASONING) p->n_space = 0;
        rp_reply_opened(p, m);
        p->raw.n      = 0;
        p->in_section = m == MARK_CALLS;
    }
    const bool bare = m == MARK_NAME && !p->in_section;
    if (bare) rp_reply_append(&p->raw, p->space, p->n_space); /* it may turn out to be text */
    rp_reply_drop_space(p);
    p->capture = true;
    p->call_at = p->raw.n;
    memset(&p->call, 0, sizeof p->call);
    capture_mark(p, m);
    p->mode = MODE_CALLS;
    if (m == MARK_CALLS) return;
    rp_reply_open_call(p, bare);
    if (m == MARK_NAME) p->syntax->mark(p, m);
}

static void on_mark(RpReplyParser *p, MarkId m) {
    switch (p->mode) {
    case MODE_CALL:
        capture_mark(p, m);
        p->syntax->mark(p, m);
        if (p->mode != MODE_BAD || (m != MARK_CALL_END && m != MARK_CALLS_END)) return;
        if (m == MARK_CALLS_END) p->in_section = false; /* the mark was given with the malformed call */
        rp_reply_leave_call(p);
        return;
    case MODE_BAD:
        rp_reply_put(p, RP_REPLY_MALFORMED, mark_text(p, m), strlen(mark_text(p, m)));
        if (m == MARK_CALLS_END) p->in_section = false;
        rp_reply_leave_call(p);
        return;
    case MODE_HARMONY:
        rp_harmony_mark(p, m);
        return;
    default:
        break;
    }
    if (m == MARK_CALLS || m == MARK_CALL || m == MARK_NAME) {
        begin_calls(p, m);
    } else if (p->mode == MODE_CALLS) { /* MARK_CALLS_END */
        rp_reply_section_ended(p);
    } else {
        rp_reply_drop_space(p);
        if (m == MARK_THINK || m == MARK_THINK_END) p->mode = m == MARK_THINK ? MODE_REASONING : MODE_TEXT;
    }
}

static void text_byte(RpReplyParser *p, unsigned char c) {
    const RpReplyEventKind kind = p->mode == MODE_REASONING ? RP_REPLY_REASONING : RP_REPLY_TEXT;
    const bool             json = kind == RP_REPLY_TEXT && !p->any_text && (p->format->flags & FORMAT_BARE_JSON);
    if (p->skip_space && (rp_json_space(c) || (json && p->n_calls > 0 && c == ';'))) return;
    p->skip_space = false;
    if (rp_json_space(c)) {
        if (p->n_space == SPACE_BYTES) release_space(p, kind);
        p->space[p->n_space++] = (char)c;
        return;
    }
    if (json && p->has_tools && c == '{') {
        p->raw.n = p->call_at = 0;
        rp_reply_append(&p->raw, p->space, p->n_space);
        p->call_at = p->raw.n;
        rp_reply_append(&p->raw, "{", 1);
        p->n_space = 0;
        p->capture = true;
        rp_reply_opened(p, N_MARKS);
        rp_reply_open_call(p, true);
        p->syntax->byte(p, c);
        return;
    }
    release_space(p, kind);
    rp_reply_put(p, kind, (const char *)&c, 1);
    p->any_text = true;
}

static void on_byte(RpReplyParser *p, unsigned char c) {
    if (p->capture) rp_reply_append(&p->raw, (const char *)&c, 1);
    if (p->capture && p->raw.n > p->max_call_bytes) {
        rp_reply_bad(p);
        return;
    }
    switch (p->mode) {
    case MODE_TEXT:
    case MODE_REASONING:
        text_byte(p, c);
        return;
    case MODE_CALLS:
        if (!rp_json_space(c)) rp_reply_bad(p);
        return;
    case MODE_CALL:
        p->syntax->byte(p, c);
        return;
    case MODE_BAD:
        rp_reply_put(p, RP_REPLY_MALFORMED, (const char *)&c, 1);
        return;
    default:
        rp_harmony_byte(p, c);
        return;
    }
}

/* The first byte that is held back is no part of a mark. */
static void release_byte(RpReplyParser *p) {
    const unsigned char c = p->held[0];
    p->n_held--;
    memmove(p->held, p->held + 1, p->n_held);
    memmove(p->held_control, p->held_control + 1, p->n_held * sizeof *p->held_control);
    on_byte(p, c);
}

static void step(RpReplyParser *p, unsigned char c, bool control) {
    p->n_bytes++;
    p->held[p->n_held]           = c;
    p->held_control[p->n_held++] = control;
    while (p->n_held > 0) {
        MarkId      m   = N_MARKS;
        const Match how = match(p, &m);
        if (how == MATCH_PART) return;
        if (how == MATCH_WHOLE) {
            p->n_held = 0;
            on_mark(p, m);
        } else {
            release_byte(p);
        }
    }
}

/* Room for what n bytes may append: a byte becomes at most 6 (\u001f). */
static RpStatus reserve(ReplyBytes *b, size_t more) {
    if (b->room - b->n >= more) return RP_OK;
    const size_t room  = b->n + more < 512 ? 1024 : 2 * (b->n + more);
    char        *grown = realloc(b->p, room);
    if (grown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a tool call of %zu bytes", room);
    b->p    = grown;
    b->room = room;
    return RP_OK;
}

static RpStatus ready(RpReplyParser *p, size_t n) {
    if (p->cancelled) return rp_fail(RP_E_CANCELLED, "the reply was stopped by its callback");
    if (p->ended) return rp_fail(RP_E_STATE, "the reply has ended");
    if (p->format->syntax == SYNTAX_NONE) return RP_OK;
    RP_TRY(reserve(&p->raw, n + MARK_BYTES + SPACE_BYTES + 2));
    return reserve(&p->value, 6 * (n + MARK_BYTES) + 16);
}

static RpStatus cancelled(const RpReplyParser *p) {
    return p->cancelled ? rp_fail(RP_E_CANCELLED, "the reply was stopped by its callback") : RP_OK;
}

RpStatus rp_reply_parser_bytes(RpReplyParser *p, const char *bytes, size_t n, bool control) {
    RP_NOT_NULL(p, "p");
    if (n > 0) RP_NOT_NULL(bytes, "bytes");
    RP_TRY(ready(p, n));
    for (size_t i = 0; i < n; i++) step(p, (unsigned char)bytes[i], control);
    rp_reply_flush(p, false);
    return cancelled(p);
}

RpStatus rp_reply_parser_token(RpReplyParser *p, int32_t id) {
    RP_NOT_NULL(p, "p");
    if (p->tokenizer == NULL) return rp_fail(RP_E_ARG, "this parser has no tokenizer: give it bytes");
    RpGgufString text;
    bool         mark = false;
    for (unsigned m = 0; m < N_MARKS && !mark; m++) mark = p->token[m] && p->token_id[m] == id;
    RP_TRY(rp_token_bytes(p->tokenizer, id, mark, &text));
    return rp_reply_parser_bytes(p, text.ptr, text.len, mark);
}

static void finish(RpReplyParser *p) {
    while (p->n_held > 0) release_byte(p);
    switch (p->mode) {
    case MODE_TEXT:
        release_space(p, RP_REPLY_TEXT);
        break;
    case MODE_REASONING:
        release_space(p, RP_REPLY_REASONING);
        break;
    case MODE_CALLS:
        if (p->n_calls == 0) rp_reply_bad(p);
        break;
    case MODE_CALL:
        if (p->syntax->whole(p))
            rp_reply_call_ended(p);
        else if (p->mode == MODE_CALL)
            rp_reply_bad(p);
        break;
    case MODE_HARMONY:
        rp_harmony_end(p);
        break;
    default:
        break;
    }
    rp_reply_give_end(p);
}

RpStatus rp_reply_parser_end(RpReplyParser *p) {
    RP_NOT_NULL(p, "p");
    RP_TRY(ready(p, 0));
    finish(p);
    p->ended = true;
    return cancelled(p);
}

bool rp_reply_parser_in_reasoning(const RpReplyParser *p) {
    if (p == NULL) return false;
    return p->mode == MODE_REASONING || (p->mode == MODE_HARMONY && !p->in_header && p->body == RP_REPLY_REASONING);
}

void rp_reply_parser_free(RpReplyParser *p) {
    if (p == NULL) return;
    if (p->has_tools) rp_json_free(&p->tools);
    free(p->raw.p);
    free(p->value.p);
    free(p);
}

/* Vocabularies have ">" and "```" as tokens too, but these letters are also parts of longer tokens. */
static bool has_brackets(const char *mark) {
    const char last = mark[strlen(mark) - 1];
    return (mark[0] == '<' || mark[0] == '[') && (last == '>' || last == ']');
}

static RpStatus fill(RpReplyParser *p, const RpReplyParserOptions *o) {
    p->on_event       = o->on_event;
    p->user           = o->user;
    p->id_seed        = o->id_seed;
    p->tokenizer      = o->tokenizer;
    p->max_call_bytes = o->max_call_bytes > 0 ? o->max_call_bytes : 16 << 20;
    p->out_call       = -1;
    RP_TRY(rp_reply_format_of(o->format.calls, &p->format));
    RP_TRY(rp_reasoning_format_of(o->format.reasoning, &p->reasoning));
    p->first_syntax = syntaxes[p->format->syntax];
    p->mode         = p->format->syntax == SYNTAX_HARMONY ? MODE_HARMONY : o->in_reasoning ? MODE_REASONING : MODE_TEXT;
    p->in_header = p->capture = p->mode == MODE_HARMONY && !o->continues;
    p->skip_space             = p->mode == MODE_REASONING && !o->continues;
    p->any_text               = o->continues;
    p->body                   = o->in_reasoning ? RP_REPLY_REASONING : RP_REPLY_TEXT;
    for (unsigned m = 0; m < N_MARKS && o->tokenizer != NULL; m++) {
        const char *text = mark_text(p, m);
        p->token_id[m]   = text != NULL ? rp_tokenizer_find(o->tokenizer, text) : -1;
        p->token[m]      = p->token_id[m] >= 0 && has_brackets(text);
    }
    if (o->tools == NULL) return RP_OK;
    p->has_tools      = true;
    const RpStatus st = rp_json_read("tools", o->tools, o->tools_bytes, &p->tools);
    if (st == RP_OK && p->tools.nodes[0].n == 0) p->has_tools = false, rp_json_free(&p->tools);
    return st;
}

RpStatus rp_reply_parser_new_sized(const RpReplyParserOptions *options, size_t options_bytes, RpReplyParser **out) {
    RP_OUT(out, "out");
    RpReplyParserOptions o;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpReplyParserOptions"));
    RpReplyParser *p = calloc(1, sizeof *p);
    if (p == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a parser of replies");
    const RpStatus st = fill(p, &o);
    if (st != RP_OK) {
        rp_reply_parser_free(p);
        return st;
    }
    *out = p;
    return RP_OK;
}
