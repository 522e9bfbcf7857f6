/* chat.h - replies of chat models: parses sampled tokens into text, reasoning and tool calls while they stream. A
 * format says how a family of models writes calls; it is detected from the chat template.
 *
 *   static bool show(const RpReplyEvent *e, void *user) {
 *       if (e->kind == RP_REPLY_TEXT) fwrite(e->text, 1, e->len, stdout);
 *       if (e->kind == RP_REPLY_CALL_BEGIN) printf("\n%s ", e->name);
 *       if (e->kind == RP_REPLY_CALL_ARGUMENTS) fwrite(e->text, 1, e->len, stdout);
 *       return user == NULL;
 *   }
 *   RpReplyParser *p;
 *   RpReplyParserOptions options = {.tokenizer = tk, .on_event = show};
 *   rp_reply_format_detect(source, n, &options.format);        // source: the text of the chat template
 *   RP_TRY(rp_reply_parser_new(&options, &p));
 *   RP_TRY(rp_reply_parser_token(p, id));                      // for each token of the reply
 *   RP_TRY(rp_reply_parser_end(p));
 *   rp_reply_parser_free(p);
 *
 * docs/tools.md has a table of the formats.
 */
#ifndef REPRISE_CHAT_H
#define REPRISE_CHAT_H

#include "reprise/engine.h"
#include "reprise/grammar.h"
#include "reprise/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a model writes tool calls, and how it writes its reasoning. Names of static storage; NULL is "none". */
typedef struct RpReplyFormat {
    const char *calls;     /* "hermes", "qwen3-coder", ...: rp_reply_format_calls */
    const char *reasoning; /* "think", "mistral", ...: rp_reply_format_reasoning */
} RpReplyFormat;

/* The format by the marks that a chat template of n bytes contains. Never fails: a template that has none of the known
 * marks gets "none". */
RP_API void rp_reply_format_detect(const char *source, size_t n, RpReplyFormat *out);

/* The names of all formats, the i-th; NULL behind the last one. */
RP_API const char *rp_reply_format_calls(size_t i);
RP_API const char *rp_reply_format_reasoning(size_t i);

typedef enum RpReplyEventKind {
    RP_REPLY_TEXT,           /* `text`: a piece of the answer */
    RP_REPLY_REASONING,      /* `text`: a piece of the reasoning */
    RP_REPLY_CALL_BEGIN,     /* a tool call: `name` and `id` */
    RP_REPLY_CALL_ARGUMENTS, /* `text`: a piece of the arguments; together they are one JSON object */
    RP_REPLY_CALL_END,       /* the call is complete; `text`: how the model wrote it, with its marks */
    RP_REPLY_MALFORMED,      /* `text`: a piece of what began as a call and is none, as the model wrote it */
    RP_REPLY_END             /* the reply has ended; `text`: the stop string that ended it, or empty */
} RpReplyEventKind;

/* All texts are borrowed: valid during the call. */
typedef struct RpReplyEvent {
    RpReplyEventKind kind;
    int32_t          call; /* number of the call, from 0, of events of calls; of RP_REPLY_MALFORMED: the call that has
                              begun and is void, or -1. Else -1 */
    const char      *text; /* len bytes, whole characters of UTF-8, terminated by a NUL that is not counted */
    size_t           len;
    const char      *id, *name; /* terminated; of RP_REPLY_CALL_BEGIN and RP_REPLY_CALL_END, else NULL */
} RpReplyEvent;

/* Return false to stop: the call of the parser then returns RP_E_CANCELLED, and so do all later ones. */
typedef bool RpReplyCallback(const RpReplyEvent *event, void *user);

