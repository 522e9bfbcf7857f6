/* Replies that go on from the last message (continue_final_message). Each template itself gives the text: where it
 * renders the whole conversation, everything up to the end of the last message is the prompt. */
#include "tests/support/chat_request.h"
#include "tests/support/reply.h"
#include "tests/support/vocabulary.h"

#include <glob.h>

#define ASK   "{\"role\": \"user\", \"content\": \"Name a city.\"}"
#define BEGUN ASK ", {\"role\": \"assistant\", \"content\": \"Oslo lies xq\"}"

static RpTokenizer *tk;

static void setup(void) {
    static const Added marks[] = {
        {"<|start|>",   CONTROL,      0},
        {"<|end|>",     CONTROL,      0},
        {"<|channel|>", CONTROL,      0},
        {"<|message|>", CONTROL,      0},
        {"<think>",     USER_DEFINED, 0},
        {"</think>",    USER_DEFINED, 0},
    };
    tk = vocabulary("qwen2", marks, sizeof marks / sizeof marks[0]);
}

static void teardown(void) { rp_tokenizer_free(tk); }

TestSuite(chat_begun, .init = setup, .fini = teardown);

/* NULL: the template refuses it. */
static char *prompt_of(const RpChatTemplate *t, const char *json, RpChatPrompt *out) {
    char               *text;
    bool               *control;
    const RpChatRequest r  = {.json = json, .json_bytes = strlen(json)};
    const RpStatus      st = rp_chat_prompt(t, &r, &text, &control, out);
    free(control);
    return st == RP_OK ? text : NULL;
}

Test(chat_begun, prompts_are_the_begin_of_what_the_template_renders) {
    glob_t found;
    int    n_equal = 0;
    cr_assert_eq(glob(GOLDEN_DIR "templates/*.jinja", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char     *path = found.gl_pathv[i];
        RpChatTemplate *t    = template_of_file(tk, path);
        RpChatPrompt    a, b;
        char           *got = prompt_of(t, "{\"messages\": [" BEGUN "], \"continue_final_message\": true}", &a);
        char *all = prompt_of(t, "{\"messages\": [" BEGUN "]}", &b), *end = all != NULL ? strstr(all, "lies xq") : NULL;
        if (got != NULL && end != NULL) {
            end[7] = '\0';
            n_equal++;
            cr_expect_str_eq(got, all, "%s", path);
            cr_expect(a.continues && !a.in_reasoning && !b.continues, "%s", path);
        }
        free(got), free(all);
        rp_chat_template_free(t);
    }
    globfree(&found);
    cr_expect_eq(n_equal, 65, CASE(n_equal)); /* three drop the text of the last message */
}

static void expect_prompt(const char *source, const char *begun, const char *want, bool in_reasoning) {
    char            json[1024];
    RpChatTemplate *t;
    RpChatPrompt    out;
    OK(rp_chat_template_new(tk, "t", source, strlen(source), &t));
    snprintf(json, sizeof json,
             "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", %s}], "
             "\"continue_final_message\": true}",
             begun);
    char *text = prompt_of(t, json, &out);
    cr_assert(text != NULL, "%s: %s", rp_last_error(), json);
    cr_expect_str_eq(text, want, "%s", begun);
    cr_expect_eq(out.in_reasoning, in_reasoning, "%s", begun);
    free(text);
    rp_chat_template_free(t);
}

