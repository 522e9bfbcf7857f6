/* guard.h - decides which requests are accepted: by Host against DNS rebinding, by Origin against other web pages, by
 * key. */
#ifndef SERVER_HTTP_GUARD_H
#define SERVER_HTTP_GUARD_H

#include "server/api/api.h"
#include "server/http/conn.h"
#include "server/http/keys.h"

typedef struct Guard {
    const char        *bound; /* the host that the server was told to listen on */
    bool               loopback;
    const char *const *hosts, *const *origins; /* that are allowed beside */
    size_t   n_hosts, n_origins;
    KeyFile *keys;
} Guard;

/* Allowed: names of this machine's loopback, the bound host, addresses (no name can be rebound to them) if the server
 * listens on other than loopback, and `hosts`. A request of a page of another origin is refused, unless it is one of
 * `origins`. Returns 0, or the status of the refusal with *error. */
int guard_check(const Guard *g, const HttpHead *head, ApiError *error);

/* RP_E_ARG if one of `origins` is neither * nor null nor SCHEME://HOST[:PORT]: no page has such an origin. */
RP_NODISCARD RpStatus guard_check_origins(const Guard *g);

/* The origin to name in Access-Control-Allow-Origin; NULL: none. */
const char *guard_allowed_origin(const Guard *g, const HttpHead *head);

/* The key of the request. 0, or 401 with *error. */
int guard_key(const Guard *g, const HttpHead *head, Key **key, ApiError *error);

/* Fills *error and returns the status. */
int http_refuse(ApiError *error, int status, const char *type, const char *code, const char *fmt, ...) RP_PRINTF(5, 6);

#endif