typedef struct RpReplyParserOptions {
    RpReplyFormat format;
    const RpTokenizer
               *tokenizer; /* borrowed as long as the parser; or NULL: only bytes, and marks are found in any text */
    const char *tools;     /* the tools of the request as JSON, tools_bytes bytes; NULL: none. The types of their
                                     parameters decide whether a value that the model wrote as text is a string */
    size_t      tools_bytes;
    bool        in_reasoning;   /* the prompt has opened the reasoning already: rp_reply_format_opens */
    uint64_t    id_seed;        /* ids of calls are a function of it and of their number */
    size_t      max_call_bytes; /* of one call; what is longer is malformed. 0: 16 MiB */
    RpReplyCallback *on_event;
    void            *user;
    bool continues; /* the prompt ends inside of the text of the reasoning (in_reasoning) or of the answer: white space
                       at the begin of the reply is text */
} RpReplyParserOptions;

/* Takes a reply apart. The events do not depend on how the reply was cut into calls, except that pieces of one kind
 * are cut differently. The begin of a mark is held back until it is complete or something else.
 *
 *   text       marks of calls and of reasoning are dropped, and up to 64 bytes of white space around them
 *   arguments  always JSON: parameters that are written as XML, as Python or in the way of Gemma are converted
 *   marks      a mark that is a token of the vocabulary counts only where the model sampled this token. Its letters,
 *              put together from other tokens, are text. A mark that is no token is found in any text
 *
 * A call that breaks off, has no name, or has arguments that are no object is not lost: RP_REPLY_MALFORMED has all that
 * the model wrote of it. Ill-formed UTF-8 becomes U+FFFD. */
typedef struct RpReplyParser RpReplyParser;

/* Copies the tools. The caller frees *out; on failure it is NULL. RP_E_ARG for an unknown name of a format, with the
 * names; RP_E_FORMAT for tools that are no JSON; RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus        rp_reply_parser_new_sized(const RpReplyParserOptions *options, size_t options_bytes,
                                                              RpReplyParser **out);
RP_NODISCARD static inline RpStatus rp_reply_parser_new(const RpReplyParserOptions *options, RpReplyParser **out) {
    return rp_reply_parser_new_sized(options, sizeof *options, out);
}
RP_API void rp_reply_parser_free(RpReplyParser *p); /* NULL is allowed */

/* Takes n bytes of the reply. `control`: they are the text of one token that the vocabulary has as a control token or
 * as a mark. RP_E_NOMEM: nothing has changed, and the same bytes can be given again. RP_E_STATE after
 * rp_reply_parser_end; RP_E_CANCELLED. */
RP_API RP_NODISCARD RpStatus rp_reply_parser_bytes(RpReplyParser *p, const char *bytes, size_t n, bool control);

/* Takes one sampled token. A control token that is no mark of the format has no text. Errors as above, and RP_E_ARG for
 * an id outside the vocabulary or a parser without a tokenizer. */
RP_API RP_NODISCARD RpStatus rp_reply_parser_token(RpReplyParser *p, int32_t id);

/* The reply has ended: gives what was held back, and RP_REPLY_END. A call whose arguments are complete ends even if its
 * closing mark did not come, as that can be the token that ended the reply. */
RP_API RP_NODISCARD RpStatus rp_reply_parser_end(RpReplyParser *p);

/* True while the reasoning is being written. False for NULL. */
RP_API bool rp_reply_parser_in_reasoning(const RpReplyParser *p);

/* True if a prompt of n bytes, as a chat template rendered it, ends inside of the reasoning. */
RP_API bool rp_reply_format_opens(const RpReplyFormat *format, const char *prompt, size_t n);

/* ---- requests ---- */

/* Calls of earlier replies as the model wrote them, by their ids. A template would write a call with other white space
 * or in another order. Then the tokens would differ from those that were sampled, and the KV cache would be of no use.
 * One thread at a time may use a log. */
typedef struct RpToolCallLog RpToolCallLog;

/* Keeps the latest calls, as many as max_bytes have room for; 0: 16 MiB. The caller frees *out. RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus rp_tool_call_log_new(size_t max_bytes, RpToolCallLog **out);
RP_API void                  rp_tool_call_log_free(RpToolCallLog *log); /* NULL is allowed */

