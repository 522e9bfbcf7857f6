/* replay.h - a request and the events of its replies, as JSON, through a format of the server.
 *
 *     {"text": "a"}   {"reasoning": "b"}   {"malformed": "c", "call": 0}
 *     {"call": 0, "id": "call_1", "name": "f"}   {"call": 0, "arguments": "{"}   {"call": 0, "end": true}
 *     {"logprobs": [[id, logprob], ...]}         the sampled token, then the most probable ones
 *     {"ping": true}   {"fail": "text of an error"}
 *     {"stop": "end token", "prompt": 9, "cached": 4, "generated": 5, "reasoning": 2, "string": "\n"}
 *
 * Each may have a "choice". */
#ifndef TESTS_SERVER_API_REPLAY_H
#define TESTS_SERVER_API_REPLAY_H

#include "server/api/api.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static inline const char *replay_text(const json_t *event, const char *name, size_t *n) {
    const json_t *value = json_object_get(event, name);
    *n                  = json_string_length(value);
    return json_string_value(value);
}

/* The reply event of a line; false: it is none. */
static inline bool replay_reply(const json_t *line, RpReplyEvent *e) {
    static const struct {
        const char      *name;
        RpReplyEventKind kind;
    } kinds[] = {
        {"text",      RP_REPLY_TEXT          },
        {"reasoning", RP_REPLY_REASONING     },
        {"malformed", RP_REPLY_MALFORMED     },
        {"name",      RP_REPLY_CALL_BEGIN    },
        {"arguments", RP_REPLY_CALL_ARGUMENTS},
        {"end",       RP_REPLY_CALL_END      },
    };
    const json_t *call = json_object_get(line, "call");
    size_t        n;
    *e = (RpReplyEvent){.call = call != NULL ? (int32_t)json_integer_value(call) : -1, .text = ""};
    if (json_object_get(line, "stop") != NULL) return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (json_object_get(line, kinds[i].name) == NULL) continue;
        const char *text = replay_text(line, kinds[i].name, &n);
        e->kind          = kinds[i].kind;
        if (e->kind == RP_REPLY_CALL_BEGIN) {
            e->name = text;
            e->id   = replay_text(line, "id", &n);
        } else if (text != NULL) {
            e->text = text;
            e->len  = n;
        }
        return true;
    }
    return false;
}

static inline int32_t replay_count(const json_t *line, const char *name) {
    return (int32_t)json_integer_value(json_object_get(line, name));
}

static inline ApiEnd replay_end(const json_t *line) {
    size_t n;
    ApiEnd end = {
        .stop          = replay_text(line, "string", &n),
        .n_prompt      = replay_count(line, "prompt"),
        .n_cached      = replay_count(line, "cached"),
        .n_generated   = replay_count(line, "generated"),
        .n_reasoning   = replay_count(line, "reasoning"),
        .queued_s      = 0.5,
        .first_token_s = 0.75,
        .total_s       = 1.75,
    };
    for (int i = RP_STOP_END_TOKEN; i <= RP_STOP_GRAMMAR; i++)
        if (strcmp(rp_stop_reason_name((RpStopReason)i), replay_text(line, "stop", &n)) == 0)
            end.reason = (RpStopReason)i;
    return end;
}

static inline void replay_logprobs(ApiAnswer *a, int choice, const json_t *pairs) {
    RpTokenLogprob all[32];
    size_t         n = 0;
    const json_t  *pair;
    size_t         i;
    json_array_foreach(pairs, i, pair) {
        const json_t *x = json_array_get(pair, 1);
        if (n < sizeof all / sizeof *all)
            all[n++] = (RpTokenLogprob){(int32_t)json_integer_value(json_array_get(pair, 0)),
                                        json_is_number(x) ? (float)json_number_value(x) : -INFINITY};
    }
    if (n > 0) api_answer_logprobs(a, choice, all, all + 1, n - 1);
}

/* Writes what the events of an array become. False: an event cannot be read, or memory ran out. */
static inline bool replay_events(ApiAnswer *a, const ApiRequest *r, const json_t *events, Bytes *out) {
    const ApiFormat *f      = r->format;
    bool             failed = false;
    const json_t    *line;
    size_t           i;
    if (json_object_get(json_array_get(events, 0), "refused") == NULL) api_answer_begin(a, out);
    json_array_foreach(events, i, line) {
        const int    choice = replay_count(line, "choice");
        const char  *text   = json_string_value(json_object_get(line, "fail"));
        ApiError     error  = {.status = 500, .type = "server_error"};
        RpReplyEvent e;
        if (json_object_get(line, "refused") != NULL) text = json_string_value(json_object_get(line, "refused"));
        if (text != NULL) {
            snprintf(error.message, sizeof error.message, "%s", text);
            f->fail(a, &error, out);
            failed = true;
        } else if (json_object_get(line, "logprobs") != NULL) {
            replay_logprobs(a, choice, json_object_get(line, "logprobs"));
        } else if (json_object_get(line, "ping") != NULL) {
            f->ping(a, out);
        } else if (json_object_get(line, "stop") != NULL) {
            const ApiEnd end = replay_end(line);
            e                = (RpReplyEvent){.kind = RP_REPLY_END, .call = -1, .text = ""};
            f->event(a, choice, &e, out);
            f->end_choice(a, choice, &end, out);
        } else if (replay_reply(line, &e)) {
            f->event(a, choice, &e, out);
        } else {
            return false;
        }
    }
    if (!failed) api_answer_end(a, out);
    return !out->failed;
}

/* The defaults of a server, and where its answers come from. */
static inline ApiRequest replay_defaults(void) {
    return (ApiRequest){.sampler = rp_sampler_defaults(), .max_tokens = 0, .n = 1, .n_logprobs = -1};
}

static inline ApiOrigin replay_origin(const RpTokenizer *tokenizer) {
    return (ApiOrigin){.id          = "abc123",
                       .model       = "tiny",
                       .created     = 1764000000,
                       .fingerprint = "reprise-test",
                       .tokenizer   = tokenizer,
                       .seed        = 7,
                       .n_prompt    = 9};
}

/* Answers a body. The status of HTTP; `out` is the answer or the body of an error. 0: the events cannot be replayed, or
 * there is no memory. */
static inline int replay_body(const ApiFormat *f, const json_t *body, const json_t *events,
                              const RpTokenizer *tokenizer, Bytes *out) {
    const ApiRequest defaults = replay_defaults();
    const ApiOrigin  origin   = replay_origin(tokenizer);
    ApiRequest       r;
    ApiError         error;
    if (!f->parse(f, body, &defaults, &r, &error)) {
        f->error_body(&error, out);
        return error.status;
    }
    ApiAnswer *a    = api_answer_open(&r, &origin);
    const bool done = a != NULL && replay_events(a, &r, events, out);
    api_answer_close(a);
    api_request_free(&r);
    return done ? 200 : 0;
}

/* The same for the text of a body of a path. */
static inline int replay(const char *path, const char *text, const json_t *events, const RpTokenizer *tokenizer,
                         Bytes *out) {
    const ApiFormat *f = api_format_of(path);
    ApiError         error;
    json_t          *body = NULL;
    if (f == NULL) return 0;
    const bool ok = api_body_read(text, strlen(text), &body, &error);
    if (!ok) f->error_body(&error, out);
    const int status = ok ? replay_body(f, body, events, tokenizer, out) : error.status;
    json_decref(body);
    return status;
}

#endif
