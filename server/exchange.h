/* exchange.h - what the event loop knows of a request: route, key, job. */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include "server/http/guard.h"
#include "server/jobs/work.h"

#include <sys/queue.h>

typedef struct App      App;
typedef struct Exchange Exchange;

typedef struct Route {
    const char    *path;
    bool           post;           /* else GET and HEAD */
    bool           open;           /* needs no key */
    bool           slow;           /* on the lane of slow jobs */
    bool           traces;         /* on that of traces */
    const JobType *job;            /* runs on other threads, or */
    void (*answer)(App *, Conn *); /* answers at once */
} Route;

struct Exchange {
    Conn            *conn;
    const char      *label; /* the route in metrics and logs */
    const Route     *route;
    const ApiFormat *format;  /* or NULL */
    Key             *key;     /* or NULL */
    Job             *job;     /* or NULL */
    bool             streams; /* the head of a stream was sent */
    TAILQ_ENTRY(Exchange) all;
};

TAILQ_HEAD(ExchangeList, Exchange);

struct App {
    const Route *(*route_of)(const char *path, const ApiFormat **format);
    const ServerOptions *options;
    struct event_base   *loop;
    HttpServer          *http;
    Guard                guard;
    Log                 *log;
    Metrics             *metrics;
    Work                 work;
    struct ExchangeList  exchanges;
    int                  n_exchanges, n_jobs;
    bool                 draining, out_of_time;
    RpStatus             failed;
    int                  cut_off; /* requests that did not end in the time of --drain-seconds */
    double               started, deadline;
};

/* Answers with an error in the words of the route's format. */
void exchange_refuse(Conn *c, const ApiError *error);

/* Takes the output of all jobs that have some. */
void exchange_flush(App *a);

/* Sends pings on streams, and errors for jobs whose time is over. Called every TICK_MS (server.c). */
void exchange_tick(App *a);

HttpHandlers exchange_handlers(void);

#endif
