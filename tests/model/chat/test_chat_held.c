/* Replies that a grammar holds: whatever the demo model samples at a high temperature, the reply is a call of the right
 * tool with valid arguments, or JSON by the schema. Arguments are checked from their text, by a grammar made of the
 * schema alone. The vocabulary gets the marks of each format as control tokens, as user-defined ones, or not at all. */
#include "model/chat/parser.h"
#include "tests/support/case.h"
#include "tests/support/edited_model.h"
#include "tests/support/golden.h"
#include "tests/support/reply.h"

#define CITY                                                                                                           \
    "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"maxLength\": 6}, \"days\": "           \
    "{\"type\": \"integer\", \"minimum\": 1, \"maximum\": 14}, \"unit\": {\"type\": \"string\", \"enum\": [\"C\", "    \
    "\"F\"]}}, \"required\": [\"city\", \"days\"], \"additionalProperties\": false}"
#define SUM                                                                                                            \
    "{\"type\": \"object\", \"properties\": {\"exact\": {\"type\": \"boolean\"}, \"terms\": {\"type\": \"array\", "    \
    "\"items\": {\"enum\": [1, 2, 3]}, \"minItems\": 1, \"maxItems\": 3}}, \"additionalProperties\": false}"
#define TOOLS                                                                                                          \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": " CITY                 \
    "}}, {\"name\": \"sum\", \"input_schema\": " SUM "}]"
#define MESSAGES "\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]"

typedef enum Variant { AS_TEXT, AS_CONTROL, AS_USER_DEFINED, VARIANTS } Variant;

enum { N_REPLIES = 40 };

static const char *const schemas[] = {CITY, SUM}, *const names[] = {"weather", "sum"};

static char           *file;
static size_t          file_bytes;
static RpModel        *model;
static RpSession      *session;
static RpSampler      *sampler;
static RpChatTemplate *plain;

static void setup(void) { file = demo_file(&file_bytes); }

static void close_model(void) {
    rp_chat_template_free(plain);
    rp_sampler_free(sampler);
    rp_session_free(session);
    rp_model_free(model);
}

static void teardown(void) { free(file); }

TestSuite(chat_held, .init = setup, .fini = teardown);

static void open_model(const char *calls, const char *reasoning, Variant variant, float temperature) {
    static const char source[] = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools[0].type if tools }}";
    RpSamplerParams   p        = rp_sampler_defaults();
    p.temperature              = temperature;
    p.top_k                    = 0;
    p.top_p                    = 1;
    char *copy                 = file;
    if (variant != AS_TEXT) edit_vocabulary(copy, file_bytes, calls, reasoning, variant == AS_CONTROL ? 3 : 4);
    OK(rp_model_open_memory(copy, file_bytes, "edited", &model));
    OK(rp_session_open(model, &(RpSessionOptions){.n_ctx = 640, .n_threads = 1, .device = "cpu"}, &session));
    OK(rp_sampler_new(&p, rp_model_info(model)->n_vocab, &sampler));
    OK(rp_chat_template_new(rp_model_tokenizer(model), "a", source, sizeof source - 1, &plain));
}

/* Frees the grammar. */
static bool satisfies_grammar(RpGrammar *g, const char *text) {
    RpMatcher      *m;
    RpGgufString    none = {"", 0};
    RpGrammarVocab *v;
    OK(rp_grammar_vocab_of(&none, 1, NULL, 0, &v));
    OK(rp_matcher_new(g, v, &m));
    const bool is = rp_matcher_accept_text(m, text, strlen(text)) == RP_OK && rp_matcher_complete(m);
    rp_matcher_free(m), rp_grammar_vocab_free(v), rp_grammar_free(g);
    return is;
}

static bool satisfies(const char *schema, const char *text) {
    RpGrammar *g;
    OK(rp_grammar_json_schema(schema, strlen(schema), 0, &g));
    return satisfies_grammar(g, text);
}

static RpChatOptions options_of(const char *json, const char *calls, const char *reasoning, Transcript *to) {
    return (RpChatOptions){
        .json          = json,
        .json_bytes    = strlen(json),
        .format        = {calls, reasoning},
        .chat_template = plain,
        .on_event      = transcript_event,
        .user          = to
    };
}

