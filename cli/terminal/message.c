/* message.c - lines on stderr, text on stdout, and the exit status. */
#include "cli/terminal/message.h"

#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/style.h"
#include "reprise/text.h"
#include "reprise/tokenizer.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Prints the text as one line: line ends and tabs become \xNN too, which rp_visible_text leaves alone. */
static void say(Style style, const char *who, const char *fmt, va_list ap) {
    char   text[1200], line[4 * sizeof text], shown[4 * sizeof text];
    size_t n = 0;
    vsnprintf(text, sizeof text, fmt, ap);
    for (const char *c = text; *c != '\0'; c++)
        n += (size_t)snprintf(line + n, sizeof line - n, *c == '\n' || *c == '\t' ? "\\x%02x" : "%c", *c);
    rp_visible_text(line, n, shown, sizeof shown);
    cli_progress_clear();
    fprintf(stderr, "%s%s:%s %s\n", cli_style(stderr, style), who, cli_style(stderr, STYLE_PLAIN), shown);
}

void cli_say(const char *who, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    say(STYLE_ERROR, who, fmt, ap);
    va_end(ap);
}

void cli_warn(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    say(STYLE_WARNING, "reprise", fmt, ap);
    va_end(ap);
}

int cli_exit(RpStatus status) {
    if (status == RP_OK) return EXIT_OK;
    if (status == RP_E_CANCELLED && cli_interrupted()) return 128 + cli_interrupt_signal();
    cli_say("reprise", "%s", rp_last_error());
    return EXIT_ERROR;
}

static int stdout_error; /* errno of the first failed write; 0: none */

char *cli_visible(const char *text, size_t n) {
    const size_t size  = rp_visible_text(text, n, NULL, 0) + 1;
    char        *shown = malloc(size);
    if (shown != NULL) rp_visible_text(text, n, shown, size);
    return shown;
}

/* Whether a caught signal has ended a write to a pipe that nobody reads. */
static bool is_interrupted_write(void) { return stdout_error == EINTR && cli_interrupted(); }

/* A pipe or a file gets the bytes as they are. A terminal does not: bytes from a model could move its cursor or
 * worse. */
bool cli_print(const char *text, size_t len) {
    static int terminal = -1;
    if (terminal < 0) terminal = isatty(STDOUT_FILENO);
    if (stdout_error == EINTR && !cli_interrupted()) { /* the signal is forgotten: `chat` goes on */
        clearerr(stdout);
        stdout_error = 0;
    }
    if (stdout_error != 0) return false;
    if (!terminal) {
        if (fwrite(text, 1, len, stdout) != len || fflush(stdout) != 0) stdout_error = errno;
        return stdout_error == 0;
    }
    char *shown = cli_visible(text, len);
    if (shown == NULL) stdout_error = ENOMEM;
    if (shown != NULL && (fputs(shown, stdout) < 0 || fflush(stdout) != 0)) stdout_error = errno;
    free(shown);
    return stdout_error == 0;
}

/* Finds why a write failed whose errno is lost because stdio flushed a full buffer. poll() reports a pipe without a
 * reader. */
static int lost_error(void) {
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (cli_interrupted()) return EINTR;
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0 ? EPIPE : EIO;
}

/* A failed write outranks success and a signal, but not another failure. A reader that closes its pipe, such as
 * `head`, has all that it wants, so nothing is said about EPIPE. */
int cli_close_stdout(int exit_status) {
    if (stdout_error == 0 && fflush(stdout) != 0) stdout_error = errno;
    if (stdout_error == 0 && ferror(stdout)) stdout_error = lost_error();
    if (stdout_error == 0) return exit_status;
    if (is_interrupted_write()) return 128 + cli_interrupt_signal();
    if (stdout_error != EPIPE) cli_say("reprise", "standard output: %s", strerror(stdout_error));
    return exit_status == EXIT_OK || exit_status > 128 ? EXIT_ERROR : exit_status;
}

/* Bytes of the UTF-8 character at p, where n bytes are left; 0 if they begin with no whole, valid character. */
static size_t utf8_length(const char *p, size_t n) {
    RpUtf8Stream u = {0};
    char         text[16 + 8];
    for (size_t len = 1; len <= n; len++) {
        const size_t out = rp_utf8_feed(&u, p + len - 1, 1, text);
        if (out > 0) return out == len && memcmp(text, p, len) == 0 ? len : 0;
    }
    return 0;
}

void cli_print_escaped(FILE *out, const char *bytes, size_t n, size_t max) {
    for (size_t i = 0, len; i < n && i<max; i += len> 0 ? len : 1) {
        const unsigned char c = (unsigned char)bytes[i];
        len                   = utf8_length(bytes + i, n - i);
        if (len == 0)
            fprintf(out, "<%02X>", c);
        else if (len == 2 && c == 0xc2 && (unsigned char)bytes[i + 1] <= 0x9f)
            fprintf(out, "\\x%02x", (unsigned char)bytes[i + 1]); /* U+0080 to U+009F: control characters */
        else if (len > 1)
            fwrite(bytes + i, 1, len, out);
        else if (c == '\n')
            fputs("\\n", out);
        else if (c == '\t')
            fputs("\\t", out);
        else if (c == '\r')
            fputs("\\r", out);
        else if (c == '\\' || c == '"')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\x%02x", c);
        else
            putc(c, out);
    }
    if (n > max) fputs("...", out);
}
