/* rp_chat_generate: the events are those of the tokens that rp_generate gives, the session keeps what it has, the
 * reasoning ends after its budget. The demo model writes no calls: test_reply has those. */
#include "model/chat/chat_reply.h"
#include "reprise/step.h"
#include "tests/support/case.h"
#include "tests/support/reply.h"
#include "tests/support/vocabulary.h"

#define REQUEST "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi there\"}]}"
#define LONGER                                                                                                         \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi there\"}, {\"role\": \"user\", \"content\": \"you\"}]}"

static RpModel        *model;
static RpSession      *session;
static RpSampler      *sampler;
static RpChatTemplate *plain, *thinking;

static void setup(void) {
    static const char     a[]    = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
    static const char     b[]    = "{% if not messages %}</think>{% endif %}{{ messages[0].content }}<think>";
    const RpSamplerParams greedy = rp_sampler_defaults();
    OK(rp_model_open(RP_SOURCE_DIR "/assets/demo.gguf", NULL, &model));
    const RpTokenizer *tk = rp_model_tokenizer(model);
    OK(rp_session_open(model, &(RpSessionOptions){.n_ctx = 96, .n_threads = 1, .device = "cpu"}, &session));
    OK(rp_sampler_new(&greedy, rp_model_info(model)->n_vocab, &sampler));
    OK(rp_chat_template_new(tk, "a", a, sizeof a - 1, &plain));
    OK(rp_chat_template_new(tk, "b", b, sizeof b - 1, &thinking));
}

static void teardown(void) {
    rp_chat_template_free(plain);
    rp_chat_template_free(thinking);
    rp_sampler_free(sampler);
    rp_session_free(session);
    rp_model_free(model);
}

TestSuite(chat_generate, .init = setup, .fini = teardown);

static RpChatOptions options_of(const char *json, const RpChatTemplate *t, Transcript *to) {
    return (RpChatOptions){.json          = json,
                           .json_bytes    = strlen(json),
                           .chat_template = t,
                           .max_tokens    = 12,
                           .on_event      = transcript_event,
                           .user          = to};
}

static bool append_text(const char *text, size_t len, void *user) {
    join(user, text, len);
    return true;
}

Test(chat_generate, gives_the_text_of_rp_generate) {
    Transcript          t    = {0};
    Joined              want = {0};
    RpTokenList         ids  = {0};
    RpChatResult        r;
    RpGenerateResult    g;
    const RpChatOptions o = options_of(REQUEST, plain, &t);
    OK(rp_chat_generate(session, sampler, &o, &r));
    OK(rp_tokenize(rp_model_tokenizer(model), "[user]Hi there", 14, RP_TOK_ADD_SPECIAL, &ids));
    OK(rp_session_rewind(session, 0));
    const RpGenerateOptions plainly = {.max_tokens = 12, .on_text = append_text, .user = &want};
    OK(rp_generate(session, sampler, ids.ids, ids.n, &plainly, &g));
    cr_expect_str_eq(joined(&t.text), joined(&want));
    cr_expect_eq(r.n_prompt, (int32_t)ids.n);
    cr_expect_eq(r.n_generated, g.n_generated);
    cr_expect_eq(r.reason, g.reason);
    cr_expect_eq(r.n_kept, 0);
    cr_expect(!t.wrong);
    rp_token_list_free(&ids);
    free(want.p);
    transcript_free(&t);
}

