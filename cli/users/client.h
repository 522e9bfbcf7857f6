/* client.h - an HTTP/1.1 client that reads answers as they come. One connection for each request; blocking. */
#ifndef CLI_USERS_CLIENT_H
#define CLI_USERS_CLIENT_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Parts of "http://HOST[:PORT][/PATH]". */
typedef struct Url {
    char host[256], port[8], path[512]; /* path: without a slash at its end */
} Url;

/* RP_E_ARG for another form. */
RP_NODISCARD RpStatus cli_url_parse(const char *text, Url *out);

/* Receives each line of the body, without its end. Return false to leave. */
typedef bool LineCallback(char *line, void *user);

typedef struct Post {
    const Url    *url;
    const char   *path, *key; /* path: behind that of the URL; key: or NULL */
    const char   *body;
    double        seconds; /* the request fails if the server sends no byte for this time */
    LineCallback *on_line;
    void         *user;
} Post;

/* Sends the body and reads the answer. RP_E_IO names the host and what failed, also for another status than 200, with
 * the first line of its body. */
RP_NODISCARD RpStatus cli_post(const Post *p);

#endif
