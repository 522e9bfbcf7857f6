/* Fuzz target: any bytes as the head of a request. What is accepted can be written anew from its parts, with single
 * spaces, and is then read as the same; the head says in one way where its body ends. */
#include "server/http/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    abort();
}

/* The copy has exactly the room that the parser may use. */
static char *copy_of(const char *text, size_t n) {
    char *p = malloc(n + 1);
    if (p == NULL) abort();
    if (n > 0) memcpy(p, text, n);
    return p;
}

static bool is_text(const char *s) {
    for (; *s != '\0'; s++)
        if (((unsigned char)*s < ' ' && *s != '\t') || *s == 127) return false;
    return true;
}

/* The head from its parts; the caller frees it. */
static char *written(const HttpHead *h, size_t *n) {
    char *p = NULL;
    FILE *f = open_memstream(&p, n);
    if (f == NULL) abort();
    fprintf(f, "%s %s%s%s HTTP/1.%d\r\n", h->method, h->path, h->query[0] != '\0' ? "?" : "", h->query,
            h->http10 ? 0 : 1);
    for (size_t i = 0; i < h->n_headers; i++) fprintf(f, "%s: %s\r\n", h->headers[i].name, h->headers[i].value);
    fputs("\r\n", f);
    fclose(f);
    return p;
}

static void check(const HttpHead *h) {
    int         lengths = 0, hosts = 0;
    const char *value = http_header(h, "content-length");
    expect(h->path[0] == '/' && is_text(h->path) && is_text(h->query) && h->method[0] != '\0', "a bad request line");
    expect(h->n_headers <= HTTP_MAX_HEADERS, "too many headers");
    for (size_t i = 0; i < h->n_headers; i++) {
        const char *name = h->headers[i].name;
        expect(name[0] != '\0' && strpbrk(name, " \t:") == NULL && is_text(name), "a bad name");
        expect(is_text(h->headers[i].value), "a bad value");
        expect(strcmp(name, "transfer-encoding") != 0, "a body in chunks");
        lengths += strcmp(name, "content-length") == 0;
        hosts += strcmp(name, "host") == 0;
    }
    expect(lengths <= 1 && hosts <= 1 && (hosts == 1 || h->http10), "headers that may be there once");
    expect(h->content_length >= 0 && (lengths == 1 || h->content_length == 0), "a length from nowhere");
    expect(lengths == 0 || strtoll(value, NULL, 10) == h->content_length, "another length");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *why = NULL;
    HttpHead    head, again;
    const long  n = http_head_length((const char *)data, size);
    expect(n >= -1 && n <= (long)size, "the length of the head");
    for (size_t i = 0; i < size && n > 0 && i < (size_t)n; i += 1 + size / 16)
        expect(http_head_length((const char *)data, i) == 0, "a head that ends before its end");
    if (n <= 0) return 0;
    char     *text   = copy_of((const char *)data, (size_t)n);
    const int status = http_head_parse(text, (size_t)n, &head, &why);
    expect(status == 0 ? true : status >= 400 && status < 600 && why != NULL, "a status");
    if (status == 0) {
        size_t m;
        check(&head);
        char *own  = written(&head, &m);
        char *copy = copy_of(own, m);
        expect(http_head_length(own, m) == (long)m && http_head_parse(copy, m, &again, &why) == 0,
               "it is not read again");
        expect(strcmp(again.path, head.path) == 0 && strcmp(again.query, head.query) == 0, "another path");
        expect(again.content_length == head.content_length && again.keep_alive == head.keep_alive, "another end");
        expect(again.n_headers == head.n_headers && again.expects_continue == head.expects_continue, "other headers");
        free(copy);
        free(own);
    }
    free(text);
    return 0;
}
