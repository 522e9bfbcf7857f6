/* routes.h - the paths of the server. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include "server/exchange.h"

/* The route of a path; NULL: there is none. *format: its wire format, or NULL. */
const Route *route_of(const char *path, const ApiFormat **format);

#endif
