/* input.c - lines of a terminal or a pipe, and messages of several lines. */
#include "cli/chat/input.h"

#include "cli/chat/paste.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/message.h"
#include "reprise/tokenizer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

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

/* A line of standard input, without stdio: what that holds back cannot be waited for. */
static Line read_plain_line(const Input *in) {
    static struct {
        char   bytes[4096];
        size_t n, at;
    } held;
    Line  line = {0};
    FILE *text = open_memstream(&line.text, &line.n);
    bool  any = false, end = false;
    if (text == NULL) return (Line){.error = ENOMEM};
    while (!end) {
        if (held.at == held.n) {
            if (in->catches && !cli_wait_for_input(STDIN_FILENO)) break;
            const ssize_t n = read(STDIN_FILENO, held.bytes, sizeof held.bytes);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) line.error = errno;
            if (n <= 0) break;
            held.n  = (size_t)n;
            held.at = 0;
        }
        const char  *from    = held.bytes + held.at;
        const char  *newline = memchr(from, '\n', held.n - held.at);
        const size_t n       = newline != NULL ? (size_t)(newline - from) : held.n - held.at;
        fwrite(from, 1, n, text);
        end = newline != NULL;
        any = true;
        held.at += n + end;
    }
    if (fclose(text) != 0) line.error = ENOMEM;
    if (any && line.error == 0) return line;
    free(line.text);
    return (Line){.error = line.error};
}

static Line read_line(const Input *in, const char *prompt) {
    Line line = {0};
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
    return unless_interrupted(in, read_plain_line(in));
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

static RpStatus error_of(const Line *line) {
    return line->error == 0 ? RP_OK : rp_fail(RP_E_IO, "standard input: %s", strerror(line->error));
}

/* The lines up to the next """. */
static RpStatus read_block(const Input *in, Reader *r) {
    RpStatus st   = add(&r->out->text, "", 0, false);
    r->out->block = true;
    for (bool end = false; st == RP_OK && !end;) {
        Line line = read_line(in, "... ");
        RP_TRY(error_of(&line));
        end = line.text == NULL || is_fence(&line);
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
    RP_TRY(error_of(&line));
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
        RP_TRY(error_of(&line));
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
