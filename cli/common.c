/* common.c - messages, exit status, interrupts, input and output of the commands. */
#include "cli/common.h"

#include "cli/terminal/style.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double                start_time; /* of main, as cli_now */
static volatile sig_atomic_t interrupt;  /* the signal that was caught; 0: none */

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
    if (status == RP_E_CANCELLED && interrupt) return 128 + interrupt;
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

bool cli_print(const char *text, size_t len) {
    static int terminal = -1;
    if (terminal < 0) terminal = isatty(STDOUT_FILENO);
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

int cli_close_stdout(int exit_status) {
    if (stdout_error == 0 && fflush(stdout) != 0) stdout_error = errno;
    if (stdout_error == 0 && ferror(stdout)) stdout_error = EIO;
    if (stdout_error == 0) return exit_status;
    if (stdout_error != EPIPE) cli_say("reprise", "standard output: %s", strerror(stdout_error));
    return exit_status == EXIT_OK || exit_status > 128 ? EXIT_ERROR : exit_status;
}

double cli_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void   cli_start_clock(void) { start_time = cli_now(); }
double cli_since_start(void) { return cli_now() - start_time; }

static void on_interrupt(int signal_number) {
    if (interrupt) _exit(128 + signal_number);
    interrupt = signal_number;
}

/* Without SA_RESTART, so that Ctrl-C ends a read from the terminal with EINTR. */
void cli_catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

void cli_catch_termination(void) {
    struct sigaction action = {.sa_handler = on_interrupt}, old;
    cli_catch_interrupts();
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
}

bool cli_interrupted(void) { return interrupt != 0; }
void cli_forget_interrupt(void) { interrupt = 0; }

static bool model_progress(size_t done, size_t total, void *user) {
    return cli_progress(user, (double)done, (double)total);
}

/* "FILE", or "FILE:SCALE" if there is no file of the whole name. */
static RpStatus add_adapter(RpModel *m, const char *text) {
    const char *colon = strrchr(text, ':');
    char       *end, *path;
    if (colon == NULL || access(text, F_OK) == 0) return rp_model_add_adapter(m, text, 1.0f);
    const float scale = strtof(colon + 1, &end);
    if (end == colon + 1 || *end != '\0')
        return rp_fail(RP_E_ARG, "--lora %s: '%s' is no scale", text, colon + 1);
    path = strndup(text, (size_t)(colon - text));
    if (path == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a path");
    const RpStatus st = rp_model_add_adapter(m, path, scale);
    free(path);
    return st;
}

RpStatus cli_add_adapters(RpModel *m, const TextList *adapters) {
    for (size_t i = 0; i < adapters->n; i++) {
        RP_TRY(add_adapter(m, adapters->items[i]));
        if (rp_model_info(m)->adapter_warning != NULL) cli_warn("%s", rp_model_info(m)->adapter_warning);
    }
    return RP_OK;
}

RpStatus cli_open_model(const char *path, const DeviceArgs *d, bool quiet, RpModel **out) {
    Progress             p  = {.label = "loading", .off = quiet};
    const RpModelOptions o  = {.progress = model_progress, .user = &p, .copy = d->no_mmap};
    RpStatus             st = rp_model_open(path, &o, out);
    cli_progress_end(&p);
    if (st == RP_OK) st = cli_add_adapters(*out, &d->adapters);
    if (st != RP_OK) {
        rp_model_free(*out);
        *out = NULL;
    }
    return st;
}

RpStatus cli_need_tokenizer(const RpModel *m, const char *path) {
    if (rp_model_tokenizer(m) != NULL) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED,
                   "%s has no tokenizer (tokenizer.ggml.model is absent), so it cannot read text", path);
}

static RpStatus read_stream(FILE *f, const char *path, Text *out) {
    size_t room = 0;
    for (;;) {
        if (out->n + 1 >= room) {
            char *grown = realloc(out->bytes, room = 2 * room + 4096);
            if (grown == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory after %zu bytes", path, out->n);
            out->bytes = grown;
        }
        const size_t got = fread(out->bytes + out->n, 1, room - out->n - 1, f);
        out->n += got;
        if (got == 0 || ferror(f)) break; /* a read that Ctrl-C ended may have got something */
    }
    out->bytes[out->n] = '\0';
    if (interrupt) return rp_fail(RP_E_CANCELLED, "%s: interrupted", path);
    return ferror(f) ? rp_fail(RP_E_IO, "%s: %s", path, strerror(errno)) : RP_OK;
}

RpStatus cli_read_text(const char *text, const char *path, Text *out) {
    *out = (Text){0};
    if (text != NULL && strcmp(text, "-") != 0) {
        out->bytes = strdup(text);
        out->n     = strlen(text);
        return out->bytes != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for the text");
    }
    const bool  from_stdin = text != NULL || strcmp(path, "-") == 0;
    FILE *const f          = from_stdin ? stdin : fopen(path, "rb");
    if (f == NULL) return rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
    const RpStatus st = read_stream(f, from_stdin ? "standard input" : path, out);
    if (!from_stdin) fclose(f);
    if (st != RP_OK) {
        free(out->bytes);
        *out = (Text){0};
    }
    return st;
}

void cli_clean_output(const char *path) {
    char          names[1000];
    const int32_t n = rp_new_file_clean(path, names, sizeof names);
    if (n > 0) cli_warn("removed what a killed run left of %s (%d): %s", path, n, names);
}

RpStatus cli_open_output(const char *path, RpNewFile **file, FILE **out) {
    *file = NULL;
    *out  = stdout;
    if (path == NULL || strcmp(path, "-") == 0) return RP_OK;
    cli_clean_output(path);
    RP_TRY(rp_new_file_open(path, file));
    *out = rp_new_file_stream(*file);
    return RP_OK;
}

RpStatus cli_close_output(RpNewFile *file, RpStatus written) {
    if (file == NULL && ferror(stdout)) return RP_OK; /* cli_close_stdout reports it */
    return rp_new_file_close(file, written);
}

int32_t cli_default_ctx(const RpModel *m) {
    const int32_t n = rp_model_info(m)->n_ctx_train;
    return n < 4096 ? n : 4096;
}

RpStatus cli_kv_type(const char *name, RpDtype *out) {
    *out = RP_F16;
    if (name == NULL || strcmp(name, "f16") == 0) return RP_OK;
    *out = RP_Q8_0;
    return strcmp(name, "q8_0") == 0 ? RP_OK : rp_fail(RP_E_ARG, "--kv %s: must be f16 or q8_0", name);
}

/* All layers have caches of the same size, but n_layer_local of them read only a window of positions. */
double cli_kv_bytes(const RpSession *s, double position) {
    const RpModelInfo *m = rp_model_info(rp_session_model(s));
    const double       layer =
        (double)rp_plan_memory(rp_session_decode_plan(s)).state / rp_session_n_ctx(s) / m->n_layer;
    return layer *
           (m->n_layer_local * fmin(m->window, position) + (m->n_layer - m->n_layer_local) * position);
}

/* Bytes of the UTF-8 character at p, of n bytes that are there; 0 if there is no whole, valid one. */
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

RpStatus cli_mode(const char *name, RpExecMode *out) {
    *out = RP_MODE_AUTO;
    if (name == NULL || rp_mode_from_name(name, out) == RP_OK) return RP_OK;
    return rp_fail(RP_E_ARG, "--mode %s: must be auto, eager, replay or loop", name);
}

RpStatus cli_device_options(const DeviceArgs *d, RpSessionOptions *o) {
    o->device        = d->name;
    o->require_cuda  = d->require_cuda;
    o->require_graph = d->require_graph;
    return cli_mode(d->mode, &o->mode);
}

void cli_report_fallback(const RpExecutorInfo *info, RpExecMode asked) {
    static bool said;
    const bool  cpu = strcmp(info->device, "cpu") == 0, lesser = asked > RP_MODE_EAGER && info->mode < asked;
    if (said || info->reason[0] == '\0' || (cpu && !info->fell_back && !lesser)) return;
    said = true;
    if (info->fell_back)
        cli_warn("running on the CPU: %s (choose it with --device cpu to silence this)", info->reason);
    else
        cli_warn("%s: %s", info->device, info->reason);
}

RpStatus cli_open_session(const RpModel *m, const DeviceArgs *d, bool quiet, RpSessionOptions *o,
                          RpSession **out) {
    Progress p = {.label = "compiling kernels", .off = quiet};
    RP_TRY(cli_device_options(d, o));
    o->compile_progress = model_progress;
    o->user             = &p;
    const RpStatus st   = rp_session_open(m, o, out);
    cli_progress_end(&p);
    RP_TRY(st);
    const RpExecutorInfo info = rp_session_info(*out);
    cli_report_fallback(&info, o->mode);
    return RP_OK;
}
