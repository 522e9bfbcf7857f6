/* server.c - the event loop: starts everything, waits for signals, and ends everything in order. */
#include "server/server.h"

#include "server/jobs/manifests.h"
#include "server/routes.h"

#include <event2/buffer.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    IDLE_SECONDS = 75,
    TICK_MS      = 250,
    GRACE_MS     = 5000 /* for what must be sent when the time of --drain-seconds is over */
};

typedef struct Events {
    struct event *wake, *tick, *term, *interrupt, *hup;
} Events;

static bool all_is_sent(App *a) {
    return a->n_exchanges == 0 && atomic_load(&a->work.n_jobs) == 0 && http_server_sending(a->http) == 0;
}

static void on_wake(evutil_socket_t fd, short what, void *user) {
    uint64_t n;
    (void)what;
    (void)!read(fd, &n, sizeof n);
    exchange_flush(user);
}

static void end_if_done(App *a) {
    const double now  = http_now();
    const bool   over = now > a->deadline + GRACE_MS / 1000.0;
    if (over && a->cut_off == 0) a->cut_off = http_server_sending(a->http); /* of answers that were complete */
    if (over || all_is_sent(a)) event_base_loopbreak(a->loop);
    if (now <= a->deadline || a->out_of_time) return;
    a->out_of_time = true;
    a->cut_off     = a->n_exchanges;
    log_line(a->log, "drain_time_over", json_pack("{s:i}", "requests", a->n_exchanges));
}

static void on_tick(evutil_socket_t fd, short what, void *user) {
    App *a = user;
    char why[512];
    (void)fd;
    (void)what;
    exchange_tick(a);
    if (a->draining) end_if_done(a);
    if (work_first_failed(&a->work, why)) {
        a->failed = rp_fail(RP_E_STATE, "%s", why);
        event_base_loopbreak(a->loop);
    }
}

static void on_end_signal(evutil_socket_t number, short what, void *user) {
    App *a = user;
    (void)what;
    if (a->draining) { /* the second signal */
        a->deadline = http_now();
        return;
    }
    a->draining = true;
    a->deadline = http_now() + a->options->drain_seconds;
    log_line(a->log, "draining", json_pack("{s:i, s:i}", "signal", (int)number, "requests", a->n_exchanges));
    http_server_stop(a->http);
}

static void on_hup(evutil_socket_t number, short what, void *user) {
    App *a = user;
    (void)number;
    (void)what;
    const RpStatus st = keys_reload(a->guard.keys);
    log_line(a->log, "keys_reloaded", json_pack("{s:s}", "error", st == RP_OK ? "" : rp_last_error()));
}

static RpStatus add_events(App *a, Events *e) {
    const struct timeval tick = {.tv_usec = TICK_MS * 1000};
    e->wake                   = event_new(a->loop, a->work.wake_fd, EV_READ | EV_PERSIST, on_wake, a);
    e->tick                   = event_new(a->loop, -1, EV_PERSIST, on_tick, a);
    e->term                   = evsignal_new(a->loop, SIGTERM, on_end_signal, a);
    e->interrupt              = evsignal_new(a->loop, SIGINT, on_end_signal, a);
    e->hup                    = evsignal_new(a->loop, SIGHUP, on_hup, a);
    if (e->wake == NULL || e->tick == NULL || e->term == NULL || e->interrupt == NULL || e->hup == NULL ||
        event_add(e->wake, NULL) != 0 || event_add(e->tick, &tick) != 0 || event_add(e->term, NULL) != 0 ||
        event_add(e->interrupt, NULL) != 0 || event_add(e->hup, NULL) != 0)
        return rp_fail(RP_E_NOMEM, "out of memory for events");
    return RP_OK;
}

static void free_events(Events *e) {
    struct event *all[] = {e->wake, e->tick, e->term, e->interrupt, e->hup};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] != NULL) event_free(all[i]);
}

