/* Writes JSON (json.h). */
#include "server/api/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Bytes of the well-formed character of UTF-8 at p; 0: there is none. */
static size_t character(const unsigned char *p, size_t n) {
    const size_t len = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (len == 1) return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n < len) return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return 0;
    if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
    return len;
}

static void put_escape(Bytes *out, unsigned char c) {
    static const char letters[] = "\b\f\n\r\t", names[] = "bfnrt";
    const char       *p = c != 0 ? strchr(letters, c) : NULL;
    char              text[8];
    if (c == '"' || c == '\\')
        snprintf(text, sizeof text, "\\%c", c);
    else if (p != NULL)
        snprintf(text, sizeof text, "\\%c", names[p - letters]);
    else
        snprintf(text, sizeof text, "\\u%04x", c);
    bytes_text(out, text);
}

static void put_string(Bytes *out, const char *text, size_t n) {
    size_t from = 0; /* bytes in front of it are written */
    bytes_text(out, "\"");
    for (size_t i = 0; i < n;) {
        const unsigned char c   = (unsigned char)text[i];
        const size_t        len = character((const unsigned char *)text + i, n - i);
        if (len > 0 && c >= ' ' && c != '"' && c != '\\') {
            i += len;
            continue;
        }
        bytes_put(out, text + from, i - from);
        if (len == 0)
            bytes_text(out, "\xef\xbf\xbd");
        else
            put_escape(out, c);
        from = ++i;
    }
    if (n > from) bytes_put(out, text + from, n - from);
    bytes_text(out, "\"");
}

static int put_dump(const char *p, size_t n, void *out) {
    bytes_put(out, p, n);
    return 0;
}

static void put_tree(Bytes *out, const json_t *j) {
    if (j == NULL)
        bytes_text(out, "null");
    else if (json_dump_callback(j, put_dump, out, JSON_COMPACT | JSON_ENCODE_ANY) != 0)
        out->failed = true;
}

static void put_time(Bytes *out, int64_t seconds) {
    const time_t t = (time_t)seconds;
    struct tm    parts;
    char         text[64] = "\"1970-01-01T00:00:00Z\"";
    if (gmtime_r(&t, &parts) != NULL) (void)strftime(text, sizeof text, "\"%Y-%m-%dT%H:%M:%SZ\"", &parts);
    bytes_text(out, text);
}

static void put_double(Bytes *out, double x) {
    char text[40];
    snprintf(text, sizeof text, "%.9g", isfinite(x) ? x : -9999.0);
    bytes_text(out, text);
}

/* The part of a format in front of the next %, with its quotes. Returns its length. */
static size_t put_plain(Bytes *out, const char *format) {
    const size_t n = strcspn(format, "%");
    bytes_put(out, format, n);
    if (out->failed) return n;
    for (char *c = out->p + out->n - n; c < out->p + out->n; c++)
        if (*c == '\'') *c = '"';
    return n;
}

void json_put(Bytes *out, const char *format, ...) {
    char        text[24];
    const char *p;
    va_list     args;
    va_start(args, format);
    for (const char *f = format; *f != '\0'; f++) {
        f += put_plain(out, f);
        if (*f == '\0') break;
        switch (*++f) {
        case 's':
            p = va_arg(args, const char *);
            if (p == NULL)
                bytes_text(out, "null");
            else
                put_string(out, p, strlen(p));
            break;
        case 't':
            p = va_arg(args, const char *);
            put_string(out, p, va_arg(args, size_t));
            break;
        case 'd':
            snprintf(text, sizeof text, "%d", va_arg(args, int)), bytes_text(out, text);
            break;
        case 'l':
            snprintf(text, sizeof text, "%lld", (long long)va_arg(args, int64_t)), bytes_text(out, text);
            break;
        case 'u':
            snprintf(text, sizeof text, "%llu", (unsigned long long)va_arg(args, uint64_t)), bytes_text(out, text);
            break;
        case 'f':
            put_double(out, va_arg(args, double));
            break;
        case 'z':
            put_time(out, va_arg(args, int64_t));
            break;
        case 'o':
            bytes_text(out, va_arg(args, int) ? "true" : "false");
            break;
        case 'j':
            put_tree(out, va_arg(args, const json_t *));
            break;
        default:
            bytes_text(out, va_arg(args, const char *));
            break;
        }
    }
    va_end(args);
}
