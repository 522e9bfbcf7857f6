/* answer.h - the answers of all formats: replies as blocks, log probabilities, counts of tokens. */
#ifndef SERVER_API_ANSWER_H
#define SERVER_API_ANSWER_H

#include "server/api/formats.h"
#include "server/api/json.h"

/* A run of events of one kind: text, reasoning or a call. */
typedef struct ApiBlock {
    RpReplyEventKind kind;  /* RP_REPLY_TEXT, RP_REPLY_REASONING or RP_REPLY_CALL_BEGIN */
    int32_t          call;  /* number of the call, or -1 */
    bool             ended; /* a call that is complete */
    bool             void_; /* a call that became malformed */
    char            *id, *name;
    Bytes            text;     /* the arguments of a call */
    Bytes            logprobs; /* of a block of text in responses: elements of api_put_logprobs */
} ApiBlock;

typedef struct ApiChoice {
    ApiBlock       *blocks;
    size_t          n_blocks;
    RpTokenLogprob *log; /* rows of 1 + n_logprobs that no event of a stream had yet */
    size_t          n_log, log_room;
    int64_t         n_text; /* characters of the tokens in `log` of all events before */
    int32_t         n_calls;
    ApiEnd          end;
    char           *stop;        /* ApiEnd.stop */
    bool            begun;       /* a stream of chats: its first chunk is written */
    bool            ended, open; /* open: the last block of a stream */
} ApiChoice;

struct ApiAnswer {
    const ApiFormat   *format;
    bool               stream, usage, echo, begun, failed;
    int32_t            n, n_logprobs;
    int32_t            n_choices;
    char              *id, *model, *fingerprint;
    int64_t            created;
    const RpTokenizer *tokenizer;
    uint64_t           seed;
    int32_t            n_prompt;
    float              temperature, top_p;
    json_t            *extra, *prompts;
    int32_t            sequence; /* of the events of responses */
    ApiChoice         *choices;
};

/* Adds an event to the blocks. Returns the block that it belongs to; NULL if the event has no text, or if memory runs
 * out (a->failed). *fresh: the block is new. */
ApiBlock *api_collect(ApiAnswer *a, int choice, const RpReplyEvent *e, bool *fresh);

/* Streams whose blocks are opened and closed. The functions write the events of block k of the only choice. */
typedef struct ApiBlockWriter {
    void (*open)(ApiAnswer *a, size_t k, Bytes *out);
    void (*delta)(ApiAnswer *a, size_t k, const RpReplyEvent *e, Bytes *out); /* a piece of its text */
    void (*close)(ApiAnswer *a, size_t k, Bytes *out);
} ApiBlockWriter;

/* Collects an event of the reply, and writes the events of the stream that follow from it. */
void api_block_event(ApiAnswer *a, const RpReplyEvent *e, const ApiBlockWriter *w, Bytes *out);
/* Closes the last block if it is open. */
void api_block_close(ApiAnswer *a, const ApiBlockWriter *w, Bytes *out);

/* The texts of all blocks of a kind. */
void api_join(const ApiChoice *c, RpReplyEventKind kind, Bytes *out);

void api_keep_end(ApiAnswer *a, int choice, const ApiEnd *end);

/* The text of a token, borrowed. */
RpGgufString api_token_text(const ApiAnswer *a, int32_t token);

/* {"token": ..., "logprob": ..., "bytes": [...], "top_logprobs": [...]}, one for each row, with commas. The rows are
 * gone then. */
void api_put_logprobs(ApiAnswer *a, ApiChoice *c, Bytes *out);

/* Sums over the choices that have ended; choices of one prompt count it once. */
typedef struct ApiUsage {
    int64_t prompt, cached, generated, reasoning;
} ApiUsage;
ApiUsage api_usage(const ApiAnswer *a);

/* "usage": {...} and llama.cpp's "timings": {...} of chats and completions. */
void api_put_usage(const ApiAnswer *a, Bytes *out);
void api_put_timings(const ApiEnd *end, Bytes *out);

/* "stop", "length" or "tool_calls" */
const char *api_finish_reason(const ApiChoice *c);

/* Writes the rest of a chunk of OpenAI's streams, behind the log probabilities of its choice. `finish`: NULL but in the
 * last chunk of the choice. */
void api_end_chunk(const ApiAnswer *a, const ApiChoice *c, const char *finish, Bytes *out);

/* Writes the whole answer, with put_head and the choices. In a stream it writes the last chunk, with put_head and the
 * usage. */
void api_end_choices(ApiAnswer *a, void (*put_head)(const ApiAnswer *a, Bytes *out),
                     void (*put_choice)(ApiAnswer *a, int choice, Bytes *out), Bytes *out);

/* Events of OpenAI's streams that chats and completions share, and the body of an error. */
void api_comment_ping(ApiAnswer *a, Bytes *out);
void api_data_fail(ApiAnswer *a, const ApiError *error, Bytes *out);

#endif