Test(chat_begun, reasoning_is_closed_in_front_of_the_answer) {
    static const char opens[] =
        "{% for m in messages if m.role == 'user' %}[{{ m.content }}]{% endfor %}<think>\n{# </think> #}";
    static const char leaves[] =
        "{% for m in messages if m.role == 'user' %}[{{ m.content }}]{% endfor %}{# </think> #}";
    static const char harmony[] = "{% for m in messages if m.role == 'user' %}[{{ m.content }}]{% endfor "
                                  "%}<|start|>assistant{# <|channel|><|message|> #}";
    expect_prompt(opens, "\"content\": \" b \"", "[a]<think>\n\n</think>\n\n b ", false);
    expect_prompt(opens, "\"content\": \"b\", \"reasoning_content\": \"r\"", "[a]<think>\nr\n</think>\n\nb", false);
    expect_prompt(opens, "\"content\": null, \"reasoning_content\": \"r\"", "[a]<think>\nr", true);
    expect_prompt(opens, "\"content\": \"\"", "[a]<think>\n", true);
    expect_prompt(leaves, "\"content\": \"b\"", "[a]b", false);
    expect_prompt(leaves, "\"content\": \"b\", \"reasoning_content\": \"r\"", "[a]<think>\nr\n</think>\n\nb", false);
    expect_prompt(leaves, "\"reasoning_content\": \"r\"", "[a]<think>\nr", true);
    expect_prompt(harmony, "\"content\": \"b\"", "[a]<|start|>assistant<|channel|>final<|message|>b", false);
    expect_prompt(harmony, "\"content\": \"\", \"reasoning_content\": \"r\"",
                  "[a]<|start|>assistant<|channel|>analysis<|message|>r", true);
    expect_prompt(harmony, "\"content\": \"b\", \"reasoning_content\": \"r\"",
                  "[a]<|start|>assistant<|channel|>analysis<|message|>r<|end|><|start|>assistant<|channel|>final"
                  "<|message|>b",
                  false);
    expect_prompt("x", "\"content\": \"b\"", "xb", false);
    expect_prompt("{{ messages[1].content | trim }}x", "\"content\": \" b\"", " b", false);
    expect_prompt("{% if messages[1] %}{{ raise_exception('no') }}{% endif %}x", "\"content\": \"b\"", "xb", false);
}

/* The last message is the client's: it spells no control token. */
Test(chat_begun, its_text_is_no_control_token) {
    static const char   source[] = "<|start|>{# <|channel|><|message|> #}";
    static const char   json[]   = "{\"messages\": [{\"role\": \"assistant\", \"content\": \"<|end|>\"}], "
                                   "\"continue_final_message\": true}";
    RpChatTemplate     *t;
    RpChatPrompt        out;
    char               *text;
    bool               *control;
    const RpChatRequest r = {.json = json, .json_bytes = sizeof json - 1};
    OK(rp_chat_template_new(tk, "t", source, sizeof source - 1, &t));
    OK(rp_chat_prompt(t, &r, &text, &control, &out));
    static const char want[] = "<|start|><|channel|>final<|message|><|end|>";
    cr_expect_str_eq(text, want);
    for (size_t i = 0; i < sizeof want - 1; i++) cr_expect_eq(control[i], i < sizeof want - 8, CASE(i));
    free(text), free(control);
    rp_chat_template_free(t);
}

Test(chat_begun, refuses_what_begins_no_reply) {
    static const struct {
        const char *members;
        RpStatus    status;
        const char *why;
    } cases[] = {
        {"\"messages\": [" BEGUN "], \"continue_final_message\": 1",                                              RP_E_FORMAT,
         "continue_final_message must be true or false"                                                                                                                                                               },
        {"\"messages\": [" ASK "], \"continue_final_message\": true",                                             RP_E_ARG,
         "continue_final_message: the last message must be one of the assistant"                                                                                                                                      },
        {"\"messages\": [], \"continue_final_message\": true",                                                    RP_E_ARG,
         "continue_final_message: the last message must be one of the assistant"                                                                                                                                      },
        {"\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"name\": \"f\"}]}], \"continue_final_message\": "
         "true",                                                                                         RP_E_ARG,    "continue_final_message: the last message must have no tool_calls"                     },
        {"\"messages\": [{\"role\": \"assistant\", \"content\": []}], \"continue_final_message\": true",          RP_E_FORMAT,
         "continue_final_message: the last message must have texts as strings"                                                                                                                                        },
        {"\"messages\": [{\"role\": \"assistant\", \"reasoning_content\": 1}], \"continue_final_message\": true",
         RP_E_FORMAT,                                                                                                          "continue_final_message: the last message must have texts as strings"                  },
        {"\"messages\": [" BEGUN "], \"continue_final_message\": true, \"tools\": [{\"name\": \"f\"}], "
         "\"tool_choice\": \"required\"",                                                                RP_E_ARG,    "continue_final_message: tool_choice must not ask for a call"                          },
        {"\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": \"r\"}], "
         "\"continue_final_message\": true",                                                             RP_E_ARG,    "continue_final_message: this model writes no reasoning, and the last message has some"},
    };
    static const char source[] = "{{ messages | length }}{{ tools }}";
    RpChatTemplate   *t;
    OK(rp_chat_template_new(tk, "t", source, sizeof source - 1, &t));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char json[512];
        snprintf(json, sizeof json, "{%s}", cases[i].members);
        expect_refused(t, json, cases[i].status, cases[i].why);
    }
    rp_chat_template_free(t);
}

