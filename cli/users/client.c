#include "cli/users/client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { BUFFER = 1 << 16, MAX_LINE = 1 << 22 };

RpStatus cli_url_parse(const char *text, Url *out) {
    static const char scheme[] = "http://";
    *out                       = (Url){.port = "80"};
    if (strncmp(text, scheme, sizeof scheme - 1) != 0)
        return rp_fail(RP_E_ARG, "%s: a URL must begin with %s", text, scheme);
    const char  *host = text + sizeof scheme - 1, *path = host + strcspn(host, "/");
    const size_t all = (size_t)(path - host), n = strcspn(host, ":/");
    size_t       n_path = strlen(path);
    while (n_path > 0 && path[n_path - 1] == '/') n_path--;
    if (n == 0 || n >= sizeof out->host || n_path >= sizeof out->path ||
        (n < all &&
         (all - n - 1 == 0 || all - n - 1 >= sizeof out->port || strspn(host + n + 1, "0123456789") != all - n - 1)))
        return rp_fail(RP_E_ARG, "%s: must be http://HOST, http://HOST:PORT or one of them with a path", text);
    memcpy(out->host, host, n);
    memcpy(out->path, path, n_path);
    if (n < all) memset(out->port, 0, sizeof out->port), memcpy(out->port, host + n + 1, all - n - 1);
    return RP_OK;
}

/* A connection, and what was read of it. */
typedef struct Stream {
    const Post *post;
    int         fd;
    char        bytes[BUFFER];
    size_t      at, n;
    char       *line; /* a line of the body that is not complete */
    size_t      n_line, room;
    long        left; /* of the body or of the present chunk; -1: until the end of the connection */
    bool        chunked;
    int         status;
    bool        stopped;
} Stream;

static RpStatus broken(const Stream *s, const char *what) {
    return rp_fail(RP_E_IO, "%s:%s: %s", s->post->url->host, s->post->url->port, what);
}

