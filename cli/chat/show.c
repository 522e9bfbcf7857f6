/* show.c - the events of a reply on stdout; reasoning dimmed, on stderr, or left out (show.h). */
#include "cli/chat/show.h"

#include "cli/terminal/message.h"
#include "cli/terminal/style.h"

#include <stdlib.h>
#include <string.h>

static bool print(Show *s, const char *text, size_t n) {
    if (n == 0) return true;
    s->written = true;
    s->last    = text[n - 1];
    return cli_print(text, n);
}

static bool print_word(Show *s, const char *text) { return print(s, text, strlen(text)); }

static bool end_line(Show *s) { return !s->written || s->last == '\n' || print_word(s, "\n"); }

/* A terminal does not get control characters of a model. */
static void print_error(Show *s, const char *text, size_t n) {
    char *shown = cli_is_terminal(stderr) ? cli_visible(text, n) : NULL;
    if (shown != NULL)
        fputs(shown, stderr);
    else
        fwrite(text, 1, n, stderr);
    if (n > 0) s->error_open = text[n - 1] != '\n';
    free(shown);
}

static void set_style(Show *s, Style style) {
    if (!s->screen) return;
    fputs(cli_style(stdout, style), stdout);
    s->styled = style != STYLE_PLAIN;
}

/* Call it before the first piece of another kind of event. */
static bool begin(Show *s, RpReplyEventKind kind) {
    const bool bare = cli_style(stdout, STYLE_DIM)[0] == '\0'; /* a terminal without colours */
    if (s->styled) set_style(s, STYLE_PLAIN);
    if (s->error_open) print_error(s, "\n", 1);
    if (kind == RP_REPLY_REASONING && !s->screen) {
        print_error(s, "(reasoning) ", 12);
        return true;
    }
    if (!end_line(s)) return false;
    if (kind == RP_REPLY_REASONING) {
        set_style(s, STYLE_DIM);
        return !bare || print_word(s, "(reasoning) ");
    }
    return kind != RP_REPLY_MALFORMED || print_word(s, "(malformed call) ");
}

static bool is_shown(const Show *s, RpReplyEventKind kind) {
    return kind == RP_REPLY_REASONING ? !s->hide && (s->screen || s->to_stderr) : kind != RP_REPLY_END;
}

bool cli_show_event(Show *s, const RpReplyEvent *e) {
    if (!is_shown(s, e->kind)) return true;
    const bool of_call = e->kind == RP_REPLY_CALL_ARGUMENTS || e->kind == RP_REPLY_CALL_END;
    if (!of_call && (!s->any || s->kind != e->kind || e->kind == RP_REPLY_CALL_BEGIN) && !begin(s, e->kind))
        return false;
    s->any  = true;
    s->kind = e->kind;
    if (e->kind == RP_REPLY_CALL_BEGIN) {
        set_style(s, STYLE_HEADING);
        const bool go_on = print_word(s, e->name);
        set_style(s, STYLE_PLAIN);
        return go_on && print_word(s, "(");
    }
    if (e->kind == RP_REPLY_CALL_END) return print_word(s, ")");
    if (e->kind != RP_REPLY_REASONING || s->screen) return print(s, e->text, e->len);
    print_error(s, e->text, e->len);
    return true;
}

void cli_show_end(Show *s) {
    if (s->styled) set_style(s, STYLE_PLAIN);
    if (s->error_open) print_error(s, "\n", 1);
    (void)end_line(s);
}
