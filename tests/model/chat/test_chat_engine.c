/* Chats on an engine: several at a time have the events and results of rp_chat_generate on a session of their own. */
#include "tests/support/case.h"
#include "tests/support/golden.h"
#include "tests/support/reply.h"

#define MESSAGES "\"messages\": [{\"role\": \"user\", \"content\": \"Hi there\"}]"
#define SCHEMA                                                                                                         \
    "{\"type\": \"object\", \"properties\": {\"a\": {\"enum\": [\"x\", \"yy\"]}, \"b\": {\"type\": \"boolean\"}}, "    \
    "\"required\": [\"a\", \"b\"], \"additionalProperties\": false}"
#define TOOL                                                                                                           \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"sum\", \"parameters\": " SCHEMA "}}], "           \
    "\"tool_choice\": \"required\""

enum { N_CHATS = 6 };

static RpModel        *model;
static RpChatTemplate *plain, *thinking;

static void setup(void) {
    static const char a[] =
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if tools %}.{% endif %}";
    static const char b[] = "{% if not messages %}</think>{% endif %}{{ messages[0].content }}<think>";
    OK(rp_model_open(RP_SOURCE_DIR "/assets/demo.gguf", NULL, &model));
    const RpTokenizer *tk = rp_model_tokenizer(model);
    OK(rp_chat_template_new(tk, "a", a, sizeof a - 1, &plain));
    OK(rp_chat_template_new(tk, "b", b, sizeof b - 1, &thinking));
}

static void teardown(void) {
    rp_chat_template_free(plain);
    rp_chat_template_free(thinking);
    rp_model_free(model);
}

TestSuite(chat_engine, .init = setup, .fini = teardown);

static RpSampler *sampler_of(int seed) {
    RpSamplerParams p = rp_sampler_defaults();
    RpSampler      *s;
    p.temperature = 1.0f;
    p.seed        = (uint64_t)seed;
    OK(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &s));
    return s;
}

/* Free text, a stop string, a budget of reasoning, JSON by a schema, a call of a tool, and such a call with a limit. */
static RpChatOptions options_of(int i, Transcript *to) {
    static const char *const requests[N_CHATS] = {
        "{" MESSAGES "}",
        "{" MESSAGES ", \"stop\": [\"e\"]}",
        "{" MESSAGES "}",
        "{" MESSAGES ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"schema\": " SCHEMA "}}}",
        "{" MESSAGES ", " TOOL "}",
        "{" MESSAGES ", " TOOL ", \"max_tokens\": 3}",
    };
    return (RpChatOptions){.json             = requests[i],
                           .json_bytes       = strlen(requests[i]),
                           .format           = {.calls = i >= 4 ? "hermes" : NULL},
                           .chat_template    = i == 2 ? thinking : plain,
                           .reasoning_budget = i == 2 ? 5 : 0,
                           .max_tokens       = 100,
                           .on_event         = transcript_event,
                           .user             = to};
}

static void run_alone(int i, Transcript *to, RpChatResult *result) {
    RpSession          *session;
    RpSampler          *sampler = sampler_of(i);
    const RpChatOptions o       = options_of(i, to);
    OK(rp_session_open(model, &(RpSessionOptions){.n_ctx = 128, .n_threads = 1, .device = "cpu"}, &session));
    OK(rp_chat_generate(session, sampler, &o, result));
    rp_session_free(session);
    rp_sampler_free(sampler);
}

/* All of them on one engine that has room for three; request i starts in step i. */
static void run_together(Transcript *to, RpChatResult *results, int32_t n_draft) {
    RpEngine     *engine;
    RpEngineEvent v;
    RpSampler    *samplers[N_CHATS];
    RpChatReply  *replies[N_CHATS];
    int           added = 0, ended = 0;
    OK(rp_engine_open(model, &(RpEngineOptions){.n_ctx = 128, .n_seq = 3, .n_threads = 1}, &engine));
    for (int step = 0; ended < N_CHATS; step++) {
        cr_assert_lt(step, 2000, "the chats do not end");
        if (added < N_CHATS) {
            RpRequest           request = {.n_draft = n_draft, .user = &replies[added]};
            const RpChatOptions o       = options_of(added, &to[added]);
            uint64_t            id;
            samplers[added] = sampler_of(added);
            OK(rp_chat_reply_new(model, samplers[added], &o, &replies[added]));
            OK(rp_chat_reply_request(replies[added], &request));
            cr_expect_eq(request.n_prompt, rp_chat_reply_prompt(replies[added])->n, CASE(added));
            OK(rp_engine_add(engine, &request, &id));
            added++;
        }
        OK(rp_engine_step(engine));
        while (rp_engine_poll(engine, &v)) {
            if (!v.end) continue;
            RpChatReply **r = v.user;
            OK(rp_chat_reply_end(*r, &v, &results[r - replies]));
            ended++;
        }
    }
    for (int i = 0; i < N_CHATS; i++) {
        rp_chat_reply_free(replies[i]);
        rp_sampler_free(samplers[i]);
    }
    rp_engine_free(engine);
}

