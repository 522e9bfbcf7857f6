/* text_files.c - reads an input as a whole and writes an output that is whole or absent. */
#include "cli/text_files.h"

#include "cli/terminal/interrupt.h"
#include "cli/terminal/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Reads to the end of the stream, in a buffer that grows by doubling and always has room for the final NUL. */
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
    if (cli_interrupted()) return rp_fail(RP_E_CANCELLED, "%s: interrupted", path);
    return ferror(f) ? rp_fail(RP_E_IO, "%s: %s", path, strerror(errno)) : RP_OK;
}

RpStatus cli_read_text(const char *text, const char *path, Text *out) {
    *out = (Text){0};
    if (text != NULL && strcmp(text, "-") != 0) {
        out->bytes = strdup(text);
        out->n     = strlen(text);
        return out->bytes != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for the text");
    }
    const bool from_stdin = text != NULL || strcmp(path, "-") == 0;
    FILE      *f          = from_stdin ? stdin : NULL;
    errno                 = EINTR;
    if (!from_stdin && !cli_interrupted()) f = fopen(path, "rb"); /* waits for the writer of a pipe */
    if (f == NULL && errno == EINTR && cli_interrupted()) return rp_fail(RP_E_CANCELLED, "%s: interrupted", path);
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

RpStatus cli_check_output(const char *path) {
    struct stat s;
    RpNewFile  *file;
    FILE       *out;
    if (stat(path, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode)) return RP_OK;
    RP_TRY(cli_open_output(path, &file, &out));
    const RpStatus st = rp_new_file_close(file, RP_E_CANCELLED); /* nothing is written */
    return st == RP_E_CANCELLED ? RP_OK : st;
}

RpStatus cli_close_output(RpNewFile *file, RpStatus written) {
    if (file == NULL && ferror(stdout)) return RP_OK; /* cli_close_stdout reports it */
    return rp_new_file_close(file, written);
}
