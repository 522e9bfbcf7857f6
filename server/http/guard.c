/* guard.c - checks of Host, Origin and key. */
#include "server/http/guard.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int http_refuse(ApiError *error, int status, const char *type, const char *code, const char *fmt, ...) {
    va_list args;
    *error = (ApiError){.status = status, .type = type, .code = code};
    va_start(args, fmt);
    vsnprintf(error->message, sizeof error->message, fmt, args);
    va_end(args);
    return status;
}

/* The name of "name:port" or "[address]:port" without brackets; false: it is too long or no host. */
static bool host_name(const char *host, char out[256]) {
    const bool   brackets = host[0] == '[';
    const char  *begin    = host + brackets;
    const size_t n        = strcspn(begin, brackets ? "]" : ":");
    const char  *rest     = begin + n + (brackets && begin[n] == ']');
    if (n == 0 || n > 255 || (*rest != '\0' && (*rest != ':' || rest[1 + strspn(rest + 1, "0123456789")] != '\0')))
        return false;
    memcpy(out, begin, n);
    out[n] = '\0';
    return true;
}

static bool is_address(const char *name) {
    unsigned char a[16];
    return inet_pton(AF_INET, name, a) == 1 || inet_pton(AF_INET6, name, a) == 1;
}

static bool is_one_of(const char *const *list, size_t n, const char *text) {
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(list[i], text) == 0) return true;
    return false;
}

static bool host_is_allowed(const Guard *g, const char *host) {
    static const char *const loopback[] = {"localhost", "127.0.0.1", "::1"};
    char                     name[256];
    if (!host_name(host, name)) return false;
    return is_one_of(loopback, 3, name) || is_one_of(&g->bound, 1, name) || (!g->loopback && is_address(name)) ||
           is_one_of(g->hosts, g->n_hosts, name);
}

/* "http://HOST" of the header Host, also behind a proxy that speaks https. */
static bool is_same_origin(const char *origin, const char *host) {
    if (host == NULL) return false;
    if (strncmp(origin, "http://", 7) == 0) return strcasecmp(origin + 7, host) == 0;
    return strncmp(origin, "https://", 8) == 0 && strcasecmp(origin + 8, host) == 0;
}

const char *guard_allowed_origin(const Guard *g, const HttpHead *head) {
    const char *origin = http_header(head, "origin");
    if (origin == NULL) return NULL;
    if (is_one_of(g->origins, g->n_origins, "*")) return "*";
    return is_one_of(g->origins, g->n_origins, origin) ? origin : NULL;
}

/* Browsers send an origin without a path, also without a slash at the end. "null" is that of pages without one. */
static bool is_origin(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
    char              name[256];
    const size_t      n = strspn(text, letters);
    if (strcmp(text, "*") == 0 || strcmp(text, "null") == 0) return true;
    if (n == 0 || strncmp(text + n, "://", 3) != 0) return false;
    return text[n + 3 + strcspn(text + n + 3, "/?#@ ")] == '\0' && host_name(text + n + 3, name);
}

RpStatus guard_check_origins(const Guard *g) {
    for (size_t i = 0; i < g->n_origins; i++)
        if (!is_origin(g->origins[i]))
            return rp_fail(RP_E_ARG, "--allow-origin %s: must be SCHEME://HOST, with :PORT where it has one, or *",
                           g->origins[i]);
    return RP_OK;
}

int guard_check(const Guard *g, const HttpHead *head, ApiError *error) {
    const char *host = http_header(head, "host"), *origin = http_header(head, "origin");
    if (host != NULL && !host_is_allowed(g, host))
        return http_refuse(error, 403, "invalid_request_error", "host_not_allowed",
                           "The host %.100s is not allowed (--allow-host).", host);
    if (origin != NULL && !is_same_origin(origin, host) && guard_allowed_origin(g, head) == NULL)
        return http_refuse(error, 403, "invalid_request_error", "origin_not_allowed",
                           "Pages of %.100s may not use this server (--allow-origin).", origin);
    return 0;
}

int guard_key(const Guard *g, const HttpHead *head, Key **key, ApiError *error) {
    *key = keys_find(g->keys, http_header(head, "authorization"), http_header(head, "x-api-key"));
    if (*key != NULL) return 0;
    return http_refuse(error, 401, "authentication_error", "invalid_api_key",
                       "The request needs a valid key, as Authorization: Bearer KEY or x-api-key: KEY.");
}
