/* conn.h - connections of HTTP/1.1 clients on one event loop: heads, bodies, deadlines, answers. One request at a time
 * runs on a connection. All functions belong to the thread of the loop.
 *
 *     head of a request -> HttpHandlers.head -> body -> HttpHandlers.request -> conn_answer
 *                                                                            -> conn_stream, conn_write ..., conn_end
 *
 * The socket is read all the time, so that a client that leaves is noticed at once, also while its answer is made. A
 * refused request is answered before its body is read; what the client still sends is thrown away for 2 seconds, so
 * that the answer reaches it. */
#ifndef SERVER_HTTP_CONN_H
#define SERVER_HTTP_CONN_H

#include "server/http/parse.h"

#include "reprise/status.h"

#include <event2/event.h>

typedef struct HttpServer HttpServer;
typedef struct Conn       Conn;

/* Seconds of the monotonic clock. */
double http_now(void);

typedef struct HttpHandlers {
    /* A head is complete. Returns 0 to go on and read its body, or the status of the answer that it has given. */
    int (*head)(Conn *c, void *user);
    void (*request)(Conn *c, void *user); /* the body is complete */
    void (*left)(Conn *c, void *user);    /* the client has left, or did not read, after `head` and before conn_end */
    void (*ended)(Conn *c, void *user);   /* an answer is complete, or the client has left */
    /* The connection is broken off with a status and a reason before a handler knew of the request. */
    void (*refuse)(Conn *c, int status, const char *why, void *user);
} HttpHandlers;

typedef struct HttpOptions {
    const char  *host; /* a name or an address */
    int          port; /* 0: any that is free */
    int          max_connections;
    int          read_seconds, idle_seconds; /* in which a head or a body must be complete; until the next request */
    HttpHandlers handlers;
    void        *user;
} HttpOptions;

/* Listens. The caller frees *out before the loop. RP_E_IO, RP_E_NOMEM. */
RP_NODISCARD RpStatus http_server_new(struct event_base *loop, const HttpOptions *options, HttpServer **out);
void                  http_server_free(HttpServer *s); /* closes all connections; NULL is allowed */
void                  http_server_stop(HttpServer *s); /* takes no more connections; idle ones are closed */
int                   http_server_port(const HttpServer *s);
const char           *http_server_address(const HttpServer *s); /* "127.0.0.1" */
int                   http_server_connections(const HttpServer *s);
int                   http_server_sending(const HttpServer *s); /* connections with bytes that clients have not taken */
uint64_t              http_server_receiving(const HttpServer *s); /* bytes of bodies that are not complete */
bool                  http_server_is_loopback(const HttpServer *s);

const HttpHead *conn_head(const Conn *c);
char           *conn_take_body(Conn *c, size_t *n); /* the caller frees it; NULL: there is none */
const char     *conn_peer(const Conn *c);           /* address of the client */
int             conn_status(const Conn *c);         /* of the answer; 499: the client left before it began */
double          conn_seconds(const Conn *c);        /* since the head was complete */
size_t          conn_sent(const Conn *c);           /* bytes of bodies */

/* Data of the handlers for this request; NULL for the next request. */
void  conn_set_data(Conn *c, void *data);
void *conn_data(const Conn *c);

/* Adds a header to the answer, which has not begun. One without room is left out. */
void conn_add_header(Conn *c, const char *name, const char *value);

/* A whole answer. `type` may be NULL if there is no body. */
void conn_answer(Conn *c, int status, const char *type, const void *body, size_t n);

/* An answer in pieces. */
void   conn_stream(Conn *c, int status, const char *type);
void   conn_write(Conn *c, const void *p, size_t n);
void   conn_end(Conn *c);
size_t conn_unsent(const Conn *c); /* bytes that the client has not taken yet */
void   conn_drop(Conn *c);         /* closes it at once: handlers.left */

#endif
