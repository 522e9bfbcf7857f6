/* sampling.h - the members of a request that say how replies are sampled and where they end; formats share them. */
#ifndef SERVER_API_SAMPLING_H
#define SERVER_API_SAMPLING_H

#include "server/api/json.h"

/* *r becomes a request with the server's defaults and nothing else. */
void api_request_begin(const ApiFormat *format, const ApiRequest *defaults, ApiRequest *r);

/* model, stream, stream_options, n, priority, seed, the parameters of the sampler, logit_bias, stop, ignore_eos,
 * parallel_tool_calls, reasoning_budget */
bool api_read_common(const json_t *body, ApiRequest *r, ApiError *e);

/* The most tokens of a reply, from the first of the names that the body has; NULL: there is no second one. -1: until
 * the context is full. */
bool api_read_limit(const json_t *body, const char *name, const char *other, ApiRequest *r, ApiError *e);

/* Strings to stop at: a string, or an array of at most 16. Empty ones do not count. */
bool api_read_stop(const json_t *body, const char *name, ApiRequest *r, ApiError *e);

/* llama.cpp's grammar and json_schema, and response_format, of requests without messages. */
bool api_read_schema(const json_t *body, ApiRequest *r, ApiError *e);

/* A copy of a string member; NULL if it is absent. */
bool api_copy_string(const json_t *body, const char *name, char **out, ApiError *e);

#endif