/* A longer conversation keeps the tokens of the one before, and has the events of a new session. */
Test(chat_generate, keeps_what_the_session_has) {
    Transcript    a = {0}, b = {0}, c = {0};
    RpTokenList   context = {0};
    RpChatResult  r;
    RpChatOptions o = options_of(REQUEST, plain, &a);
    o.context       = &context;
    OK(rp_chat_generate(session, sampler, &o, &r));
    cr_expect_eq((int32_t)context.n, rp_session_n_past(session));
    const int32_t n_first = r.n_prompt;
    o                     = options_of(LONGER, plain, &b);
    o.context             = &context;
    OK(rp_chat_generate(session, sampler, &o, &r));
    cr_expect_geq(r.n_kept, n_first - 1);
    cr_expect_eq((int32_t)context.n, rp_session_n_past(session));
    o = options_of(LONGER, plain, &c);
    OK(rp_chat_generate(session, sampler, &o, &r));
    cr_expect_eq(r.n_kept, 0);
    cr_expect_str_eq(joined(&b.all), joined(&c.all));
    o.context = &context;
    context.n = 3;
    REFUSED(rp_chat_generate(session, sampler, &o, &r), RP_E_ARG, "the context has 3 tokens, the session ");
    rp_token_list_free(&context);
    transcript_free(&a), transcript_free(&b), transcript_free(&c);
}

static bool keep_token(int32_t token, void *user) {
    void **to = user;
    OK(rp_token_list_push(to[0], token));
    return rp_chat_reply_token(token, to[1]);
}

/* A reply of the session, or of an engine of its own. Brings the context up to date. */
static RpStatus reply_of(bool of_engine, RpSampler *of, const RpChatOptions *o, RpChatResult *out) {
    RpEngine     *engine;
    RpChatReply  *reply;
    RpRequest     request = {.user = NULL};
    RpTokenList   tokens  = {0};
    RpEngineEvent last;
    uint64_t      id;
    if (!of_engine) return rp_chat_generate(session, of, o, out);
    OK(rp_engine_open(model, &(RpEngineOptions){.n_ctx = 96, .n_seq = 1, .n_threads = 1, .device = "cpu"}, &engine));
    OK(rp_chat_reply_new(model, of, o, &reply));
    OK(rp_chat_reply_request(reply, &request));
    request.on_token = keep_token, request.token_user = (void *[]){&tokens, reply};
    OK(rp_engine_add(engine, &request, &id));
    while (rp_engine_pending(engine) > 0) {
        OK(rp_engine_step(engine));
        while (rp_engine_poll(engine, &last)) continue;
    }
    const RpStatus     st     = rp_chat_reply_end(reply, &last, out);
    const RpTokenList *prompt = rp_chat_reply_prompt(reply);
    o->context->n             = 0;
    for (size_t i = 0; i < prompt->n; i++) OK(rp_token_list_push(o->context, prompt->ids[i]));
    for (size_t i = 0; i + 1 < tokens.n; i++) OK(rp_token_list_push(o->context, tokens.ids[i]));
    rp_chat_reply_free(reply), rp_engine_free(engine), rp_token_list_free(&tokens);
    return st;
}

/* The tokens that a sampler of greedy parameters has accepted, up to 512. */
static int32_t n_accepted(const RpSampler *of) {
    size_t      n;
    RpStepState state;
    memcpy(&state, rp_sampler_state(of, &n), sizeof state);
    return state.n_recent;
}

/* The last token of a reply is in no context yet, but the sampler has accepted it. */
Test(chat_generate, a_sampler_accepts_each_token_of_a_conversation_once) {
    RpSamplerParams p = rp_sampler_defaults();
    int             n = 0;
    p.repeat_last_n   = 512;
    for (int engine = 0; engine < 2; engine++)
        for (int32_t max_tokens = 1; max_tokens < 12; max_tokens++) {
            Transcript   a = {0}, b = {0};
            RpTokenList  context = {0};
            RpChatResult first, second;
            RpSampler   *of;
            char         json[2048];
            OK(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &of));
            OK(rp_session_rewind(session, 0));
            RpChatOptions o = options_of(REQUEST, plain, &a);
            o.max_tokens = max_tokens, o.context = &context;
            OK(reply_of(engine != 0, of, &o, &first));
            cr_expect_eq(first.n_seen, 0, CASE(engine, max_tokens));
            cr_expect_eq(n_accepted(of), first.n_prompt + first.n_generated, CASE(engine, max_tokens));
            const int32_t held = (int32_t)context.n;
            snprintf(json, sizeof json,
                     "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi there%s\"}, {\"role\": \"user\", "
                     "\"content\": \"you\"}]}",
                     joined(&a.text));
            o            = options_of(json, plain, &b);
            o.max_tokens = 2, o.context = &context;
            OK(reply_of(engine != 0, of, &o, &second));
            cr_expect_leq(second.n_kept, held, CASE(engine, max_tokens));
            if (second.n_seen >= held) {
                cr_expect_eq(second.n_seen, held + 1, CASE(engine, max_tokens));
                cr_expect_eq(n_accepted(of), second.n_prompt + second.n_generated, CASE(engine, max_tokens));
                n++;
            }
            rp_sampler_free(of), rp_token_list_free(&context);
            transcript_free(&a), transcript_free(&b);
        }
    cr_expect_gt(n, 4, "%d prompts continue with the tokens of the reply", n);
}

