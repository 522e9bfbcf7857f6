/* parse.h - the head of an HTTP request, read strictly (RFC 9112). Everything that two parsers could read differently
 * is refused: a proxy in front and this server must agree on where a request ends. */
#ifndef SERVER_HTTP_PARSE_H
#define SERVER_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP_MAX_HEADERS    = 64,
    HTTP_MAX_HEAD_BYTES = 16384, /* request line and headers */
};

typedef struct HttpHead {
    const char *method, *path;
    const char *query; /* behind the "?", or "" */
    struct {
        const char *name, *value;
    } headers[HTTP_MAX_HEADERS];
    size_t  n_headers;
    int64_t content_length; /* 0: none */
    bool    http10, keep_alive, expects_continue;
} HttpHead;

/* Bytes of the head that `text` begins with, the empty line included; 0: it is not complete; -1: it will never be one,
 * as it has a control character or a line that does not end with CR LF. */
long http_head_length(const char *text, size_t n);

/* Reads a head of n bytes (http_head_length). `text` has room for a NUL behind it, is changed, and is what *out points
 * into. Returns 0, or the status of HTTP with which the request is refused; *why then says why, a sentence. */
int http_head_parse(char *text, size_t n, HttpHead *out, const char **why);

/* The value of a header, NULL: there is none. Names in lower case. */
const char *http_header(const HttpHead *head, const char *name);

/* "Bad Request" of 400; "?" of a status that the server does not use. */
const char *http_status_text(int status);

#endif