static void expect_call(const char *json, const char *calls, const char *reasoning, int only, int variant) {
    Transcript    t = {0};
    RpChatResult  r;
    RpChatOptions o      = options_of(json, calls, reasoning, &t);
    const bool    thinks = strcmp(reasoning, "none") != 0 || strcmp(calls, "harmony") == 0;
    o.reasoning_budget   = thinks ? 4 : 0;
    const RpStatus st    = rp_chat_generate(session, sampler, &o, &r);
    cr_assert(st == RP_OK, "%s, variant %d: %s after %d tokens: %s", calls, variant, rp_last_error(), r.n_generated,
              joined(&t.all));
    const char *name = joined(&t.name[0]);
    const int   tool = strcmp(name, names[1]) == 0;
    cr_expect(r.n_calls == 1 && t.n_calls == 1 && strcmp(name, names[tool]) == 0 && (only < 0 || tool == only) &&
                  t.malformed.n == 0 && t.text.n == 0 && satisfies(schemas[tool], joined(&t.arguments[0])),
              "%s, %s, variant %d, tool %d, %d tokens, %s: %s", calls, reasoning, variant, only, r.n_generated,
              rp_stop_reason_name(r.reason), joined(&t.all));
    transcript_free(&t);
}

/* Slow builds run one of the three variants of each format, another one for the next format. */
static bool has_turn(size_t format, Variant variant) {
#if defined(RP_TEST_SLOW)
    return format % VARIANTS == (size_t)variant;
#else
    return (void)format, (void)variant, true;
#endif
}

static void expect_calls(const char *calls, const char *reasoning, Variant variant) {
    open_model(calls, reasoning, variant, 1.5f);
    expect_call("{" MESSAGES ", " TOOLS ", \"tool_choice\": \"required\"}", calls, reasoning, -1, (int)variant);
    expect_call("{" MESSAGES ", " TOOLS
                ", \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"sum\"}}}",
                calls, reasoning, 1, (int)variant);
    expect_call("{" MESSAGES ", " TOOLS ", \"tool_choice\": {\"type\": \"function\", \"function\": "
                "{\"name\": \"weather\"}}}",
                calls, reasoning, 0, (int)variant);
    close_model();
}

Test(chat_held, calls_with_marks_that_are_no_tokens) {
    /* but of gpt-oss: <|end|> ends the reply where the others are no tokens */
    for (size_t i = 1; rp_reply_format_calls(i) != NULL; i++)
        if (has_turn(i, AS_TEXT) && strcmp(rp_reply_format_calls(i), "harmony") != 0)
            expect_calls(rp_reply_format_calls(i), "none", AS_TEXT);
}

Test(chat_held, calls_with_marks_that_are_control_tokens) {
    for (size_t i = 1; rp_reply_format_calls(i) != NULL; i++)
        if (has_turn(i, AS_CONTROL)) expect_calls(rp_reply_format_calls(i), "none", AS_CONTROL);
}

Test(chat_held, calls_with_marks_that_are_user_defined_tokens) {
    for (size_t i = 1; rp_reply_format_calls(i) != NULL; i++)
        if (has_turn(i, AS_USER_DEFINED)) expect_calls(rp_reply_format_calls(i), "none", AS_USER_DEFINED);
}

/* The reasoning comes first, and is closed by its budget. */
Test(chat_held, reasoning_stays_free) {
    static const char *const calls[] = {"hermes", "mistral", "seed-oss", "glm4", "command-r7b"}, *const reasoning[] = {
                                                                                                     "think", "mistral",
                                                                                                     "seed-oss",
                                                                                                     "think",
                                                                                                     "command-r7b"};
    for (int variant = 0; variant < VARIANTS; variant++)
        for (size_t i = 0; i < 5; i++)
            if (has_turn(i, (Variant)variant)) expect_calls(calls[i], reasoning[i], (Variant)variant);
}

/* Frees the grammar. */
static void expect_answer(const char *format, const char *calls, const char *reasoning, RpGrammar *g, int variant) {
    char         json[2048];
    Transcript   t = {0};
    RpChatResult r;
    snprintf(json, sizeof json, "{" MESSAGES ", \"response_format\": %s}", format);
    RpChatOptions o    = options_of(json, calls, reasoning, &t);
    o.reasoning_budget = strcmp(calls, "harmony") == 0 || strcmp(reasoning, "none") != 0 ? 4 : 0;
    OK(rp_chat_generate(session, sampler, &o, &r));
    cr_expect(t.n_calls == 0 && t.malformed.n == 0 && satisfies_grammar(g, joined(&t.text)),
              "%s, variant %d, %d tokens, %s: %s", calls, variant, r.n_generated, rp_stop_reason_name(r.reason),
              joined(&t.all));
    transcript_free(&t);
}

static void expect_json(const char *format, const char *calls, const char *schema, int variant) {
    RpGrammar *g;
    OK(rp_grammar_json_schema(schema, strlen(schema), 0, &g));
    expect_answer(format, calls, "none", g, variant);
}

