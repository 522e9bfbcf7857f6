/* conn.c - requests of a connection, one after the other. */
#include "server/http/conn_private.h"

#include "reprise/status.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    LINGER_SECONDS  = 2,
    STALL_SECONDS   = 60,    /* for which a client does not read an answer */
    PIPELINED_BYTES = 65536, /* that may wait while a request runs */
    SEND_BUFFER     = 262144 /* of the kernel, for each connection */
};

double http_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void set_deadline(Conn *c, int seconds) {
    const struct timeval t = {.tv_sec = seconds};
    event_add(c->timer, &t);
}

/* True if no request is lost with the connection: none is complete up to its body. */
static bool is_idle(ConnState state) { return state == CONN_IDLE || state == CONN_HEAD; }

static void set_state(Conn *c, ConnState state) {
    HttpServer *s = c->server;
    if (is_idle(c->state) && !is_idle(state)) TAILQ_REMOVE(&s->idle, c, idle);
    if (!is_idle(c->state) && is_idle(state)) TAILQ_INSERT_TAIL(&s->idle, c, idle);
    if (c->state == CONN_BODY) s->receiving -= (uint64_t)c->head.content_length;
    if (state == CONN_BODY) s->receiving += (uint64_t)c->head.content_length;
    c->state = state;
}

static void forget_request(Conn *c) {
    free(c->text);
    free(c->body);
    c->text      = NULL;
    c->body      = NULL;
    c->n_body    = 0;
    c->n_extra   = 0;
    c->extra[0]  = '\0';
    c->status    = 0;
    c->sent      = 0;
    c->data      = NULL;
    c->streaming = false;
}

void conn_free(Conn *c) {
    HttpServer *s = c->server;
    if (c->state == CONN_BUSY || c->state == CONN_BODY) { /* handlers may not answer any more */
        if (c->status == 0) c->status = 499;
        s->options.handlers.left(c, s->options.user);
        s->options.handlers.ended(c, s->options.user);
    }
    set_state(c, CONN_CLOSED);
    TAILQ_REMOVE(&s->all, c, all);
    s->n--;
    forget_request(c);
    if (c->timer != NULL) event_free(c->timer);
    bufferevent_free(c->bev);
    free(c);
}

/* The client must take some of the queued bytes within this time. */
static void watch_taken(Conn *c) {
    c->taken = c->queued - conn_unsent(c);
    set_deadline(c, STALL_SECONDS);
}

/* The client has taken the last answer. */
static void flushed(Conn *c) {
    if (c->peer_closed) {
        conn_free(c);
        return;
    }
    set_state(c, CONN_LINGER);
    shutdown(bufferevent_getfd(c->bev), SHUT_WR);
    set_deadline(c, LINGER_SECONDS);
}

/* The last answer is in the buffer: the connection closes when the client has taken it. */
static void begin_flush(Conn *c) {
    set_state(c, CONN_FLUSH);
    watch_taken(c);
    if (conn_unsent(c) == 0) flushed(c);
}

static bool has_input(const Conn *c) { return evbuffer_get_length(bufferevent_get_input(c->bev)) > 0; }

/* The client has taken the answer, and may send the next request. */
static void answer_sent(Conn *c) {
    if (c->peer_closed && !has_input(c)) {
        begin_flush(c);
        return;
    }
    set_state(c, CONN_IDLE);
    set_deadline(c, c->server->options.idle_seconds);
    if (!c->reading && has_input(c)) conn_read(c);
}

void conn_stop(Conn *c) {
    if (is_idle(c->state))
        conn_free(c);
    else if (c->state == CONN_SEND)
        begin_flush(c);
}

/* ---- answers ---- */

void conn_add_header(Conn *c, const char *name, const char *value) {
    const int n = snprintf(c->extra + c->n_extra, sizeof c->extra - c->n_extra, "%s: %s\r\n", name, value);
    if (n > 0 && (size_t)n < sizeof c->extra - c->n_extra)
        c->n_extra += (size_t)n;
    else
        c->extra[c->n_extra] = '\0';
}

/* Queues bytes for the client. Without memory the answer is cut, and `finish` breaks the connection. */
static void put(Conn *c, const void *p, size_t n) {
    if (evbuffer_add(bufferevent_get_output(c->bev), p, n) != 0) c->broken = true;
    c->queued += n;
}

static void put_head(Conn *c, int status, const char *type, bool has_length, size_t n) {
    const time_t now = time(NULL);
    char         date[64], length[64] = "", head[2048];
    struct tm    tm;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    c->status = status;
    if (has_length && status != 204) /* RFC 9110, 8.6 */
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", n);
    else if (!has_length && !c->head.http10)
        snprintf(length, sizeof length, "Transfer-Encoding: chunked\r\n");
    const int size =
        snprintf(head, sizeof head,
                 "HTTP/1.1 %d %s\r\nDate: %s\r\nX-Content-Type-Options: nosniff\r\n%s%s%s%sConnection: "
                 "%s\r\n%s\r\n",
                 status, http_status_text(status), date, type != NULL ? "Content-Type: " : "", type != NULL ? type : "",
                 type != NULL ? "\r\n" : "", length, c->keep ? "keep-alive" : "close", c->extra);
    put(c, head, (size_t)size);
}