/* Copies id, and the n bytes of the text of RP_REPLY_CALL_END. A call that has no room is not kept. RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus rp_tool_call_log_put(RpToolCallLog *log, const char *id, const char *text, size_t n);

/* The text of a call, *n bytes and a NUL, which the log owns: valid until the next put. NULL: it is not kept. `n` may
 * be NULL. */
RP_API const char *rp_tool_call_log_find(const RpToolCallLog *log, const char *id, size_t *n);

typedef struct RpChatRequest {
    const char *json; /* {"messages": [...], "tools": [...], "tool_choice": ..., "response_format": ..., ...}: those of
                         rp_chat_generate; the other members are variables of the template, such as enable_thinking
                         and reasoning_effort */
    size_t      json_bytes;
    RpReplyFormat        format; /* of members that are NULL, the template's */
    const RpToolCallLog *log;    /* or NULL */
} RpChatRequest;

typedef struct RpChatPrompt {
    RpReplyFormat format;       /* of the reply: options of a parser */
    bool          in_reasoning; /* option of a parser of the reply */
    int32_t       n_calls;      /* calls in the messages */
    int32_t       n_replayed;   /* those of them that the prompt has as the model wrote them */
    bool          continues;    /* as of RpReplyParserOptions */
    bool describes_tools;       /* the template has no tools: they are described in a message, and format is "hermes" */
} RpChatPrompt;

/* The prompt of a request: its text, and for each byte whether it may be part of a control token, as in
 * rp_chat_template_render. Tools may have the form of OpenAI ({"type": "function", "function": {...}}), of a plain
 * function, or of Anthropic (input_schema); the template gets the first form. Arguments of calls may be objects or
 * strings of JSON; the template gets objects, or strings if it fails with objects. If it fails with content that is
 * null, it gets "". The text of a call in the log replaces the text that the template writes for it, if both are
 * between the same marks.
 *
 * A template that does not know tools gets their description in the text of the system, or if it has none in that of
 * the user. Calls and results of the messages are then text of the assistant and of the user, and calls of the reply
 * have the format "hermes".
 *
 * With "continue_final_message": true the last message, one of the assistant without calls whose content is a string,
 * begins the reply: the prompt ends with its reasoning_content and content, and the reply goes on from there. Reasoning
 * that the template opens is closed in front of the content.
 *
 * RP_E_FORMAT for bad JSON and wrong types, RP_E_ARG for a result of a tool without its call, and for what the template
 * refuses: the text names the message or tool. RP_E_UNSUPPORTED for a template that drops the description of tools, or
 * one without tools and another format of calls. RP_E_NOMEM.
 * The caller frees *text and *control with free(); after a failure both are NULL. */
RP_API RP_NODISCARD RpStatus        rp_chat_prompt_sized(const RpChatTemplate *t, const RpChatRequest *request,
                                                         size_t request_bytes, char **text, bool **control, RpChatPrompt *out,
                                                         size_t out_bytes);
RP_NODISCARD static inline RpStatus rp_chat_prompt(const RpChatTemplate *t, const RpChatRequest *request, char **text,
                                                   bool **control, RpChatPrompt *out) {
    return rp_chat_prompt_sized(t, request, sizeof *request, text, control, out, sizeof *out);
}

/* ---- whole replies ---- */

/* Of the first four, as of RpChatRequest. */
/* Receives a limit of held replies: a keyword of a schema that a grammar cannot enforce ("uniqueItems at #/properties/a
 * is ignored"), or the reason why no call can be held to its tool. Borrowed: valid during the call. */
typedef void RpChatNote(const char *text, void *user);

