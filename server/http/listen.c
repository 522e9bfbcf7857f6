/* listen.c - the listening socket. If all connections are in use, a new one takes the place of the one that has been
 * idle longest. */
#include "server/http/conn_private.h"

#include "reprise/status.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void address_text(const struct sockaddr *a, int length, char out[64]) {
    if (getnameinfo(a, (socklen_t)length, out, 64, NULL, 0, NI_NUMERICHOST) != 0) snprintf(out, 64, "?");
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *a, int length, void *user) {
    HttpServer *s = user;
    char        peer[64];
    (void)l;
    if (s->n >= s->options.max_connections) {
        Conn *oldest = TAILQ_FIRST(&s->idle);
        if (oldest == NULL) {
            close(fd);
            return;
        }
        conn_free(oldest);
    }
    address_text(a, length, peer);
    conn_new(s, fd, peer);
}

/* Without descriptors the listener would be called again at once: an idle connection makes room. */
static void on_accept_error(struct evconnlistener *l, void *user) {
    HttpServer *s = user;
    (void)l;
    if ((errno == EMFILE || errno == ENFILE) && TAILQ_FIRST(&s->idle) != NULL) conn_free(TAILQ_FIRST(&s->idle));
}

static bool is_loopback(const struct sockaddr *a) {
    if (a->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24) == 127;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

/* Port and address that the kernel chose. */
static void find_address(HttpServer *s) {
    struct sockaddr_storage a;
    socklen_t               n = sizeof a;
    char                    port[16];
    struct sockaddr        *p = (struct sockaddr *)&a;
    if (getsockname(evconnlistener_get_fd(s->listener), p, &n) != 0) return;
    if (getnameinfo(p, n, s->address, sizeof s->address, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        s->port = atoi(port);
    s->loopback = is_loopback(p);
}

static void raise_descriptors(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur == r.rlim_max) return;
    r.rlim_cur = r.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &r);
}

static RpStatus listen_on(HttpServer *s) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo      *found = NULL;
    char                  port[16];
    snprintf(port, sizeof port, "%d", s->options.port);
    const int e = getaddrinfo(s->options.host, port, &hints, &found);
    if (e != 0) return rp_fail(RP_E_IO, "--host %s: %s", s->options.host, gai_strerror(e));
    s->listener     = evconnlistener_new_bind(s->loop, on_accept, s,
                                              LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE, 1024,
                                              found->ai_addr, (int)found->ai_addrlen);
    const int error = errno;
    freeaddrinfo(found);
    if (s->listener == NULL)
        return rp_fail(RP_E_IO, "%s port %d: %s", s->options.host, s->options.port, strerror(error));
    evconnlistener_set_error_cb(s->listener, on_accept_error);
    return RP_OK;
}

RpStatus http_server_new(struct event_base *loop, const HttpOptions *options, HttpServer **out) {
    HttpServer *s = calloc(1, sizeof *s);
    *out          = NULL;
    if (s == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a server");
    s->loop    = loop;
    s->options = *options;
    TAILQ_INIT(&s->all);
    TAILQ_INIT(&s->idle);
    raise_descriptors();
    const RpStatus st = listen_on(s);
    if (st != RP_OK) {
        free(s);
        return st;
    }
    find_address(s);
    *out = s;
    return RP_OK;
}

void http_server_stop(HttpServer *s) {
    s->stopped = true;
    if (s->listener != NULL) evconnlistener_free(s->listener);
    s->listener = NULL;
    for (Conn *c = TAILQ_FIRST(&s->all), *next; c != NULL; c = next) {
        next = TAILQ_NEXT(c, all);
        conn_stop(c);
    }
}

void http_server_free(HttpServer *s) {
    if (s == NULL) return;
    http_server_stop(s);
    while (!TAILQ_EMPTY(&s->all)) conn_free(TAILQ_FIRST(&s->all));
    free(s);
}

int         http_server_port(const HttpServer *s) { return s->port; }
const char *http_server_address(const HttpServer *s) { return s->address; }
int         http_server_connections(const HttpServer *s) { return s->n; }
uint64_t    http_server_receiving(const HttpServer *s) { return s->receiving; }
bool        http_server_is_loopback(const HttpServer *s) { return s->loopback; }

int http_server_sending(const HttpServer *s) {
    const Conn *c;
    int         n = 0;
    TAILQ_FOREACH(c, &s->all, all) n += conn_unsent(c) > 0;
    return n;
}