static bool refuse(int64_t done, int64_t total, void *user) {
    (void)done, (void)total, (void)user;
    return false;
}

/* A new sampler accepts the whole prompt, so that a reply does not depend on what the session has of it. */
Test(chat_generate, a_new_sampler_accepts_what_the_session_has) {
    RpSamplerParams p = rp_sampler_defaults();
    p.repeat_last_n = 512, p.repeat_penalty = 1.8f;
    for (int engine = 0; engine < 2; engine++) {
        Transcript   want = {0}, got = {0};
        RpTokenList  context = {0};
        RpChatResult r;
        RpSampler   *of;
        OK(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &of));
        OK(rp_session_rewind(session, 0));
        RpChatOptions o = options_of(LONGER, plain, &want);
        o.context       = &context;
        OK(reply_of(engine != 0, of, &o, &r));
        rp_sampler_reset(of);
        o         = options_of(LONGER, plain, &got);
        o.context = &context;
        if (engine == 0) { /* a prompt that is cancelled leaves nothing */
            OK(rp_session_rewind(session, 3));
            context.n          = 3;
            o.prefill_progress = refuse;
            OK(rp_chat_generate(session, of, &o, &r));
            cr_expect_eq(r.reason, RP_STOP_CANCELLED, CASE(engine));
            cr_expect_eq(n_accepted(of), 0, CASE(engine));
            o.prefill_progress = NULL;
        }
        OK(reply_of(engine != 0, of, &o, &r));
        cr_expect_eq(r.n_seen, 0, CASE(engine));
        cr_expect(engine != 0 || r.n_kept > 0, CASE(engine));
        cr_expect_eq(n_accepted(of), r.n_prompt + r.n_generated, CASE(engine));
        cr_expect_str_eq(joined(&got.all), joined(&want.all), CASE(engine));
        rp_sampler_free(of), rp_token_list_free(&context);
        transcript_free(&want), transcript_free(&got);
    }
}

Test(chat_generate, reasoning_ends_after_its_budget) {
    for (int32_t budget = 1; budget < 7; budget += 2) {
        Transcript    t   = {0};
        RpTokenList   ids = {0};
        RpChatResult  r;
        RpChatOptions o    = options_of(REQUEST, thinking, &t);
        o.format           = (RpReplyFormat){"none", "think"};
        o.max_tokens       = 24;
        o.reasoning_budget = budget;
        OK(rp_chat_generate(session, sampler, &o, &r));
        OK(rp_tokenize(rp_model_tokenizer(model), "</think>", 8, RP_TOK_PARSE_SPECIAL, &ids));
        cr_expect_eq(r.n_reasoning, budget + (int32_t)ids.n, CASE(budget, r.n_reasoning, ids.n));
        cr_expect_gt(t.text.n, 0, CASE(budget));
        cr_expect(strstr(joined(&t.all), "</think>") == NULL, CASE(budget));
        rp_token_list_free(&ids);
        transcript_free(&t);
    }
}

