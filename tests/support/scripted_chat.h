/* scripted_chat.h - chats whose model wants each token of a script. Where a mask forbids one, it wants any other until
 * the mask is gone, and goes on with the next part of the script. */
#ifndef TESTS_SCRIPTED_CHAT_H
#define TESTS_SCRIPTED_CHAT_H

#include "model/sampler/sampler.h"
#include "tests/support/case.h"
#include "tests/support/edited_model.h"
#include "tests/support/golden.h"
#include "tests/support/reply.h"

#define WEATHER                                                                                                        \
    "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"maxLength\": 8}, \"days\": {"          \
    "\"type\": \"integer\", \"minimum\": 1, \"maximum\": 14}, \"metric\": {\"type\": \"boolean\"}}, "                  \
    "\"required\": [\"city\"], \"additionalProperties\": false}"
#define NOW "{\"type\": \"object\", \"properties\": {}, \"additionalProperties\": false}"
#define TOOLS                                                                                                          \
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"parameters\": " WEATHER                     \
    "}}, {\"name\": \"now\", \"input_schema\": " NOW "}]"

typedef enum Variant { AS_TEXT, AS_CONTROL, AS_USER_DEFINED, VARIANTS } Variant;

enum { MOST_TOKENS = 900, MOST_PARTS = 4 };

static char           *file;
static size_t          file_bytes;
static RpModel        *model;
static RpSampler      *sampler;
static RpChatTemplate *plain;
static float          *logits;

static inline void setup(void) { file = demo_file(&file_bytes); }

static inline void teardown(void) { free(file); }

static inline void open_model(const char *calls, const char *reasoning, Variant variant, float temperature) {
    static const char source[] = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools[0].type if tools }}";
    RpSamplerParams   p        = rp_sampler_defaults();
    p.temperature              = temperature;
    p.top_k                    = 0;
    p.top_p                    = 1;
    free(file);
    file = demo_file(&file_bytes);
    if (variant != AS_TEXT) edit_vocabulary(file, file_bytes, calls, reasoning, variant == AS_CONTROL ? 3 : 4);
    OK(rp_model_open_memory(file, file_bytes, "edited", &model));
    OK(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &sampler));
    OK(rp_chat_template_new(rp_model_tokenizer(model), "a", source, sizeof source - 1, &plain));
    logits = calloc((size_t)rp_model_info(model)->n_vocab, sizeof *logits);
}

static inline void close_model(void) {
    free(logits);
    rp_chat_template_free(plain);
    rp_sampler_free(sampler);
    rp_model_free(model);
}

static inline bool masked(void) {
    RpSampleExtra extra;
    return rp_sampler_extra(sampler, &extra) != NULL;
}

/* What a scripted reply came to. */
typedef struct Play {
    const char  *calls, *reasoning, *tools, *members;
    bool         free_calls;
    const char  *parts[MOST_PARTS]; /* of the script */
    Transcript   t;
    RpTokenList  tokens;
    RpChatResult result;
    int          n_masked; /* tokens that were sampled with a mask */
    bool         diverged;
    int          cut; /* letters of a token of the script; 0: as the tokenizer cuts it */
} Play;

static char notes[1024]; /* of the latest play, a line each */

static void keep_note(const char *text, void *user) {
    const size_t n = strlen(notes);
    (void)user;
    snprintf(notes + n, sizeof notes - n, "%s\n", text);
}

static inline void tokenize_part(const Play *y, const char *text, RpTokenList *out) {
    const RpTokenizer *tk = rp_model_tokenizer(model);
    out->n                = 0;
    OK(rp_tokenize(tk, text, strlen(text), RP_TOK_PARSE_SPECIAL, out));
    if (y->cut == 0) return;
    RpTokenList cut = {0}; /* tokens that are marks stay whole */
    for (size_t i = 0; i < out->n; i++) {
        RpGgufString s;
        OK(rp_token_bytes(tk, out->ids[i], true, &s));
        char letters[128];
        snprintf(letters, sizeof letters, "%.*s", (int)s.len, s.ptr);
        const bool mark = s.len > 3 && is_token(letters);
        for (size_t at = 0; at < s.len && !mark; at += (size_t)y->cut) {
            const size_t n = s.len - at < (size_t)y->cut ? s.len - at : (size_t)y->cut;
            OK(rp_tokenize(tk, s.ptr + at, n, 0, &cut));
        }
        if (mark) OK(rp_token_list_push(&cut, out->ids[i]));
    }
    rp_token_list_free(out);
    *out = cut;
}