static RpStatus listen_and_say(App *a) {
    const ServerOptions *o    = a->options;
    const HttpOptions    http = {.host            = o->host,
                                 .port            = o->port,
                                 .max_connections = o->connections,
                                 .read_seconds    = o->read_seconds,
                                 .idle_seconds    = IDLE_SECONDS,
                                 .handlers        = exchange_handlers(),
                                 .user            = a};
    char                 url[128];
    RP_TRY(http_server_new(a->loop, &http, &a->http));
    const char *address  = http_server_address(a->http);
    const bool  brackets = strchr(address, ':') != NULL;
    a->guard.loopback    = http_server_is_loopback(a->http);
    snprintf(url, sizeof url, "http://%s%s%s:%d", brackets ? "[" : "", address, brackets ? "]" : "",
             http_server_port(a->http));
    log_line(a->log, "listening", json_pack("{s:s, s:b}", "url", url, "keys", keys_needed(a->guard.keys)));
    if (!a->guard.loopback && !keys_needed(a->guard.keys))
        log_line(a->log, "warning",
                 json_pack("{s:s}", "text", "other machines can reach the server, and it asks for no key"));
    return o->listening(url, o->user) ? RP_OK : rp_fail(RP_E_IO, "the address of the server could not be printed");
}

static RpStatus open_guard(const ServerOptions *o, Guard *g) {
    *g = (Guard){.bound     = o->host,
                 .hosts     = o->allow_hosts,
                 .n_hosts   = o->n_allow_hosts,
                 .origins   = o->allow_origins,
                 .n_origins = o->n_allow_origins};
    RP_TRY(guard_check_origins(g));
    return keys_open(o->keys_file, o->tokens_per_minute, &g->keys);
}

static RpStatus run(App *a, Events *events) {
    RP_TRY(log_open(a->options->log_file, &a->log));
    RP_TRY(open_guard(a->options, &a->guard));
    a->metrics = metrics_new();
    a->loop    = event_base_new();
    if (a->metrics == NULL || a->loop == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a server");
    RP_TRY(work_open(&a->work, a->options, a->log, a->metrics));
    RP_TRY(add_events(a, events));
    RP_TRY(listen_and_say(a));
    event_base_dispatch(a->loop);
    if (a->failed != RP_OK) return a->failed;
    if (a->cut_off > 0) return rp_fail(RP_E_CANCELLED, "%d requests were cut off by --drain-seconds", a->cut_off);
    return RP_OK;
}

RpStatus server_run(const ServerOptions *options) {
    App    a      = {.options = options, .route_of = route_of, .started = http_now(), .work = {.wake_fd = -1}};
    Events events = {0};
    TAILQ_INIT(&a.exchanges);
    const RpStatus st = run(&a, &events);
    http_server_free(a.http);
    while (atomic_load(&a.work.n_jobs) > 0) { /* all are cancelled */
        exchange_flush(&a);
        usleep(1000);
    }
    work_close(&a.work);
    free_events(&events);
    if (a.loop != NULL) event_base_free(a.loop);
    if (a.log != NULL) log_line(a.log, "ended", NULL);
    metrics_free(a.metrics);
    keys_free(a.guard.keys);
    log_free(a.log);
    libevent_global_shutdown();
    return st;
}

RpStatus server_check(const ServerOptions *options) {
    Guard    guard;
    Log     *log  = NULL;
    Work     work = {.wake_fd = -1};
    RpStatus st   = log_open(options->log_file, &log);
    log_free(log);
    RP_TRY(st);
    RP_TRY(open_guard(options, &guard));
    keys_free(guard.keys);
    if (options->manifest_dir != NULL) RP_TRY(manifests_check(options->manifest_dir));
    st = work_find_models(&work, options);
    for (int i = 0; i < work.n_models && st == RP_OK; i++) st = work_check_model(&work.models[i]);
    work_free_models(&work);
    return st;
}