Test(chat_generate, refuses_bad_options) {
    RpChatResult  r;
    Transcript    t = {0};
    RpChatOptions o = options_of(REQUEST, NULL, &t);
    REFUSED(rp_chat_generate(session, sampler, &o, &r), RP_E_ARG, "a chat has no template");
    o = options_of(REQUEST, plain, &t), o.reasoning_budget = -1;
    REFUSED(rp_chat_generate(session, sampler, &o, &r), RP_E_ARG, "a budget of -1 tokens for reasoning");
    o.reasoning_budget = 3;
    REFUSED(rp_chat_generate(session, sampler, &o, &r), RP_E_ARG,
            "a budget of 3 tokens for reasoning, which this model does not write");
    o = options_of("{", plain, &t);
    REFUSED(rp_chat_generate(session, sampler, &o, &r), RP_E_FORMAT, "request: JSON: a name is expected at byte 1");
}

Test(chat_generate, refuses_a_model_without_a_tokenizer) {
    RpChatResult             r;
    Transcript               t = {0};
    RpModel                 *m;
    RpSession               *s;
    RpChatOptions            o = options_of(REQUEST, plain, &t);
    static _Alignas(64) char file[1 << 19];
    FILE                    *f     = fopen(RP_SOURCE_DIR "/tests/golden/tiny/llama-f32.gguf", "rb");
    const size_t             bytes = fread(file, 1, sizeof file, f);
    fclose(f);
    char *key = memmem(file, bytes, "tokenizer.ggml.model", 20);
    cr_assert(key != NULL);
    key[19] = 'X';
    OK(rp_model_open_memory(file, bytes, "edited", &m));
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = 8, .n_threads = 1, .device = "cpu"}, &s));
    REFUSED(rp_chat_generate(s, sampler, &o, &r), RP_E_UNSUPPORTED, "the model has no tokenizer, and so no chat");
    rp_session_free(s);
    rp_model_free(m);
}

Test(chat_generate, a_callback_stops_the_reply) {
    Transcript    t = {.stop_at = 2};
    RpChatResult  r;
    RpChatOptions o = options_of(REQUEST, plain, &t);
    OK(rp_chat_generate(session, sampler, &o, &r));
    cr_expect_eq(r.reason, RP_STOP_CANCELLED);
    cr_expect_eq(t.n_events, 2);
    transcript_free(&t);
}

static int32_t force(void *user) { return ++*(int32_t *)user <= 3 ? 40 + *(int32_t *)user : -1; }

static int32_t force_wrong(void *user) { return *(int32_t *)user; }

/* Tokens that are forced are in the reply, and in the context of what is sampled behind them. */
Test(chat_generate, rp_generate_takes_forced_tokens) {
    const int32_t     prompt[] = {5, 6, 7}, whole[] = {5, 6, 7, 41, 42, 43};
    RpTokenList       a = {0}, b = {0};
    RpGenerateResult  r;
    int32_t           n = 0, wrong = 1 << 20;
    RpGenerateOptions o = {.max_tokens = 6, .ignore_end = true, .tokens = &a, .force_token = force, .user = &n};
    OK(rp_generate(session, sampler, prompt, 3, &o, &r));
    OK(rp_session_rewind(session, 0));
    OK(rp_generate(session, sampler, whole, 6, &(RpGenerateOptions){.max_tokens = 3, .ignore_end = true, .tokens = &b},
                   &r));
    cr_assert_eq(a.n, 6);
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(a.ids[i], 41 + i, CASE(i));
        cr_expect_eq(a.ids[3 + i], b.ids[i], CASE(i));
    }
    o.force_token = force_wrong, o.user = &wrong;
    OK(rp_session_rewind(session, 0));
    REFUSED(rp_generate(session, sampler, prompt, 3, &o, &r), RP_E_ARG,
            "force_token gave token 1048576, the vocabulary has ");
    rp_token_list_free(&a), rp_token_list_free(&b);
}