Test(chat_held, answers_are_texts_of_a_grammar) {
    static const char *const calls[]     = {"none", "hermes", "llama3", "harmony", "mistral", "hermes", "mistral"};
    static const char *const reasoning[] = {"none", "none", "none", "none", "none", "think", "mistral"};
    char                     format[256];
    for (int variant = 0; variant < VARIANTS; variant++)
        for (size_t i = 0; i < 7; i++) {
            RpGrammar *g;
            if (!has_turn(i, (Variant)variant) || (variant == AS_TEXT && strcmp(calls[i], "harmony") == 0)) continue;
            open_model(calls[i], reasoning[i], (Variant)variant, 1.0f);
            snprintf(format, sizeof format, "{\"type\": \"grammar\", \"grammar\": \"%s\"}",
                     "root ::= pair pair?\\npair ::= [A-F] \\\"-\\\" [0-9]{1,3} \\\";\\\"");
            OK(rp_grammar_regex("([A-F]-[0-9]{1,3};){1,2}", 24, &g));
            expect_answer(format, calls[i], reasoning[i], g, variant);
            OK(rp_grammar_regex("(yes|no)!{2}", 12, &g));
            expect_answer("{\"type\": \"regex\", \"regex\": \"(yes|no)!{2}\"}", calls[i], reasoning[i], g, variant);
            close_model();
        }
}

Test(chat_held, answers_are_json) {
    static const char *const calls[] = {"none", "hermes", "llama3", "harmony", "mistral"};
    for (int variant = 0; variant < VARIANTS; variant++)
        for (size_t i = 0; i < 5; i++) {
            if (!has_turn(i, (Variant)variant) || (variant == AS_TEXT && strcmp(calls[i], "harmony") == 0)) continue;
            open_model(calls[i], "none", (Variant)variant, 1.0f);
            expect_json("{\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", \"schema\": " CITY "}}",
                        calls[i], CITY, variant);
            expect_json("{\"type\": \"json_schema\", \"schema\": " SUM "}", calls[i], SUM, variant);
            expect_json("{\"type\": \"json_schema\", \"schema\": {\"enum\": [12, 123]}}", calls[i],
                        "{\"enum\": [12, 123]}", variant);
            close_model();
        }
}

/* With tools and "auto" the reply is the answer or a call. */
Test(chat_held, answers_or_calls) {
    int n_answers = 0, n_calls = 0;
    open_model("lfm2", "none", AS_CONTROL, 4.0f);
    for (int i = 0; i < N_REPLIES; i++) {
        Transcript          t = {0};
        RpChatResult        r;
        const RpChatOptions o = options_of("{" MESSAGES ", " TOOLS ", \"response_format\": {\"type\": \"json_schema\", "
                                           "\"schema\": " CITY "}}",
                                           "lfm2", "none", &t);
        OK(rp_chat_generate(session, sampler, &o, &r));
        const int tool = strcmp(joined(&t.name[0]), names[1]) == 0;
        cr_expect(t.malformed.n == 0 && (t.text.n > 0) != (t.n_calls == 1), "%s", joined(&t.all));
        cr_expect(t.n_calls == 1 ? satisfies(schemas[tool], joined(&t.arguments[0])) : satisfies(CITY, joined(&t.text)),
                  "%s", joined(&t.all));
        n_answers += t.n_calls == 0, n_calls += t.n_calls;
        transcript_free(&t);
    }
    cr_expect(n_answers > 0 && n_calls > 0, CASE(n_answers, n_calls));
    close_model();
}

/* A vocabulary that is made once gives the reply of one that is made for the call. */
Test(chat_held, takes_a_vocabulary) {
    Transcript      a = {0}, b = {0};
    RpChatResult    r;
    RpGrammarVocab *v, *wrong;
    RpGgufString    none = {"", 0};
    open_model("hermes", "none", AS_CONTROL, 0.0f);
    RpChatOptions o = options_of("{" MESSAGES ", " TOOLS ", \"tool_choice\": \"required\"}", "hermes", "none", &a);
    OK(rp_chat_generate(session, sampler, &o, &r));
    cr_expect_eq(r.reason, RP_STOP_GRAMMAR);
    OK(rp_grammar_vocab_new(rp_model_tokenizer(model), &v));
    o.vocab = v, o.user = &b;
    OK(rp_chat_generate(session, sampler, &o, &r));
    cr_expect_str_eq(joined(&a.all), joined(&b.all));
    OK(rp_grammar_vocab_of(&none, 1, NULL, 0, &wrong));
    o.vocab = wrong;
    REFUSED(rp_chat_generate(session, sampler, &o, &r), RP_E_ARG,
            "the vocabulary for grammars has 1 tokens, the model 4096");
    rp_grammar_vocab_free(v), rp_grammar_vocab_free(wrong);
    transcript_free(&a), transcript_free(&b);
    close_model();
}

