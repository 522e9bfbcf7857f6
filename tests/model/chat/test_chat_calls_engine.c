/* Calls that the demo model begins by itself, because their mark has a bias: on a session, and on an engine with and
 * without guesses. */
#include "tests/support/case.h"
#include "tests/support/edited_model.h"
#include "tests/support/reply.h"

#define SCHEMA                                                                                                         \
    "{\"type\": \"object\", \"properties\": {\"a\": {\"enum\": [\"x\", \"yy\"]}, \"b\": {\"type\": \"boolean\"}}, "    \
    "\"required\": [\"a\", \"b\"], \"additionalProperties\": false}"
#define REQUEST                                                                                                        \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"tools\": [{\"name\": \"sum\", "                     \
    "\"parameters\": " SCHEMA "}], \"max_tokens\": 200}"

enum { N_CHATS = 3 };

static char           *file;
static RpModel        *model;
static RpChatTemplate *plain;

static void setup(void) {
    static const char source[] = "{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %}.{% endif %}";
    size_t            bytes;
    file = demo_file(&bytes);
    edit_vocabulary(file, bytes, "hermes", "none", 3);
    OK(rp_model_open_memory(file, bytes, "edited", &model));
    OK(rp_chat_template_new(rp_model_tokenizer(model), "a", source, sizeof source - 1, &plain));
}

static void teardown(void) {
    rp_chat_template_free(plain);
    rp_model_free(model);
    free(file);
}

TestSuite(chat_calls_engine, .init = setup, .fini = teardown);

static RpSampler *sampler_of(int seed) {
    const RpLogitBias bias = {.token = rp_tokenizer_find(rp_model_tokenizer(model), "<tool_call>"), .bias = 12.0f};
    RpSamplerParams   p    = rp_sampler_defaults();
    RpSampler        *s;
    p.temperature  = 1.0f;
    p.seed         = (uint64_t)seed;
    p.logit_bias   = &bias;
    p.n_logit_bias = 1;
    OK(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &s));
    return s;
}

static RpChatOptions options_of(Transcript *to) {
    return (RpChatOptions){
        .json          = REQUEST,
        .json_bytes    = sizeof REQUEST - 1,
        .format        = {"hermes", "none"},
        .chat_template = plain,
        .on_event      = transcript_event,
        .user          = to
    };
}

static bool valid(const char *arguments) {
    static const char *const all[] = {"x", "yy"}, *const other[] = {"true", "false"};
    char   plain_text[256];
    size_t n = 0;
    for (const char *p = arguments; *p != '\0' && n + 1 < sizeof plain_text; p++)
        if (strchr(" \n\t", *p) == NULL) plain_text[n++] = *p;
    plain_text[n] = '\0';
    for (int i = 0; i < 4; i++) {
        char want[2][64];
        snprintf(want[0], 64, "{\"a\":\"%s\",\"b\":%s}", all[i & 1], other[i >> 1]);
        snprintf(want[1], 64, "{\"b\":%s,\"a\":\"%s\"}", other[i >> 1], all[i & 1]);
        if (strcmp(plain_text, want[0]) == 0 || strcmp(plain_text, want[1]) == 0) return true;
    }
    return false;
}

static void run_alone(int i, Transcript *to, RpChatResult *result) {
    RpSession          *session;
    RpSampler          *sampler = sampler_of(i);
    const RpChatOptions o       = options_of(to);
    OK(rp_session_open(model, &(RpSessionOptions){.n_ctx = 400, .n_threads = 1, .device = "cpu"}, &session));
    OK(rp_chat_generate(session, sampler, &o, result));
    rp_session_free(session);
    rp_sampler_free(sampler);
}

static void run_together(Transcript *to, RpChatResult *results, int32_t n_draft) {
    RpEngine     *engine;
    RpEngineEvent v;
    RpSampler    *samplers[N_CHATS];
    RpChatReply  *replies[N_CHATS];
    int           ended = 0;
    OK(rp_engine_open(model, &(RpEngineOptions){.n_ctx = 400, .n_seq = N_CHATS, .n_threads = 1}, &engine));
    for (int i = 0; i < N_CHATS; i++) {
        RpRequest           request = {.n_draft = n_draft, .user = &replies[i]};
        const RpChatOptions o       = options_of(&to[i]);
        uint64_t            id;
        samplers[i] = sampler_of(i);
        OK(rp_chat_reply_new(model, samplers[i], &o, &replies[i]));
        OK(rp_chat_reply_request(replies[i], &request));
        OK(rp_engine_add(engine, &request, &id));
    }
    for (int step = 0; ended < N_CHATS; step++) {
        cr_assert_lt(step, 2000, "the chats do not end");
        OK(rp_engine_step(engine));
        while (rp_engine_poll(engine, &v)) {
            if (!v.end) continue;
            RpChatReply **r = v.user;
            OK(rp_chat_reply_end(*r, &v, &results[r - replies]));
            ended++;
        }
    }
    for (int i = 0; i < N_CHATS; i++) rp_chat_reply_free(replies[i]), rp_sampler_free(samplers[i]);
    rp_engine_free(engine);
}

Test(chat_calls_engine, calls_are_held_as_on_a_session) {
    for (int32_t n_draft = 0; n_draft <= 3; n_draft += 3) {
        Transcript   alone[N_CHATS] = {0}, together[N_CHATS] = {0};
        RpChatResult a[N_CHATS], b[N_CHATS];
        run_together(together, b, n_draft);
        for (int i = 0; i < N_CHATS; i++) {
            run_alone(i, &alone[i], &a[i]);
            cr_expect_str_eq(joined(&together[i].all), joined(&alone[i].all), "chat %d, %d guesses", i, n_draft);
            cr_expect(a[i].n_held == b[i].n_held && a[i].n_generated == b[i].n_generated, "chat %d", i);
            cr_expect(b[i].n_calls > 1 && b[i].n_held == b[i].n_calls, "%d of %d calls are held: %s", b[i].n_held,
                      b[i].n_calls, joined(&together[i].all));
            for (int k = 0; k < b[i].n_calls && k < TRANSCRIPT_CALLS - 1; k++)
                cr_expect(strcmp(joined(&together[i].name[k]), "sum") == 0 && valid(joined(&together[i].arguments[k])),
                          "%s", joined(&together[i].all));
            transcript_free(&alone[i]), transcript_free(&together[i]);
        }
    }
}
