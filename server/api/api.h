/* api.h - the wire formats of the server, without sockets and models. A format parses the body of a request into an
 * ApiRequest, and serialises the replies.
 *
 *     body -> format->parse -> ApiRequest -> replies of an engine -> api_answer_* -> bytes of the response
 *
 * Functions of one request may run on any thread, one at a time. */
#ifndef SERVER_API_API_H
#define SERVER_API_API_H

#include "server/api/bytes.h"

#include "reprise/chat.h"
#include "reprise/engine.h"

#include <jansson.h>

/* Why a request is refused. */
typedef struct ApiError {
    int         status;       /* of HTTP */
    const char *type, *code;  /* as OpenAI names them: "invalid_request_error", "context_length_exceeded"; static */
    char        param[64];    /* the member that is wrong, "messages[2].content"; or "" */
    char        message[512]; /* a sentence */
} ApiError;

typedef enum ApiKind { API_CHAT, API_COMPLETION, API_INFILL } ApiKind;

typedef struct ApiFormat ApiFormat;

/* A request to an engine, in whatever format it came. */
typedef struct ApiRequest {
    const ApiFormat *format; /* of the answer; NULL for a request whose tokens are only counted */
    ApiKind          kind;
    char            *model; /* a name, or NULL */
    json_t          *chat;  /* API_CHAT: RpChatOptions.json, with messages, tools, tool_choice, response_format, and the
                               variables of the template */
    json_t          *prompts; /* API_COMPLETION: an array of strings and of arrays of token ids. API_INFILL: one object
                                 with prefix, suffix, prompt and extra */
    json_t          *schema;  /* API_COMPLETION: of response_format or json_schema; or NULL */
    char            *grammar; /* API_COMPLETION: GBNF, or NULL */
    char            *regex;   /* API_COMPLETION: a regular expression, or NULL */
    RpSamplerParams  sampler; /* borrows from the members below; unset (rp_sampler_unset): the model's */
    RpLogitBias     *logit_bias;
    char            *samplers; /* RpSamplerParams.samplers, or NULL */
    char           **dry_breakers;
    size_t           n_dry_breakers;
    bool             has_seed;         /* else the server draws one and reports it */
    int32_t          max_tokens;       /* 0: until the context is full */
    int32_t          n;                /* replies for each prompt, 1 to 64 */
    int32_t          n_logprobs;       /* -1: none are asked for */
    int32_t          reasoning_budget; /* 0: no limit. Without effect if the model writes no reasoning */
    int32_t          priority;
    char           **stop;
    size_t           n_stop;
    bool             stream, usage, echo, ignore_end; /* usage: a last event with the counts of tokens */
    bool    one_call; /* parallel_tool_calls is false: the reply ends with RP_REPLY_CALL_END of the first call */
    json_t *extra;    /* what the format's answer repeats of the request; or NULL */
} ApiRequest;

void api_request_free(ApiRequest *r);

/* The origin of an answer, as the answer names it. */
typedef struct ApiOrigin {
    const char        *id;    /* without the prefix of the format */
    const char        *model; /* as the server names it */
    int64_t            created;
    const char        *fingerprint;
    const RpTokenizer *tokenizer; /* texts of log probabilities */
    uint64_t           seed;
    int32_t            n_prompt; /* tokens of the first prompt, if they are counted before `begin`; else 0 */
} ApiOrigin;

/* How a choice has ended. */
typedef struct ApiEnd {
    RpStopReason reason;
    const char  *stop; /* the stop string that ended it, or NULL */
    int32_t      n_prompt, n_cached, n_generated, n_reasoning, n_calls, n_drafted, n_accepted;
    double       queued_s, first_token_s, total_s;
} ApiEnd;

typedef struct ApiAnswer ApiAnswer;

/* NULL: out of memory. The request is borrowed for the call, the origin as long as the answer. */
ApiAnswer *api_answer_open(const ApiRequest *r, const ApiOrigin *origin);
void       api_answer_close(ApiAnswer *a); /* NULL is allowed */

void api_answer_begin(ApiAnswer *a, Bytes *out);
/* The log probabilities of a token, before the events of its text. */
void api_answer_logprobs(ApiAnswer *a, int choice, const RpTokenLogprob *chosen, const RpTokenLogprob *top,
                         size_t n_top);
void api_answer_end(ApiAnswer *a, Bytes *out); /* writes the last events of a stream, else the whole body */

struct ApiFormat {
    const char *path; /* "/v1/chat/completions" */
    /* Reads a body; `format` is this one. `defaults` has the sampler, max_tokens and budget of the server. False:
     * *error says why. */
    bool (*parse)(const ApiFormat *format, const json_t *body, const ApiRequest *defaults, ApiRequest *out,
                  ApiError *error);
    void (*begin)(ApiAnswer *a, Bytes *out); /* of api_answer_begin; or NULL */
    void (*event)(ApiAnswer *a, int choice, const RpReplyEvent *e, Bytes *out);
    void (*end_choice)(ApiAnswer *a, int choice, const ApiEnd *end, Bytes *out);
    void (*ping)(ApiAnswer *a, Bytes *out); /* a stream, while nothing comes */
    /* Writes the last event of a stream that has begun, else the body of an error. */
    void (*fail)(ApiAnswer *a, const ApiError *error, Bytes *out);
    void (*end)(ApiAnswer *a, Bytes *out);                 /* of api_answer_end */
    void (*error_body)(const ApiError *error, Bytes *out); /* before an answer is open */
};

/* Parses the n bytes of a body. False: *error says why it is no JSON; *out is NULL then. Depth, numbers and strings are
 * limited as jansson limits them: 2048 levels, 64 bits, UTF-8 without NUL. Release *out with json_decref. */
bool api_body_read(const char *body, size_t n, json_t **out, ApiError *error);

/* NULL: no format has this path. */
const ApiFormat *api_format_of(const char *path);

/* The body of an error of a path that has no format: OpenAI's. */
void api_error_body(const ApiError *error, Bytes *out);

#endif