/* Logits of a model that wants `token`; -1: any. */
static inline void want(int32_t token, uint64_t step) {
    const int32_t n = rp_sampler_n_vocab(sampler);
    for (int32_t i = 0; i < n; i++) logits[i] = 4.0f * rp_random_uniform(7, step * 100003 + (uint64_t)i);
    for (int32_t i = n - N_EDITED; i < n; i++) logits[i] += 6.0f; /* marks: calls end */
    if (token >= 0) logits[token] = 60.0f;
}

static inline int32_t end_token(void) {
    const RpTokenizer *tk = rp_model_tokenizer(model);
    for (int32_t i = 0; i < rp_tokenizer_n_vocab(tk); i++)
        if (rp_tokenizer_is_end(tk, i)) return i;
    return -1;
}

static inline void run_script(Play *y, const RpRequest *request) {
    RpTokenList script = {0};
    uint64_t    step   = 0;
    bool        more   = true;
    for (int k = 0; k < MOST_PARTS && y->parts[k] != NULL && more; k++) {
        bool follows = true;
        tokenize_part(y, y->parts[k], &script);
        for (size_t i = 0; more && (follows ? i < script.n : masked());) {
            int32_t token;
            cr_assert_lt(step, MOST_TOKENS, "%s: %s", y->calls, joined(&y->t.all));
            want(follows ? script.ids[i] : -1, step++);
            y->n_masked += masked();
            OK(rp_sampler_sample(sampler, logits, &token));
            OK(rp_token_list_push(&y->tokens, token));
            more = request->on_token(token, request->token_user);
            if (follows && token != script.ids[i++]) follows = false, y->diverged = true;
        }
    }
    rp_token_list_free(&script);
    if (!more) return;
    int32_t token; /* the model ends its reply */
    want(end_token(), step);
    OK(rp_sampler_sample(sampler, logits, &token));
    if (token == end_token()) (void)request->on_token(token, request->token_user);
}

static inline void play(Play *y) {
    char         json[8192];
    RpChatReply *r;
    RpRequest    request = {0};
    snprintf(json, sizeof json, "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"tools\": %s%s}",
             y->tools, y->members != NULL ? y->members : "");
    const RpChatOptions o = {
        .json          = json,
        .json_bytes    = strlen(json),
        .format        = {y->calls, y->reasoning},
        .chat_template = plain,
        .on_event      = transcript_event,
        .user          = &y->t,
        .free_calls    = y->free_calls,
        .on_note       = keep_note
    };
    notes[0] = '\0';
    rp_sampler_reset(sampler);
    OK(rp_chat_reply_new(model, sampler, &o, &r));
    OK(rp_chat_reply_request(r, &request));
    cr_expect_null(request.force_token, "%s: free text is not sampled with a mask", y->calls);
    run_script(y, &request);
    OK(rp_chat_reply_end(r, &(RpEngineEvent){.end = true, .reason = RP_STOP_END_TOKEN}, &y->result));
    rp_chat_reply_free(r);
    cr_expect(!masked(), "%s: the mask is removed", y->calls);
}

static inline void play_free(Play *y) { transcript_free(&y->t), rp_token_list_free(&y->tokens); }

static inline bool same_tokens(const Play *a, const Play *b) {
    return a->tokens.n == b->tokens.n && memcmp(a->tokens.ids, b->tokens.ids, a->tokens.n * sizeof *a->tokens.ids) == 0;
}

#endif