Test(chat_engine, chats_have_the_events_that_they_have_alone) {
    for (int32_t n_draft = 0; n_draft <= 3; n_draft += 3) {
        Transcript   alone[N_CHATS] = {0}, together[N_CHATS] = {0};
        RpChatResult a[N_CHATS], b[N_CHATS];
        run_together(together, b, n_draft);
        for (int i = 0; i < N_CHATS; i++) {
            run_alone(i, &alone[i], &a[i]);
            cr_expect_str_eq(joined(&together[i].all), joined(&alone[i].all), "chat %d, %d guesses", i, n_draft);
            cr_expect_eq(b[i].reason, a[i].reason, "chat %d: %s, alone %s", i, rp_stop_reason_name(b[i].reason),
                         rp_stop_reason_name(a[i].reason));
            cr_expect_eq(b[i].n_generated, a[i].n_generated, "chat %d: %d tokens, alone %d", i, b[i].n_generated,
                         a[i].n_generated);
            cr_expect(b[i].n_prompt == a[i].n_prompt && b[i].n_reasoning == a[i].n_reasoning &&
                          b[i].n_calls == a[i].n_calls,
                      "chat %d: the counts differ", i);
            cr_expect(!together[i].wrong, "chat %d: an event lacks a field", i);
        }
        cr_expect_eq(b[1].reason, RP_STOP_STRING, "%d guesses", n_draft);
        cr_expect(b[2].n_reasoning >= 5 && b[2].n_reasoning < 20, "%d tokens of reasoning", b[2].n_reasoning);
        cr_expect_eq(b[4].n_calls, 1, "%d calls, %s", b[4].n_calls, joined(&together[4].all));
        cr_expect_str_eq(joined(&together[4].name[0]), "sum", "%d guesses", n_draft);
        cr_expect_eq(b[5].reason, RP_STOP_LIMIT, "%d guesses", n_draft);
        for (int i = 0; i < N_CHATS; i++) transcript_free(&alone[i]), transcript_free(&together[i]);
    }
}

Test(chat_engine, what_does_not_fit_is_refused) {
    RpSampler    *sampler = sampler_of(0);
    RpChatReply  *r;
    RpChatResult  result;
    RpChatOptions o = options_of(0, NULL);
    o.on_event      = NULL;
    o.chat_template = NULL;
    REFUSED(rp_chat_reply_new(model, sampler, &o, &r), RP_E_ARG, "a chat has no template");
    cr_expect_null(r);
    o.chat_template    = plain;
    o.reasoning_budget = 1;
    REFUSED(rp_chat_reply_new(model, sampler, &o, &r), RP_E_ARG,
            "a budget of 1 tokens for reasoning, which this model");
    o.reasoning_budget = 0;
    OK(rp_chat_reply_new(model, sampler, &o, &r));
    REFUSED(rp_chat_reply_end(r, &(RpEngineEvent){.token = 1}, &result), RP_E_ARG,
            "an event that is not the last one of its request");
    const RpEngineEvent failed = {.end = true, .status = RP_E_NOMEM, .error = "out of memory for a test"};
    REFUSED(rp_chat_reply_end(r, &failed, &result), RP_E_NOMEM, "out of memory for a test");
    rp_chat_reply_free(r);
    rp_sampler_free(sampler);
}

static bool stop_at(const RpReplyEvent *e, void *user) {
    (void)e;
    return --*(int *)user > 0;
}

/* A callback that returns false ends its request, and no other one. */
Test(chat_engine, a_callback_can_stop_its_reply) {
    RpEngine     *engine;
    RpEngineEvent v;
    RpChatResult  result;
    RpChatReply  *r;
    int           left = 3, n_steps = 0;
    uint64_t      id;
    RpRequest     request = {0};
    RpSampler    *sampler = sampler_of(0);
    RpChatOptions o       = options_of(0, NULL);
    o.on_event = stop_at, o.user = &left;
    OK(rp_engine_open(model, &(RpEngineOptions){.n_ctx = 128, .n_seq = 2, .n_threads = 1}, &engine));
    OK(rp_chat_reply_new(model, sampler, &o, &r));
    OK(rp_chat_reply_request(r, &request));
    OK(rp_engine_add(engine, &request, &id));
    v.end = false;
    while (!v.end) {
        cr_assert_lt(n_steps++, 60, "the reply does not end");
        OK(rp_engine_step(engine));
        while (rp_engine_poll(engine, &v) && !v.end) {
        }
    }
    OK(rp_chat_reply_end(r, &v, &result));
    cr_expect_eq(result.reason, RP_STOP_CANCELLED);
    cr_expect_eq(left, 0);
    cr_expect_eq(rp_engine_pending(engine), 0);
    rp_chat_reply_free(r);
    rp_sampler_free(sampler);
    rp_engine_free(engine);
}

static int32_t force_wrong(void *user) {
    (void)user;
    return 1 << 20;
}

Test(chat_engine, a_forced_token_outside_of_the_vocabulary_fails_its_request) {
    RpEngine       *engine;
    RpEngineEvent   v;
    uint64_t        id;
    RpSampler      *sampler  = sampler_of(0);
    const int32_t   prompt[] = {5, 6, 7};
    const RpRequest request  = {.prompt = prompt, .n_prompt = 3, .sampler = sampler, .force_token = force_wrong};
    OK(rp_engine_open(model, &(RpEngineOptions){.n_ctx = 128, .n_seq = 2, .n_threads = 1}, &engine));
    OK(rp_engine_add(engine, &request, &id));
    OK(rp_engine_step(engine));
    cr_assert(rp_engine_poll(engine, &v));
    cr_expect(v.end && v.status == RP_E_ARG);
    cr_expect_str_eq(v.error, "force_token gave token 1048576, the vocabulary has 4096");
    rp_engine_free(engine);
    rp_sampler_free(sampler);
}