static void expect_events(const char *calls, bool in_reasoning, bool continues, const char *reply, const char *want) {
    Transcript     t = {0};
    RpReplyParser *p;
    OK(rp_reply_parser_new(
        &(RpReplyParserOptions){
            .format       = {calls, strcmp(calls, "harmony") == 0 ? "none" : "think"},
            .in_reasoning = in_reasoning,
            .continues    = continues,
            .on_event     = transcript_event,
            .user         = &t
    },
        &p));
    cr_expect_eq(rp_reply_parser_in_reasoning(p), in_reasoning && (continues || strcmp(calls, "harmony") != 0));
    OK(rp_reply_parser_bytes(p, reply, strlen(reply), false));
    OK(rp_reply_parser_end(p));
    cr_expect_str_eq(joined(&t.all), want, "%s, %s", calls, reply);
    rp_reply_parser_free(p);
    transcript_free(&t);
}

/* White space at the begin is part of the text, and a header of harmony is over. */
Test(chat_begun, events_are_those_of_the_rest) {
    expect_events("none", false, true, " by", "T  by\n. ");
    expect_events("none", true, true, " so\n</think>\n\nby", "R  so\nT by\n. ");
    expect_events("none", true, false, " so\n</think>\n\nby", "R so\nT by\n. ");
    expect_events("harmony", false, true, " by<|return|>", "T  by\n. ");
    expect_events("harmony", true, true, " so<|end|><|start|>assistant<|channel|>final<|message|>by",
                  "R  so\nT by\n. ");
    expect_events("llama3", false, true, "{\"name\": 1}", "T {\"name\": 1}\n. ");
}

/* With a format the answer is one of it, the begin included. */
Test(chat_begun, an_answer_of_a_format_goes_on) {
#define FORMAT "\"response_format\": {\"type\": \"json_schema\", \"schema\": {\"enum\": [\"Oslo\", \"Bergen\"]}}"
#define LAST(text)                                                                                                     \
    "{\"messages\": [{\"role\": \"assistant\", \"content\": " text "}], \"continue_final_message\": true, " FORMAT "}"
    static const char source[] = "{{ messages | length }}:";
    RpModel          *model;
    RpSession        *session;
    RpSampler        *sampler;
    RpChatTemplate   *t;
    RpChatResult      r;
    RpSamplerParams   hot = rp_sampler_defaults();
    hot.temperature       = 2.0f;
    OK(rp_model_open(RP_SOURCE_DIR "/assets/demo.gguf", NULL, &model));
    OK(rp_session_open(model, &(RpSessionOptions){.n_ctx = 96, .n_threads = 1, .device = "cpu"}, &session));
    OK(rp_sampler_new(&hot, rp_model_info(model)->n_vocab, &sampler));
    OK(rp_chat_template_new(rp_model_tokenizer(model), "t", source, sizeof source - 1, &t));
    Transcript    out = {0};
    RpChatOptions o   = {.chat_template = t, .on_event = transcript_event, .user = &out};
    for (int i = 0; i < 8; i++) {
        o.json       = LAST("\"\\\"Be\"");
        o.json_bytes = strlen(o.json);
        OK(rp_chat_generate(session, sampler, &o, &r));
        cr_expect_str_eq(joined(&out.text), "rgen\"", CASE(i));
        transcript_free(&out);
    }
    o.json       = LAST("\"\\\"Stavanger\"");
    o.json_bytes = strlen(o.json);
    REFUSED(rp_chat_generate(session, sampler, &o, &r), RP_E_ARG,
            "continue_final_message: no reply that the request allows begins with the text of the last message");
    rp_chat_template_free(t);
    rp_sampler_free(sampler);
    rp_session_free(session);
    rp_model_free(model);
}