typedef struct RpChatOptions {
    const char           *json;
    size_t                json_bytes;
    RpReplyFormat         format;
    RpToolCallLog        *log; /* or NULL; calls of the reply are put into it */
    const RpChatTemplate *chat_template;
    RpTokenList       *context; /* or NULL: the tokens in the session, as the call before left them. What they have in
                                      common with the prompt is not computed again. Brought up to date, also after a failure */
    int32_t            max_tokens;       /* 0: until the context is full */
    int32_t            reasoning_budget; /* tokens of reasoning, after which it is closed; 0: no limit */
    uint64_t           id_seed;          /* as of RpReplyParserOptions */
    RpPrefillProgress *prefill_progress; /* or NULL; gets `user` */
    RpReplyCallback   *on_event;
    void              *user;
    const char *const *stop; /* stop strings of the answer, never given; they do not count in reasoning and calls */
    size_t             n_stop;
    const RpGrammarVocab *vocab; /* or NULL: of the model's tokenizer, made once for many calls. Without it a call that
                                    is held makes one */
    bool                  free_calls; /* calls that the model begins by itself are not held to the tools */
    RpChatNote           *on_note;    /* or NULL; called before the first event; gets `user` */
} RpChatOptions;

typedef struct RpChatResult {
    RpStopReason reason;                             /* RP_STOP_CANCELLED if a callback stopped it */
    int32_t      n_prompt;                           /* tokens of the prompt */
    int32_t      n_kept;                             /* those of them that the session had */
    int32_t      n_generated;                        /* tokens, the end token too */
    int32_t      n_reasoning;                        /* those of them that were reasoning */
    int32_t      n_calls;                            /* tool calls that are complete */
    int32_t      n_replayed;                         /* as of RpChatPrompt */
    double       prefill_s, decode_s, first_token_s; /* as of RpGenerateResult */
    const char  *host_sampling;                      /* as of RpGenerateResult; owned by the sampler */
    int32_t      n_held;                             /* of n_calls, those that a grammar held to the tools */
    bool         describes_tools;                    /* as of RpChatPrompt */
    int32_t n_seen; /* tokens at the begin of the prompt that the sampler does not accept again: `context` had them,
                            or the reply before ended with them. 0 for a sampler that is new or was reset */
} RpChatResult;

/* Renders a request, runs it on a session and gives the events of the reply. The session is rewound to the prefix that
 * it shares with the prompt; without `context` it is rewound to 0. The sampler is not reset. Once the budget is used
 * up, the closing mark of the reasoning is inserted instead of a sampled token (for gpt-oss the begin of the final
 * message).
 *
 * Members of the request:
 *   tool_choice      "auto", the default: free text, and each call that the model begins is held to the tools. "none".
 *                    "required", or {"type": "function", "function": {"name": "f"}}: the reply is one call of a tool,
 *                    its arguments by the tool's schema (RP_GRAMMAR_WEAKEN); refused for the format "none"
 *   response_format  {"type": "text"}, {"type": "json_object"}, {"type": "json_schema", "json_schema": {"schema": S}}:
 *                    the answer is JSON, or with tools a call; refused as by rp_grammar_json_schema.
 *                    {"type": "grammar", "grammar": GBNF}, {"type": "regex", "regex": EXPRESSION}: the answer is a
 *                    text of it; refused as by rp_grammar_gbnf and rp_grammar_regex
 *   stop, max_tokens as the options; the lower limit holds
 *   continue_final_message
 *                    as of rp_chat_prompt; the events have only what follows. With a response_format the content must
 *                    begin an answer of that format; refused if a call is required
 *
 * A grammar constrains ("holds") such a reply or call, but not its reasoning, which only its own mark ends. A held
 * reply sets the mask of the sampler, and ends with RP_STOP_GRAMMAR where nothing can follow.
 *
 * Errors of rp_chat_prompt, rp_tokenize_masked, rp_generate and the parser. RP_E_ARG for a budget below 0, or one for a
 * format without reasoning, and for a context that is not the session's. `result` is filled on failure too. */
