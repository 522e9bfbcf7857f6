/* query.h - the parameters of a path: "model=a&times=1". */
#ifndef SERVER_HTTP_QUERY_H
#define SERVER_HTTP_QUERY_H

/* The decoded value of a parameter, which the caller frees; NULL: it is not there, or the query is none. */
char *http_query(const char *query, const char *name);

#endif
