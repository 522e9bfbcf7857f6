/* input.c - lines of a terminal or a pipe, and messages of several lines. */
#include "cli/chat/input.h"

#include "cli/chat/paste.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/message.h"
#include "reprise/tokenizer.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#ifdef RP_HAVE_EDIT
#include <editline/readline.h>

static const char *(*command_name)(int i); /* Input.command, which the line editor cannot pass on */

/* The next command that begins with `text`, as readline wants it: malloc, NULL at the end. */
static char *next_command(const char *text, int state) {
    static int at;
    if (state == 0) at = 0;
    for (const char *name; (name = command_name(at)) != NULL;) {
        at++;
        if (strncmp(name, text, strlen(text)) == 0) return strdup(name);
    }
    return NULL;
}

/* Commands at the begin of a line; elsewhere NULL, which completes names of files. */
static char **complete(const char *text, int start, int end) {
    (void)end;
    return start == 0 && text[0] == '/' ? rl_completion_matches(text, next_command) : NULL;
}
#endif

typedef struct Line {
    char  *text;  /* malloc, without its newline; NULL: the input has ended */
    size_t n;     /* more than strlen(text) if it has a NUL byte */
    int    error; /* errno; 0: none */
} Line;

static bool is_interrupted(const Input *in) { return in->catches && cli_interrupted(); }

/* Returns the line, or none after a signal that ends the input. */
static Line unless_interrupted(const Input *in, Line line) {
    if (!is_interrupted(in)) return line;
    free(line.text);
    return (Line){0};
}

static Line read_line(const Input *in, const char *prompt) {
    Line   line = {0};
    size_t room = 0;
    if (in->catches)
        cli_catch_termination();
    else
        signal(SIGINT, SIG_DFL);
    if (is_interrupted(in)) return line;
#ifdef RP_HAVE_EDIT
    if (in->terminal) {
        command_name                     = in->command;
        rl_attempted_completion_function = complete;
        rl_getc_function                 = cli_paste_getc;
        cli_paste_catches(in->catches);
        if (in->marks) cli_paste_on();
        line.text = readline(prompt);
        if (in->marks) cli_paste_off();
        line.n = line.text != NULL ? strlen(line.text) : 0;
        if (line.text != NULL) line.text = cli_paste_expand(line.text, &line.n);
        if (line.text != NULL && line.text[0] != '\0') add_history(line.text);
        return unless_interrupted(in, line);
    }
#endif
    if (in->terminal && !cli_print(prompt, strlen(prompt))) return line;
    const ssize_t n = getline(&line.text, &room, stdin);
    if (n < 0) {
        line.error = ferror(stdin) ? errno : 0;
        free(line.text);
        line.text = NULL;
        return unless_interrupted(in, line);
    }
    line.n = (size_t)n;
    if (n > 0 && line.text[n - 1] == '\n') line.text[--line.n] = '\0';
    return unless_interrupted(in, line);
}

/* Adds n bytes of a line to a message; `next`: behind a newline. */
static RpStatus add(char **text, const char *line, size_t n, bool next) {
    const size_t held  = *text != NULL ? strlen(*text) : 0;
    char        *grown = realloc(*text, held + n + 2);
    if (grown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a message");
    char *end = grown + held;
    if (next) *end++ = '\n';
    memcpy(end, line, n);
    end[n] = '\0';
    *text  = grown;
    return RP_OK;
}

/* Ill-formed sequences become U+FFFD in the stream, and incomplete ones stay in it. */
static bool is_utf8(const char *text) {
    RpUtf8Stream u = {0};
    char         out[16 + 8];
    size_t       same = 0;
    for (const char *p = text; *p != '\0'; p++) {
        const size_t n = rp_utf8_feed(&u, p, 1, out);
        if (strncmp(text + same, out, n) != 0) return false;
        same += n;
    }
    return text[same] == '\0';
}

typedef struct Reader {
    InputText *out;
    bool       nul;
    size_t     n_lines;
} Reader;

/* Adds a line, of which the last `cut` bytes are dropped. */
static RpStatus take(Reader *r, const Line *line, size_t cut) {
    const size_t n = strlen(line->text);
    r->nul         = r->nul || n != line->n;
    return add(&r->out->text, line->text, n >= cut ? n - cut : 0, r->n_lines++ > 0);
}

static bool goes_on(const Line *line) { return line->n > 0 && line->text[line->n - 1] == '\\'; }

static bool is_fence(const Line *line) { return line->n == 3 && memcmp(line->text, "\"\"\"", 3) == 0; }

/* The lines up to the next """. */
static RpStatus read_block(const Input *in, Reader *r) {
    RpStatus st   = add(&r->out->text, "", 0, false);
    r->out->block = true;
    for (bool end = false; st == RP_OK && !end;) {
        Line line = read_line(in, "... ");
        end       = line.text == NULL || is_fence(&line);
        if (line.text == NULL && !is_interrupted(in)) {
            cli_say("reprise", "the message that began with \"\"\" has no end: it was not sent");
            r->out->bad = true;
        } else if (line.text == NULL) {
            r->out->bad = true;
        } else if (!end) {
            st = take(r, &line, 0);
        }
        free(line.text);
    }
    return st;
}

static RpStatus read_message(const Input *in, const char *prompt, Reader *r) {
    Line line = read_line(in, prompt);
    if (line.error != 0) return rp_fail(RP_E_IO, "standard input: %s", strerror(line.error));
    if (line.text == NULL) return RP_OK;
    if (is_fence(&line)) {
        free(line.text);
        return read_block(in, r);
    }
    r->out->block = memchr(line.text, '\n', line.n) != NULL; /* it was pasted */
    for (;;) {
        const bool     more = !r->out->block && goes_on(&line);
        const RpStatus st   = take(r, &line, more);
        free(line.text);
        if (st != RP_OK || !more) return st;
        line = read_line(in, "... ");
        if (line.text == NULL) return RP_OK;
    }
}

RpStatus cli_chat_read(const Input *in, const char *prompt, InputText *out) {
    Reader r          = {.out = out};
    *out              = (InputText){0};
    const RpStatus st = read_message(in, prompt, &r);
    if (st != RP_OK) {
        free(out->text);
        *out = (InputText){0};
        return st;
    }
    if (out->text == NULL) return RP_OK;
    if (r.nul) /* the rest would be lost; an empty line is no message */
        cli_say("reprise", "this line holds a NUL byte, which a message cannot: it was not sent");
    else if (!out->bad && in->utf8 && !is_utf8(out->text))
        cli_say("reprise", "this message is not UTF-8: it was not sent");
    else if (!out->bad)
        return RP_OK;
    out->bad     = true;
    out->text[0] = '\0';
    return RP_OK;
}