RP_API RP_NODISCARD RpStatus rp_chat_generate_sized(RpSession *s, RpSampler *sampler, const RpChatOptions *options,
                                                    size_t options_bytes, RpChatResult *result, size_t result_bytes);
RP_NODISCARD static inline RpStatus rp_chat_generate(RpSession *s, RpSampler *sampler, const RpChatOptions *options,
                                                     RpChatResult *result) {
    return rp_chat_generate_sized(s, sampler, options, sizeof *options, result, sizeof *result);
}

/* A reply that an engine computes. Its tokens are those of rp_chat_generate with the same options and sampler.
 *
 *   RpChatReply *reply;  RpRequest request = {0};  uint64_t id_of;  RpEngineEvent event;  RpChatResult result;
 *   RP_TRY(rp_chat_reply_new(model, sampler, chat, &reply));
 *   RP_TRY(rp_chat_reply_request(reply, &request));
 *   RP_TRY(rp_engine_add(engine, &request, &id_of));
 *   do {
 *       RP_TRY(rp_engine_step(engine));                        // gives the events of the reply
 *       while (rp_engine_poll(engine, &event) && !event.end) {}
 *   } while (rp_engine_pending(engine) > 0);
 *   RP_TRY(rp_chat_reply_end(reply, &event, &result));
 *   rp_chat_reply_free(reply); */
typedef struct RpChatReply RpChatReply;

/* Renders and tokenises the prompt; other threads may use the model and the engine meanwhile. The options are those of
 * rp_chat_generate, without `prefill_progress`; `context` has the tokens that the sampler has accepted in the turns
 * before, and is only read, and only here. The sampler and all that the options point to are
 * borrowed until rp_chat_reply_free. `log` is only read, and only here: to keep calls of the reply, put them yourself
 * at RP_REPLY_CALL_END. The caller frees *out; on failure it is NULL. Errors of rp_chat_generate before its first
 * token. */
RP_API RP_NODISCARD RpStatus rp_chat_reply_new_sized(const RpModel *m, RpSampler *sampler, const RpChatOptions *options,
                                                     size_t options_bytes, RpChatReply **out);
RP_NODISCARD static inline RpStatus rp_chat_reply_new(const RpModel *m, RpSampler *sampler,
                                                      const RpChatOptions *options, RpChatReply **out) {
    return rp_chat_reply_new_sized(m, sampler, options, sizeof *options, out);
}
RP_API void rp_chat_reply_free(RpChatReply *r); /* NULL is allowed. Not while its request is pending */

RP_API const RpTokenList *rp_chat_reply_prompt(const RpChatReply *r); /* owned by the reply */

/* Sets prompt, n_prompt, n_seen, sampler, max_tokens, force_token, on_token and token_user of a request for an engine
 * of the same model, which then belongs to this reply alone; the other members stay. */
RP_API RP_NODISCARD RpStatus rp_chat_reply_request_sized(RpChatReply *r, RpRequest *request, size_t request_bytes);
RP_NODISCARD static inline RpStatus rp_chat_reply_request(RpChatReply *r, RpRequest *request) {
    return rp_chat_reply_request_sized(r, request, sizeof *request);
}

/* Gives the rest of the reply's events. `last` is the last event of the request; n_kept of the result is its n_cached,
 * and prefill_s the time from the request's first step to its first token. Returns the failure of the request, with its
 * text, or of the events. RP_E_ARG for an event that is not the last one. `result` is filled on failure too. */
RP_API RP_NODISCARD RpStatus rp_chat_reply_end_sized(RpChatReply *r, const RpEngineEvent *last, size_t last_bytes,
                                                     RpChatResult *result, size_t result_bytes);
RP_NODISCARD static inline RpStatus rp_chat_reply_end(RpChatReply *r, const RpEngineEvent *last, RpChatResult *result) {
    return rp_chat_reply_end_sized(r, last, sizeof *last, result, sizeof *result);
}

#ifdef __cplusplus
}
#endif
#endif