/* The answer is complete. */
static void finish(Conn *c) {
    HttpServer *s = c->server;
    if (c->state != CONN_BUSY) return;
    s->options.handlers.ended(c, s->options.user);
    forget_request(c);
    if (c->broken) {
        set_state(c, CONN_LINGER);
        shutdown(bufferevent_getfd(c->bev), SHUT_RDWR); /* its end is then read, and frees it */
        return;
    }
    if (!c->keep || s->stopped) {
        begin_flush(c);
        return;
    }
    set_state(c, CONN_SEND);
    watch_taken(c);
    if (conn_unsent(c) == 0) answer_sent(c);
}

void conn_answer(Conn *c, int status, const char *type, const void *body, size_t n) {
    if (c->unread_body) c->keep = false; /* it would be read as the next request */
    put_head(c, status, type, true, n);
    if (n > 0 && strcmp(c->head.method, "HEAD") != 0) {
        put(c, body, n);
        c->sent = n;
    }
    finish(c);
}

void conn_stream(Conn *c, int status, const char *type) {
    c->streaming = true;
    c->keep      = c->keep && !c->head.http10;
    put_head(c, status, type, false, 0);
}

void conn_write(Conn *c, const void *p, size_t n) {
    char size[32];
    if (n == 0) return;
    c->sent += n;
    if (!c->head.http10) put(c, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", n));
    put(c, p, n);
    if (!c->head.http10) put(c, "\r\n", 2);
    if (!evtimer_pending(c->timer, NULL)) watch_taken(c);
}

void conn_end(Conn *c) {
    if (!c->head.http10) put(c, "0\r\n\r\n", 5);
    finish(c);
}

size_t conn_unsent(const Conn *c) { return evbuffer_get_length(bufferevent_get_output(c->bev)); }

void conn_drop(Conn *c) { conn_free(c); }

/* ---- requests ---- */

/* Answers what no handler has seen, and closes. */
static void break_off(Conn *c, int status, const char *why) {
    c->keep = false;
    if (c->head.method == NULL) c->head = (HttpHead){.method = "", .path = "", .query = ""};
    set_state(c, CONN_BUSY);
    c->server->options.handlers.refuse(c, status, why, c->server->options.user);
}

/* True if a head was complete and the next part of the request can be read. */
static bool read_head(Conn *c, struct evbuffer *in) {
    const size_t       have = evbuffer_get_length(in), n = have < HTTP_MAX_HEAD_BYTES ? have : HTTP_MAX_HEAD_BYTES;
    const char        *text = n > 0 ? (const char *)evbuffer_pullup(in, (ev_ssize_t)n) : NULL, *why = "";
    const HttpOptions *o = &c->server->options;
    if (text == NULL) return false;
    if (c->state == CONN_IDLE) {
        set_state(c, CONN_HEAD);
        set_deadline(c, o->read_seconds);
    }
    const long length = http_head_length(text, n);
    if (length == 0 && n < HTTP_MAX_HEAD_BYTES) return false;
    c->started = http_now();
    c->head    = (HttpHead){.method = "", .path = "", .query = ""};
    if (length <= 0) {
        if (length == 0)
            break_off(c, 431, "The headers are longer than 16384 bytes.");
        else
            break_off(c, 400,
                      "The head of the request has a control character, or a line that does not end with CR LF.");
        return false;
    }
    c->text = malloc((size_t)length + 1);
    if (c->text == NULL) {
        break_off(c, 503, "The server is out of memory.");
        return false;
    }
    evbuffer_remove(in, c->text, (size_t)length);
    const int status = http_head_parse(c->text, (size_t)length, &c->head, &why);
    c->keep          = status == 0 && c->head.keep_alive;
    c->unread_body   = c->head.content_length > 0;
    if (status != 0) {
        break_off(c, status, why);
        return false;
    }
    set_state(c, CONN_BUSY);
    if (o->handlers.head(c, o->user) != 0) return c->state == CONN_IDLE;
    set_state(c, CONN_BODY);
    set_deadline(c, o->read_seconds);
    if (c->head.expects_continue && c->unread_body)
        evbuffer_add_printf(bufferevent_get_output(c->bev), "HTTP/1.1 100 Continue\r\n\r\n");
    return true;
}

/* True if the body was complete and the request has been answered. */
static bool read_body(Conn *c, struct evbuffer *in) {
    const size_t n = (size_t)c->head.content_length;
    if (evbuffer_get_length(in) < n) return false;
    c->unread_body = false;
    c->body        = malloc(n + 1);
    if (c->body == NULL) {
        break_off(c, 503, "The server is out of memory.");
        return false;
    }
    evbuffer_remove(in, c->body, n);
    c->body[n] = '\0';
    c->n_body  = n;
    set_state(c, CONN_BUSY);
    event_del(c->timer);
    c->server->options.handlers.request(c, c->server->options.user);
    return c->state == CONN_IDLE;
}

/* Reads as far as the state of the connection allows. The connection may be gone afterwards. */
void conn_read(Conn *c) {
    struct evbuffer *in   = bufferevent_get_input(c->bev);
    bool             more = true;
    c->reading            = true;
    while (more) {
        if (c->state == CONN_IDLE || c->state == CONN_HEAD)
            more = read_head(c, in);
        else if (c->state == CONN_BODY)
            more = read_body(c, in);
        else
            more = false;
    }
    c->reading = false;
    if (c->state == CONN_FLUSH || c->state == CONN_LINGER)
        evbuffer_drain(in, evbuffer_get_length(in));
    else if ((c->state == CONN_BUSY || c->state == CONN_SEND) && evbuffer_get_length(in) > PIPELINED_BYTES)
        conn_free(c);
    else if (c->peer_closed && (is_idle(c->state) || c->state == CONN_BODY)) /* the rest of a request does not come */
        conn_free(c);
}

void conn_timed_out(Conn *c) {
    switch (c->state) {
    case CONN_HEAD:
        c->started = http_now();
        c->head    = (HttpHead){.method = "", .path = "", .query = ""};
        break_off(c, 408, "The headers did not come in time.");
        break;
    case CONN_BODY:
        break_off(c, 408, "The body did not come in time.");
        break;
    case CONN_BUSY:
    case CONN_SEND:
    case CONN_FLUSH:
        if (c->taken == c->queued - conn_unsent(c))
            conn_free(c);
        else
            watch_taken(c);
        break;
    default:
        conn_free(c);
    }
}

const HttpHead *conn_head(const Conn *c) { return &c->head; }

char *conn_take_body(Conn *c, size_t *n) {
    char *body = c->body;
    *n         = c->n_body;
    c->body    = NULL;
    c->n_body  = 0;
    return body;
}

const char *conn_peer(const Conn *c) { return c->peer; }
int         conn_status(const Conn *c) { return c->status; }
double      conn_seconds(const Conn *c) { return http_now() - c->started; }
size_t      conn_sent(const Conn *c) { return c->sent; }
void        conn_set_data(Conn *c, void *data) { c->data = data; }
void       *conn_data(const Conn *c) { return c->data; }

/* ---- new connections ---- */

static void on_read(struct bufferevent *bev, void *user) {
    (void)bev;
    conn_read(user);
}

static void on_write(struct bufferevent *bev, void *user) { /* the output is empty */
    Conn *c = user;
    (void)bev;
    if (c->state == CONN_FLUSH)
        flushed(c);
    else if (c->state == CONN_SEND)
        answer_sent(c);
    else if (c->state == CONN_BUSY)
        event_del(c->timer);
}

static void on_event(struct bufferevent *bev, short what, void *user) {
    Conn *c = user;
    (void)bev;
    const bool answered = c->state == CONN_FLUSH || c->state == CONN_SEND;
    if ((what & BEV_EVENT_EOF) == 0 || !answered) {
        conn_free(c);
        return;
    }
    c->peer_closed = true; /* but it may still read the answer, and have sent further requests */
}

static void on_timer(evutil_socket_t fd, short what, void *user) {
    (void)fd;
    (void)what;
    conn_timed_out(user);
}

void conn_new(HttpServer *s, int fd, const char *peer) {
    const int           one = 1, room = SEND_BUFFER;
    Conn               *c   = calloc(1, sizeof *c);
    struct bufferevent *bev = c != NULL ? bufferevent_socket_new(s->loop, fd, BEV_OPT_CLOSE_ON_FREE) : NULL;
    if (bev == NULL) {
        free(c);
        close(fd);
        return;
    }
    c->server = s;
    c->bev    = bev;
    c->state  = CONN_CLOSED;
    snprintf(c->peer, sizeof c->peer, "%s", peer);
    TAILQ_INSERT_TAIL(&s->all, c, all);
    s->n++;
    c->timer = evtimer_new(s->loop, on_timer, c);
    if (c->timer == NULL) {
        conn_free(c);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    bufferevent_setcb(bev, on_read, on_write, on_event, c);
    set_state(c, CONN_IDLE);
    set_deadline(c, s->options.idle_seconds);
    bufferevent_enable(bev, EV_READ | EV_WRITE);
}