static RpStatus open_connection(Stream *s) {
    const Url            *u     = s->post->url;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo      *all;
    const int             bad = getaddrinfo(u->host, u->port, &hints, &all);
    if (bad != 0) return broken(s, gai_strerror(bad));
    for (const struct addrinfo *a = all; a != NULL && s->fd < 0; a = a->ai_next) {
        s->fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (s->fd >= 0 && connect(s->fd, a->ai_addr, a->ai_addrlen) != 0) {
            const int why = errno;
            close(s->fd);
            s->fd = -1;
            errno = why;
        }
    }
    freeaddrinfo(all);
    if (s->fd < 0) return broken(s, strerror(errno));
    const struct timeval wait = {.tv_sec = (time_t)s->post->seconds};
    (void)setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    (void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return RP_OK;
}

static RpStatus send_all(const Stream *s, const char *p, size_t n) {
    while (n > 0) {
        const ssize_t sent = send(s->fd, p, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return broken(s, strerror(errno));
        p += sent;
        n -= (size_t)sent;
    }
    return RP_OK;
}

static RpStatus send_request(const Stream *s) {
    char        head[1536];
    const Post *p = s->post;
    const int   n = snprintf(head, sizeof head,
                             "POST %s%s HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: application/json\r\n"
                               "Content-Length: %zu\r\nConnection: close\r\n%s%s%s\r\n",
                             p->url->path, p->path, p->url->host, p->url->port, strlen(p->body),
                           p->key != NULL ? "Authorization: Bearer " : "", p->key != NULL ? p->key : "",
                           p->key != NULL ? "\r\n" : "");
    if (n < 0 || (size_t)n >= sizeof head) return broken(s, "the key is too long");
    RP_TRY(send_all(s, head, (size_t)n));
    return send_all(s, p->body, strlen(p->body));
}

/* *end: the connection has ended. */
static RpStatus fill(Stream *s, bool *end) {
    ssize_t n;
    do n = recv(s->fd, s->bytes, sizeof s->bytes, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0) return broken(s, errno == EAGAIN ? "the server does not answer" : strerror(errno));
    s->at = 0;
    s->n  = (size_t)n;
    *end  = n == 0;
    return RP_OK;
}

/* The next line of the head or of the sizes of chunks, without its end. */
static RpStatus read_head_line(Stream *s, char *out, size_t size) {
    size_t n = 0;
    for (;;) {
        bool end = false;
        if (s->at == s->n) RP_TRY(fill(s, &end));
        if (end) return broken(s, "the connection ended in the head of an answer");
        const char c = s->bytes[s->at++];
        if (c == '\n') break;
        if (n + 1 >= size) return broken(s, "a line of the head is too long");
        out[n++] = c;
    }
    while (n > 0 && out[n - 1] == '\r') n--;
    out[n] = '\0';
    return RP_OK;
}

static RpStatus read_head(Stream *s) {
    char line[4096];
    RP_TRY(read_head_line(s, line, sizeof line));
    s->left = -1;
    if (sscanf(line, "HTTP/%*d.%*d %d", &s->status) != 1) return broken(s, "the answer is not HTTP");
    for (;;) {
        RP_TRY(read_head_line(s, line, sizeof line));
        if (line[0] == '\0') return RP_OK;
        if (strncasecmp(line, "content-length:", 15) == 0) s->left = atol(line + 15);
        if (strncasecmp(line, "transfer-encoding:", 18) == 0 && strstr(line, "chunked") != NULL) s->chunked = true;
    }
}

/* Calls back with the lines that are complete. */
static RpStatus add_body(Stream *s, const char *p, size_t n) {
    if (s->n_line + n + 1 > MAX_LINE) return broken(s, "a line of the answer is too long");
    if (s->n_line + n + 1 > s->room) {
        const size_t room  = 2 * (s->n_line + n + 1);
        char        *grown = realloc(s->line, room);
        if (grown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for an answer");
        s->line = grown;
        s->room = room;
    }
    for (size_t i = 0; i < n && !s->stopped; i++) {
        s->line[s->n_line++] = p[i];
        if (p[i] != '\n') continue;
        size_t len = s->n_line - 1;
        while (len > 0 && s->line[len - 1] == '\r') len--;
        s->line[len] = '\0';
        s->n_line    = 0;
        if (s->status == 200) s->stopped = !s->post->on_line(s->line, s->post->user);
    }
    return RP_OK;
}

static RpStatus read_body(Stream *s) {
    char line[256];
    bool end = false;
    while (!end && !s->stopped) {
        if (s->chunked && s->left <= 0) {
            RP_TRY(read_head_line(s, line, sizeof line));
            if (line[0] == '\0') continue; /* behind a chunk */
            s->left = strtol(line, NULL, 16);
            if (s->left == 0) break;
        }
        if (!s->chunked && s->left == 0) break;
        if (s->at == s->n) RP_TRY(fill(s, &end));
        size_t n = s->n - s->at;
        if (s->left >= 0 && n > (size_t)s->left) n = (size_t)s->left;
        RP_TRY(add_body(s, s->bytes + s->at, n));
        s->at += n;
        if (s->left >= 0) s->left -= (long)n;
    }
    return s->n_line > 0 && !s->stopped ? add_body(s, "\n", 1) : RP_OK;
}

RpStatus cli_post(const Post *p) {
    Stream *s = calloc(1, sizeof *s);
    if (s == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a connection");
    s->post     = p;
    s->fd       = -1;
    RpStatus st = open_connection(s);
    if (st == RP_OK) st = send_request(s);
    if (st == RP_OK) st = read_head(s);
    if (st == RP_OK) st = read_body(s);
    if (st == RP_OK && s->status != 200)
        st = rp_fail(RP_E_IO, "%s:%s: status %d: %.300s", p->url->host, p->url->port, s->status,
                     s->line != NULL ? s->line : "");
    if (s->fd >= 0) close(s->fd);
    free(s->line);
    free(s);
    return st;
}
