/* json.h - reads members of a request, and writes JSON. Every failure of a reader has the path of the member in
 * ApiError.param and at the begin of its text. A path is `at`, a dot and `name`; either may be "". */
#ifndef SERVER_API_JSON_H
#define SERVER_API_JSON_H

#include "server/api/api.h"

enum { API_PATH = sizeof((ApiError *)NULL)->param };

/* Status 400. Returns false. */
bool api_refuse(ApiError *e, const char *at, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

bool api_no_memory(ApiError *e); /* status 500; returns false */

/* at.name[i] */
void api_path(char out[API_PATH], const char *at, const char *name, size_t i);

/* A member that is not null; else NULL. */
const json_t *api_member(const json_t *object, const char *name);

/* Members of `object`. One that is absent or null leaves *out as it is. */
bool api_read_whole(const json_t *object, const char *at, const char *name, int64_t low, int64_t high, int64_t *out,
                    ApiError *e);
bool api_read_number(const json_t *object, const char *at, const char *name, double low, double high, double *out,
                     ApiError *e);
bool api_read_bool(const json_t *object, const char *at, const char *name, bool *out, ApiError *e);
bool api_read_string(const json_t *object, const char *at, const char *name, const char **out, ApiError *e);
/* JSON_OBJECT or JSON_ARRAY */
bool api_read_tree(const json_t *object, const char *at, const char *name, json_type type, const json_t **out,
                   ApiError *e);

/* A string that is there and not empty. */
bool api_need_string(const json_t *object, const char *at, const char *name, const char **out, ApiError *e);

/* Appends the text of a part {"type": "text", "text": ...}, or of one with another name of the type. */
bool api_read_part(const json_t *part, const char *at, Bytes *out, ApiError *e);

/* The text of a string, or of an array of parts of texts, joined by line ends. Parts of other types are refused. */
bool api_read_text(const json_t *value, const char *at, const char *name, Bytes *out, ApiError *e);

/* A string, an array of token ids, or an array of at most `most` of these, as an array of them. The caller releases
 * *out, on failure too. */
bool api_read_texts(const json_t *object, const char *name, size_t most, json_t **out, ApiError *e);

/* Sets a member; the value is taken. False: out of memory, or the value is NULL. */
bool api_set(json_t *object, const char *name, json_t *value);

/* Appends `format`, with ' for ", and for
 *     %s  const char *: a string; null if it is NULL     %t  const char *, size_t: a string of n bytes
 *     %d  int     %l  int64_t     %u  uint64_t     %f  double; one that is not finite is -9999, the least of OpenAI
 *     %z  int64_t: seconds since 1970 as RFC 3339 writes them
 *     %o  bool    %j  const json_t *; null if it is NULL     %r  const char *, which is JSON already
 * Ill-formed UTF-8 of strings becomes U+FFFD. */
void json_put(Bytes *out, const char *format, ...);

#endif