static void expect_refusal(const char *members, const char *calls, RpStatus status, const char *text) {
    char         json[2048];
    Transcript   t = {0};
    RpChatResult r;
    snprintf(json, sizeof json, "{" MESSAGES ", %s}", members);
    const RpChatOptions o = options_of(json, calls, "none", &t);
    REFUSED(rp_chat_generate(session, sampler, &o, &r), status, text);
    transcript_free(&t);
}

Test(chat_held, refuses_what_cannot_be_held) {
    open_model("none", "none", AS_TEXT, 1.0f);
    expect_refusal(TOOLS ", \"tool_choice\": \"required\"", "none", RP_E_UNSUPPORTED,
                   "tool_choice: calls of the format \"none\" cannot be forced");
    expect_refusal("\"tools\": [{\"name\": \"f\", \"parameters\": {\"properties\": {\"a b\": {}}}}], "
                   "\"tool_choice\": \"required\"",
                   "lfm2", RP_E_UNSUPPORTED,
                   "tool_choice: the tool \"f\" has a parameter \"a b\", which calls of the format \"lfm2\" cannot "
                   "have");
    expect_refusal("\"response_format\": {\"type\": \"json_schema\", \"schema\": {\"uniqueItems\": true}}", "none",
                   RP_E_UNSUPPORTED, "JSON schema: uniqueItems at # is not supported");
    expect_refusal("\"response_format\": {\"type\": \"grammar\", \"grammar\": \"root ::= x\"}", "none", RP_E_FORMAT,
                   "GBNF:1:11: a rule before this place is not defined");
    expect_refusal("\"response_format\": {\"type\": \"regex\", \"regex\": \"(a\"}", "none", RP_E_FORMAT,
                   "regular expression: a group without )");
    expect_refusal("\"stop\": [\"x\", \"\"]", "none", RP_E_ARG, "stop string 1 of the chat is empty");
    close_model();
}

Test(chat_held, refuses_a_tool_with_too_many_parameters) {
    static char json[16384];
    int         n = snprintf(json, sizeof json,
                             "{" MESSAGES ", \"tool_choice\": \"required\", \"tools\": [{\"name\": \"f\", "
                                     "\"parameters\": {\"properties\": {\"a\": {}");
    for (int i = 0; i < 256; i++) n += snprintf(json + n, sizeof json - (size_t)n, ", \"p%d\": {}", i);
    snprintf(json + n, sizeof json - (size_t)n, "}}}]}");
    RpChatResult r;
    Transcript   t = {0};
    open_model("glm4", "none", AS_TEXT, 1.0f);
    const RpChatOptions o = options_of(json, "glm4", "none", &t);
    REFUSED(rp_chat_generate(session, sampler, &o, &r), RP_E_UNSUPPORTED,
            "tool_choice: the tool \"f\" has more than 256 parameters");
    close_model();
}

/* The text in front of a stop string is that of the reply without it. */
Test(chat_held, stop_strings_end_the_answer) {
    Transcript   whole = {0}, t = {0}, in_json = {0};
    RpChatResult r;
    char         stop[8], json[256];
    const char  *strings[] = {"never there", stop};
    open_model("none", "none", AS_TEXT, 0.0f);
    RpChatOptions o = options_of("{" MESSAGES ", \"max_tokens\": 30}", "none", "none", &whole);
    OK(rp_chat_generate(session, sampler, &o, &r));
    cr_expect_eq(r.n_generated, 30);
    cr_assert_gt(whole.text.n, 30);
    snprintf(stop, sizeof stop, "%.5s", joined(&whole.text) + 20);
    const size_t at = (size_t)(strstr(joined(&whole.text), stop) - joined(&whole.text));
    o.stop = strings, o.n_stop = 2, o.user = &t;
    OK(rp_chat_generate(session, sampler, &o, &r));
    cr_expect_eq(r.reason, RP_STOP_STRING);
    cr_expect(t.text.n == at && memcmp(joined(&t.text), joined(&whole.text), at) == 0, "%s", joined(&t.all));
    snprintf(json, sizeof json, "{" MESSAGES ", \"max_tokens\": 30, \"stop\": \"%s\"}", stop);
    o = options_of(json, "none", "none", &in_json);
    OK(rp_chat_generate(session, sampler, &o, &r));
    cr_expect_str_eq(joined(&in_json.all), joined(&t.all));
    transcript_free(&whole), transcript_free(&t), transcript_free(&in_json);
    close_model();
}
