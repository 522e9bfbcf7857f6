/* describe.h - requests with tools for a template that knows none: the tools are described in the text of the system,
 * calls of the history are text of the assistant, and results are messages of the user.
 *
 *     system      ... # Tools ... <tools>{...}</tools> ... <tool_call>{"name": ..., "arguments": ...}</tool_call>
 *     assistant   ... <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>
 *     user        <tool_response>7</tool_response>
 *
 * In the JSON that the template gets, marks are words that the request does not have. The rendered text gets the marks
 * in their place, as text of the template: they become tokens where the vocabulary has them. */
#ifndef MODEL_CHAT_DESCRIBE_H
#define MODEL_CHAT_DESCRIBE_H

#include "model/chat/request.h"

typedef struct Describe {
    const char          *word;    /* WORD and a letter are a mark */
    const RpToolCallLog *log;     /* or NULL */
    bool                 tools;   /* describe them, else only the history is written as text */
    bool                 in_user; /* in front of the first message of the user; else in the system's */
    int32_t              n_calls, n_replayed;
} Describe;

/* True if messages have calls, or results of tools. */
bool rp_request_has_calls(const Json *j);

/* The request with the text of its first message, of the system, in front of the first message of the user. RP_E_ARG:
 * it has no such two messages. */
RP_NODISCARD RpStatus rp_request_fold_system(const Json *j, JsonOut *out);

/* The request without tools and calls. */
RP_NODISCARD RpStatus rp_request_describe(const Json *j, Describe *d, JsonOut *out);

/* Puts the marks into a rendered text, which is replaced. *described: it has the description. */
RP_NODISCARD RpStatus rp_describe_marks(const char *word, char **text, bool **control, bool *described);

/* Room for a prompt of n bytes and for its mask of control tokens. The caller frees both; on failure there is none. */
RP_NODISCARD RpStatus rp_request_new_prompt(size_t n, char **text, bool **control);

#endif
