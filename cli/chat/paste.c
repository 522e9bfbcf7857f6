/* Bracketed paste (paste.h): what comes between ESC [ 200 ~ and ESC [ 201 ~ was pasted. */
#include "cli/chat/paste.h"

#include "cli/terminal/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

enum { ESCAPE = 0x1b, QUOTE = 0x16 /* ^V: the next character is no command */, LABEL_BYTES = 64, WAIT_MS = 50 };

static const char begin_mark[] = "\033[200~", end_mark[] = "\033[201~";

typedef struct Bytes {
    char  *p;
    size_t n, room;
} Bytes;

typedef struct Paste {
    Bytes text;
    char  label[LABEL_BYTES]; /* in the line */
} Paste;

static struct {
    Bytes  waiting; /* bytes in front of those of the terminal */
    size_t taken;   /* of `waiting` */
    Paste *all;     /* of the line in the making */
    size_t n;
    int    number;  /* of the last one */
    bool   catches; /* cli_paste_catches */
} state;

static bool push(Bytes *b, char c) {
    if (b->n + 1 >= b->room) {
        char *grown = realloc(b->p, 2 * b->room + 64);
        if (grown == NULL) return false;
        b->p    = grown;
        b->room = 2 * b->room + 64;
    }
    b->p[b->n++] = c;
    b->p[b->n]   = '\0';
    return true;
}

static void forget(void) {
    for (size_t i = 0; i < state.n; i++) free(state.all[i].text.p);
    free(state.all);
    state.all = NULL;
    state.n   = 0;
}

static void write_mode(const char *text) { (void)!write(STDOUT_FILENO, text, strlen(text)); }

static void on_interrupt(int signal_number) {
    write_mode("\033[?2004l");
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void cli_paste_catches(bool on) { state.catches = on; }

void cli_paste_on(void) {
    fflush(stdout);
    if (!state.catches) signal(SIGINT, on_interrupt);
    write_mode("\033[?2004h");
}

void cli_paste_off(void) { write_mode("\033[?2004l"); }

/* -1: the end. */
static int next_byte(int fd) {
    unsigned char c;
    if (state.taken < state.waiting.n) {
        c = (unsigned char)state.waiting.p[state.taken++];
        if (state.taken == state.waiting.n) state.taken = state.waiting.n = 0;
        return c;
    }
    ssize_t n = 0;
    do {
        if (state.catches && !cli_wait_for_input(fd)) return -1;
        n = read(fd, &c, 1);
    } while (n < 0 && errno == EINTR);
    return n == 1 ? c : -1;
}

static bool has_byte(int fd) {
    return state.taken < state.waiting.n || poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, WAIT_MS) == 1;
}

/* Puts bytes in front of the waiting ones. Some of these bytes are lost if memory runs out. */
static void give_back(const char *text, size_t n) {
    Bytes b  = {0};
    bool  ok = true;
    for (size_t i = 0; i < n; i++) ok = ok && push(&b, text[i]);
    for (size_t i = state.taken; i < state.waiting.n; i++) ok = ok && push(&b, state.waiting.p[i]);
    free(state.waiting.p);
    state.waiting = b;
    state.taken   = 0;
}

/* Call it behind an ESC. True if the rest of the mark follows; otherwise the bytes that were read are given back. */
static bool begins(int fd) {
    char   came[sizeof begin_mark];
    size_t n = 0;
    while (n + 2 < sizeof begin_mark && has_byte(fd)) {
        const int c = next_byte(fd);
        if (c < 0) break;
        came[n++] = (char)c;
        if (came[n - 1] != begin_mark[n]) break;
    }
    if (n + 2 == sizeof begin_mark && memcmp(came, begin_mark + 1, n) == 0) return true;
    give_back(came, n);
    return false;
}

/* The pasted text, with newlines as line ends and none at its end. */
static Bytes read_text(int fd) {
    Bytes        b    = {0};
    bool         ok   = true;
    const size_t mark = strlen(end_mark);
    for (int c; ok && (c = next_byte(fd)) >= 0;) {
        ok = push(&b, (char)c);
        if (!ok || b.n < mark || memcmp(b.p + b.n - mark, end_mark, mark) != 0) continue;
        b.n -= mark;
        break;
    }
    size_t n = 0;
    for (size_t i = 0; i < b.n; i++) {
        if (b.p[i] == '\r' && i + 1 < b.n && b.p[i + 1] == '\n') continue;
        b.p[n++] = b.p[i] == '\r' ? '\n' : b.p[i];
    }
    while (n > 0 && b.p[n - 1] == '\n') n--;
    b.n = n;
    return b;
}

static bool keep(const Bytes *text, size_t lines, char label[LABEL_BYTES]) {
    Paste *grown = realloc(state.all, (state.n + 1) * sizeof *grown);
    if (grown == NULL) return false;
    state.all = grown;
    snprintf(label, LABEL_BYTES, "[paste %d: %zu lines]", ++state.number, lines);
    state.all[state.n] = (Paste){.text = *text};
    memcpy(state.all[state.n++].label, label, LABEL_BYTES);
    return true;
}

static void take_paste(int fd) {
    Bytes  text = read_text(fd), typed = {0};
    size_t lines = 1;
    char   label[LABEL_BYTES];
    bool   ok = true;
    for (size_t i = 0; i < text.n; i++) lines += text.p[i] == '\n';
    if (lines > 1 && keep(&text, lines, label)) {
        give_back(label, strlen(label));
        return;
    }
    for (size_t i = 0; i < text.n && lines == 1; i++) {
        const unsigned char c = (unsigned char)text.p[i];
        if (c < 0x20 || c == 0x7f) ok = ok && push(&typed, QUOTE);
        ok = ok && push(&typed, text.p[i]);
    }
    give_back(typed.p, typed.n);
    free(typed.p);
    free(text.p);
}

int cli_paste_getc(FILE *in) {
    const int fd    = fileno(in);
    mbstate_t shift = {0};
    wchar_t   wide;
    for (;;) {
        const int c = next_byte(fd);
        if (c < 0) return -1;
        if (c == ESCAPE && begins(fd)) {
            take_paste(fd);
            continue;
        }
        const char   byte = (char)c;
        const size_t n    = c < 0x80 ? 1 : mbrtowc(&wide, &byte, 1, &shift);
        if (c < 0x80) return c;
        if (n == 1) return (int)wide;
        if (n == (size_t)-1) memset(&shift, 0, sizeof shift); /* ill-formed: the byte is lost */
    }
}

char *cli_paste_expand(char *line, size_t *n) {
    for (size_t i = 0; i < state.n && line != NULL; i++) {
        const Paste *p  = &state.all[i];
        const char  *at = memmem(line, *n, p->label, strlen(p->label));
        if (at == NULL) continue; /* it was deleted */
        const size_t before = (size_t)(at - line), behind = before + strlen(p->label);
        char        *whole = malloc(*n + p->text.n + 1);
        if (whole != NULL) {
            memcpy(whole, line, before);
            memcpy(whole + before, p->text.p, p->text.n);
            memcpy(whole + before + p->text.n, line + behind, *n - behind + 1);
            *n = *n - strlen(p->label) + p->text.n;
        }
        free(line);
        line = whole;
    }
    forget();
    return line;
}
