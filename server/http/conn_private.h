/* conn_private.h - connections as conn.c and listen.c know them. */
#ifndef SERVER_HTTP_CONN_PRIVATE_H
#define SERVER_HTTP_CONN_PRIVATE_H

#include "server/http/conn.h"

#include <event2/listener.h>
#include <sys/queue.h>

typedef enum ConnState {
    CONN_CLOSED,
    CONN_IDLE,  /* between two requests */
    CONN_HEAD,  /* a part of a head is there */
    CONN_BODY,  /* a part of a body is there */
    CONN_BUSY,  /* the handlers have the request */
    CONN_SEND,  /* the answer is complete and being sent; then CONN_IDLE */
    CONN_FLUSH, /* the last answer is being sent */
    CONN_LINGER /* it is sent; waits until the client closes */
} ConnState;

struct Conn {
    HttpServer         *server;
    struct bufferevent *bev;
    struct event       *timer; /* the deadline of the state */
    ConnState           state;
    HttpHead            head; /* points into `text` */
    char               *text, *body, peer[64];
    size_t n_body, sent, queued, taken; /* queued: bytes in all; taken: of them, when the deadline was set */
    bool   keep;                        /* the connection stays open after this request */
    bool   streaming, peer_closed, unread_body, reading, broken;
    int    status;
    double started;
    char   extra[1024]; /* headers of the answer */
    size_t n_extra;
    void  *data;
    TAILQ_ENTRY(Conn) all, idle;
};

TAILQ_HEAD(ConnList, Conn);

struct HttpServer {
    struct event_base     *loop;
    struct evconnlistener *listener;
    HttpOptions            options;
    struct ConnList        all, idle; /* idle: the one that waits longest first */
    int                    n, port;
    uint64_t               receiving; /* bytes of bodies that are not complete */
    bool                   stopped, loopback;
    char                   address[64];
};

void conn_new(HttpServer *s, int fd, const char *peer); /* owns fd */
void conn_free(Conn *c);
void conn_read(Conn *c);
void conn_stop(Conn *c); /* no further request: an answer that is being sent is the last */
void conn_timed_out(Conn *c);

#endif
